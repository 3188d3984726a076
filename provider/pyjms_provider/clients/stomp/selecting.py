"""Selectors for brokers that see properties as text, and compare them by the type of the literal (ActiveMQ, Artemis).

Such a broker takes ``n = 2`` for true when n is the text ``2``, but not when it is ``2.0``; it cannot calculate with texts, nor
see that one is a boolean. So numbers are written as doubles, which fit both, a boolean as ``(b = TRUE)``; what would still come
out otherwise than JMS 1.1 §3.8 says is refused.
"""

from __future__ import annotations

import re

from pyjms.spi.errors import CapabilityError
from pyjms.spi.selector import Selector
from pyjms.spi.selector.nodes import (
    And,
    Arithmetic,
    Between,
    Boolean,
    Comparison,
    Identifier,
    In,
    IsNull,
    Like,
    Node,
    Not,
    Number,
    Or,
    Sign,
    names_in,
)
from pyjms_provider.protocols.stomp.dialects import Dialect
from pyjms_provider.protocols.stomp.message_properties import is_reserved

__all__ = ["selector_text"]

_IDENTIFIER = re.compile(r"'(?:[^']|'')*'|[^\W\d][\w$]*")
_NUMBERS = frozenset({"JMSPriority", "JMSTimestamp"})
"""Header fields, which brokers have as numbers."""
_EXACT_MAX = 2**53


def selector_text(selector: Selector, dialect: Dialect) -> str:
    """Return `selector` as the broker reads it. Raises `CapabilityError` for what would mean something else there."""
    if dialect.preserves_headers:
        return selector.text
    for name in sorted(selector.identifiers):
        if name == "JMSMessageID":
            raise CapabilityError(f"{dialect.title} gives messages ids of its own, so a selector cannot ask for {name}")
        if is_reserved(name):
            raise CapabilityError(
                f"a property {name!r} travels under another name over STOMP, so that {dialect.title} cannot select by it"
            )
    writer = _Writer(selector.text, dialect)
    writer.condition(selector.root)
    names = dialect.selector_names
    return dialect.selector_prefix + _IDENTIFIER.sub(lambda found: names.get(found[0], found[0]), writer.text())


class _Writer:
    """Goes through the tree and notes what is to be replaced in the text. Raises `CapabilityError`."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._dialect = dialect
        self._replaced: list[tuple[int, int, str]] = []

    def text(self) -> str:
        """Return the text with all replacements made."""
        text = self._text
        for start, end, new in sorted(self._replaced, reverse=True):
            text = f"{text[:start]}{new}{text[end:]}"
        return text

    def condition(self, node: Node) -> None:
        """Look at what is true, false or unknown."""
        match node:
            case And(terms=terms) | Or(terms=terms):
                for term in terms:
                    self.condition(term)
            case Not(operand=operand):
                self.condition(operand)
            case Identifier(name=name):
                self._replaced.append((node.start, node.end, f"({name} = TRUE)"))
            case Comparison(left=left, right=right):
                self._values(left, right)
            case Between(operand=operand, low=low, high=high):
                self._values(operand, low)
                self._values(operand, high, is_first_done=True)
            case In() | Like() | IsNull() | Boolean():
                return
            case _:
                self._refuse(node)

    def _values(self, left: Node, right: Node, *, is_first_done: bool = False) -> None:
        for side in (right,) if is_first_done else (left, right):
            match side:
                case Number(value=value):
                    self._replaced.append((side.start, side.end, _number_text(value)))
                case Arithmetic() | Sign() if any(name not in _NUMBERS for name in names_in(side)):
                    self._refuse(side)
                case And() | Or() | Not() | Comparison() | Between() | In() | Like() | IsNull():
                    self._refuse(side)
                case _:
                    continue
        if names_in(left) and names_in(right) and not {*names_in(left), *names_in(right)} <= _NUMBERS:
            self._refuse(right)

    def _refuse(self, node: Node) -> None:
        raise CapabilityError(
            f"{self._dialect.title} sees properties as text over STOMP, so that {self._text[node.start : node.end]!r} in a "
            "selector would not mean what it says: compare a property with a literal"
        )


def _number_text(value: float) -> str:
    if isinstance(value, int) and abs(value) > _EXACT_MAX:
        return str(int(value))
    return repr(float(value))
