"""Calls of methods of the program, of JMS and of Java's library: overload resolution, and the Python of each call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from pyjms.porting.bodies import body_class, tell_body, tell_trusted
from pyjms.porting.codes import as_factor, as_operand, binary, is_pure, quoted
from pyjms.porting.constants import check_text, constant_text, tell_property_name
from pyjms.porting.conversions import BOXES, TAKE_BOXES, boxed_type, concatenated, convert, text_of_value
from pyjms.porting.expressions import around, class_named, holder, range_named
from pyjms.porting.model import (
    BOOLEAN,
    OBJECT,
    STRING,
    VOID,
    Expr,
    Type,
    Unportable,
    child,
    children,
    needed,
    text_of,
    walk,
)
from pyjms.porting.table import expression, is_expression, value_for, without_parentheses
from pyjms.porting.types import (
    Member,
    arguments_of,
    find_members,
    function_method,
    substituted,
    type_named,
    unify,
    unknown_class_advice,
    without_variables,
)
from pyjms.porting.unit import ClassInfo, MethodInfo, Unit

_ORDER: Final = ("byte", "short", "int", "long", "float", "double")
_UNKNOWN: Final = Type("?")


@dataclass(slots=True)
class Argument:
    """An argument: translated, or, if its type depends on the parameter's, not yet."""

    node: Node
    expr: Expr | None
    type: Type

    def as_type(self, unit: Unit, target: Type) -> Expr:
        """Return it converted to a parameter's type."""
        if self.expr is None:
            return value_for(unit, self.node, target)
        return convert(unit, self.expr, target, self.node)


def given(unit: Unit, node: Node) -> list[Argument]:
    """Return the arguments of a call."""
    return [_argument(unit, each) for each in children(node)]


def _argument(unit: Unit, node: Node) -> Argument:
    inner = without_parentheses(node)
    # The type of a lambda comes from the parameter, and the method is not chosen yet.
    if inner.type in {"lambda_expression", "method_reference"} or _is_late(inner):
        return Argument(node, None, _UNKNOWN)
    # A class has another form where JMS takes it.
    if inner.type == "class_literal":
        return Argument(node, None, Type("java.lang.Class", (unit.find_type(children(inner)[0]),)))
    # Deferred, too: `new ArrayList<>()` gets its type arguments from the parameter.
    if inner.type == "object_creation_expression":
        return Argument(node, None, unit.find_type(needed(inner, "type")))
    made = expression(unit, node)
    return Argument(node, made, made.type)


def _is_late(node: Node) -> bool:
    """Whether a call is best translated once its result type is known, which determines the types of lambdas in it."""
    if node.type != "method_invocation" or (around := child(node, "object")) is None:
        return False
    return text_of(around) in {"Collectors", "Comparator", "Map.Entry", "Entry", "Function"}


def fits_function(unit: Unit, node: Node, target: Type) -> bool:
    """Return whether a lambda may be passed: whether the number of parameters fits, and the result."""
    node = without_parentheses(node)
    if node.type != "lambda_expression":
        return True
    method = function_method(target.name)
    if method is None:
        return unit.class_info(target.name) is not None
    params = needed(node, "parameters")
    count = 1 if params.type == "identifier" else len(children(params))
    if count != len(method.params or ()):
        return False
    body = needed(node, "body")
    if body.type == "block":
        returns = any(each.type == "return_statement" and children(each) for each in walk(body))
        # A block that cannot end normally fits both kinds of function (JLS §15.27.2).
        jumps = any(each.type in {"throw_statement", "while_statement"} for each in walk(body))
        return returns != (method.returns == "void") or (jumps and not returns)
    # An expression is a body without result only if it may stand as a statement (JLS §15.27.3).
    return method.returns != "void" or body.type in _STATEMENTS


_STATEMENTS: Final = frozenset(
    {
        "method_invocation",
        "assignment_expression",
        "update_expression",
        "object_creation_expression",
        "switch_expression",
    }
)


def fits(unit: Unit, source: Type, target: Type, *, loosely: bool) -> bool:
    """Return whether an argument may be passed; `loosely`: boxing is allowed."""
    if target.name in {"text", "any"}:
        return source.name != "void"
    if target.name.startswith("$"):
        return (
            source.name != "void" and source.dims >= target.dims and not (target.dims and source.element.is_primitive)
        )
    if source == target:
        return True
    # A lambda fits any interface here; `fits_function` checks whether it is a functional one.
    if source == _UNKNOWN:
        return not target.is_primitive and target != STRING
    if source.name == "null":
        return not target.is_primitive
    if source.is_primitive and target.is_primitive:
        # A char widens to int and beyond, but not to short, although both have 16 bits (JLS §5.1.2).
        if source.name == "char":
            return target.name in _ORDER[2:]
        return (
            source.name in _ORDER and target.name in _ORDER and _ORDER.index(source.name) <= _ORDER.index(target.name)
        )
    if source.is_primitive or target.is_primitive:
        if not loosely:
            return False
        if source.is_primitive:
            return target.name in TAKE_BOXES or BOXES.get(target.name) == source.name
        return BOXES.get(source.name) is not None and fits(unit, Type(BOXES[source.name]), target, loosely=False)
    if source.dims or target.dims:
        if not target.dims:
            return target.name == "java.lang.Object"
        is_array = source.dims == target.dims and not source.element.is_primitive and not target.element.is_primitive
        return is_array and unit.is_subtype(source.name, target.name)
    return unit.is_subtype(source.name, target.name)


