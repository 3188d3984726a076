"""Texts that are known at translation, and checks of texts that Python handles differently."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from pyjms.messages.java_text import parse_single
from pyjms.porting.codes import quoted
from pyjms.porting.java.errors import PatternSyntaxException, UnsupportedEncodingException
from pyjms.porting.java.formats import DATE_LETTERS
from pyjms.porting.java.strings import charset_named, compiled
from pyjms.porting.model import BOOLEAN, INT, LONG, NULL, STRING, Expr, Type, Unportable, child, needed, text_of
from pyjms.porting.table import without_parentheses
from pyjms.porting.unit import ClassInfo, Unit

# Literals of Java in Python.

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
    # A leading 0 means octal in Java; Python refuses such a literal.
    base = {"0x": 16, "0b": 2}.get(text[:2].lower(), 8 if len(text) > 1 and text[0] == "0" else 10)
    value = int(text[2:] if base in {16, 2} else text, base)
    bits = 64 if is_long else 32
    # Literals of other bases may name the bits of a negative number (JLS §3.10.1): 0xFFFFFFFF is -1.
    negative = base != 10 and value >= 1 << (bits - 1)
    if negative:
        value -= 1 << bits
    shown = str(value) if negative or base != 16 else f"0x{text[2:]}"
    return Expr(shown, LONG if is_long else INT, (value, value))


def _floating(unit: Unit, node: Node) -> Expr:
    text = text_of(node).replace("_", "")
    if text[:2].lower() == "0x":
        raise Unportable(node, "a floating-point number in hexadecimal", "write it in decimal")
    # A float literal is rounded to 32 bits once, from the decimal text; by way of a double it could be rounded twice.
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
    # Two escapes may be the halves of one character, which is a single one in Python.
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
        # The line of the closing quotes counts for the margin, blank lines do not (JLS §3.10.6).
        used = [line for line in lines[:-1] if line.strip()] + lines[-1:]
        margin = min((len(line) - len(line.lstrip()) for line in used), default=0)
        # Blanks at the end of a line of a text block do not count (JLS §3.10.6).
        text = "\n".join([line[margin:].rstrip() for line in lines[:-1]] + [lines[-1][margin:]])
        # Escapes are read after the margin is removed, so that an escaped blank stays.
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


_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][\w$]*")
_RESERVED: Final = frozenset({"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"})
_PATTERNS: Final = frozenset({"split", "matches", "replaceAll", "replaceFirst", "compile"})


def constant_text(unit: Unit, node: Node) -> str | None:
    """Return the text of a literal, or of a constant of the program; None if unknown."""
    node = without_parentheses(node)
    if node.type == "string_literal":
        made: str = _unquoted(LITERALS["string_literal"](unit, node).code)
        return made
    if node.type == "binary_expression" and text_of(needed(node, "operator")) == "+":
        parts = [constant_text(unit, needed(node, side)) for side in ("left", "right")]
        return None if None in parts else "".join(each or "" for each in parts)
    info, name = _field_named(unit, node)
    # Only a final field that is declared with a literal has a certain text.
    field = unit.find_field(info, name) if info is not None else None
    value = child(field.declarator, "value") if field is not None and field.is_final else None
    return constant_text(unit, value) if value is not None and value.type == "string_literal" else None


def _unquoted(code: str) -> str:
    import json

    return str(json.loads(code))


def _field_named(unit: Unit, node: Node) -> tuple[ClassInfo | None, str]:
    if node.type == "identifier" and unit.scope is not None and unit.scope.find(text_of(node)) is None:
        info: ClassInfo | None = unit.scope.info
        while info is not None and unit.find_field(info, text_of(node)) is None:
            info = info.outer
        return info, text_of(node)
    if node.type == "field_access" and needed(node, "object").type == "identifier":
        owner = text_of(needed(node, "object"))
        if unit.scope is None or unit.scope.find(owner) is None:
            return unit.class_info(unit.find_class(owner, node)), text_of(needed(node, "field"))
    return None, ""


def check_text(unit: Unit, node: Node, argument: Node, kind: str, name: str) -> None:
    """Raise `Unportable` for a pattern, a charset or a date format that Python lacks; report one that is not known yet."""
    found = constant_text(unit, argument)
    if name in _PATTERNS:
        _check_pattern(unit, node, found)
    elif name in {"getBytes", "forName", "String", "toString", "InputStreamReader", "OutputStreamWriter"}:
        try:
            # A name that is not known yet is checked when the program runs.
            charset_named(found or "UTF-8")
        except UnsupportedEncodingException:
            raise Unportable(
                node, f"the charset {found}", "Python has none of that name: see the codecs module"
            ) from None
    elif name == "SimpleDateFormat":
        # Quoted parts of the format are text, and their letters mean nothing.
        letters = [each[0] for each in re.findall(r"'[^']*'|[A-Za-z]", found or "") if each[0].isalpha()]
        unknown = next((each for each in letters if each not in DATE_LETTERS), None)
        if unknown is not None:
            raise Unportable(node, f"the letter {unknown} in a format of dates", "use strftime of Python's datetime")
        if found is None:
            unit.check(
                node, "a format of dates that is known when the program runs", f"its letters may be {DATE_LETTERS}"
            )


def _check_pattern(unit: Unit, node: Node, found: str | None) -> None:
    if found is None:
        unit.check(
            node,
            "a regular expression that is known when the program runs",
            "Python has most of Java's syntax: see that it has this one",
        )
        return
    try:
        compiled(found)
    except PatternSyntaxException as error:
        reason = str(error).partition("\n")[0]
        raise Unportable(node, f"the regular expression {found}: {reason}", "write it with Python's re") from None


def tell_property_name(unit: Unit, node: Node, argument: Node) -> None:
    """Report a property name that JMS forbids, but many Java providers accept."""
    name = constant_text(unit, argument)
    if name is None:
        return
    if not _IDENTIFIER.fullmatch(name) or name.upper() in _RESERVED:
        unit.check(
            node,
            f"the property name {name}",
            "pyjms refuses it, as JMS does (§3.5.1, §3.8.1.1): write _ in place of other characters, in all programs that use it",
        )
    # JMS 1.1 §3.5.1: `JMSX` is for properties of JMS, `JMS_` for the provider's; clients set two of the former
    # (§3.5.9).
    elif name.startswith("JMS") and not name.startswith(("JMS_", "JMSXGroupID", "JMSXGroupSeq")):
        unit.check(
            node, f"the property name {name}", "names that begin with JMS are the provider's: choose another one"
        )
