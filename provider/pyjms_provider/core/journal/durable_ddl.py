"""What becomes of a queue or a durable subscription when a change of it is written, or not (decision 0137).

A policy is obeyed once it is written. A queue exists unchanged until its end is written: until then sends and acknowledgements are
written as usual. If the write is refused nothing has changed; if its outcome is unknown, the queue ends, and the journal is told
again first.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyjms_provider.core.journal.in_doubt_writes import is_outcome_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyjms.spi.envelope import Address
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.journal.storage_manager import StorageManager
    from pyjms_provider.core.queue.policy import QueuePolicy
    from pyjms_provider.core.queue.queue import Queue


@contextmanager
def _unless_refused(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` after a write, unless that was refused: also if nobody knows whether it was made."""
    try:
        yield
    except Exception as error:
        if is_outcome_unknown(error):
            act()
        raise
    act()


def make_when_written(
    storage: StorageManager | None,
    address: Address,
    policy: QueuePolicy | None,
    make: Callable[[QueueJournal | None], bool],
) -> bool:
    """Have it written that there is a queue, and call `make`, which returns False if a sender has made one; return what it did.

    Waits for the journal; the caller keeps others away who would make it by name. Raises `ResourceError`: then none is made;
    after any other error there is one, and the journal keeps, or will keep, what there is.
    """
    if storage is None:
        return make(None)
    kept = storage.define_later(address, policy)
    answers: list[bool] = []

    def take_in() -> None:
        is_made = make(kept)
        if not is_made or kept.definition is not None:
            storage.correct(kept, address, policy if is_made else None)  # a sender's own queue has no policy
        answers.append(is_made)

    with _unless_refused(take_in):
        storage.define(kept)
    return answers[0]


def alter_when_written(
    queue: Queue, storage: StorageManager | None, address: Address, policy: QueuePolicy, default: QueuePolicy
) -> None:
    """Have it written that a queue has another policy, and obeyed; `default` is that of a queue without one of its own.

    Waits for the journal; the caller keeps others away who would end or alter it. Raises `ResourceError`, and as `Queue.alter`;
    after any error the journal keeps, or will keep, what the queue obeys.
    """
    queue.alter(policy, only_check=True)
    kept = queue.kept
    if storage is None or kept is None:
        queue.alter(policy)
        return
    try:
        storage.alter_queue(kept, address, policy)
        queue.alter(policy)  # a message may have come meanwhile, with which it cannot
    except Exception:
        storage.correct(kept, address, None if queue.policy == default else queue.policy)
        raise


def end_when_written(queue: Queue, storage: StorageManager | None, forget: Callable[[], None]) -> None:
    """Have it written that a queue or a subscription ends, and end it; `forget` takes it out of its host's tables.

    Waits for the journal; the caller keeps others away who would end or alter it. Raises `ResourceError`: then all is as
    it was; after any other error it has ended.
    """
    kept = None if storage is None else queue.kept
    try:
        if storage is not None and kept is not None:
            kept.is_to_end(queue.ordering.last_place)
            storage.drop(kept)
        _end(queue, kept, forget)
    except Exception as error:
        if is_outcome_unknown(error):
            end_at_once(queue, storage, kept, forget)
        raise


def succeed_when_written(old: Queue, kept: QueueJournal, storage: StorageManager, exchange: Callable[[], None]) -> None:
    """Have it written, in one step, that a subscription ends and the one of `kept` takes its place; `exchange` does so in its host's tables.

    Waits for the journal; the caller keeps others away who would end or alter them. Raises `ResourceError`: then all is as it was;
    after any other error the other one is in its place.
    """
    ended = old.kept
    assert ended is not None, "it is kept"

    def take_place() -> None:
        storage.has_succeeded(ended, kept)
        _end(old, ended, exchange)

    ended.is_to_end(old.ordering.last_place)
    with _unless_refused(take_place):
        storage.succeed(ended, kept)
    storage.remove_messages(ended)


def end_at_once(
    queue: Queue, storage: StorageManager | None, kept: QueueJournal | None, forget: Callable[[], None]
) -> None:
    """End a queue or a subscription that is kept as `kept`, whether that is written or not; `forget` as above. Does not wait."""
    if storage is not None and kept is not None:
        storage.forget(kept)
    _end(queue, kept, forget)


def _end(queue: Queue, kept: QueueJournal | None, forget: Callable[[], None]) -> None:
    forget()
    queue.was_kept = kept
    queue.kept = None  # the journal knows that all of it is gone, but for what was being written
    queue.close()