def choose(
    unit: Unit, members: Sequence[Member], receiver: Type | None, arguments: Sequence[Argument]
) -> tuple[Member, list[Type]] | None:
    """Return the library member that a call refers to, with the types of its parameters."""
    return next(choices(unit, members, receiver, arguments), None)


def choices(
    unit: Unit, members: Sequence[Member], receiver: Type | None, arguments: Sequence[Argument]
) -> Iterator[tuple[Member, list[Type]]]:
    """Yield the library members that a call may refer to, the best match first: the result type of a lambda is not
    known yet.
    """
    # The phases of JLS §15.12.2: without boxing first, and with it only if no member matched.
    for loosely in (False, True):
        for member in members:
            if member.params is None:
                continue
            types = _types(member, arguments_of(member.owner, receiver), len(arguments))
            if types is not None and all(
                fits(unit, each.type, target, loosely=loosely)
                and (each.expr is not None or each.type != _UNKNOWN or fits_function(unit, each.node, target))
                for each, target in zip(arguments, types, strict=True)
            ):
                yield member, types


def _types(member: Member, bound: Mapping[str, Type], count: int) -> list[Type] | None:
    params = list(member.params or ())
    if member.variadic:
        fixed = len(params) - 1
        if count < fixed:
            return None
        params = [*params[:fixed], *[params[-1].removesuffix("...")] * (count - fixed)]
    return [type_named(each, bound) for each in params] if len(params) == count else None


def arguments_for(
    unit: Unit, arguments: Sequence[Argument], types: Sequence[Type], bound: dict[str, Type] | None = None
) -> list[Expr]:
    """Return arguments converted to the parameters of a library member; `bound` gets the type variables that they
    determine.
    """
    made = []
    bound = {} if bound is None else bound
    for each, pattern in zip(arguments, types, strict=True):
        if pattern.name not in {"text", "any"}:
            # In the order of the arguments: an earlier one may determine a type variable that a later lambda needs.
            target = substituted(pattern, bound)
            if target.name.startswith("$"):
                value = each.expr or expression(unit, each.node)
                value = convert(unit, value, boxed_type(value.type), each.node)
            else:
                value = each.as_type(unit, target)
            unify(pattern, value.type, bound)
            made.append(value)
            continue
        target = pattern
        value = each.expr or expression(unit, each.node)
        if target.name == "text":
            made.append(Expr(text_of_value(unit, value, each.node), STRING, known=True))
        elif value.type.name in {"float", "java.lang.Float"}:
            made.append(convert(unit, value, Type("java.lang.Object"), each.node))
        else:
            made.append(value)
    return made


def filled(template: str, receiver: str, arguments: Sequence[Expr], node: Node) -> str:
    """Return a template of the tables with its object and arguments inserted."""
    codes = [each.code for each in arguments]
    _check_order(template, [receiver, *codes], node)

    def put(match: re.Match[str]) -> str:
        if match["all"]:
            return ", ".join(codes[1:] if match["all"].startswith("2") else codes)
        place = int(match["place"])
        if not place:
            return as_operand(receiver) if receiver else ""
        argument = arguments[place - 1]
        # An exception, so that the caller uses another template that checks the index.
        if match["how"] == "i" and argument.limits[0] < 0:
            raise _Negative(argument)
        return as_factor(argument.code) if match["how"] == "a" else argument.code

    return _HOLE.sub(put, template)


_HOLE: Final = re.compile(r"\$(?:(?P<all>2?\*)|(?P<how>[ai])?(?P<place>\d))")


def _check_order(template: str, codes: Sequence[str], node: Node) -> None:
    """Raise `Unportable` if the template evaluates the arguments in another order than Java, or twice, and that may
    matter.
    """
    # `$*` puts all arguments in their order; a star between blanks is a product.
    if "*" in template.replace(" * ", ""):
        return
    places = [int(match[1]) for match in _PLACE.finditer(template)]
    wanted = [place for place in places if not is_pure(codes[place])]
    # Java evaluates the object and its arguments from the left, once each (JLS §15.12.4).
    if wanted != sorted(set(wanted)):
        raise Unportable(node, f"the order in which {text_of(node)[:40]} is evaluated", "give its parts names first")


_PLACE: Final = re.compile(r"\$[ai]?(\d)")


class _Negative(Exception):
    """An index that may be negative."""


def element_or_filled(template: str, receiver: str, arguments: Sequence[Expr], node: Node) -> str:
    """Return a filled template; an index that may be negative is checked at run time."""
    try:
        return filled(template, receiver, arguments, node)
    except _Negative:
        return f"java.at({receiver}, {arguments[0].code})"


