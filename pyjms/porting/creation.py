"""Objects, arrays and functions that a program makes."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import arguments_for, choose, element_or_filled, given, own_arguments
from pyjms.porting.calls import check_name
from pyjms.porting.class_codes import PROVIDERS, unknown_class_advice
from pyjms.porting.classes import ClassInfo, class_of
from pyjms.porting.codes import default_of
from pyjms.porting.conversions import concatenated, convert
from pyjms.porting.factories import connection_factory
from pyjms.porting.members import class_lines, separate
from pyjms.porting.model import INT, STRING, VOID, Expr, Type, Unportable
from pyjms.porting.places import alias_of, class_named, holder
from pyjms.porting.syntax import child, children, needed, text_of
from pyjms.porting.table import expression, is_expression, is_targeted, value_for
from pyjms.porting.texts import body_of, indented
from pyjms.porting.types import LIBRARY_TYPES
from pyjms.porting.unit import MethodScope, Unit

__all__ = ["local_class"]

_FUNCTIONS: Final = {
    "java.lang.Runnable": ("run", ()),
    "java.util.concurrent.Callable": ("call", ()),
    "javax.jms.MessageListener": ("on_message", (Type("javax.jms.Message"),)),
    "javax.jms.ExceptionListener": ("on_exception", (Type("javax.jms.JMSException"),)),
}
"""Interfaces of one method that a function may stand for, with that method's parameters."""


@is_expression("object_creation_expression")
def _untargeted_creation(unit: Unit, node: Node) -> Expr:
    return _created(unit, node, None)


@is_targeted("object_creation_expression")
def _targeted_creation(unit: Unit, node: Node, target: Type) -> Expr:
    return convert(unit, _created(unit, node, target), target, node)


def _created(unit: Unit, node: Node, target: Type | None) -> Expr:
    if node.children[0].type != "new":
        return _for_another(unit, node)
    raw = text_of(needed(node, "type")).partition("<")[0]
    full = unit.find_class(raw, node)
    if raw.rpartition(".")[2] in PROVIDERS and unit.class_info(full) is None:
        return connection_factory(unit, node, raw, target)
    if full in _DESTINATIONS:
        return _destination(unit, node, full)
    kind = unit.find_type(needed(node, "type"))
    body = next((each for each in node.children if each.type == "class_body"), None)
    if body is not None:
        return _anonymous(unit, node, kind)
    arguments = given(unit, needed(node, "arguments"))
    info = unit.class_info(kind.name)
    if info is not None:
        return Expr(_own(unit, node, info), kind, known=True)
    known = LIBRARY_TYPES.get(kind.name)
    members = [each for each in known.members if each.name == "new"] if known else []
    if target is not None and not kind.args and target.args:
        kind = Type(kind.name, target.args)
    chosen = choose(unit, members, kind, arguments)
    if chosen is None:
        raise Unportable(node, f"new {text_of(needed(node, 'type'))}", unknown_class_advice(kind.name))
    member, types = chosen
    passed = arguments_for(unit, arguments, types)
    if kind.name == "javax.naming.InitialContext":
        unit.check(node, "names of JNDI", "keep jndi.properties, with another URL in it: docs/how-to/porting.md, JNDI")
    if member.template is None:
        code = f"{unit.class_code(kind.name, node)}({', '.join(each.code for each in passed)})"
    else:
        code = element_or_filled(member.template, "", passed, node)
    return Expr(code, kind, known=True)


_DESTINATIONS: Final = {
    "org.apache.activemq.command.ActiveMQQueue": "Queue",
    "org.apache.activemq.command.ActiveMQTopic": "Topic",
    "org.apache.activemq.artemis.jms.client.ActiveMQQueue": "Queue",
    "org.apache.activemq.artemis.jms.client.ActiveMQTopic": "Topic",
}


