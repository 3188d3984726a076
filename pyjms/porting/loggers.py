"""Calls of loggers, of java.util.logging, slf4j, log4j and commons-logging: they become calls of Python's logging."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import Argument, given
from pyjms.porting.codes import quoted
from pyjms.porting.constants import constant_text
from pyjms.porting.conversions import text_of_value
from pyjms.porting.model import STRING, VOID, Expr, Type, Unportable
from pyjms.porting.syntax import children, needed, text_of
from pyjms.porting.table import expression
from pyjms.porting.unit import Unit

__all__ = ["LOGGER_CALLS"]

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
