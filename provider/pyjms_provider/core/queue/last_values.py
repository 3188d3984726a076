"""Which message is the last of its key (Broker-J's last-value queue). A machine without a lock.

As there, a newer message takes its own place at the tail, and the older one of its key goes, unless somebody holds it;
then it goes when it is given back, even if the newer one has been consumed meanwhile. Which of two is newer, their places
in the queue say: one that comes again, after a delay, a restart or a write that failed, is as old as it was.

That a newer message was there and has been consumed is known here alone, and not to the journal. So an older one that is
held at that moment comes again, flagged, if the broker dies before the older one is settled, or if a prepared branch that
holds it is rolled back after another start. The journal cannot forget the older one meanwhile: that it is gone from there says
of the write which settles it, and of all that is written with that, that it was made (decision 0197).
"""

from __future__ import annotations

from typing import TypeAlias

from pyjms.types import Stored
from pyjms_provider.core.queue.entry import QueueEntry

LastKey: TypeAlias = tuple[type, Stored]


def last_key(value: Stored) -> LastKey | None:
    """Return what stands for a property's value: values of two types differ. None: the message has no key."""
    return None if value is None else (type(value), value)


class LastValues:
    """The last message of each key that is available or held."""

    __slots__ = ("_keys", "_last", "_superseded")

    def __init__(self) -> None:
        self._last: dict[LastKey, QueueEntry] = {}
        self._keys: dict[QueueEntry, LastKey] = {}
        self._superseded: set[QueueEntry] = set()

    def __len__(self) -> int:
        return len(self._last)

    def arrived(self, entry: QueueEntry, key: LastKey | None) -> QueueEntry | None:
        """Note a message that has become available, perhaps again; return the one of its key that must go.

        That is the message itself, if a newer one is there.
        """
        if key is None:
            return None
        self._keys[entry] = key
        last = self._last.setdefault(key, entry)
        if last is entry:
            return None
        older, newer = (entry, last) if entry.sequence < last.sequence else (last, entry)
        self._last[key] = newer
        self._superseded.add(older)
        return older

    def is_superseded(self, entry: QueueEntry) -> bool:
        """Return whether a newer message of its key has arrived since."""
        return entry in self._superseded

    def gone(self, entry: QueueEntry) -> None:
        """Forget a message that has left the queue."""
        key = self._keys.pop(entry, None)
        self._superseded.discard(entry)
        if key is not None and self._last.get(key) is entry:
            del self._last[key]
