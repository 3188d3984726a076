"""What this process knows of messages that a broker will deliver again: after a lost connection, or a closed session.

By JMSMessageID, destination and durable subscription: how often one was delivered here, and which were acknowledged without an answer. Both are
bounded; what falls out is delivered with the broker's flag alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any, TypeAlias

from pyjms.spi.envelope import Address, Envelope
from pyjms_provider.clients.stomp.held_message import HeldMessage

__all__ = ["REDELIVERIES", "Redeliveries"]

_KEPT_MAX = 10_000
_Key: TypeAlias = tuple[str, Address, str]


class Redeliveries:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: OrderedDict[_Key, int] = OrderedDict()
        self._acknowledged: OrderedDict[_Key, None] = OrderedDict()

    def seen(self, messages: Iterable[HeldMessage]) -> None:
        """Remember how often these were delivered; the connection that they came by is gone."""
        with self._lock:
            for held in messages:
                if held.envelope is not None and held.count and (key := _key(held.envelope, held.owner)) is not None:
                    self._counts[key] = held.count
            _shorten(self._counts)

    def acknowledged(self, messages: Iterable[HeldMessage]) -> None:
        """Remember that the client has acknowledged these, and that the broker may not know."""
        with self._lock:
            for held in messages:
                if held.envelope is not None and (key := _key(held.envelope, held.owner)) is not None:
                    self._acknowledged[key] = None
            _shorten(self._acknowledged)

    def count_of(self, envelope: Envelope, owner: str) -> int:
        """Return how often a message was delivered before the connection was lost, and forget it."""
        if not self._counts:
            return 0
        key = _key(envelope, owner)
        with self._lock:
            return 0 if key is None else self._counts.pop(key, 0)

    def was_acknowledged(self, envelope: Envelope, owner: str) -> bool:
        """Say whether the client has acknowledged it, and forget that."""
        if not self._acknowledged:
            return False
        key = _key(envelope, owner)
        with self._lock:
            if key is None or key not in self._acknowledged:
                return False
            del self._acknowledged[key]
            return True


def _key(envelope: Envelope, owner: str) -> _Key | None:
    return None if envelope.message_id is None else (envelope.message_id, envelope.destination, owner)


REDELIVERIES = Redeliveries()
"""That of this process: a client that comes back on a new connection gets its messages marked, too."""


def _shorten(kept: OrderedDict[_Key, Any]) -> None:
    while len(kept) > _KEPT_MAX:
        kept.popitem(last=False)
