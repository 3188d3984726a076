"""Calls of methods of JMS and of Java's library, by the tables."""

from __future__ import annotations

import re
from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import Argument, arguments_for, choices, element_or_filled
from pyjms.porting.class_codes import unknown_class_advice
from pyjms.porting.codes import as_operand, binary, is_pure
from pyjms.porting.constants import check_text, tell_property_name
from pyjms.porting.conversions import BOXES, concatenated, text_of_value
from pyjms.porting.model import BOOLEAN, OBJECT, STRING, VOID, Expr, Type, Unportable
from pyjms.porting.places import range_named
from pyjms.porting.types import Member, arguments_of, find_members, substituted, type_named, unify, without_variables
from pyjms.porting.unit import Unit

__all__ = ["check_name", "is_jms_2", "library_call", "named_destination"]

_AS_STATEMENTS: Final = {
    "java.put($0, $1, $2)": "$0[$1] = $2",
    "java.added($0, $1)": "$0.append($1)",
    "java.added_all($0, $1)": "$0.extend($1)",
    "java.added_to_set($0, $1)": "$0.add($1)",
}
"""How a call is written whose result nobody wants."""
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
        members = find_members(OBJECT.name, name)
    candidates = list(choices(unit, members, kind, arguments))
    if not candidates and receiver is not None and not kind.is_primitive:
        candidates = list(choices(unit, find_members(OBJECT.name, name), kind, arguments))
    if not candidates:
        types = ", ".join(str(each.type).rpartition(".")[2] for each in arguments)
        raise Unportable(
            node,
            f"{kind.name.rpartition('.')[2] if unit.knows(kind.name) else kind.name}.{name}({types})"
            f"{', of JMS 2.0' if is_jms_2(kind.name, name) else ''}",
            _advice(kind.name),
        )
    wanted = unit.wanted.pop(node.id, None)
    for place, candidate in enumerate(candidates):
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
        unify(returned, wanted, bound)
    if member.params and member.params[0] == "any":
        place = 1 if name == "containsValue" else 0
        element = kind if name == "equals" else kind.args[place] if len(kind.args) > place else OBJECT
        types_wanted = [_compared(unit, element, arguments[0], node), *types_wanted[1:]]
    _tell(unit, node, kind, name, arguments)
    passed = arguments_for(unit, arguments, types_wanted, bound)
    if name == "toString" and kind.name.startswith("javax.jms.") and receiver is not None:
        text_of_value(unit, receiver, node)  # which tells that each provider has its own
    if receiver is not None and name == "equals" and (equal := _equal(receiver, passed[0], node)) is not None:
        return equal
    if name in {"createQueue", "createTopic", "getName", "getSimpleName"}:
        _check_names(unit, node, kind, name, passed)
    code = receiver.code if receiver is not None else ""
    returns = without_variables(substituted(returned, bound))
    if kind.name == "java.util.LinkedHashMap" and returns.name == "java.util.Set":
        returns = Type("java.util.Collection", returns.args)  # which has an order
    if member.template is None:
        made = f"{as_operand(code)}.{name}({', '.join(each.code for each in passed)})"
    else:
        template = member.template
        if unit.statement_call == node.id:
            shorter = _AS_STATEMENTS.get(template, template)
            if "=" not in shorter or shorter == template:
                template = shorter
            elif is_pure(passed[1].code) or (is_pure(code) and is_pure(passed[0].code)):
                return Expr(f"{as_operand(code)}[{passed[0].code}] = {passed[1].code}", VOID)
        made = element_or_filled(template, code, passed, node)
    if name == "sleep" and unit.interrupts and kind.name == "java.lang.Thread":
        made = f"java.sleep({passed[0].code})"
    low_high = range_named(member.flag)
    if name == "iterator" and (match := _OF_MAP.fullmatch(code)):
        made = f"java.Iterator({code}, {match[1]})"
    if made.startswith("java.known(") and receiver is not None and receiver.known:
        made = code
    return Expr(made, returns, low_high, known=member.flag == "known")


_OF_MAP: Final = re.compile(r"([\w.]+)\.(?:keys|values|items)\(\)")
_WITH_TEXTS: Final = {
    "java.lang.String": {"split", "matches", "replaceAll", "replaceFirst", "getBytes"},
    "java.util.regex.Pattern": {"compile", "matches"},
    "java.nio.charset.Charset": {"forName"},
    "java.io.ByteArrayOutputStream": {"toString"},
}


