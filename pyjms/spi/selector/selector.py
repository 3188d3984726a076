"""A selector that has been parsed, checked and compiled, the cache of those in use (JMS 1.1 §3.8), and explanations of a result for a message.

The truth tables are those of SQL's three-valued logic (JMS 1.1 §3.8.1.2). None is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector.compile import compile_condition
from pyjms.spi.selector.headers import read
from pyjms.spi.selector.nodes import And, Node, Not, Or, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector.headers import Equalities
    from pyjms.spi.selector.nodes import Node
    from pyjms.types import Stored

_WORDS: dict[Truth, str] = {True: "true", False: "false", None: "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The value of a clause for one message: True, False or None for unknown (JMS 1.1 §3.8.1.2)."""

    text: str
    """The clause's text in the selector."""
    value: Truth
    read: tuple[tuple[str, Stored], ...]
    """The names that the clause reads, with their values; None is null. Empty if the clause has clauses of its own."""
    clauses: tuple[Explanation, ...]
    """The operands of AND, OR or NOT, in the order of the text."""

    @property
    def deciding(self) -> tuple[Explanation, ...]:
        """The smallest clauses that determine the value: in AND and OR those that have the value of the whole.

        Where an AND is false or an OR true, each of them is enough; otherwise it takes them all.
        """
        if not self.clauses:
            return (self,)
        if len(self.clauses) == 1:
            return self.clauses[0].deciding
        same = [clause for clause in self.clauses if clause.value is self.value]
        return tuple(found for clause in same for found in clause.deciding)

    def __str__(self) -> str:
        """Return the clauses as a tree, one on a line, with a mark at the deciding ones."""
        deciding = {id(clause) for clause in self.deciding}
        lines = []
        pending: list[tuple[int, Explanation]] = [(0, self)]
        while pending:
            level, clause = pending.pop()
            mark = ">" if id(clause) in deciding else " "
            # A clause may span several lines.
            text = "".join(" " if character.isspace() else character for character in clause.text)
            values = ", ".join(f"{name}: {'null' if value is None else repr(value)}" for name, value in clause.read)
            lines.append(f"{mark} {'  ' * level}{_WORDS[clause.value]:<8} {text}{values and f'    ({values})'}")
            # In reverse, as the last one of the list is the next to be written.
            pending.extend((level + 1, inner) for inner in reversed(clause.clauses))
        return "\n".join(lines)


def explain(node: Node, text: str, envelope: Envelope) -> Explanation:
    """Return the explanation of the condition `node` of the selector `text`."""
    clauses: tuple[Explanation, ...] = ()
    names: tuple[str, ...] = ()
    match node:
        case And(terms=terms):
            clauses = tuple(explain(term, text, envelope) for term in terms)
            value = conjunction(clause.value for clause in clauses)
        case Or(terms=terms):
            clauses = tuple(explain(term, text, envelope) for term in terms)
            value = disjunction(clause.value for clause in clauses)
        case Not(operand=operand):
            clauses = (explain(operand, text, envelope),)
            value = NOT[clauses[0].value]
        case _:
            names = names_in(node)
            value = _evaluate(node, envelope)
    return Explanation(
        text=text[node.start : node.end],
        value=value,
        read=tuple((name, read(envelope, name)) for name in names),
        clauses=clauses,
    )


def _evaluate(node: Node, envelope: Envelope) -> Truth:
    # The clause is compiled by itself: the explanation uses the code that runs, and the rules are written once.
    matches, fails = compile_condition(node)
    if matches(envelope):
        return True
    return False if fails(envelope) else None


Truth: TypeAlias = bool | None

_TRUE: Final = True
_FALSE: Final = False
_UNKNOWN: Final = None

AND: Final[Mapping[tuple[Truth, Truth], Truth]] = MappingProxyType(
    {
        (_TRUE, _TRUE): _TRUE,
        (_TRUE, _FALSE): _FALSE,
        (_TRUE, _UNKNOWN): _UNKNOWN,
        (_FALSE, _TRUE): _FALSE,
        (_FALSE, _FALSE): _FALSE,
        (_FALSE, _UNKNOWN): _FALSE,
        (_UNKNOWN, _TRUE): _UNKNOWN,
        (_UNKNOWN, _FALSE): _FALSE,
        (_UNKNOWN, _UNKNOWN): _UNKNOWN,
    }
)

OR: Final[Mapping[tuple[Truth, Truth], Truth]] = MappingProxyType(
    {
        (_TRUE, _TRUE): _TRUE,
        (_TRUE, _FALSE): _TRUE,
        (_TRUE, _UNKNOWN): _TRUE,
        (_FALSE, _TRUE): _TRUE,
        (_FALSE, _FALSE): _FALSE,
        (_FALSE, _UNKNOWN): _UNKNOWN,
        (_UNKNOWN, _TRUE): _TRUE,
        (_UNKNOWN, _FALSE): _UNKNOWN,
        (_UNKNOWN, _UNKNOWN): _UNKNOWN,
    }
)

