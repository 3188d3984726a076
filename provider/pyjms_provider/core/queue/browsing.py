"""Looking at the messages that wait in a queue, which stay there: browsers of clients (JMS 1.1 §5.9), and of administrators."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyjms_provider.core.queue.cursor import UNFINISHED
from pyjms_provider.core.queue.entry import QueueEntry
from pyjms_provider.core.queue.scheduled_messages import is_expired
from pyjms_provider.core.queue.search import EVALUATIONS
from pyjms_provider.core.store.store import NotInMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.channel.channel import Filter
    from pyjms_provider.core.queue.contracts import QueueCore
    from pyjms_provider.core.queue.cursor import Cursor

_AT_A_TIME: Final = 64  # messages that are looked at while the lock is held
_PASSED_AT_A_TIME: Final = 4096  # that have come since it began, in a queue that is sorted: more than come meanwhile


class QueueBrowser:
    """One client's way through the messages that were in the queue when it began."""

    __slots__ = ("_queue", "cursor")

    def __init__(self, queue: QueueCore, selector: Selector | None) -> None:
        self._queue = queue
        with queue.lock:
            self.cursor = queue.ordering.new_cursor(queue.pager.matcher(selector))
            self.cursor.last = queue.ordering.last_place

    def next(self) -> Delivery | None:
        """Return the next message, which stays in the queue; None at the end. May wait for a disk. Raises `ResourceError`."""
        queue = self._queue
        while True:
            try:
                with queue.lock:
                    found = queue.ordering.look(self.cursor, EVALUATIONS)
                    if found is None:
                        return None
                    if found is not UNFINISHED and not is_expired(found.reference, queue.clock.time_ms()):
                        return queue.pager.make_delivery(found.reference, found.delivery_count + 1, None)
            except NotInMemoryError as error:
                queue.pager.load(error.reference)


def browse(queue: QueueCore, message_filter: Filter | None) -> list[Envelope]:
    """Return the messages that wait and that the filter accepts, in order (JBoss Messaging Core §7.6)."""
    now_ms = queue.clock.time_ms()
    with queue.lock:
        waiting = [entry.reference for entry in queue.ordering if not is_expired(entry.reference, now_ms)]
    found: list[Envelope] = []
    for reference in waiting:
        queue.pager.page_in([reference])
        with suppress(KeyError):  # it was taken meanwhile
            if message_filter is not None and not message_filter.accept(reference):
                continue
        envelope = queue.store.fetch(reference)
        if envelope is not None:
            found.append(envelope)
    return found


def waiting_entries(queue: QueueCore) -> Iterator[QueueEntry]:
    """Return the messages that nobody holds, in order; then those that are delayed. What comes from now on is left out.

    Of a long backlog only those are materialized that are come to.
    """
    with queue.lock:
        delayed = dict.fromkeys(queue.state.delays)
        cursor = queue.ordering.new_cursor(None)
        cursor.last = queue.ordering.last_place
    return _waiting(queue, cursor, delayed)


def _waiting(queue: QueueCore, cursor: Cursor, delayed: Mapping[QueueEntry, None]) -> Iterator[QueueEntry]:
    """Yield the messages that `cursor` comes to, then the delayed ones, some of which may be due by now."""
    is_more = True
    while is_more:
        found, is_more = _look_on(queue, cursor)
        yield from (entry for entry in found if entry not in delayed)
    yield from delayed


def _look_on(queue: QueueCore, cursor: Cursor) -> tuple[list[QueueEntry], bool]:
    """Return some of the next messages for `cursor`, and whether there may be more."""
    found: list[QueueEntry] = []
    with queue.lock:
        while len(found) < _AT_A_TIME:
            entry = queue.ordering.look(cursor, _PASSED_AT_A_TIME)
            if not isinstance(entry, QueueEntry):
                return found, entry is UNFINISHED
            found.append(entry)
    return found, True