def own_arguments(unit: Unit, method: MethodInfo, arguments: Sequence[Argument], node: Node) -> str:
    """Return the arguments of a method of the program."""
    unit.fill_signature(method)
    params = method.params
    if method.variadic:
        fixed = len(params) - 1
        rest = arguments[fixed:]
        # A single array, or null, is passed as the array itself (JLS §15.12.2.4).
        whole = len(rest) == 1 and (rest[0].type == params[-1] or rest[0].type.name == "null")
        if not whole:
            codes = [each.as_type(unit, target).code for each, target in zip(arguments, params[:-1], strict=False)]
            inner = ", ".join(each.as_type(unit, params[-1].element).code for each in rest)
            return ", ".join([*codes, f"[{inner}]"])
    if len(params) != len(arguments):
        raise Unportable(node, f"a call with {len(arguments)} arguments: {text_of(node)[:40]}")
    return ", ".join(each.as_type(unit, target).code for each, target in zip(arguments, params, strict=True))


# Calls of methods of JMS and of Java's library, by the tables.

_AS_STATEMENTS: Final = {
    "java.put($0, $1, $2)": "$0[$1] = $2",
    "java.added($0, $1)": "$0.append($1)",
    "java.added_all($0, $1)": "$0.extend($1)",
    "java.added_to_set($0, $1)": "$0.add($1)",
}
"""The form of a call whose result is not used."""
_UNORDERED: Final = frozenset({"java.util.HashMap", "java.util.Map", "java.util.Hashtable", "java.util.Properties"}) | {
    "java.util.concurrent.ConcurrentHashMap",
    "java.util.concurrent.ConcurrentMap",
}


def library_call(
    unit: Unit, node: Node, receiver: Expr | None, name: str, arguments: list[Argument], static: str | None = None
) -> Expr:
    """Return a call of a method of JMS or of Java's library."""
    kind = receiver.type if receiver is not None else Type(static or "?")
    if kind.dims:
        raise Unportable(node, f"{name}() of an array")
    members = [each for each in find_members(kind.name, name) if each.is_static or receiver is not None]
    if not members and receiver is not None and not kind.is_primitive:
        # Interfaces have the methods of Object, too (JLS §9.2), but do not list them.
        members = find_members(OBJECT.name, name)
    candidates = list(choices(unit, members, kind, arguments))
    if not candidates and receiver is not None and not kind.is_primitive:
        candidates = list(choices(unit, find_members(OBJECT.name, name), kind, arguments))
    if not candidates:
        types = ", ".join(str(each.type).rpartition(".")[2] for each in arguments)
        raise Unportable(
            node,
            f"{kind.name.rpartition('.')[2] if unit.knows(kind.name) else kind.name}.{name}({types})",
            _advice(kind.name),
        )
    wanted = unit.wanted.pop(node.id, None)
    for place, candidate in enumerate(candidates):
        # A candidate that fails may have written functions for its lambdas already.
        before = list(unit.before)
        try:
            return _chosen_call(unit, node, receiver, name, arguments, kind, candidate, wanted)
        except Unportable:
            if place + 1 == len(candidates):
                raise
            unit.before = before
    raise AssertionError(name)


def _chosen_call(
    unit: Unit,
    node: Node,
    receiver: Expr | None,
    name: str,
    arguments: list[Argument],
    kind: Type,
    candidate: tuple[Member, list[Type]],
    wanted: Type | None,
) -> Expr:
    """Return a call of one member of the library."""
    member, types_wanted = candidate
    returned = type_named(member.returns, arguments_of(member.owner, kind)) if member.returns != "void" else VOID
    bound: dict[str, Type] = {}
    if wanted is not None:
        # The target type determines type variables that no argument determines, such as that of
        # `Collections.emptyList()`.
        unify(returned, wanted, bound)
    # `equals`, `contains` and similar methods take any object: a box of another type is never equal, which Python's
    # numbers would ignore.
    if member.params and member.params[0] == "any":
        place = 1 if name == "containsValue" else 0
        element = kind if name == "equals" else kind.args[place] if len(kind.args) > place else OBJECT
        types_wanted = [_compared(unit, element, arguments[0], node), *types_wanted[1:]]
    if member.owner.name.startswith("javax.jms."):
        arguments = [_as_jms_takes_it(unit, each) for each in arguments]
    _tell(unit, node, kind, name, arguments)
    passed = arguments_for(unit, arguments, types_wanted, bound)
    if name == "toString" and kind.name.startswith("javax.jms.") and receiver is not None:
        # Called for its finding alone: the texts differ between providers.
        text_of_value(unit, receiver, node)  # it reports that texts differ between providers
    if receiver is not None and name == "equals" and (equal := _equal(receiver, passed[0], node)) is not None:
        return equal
    if name in {"createQueue", "createTopic", "getName", "getSimpleName"}:
        _check_names(unit, node, kind, name, passed)
    code = receiver.code if receiver is not None else ""
    returns = without_variables(substituted(returned, bound))
    if kind.name == "java.util.LinkedHashMap" and returns.name == "java.util.Set":
        # The views of a LinkedHashMap are ordered, and a Set would be reported as unordered.
        returns = Type("java.util.Collection", returns.args)  # which has an order
    if member.template is None:
        made = f"{as_operand(code)}.{name}({', '.join(each.code for each in passed)})"
    else:
        template = member.template
        # As a statement, where the result of `add` or `put` is not used, Python's own method is enough.
        if unit.statement_call == node.id:
            shorter = _AS_STATEMENTS.get(template, template)
            if "=" not in shorter or shorter == template:
                template = shorter
            # An assignment evaluates its value before its target, a call of `put` the other way round.
            elif is_pure(passed[1].code) or (is_pure(code) and is_pure(passed[0].code)):
                return Expr(f"{as_operand(code)}[{passed[0].code}] = {passed[1].code}", VOID)
        made = element_or_filled(template, code, passed, node)
    if name == "sleep" and unit.interrupts and kind.name == "java.lang.Thread":
        # Only in programs that interrupt threads: elsewhere the shorter `time.sleep` is equivalent.
        made = f"java.sleep({passed[0].code})"
    low_high = range_named(member.flag)
    if name == "iterator" and (match := _OF_MAP.fullmatch(code)):
        # The iterator of a map's view removes from the map, so it needs the map.
        made = f"java.Iterator({code}, {match[1]})"
    # An object that is never null needs no check for null.
    if made.startswith("java.known(") and receiver is not None and receiver.known:
        made = code
    return Expr(made, returns, low_high, known=member.flag == "known")


