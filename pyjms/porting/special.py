"""Calls whose translation no table can tell: what is printed, formats, lists of anything, loggers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import given
from pyjms.porting.codes import as_operand, is_pure
from pyjms.porting.constants import constant_text
from pyjms.porting.conversions import convert, text_of_value
from pyjms.porting.library_calls import library_call, named_destination
from pyjms.porting.loggers import LOGGER_CALLS
from pyjms.porting.model import BOOLEAN, INT, OBJECT, STRING, VOID, Expr, Type, Unportable
from pyjms.porting.syntax import children, needed, text_of
from pyjms.porting.table import expression
from pyjms.porting.unit import Unit

__all__ = ["SPECIAL", "printed"]


def _formatted(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
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
        text_of_value(unit, value, each.node)  # which tells of texts that are another provider's
        boxed = value.type.name in {"float", "java.lang.Float", "char", "java.lang.Character"}
        boxed |= typed and value.type.name in {"long", "short", "byte"}
        codes.append(convert(unit, value, OBJECT, each.node).code if boxed else value.code)
    first = arguments[0].as_type(unit, STRING)
    return Expr(f"java.format({', '.join([first.code, *codes])})", STRING, known=True)


_TYPED: Final = re.compile(r"%[^a-zA-Z%]*[xXoOhH]")
"""Conversions that show numbers of different types in different ways."""


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
        if value.type == Type("char", (), 1):
            value = Expr(f'"".join({value.code})', STRING, known=True)
        code = text_of_value(unit, value, nodes[0])
        if value.type.name in {"int", "long", "short", "byte"}:
            code = value.code
    else:
        code = ""
    if name == "println" and unit.concurrent:
        return Expr(f"java.{'text' if is_out else 'error'}_line({code})", VOID)
    rest = [] if name == "println" else ['end=""']
    rest += [] if is_out else ["file=sys.stderr"]
    return Expr(f"print({', '.join([code, *rest] if code else rest)})", VOID)


def _session(unit: Unit, node: Node) -> Expr:
    """Return ``createSession`` of a connection, also as JMS 2.0 has it: without arguments, and with the mode alone."""
    arguments = given(unit, needed(node, "arguments"))
    connection = as_operand(expression(unit, needed(node, "object")).code)
    kinds = (BOOLEAN, INT) if len(arguments) == 2 else (INT,)
    if len(arguments) > 2:
        raise Unportable(node, "createSession with these arguments")
    codes = [each.as_type(unit, kind).code for each, kind in zip(arguments, kinds, strict=False)]
    if not codes:
        codes = ["False", "Session.AUTO_ACKNOWLEDGE"]
    elif len(codes) == 1:
        if not is_pure(codes[0]):
            raise Unportable(node, "createSession with a mode that is computed", "give it a name first")
        transacted = "True" if codes[0].endswith("SESSION_TRANSACTED") else "False"
        known = codes[0].startswith("Session.")
        codes = [transacted if known else f"{codes[0]} == Session.SESSION_TRANSACTED", codes[0]]
    return Expr(f"{connection}.createSession({', '.join(codes)})", Type("javax.jms.Session"))


def _as_list(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    kinds = {each.type for each in arguments}
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
    if len(arguments) == 1 and kind.args and kind.args[0].name in _PLAINLY_SORTED:
        return Expr(f"{as_operand(arguments[0].as_type(unit, kind).code)}.sort()", VOID)
    return library_call(unit, node, None, "sort", arguments, "java.util.Collections")


_PLAINLY_SORTED: Final = frozenset({"java.lang.String", "java.lang.Integer", "java.lang.Long"})


def _property(unit: Unit, node: Node) -> Expr:
    """Return ``System.getProperty``: what Java is given by -D, Python may have from its environment."""
    arguments = given(unit, needed(node, "arguments"))
    codes = [each.as_type(unit, STRING) for each in arguments]
    if codes[0].code.startswith(('"java.', '"user.', '"os.', '"file.', '"path.', '"line.')):
        raise Unportable(node, f"the property {codes[0].code} of Java's machine", "os, sys and platform have the like")
    unit.check(node, "a system property", "it is taken from the environment now: give it there, or as an argument")
    known = len(codes) == 2 and codes[1].known
    return Expr(f"os.environ.get({', '.join(each.code for each in codes)})", STRING, known=known)


def _destination(unit: Unit, node: Node) -> Expr:
    """Return a destination that is made without a session, which JNDI has for any name."""
    (name,) = given(unit, needed(node, "arguments"))
    kind = text_of(needed(node, "name")).removeprefix("create")
    return named_destination(unit, node, kind, name.as_type(unit, STRING))


SPECIAL: Final[dict[tuple[str, str], Callable[[Unit, Node], Expr]]] = {
    ("java.lang.String", "format"): _formatted,
    ("javax.jms.Connection", "createSession"): _session,
    ("java.lang.System", "getProperty"): _property,
    ("java.util.Arrays", "asList"): _as_list,
    ("java.util.List", "of"): _as_list,
    ("java.util.Collections", "sort"): _sorted,
    ("org.apache.activemq.artemis.api.jms.ActiveMQJMSClient", "createQueue"): _destination,
    ("org.apache.activemq.artemis.api.jms.ActiveMQJMSClient", "createTopic"): _destination,
    **LOGGER_CALLS,
}
"""By class and method."""