def _tell(unit: Unit, node: Node, kind: Type, name: str, arguments: list[Argument]) -> None:
    """Tell of a call that rests on more than the source says."""
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
    if name in {"createObjectMessage", "setObject"} and any(_is_of_program(unit, each.type) for each in arguments):
        unit.check(node, "an object of the program in an ObjectMessage", _TRUSTED)
    if kind.name in _UNORDERED and name in {"keySet", "values", "entrySet"}:
        unit.check(
            node,
            f"the order of {name}()",
            "Java's order is arbitrary, Python's is that of insertion: see if it matters",
        )


def _equal(receiver: Expr, other: Expr, node: Node) -> Expr | None:
    """Return ``equals`` as ``==``, where that is the same; None: it is not."""
    kind = receiver.type
    if receiver.known and kind == other.type == STRING:
        return Expr(binary(receiver.code, "==", other.code), BOOLEAN)
    if kind.name not in BOXES or kind.dims:
        return None
    if kind.name in {"java.lang.Double", "java.lang.Float"}:
        raise Unportable(
            node, f"equals() of {kind}", "it differs from == for NaN and -0.0: write == if that is no matter"
        )
    one = receiver.code if receiver.known else f"java.known({receiver.code})"
    return Expr(binary(one, "==", other.code), BOOLEAN)


def _advice(name: str) -> str:
    if name.startswith("pyjms.Any"):
        return "it is the provider's own: give URL, user, password and client identifier to ConnectionFactory; leave the rest out"
    return _JMS_2 if name.startswith("javax.jms.") else unknown_class_advice(name)


_JMS_2: Final = (
    "JMS 1.1, which pyjms has, has no such method; for what JMS 2.0 added, use Connection, Session and MessageProducer"
)
_ADDED: Final = frozenset(
    {
        "createContext",
        "createDurableConsumer",
        "createSharedConsumer",
        "createSharedDurableConsumer",
        "getBody",
        "getDeliveryDelay",
        "getJMSDeliveryTime",
        "isBodyAssignableTo",
        "setDeliveryDelay",
        "setJMSDeliveryTime",
        "createSharedConnectionConsumer",
        "createSharedDurableConnectionConsumer",
    }
)


def is_jms_2(kind: str, name: str) -> bool:
    """Return whether JMS 2.0 added a method, or the whole class."""
    return kind.startswith("javax.jms.") and (
        name in _ADDED or (kind.startswith("javax.jms.JMS") and "Exception" not in kind)
    )


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
    """Return a destination of a name, a Queue or a Topic, that is made without a session."""
    check_name(unit, node, name.code)
    whole = concatenated(unit, [(Expr(f'"dynamic{kind}s/"', STRING, known=True), node), (name, node)])
    return Expr(f"InitialContext({{}}).lookup({whole.code})", Type(f"javax.jms.{kind}"), known=True)


def check_name(unit: Unit, node: Node, code: str) -> None:
    """Tell of names of destinations that mean more at ActiveMQ."""
    if any(mark in code for mark in ("?", "*", ">", ",", "://")):
        unit.check(
            node,
            f"the name of a destination, {code}",
            "?options, several names and wildcards are ActiveMQ's: in pyjms the name is what it says",
        )


_TRUSTED: Final = (
    "it is pickled: keep its class in a module that sender and receiver import, and name that in the factory's option trusted: "
    "docs/how-to/porting.md, Objects from elsewhere"
)


def _is_of_program(unit: Unit, kind: Type) -> bool:
    return unit.class_info(kind.name) is not None


def _compared(unit: Unit, element: Type, argument: Argument, node: Node) -> Type:
    """Return as what an argument is compared with an object: as a number of the same type, else in a box."""
    kind = argument.type
    if kind.is_primitive or kind.name in BOXES or element.name in BOXES:
        if element.name not in BOXES and not element.is_primitive:
            return OBJECT
        if kind.name not in {"null", "java.lang.Object"} and BOXES.get(element.name) != BOXES.get(kind.name, kind.name):
            raise Unportable(
                node, f"a comparison of {element} with {kind}", "in Java they are never equal: convert one"
            )
    return Type("any")
