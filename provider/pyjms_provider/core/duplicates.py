"""Which messages a producer has sent before: by an id that it chose, within a window of time and number.

A machine without a lock, one for each destination. An id is *claimed* when its message comes, and *confirmed* when the
message is safe and visible: at once, or with its transaction. A second message with a confirmed id is dropped, as its
first one has arrived. While the first is in an open transaction nobody knows that, so the second is refused with an
error: to drop it would lose the message if that transaction rolled back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum

from pyjms.spi.envelope import Address, Envelope
from pyjms.spi.errors import ProviderError
from pyjms_provider.core.journal import DuplicateMark

__all__ = ["DUPLICATE_ID", "DuplicateWindow", "Sighting", "duplicate_id"]

DUPLICATE_ID = "JMS_pyjms_duplicateId"
"""The string property by which a producer names what it sends."""


class Sighting(Enum):
    """What is known of an id."""

    NEW = "it was not seen within the window, and is claimed now"
    CLAIMED = "a message with it is in a transaction that has not ended"
    SEEN = "a message with it has arrived"


def duplicate_id(envelope: Envelope) -> str:
    """Return the id that the producer chose. Raises `ProviderError` when it is no text."""
    value = envelope.properties[DUPLICATE_ID]
    if not isinstance(value, str) or not value:
        raise ProviderError(f"{DUPLICATE_ID} is {value!r}; set it as a string property that is not empty")
    return value


class DuplicateWindow:
    """The ids of one destination."""

    __slots__ = ("_claimed", "_seen", "address", "most", "window_ms")

    def __init__(self, address: Address, window_ms: int, most: int) -> None:
        """Remember ids for `window_ms`, and at most `most` of them: the oldest are forgotten first."""
        self.address = address
        self.window_ms = window_ms
        self.most = most
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._claimed: dict[str, object | None] = {}
        """Who claims each."""

    def __len__(self) -> int:
        return len(self._seen)

    def claim(self, identity: str, now_ms: int, claimant: object | None = None) -> Sighting:
        """Return what is known of an id; a NEW one is claimed by `claimant`, and must be confirmed or dropped later."""
        self._forget_old(now_ms)
        if identity in self._seen:
            return Sighting.SEEN
        if identity in self._claimed:
            return Sighting.CLAIMED
        self._claimed[identity] = claimant
        return Sighting.NEW

    def mark(self, identity: str, now_ms: int) -> DuplicateMark:
        """Return what a journal must keep together with the message, for a claimed id."""
        return DuplicateMark(self.address, identity, now_ms + self.window_ms)

    def confirm(self, mark: DuplicateMark) -> None:
        """Remember the id of a message that has arrived. May be repeated, after an interrupt too: it is forgotten as claimed last."""
        self._remember(mark)
        self._claimed.pop(mark.duplicate_id, None)

    def drop(self, identity: str, claimant: object | None = None) -> None:
        """Forget an id that `claimant` claims, if it does: its message did not arrive. May be repeated."""
        if identity in self._claimed and self._claimed[identity] is claimant:
            del self._claimed[identity]

    def restore(self, marks: Iterable[DuplicateMark]) -> None:
        """Remember what a journal has kept, in any order."""
        for mark in sorted(marks, key=lambda each: each.until_ms):
            self._remember(mark)

    def _remember(self, mark: DuplicateMark) -> None:
        self._seen[mark.duplicate_id] = mark.until_ms
        self._seen.move_to_end(mark.duplicate_id)
        while len(self._seen) > self.most:
            self._seen.popitem(last=False)

    def _forget_old(self, now_ms: int) -> None:
        while self._seen and next(iter(self._seen.values())) <= now_ms:
            self._seen.popitem(last=False)