def _as_jms_takes_it(unit: Unit, argument: Argument) -> Argument:
    """Return an argument of a method of JMS: a class of a body is one of Python there."""
    if argument.type.name != "java.lang.Class":
        return argument
    code = body_class(unit, without_parentheses(argument.node), argument.type)
    return Argument(argument.node, Expr(code, argument.type, known=True), argument.type)


_OF_MAP: Final = re.compile(r"([\w.]+)\.(?:keys|values|items)\(\)")
_WITH_TEXTS: Final = {
    "java.lang.String": {"split", "matches", "replaceAll", "replaceFirst", "getBytes"},
    "java.util.regex.Pattern": {"compile", "matches"},
    "java.nio.charset.Charset": {"forName"},
    "java.io.ByteArrayOutputStream": {"toString"},
}


def _tell(unit: Unit, node: Node, kind: Type, name: str, arguments: list[Argument]) -> None:
    """Report a call whose translation rests on assumptions."""
    if arguments and name in _WITH_TEXTS.get(kind.name, ()) and arguments[0].type == STRING:
        check_text(unit, node, arguments[0].node, kind.name, name)
    if arguments and name.startswith("set") and name.endswith("Property") and kind.name.startswith("javax.jms."):
        tell_property_name(unit, node, arguments[0].node)
    if name == "interrupt":
        unit.check(node, "interrupt()", "it ends a sleep alone: what else waits goes on waiting")
    if name in {"getBoolean", "getInteger"} and kind.name.startswith("java.lang."):
        unit.check(node, "a system property", "it is taken from the environment now: give it there, or as an argument")
    if name.startswith("createXA") or name == "getXAResource":
        unit.check(
            node,
            "a distributed transaction",
            "see that the transaction manager is one of Python: docs/how-to/transactions.md",
        )
    if name in {"createObjectMessage", "setObject"} and any(
        (unit.class_info(each.type.name) is not None) for each in arguments
    ):
        tell_trusted(unit, node)
    if name == "send" and kind.name == "javax.jms.JMSProducer" and len(arguments) > 1:
        tell_body(unit, node, arguments[1].node, arguments[1].type)
    if kind.name in _UNORDERED and name in {"keySet", "values", "entrySet"}:
        unit.check(
            node,
            f"the order of {name}()",
            "Java's order is arbitrary, Python's is that of insertion: see if it matters",
        )


def _equal(receiver: Expr, other: Expr, node: Node) -> Expr | None:
    """Return ``equals`` as ``==``, if that is equivalent; otherwise None."""
    kind = receiver.type
    if receiver.known and kind == other.type == STRING:
        return Expr(binary(receiver.code, "==", other.code), BOOLEAN)
    if kind.name not in BOXES or kind.dims:
        return None
    # `Double.equals` compares bits: NaN equals NaN, and -0.0 is not 0.0.
    if kind.name in {"java.lang.Double", "java.lang.Float"}:
        raise Unportable(
            node, f"equals() of {kind}", "it differs from == for NaN and -0.0: write == if that is no matter"
        )
    one = receiver.code if receiver.known else f"java.known({receiver.code})"
    return Expr(binary(one, "==", other.code), BOOLEAN)


def _advice(name: str) -> str:
    if name.startswith("pyjms.Any"):
        return "it is the provider's own: give URL, user, password and client identifier to ConnectionFactory; leave the rest out"
    if name.startswith("javax.jms."):
        return "neither JMS 2.0 nor pyjms has such a method: see what it does at your provider"
    return unknown_class_advice(name)


def _check_names(unit: Unit, node: Node, kind: Type, name: str, passed: list[Expr]) -> None:
    if kind.name == "java.lang.Class":
        unit.check(
            node,
            "the name of a class",
            "of what JMS makes, each provider has its own classes: see that nothing depends on it",
        )
    elif passed:
        check_name(unit, node, passed[0].code)


def named_destination(unit: Unit, node: Node, kind: str, name: Expr) -> Expr:
    """Return a Queue or Topic made from a name, without a session."""
    check_name(unit, node, name.code)
    # The JNDI of pyjms has any queue below `dynamicQueues/`, as that of ActiveMQ has.
    whole = concatenated(unit, [(Expr(f'"dynamic{kind}s/"', STRING, known=True), node), (name, node)])
    return Expr(f"InitialContext({{}}).lookup({whole.code})", Type(f"javax.jms.{kind}"), known=True)