def _destination(unit: Unit, node: Node, full: str) -> Expr:
    """Return a destination that is made without a session, which JNDI has for any name."""
    arguments = given(unit, needed(node, "arguments"))
    if len(arguments) != 1 or arguments[0].type != STRING:
        raise Unportable(node, f"new {full}", unknown_class_advice(full))
    kind, name = _DESTINATIONS[full], arguments[0].as_type(unit, STRING)
    check_name(unit, node, name.code)
    whole = concatenated(unit, [(Expr(f'"dynamic{kind}s/"', STRING, known=True), node), (name, node)])
    return Expr(f"InitialContext({{}}).lookup({whole.code})", Type(f"javax.jms.{kind}"), known=True)


def _for_another(unit: Unit, node: Node) -> Expr:
    """Return ``object.new Inner()``."""
    around = expression(unit, node.children[0])
    outer = unit.class_info(around.type.name)
    inner = unit.nested_class(outer, text_of(needed(node, "type"))) if outer is not None else None
    if inner is None or inner.is_static:
        raise Unportable(node, f"an object made for another: {text_of(node)[:40]}")
    return Expr(_own(unit, node, inner, around.code), Type(inner.full_name), known=True)


def _own(unit: Unit, node: Node, info: ClassInfo, around: str | None = None) -> str:
    arguments = given(unit, needed(node, "arguments"))
    found = unit.find_methods(info, "", len(arguments))
    passed = ""
    if len(found) > 1:
        raise Unportable(
            node, f"{info.name} has constructors with as many arguments", "give one of them another number"
        )
    if found:
        passed = own_arguments(unit, found[0], arguments, node)
    elif arguments or info.named(""):
        raise Unportable(node, f"a constructor of {info.name} with {len(arguments)} arguments")
    if not info.is_static and info.outer is not None:
        unit.needs_outer.add(info.full_name)
        passed = ", ".join(filter(None, (around or holder(unit, info.outer, node), passed)))
    return f"{unit.class_code(info.full_name, node)}({passed})"


def _anonymous(unit: Unit, node: Node, kind: Type) -> Expr:
    assert unit.scope is not None
    info = class_of(node, unit.file, unit.scope.info, in_method=True)
    info.name = unit.number(f"_{kind.name.rpartition('.')[2]}")
    above = unit.class_info(kind.name)
    arguments = given(unit, needed(node, "arguments"))
    if kind.name == "java.lang.Thread" or (above is not None and above.kind == "class"):
        info.superclass = kind
    else:
        info.interfaces = [kind]
    passed = ""
    if above is not None and above.kind == "class":
        found = unit.find_methods(above, "", len(arguments))
        if len(found) > 1 or not above.is_static:
            raise Unportable(node, f"an anonymous class that extends {above.name}")
        passed = own_arguments(unit, found[0], arguments, node) if found else ""
    elif arguments:
        passed = ", ".join(each.as_type(unit, each.type).code for each in arguments)
    local_class(unit, info)
    return Expr(f"{info.name}({passed})", kind, known=True)


def local_class(unit: Unit, info: ClassInfo) -> None:
    """Write a class that stands in a method before the statement that uses it."""
    assert unit.scope is not None
    unit.local_classes[info.name] = info
    separate(unit, info)
    alias = alias_of(info)
    used, unit.aliases = unit.aliases, set()
    lines = class_lines(unit, info)
    if alias in unit.aliases:
        unit.before.append(f"{alias} = self")
    unit.aliases = used | (unit.aliases - {alias})
    unit.before.extend(lines)


def _function(target: Type, node: Node) -> tuple[str, tuple[Type, ...], Type]:
    if target.name not in _FUNCTIONS:
        raise Unportable(node, f"a function as {target}", "write a class that has the method")
    name, params = _FUNCTIONS[target.name]
    returns = target.args[0] if target.name.endswith("Callable") and target.args else VOID
    if target.name.endswith("Callable") and not target.args:
        raise Unportable(node, "a Callable of an unknown type")
    return name, params, returns