NOT: Final[Mapping[Truth, Truth]] = MappingProxyType({_TRUE: _FALSE, _FALSE: _TRUE, _UNKNOWN: _UNKNOWN})


def conjunction(values: Iterable[Truth]) -> Truth:
    """Return the value of ``a AND b AND …``."""
    return reduce(lambda left, right: AND[left, right], values)


def disjunction(values: Iterable[Truth]) -> Truth:
    """Return the value of ``a OR b OR …``."""
    return reduce(lambda left, right: OR[left, right], values)


_CACHE_SIZE = 1024
_WORD = re.compile(r"'(?:[^']|'')*'|<>|<=|>=|[=<>+\-*/(),]|[^\s'=<>+\-*/(),]+")
# Longer selectors are rare, and would make the cache large.
_CACHED_LENGTH_MAX = 4096


@dataclass(frozen=True, slots=True, repr=False)
class Selector:
    """A condition on messages. Immutable; equal to every selector of the same text; any thread may use it.

    Made by `compile_selector`.
    """

    text: str
    """The selector as it was given."""
    matches: Callable[[Envelope], bool] = field(compare=False)
    """``matches(envelope)`` returns whether the message is selected: False and unknown are both no (§3.8.1.2).

    The compiled function itself, so that a queue tests a message with a single call.
    """
    identifiers: frozenset[str] = field(compare=False)
    """The names of the header fields and properties that the selector reads."""
    _fails: Callable[[Envelope], bool] = field(compare=False)
    _root: Node = field(compare=False)
    equalities: Equalities = field(default=(), compare=False)
    """The identifiers and values that a message must have to match, for look-ups by value. (): none are known, or the selector reads messages in another way."""

    @property
    def root(self) -> Node:
        """The syntax tree, for translating the condition into another form."""
        return self._root

    def evaluate(self, envelope: Envelope) -> bool | None:
        """Return the value of the condition for a message: True, False, or None for unknown (§3.8.1.2)."""
        if self.matches(envelope):
            return True
        return False if self._fails(envelope) else None

    def explain(self, envelope: Envelope) -> Explanation:
        """Return the value of each clause for a message, and so the deciding ones. For people: it is slow."""
        from pyjms.spi.selector.selector import explain

        return explain(self._root, self.text, envelope)

    def __repr__(self) -> str:
        return f"compile_selector({self.text!r})"

    def __reduce__(self) -> tuple[Callable[[str], Selector], tuple[str]]:
        # Compiled functions cannot be pickled, texts can.
        return compile_selector, (self.text,)


def compile_selector(text: str) -> Selector:
    """Return the selector of `text`; the empty text is a selector that every message satisfies.

    Selectors of ordinary length are cached. Raises `InvalidSelectorError` if the text breaks the rules of JMS 1.1
    §3.8.1.1, is longer than 65,536 characters, or nests more than 100 levels deep.
    """
    return _cached(text) if len(text) <= _CACHED_LENGTH_MAX else _compile(text)


def selector_or_none(text: str | None) -> Selector | None:
    """Return the selector of `text`, or None for None and "", which both mean: no selector (JMS 1.1 §3.8.1.1)."""
    return compile_selector(text) if text else None


def _compile(text: str) -> Selector:
    # The parser library takes a tenth of a second to import, and the syntax tree a fifth of that: only programs with selectors pay for it.
    from pyjms.spi.selector.check import check
    from pyjms.spi.selector.compile import compile_condition
    from pyjms.spi.selector.headers import equalities_in
    from pyjms.spi.selector.nodes import Boolean, names_in
    from pyjms.spi.selector.parse import parse

    root: Node = Boolean(value=True, start=0, end=0)
    try:
        if text:
            root = parse(text)
            check(root, text)
        matches, fails = compile_condition(root)
    except RecursionError:
        # Far from the limit on nesting, but the caller's own calls have left too little of Python's stack.
        raise InvalidSelectorError("too little stack is left to compile the selector", text, 0) from None
    return Selector(text, matches, frozenset(names_in(root)), fails, root, equalities_in(root))


_cached = lru_cache(maxsize=_CACHE_SIZE)(_compile)


def is_same_text(one: str | None, other: str | None) -> bool:
    """Return whether two texts of valid selectors differ only in white space between their words."""
    return one == other or (one is not None and other is not None and _words(one) == _words(other))


def _words(text: str) -> list[str]:
    """Return a selector's texts, names, numbers and operators."""
    return _WORD.findall(text)