def check_name(unit: Unit, node: Node, code: str) -> None:
    """Report destination names that have a special meaning in ActiveMQ."""
    if any(mark in code for mark in ("?", "*", ">", ",", "://")):
        unit.check(
            node,
            f"the name of a destination, {code}",
            "?options, several names and wildcards are ActiveMQ's: in pyjms the name is what it says",
        )


def _compared(unit: Unit, element: Type, argument: Argument, node: Node) -> Type:
    """Return an argument for a comparison with an object: as a number of the same type, otherwise in a box."""
    kind = argument.type
    if kind.is_primitive or kind.name in BOXES or element.name in BOXES:
        if element.name not in BOXES and not element.is_primitive:
            return OBJECT
        if kind.name not in {"null", "java.lang.Object"} and BOXES.get(element.name) != BOXES.get(kind.name, kind.name):
            raise Unportable(
                node, f"a comparison of {element} with {kind}", "in Java they are never equal: convert one"
            )
    return Type("any")


# Calls of loggers, of java.util.logging, slf4j, log4j and commons-logging: they become calls of Python's logging.

_LOGGERS: Final = (
    "java.util.logging.Logger",
    "org.slf4j.Logger",
    "org.apache.log4j.Logger",
    "org.apache.logging.log4j.Logger",
    "org.apache.commons.logging.Log",
)
_LEVELS: Final = {
    "trace": "debug",
    "debug": "debug",
    "finest": "debug",
    "finer": "debug",
    "fine": "debug",
    "config": "info",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "severe": "error",
    "fatal": "critical",
}
_FACTORIES: Final = {
    ("org.slf4j.LoggerFactory", "getLogger"): "org.slf4j.Logger",
    ("org.apache.log4j.Logger", "getLogger"): "org.apache.log4j.Logger",
    ("org.apache.log4j.Logger", "getRootLogger"): "org.apache.log4j.Logger",
    ("org.apache.logging.log4j.LogManager", "getLogger"): "org.apache.logging.log4j.Logger",
    ("org.apache.commons.logging.LogFactory", "getLog"): "org.apache.commons.logging.Log",
    ("java.util.logging.Logger", "getLogger"): "java.util.logging.Logger",
    ("java.util.logging.Logger", "getAnonymousLogger"): "java.util.logging.Logger",
    ("java.util.logging.Logger", "getGlobal"): "java.util.logging.Logger",
}


def _logger(kind: str) -> Callable[[Unit, Node], Expr]:
    def made(unit: Unit, node: Node) -> Expr:
        nodes = children(needed(node, "arguments"))
        code = ""
        # log4j names a logger without arguments after the calling class.
        if not nodes and text_of(needed(node, "name")) == "getLogger" and unit.scope is not None:
            code = quoted(unit.scope.info.full_name)
        elif nodes:
            name = nodes[0]
            if name.type == "class_literal":
                code = quoted(unit.find_class(text_of(children(name)[0]), name))
            else:
                value = expression(unit, name)
                code = f"{value.code}.getName()" if value.type.name == "java.lang.Class" else value.code
                if value.type != STRING and value.type.name != "java.lang.Class":
                    raise Unportable(node, "a logger with a name of this type")
        unit.check(
            node, "a logger", "it is one of Python's logging: set that up, as it shows warnings and errors alone"
        )
        return Expr(f"logging.getLogger({code})", Type(kind), known=True)

    return made


