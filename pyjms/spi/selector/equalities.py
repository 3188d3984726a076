"""What a message's header fields and properties must equal for a selector to hold: by that those who wait are found without asking each.

Of a selector that is, or joins by AND, ``identifier = literal``, each such term must hold. So messages and selectors have a *key*, a number made of the values of the same
identifiers, and a message is wanted only by selectors with its own key. Who has the key need not want the message: the selector is still evaluated.

Equal values have equal keys because Python's ``==`` says then what Java's comparison says (JMS 1.1 §3.8.1.1). It does not where one side is promoted to a type that
cannot tell whole numbers apart: messages with such a value have no key, and all selectors must be asked (`UNKNOWN_KEY`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.spi.selector.headers import read
from pyjms.spi.selector.nodes import And, Comparison, Identifier, Number, String
from pyjms.types import Float

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector.nodes import Node
    from pyjms.types import Stored

Equalities: TypeAlias = tuple[tuple[str, str | int | float], ...]
"""Identifiers and what they must equal, sorted, each identifier once."""

UNKNOWN_KEY: Final = 0x6A6D73  # whatever number: who has it by chance is asked in vain
"""The key of messages for which all selectors must be asked."""

# From here on a float, and from the other a double, is not only equal to whole numbers that are itself.
_SINGLE = 2.0**24
_DOUBLE = 2.0**53


def equalities_in(root: Node) -> Equalities:
    """Return what must be equal for the condition `root` to be true; it may ask for more, and () says nothing."""
    found: dict[str, str | int | float] = {}
    for term in root.terms if isinstance(root, And) else (root,):
        if isinstance(term, Comparison) and term.operator == "=":
            for name, literal in ((term.left, term.right), (term.right, term.left)):
                if isinstance(name, Identifier) and isinstance(literal, (String, Number)) and _is_exact(literal.value):
                    found.setdefault(name.name, literal.value)
    return tuple(sorted(found.items(), key=lambda each: each[0]))


def key_of_literals(equalities: Equalities) -> int:
    """Return the key of the messages for which `equalities` hold."""
    return hash(tuple([value for _, value in equalities]))


def key_of_message(envelope: Envelope, names: Sequence[str]) -> int:
    """Return the key of a message among selectors that say what these identifiers must equal."""
    values = [read(envelope, name) for name in names]
    for value in values:
        if isinstance(value, float) and not _is_exact(value):
            return UNKNOWN_KEY
    return hash(tuple(values))


def _is_exact(value: Stored) -> bool:
    """Return whether a value equals, by the rules of selectors, those alone that it equals in Python, of all values that are exact and all whole numbers."""
    if not isinstance(value, float):
        return True
    limit = _SINGLE if isinstance(value, Float) else _DOUBLE
    return -limit < value < limit
