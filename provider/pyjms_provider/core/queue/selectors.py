"""Selectors of durable subscriptions, from the texts in a journal, and of plain STOMP clients, whose properties are all texts.

As in ActiveMQ Classic for such clients, a text counts as a number where a selector compares it with numbers, and as a boolean where it is compared
with TRUE or FALSE or stands alone: ``cups > 1`` matches a message with the header ``cups:2``. Values that are no texts are compared as in JMS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.selector import Selector, compile_selector, selector_or_none
from pyjms.spi.selector.compile import compile_condition
from pyjms.spi.selector.headers import ATTRIBUTES, FUNCTIONS
from pyjms.spi.selector.nodes import (
    And,
    Arithmetic,
    Between,
    Boolean,
    Comparison,
    Identifier,
    Node,
    Not,
    Number,
    Or,
    Sign,
    walk,
)
from pyjms.spi.selector.parse import parse

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms.types import Stored


PLAIN: Final = "convert_string_expressions:"
"""The prefix of a plain client's selector that does not mean the same as a selector of JMS."""


def durable_selector(text: str | None) -> Selector | None:
    """Return the selector with this text, None for none: one of JMS, or of a plain client. Raises `InvalidSelectorError`."""
    if text is None or not text.startswith(PLAIN):
        return selector_or_none(text)
    return plain_selector(text)


def unreadable_selector(text: str) -> Selector:
    """Return a selector that stands for an unreadable text: it has the text, and matches no message."""
    return Selector(text, _never, frozenset(), _never, Boolean(value=False, start=0, end=0))


def _never(_: Envelope) -> bool:
    return False


_AS_NUMBER, _AS_BOOLEAN = "\0", "\1"  # before a name; no property's name begins like this
_BOOLEANS: Final = {"true": True, "false": False}


def plain_selector(text: str | None) -> Selector | None:
    """Return the selector of a plain client, None for none. Raises `InvalidSelectorError`."""
    # A text from the journal begins with the prefix; one from a client does not.
    return None if not text else _compile(text.removeprefix(PLAIN))


@lru_cache(maxsize=1024)
def _compile(text: str) -> Selector:
    selector = compile_selector(text)
    root = parse(text)
    converted = _condition(root)
    # Nothing in it is compared with a number or a boolean, so it means the same to every client.
    if converted == root:
        return selector
    matches, fails = compile_condition(converted)
    # Another text, as queues identify a selector by its text.
    return Selector(
        f"{PLAIN}{text}",
        lambda envelope: matches(_seen(envelope)),
        selector.identifiers,
        lambda envelope: fails(_seen(envelope)),
        converted,
    )


def _seen(envelope: Envelope) -> Envelope:
    return replace(envelope, properties=_Converted(envelope.properties))


class _Converted(Mapping[str, "Stored"]):
    """Properties, and the same as numbers and as booleans."""

    def __init__(self, properties: Mapping[str, Stored]) -> None:
        self._properties = properties

    def get(self, name: str, default: Any = None) -> Any:
        kind, plain = name[:1], name[1:]
        if kind == _AS_NUMBER:
            return _number(self._properties.get(plain))
        if kind == _AS_BOOLEAN:
            value = self._properties.get(plain)
            # Another text stays as it is, and is neither TRUE nor FALSE.
            return _BOOLEANS.get(value, value) if isinstance(value, str) else value
        return self._properties.get(name, default)

    def __getitem__(self, name: str) -> Stored:
        return self._properties[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._properties)

    def __len__(self) -> int:
        return len(self._properties)


def _number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # A whole number first: as a float it would lose digits beyond 2**53.
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _condition(node: Node) -> Node:
    """Return a condition whose properties are converted to the types of its literals."""
    match node:
        case And(terms=terms) | Or(terms=terms):
            return replace(node, terms=tuple(map(_condition, terms)))
        case Not(operand=operand):
            return replace(node, operand=_condition(operand))
        case Identifier():
            return _renamed(node, _AS_BOOLEAN)
        case Comparison() | Between():
            below = list(walk(node))
            # The literals decide the types of the identifiers beside them; two identifiers alone are compared as in JMS.
            if any(isinstance(each, (Number, Arithmetic, Sign)) for each in below):
                return _value(node, _AS_NUMBER)
            if any(isinstance(each, Boolean) for each in below):
                return _value(node, _AS_BOOLEAN)
    return node


def _value(node: Node, kind: str) -> Node:
    match node:
        case Identifier():
            return _renamed(node, kind)
        case Comparison(left=left, right=right):
            return replace(node, left=_value(left, kind), right=_value(right, kind))
        case Between(operand=operand, low=low, high=high):
            return replace(node, operand=_value(operand, kind), low=_value(low, kind), high=_value(high, kind))
        case Arithmetic(first=first, rest=rest):
            others = tuple((operator, _value(operand, kind)) for operator, operand in rest)
            return replace(node, first=_value(first, kind), rest=others)
        case Sign(operand=operand):
            return replace(node, operand=_value(operand, kind))
    return node


def _renamed(node: Identifier, kind: str) -> Identifier:
    # Headers have types of their own, for plain clients, too.
    is_header = node.name in ATTRIBUTES or node.name in FUNCTIONS
    return node if is_header else replace(node, name=kind + node.name)