@is_targeted("lambda_expression")
def _lambda(unit: Unit, node: Node, target: Type) -> Expr:
    assert unit.scope is not None
    name, params, returns = _function(target, node)
    above = unit.scope
    scope = MethodScope(node, above.info, above.is_static, returns, above, is_lambda=True)
    body = needed(node, "body")
    with unit.within(scope):
        names = [unit.declare(each, kind).python for each, kind in zip(_names(node), params, strict=False)]
        if len(names) != len(params):
            raise Unportable(node, f"a function with {len(names)} parameters as {target}")
        if body.type == "block":
            lines = body_of(unit, body)
        elif returns == VOID and body.type in {"assignment_expression", "update_expression"}:
            raise Unportable(node, "a lambda that assigns", "write it with braces")
        else:
            value = expression(unit, body) if returns == VOID else value_for(unit, body, returns)
            if not unit.before:
                return Expr(f"lambda{_parameters(names, scope)}: {value.code}", target, known=True)
            lines = [*unit.before, value.code if returns == VOID else f"return {value.code}"]
    made = unit.number(f"_{name}")
    listed = _parameters(names, scope).strip()
    unit.before.extend([f"def {made}({listed}):", *indented(lines), ""])
    return Expr(made, target, known=True)


def _parameters(names: list[str], scope: MethodScope) -> str:
    kept = [f"{name}={value}" for name, value in scope.kept.items()]
    listed = ", ".join([*names, *(["*", *kept] if kept else [])])
    return f" {listed}" if listed else ""


def _names(node: Node) -> list[str]:
    params = needed(node, "parameters")
    if params.type == "identifier":
        return [text_of(params)]
    return [text_of(child(each, "name") or each) for each in children(params)]


@is_targeted("method_reference")
def _reference(unit: Unit, node: Node, target: Type) -> Expr:
    _, params, _ = _function(target, node)
    parts = children(node)
    name = text_of(parts[-1])
    if len(parts) == 2 or parts[0].type == "this":
        named = class_named(unit, parts[0])
        value = None if named is not None else expression(unit, parts[0])
        info = unit.class_info(named or (value.type.name if value else ""))
        found = unit.find_methods(info, name, len(params)) if info and name != "new" else []
        if len(found) == 1 and found[0].params == list(params) and found[0].is_static == (value is None):
            code = value.code if value else unit.class_code(found[0].owner.full_name, node)
            return Expr(f"{code}.{found[0].python}", target, known=True)
    raise Unportable(node, f"the method reference {text_of(node)}", "write a lambda")


@is_expression("array_creation_expression")
def _array(unit: Unit, node: Node) -> Expr:
    element = unit.find_type(needed(node, "type"))
    sizes = [each for each in node.children if each.type == "dimensions_expr"]
    open_dims = sum(text_of(each).count("[") for each in node.children if each.type == "dimensions")
    kind = Type(element.name, element.args, len(sizes) + open_dims)
    value = child(node, "value")
    if value is not None:
        return value_for(unit, value, kind)
    lengths = [value_for(unit, children(each)[0], INT) for each in sizes]
    if kind == Type("byte", (), 1):
        return Expr(f"bytearray({lengths[0].code})", kind, known=True)
    if element.name == "byte":
        raise Unportable(node, "an array of arrays of bytes")
    default = "None" if open_dims else default_of(element)
    if len(lengths) == 1 and lengths[0].limits[0] >= 0:
        return Expr(
            f"[{default}] * ({lengths[0].code})".replace("(" + lengths[0].code + ")", _plain(lengths[0].code)),
            kind,
            known=True,
        )
    return Expr(f"java.array_of({default}, {', '.join(each.code for each in lengths)})", kind, known=True)


def _plain(code: str) -> str:
    return code if code.replace(".", "").replace("_", "").isalnum() else f"({code})"


@is_targeted("array_initializer")
def _array_literal(unit: Unit, node: Node, target: Type) -> Expr:
    if not target.dims:
        raise Unportable(node, f"the elements of an array as {target}")
    values = [value_for(unit, each, target.element) for each in children(node)]
    codes = ", ".join(each.code for each in values)
    if target == Type("byte", (), 1):
        if all(each.limits[0] >= 0 for each in values):
            return Expr(f"bytearray([{codes}])", target, known=True)
        return Expr(f"bytearray(each & 0xFF for each in [{codes}])", target, known=True)
    return Expr(f"[{codes}]", target, known=True)