def _logged(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    level = _LEVELS[text_of(needed(node, "name"))]
    return Expr(f"{_object(unit, node)}.{level}({_what(unit, node, arguments)})", VOID)


def _logged_at(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    if len(arguments) < 2 or not arguments[0].type.name.endswith(".Level"):
        raise Unportable(node, "this call of a logger", "write it with logging of Python")
    level = arguments[0].as_type(unit, arguments[0].type).code
    return Expr(f"{_object(unit, node)}.log({level}, {_what(unit, node, arguments[1:])})", VOID)


def _object(unit: Unit, node: Node) -> str:
    return expression(unit, needed(node, "object")).code


def _what(unit: Unit, node: Node, arguments: Sequence[Argument]) -> str:
    """Return the arguments of a call of Python's logging: a pattern with its values, and an exception."""
    values = [each.as_type(unit, each.type) for each in arguments]
    rest, error = list(zip(values, arguments, strict=True)), ""
    if len(rest) > 1 and unit.is_subtype(values[-1].type.name, "java.lang.Throwable"):
        # Java's loggers take an exception after the values, Python's as `exc_info`.
        error = f", exc_info={values[-1].code}"
        rest.pop()
    if len(rest) == 2 and values[1].type.dims:  # an array of values
        elements = children(arguments[1].node)[-1] if arguments[1].node.type == "array_creation_expression" else None
        if elements is None or elements.type != "array_initializer":
            return f'"%s", java.filled({values[0].code}, *{values[1].code}){error}'
        inner = [expression(unit, each) for each in children(elements)]
        texts = [text_of_value(unit, each, node) for each in inner]
    elif rest[0][0].type.name == "java.util.function.Supplier":
        return f'"%s", java.text({rest[0][0].code}()){error}'
    else:
        texts = [text_of_value(unit, value, each.node) for value, each in rest[1:]]
    first = text_of_value(unit, values[0], arguments[0].node)
    pattern = constant_text(unit, arguments[0].node) if values[0].type == STRING else None
    if not texts:
        return f"{quoted(pattern)}{error}" if pattern is not None and "%" not in pattern else f'"%s", {first}{error}'
    # A pattern that is known only at run time, or has escapes, is filled at run time by `java.filled`.
    if pattern is None or "\\{" in pattern:
        return f'"%s", java.filled({first}, {", ".join(texts)}){error}'
    places = iter(range(len(texts)))
    used: list[str] = []

    def put(match: re.Match[str]) -> str:
        place = int(match[1]) if match[1] else next(places, None)
        if place is None or place >= len(texts):
            return match[0]
        used.append(texts[place])
        return "%s"

    # Python's logging takes %-patterns, so that a message that is not logged is never formatted.
    made = re.sub(r"\{(\d*)\}", put, pattern.replace("%", "%%"))
    if not used:
        return f"{quoted(pattern)}{error}" if "%" not in pattern else f'"%s", {first}{error}'
    return f"{quoted(made)}, {', '.join(used)}{error}"


LOGGER_CALLS: Final[dict[tuple[str, str], Callable[[Unit, Node], Expr]]] = {
    **{names: _logger(kind) for names, kind in _FACTORIES.items()},
    **{(kind, level): _logged for kind in _LOGGERS for level in _LEVELS},
    **{(kind, "log"): _logged_at for kind in _LOGGERS},
}
"""By class and method."""


# Calls that no table can translate: output, formats, lists of anything, loggers.


def _formatted(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    # Numbers are always formatted as in English, so the locale is ignored.
    if arguments and arguments[0].type.name == "java.util.Locale":
        arguments = arguments[1:]
    if not arguments or arguments[0].type != STRING:
        raise Unportable(node, "a format that is no text")
    pattern = constant_text(unit, arguments[0].node)
    codes = []
    if len(arguments) == 2 and arguments[1].type.dims and not arguments[1].type.element.is_primitive:
        first = arguments[0].as_type(unit, STRING)
        return Expr(
            f"java.format({first.code}, *{arguments[1].as_type(unit, arguments[1].type).code})", STRING, known=True
        )
    typed = pattern is None or _TYPED.search(pattern) is not None
    for each in arguments[1:]:
        if each.type.dims:
            raise Unportable(node, "a format with an array", "give its elements one by one")
        value = each.as_type(unit, each.type)
        text_of_value(unit, value, each.node)  # it reports texts of another provider
        boxed = value.type.name in {"float", "java.lang.Float", "char", "java.lang.Character"}
        # `%x` of a negative number shows as many digits as its type has
        boxed |= typed and value.type.name in {"long", "short", "byte"}
        codes.append(convert(unit, value, OBJECT, each.node).code if boxed else value.code)
    first = arguments[0].as_type(unit, STRING)
    return Expr(f"java.format({', '.join([first.code, *codes])})", STRING, known=True)


_TYPED: Final = re.compile(r"%[^a-zA-Z%]*[xXoOhH]")
"""Conversions whose result depends on the number's type."""


def printed(unit: Unit, node: Node, stream: Expr, name: str) -> Expr:
    """Return a call of ``System.out``, ``System.err`` or a variable that is one of them."""
    is_out = stream.code == "sys.stdout"
    if name == "flush":
        return Expr(f"{stream.code}.flush()", VOID)
    if stream.code not in {"sys.stdout", "sys.stderr"}:
        writer = Expr(stream.code, Type("java.io.PrintWriter"), known=stream.known)
        if name in {"printf", "format"}:
            return Expr(f"{as_operand(stream.code)}.print({_formatted(unit, node).code})", VOID)
        return library_call(unit, node, writer, name, given(unit, needed(node, "arguments")))
    if name not in {"println", "print", "printf", "format"}:
        raise Unportable(node, f"PrintStream.{name}")
    nodes = children(needed(node, "arguments"))
    if name in {"printf", "format"}:
        code = _formatted(unit, node).code
    elif nodes:
        value = expression(unit, nodes[0])
        # `println` has an overload that writes the characters of an array.
        if value.type == Type("char", (), 1):
            value = Expr(f'"".join({value.code})', STRING, known=True)
        code = text_of_value(unit, value, nodes[0])
        if value.type.name in {"int", "long", "short", "byte"}:
            code = value.code
    else:
        code = ""
    # Python's `print` writes the text and the end of the line separately, and another thread may come between.
    if name == "println" and unit.concurrent:
        return Expr(f"java.{'text' if is_out else 'error'}_line({code})", VOID)
    rest = [] if name == "println" else ['end=""']
    rest += [] if is_out else ["file=sys.stderr"]
    return Expr(f"print({', '.join([code, *rest] if code else rest)})", VOID)


def _as_list(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    kinds = {each.type for each in arguments}
    # A single array is the whole list of arguments, not one element.
    if len(kinds) == 1 and (only := arguments[0].type).dims:
        return Expr(
            f"list({arguments[0].as_type(unit, only).code})", Type("java.util.List", (only.element,)), known=True
        )
    element = kinds.pop() if len(kinds) == 1 and not arguments[0].type.is_primitive else OBJECT
    codes = [each.as_type(unit, element).code for each in arguments]
    return Expr(f"[{', '.join(codes)}]", Type("java.util.List", (element,)), known=True)


def _sorted(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    kind = arguments[0].type if arguments else VOID
    # Python orders texts and integers as Java does; others may have a `compareTo`.
    if len(arguments) == 1 and kind.args and kind.args[0].name in _PLAINLY_SORTED:
        return Expr(f"{as_operand(arguments[0].as_type(unit, kind).code)}.sort()", VOID)
    return library_call(unit, node, None, "sort", arguments, "java.util.Collections")


_PLAINLY_SORTED: Final = frozenset({"java.lang.String", "java.lang.Integer", "java.lang.Long"})


def _property(unit: Unit, node: Node) -> Expr:
    """Return ``System.getProperty``: -D options of Java may be environment variables in Python."""
    arguments = given(unit, needed(node, "arguments"))
    codes = [each.as_type(unit, STRING) for each in arguments]
    # The JVM itself sets these, so they would be missing from the environment.
    if codes[0].code.startswith(('"java.', '"user.', '"os.', '"file.', '"path.', '"line.')):
        raise Unportable(node, f"the property {codes[0].code} of Java's machine", "os, sys and platform have the like")
    unit.check(node, "a system property", "it is taken from the environment now: give it there, or as an argument")
    known = len(codes) == 2 and codes[1].known
    return Expr(f"os.environ.get({', '.join(each.code for each in codes)})", STRING, known=known)


def _destination(unit: Unit, node: Node) -> Expr:
    """Return a destination made without a session: JNDI has one for any name."""
    (name,) = given(unit, needed(node, "arguments"))
    kind = text_of(needed(node, "name")).removeprefix("create")
    return named_destination(unit, node, kind, name.as_type(unit, STRING))


SPECIAL: Final[dict[tuple[str, str], Callable[[Unit, Node], Expr]]] = {
    ("java.lang.String", "format"): _formatted,
    ("java.lang.System", "getProperty"): _property,
    ("java.util.Arrays", "asList"): _as_list,
    ("java.util.List", "of"): _as_list,
    ("java.util.Collections", "sort"): _sorted,
    ("org.apache.activemq.artemis.api.jms.ActiveMQJMSClient", "createQueue"): _destination,
    ("org.apache.activemq.artemis.api.jms.ActiveMQJMSClient", "createTopic"): _destination,
    **LOGGER_CALLS,
}
"""By class and method."""


@is_expression("method_invocation")
def _method_invocation(unit: Unit, node: Node) -> Expr:
    name, object_node = text_of(needed(node, "name")), child(node, "object")
    if object_node is None:
        return _unqualified(unit, node, name)
    if object_node.type == "super":
        return _of_super(unit, node, name)
    named = class_named(unit, object_node)
    if named is not None:
        return _of_class(unit, node, named, name)
    value = expression(unit, object_node)
    return _of_object(unit, node, value, name)


def _unqualified(unit: Unit, node: Node, name: str) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    # The innermost class with a method of that name hides those of enclosing classes (JLS §15.12.1).
    for info in around(unit):
        found = unit.find_methods(info, name, len(arguments))
        if found:
            return _own_call(unit, node, found, arguments, None, info)
        if info.kind == "enum" and (made := _of_enum(unit, node, info, name, arguments)) is not None:
            return made
        for above in unit.library_supers(info):
            if find_members(above.name, name):
                receiver = Expr(holder(unit, info, node), above, known=True)
                return library_call(unit, node, receiver, name, arguments)
    # After the enclosing classes, whose methods shadow imported ones (JLS §6.4.1).
    for owner in unit.static_owners(name):
        if (owner, name) in SPECIAL:
            return SPECIAL[owner, name](unit, node)
        if unit.class_info(owner) is not None or find_members(owner, name):
            return _of_class(unit, node, owner, name)
    if find_members(OBJECT.name, name):
        receiver = Expr(holder(unit, around(unit)[0], node), OBJECT, known=True)
        return library_call(unit, node, receiver, name, arguments)
    raise Unportable(node, f"the method {name}", "it is declared in no file that was given")


def _of_super(unit: Unit, node: Node, name: str) -> Expr:
    assert unit.scope is not None
    info = unit.scope.info
    arguments = given(unit, needed(node, "arguments"))
    superclass = info.superclass
    above = unit.class_info(superclass.name) if superclass else None
    # `super()` without arguments finds its object in a method, but not in a nested function with other parameters.
    if above is not None and not unit.scope.is_lambda:
        found = unit.find_methods(above, name, len(arguments))
        if found:
            return _own_call(unit, node, found, arguments, "super()", above)
    if above is None and superclass is not None and name in _INHERITED and not unit.scope.is_lambda:
        chosen = choose(unit, find_members(superclass.name, name), superclass, arguments)
        if chosen is not None:
            codes = ", ".join(each.code for each in arguments_for(unit, arguments, chosen[1]))
            return Expr(f"super().{name}({codes})", type_named(chosen[0].returns, {}) if name in _WITH_RESULT else VOID)
    raise Unportable(node, f"super.{name}")


_WITH_RESULT: Final = frozenset({"getMessage", "getName"})
_INHERITED: Final = _WITH_RESULT | {"run", "start", "join"}
"""Java methods that the Python classes used in their place also have."""


def _of_class(unit: Unit, node: Node, named: str, name: str) -> Expr:
    special = SPECIAL.get((named, name))
    if special is not None:
        return special(unit, node)
    arguments = given(unit, needed(node, "arguments"))
    info = unit.class_info(named)
    if info is not None:
        found = unit.find_methods(info, name, len(arguments))
        if found and found[0].is_static:
            return _own_call(unit, node, found, arguments, unit.class_code(found[0].owner.full_name, node), info)
        if info.kind == "enum" and (made := _of_enum(unit, node, info, name, arguments)) is not None:
            return made
        raise Unportable(node, f"the method {named}.{name}")
    return library_call(unit, node, None, name, arguments, named)


def _of_enum(unit: Unit, node: Node, info: ClassInfo, name: str, arguments: list[Argument]) -> Expr | None:
    """Return ``values()`` or ``valueOf(name)`` of an enum."""
    code, kind = unit.class_code(info.full_name, node), Type(info.full_name)
    if name == "values" and not arguments:
        return Expr(f"{code}.values()", Type(info.full_name, (), 1), known=True)
    if name == "valueOf" and len(arguments) == 1:
        return Expr(f"{code}.valueOf({arguments[0].as_type(unit, STRING).code})", kind, known=True)
    return None


def own_call(unit: Unit, node: Node, found: list[MethodInfo], arguments: list[Argument], info: ClassInfo) -> Expr:
    """Return a call of a static method of the program."""
    return _own_call(unit, node, found, arguments, None, info)


def call_with(unit: Unit, node: Node, value: Expr, name: str, arguments: list[Argument]) -> Expr:
    """Return a call of a method of an object, with translated arguments."""
    info = unit.class_info(value.type.name) if not value.type.dims else None
    if info is not None:
        found = unit.find_methods(info, name, len(arguments))
        if found:
            return _own_call(unit, node, found, arguments, value.code, info)
        for above in unit.library_supers(info):
            if find_members(above.name, name):
                return library_call(unit, node, Expr(value.code, above, known=value.known), name, arguments)
    return library_call(unit, node, value, name, arguments)


def _of_object(unit: Unit, node: Node, value: Expr, name: str) -> Expr:
    if value.type.name in {"java.io.PrintStream", "java.io.PrintWriter"} and not value.type.dims:
        return printed(unit, node, value, name)
    if name == "printStackTrace" and (stream := _standard_stream(unit, node)):
        return Expr(f"traceback.print_exception({value.code}, file={stream})", VOID)
    if name in _NAMES and value.code.startswith('java.Class("'):
        return Expr(quoted(_NAMES[name](value.code[12:-2])), STRING, known=True)
    if value.type.dims and name == "clone":
        # A slice copies lists and bytearrays alike.
        return Expr(f"{as_operand(value.code)}[:]", value.type, known=True)
    special = SPECIAL.get((value.type.name, name)) if not value.type.dims else None
    if special is not None:
        return special(unit, node)
    return call_with(unit, node, value, name, given(unit, needed(node, "arguments")))


_NAMES: Final[dict[str, Callable[[str], str]]] = {
    "getName": lambda name: name,
    "getCanonicalName": lambda name: name.replace("$", "."),
    "getSimpleName": lambda name: name.rpartition(".")[2].rpartition("$")[2],
}


def _standard_stream(unit: Unit, node: Node) -> str | None:
    nodes = children(needed(node, "arguments"))
    if len(nodes) == 1 and nodes[0].type == "field_access":
        code = expression(unit, nodes[0]).code
        return code if code in {"sys.stdout", "sys.stderr"} else None
    return None


def _own_call(
    unit: Unit, node: Node, found: list[MethodInfo], arguments: list[Argument], code: str | None, info: ClassInfo
) -> Expr:
    method = meant(unit, found, arguments, node)
    passed = own_arguments(unit, method, arguments, node)
    if method.is_static:
        # A static method belongs to the class that declares it, even if it is called on an object.
        code = unit.class_code(method.owner.full_name, node)
    elif code is None:
        code = holder(unit, info, node)
    assert method.returns is not None
    return Expr(f"{as_operand(code)}.{method.python}({passed})", method.returns)


def meant(unit: Unit, found: list[MethodInfo], arguments: list[Argument], node: Node) -> MethodInfo:
    """Return the method that a call refers to among several with the same number of parameters, by the argument types."""
    if len(found) == 1:
        return found[0]
    for loosely in (False, True):
        fitting = [
            each
            for each in found
            if not each.variadic
            and all(
                fits(unit, given.type, kind, loosely=loosely)
                for given, kind in zip(arguments, each.params, strict=True)
            )
        ]
        # The most specific method (JLS §15.12.2.5): its parameters fit those of every other candidate.
        nearest = [each for each in fitting if all(_is_nearer(unit, each, other) for other in fitting)]
        if nearest:
            return nearest[0]
    raise Unportable(node, f"which of the overloads of {found[0].name or found[0].owner.name} is meant", "rename them")


def _is_nearer(unit: Unit, one: MethodInfo, other: MethodInfo) -> bool:
    return all(fits(unit, mine, its, loosely=False) for mine, its in zip(one.params, other.params, strict=True))
