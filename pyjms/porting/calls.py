"""Calls of methods: of the program, of JMS, of Java's library."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import Argument, arguments_for, choose, element_or_filled, given, own_arguments
from pyjms.porting.class_codes import unknown_class_advice
from pyjms.porting.classes import ClassInfo, MethodInfo
from pyjms.porting.codes import as_operand, binary, is_pure
from pyjms.porting.conversions import BOXES, text_of_value
from pyjms.porting.model import BOOLEAN, OBJECT, STRING, VOID, Expr, Type, Unportable
from pyjms.porting.places import around, class_named, holder, range_named
from pyjms.porting.special import SPECIAL, printed
from pyjms.porting.syntax import child, needed, text_of
from pyjms.porting.table import expression, is_expression
from pyjms.porting.types import arguments_of, find_members, type_named
from pyjms.porting.unit import Unit

__all__ = ["check_name", "library_call"]

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
    for info in around(unit):
        found = unit.find_methods(info, name, len(arguments))
        if found:
            return _own_call(unit, node, found, arguments, None, info)
        for above in unit.library_supers(info):
            if find_members(above.name, name):
                receiver = Expr(holder(unit, info, node), above, known=True)
                return library_call(unit, node, receiver, name, arguments)
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
"""Methods of Java's classes that those of Python that stand for them have, too."""


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
        raise Unportable(node, f"the method {named}.{name}")
    return library_call(unit, node, None, name, arguments, named)


def _of_object(unit: Unit, node: Node, value: Expr, name: str) -> Expr:
    if value.type == Type("java.io.PrintStream"):
        return printed(unit, node, value, name)
    special = SPECIAL.get((value.type.name, name)) if not value.type.dims else None
    if special is not None:
        return special(unit, node)
    arguments = given(unit, needed(node, "arguments"))
    info = unit.class_info(value.type.name) if not value.type.dims else None
    if info is not None:
        found = unit.find_methods(info, name, len(arguments))
        if found:
            return _own_call(unit, node, found, arguments, value.code, info)
        for above in unit.library_supers(info):
            if find_members(above.name, name):
                return library_call(unit, node, Expr(value.code, above, known=value.known), name, arguments)
    return library_call(unit, node, value, name, arguments)


def _own_call(
    unit: Unit, node: Node, found: list[MethodInfo], arguments: list[Argument], code: str | None, info: ClassInfo
) -> Expr:
    if len(found) > 1:
        raise Unportable(node, f"the method {found[0].name} has overloads with as many arguments", "rename one of them")
    method = found[0]
    passed = own_arguments(unit, method, arguments, node)
    if method.is_static:
        code = unit.class_code(method.owner.full_name, node)
    elif code is None:
        code = holder(unit, info, node)
    assert method.returns is not None
    return Expr(f"{as_operand(code)}.{method.python}({passed})", method.returns)


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
    chosen = choose(unit, members, kind, arguments)
    if chosen is None:
        types = ", ".join(str(each.type).rpartition(".")[2] for each in arguments)
        raise Unportable(
            node,
            f"{kind.name.rpartition('.')[2] if unit.knows(kind.name) else kind.name}.{name}({types})",
            _advice(kind.name),
        )
    member, types_wanted = chosen
    if member.params and member.params[0] == "any":
        place = 1 if name == "containsValue" else 0
        element = kind if name == "equals" else kind.args[place] if len(kind.args) > place else OBJECT
        types_wanted = [_compared(unit, element, arguments[0], node), *types_wanted[1:]]
    _tell(unit, node, kind, name, arguments)
    passed = arguments_for(unit, arguments, types_wanted)
    if name == "toString" and kind.name.startswith("javax.jms.") and receiver is not None:
        text_of_value(unit, receiver, node)  # which tells that each provider has its own
    if receiver is not None and name == "equals" and (equal := _equal(receiver, passed[0], node)) is not None:
        return equal
    if name in {"createQueue", "createTopic", "getName", "getSimpleName"}:
        _check_names(unit, node, kind, name, passed)
    code = receiver.code if receiver is not None else ""
    returns = type_named(member.returns, arguments_of(member.owner, kind)) if member.returns != "void" else VOID
    if kind.name == "java.util.LinkedHashMap" and returns.name == "java.util.Set":
        returns = Type("java.util.Collection", returns.args)  # which has an order
    if member.template is None:
        made = f"{as_operand(code)}.{name}({', '.join(each.code for each in passed)})"
    else:
        template = member.template
        if unit.statement_call == node.id:
            shorter = _AS_STATEMENTS.get(template, template)
            if "=" not in shorter:
                template = shorter
            elif is_pure(passed[1].code) or (is_pure(code) and is_pure(passed[0].code)):
                return Expr(f"{as_operand(code)}[{passed[0].code}] = {passed[1].code}", VOID)
        made = element_or_filled(template, code, passed, node)
    low_high = range_named(member.flag)
    if made.startswith("java.known(") and receiver is not None and receiver.known:
        made = code
    return Expr(made, returns, low_high, known=member.flag == "known")


def _tell(unit: Unit, node: Node, kind: Type, name: str, arguments: list[Argument]) -> None:
    """Tell of a call that rests on more than the source says."""
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
    return _JMS_2 if name.startswith("javax.jms.") else unknown_class_advice(name)


_JMS_2: Final = (
    "JMS 1.1, which pyjms has, has no such method; for what JMS 2.0 added, use Connection, Session and MessageProducer"
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
