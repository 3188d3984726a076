"""A delivery whose message is fetched, or whose delivery is noted, when the client's thread asks for the message."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import GoneError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.envelope import Envelope

LARGE: Final = 16_384
"""Bytes of a message from which on it pays to hold it without its content."""


def _gone() -> NoReturn:
    raise GoneError("the message could not be had: it is in its queue again")


def _nothing() -> None:
    """Undo nothing more: the message may be another client's by now, as often delivered."""


class StoredDelivery(Delivery):
    """Made under the lock of a queue, where nothing may wait; `envelope` is read without any lock, and may."""

    __slots__ = ("_fetch", "_fetched", "_undo")

    def __init__(
        self, fetch: Callable[[], Envelope], undo: Callable[[], None], count: int, redelivered: bool, tag: object
    ) -> None:
        """`undo`: what has the message in its queue again if `fetch` fails."""
        self._fetch = fetch
        self._undo = undo
        self._fetched: Envelope | None = None
        # Frozen for type checkers only (`pyjms.spi.envelope.fact`); the fields are set as its own constructor does.
        self.count = count  # type: ignore[misc]
        self.redelivered = redelivered  # type: ignore[misc]
        self.tag = tag  # type: ignore[misc]

    @property
    def envelope(self) -> Envelope:
        """The message. Raises `ProviderError` when it cannot be read, or was given back meanwhile."""
        if self._fetched is None:
            fetch, self._fetch = self._fetch, _gone
            try:
                self._fetched = fetch()
            except Exception:
                self._undo()
                self._undo = _nothing
                raise
        return self._fetched


def without_content(delivery: Delivery) -> Delivery:
    """Return what settles a delivery, or gives it back, and has its message's headers alone.

    For who has passed the message on, and may be long in hearing what became of it: else it would be in memory all the time.
    """
    headers = replace(delivery.envelope, properties={}, body=None)
    return Delivery(headers, delivery.count, delivery.redelivered, delivery.tag)


def is_there(delivery: Delivery) -> bool:
    """Read a message; return False if it was set aside at this moment. May wait for the disk. Raises `ProviderError`."""
    try:
        return delivery.envelope is not None
    except GoneError:
        return False
