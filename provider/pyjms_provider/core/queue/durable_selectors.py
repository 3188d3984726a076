"""Selectors of durable subscriptions, from the texts that a journal has kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms.spi.selector import Selector, selector_or_none
from pyjms.spi.selector.nodes import Boolean

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope

PLAIN: Final = "convert_string_expressions:"
"""So the text of a plain client's selector begins that is not one of JMS."""


def durable_selector(text: str | None) -> Selector | None:
    """Return the selector that had this text, None for none: one of JMS, or of a plain client. Raises `InvalidSelectorError`."""
    if text is None or not text.startswith(PLAIN):
        return selector_or_none(text)
    from pyjms_provider.core.queue.plain_selectors import (
        plain_selector,  # with the parser, which takes a while to import
    )

    return plain_selector(text)


def unreadable_selector(text: str) -> Selector:
    """Return what stands for a selector that cannot be read: it has the text, and nobody knows which messages match, so none does."""
    return Selector(text, _never, frozenset(), _never, Boolean(value=False, start=0, end=0))


def _never(_: Envelope) -> bool:
    return False
