"""Conversions of properties and body values: one type that is not read as it must be, or read as it must not."""

from __future__ import annotations

from collections.abc import Iterator

from pyjms.types import Byte, Char, Float, Long, Short
from tests.tck.broken.mutation import Mutant, edit, entry, mutant, value

__all__ = ["MUTANTS"]

_C = "pyjms.messages.conversion:"

_CELLS = (
    # written, stored as, readable ones (not to be read), unreadable ones (to be read), and the requirements of each
    ("boolean", bool, "STRING", "BYTE", "3.5.4-a 3.11.3-b", "3.5.4-b 3.11.3-c"),
    ("byte", Byte, "LONG", "DOUBLE", "3.5.4-c 3.11.3-d", "3.5.4-d 3.11.3-e"),
    ("short", Short, "LONG", "FLOAT", "3.5.4-e 3.11.3-f", "3.5.4-f 3.11.3-g"),
    ("char", Char, "STRING", "INT", "3.11.3-h", "3.11.3-i"),
    ("int", int, "LONG", "SHORT", "3.5.4-g 3.11.3-j", "3.5.4-h 3.11.3-k"),
    ("long", Long, "STRING", "INT", "3.5.4-i 3.11.3-l", "3.5.4-j 3.11.3-m"),
    ("float", Float, "DOUBLE", "BOOLEAN", "3.5.4-k 3.11.3-n", "3.5.4-l 3.11.3-o"),
    ("double", float, "STRING", "FLOAT", "3.5.4-m 3.11.3-p", "3.5.4-n 3.11.3-q"),
    ("String", str, "SHORT", "CHAR", "3.5.4-o 3.11.3-r", ""),
    ("String", str, "DOUBLE", "BYTES", "3.5.4-o 3.11.3-r", "3.11.3-s"),
    ("byte[]", bytes, "BYTES", "STRING", "3.11.3-t", "3.11.3-u"),
)


def _cells() -> Iterator[Mutant]:
    for written, stored, readable, unreadable, must, must_not in _CELLS:
        name = f"{_C}{readable}._converters"
        yield mutant(must, f"a value written as {written} cannot be read as {readable.lower()}", entry(name, stored))
        if must_not:
            other = entry(f"{_C}{unreadable}._converters", stored, lambda value: value)
            yield mutant(must_not, f"a value written as {written} can be read as {unreadable.lower()}", other)


_J = "pyjms.messages.java_text:"

MUTANTS = (
    *_cells(),
    mutant(
        "3.5.4-p 3.11.3-w",
        "text is stripped of blanks before it is read as a whole number",
        edit(_J + "parse_integral", "if not _INTEGRAL", "text = text.strip()\n    if not _INTEGRAL"),
    ),
    mutant(
        "3.11.3-x",
        "the word yes reads as true",
        edit(_J + "parse_boolean", 'len(text) == 4 and text.lower() == "true"', "text == 'true'"),
    ),
    mutant("3.5.4-q 3.11.3-y", "null reads as the boolean true", value(_C + "BOOLEAN._null", True)),
    mutant("3.5.4-q 3.11.3-y 3.11.3-aa 3.5.8-a", "null reads as the int 0", value(_C + "INT._null", 0)),
    mutant("3.11.3-z", "null reads as a blank char", value(_C + "CHAR._null", " ")),
    mutant(
        "3.5.8-a",
        "a property that was never set cannot be read",
        edit(
            "pyjms.messages.base:Properties._get",
            "value = self._properties.get(name)",
            "value = self._properties[name]",
        ),
    ),
    mutant(
        "3.11.3-aa",
        "a map entry that was never set cannot be read as a String",
        edit("pyjms.messages.bodies:JmsMapMessage.get_string", "self._body.get(name)", "self._body[name]"),
    ),
    mutant(
        "3.11.3-ab",
        "a read of a StreamMessage that fails moves on",
        edit(
            "pyjms.messages.bodies:JmsStreamMessage._read",
            "value = kind.read(self._current(), _FIELD, self._position)",
            "field = self._current()\n    self._position += 1\n    return kind.read(field, _FIELD, self._position - 1)",
        ),
    ),
)
