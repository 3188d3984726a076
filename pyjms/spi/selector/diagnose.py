"""What to tell the author of a selector that the grammar does not allow: what was found, and what to write instead."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from unicodedata import name

from pyjms.spi.selector.identifiers import is_reserved
from pyjms.spi.selector.problem import Problem, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

# Slips that are seen often, as a pattern around the place where the parser stopped, and what to do about them. The
# first one that fits is reported, at its own beginning.
_SLIPS: Final = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"<=>|===?", "'=' compares for equality"),
        (r"!=|=!|><|<\s+>", "'<>' compares for inequality"),
        (r"=\s*<|<\s+=", "'at most' is written '<='"),
        (r"=\s*>|>\s+=", "'at least' is written '>='"),
        (r"&&?", "conditions are joined by AND"),
        (r"\|\|?", "conditions are joined by OR, and no operator joins strings"),
        (r"!", "a condition is negated by NOT"),
        (r'"', "strings stand in single quotes, as in x = 'a', and property names in none"),
        (r"[`\[\]]", "property names stand without quotes and brackets"),
        (r"[{}]", "brackets are round: ( and )"),
        (r"%", "there is no remainder operator; as a wildcard, % stands in the pattern of LIKE"),
        (r"\^|\*\s*\*", "there is no power operator"),
        (r"--[^\n\r]*", "there are no comments in selectors, and '--' is two minus signs"),
        (r"/\s*\*|//", "there are no comments in selectors"),
        (r";", "a selector is one condition and has no ';'"),
        (r"\?|:\w*", "selectors have no parameters: write the value itself"),
        (r"\\", "a backslash can only stand in a string"),
        # A number that runs into letters or a second point: 1a, 5LL, 1E, 0x, 1_000, 1.2.3.
        (
            r"(?<![\w$.])[0-9.]*[0-9][\w.]*[^\W0-9][\w.]*|(?<![\w$.])[0-9]+\.[0-9]*(?:\.[0-9]*)+",
            "this is no number as Java writes it, and a name cannot begin with a digit",
        ),
        (r"(?<=[\w$])\.(?=[\w$])", "names have letters, digits, _ and $, but no dots"),
    )
)
_SLIP_LENGTH_MAX = 200

_UNCLOSED = "found a single quote: the string that begins here does not end; a quote in a string is doubled: 'it''s'"
_VALUE = "a value: a property name, a number or a string in single quotes"
# What may follow, by some of the terminals that the parser would accept; the first row with all of them counts.
_EXPECTATIONS: Final = (
    ({"IDENTIFIER", "NOT"}, "a condition"),
    ({"IDENTIFIER", "LEFT"}, _VALUE),
    ({"IDENTIFIER"}, "a string in single quotes"),
    ({"COMMA"}, "',' or ')'"),
    ({"LEFT"}, "a list of strings in brackets, as in IN ('a', 'b')"),
    ({"NULL", "NOT"}, "NULL or NOT NULL"),
    ({"NULL"}, "NULL"),
    ({"COMPARE", "$END"}, "an operator (=, <>, <, IN, AND, OR, …) or the end"),
    ({"COMPARE", "RIGHT"}, "an operator (=, <>, <, IN, AND, OR, …) or ')'"),
    ({"_BETWEEN"}, "BETWEEN, IN or LIKE"),
    ({"$END"}, "AND, OR or the end"),
    ({"RIGHT"}, "AND, OR or ')'"),
    ({"_AND"}, "AND and the upper bound of BETWEEN"),
)

# Characters that word processors and other languages put in the place of those that selectors know: by code point,
# since some cannot be told from the right ones.
_SUBSTITUTES: Final[Mapping[int, str]] = MappingProxyType(
    {
        **dict.fromkeys((0xB4, 0xAB, 0xBB, *range(0x2018, 0x2020)), "strings stand in straight quotes, as in x = 'a'"),
        0x00AC: "a condition is negated by NOT",
        0x00D7: "the multiplication sign is '*'",
        0x00F7: "the division sign is '/'",
        0x2013: "the minus sign is '-'",
        0x2212: "the minus sign is '-'",
        0x2260: "'<>' compares for inequality",
        0x2264: "'at most' is written '<='",
        0x2265: "'at least' is written '>='",
    }
)

_TOKEN = re.compile(r"[\w$]+|'(?:[^']|'')*'|<>|<=|>=|.", re.DOTALL)
_WORD = re.compile(r"[\w$]")
# What follows a word that was meant as the name of a property.
_OPERATOR = re.compile(r"\s*(?:[=<>+*/-]|(?:IS|IN|LIKE|BETWEEN|NOT)\b)", re.IGNORECASE)


def foreign_character(character: str) -> str:
    """Return what to say about a character that stands outside a string and has no meaning there."""
    advice = "blanks, tabs, form feeds and line ends separate words" if character.isspace() else ""
    advice = advice or _SUBSTITUTES.get(ord(character), "names have letters, digits, _ and $")
    return f"found {_describe(character)}, which has no meaning in a selector: {advice}"


def unexpected(text: str, position: int, accepted: frozenset[str] | None) -> Problem:
    """Return what to say about the token at `position`.

    `accepted` are the terminals that could have stood there, or None if there is a character that begins no terminal.
    """
    slip = _slip(text, position)
    if slip is not None:
        return slip
    if accepted is None:
        return Problem(_UNCLOSED if text[position] == "'" else foreign_character(text[position]), position)
    match = _TOKEN.match(text, position)
    found = match[0] if match else ""
    expected = next(words for terminals, words in _EXPECTATIONS if terminals <= accepted)
    advice = _advice(text, position, found, accepted)
    return Problem(f"found {_describe(found)}, expected {expected}{advice and ': '}{advice}", position)


def _slip(text: str, position: int) -> Problem | None:
    """Return the slip whose characters `position` is among."""
    begin = max(0, position - _SLIP_LENGTH_MAX)
    for pattern, advice in _SLIPS:
        for match in pattern.finditer(text, begin, position + _SLIP_LENGTH_MAX):
            if match.start() <= position < match.end():
                return Problem(f"found {_describe(match[0])}: {advice}", match.start())
    return None


def _describe(found: str) -> str:
    if not found:
        return "the end of the selector"
    if found.startswith("'"):
        return f"the string {shorten(found)}"
    if is_reserved(found):
        return f"the reserved word {found}"
    if len(found) > 1 or (found.isascii() and found.isprintable()):
        return f"'{shorten(found)}'"
    shown = f"'{found}' " if found.isprintable() and not found.isspace() else ""
    return f"{shown}U+{ord(found):04X} {name(found, '')}".rstrip()


def _advice(text: str, position: int, found: str, accepted: frozenset[str]) -> str:
    """Return what `found` and the words before it tell about the author's intention, or nothing."""
    before = [word.upper() for word in text[:position].split()]
    previous = before[-1] if before else ""
    if not found:
        return "a bracket is not closed" if "RIGHT" in accepted and "IDENTIFIER" not in accepted else ""
    if text[position - 1 : position] == "'" and _WORD.match(found):
        return "a quote in a string is doubled: 'it''s'"
    if found == ")" and "$END" in accepted:
        return "no bracket is open"
    if found == "(" and re.search(r"[\w$]\s*$", text[:position]) and not is_reserved(previous):
        return "there are no functions in selectors"
    if found in {"=", "<>", "<", "<=", ">", ">="} and "_OR" in accepted:
        return "comparisons do not chain; write a < x AND x < b"
    if "NULL" in accepted and "IDENTIFIER" not in accepted:
        return "IS is for NULL only; write b = TRUE, and other operators without IS"
    if found.upper() == "NULL":
        return "a test for null is written x IS NULL or x IS NOT NULL"
    word_is_name = is_reserved(found) and _OPERATOR.match(text, position + len(found))
    if "IDENTIFIER" in accepted and (word_is_name or (previous == "NOT" and _OPERATOR.match(text, position))):
        return "no property can have a reserved word as its name"
    if before and before[0] in {"SELECT", "WHERE"}:
        return "a selector is only the condition that SQL writes after WHERE"
    return "there are no comments in selectors" if "--" in text[:position] else ""
