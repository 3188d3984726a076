"""Paging of one queue's messages: paging out, paging in, and deliveries whose message is fetched later."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import GoneError, ResourceError
from pyjms.spi.selector.headers import key_of_literals, key_of_message
from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.queue.cursor import Asked
from pyjms_provider.core.store import NotInMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.contracts import QueueCore


LARGE: Final = 16_384
"""The size in bytes from which it pays to hold a message without its content."""


def _gone() -> NoReturn:
    raise GoneError("the message could not be had: it is in its queue again")


def _nothing() -> None:
    """Do nothing: the message may be another client's by now, with the same delivery count."""


class StoredDelivery(Delivery):
    """A delivery made under the lock of a queue, where no call may wait; `envelope` is read without any lock, and may wait."""

    __slots__ = ("_fetch", "_fetched", "_undo")

    def __init__(
        self, fetch: Callable[[], Envelope], undo: Callable[[], None], count: int, redelivered: bool, tag: object
    ) -> None:
        """`undo` returns the message to its queue if `fetch` fails."""
        self._fetch = fetch
        self._undo = undo
        self._fetched: Envelope | None = None
        # Frozen for type checkers only (`pyjms.spi.envelope.fact`); the fields are set as its own constructor does.
        self.count = count  # type: ignore[misc]
        self.redelivered = redelivered  # type: ignore[misc]
        self.tag = tag  # type: ignore[misc]

    @property
    def envelope(self) -> Envelope:
        """The message. Raises `ProviderError` when it cannot be read, or was released meanwhile."""
        if self._fetched is None:
            # Once only: after a failed read the message is in its queue again, and may be another client's.
            fetch, self._fetch = self._fetch, _gone
            try:
                self._fetched = fetch()
            except Exception:
                self._undo()
                self._undo = _nothing
                raise
        return self._fetched


def without_content(delivery: Delivery) -> Delivery:
    """Return a delivery that can be settled or released, with the message's headers only.

    For a caller that has passed the message on, and may wait long for its outcome: the body would stay in memory all the time.
    """
    headers = replace(delivery.envelope, properties={}, body=None)
    return Delivery(headers, delivery.count, delivery.redelivered, delivery.tag)


def is_there(delivery: Delivery) -> bool:
    """Read a message; return False if it was quarantined just now. May wait for the disk. Raises `ProviderError`."""
    try:
        return delivery.envelope is not None
    except GoneError:
        return False


_READ_AHEAD: Final = 64
"""How many messages are loaded together with a requested one."""
_GONE: Final = (
    "the message cannot be had: it was given back as its session was closed, or it was damaged and set aside; "
    "the broker's log tells"
)


