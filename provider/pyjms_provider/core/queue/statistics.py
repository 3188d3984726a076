"""Statistics of a queue: the size and age of its messages, the location of a message, and a trace of delivery steps. Any thread.

The statistics look at a bounded number of messages under the queue's lock; so for a queue with many messages of different sizes they are an
estimate. Each is a snapshot; the next one may differ.

`tracing` puts a hook around each step by which work is announced and polled, for tests and for a broker that is started with `--trace`. Off, it costs nothing.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.store import NotInMemoryError, approximate_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.queue.channel_state import Counts


_SAMPLE: Final = 32
_LOOKED_THROUGH: Final = 500


def about_bytes(queue: Queue, depth: int, looked_at: int = _SAMPLE) -> int:
    """Return about how many bytes all messages take: exact for a few messages, estimated from the first ones for many.

    `depth`: how many messages there are; `looked_at`: how many of the available ones, and of those that are held, are measured.
    """
    with queue.lock:
        state = queue.state
        # Only chosen here, and measured without the lock.
        sample = [*state.ordering.first(looked_at), *state.held_longest(looked_at)]
    sizes = [size for entry in sample if (size := _size(queue, entry))]
    return round(sum(sizes) / len(sizes) * depth) if sizes else 0


def oldest_timestamp_ms(queue: Queue) -> int | None:
    """Return when the oldest available or held message was sent, in milliseconds since 1970 UTC; None: unknown.

    By the sender's JMSTimestamp (JMS 1.1 §3.4.4). May wait for a disk. Raises `ResourceError`.
    """
    with queue.lock:
        state = queue.state
        entries = [*state.ordering.oldest(), *state.held_longest(1)]
    # Without the lock, as it may read from a disk.
    found = (queue.message_of(entry.reference) for entry in entries)
    return min((each.timestamp_ms for each in found if each is not None and each.timestamp_ms), default=None)


def most_deliveries(queue: Queue, looked_at: int = _SAMPLE) -> int:
    """Return the highest delivery count among the messages that leave first and those held for longest.

    A released message is at its old place, so a poison message is among them. Waits for no disk.
    """
    with queue.lock:
        state = queue.state
        entries = [*state.ordering.first(looked_at), *state.held_longest(looked_at)]
    return max((entry.delivery_count for entry in entries), default=0)


def largest_message(queue: Queue) -> tuple[QueueEntry, int] | None:
    """Return the largest message, with about its bytes, among those added last and those that leave first."""
    with queue.lock:
        ordering = queue.ordering
        entries = [*ordering.newest(_LOOKED_THROUGH), *ordering.first(_LOOKED_THROUGH)]
    # With the place in the list, which decides between equal sizes, as entries have no order.
    sizes = ((_size(queue, entry), number) for number, entry in enumerate(entries))
    size, number = max(sizes, default=(0, 0))
    return (entries[number], size) if size else None


def is_there(entry: QueueEntry) -> bool:
    """Return whether a message is still in its queue."""
    return entry.state is not MessageState.ABSENT


def _size(queue: Queue, entry: QueueEntry) -> int:
    if entry.reference.size:
        return entry.reference.size
    try:
        return approximate_size(queue.store.retrieve(entry.reference))
    except (KeyError, NotInMemoryError):  # it has left meanwhile, or is on the disk
        return 0


def counts_of(queue: Queue) -> Counts:
    """Count all messages of one queue in one step: quickly when it is empty, as most of thousands of queues are."""
    with queue.lock:
        return queue.state.counts()


def traffic_of(queue: Queue) -> tuple[int, int, int]:
    """Return how many messages were added to a queue since it was opened, how many deliveries there were, and how many messages have left."""
    counts = counts_of(queue)
    return counts.accepted, counts.delivered, counts.departed


_STATES = (MessageState.NEW, MessageState.NOT_COMMITTED, MessageState.DELIVERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLocation:
    """One channel that has the message."""

    where: str
    state: MessageState
    delivery_count: int
    session: str | None
    """The session that received it and has not settled it."""
    is_in_memory: bool
    deliver_at_ms: int
    """Milliseconds since 1970 UTC before which it is not delivered; 0: at once."""


def whereabouts(
    message_ids: Iterable[str], numbers: Mapping[int, str], channels: Iterable[Queue]
) -> dict[str, list[MessageLocation]]:
    """Return the locations of messages, by their ids.

    A message is found by its number, if `numbers` has it, or by its id if it is in memory.
    """
    wanted = set(message_ids)
    found: dict[str, list[MessageLocation]] = {}
    for channel in channels:
        with channel.lock:
            entries = [entry for state in _STATES for entry in channel.state.entries(state)]
        for entry in entries:
            message_id, is_in_memory = _id_of(channel, entry)
            message_id = message_id or numbers.get(entry.reference.id)
            if message_id in wanted and message_id is not None:
                found.setdefault(message_id, []).append(_view(channel, entry, is_in_memory=is_in_memory))
    return found


def _id_of(channel: Queue, entry: QueueEntry) -> tuple[str | None, bool]:
    try:
        # Without the queue's lock: the message may leave memory, or the queue, at this moment.
        return channel.store.retrieve(entry.reference).message_id, True
    except (NotInMemoryError, KeyError):
        return None, False


def _view(channel: Queue, entry: QueueEntry, *, is_in_memory: bool) -> MessageLocation:
    holder = entry.holder
    return MessageLocation(
        where=channel.name,
        state=entry.state,
        delivery_count=entry.delivery_count,
        session=None if holder is None else holder.receiver_id,
        is_in_memory=is_in_memory,
        deliver_at_ms=entry.reference.deliver_at_ms,
    )


class Step(Enum):
    """The steps of Broker-J's simple flow that concern one process, in order."""

    ARRIVED = "a message arrives at the queue"
    QUEUE_NOTIFIED = "the queue wakes a consumer"
    HANDED_OVER = "the queue hands the message to a consumer that waits for it"
    CONSUMER_NOTIFIED = "the consumer tells its target"
    TARGET_NOTIFIED = "the target tells its session"
    TARGET_PULLED = "the target goes over its consumers"
    CONSUMER_PULLED = "the consumer tries to pull"


