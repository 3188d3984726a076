"""A queue whose messages need not be in memory: what leaves it, and what is fetched when it is wanted.

Nothing is read while the lock is held. Whoever looks at a message that is not there gets `NotInMemoryError`, lets go of the
lock, has the message loaded, and looks again; a consumer gets a delivery that fetches its message when the client asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import GoneError, ResourceError
from pyjms.spi.selector.equalities import key_of_literals, key_of_message
from pyjms_provider.core.channel.pushing import PushingChannel
from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.queue.stored_delivery import StoredDelivery
from pyjms_provider.core.queue.value_index import Asked
from pyjms_provider.core.store.store import NotInMemoryError

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.journal.queue_journal import KeptQueue
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.entry import QueueEntry

__all__ = ["PagedQueue"]

_READ_AHEAD: Final = 64
"""So many messages are brought back into memory together with one that is wanted."""
_GONE: Final = (
    "the message cannot be had: it was given back as its session was closed, or it was damaged and set aside; "
    "the broker's log tells"
)


class PagedQueue(PushingChannel):
    """The part of a queue that knows where its messages are."""

    # Messages leave memory, and come back

    def _shelve(self, reference: MessageReference, *, is_coming: bool = False) -> None:
        """Let a message that is in the queue leave memory, if the policy says how many stay there. The lock is held.

        `is_coming`: other queues may be yet to take it.
        """
        shelf = None if self._rules is None else self._rules.shelf
        if shelf is not None and shelf.came(reference):
            self._store.leave([reference], are_coming=is_coming)

    def _read(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        """Bring messages into memory, in place of others if the policy says how many stay there; at least the first one is read.

        Returns those that cannot be read. Waits for a disk. Raises `ResourceError`.
        """
        with self._lock:
            shelf = None if self._rules is None else self._rules.shelf
            wanted = references if shelf is None else shelf.at_once(references)
        unreadable = self._store.load(wanted)
        if shelf is not None:
            with self._lock:
                self._store.leave(shelf.read(wanted))
            with suppress(ResourceError):  # a disk that is full must not keep consumers from emptying the queue
                self._store.relieve(of_all=False)  # what was read is wanted now
        return unreadable

    def _load(self, reference: MessageReference) -> None:
        """Bring a message into memory, and those that come after it here. Waits for a disk. Raises `ResourceError`."""
        with self._lock:
            following = self._ordering.following(reference, _READ_AHEAD)
        with suppress(ResourceError):  # a disk that is full must not keep consumers from emptying the queue
            self._store.relieve()  # before, as what is loaded now is wanted next
        for unreadable in self._read([reference, *following]):
            self._set_aside(unreadable)

    def _set_aside(self, reference: MessageReference) -> None:
        """Let go of a message that cannot be read; the journal has reported and kept what there is of it."""
        with self._lock:
            for entry in (*self._state.awake(), *self._state.entries(MessageState.DELIVERED)):
                if entry.reference is reference:
                    self._remove(entry, MessageEvent.REMOVE, Happening.UNREADABLE)

    # A message is wanted

    def _matcher(self, selector: Selector | None) -> Callable[[QueueEntry], bool] | None:
        """Return what says whether a message is wanted: raises `NotInMemoryError` if that cannot be said."""
        if selector is None:
            return None
        matches = selector.matches
        retrieve = self._store.retrieve
        return lambda entry: matches(retrieve(entry.reference))

    def _asked(self, selector: Selector) -> Asked | None:
        """Return what a selector asks for, if it names values that messages must have."""
        equalities = selector.equalities
        if not equalities:
            return None
        names = tuple(name for name, _ in equalities)
        retrieve = self._store.retrieve
        return Asked(names, key_of_literals(equalities), lambda entry: key_of_message(retrieve(entry.reference), names))

    def message_of(self, reference: MessageReference) -> Envelope | None:
        """Return a message of this queue; None if it has gone, or is damaged. Waits for a disk. Raises `ResourceError`."""
        return self._store.fetch(reference)  # whoever receives one that cannot be read passes over it

    def _make_delivery(self, reference: MessageReference, count: int, tag: QueueEntry | None) -> Delivery:
        """Return a delivery whose message may have to be fetched without the lock, which is held."""
        kept = self.kept
        if kept is None or (kept.may_show(reference) if tag is None else kept.knows(reference, count)):
            try:
                return Delivery(self._store.retrieve(reference), count, count > 1, tag)
            except NotInMemoryError:
                pass  # `suppress` would cost three calls for each message
        fetch = partial(self._show, reference, kept) if tag is None else partial(self._fetch, reference, kept, count)
        return StoredDelivery(fetch, partial(self._undeliver, tag, count), count, count > 1, tag)

    def _fetch(self, reference: MessageReference, kept: KeptQueue | None, count: int) -> Envelope:
        """Return the message of a delivery, noted in the journal if `kept` must know of it. Raises `ProviderError`."""
        if kept is not None and not kept.knows(reference, count):
            kept.mark(reference, count)
        return self._message(reference)

    def _show(self, reference: MessageReference, kept: KeptQueue | None) -> Envelope:
        """Return a message that stays in the queue, for who looks at it. Raises `ProviderError`."""
        if kept is not None and not kept.may_show(reference):
            kept.confirm()
        return self._message(reference)

    def _message(self, reference: MessageReference) -> Envelope:
        try:
            return self._store.retrieve(reference)
        except NotInMemoryError:
            self._load(reference)  # with those behind it
        except KeyError:
            pass  # as for any other that has gone
        envelope = self.message_of(reference)  # others may have needed the room already
        if envelope is None:
            raise GoneError(_GONE)
        return envelope

    def _undeliver(self, entry: QueueEntry | None, count: int) -> None:
        """Make a message available again that could not be handed over: that was no delivery, so it does not count. None: it was only shown."""
        if entry is None:
            return
        with self._lock:
            if entry.state is not MessageState.DELIVERED or entry.delivery_count != count or self._closed:
                return
            if self._rules is not None and self._rules.is_superseded(entry):
                self._remove(entry, MessageEvent.REMOVE, Happening.SUPERSEDED)
                return
            entry.delivery_count -= 1
            if entry.delivery_count and self.kept is not None:
                self.kept.note_returned([entry])  # this delivery may have been written down
            self._state.cancel([entry])
            woken = self._choose(entry)
        for consumer in woken:
            consumer.notify_work()
