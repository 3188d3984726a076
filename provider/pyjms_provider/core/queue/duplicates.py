"""Which messages a producer has sent before: by an id that it chose, within a window of time and number.

A machine without a lock, one for each destination. An id is *claimed* when its message comes, *marked* with its serial when that is
about to be written, and *confirmed* when the message is safe and visible: at once, or with its transaction. A second message with a confirmed id is dropped, as its
first one has arrived. While the first is in an open transaction nobody knows that, so the second is refused with an
error: to drop it would lose the message if that transaction rolled back.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.spi.errors import ProviderError
from pyjms_provider.core.journal.journal import DuplicateMark, QueueNumber

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyjms.spi.envelope import Address, Envelope

DUPLICATE_ID = "JMS_pyjms_duplicateId"
"""The string property by which a producer names what it sends."""
_FORGOTTEN_TOGETHER: Final = 1_000
"""After so many ids a journal hears which it may forget, or after a twentieth of those that are remembered, if that is more."""


class DuplicateStatus(Enum):
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


class _Claimed(NamedTuple):
    """An id whose message is on its way."""

    claimant: object | None
    serial: int | None
    """None: it is not marked yet; a transaction's are when it commits."""


class DuplicateIdCache:
    """The ids of one destination, each with the serial of its mark."""

    __slots__ = ("_claimed", "_forgets_below", "_marked", "_seen", "address", "most", "window_ms")

    def __init__(self, address: Address, window_ms: int, most: int) -> None:
        """Remember ids for `window_ms`, and at most `most` of them: the oldest are forgotten first."""
        self.address = address
        self.window_ms = window_ms
        self.most = most
        self._seen: OrderedDict[str, tuple[DuplicateMark, float]] = OrderedDict()
        """Each with the end of its time, by the monotonic clock: a clock on the wall that is set makes no id forgotten, nor remembered for ever."""
        self._claimed: dict[str, _Claimed] = {}
        self._marked = 0
        """How many marks a journal has got since it last heard what it may forget."""
        self._forgets_below = 0
        """Not 0: a journal is to hear it, with each mark until one of them has arrived."""

    def __len__(self) -> int:
        return len(self._seen)

    def claim(self, identity: str, now_ms: float, claimant: object | None = None) -> DuplicateStatus:
        """Return what is known of an id at `now_ms`, by the monotonic clock; a NEW one is claimed by `claimant`, and must be marked and
        confirmed, or dropped, later.
        """
        self._forget_old(now_ms)
        known = self._seen.get(identity)
        if known is not None and known[1] > now_ms:
            return DuplicateStatus.SEEN
        if identity in self._claimed:
            return DuplicateStatus.CLAIMED
        self._claimed[identity] = _Claimed(claimant, None)
        return DuplicateStatus.NEW

    def is_claimed(self, identity: str, claimant: object) -> bool:
        """Whether `claimant` claims an id, which is neither confirmed nor dropped."""
        claimed = self._claimed.get(identity)
        return claimed is not None and claimed.claimant is claimant

    def mark(
        self, identity: str, now_ms: int, serial: int, queue: QueueNumber | None = None, *, is_kept: bool = True
    ) -> DuplicateMark:
        """Return the mark of a claimed id. `is_kept`: a journal must keep it together with the message, for that queue.

        `now_ms`: by the clock on the wall, as the mark may outlive the process; `serial`: higher than all before, as what nobody remembers is told by serials.
        """
        self._claimed[identity] = _Claimed(self._claimed[identity].claimant, serial)
        below = 0
        if is_kept:
            self._marked += 1
            if not self._forgets_below and self._marked >= max(_FORGOTTEN_TOGETHER, len(self._seen) // 20):
                seen = (each.serial for each, _ in self._seen.values())
                marked = (each.serial for each in self._claimed.values() if each.serial is not None)
                self._forgets_below = min(chain(seen, marked))  # others will get higher ones
            below = self._forgets_below
        return DuplicateMark(self.address, identity, now_ms + self.window_ms, serial, queue, below)

    def confirm(self, mark: DuplicateMark, now_ms: float) -> None:
        """Remember the id of a message that has arrived, by the monotonic clock at `now_ms`. May be repeated."""
        if mark.forgets_below and mark.forgets_below == self._forgets_below:
            self._forgets_below = self._marked = 0
        self._remember(mark, now_ms + self.window_ms)
        self._claimed.pop(mark.duplicate_id, None)

    def drop(self, identity: str, claimant: object | None = None) -> None:
        """Forget an id that `claimant` claims, if it does: its message did not arrive. May be repeated."""
        if identity in self._claimed and self._claimed[identity].claimant is claimant:
            del self._claimed[identity]

    def restore(self, marks: Iterable[DuplicateMark], wall_ms: int, now_ms: float) -> None:
        """Remember what a journal has kept, in any order; no longer than the window, as the clock on the wall, `wall_ms`, may have been put
        back since. `now_ms`: by the monotonic clock.
        """
        for mark in sorted(marks, key=lambda each: each.serial):
            self._marked += 1
            self._remember(mark, now_ms + min(mark.until_ms - wall_ms, self.window_ms))

    def _remember(self, mark: DuplicateMark, until_ms: float) -> None:
        self._seen[mark.duplicate_id] = mark, until_ms
        self._seen.move_to_end(mark.duplicate_id)
        while len(self._seen) > self.most:
            self._seen.popitem(last=False)

    def _forget_old(self, now_ms: float) -> None:
        while self._seen and next(iter(self._seen.values()))[1] <= now_ms:
            self._seen.popitem(last=False)