Traced = tuple[Enum, type, str]
"""A step is the call of one method: its class and its name."""

STEPS: Final[tuple[Traced, ...]] = (
    (Step.ARRIVED, Queue, "enqueue"),
    (Step.QUEUE_NOTIFIED, Consumer, "notify_work"),
    (Step.HANDED_OVER, Consumer, "direct_deliver"),
    (Step.CONSUMER_NOTIFIED, ConsumerTarget, "notify_work"),
    (Step.TARGET_NOTIFIED, ConsumerSession, "notify_work"),
    (Step.TARGET_PULLED, ConsumerTarget, "pull"),
    (Step.CONSUMER_PULLED, Consumer, "pull"),
)


@contextmanager
def tracing(observe: Callable[[Any, object], None], steps: Iterable[Traced] = STEPS) -> Iterator[None]:
    """Call `observe` with each of the steps and the object that takes it, in all of this process, until the block ends.

    `observe` is called on the thread that takes the step, before it is taken. Not to be nested.
    """
    with ExitStack() as stack:
        for step, owner, name in steps:
            # The method itself is replaced, so that a broker without `--trace` pays nothing for it.
            original = getattr(owner, name)
            setattr(owner, name, _observed(original, step, observe))
            stack.callback(setattr, owner, name, original)
        yield


def _observed(
    original: Callable[..., object], step: Enum, observe: Callable[[Any, object], None]
) -> Callable[..., object]:
    @wraps(original)
    def told(self: object, *arguments: object, **named: object) -> object:
        observe(step, self)
        return original(self, *arguments, **named)

    return told
