"""Literals of Java in Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from pyjms.messages.java_text import parse_single
from pyjms.porting.codes import quoted
from pyjms.porting.model import BOOLEAN, INT, LONG, NULL, STRING, Expr, Type, Unportable
from pyjms.porting.syntax import text_of
from pyjms.porting.unit import Unit

__all__ = ["LITERALS"]

_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "s": " ",
    "0": "\0",
    '"': '"',
    "'": "'",
    "\\": "\\",
}
_ESCAPE: Final = re.compile(r"\\(?:u+([0-9a-fA-F]{4})|([0-3]?[0-7]{1,2})|(.))", re.DOTALL)


def _integer(unit: Unit, node: Node) -> Expr:
    text = text_of(node).replace("_", "")
    is_long = text[-1] in "lL"
    text = text.rstrip("lL")
    base = {"0x": 16, "0b": 2}.get(text[:2].lower(), 8 if len(text) > 1 and text[0] == "0" else 10)
    value = int(text[2:] if base in {16, 2} else text, base)
    bits = 64 if is_long else 32
    negative = base != 10 and value >= 1 << (bits - 1)
    if negative:
        value -= 1 << bits
    shown = str(value) if negative or base != 16 else f"0x{text[2:]}"
    return Expr(shown, LONG if is_long else INT, (value, value))


def _floating(unit: Unit, node: Node) -> Expr:
    text = text_of(node).replace("_", "")
    if text[:2].lower() == "0x":
        raise Unportable(node, "a floating-point number in hexadecimal", "write it in decimal")
    if text[-1] in "fF":
        return Expr(repr(parse_single(text)), Type("float"))
    return Expr(repr(float(text.rstrip("dD"))), Type("double"))


def _unescaped(node: Node, text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2]:
            return chr(int(match[2], 8))
        return _ESCAPES[match[3]]

    made = _ESCAPE.sub(replace, text)
    made = made.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if any(ord(letter) > 0xFFFF or letter == "\ufffd" for letter in made):
        raise Unportable(
            node,
            "a character beyond U+FFFF",
            "in Java it has the length 2, in Python 1: see what the program does with it",
        )
    return made


def _string(unit: Unit, node: Node) -> Expr:
    text = text_of(node)
    if text.startswith('"""'):
        lines = text[3:-3].split("\n")[1:]
        used = [line for line in lines[:-1] if line.strip()] + lines[-1:]
        margin = min((len(line) - len(line.lstrip()) for line in used), default=0)
        text = "\n".join([line[margin:].rstrip() for line in lines[:-1]] + [lines[-1][margin:]])
        return Expr(quoted(_unescaped(node, text)), STRING, known=True)
    return Expr(quoted(_unescaped(node, text[1:-1])), STRING, known=True)


def _character(unit: Unit, node: Node) -> Expr:
    letter = _unescaped(node, text_of(node)[1:-1])
    return Expr(quoted(letter), Type("char"), (ord(letter), ord(letter)))


LITERALS: Final[dict[str, Callable[[Unit, Node], Expr]]] = {
    "decimal_integer_literal": _integer,
    "hex_integer_literal": _integer,
    "octal_integer_literal": _integer,
    "binary_integer_literal": _integer,
    "decimal_floating_point_literal": _floating,
    "hex_floating_point_literal": _floating,
    "character_literal": _character,
    "string_literal": _string,
    "true": lambda unit, node: Expr("True", BOOLEAN),
    "false": lambda unit, node: Expr("False", BOOLEAN),
    "null_literal": lambda unit, node: Expr("None", NULL),
}
"""By type of node."""
