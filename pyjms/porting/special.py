"""Calls whose translation no table can tell: what is printed, formats, lists of anything, loggers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import given
from pyjms.porting.codes import as_operand, is_pure
from pyjms.porting.conversions import convert, text_of_value
from pyjms.porting.model import BOOLEAN, INT, OBJECT, STRING, VOID, Expr, Type, Unportable
from pyjms.porting.syntax import children, needed, text_of
from pyjms.porting.table import expression, value_for
from pyjms.porting.unit import Unit

__all__ = ["SPECIAL", "printed"]


def _formatted(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    if not arguments or arguments[0].type != STRING:
        raise Unportable(node, "a format for a locale", "leave the locale out if it is an English one")
    codes = []
    for each in arguments[1:]:
        if each.type.dims:
            raise Unportable(node, "a format with an array", "give its elements one by one")
        value = each.as_type(unit, each.type)
        text_of_value(unit, value, each.node)  # which tells of texts that are another provider's
        boxed = value.type.name in {"float", "java.lang.Float", "char", "java.lang.Character"}
        codes.append(convert(unit, value, OBJECT, each.node).code if boxed else value.code)
    first = arguments[0].as_type(unit, STRING)
    return Expr(f"java.format({', '.join([first.code, *codes])})", STRING, known=True)


def printed(unit: Unit, node: Node, stream: Expr, name: str) -> Expr:
    """Return a call of ``System.out``, ``System.err`` or a variable that is one of them."""
    is_out = stream.code == "sys.stdout"
    if name == "flush":
        return Expr(f"{stream.code}.flush()", VOID)
    if name not in {"println", "print", "printf", "format"} or stream.code not in {"sys.stdout", "sys.stderr"}:
        raise Unportable(node, f"PrintStream.{name}")
    nodes = children(needed(node, "arguments"))
    if name in {"printf", "format"}:
        code = _formatted(unit, node).code
    elif nodes:
        value = expression(unit, nodes[0])
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
    if (
        len(arguments) != 1
        or not kind.args
        or kind.args[0].name not in {"java.lang.String", "java.lang.Integer", "java.lang.Long"}
    ):
        raise Unportable(node, "a list sorted by an order of its own", "use list.sort with a key")
    return Expr(f"{arguments[0].as_type(unit, kind).code}.sort()", VOID)


def _itself(unit: Unit, node: Node) -> Expr:
    """Return a collection that is safe for threads: as Python's are for what is one call."""
    (argument,) = given(unit, needed(node, "arguments"))
    return argument.as_type(unit, argument.type)


def _property(unit: Unit, node: Node) -> Expr:
    """Return ``System.getProperty``: what Java is given by -D, Python may have from its environment."""
    arguments = given(unit, needed(node, "arguments"))
    codes = [each.as_type(unit, STRING) for each in arguments]
    if codes[0].code.startswith(('"java.', '"user.', '"os.', '"file.', '"path.', '"line.')):
        raise Unportable(node, f"the property {codes[0].code} of Java's machine", "os, sys and platform have the like")
    unit.check(node, "a system property", "it is taken from the environment now: give it there, or as an argument")
    known = len(codes) == 2 and codes[1].known
    return Expr(f"os.environ.get({', '.join(each.code for each in codes)})", STRING, known=known)


def _logger(unit: Unit, node: Node) -> Expr:
    argument = children(needed(node, "arguments"))
    name = argument[0] if argument else node
    if name.type == "class_literal":
        full = unit.find_class(text_of(children(name)[0]), name)
        code = f'"{full}"'
    else:
        code = value_for(unit, name, STRING).code
    unit.check(node, "a logger", "it is one of Python's logging: set that up, as it shows warnings and errors alone")
    return Expr(f"logging.getLogger({code})", Type("Logger"), known=True)


_LEVELS: Final = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "severe": "error",
    "fatal": "critical",
    "fine": "debug",
}


def _logged(unit: Unit, node: Node) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    level = _LEVELS[text_of(needed(node, "name"))]
    logger = expression(unit, needed(node, "object")).code
    values = [each.as_type(unit, each.type) for each in arguments]
    texts = [text_of_value(unit, value, each.node) for value, each in zip(values, arguments, strict=True)]
    error = ""
    if len(values) > 1 and unit.is_subtype(values[-1].type.name, "java.lang.Throwable"):
        error = f", exc_info={values[-1].code}"
        texts.pop()
    if len(texts) == 1:
        return Expr(f'{logger}.{level}("%s", {texts[0]}{error})', VOID)
    if values[0].code.count("{}") != len(texts) - 1 or "%" in values[0].code or not values[0].code.startswith('"'):
        raise Unportable(node, "this call of a logger", "write it with %s, as logging of Python has it")
    pattern = values[0].code.replace("{}", "%s")
    return Expr(f"{logger}.{level}({', '.join([pattern, *texts[1:]])}{error})", VOID)


SPECIAL: Final[dict[tuple[str, str], Callable[[Unit, Node], Expr]]] = {
    ("java.lang.String", "format"): _formatted,
    ("javax.jms.Connection", "createSession"): _session,
    ("java.lang.System", "getProperty"): _property,
    ("java.util.Arrays", "asList"): _as_list,
    ("java.util.List", "of"): _as_list,
    ("java.util.Collections", "sort"): _sorted,
    ("java.util.Collections", "synchronizedList"): _itself,
    ("java.util.Collections", "synchronizedMap"): _itself,
    ("org.slf4j.LoggerFactory", "getLogger"): _logger,
    ("org.apache.log4j.Logger", "getLogger"): _logger,
    ("org.apache.logging.log4j.LogManager", "getLogger"): _logger,
    ("org.apache.commons.logging.LogFactory", "getLog"): _logger,
    ("java.util.logging.Logger", "getLogger"): _logger,
    **{
        (kind, level): _logged
        for kind in (
            "Logger",
            "org.slf4j.Logger",
            "org.apache.log4j.Logger",
            "org.apache.logging.log4j.Logger",
            "org.apache.commons.logging.Log",
            "java.util.logging.Logger",
        )
        for level in _LEVELS
    },
}
"""By class and method."""