class Pager:
    """Pages the messages of one queue out and in."""

    __slots__ = ("_queue",)

    def __init__(self, queue: QueueCore) -> None:
        self._queue = queue

    # Paging

    def page_out(self, reference: MessageReference, *, is_coming: bool = False) -> None:
        """Let a message of the queue leave memory, if the policy limits how many stay there. The lock is held.

        `is_coming`: other queues may still have to take it.
        """
        rules = self._queue.rules
        window = None if rules is None else rules.memory_window
        if window is not None and window.add(reference):
            self._queue.store.leave([reference], are_coming=is_coming)

    def page_in(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        """Load messages into memory, in place of others if the policy limits how many stay there; at least the first one is read.

        Returns the unreadable ones. Waits for a disk. Raises `ResourceError`.
        """
        queue = self._queue
        with queue.lock:
            window = None if queue.rules is None else queue.rules.memory_window
            # As many as the queue's own limits allow in memory, however many the store would read ahead.
            wanted = references if window is None else window.fitting(references)
        # Without the queue's lock, as it waits for the disk.
        unreadable = queue.store.load(wanted)
        if window is not None:
            with queue.lock:
                queue.store.leave(window.page_in(wanted))
            with suppress(ResourceError):  # a full disk must not keep consumers from emptying the queue
                queue.store.relieve(of_all=False)  # the messages just read are needed now
        return unreadable

    def load(self, reference: MessageReference) -> None:
        """Load a message into memory, and those that follow it here. Waits for a disk. Raises `ResourceError`."""
        queue = self._queue
        with queue.lock:
            # The messages behind it are delivered next, and one read of many costs little more than a read of one.
            following = queue.ordering.following(reference, _READ_AHEAD)
        with suppress(ResourceError):  # a full disk must not keep consumers from emptying the queue
            queue.store.relieve()  # before, as the messages loaded now are needed next
        for unreadable in self.page_in([reference, *following]):
            self._remove_unreadable(unreadable)

    def _remove_unreadable(self, reference: MessageReference) -> None:
        """Remove a message that cannot be read; the journal has reported and quarantined it."""
        queue = self._queue
        with queue.lock:
            # Compact messages are left out: a message that was to be read had to be materialized first.
            for entry in (*queue.state.materialized(), *queue.state.entries(MessageState.DELIVERED)):
                if entry.reference is reference:
                    queue.remove(entry, MessageEvent.REMOVE, Happening.UNREADABLE)
        queue.wake_freed()

    # Selectors

    def matcher(self, selector: Selector | None) -> Callable[[QueueEntry], bool] | None:
        """Return a function that evaluates a selector: it raises `NotInMemoryError` for a message that is not in memory."""
        if selector is None:
            return None
        matches = selector.matches
        retrieve = self._queue.store.retrieve
        return lambda entry: matches(retrieve(entry.reference))

    def equalities_of(self, selector: Selector) -> Asked | None:
        """Return the values with which a selector compares identifiers, if every matching message must have them."""
        equalities = selector.equalities
        if not equalities:
            return None
        names = tuple(name for name, _ in equalities)
        retrieve = self._queue.store.retrieve
        return Asked(names, key_of_literals(equalities), lambda entry: key_of_message(retrieve(entry.reference), names))

    # Deliveries

    def make_delivery(self, reference: MessageReference, count: int, tag: QueueEntry | None) -> Delivery:
        """Return a delivery whose message may have to be fetched without the lock, which is held."""
        journal = self._queue.journal
        # Nothing to write and in memory, as nearly always: the client gets the message without waiting.
        if journal is None or (
            journal.is_confirmed(reference) if tag is None else journal.is_covered(reference, count)
        ):
            try:
                return Delivery(self._queue.store.retrieve(reference), count, count > 1, tag)
            except NotInMemoryError:
                pass  # `suppress` would cost three calls for each message
        fetch = (
            partial(self._show, reference, journal) if tag is None else partial(self._fetch, reference, journal, count)
        )
        return StoredDelivery(fetch, partial(self._undeliver, tag, count), count, count > 1, tag)

    def _fetch(self, reference: MessageReference, journal: QueueJournal | None, count: int) -> Envelope:
        """Return the message of a delivery, after recording it in the journal if necessary. Raises `ProviderError`."""
        # Checked again: the mark that another delivery has written meanwhile may cover this one.
        if journal is not None and not journal.is_covered(reference, count):
            # Before the client can read the message: a message that it may
            # have seen must be flagged after a crash.
            journal.cover(reference, count)
        return self._message(reference)

    def _show(self, reference: MessageReference, journal: QueueJournal | None) -> Envelope:
        """Return a message that stays in the queue, for a browser. Raises `ProviderError`."""
        # A browser writes nothing, so it would not notice another broker that holds the store by now.
        if journal is not None and not journal.is_confirmed(reference):
            journal.confirm()
        return self._message(reference)

    def _message(self, reference: MessageReference) -> Envelope:
        store = self._queue.store
        try:
            return store.retrieve(reference)
        except NotInMemoryError:
            self.load(reference)  # with those behind it
        except KeyError:
            pass  # handled as any other message that has left
        envelope = store.fetch(reference)  # memory may be needed for others already
        if envelope is None:
            raise GoneError(_GONE)
        return envelope

    def _undeliver(self, entry: QueueEntry | None, count: int) -> None:
        """Make a message available again whose fetch failed: that was no delivery, so it does not count. None: a browser's, which stays in the queue."""
        if entry is None:
            return
        queue = self._queue
        with queue.lock:
            # The session may have ended while the fetch waited for the disk, and has released the message then; it may even have been delivered again.
            if entry.state is not MessageState.DELIVERED or entry.delivery_count != count or queue.is_closed:
                return
            if queue.rules is not None and queue.rules.is_superseded(entry):
                queue.remove(entry, MessageEvent.REMOVE, Happening.SUPERSEDED)
                return
            entry.delivery_count -= 1
            if entry.delivery_count and queue.journal is not None:
                queue.journal.defer_counts(
                    [(entry.reference, entry.delivery_count)]
                )  # this delivery may have been written down
            queue.state.cancel([entry])
            woken = queue.choose(entry)
        for consumer in woken:
            consumer.notify_work()
