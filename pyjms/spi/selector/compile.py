"""From the syntax tree of a selector to Python functions of an envelope.

For each condition two expressions can be made: one that is true when the condition is true, and one that is true when
it is false. AND, OR and NOT combine these by Python's own operators (NOT a is true when a is false; a AND b is false
when a is false or b is), so that a running selector never holds an unknown value, and stops at the first clause that
decides (JMS 1.1 §3.8.1.2).

The functions are built from `ast` nodes, never from text: names and literals of a selector become constants. Three
facts keep the commonest conditions short:

- ``x = 'EU'`` needs no test of the type: no value but a string equals a string.
- A whole number up to 2**24, a double below 2**53 and a float below 2**24 compare with every number in Python, which is
  exact, as they do in Java, which promotes first: promotion moves no value onto such a literal, or past it.
Other literals, floats excepted, compare so with Python's plain int, a Java int; all others are left to `arithmetic.py`.

An identifier is read when it is first needed, and once: where it is unknown whether an earlier clause has read it,
it is read in advance.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from types import CodeType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pyjms.spi.selector import nodes
from pyjms.spi.selector.arithmetic import (
    CALCULATE,
    FAILS,
    HOLDS,
    NUMBERS,
    as_long,
    between_fails,
    between_holds,
    calculate_all,
    minus,
    not_between_fails,
    not_between_holds,
    plus,
)
from pyjms.spi.selector.headers import ATTRIBUTES, FUNCTIONS
from pyjms.types import Float

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector.nodes import ArithmeticOperator, ComparisonOperator, Node


_COMPARE: Final[Mapping[ComparisonOperator, type[ast.cmpop]]] = MappingProxyType(
    {"=": ast.Eq, "<>": ast.NotEq, "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}
)
_MIRRORED: Final[Mapping[ComparisonOperator, ComparisonOperator]] = MappingProxyType(
    {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
)
_SIGNS: Final = MappingProxyType({"+": plus, "-": minus})
_BETWEEN: Final = MappingProxyType(
    {
        (False, True): between_holds,
        (False, False): between_fails,
        (True, True): not_between_holds,
        (True, False): not_between_fails,
    }
)
_TEMPLATE: Final = "def matches(envelope): pass\ndef fails(envelope): pass"

# Names in the functions that are made; those of identifiers are v0, v1, …, of other values t1, t2, ….
_ENVELOPE: Final = "envelope"
_PROPERTIES: Final = "properties"
_NESTED_CALLS_MAX: Final = 4
_Literal = (nodes.Number, nodes.String, nodes.Boolean)


def compile_condition(root: Node) -> tuple[Callable[[Envelope], bool], Callable[[Envelope], bool]]:
    """Return two functions: whether the condition is true for an envelope, and whether it is false.

    `root` must have passed the checks.
    """
    names: dict[str, Any] = {"type": type, "str": str, "int": int, "NUMBERS": NUMBERS}
    module = ast.parse(_TEMPLATE)
    for function, wanted in zip(module.body, (True, False), strict=True):
        assert isinstance(function, ast.FunctionDef)
        function.body = _body(root, names, wanted=wanted)
    # The compiler refuses nodes without a place in a text, which nodes made by hand do not have.
    for node in ast.walk(module):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    code = compile(module, "<selector>", "exec", dont_inherit=True)
    # The module is compiled and never run: its two functions are taken out of its constants.
    matches, fails = (FunctionType(part, names) for part in code.co_consts if isinstance(part, CodeType))
    return matches, fails


def _body(root: Node, names: dict[str, Any], *, wanted: bool) -> list[ast.stmt]:
    writer = _Writer(names, ())
    result = writer.condition(root, set(), wanted=wanted)
    # The first pass finds the identifiers that are read at several places; the second one reads those in advance.
    if writer.read_twice:
        writer = _Writer(names, writer.read_twice)
        result = writer.condition(root, set(), wanted=wanted)
    return [*writer.preparation(), ast.Return(result)]


class _Operand(NamedTuple):
    """A value in the forms for its first evaluation, and for later ones."""

    first: ast.expr
    again: ast.expr

    @property
    def settled(self) -> _Operand:
        return _Operand(self.again, self.again)


# ---------------------------------------------------------------------------------------------- expressions, shortly


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _constant(value: str | float | bool | None) -> ast.expr:
    return ast.Constant(value)


def _attribute(owner: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(owner, name, ast.Load())


def _call(function: ast.expr, *arguments: ast.expr) -> ast.expr:
    return ast.Call(function, list(arguments), [])


def _compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [operator], [right])


def _both(*conditions: ast.expr) -> ast.expr:
    return ast.BoolOp(ast.And(), list(conditions))


def _not(condition: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), condition)


def _has_type(value: ast.expr, name: str) -> ast.expr:
    return _compare(_call(_name("type"), value), ast.Is(), _name(name))


def _is_plain(value: float) -> bool:
    """Whether a number compares in Python as in Java with every number (the second of the module's facts)."""
    if isinstance(value, int):
        return -(2**24) <= value <= 2**24
    limit = 2**24 if isinstance(value, Float) else 2**53
    return -limit < value < limit


class _Writer:
    """Writes the expression of one function.

    `known` is, in all methods, the set of identifiers that were read before the expression is evaluated; a method
    adds those that its expression reads in any case.
    """

    def __init__(self, names: dict[str, Any], in_advance: Sequence[str]) -> None:
        self._names = names
        self._locals: dict[str, str] = {}
        self._reads: Counter[str] = Counter()
        self._temporaries = 0
        self._in_advance = tuple(in_advance)

    @property
    def read_twice(self) -> tuple[str, ...]:
        """The identifiers that are read in more than one place."""
        return tuple(name for name, count in self._reads.items() if count > 1)

    def preparation(self) -> list[ast.stmt]:
        """Return the statements that must precede the expression."""
        values = {self._local(name): self._read(name) for name in self._in_advance}
        if any(name not in ATTRIBUTES and name not in FUNCTIONS for name in (*self._reads, *self._in_advance)):
            values = {_PROPERTIES: _attribute(_name(_ENVELOPE), "properties"), **values}
        return [ast.Assign([ast.Name(local, ast.Store())], value) for local, value in values.items()]

    # ------------------------------------------------------------------------------------------------- conditions

    def condition(self, node: Node, known: set[str], *, wanted: bool) -> ast.expr:
        """Return an expression that is true if `node` is true, or with `wanted` False if it is false."""
        match node:
            case nodes.Boolean(value=value):
                return _constant(value is wanted)
            case nodes.Not(operand=operand):
                return self.condition(operand, known, wanted=not wanted)
            case nodes.And(terms=terms):
                return self._chain(ast.And() if wanted else ast.Or(), terms, known, wanted=wanted)
            case nodes.Or(terms=terms):
                return self._chain(ast.Or() if wanted else ast.And(), terms, known, wanted=wanted)
            case nodes.Identifier():
                # A value that is no boolean makes the condition unknown: neither it nor its negation matches.
                return _compare(self._value(node, known).first, ast.Is(), _constant(wanted))
            case nodes.IsNull(operand=operand, negated=negated):
                test = ast.IsNot() if negated is wanted else ast.Is()
                return _compare(self._value(operand, known).first, test, _constant(None))
            case nodes.Comparison():
                return self._comparison(node, known, wanted=wanted)
            case nodes.Between():
                return self._between(node, known, wanted=wanted)
            case nodes.In():
                return self._decide(node.operand, known, lambda operand: self._in(node, operand), wanted=wanted)
            case nodes.Like():
                return self._decide(node.operand, known, lambda operand: self._like(node, operand), wanted=wanted)
        raise AssertionError(f"{type(node).__name__} is no condition")

    def _chain(self, operator: ast.boolop, terms: Sequence[Node], known: set[str], *, wanted: bool) -> ast.expr:
        # The first term is evaluated in any case; a later one after all the terms before it.
        first = self.condition(terms[0], known, wanted=wanted)
        inside = set(known)
        return ast.BoolOp(operator, [first, *(self.condition(term, inside, wanted=wanted) for term in terms[1:])])

    def _decide(self, node: Node, known: set[str], holds: Callable[[_Operand], ast.expr], *, wanted: bool) -> ast.expr:
        """Return the expression of a condition that `node` alone decides.

        It is false if the value of `node` is not null and the condition does not hold.
        """
        operand = self._value(node, known)
        if wanted:
            return holds(operand)
        # A condition on null is unknown, and so is its negation: neither may match (§3.8.1.2).
        not_null = _compare(operand.first, ast.IsNot(), _constant(None))
        return _both(not_null, _not(holds(operand.settled)))

    def _comparison(self, node: nodes.Comparison, known: set[str], *, wanted: bool) -> ast.expr:
        operator, left, right = node.operator, node.left, node.right
        # The literal goes to the right, so that ``5 < x`` gets the short form of ``x > 5``.
        if isinstance(left, _Literal):
            operator, left, right = _MIRRORED[operator], right, left
        if isinstance(right, _Literal) and not isinstance(left, _Literal):
            literal = right
            return self._decide(left, known, lambda value: self._holds(operator, value, literal), wanted=wanted)
        function = (HOLDS if wanted else FAILS)[node.operator]
        return _call(self._global(function), self._value(node.left, known).first, self._value(node.right, known).first)

    def _holds(
        self, operator: ComparisonOperator, value: _Operand, literal: nodes.Number | nodes.String | nodes.Boolean
    ) -> ast.expr:
        """Return whether ``value operator literal`` is true."""
        if isinstance(literal, nodes.Boolean):
            return _compare(value.first, ast.Is(), _constant(literal.value is (operator == "=")))
        if isinstance(literal, nodes.String):
            if operator == "=":
                return _compare(value.first, ast.Eq(), _constant(literal.value))
            return _both(_has_type(value.first, "str"), _compare(value.again, ast.NotEq(), _constant(literal.value)))
        if operator == "=" and literal.value not in {0, 1} and _is_plain(literal.value):
            # No other value equals a number, except False and True, which Python takes for 0 and 1.
            return _compare(value.first, ast.Eq(), self._plain(literal))
        fast = _compare(value.again, _COMPARE[operator](), self._plain(literal))
        return self._numeric(value, fast, HOLDS[operator], literal)

    def _numeric(self, value: _Operand, fast: ast.expr, slow: Callable[..., bool], *literals: nodes.Number) -> ast.expr:
        """Return `fast` for numbers that it fits, and for others the result of `slow` for the value and the literals."""
        if all(_is_plain(literal.value) for literal in literals):
            return _both(_compare(_call(_name("type"), value.first), ast.In(), _name("NUMBERS")), fast)
        typed = [self._literal(literal) for literal in literals]
        if any(isinstance(literal.value, Float) for literal in literals):
            return _call(self._global(slow), value.first, *typed)
        return ast.IfExp(_has_type(value.first, "int"), fast, _call(self._global(slow), value.again, *typed))

    def _between(self, node: nodes.Between, known: set[str], *, wanted: bool) -> ast.expr:
        low, high = node.low, node.high
        if isinstance(low, nodes.Number) and isinstance(high, nodes.Number) and not isinstance(node.operand, _Literal):
            bounds = (low, high)
            return self._decide(
                node.operand, known, lambda value: self._in_range(value, bounds, negated=node.negated), wanted=wanted
            )
        operands = (self._value(operand, known).first for operand in (node.operand, low, high))
        return _call(self._global(_BETWEEN[node.negated, wanted]), *operands)

    def _in_range(self, value: _Operand, bounds: tuple[nodes.Number, nodes.Number], *, negated: bool) -> ast.expr:
        low, high = (self._plain(bound) for bound in bounds)
        if negated:
            below, above = _compare(value.again, ast.Lt(), low), _compare(value.again, ast.Gt(), high)
            return self._numeric(value, ast.BoolOp(ast.Or(), [below, above]), not_between_holds, *bounds)
        inside = ast.Compare(low, [ast.LtE(), ast.LtE()], [value.again, high])
        return self._numeric(value, inside, between_holds, *bounds)

    def _in(self, node: nodes.In, operand: _Operand) -> ast.expr:
        # Of constants only: Python makes it one frozen set.
        items = ast.Set([_constant(item.value) for item in node.items if isinstance(item, nodes.String)])
        if not node.negated:
            return _compare(operand.first, ast.In(), items)
        return _both(_has_type(operand.first, "str"), _compare(operand.again, ast.NotIn(), items))

    def _like(self, node: nodes.Like, operand: _Operand) -> ast.expr:
        assert isinstance(node.pattern, nodes.String)
        escape = node.escape.value if isinstance(node.escape, nodes.String) else None
        pattern = compile_pattern(node.pattern.value, escape)
        test = self._fits(pattern, operand.again)
        return _both(_has_type(operand.first, "str"), _not(test) if node.negated else test)

    def _fits(self, pattern: Pattern, value: ast.expr) -> ast.expr:
        """Return whether the string `value` matches."""
        text = _constant(pattern.text)
        match pattern.shape:
            case Shape.ANY:
                return _constant(True)
            case Shape.EXACT:
                return _compare(value, ast.Eq(), text)
            case Shape.PREFIX:
                return _call(_attribute(value, "startswith"), text)
            case Shape.SUFFIX:
                return _call(_attribute(value, "endswith"), text)
            case Shape.PART:
                return _compare(text, ast.In(), value)
            case Shape.EXPRESSION:
                fullmatch = self._global(re.compile(pattern.text).fullmatch)
                return _compare(_call(fullmatch, value), ast.IsNot(), _constant(None))

    # ----------------------------------------------------------------------------------------------------- values

    def _value(self, node: Node, known: set[str]) -> _Operand:
        """Return an expression that evaluates `node`."""
        match node:
            case nodes.Identifier(name=name):
                local = self._local(name)
                if name in known or name in self._in_advance:
                    return _Operand(_name(local), _name(local))
                known.add(name)
                self._reads[name] += 1
                return self._keep(self._read(name), local)
            case nodes.Number() | nodes.String() | nodes.Boolean():
                literal = self._literal(node)
                return _Operand(literal, literal)
            case nodes.Sign(operator=operator, operand=operand):
                return self._keep(_call(self._global(_SIGNS[operator]), self._term(operand, known)))
            case nodes.Arithmetic(first=first, rest=rest):
                operands = [self._term(operand, known) for operand in (first, *(operand for _, operand in rest))]
                return self._keep(self._calculation([operator for operator, _ in rest], operands))
        raise AssertionError(f"{type(node).__name__} is no value")

    def _calculation(self, operators: list[ArithmeticOperator], operands: list[ast.expr]) -> ast.expr:
        if len(operators) > _NESTED_CALLS_MAX:
            # Calls within calls would make the expression too deep for Python's compiler.
            return _call(self._global(partial(calculate_all, tuple(operators))), *operands)
        result, *others = operands
        for operator, operand in zip(operators, others, strict=True):
            result = _call(self._global(CALCULATE[operator]), result, operand)
        return result

    def _term(self, node: Node, known: set[str]) -> ast.expr:
        """Return an expression that evaluates an operand of arithmetic."""
        value = self._value(node, known).first
        if isinstance(node, nodes.Identifier) and node.name == "JMSTimestamp":
            # The one long that an envelope stores as a plain int; comparisons give the same result, sums do not.
            return _call(self._global(as_long), value)
        return value

    def _keep(self, value: ast.expr, local: str | None = None) -> _Operand:
        """Return `value`, kept in a local variable for later use."""
        if local is None:
            self._temporaries += 1
            local = f"t{self._temporaries}"
        return _Operand(ast.NamedExpr(ast.Name(local, ast.Store()), value), _name(local))

    def _read(self, name: str) -> ast.expr:
        """Return an expression that reads an identifier."""
        if name in ATTRIBUTES:
            return _attribute(_name(_ENVELOPE), ATTRIBUTES[name])
        if name in FUNCTIONS:
            return _call(self._global(FUNCTIONS[name]), _name(_ENVELOPE))
        return _call(_attribute(_name(_PROPERTIES), "get"), _constant(name))

    def _local(self, name: str) -> str:
        return self._locals.setdefault(name, f"v{len(self._locals)}")

    def _literal(self, node: nodes.Number | nodes.String | nodes.Boolean) -> ast.expr:
        """Return a literal with its Java type, as functions need it; only a plain int or float is a constant."""
        return self._plain(node) if type(node.value) in {int, float, str, bool} else self._global(node.value)

    def _plain(self, node: nodes.Number | nodes.String | nodes.Boolean) -> ast.expr:
        """Return a literal as a Python constant."""
        value = node.value
        if isinstance(value, float):
            return _constant(float(value))
        return _constant(int(value) if isinstance(value, int) and not isinstance(value, bool) else value)

    def _global(self, value: object) -> ast.expr:
        """Return the name of a global variable of the function that holds `value`."""
        # The name follows from the identity: `names` holds the object, so that no other one gets its id.
        name = f"g{id(value)}"
        self._names[name] = value
        return _name(name)


_Piece: TypeAlias = tuple[str | None, ...]
"""The characters between two %; None stands for _."""


class Shape(Enum):
    """The way in which a text is tested."""

    ANY = auto()
    EXACT = auto()
    PREFIX = auto()
    SUFFIX = auto()
    PART = auto()
    EXPRESSION = auto()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A translated pattern: `text` is the text to be searched for, or the regular expression that must match as a whole."""

    shape: Shape
    text: str


def ends_in_escape(pattern: str, escape: str) -> bool:
    """Return whether the last character of `pattern` is an escape character with nothing to escape."""
    # Two escape characters stand for one: only an odd number leaves one over.
    return (len(pattern) - len(pattern.rstrip(escape))) % 2 == 1


def compile_pattern(pattern: str, escape: str | None) -> Pattern:
    """Translate a pattern that does not end in its escape character."""
    pieces = _split(pattern, escape)
    if any(None in piece for piece in pieces):
        return Pattern(Shape.EXPRESSION, _expression(pieces))
    texts = ["".join(character or "" for character in piece) for piece in pieces]
    if len(texts) == 1:
        return Pattern(Shape.EXACT, texts[0])
    if not any(texts):
        return Pattern(Shape.ANY, "")
    if len(texts) == 2 and not texts[1]:
        return Pattern(Shape.PREFIX, texts[0])
    if len(texts) == 2 and not texts[0]:
        return Pattern(Shape.SUFFIX, texts[1])
    if len(texts) == 3 and not texts[0] and not texts[2]:
        return Pattern(Shape.PART, texts[1])
    return Pattern(Shape.EXPRESSION, _expression(pieces))


def _split(pattern: str, escape: str | None) -> list[_Piece]:
    """Return the pieces before, between and after the %; several % in a row are one."""
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            pieces[-1].append(next(characters))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    # An empty piece lies between two % in a row, which mean the same as one.
    inner = [tuple(piece) for piece in pieces[1:-1] if piece]
    return [tuple(pieces[0]), *inner, *([tuple(pieces[-1])] if len(pieces) > 1 else [])]


def _expression(pieces: list[_Piece]) -> str:
    first, *inner = ("".join("." if character is None else re.escape(character) for character in p) for p in pieces)
    if not inner:
        return f"(?s:{first})"
    last = inner.pop()
    # Atomic groups: a piece stays at the first place where it is found, since a later one
    # leaves less room for the rest.
    return f"(?s:{first}{''.join(f'(?>.*?{piece})' for piece in inner)}.*{last})"
