"""The receiving side of queues that are pulled: consumers, their targets, and the sessions of those.

A *consumer* is one subscription's end at one queue. Its *target* is the broker's image of the client that consumes, with
one consumer for each queue that it reads. Targets belong to a *session*, which holds what they pulled until it is
settled. A wake-up goes queue → consumer → target → session; work is pulled the same way back. Who waits where the message
comes in, and has nothing else to do, is handed it instead (decision 0610).

Threads: `notify_work` is called from any thread without a lock, and does nothing but pass on. Pulling is done by the
session's own thread alone.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError
from pyjms_provider.core.queue.consumer_manager import ConsumerList, PriorityGroup
from pyjms_provider.core.queue.entry import EntryQueue, ReceiverId

if TYPE_CHECKING:
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.queue.cursor import Cursor

__all__ = ["Consumer", "ConsumerSession", "ConsumerTarget", "DirectConsumer"]


class ConsumedQueue(EntryQueue, Protocol):
    """The queue of a consumer, as the consumer sees it."""

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer; it is not interested yet. Raises `ChannelClosedError`, `ClosedError`."""
        ...

    def remove_consumer(self, consumer: Consumer) -> None:
        """Detach a consumer; what it pulled stays with its session. May be repeated."""
        ...

    def set_notify_work_desired(self, consumer: Consumer, desired: bool) -> None:
        """Note whether `consumer` wants to be woken. Any thread; ignored for a consumer that has been removed."""
        ...

    def review_interest(self, consumer: Consumer) -> None:
        """Look anew whether `consumer` wants to be woken, after its connection was started or stopped; else as `set_notify_work_desired`."""
        ...

    def deliver_single_message(
        self, consumer: Consumer, *, or_wait: bool = False, at_once: bool = False
    ) -> Delivery | None:
        """Hand the next message that `consumer` would and may take to its session; None when there is none now."""
        ...


class Consumer:
    """One client subscription's end at one queue. Its fields are guarded by the queue's lock."""

    __slots__ = (
        "acquires",
        "cursor",
        "group",
        "number",
        "place",
        "priority",
        "queue",
        "selector",
        "session",
        "target",
        "turn",
        "wants_wake_ups",
    )

    def __init__(
        self,
        queue: ConsumedQueue,
        target: ConsumerTarget,
        *,
        selector: Selector | None = None,
        priority: int = 0,
        acquires: bool = True,
    ) -> None:
        self.queue = queue
        self.target = target
        self.session = target.session
        self.selector = selector
        self.priority = priority
        """Consumers of higher priority are served first while they want messages."""
        self.acquires = acquires
        """False: it looks at messages and takes none."""
        self.place = ConsumerList.REMOVED
        self.group: PriorityGroup | None = None
        """The lists of its priority, one of which `place` names."""
        self.turn = 0
        """While it waits for a wake-up: who has a lower one came before."""
        self.cursor: Cursor | None = None
        """What is known of its selector; None: it has no selector."""
        self.wants_wake_ups = False
        self.number = 0
        """Among all consumers that its session has had; given when it is attached."""

    @property
    def wants_work(self) -> bool:
        """Whether it is to be woken: the client wants it, and its connection is started."""
        return self.wants_wake_ups and self.session.is_delivering

    def set_interested(self, interested: bool) -> None:
        """Say whether wake-ups are wanted. Any thread; ignored after `close`."""
        self.queue.set_notify_work_desired(self, interested)

    def notify_work(self) -> None:
        """Hear that there may be work: pass it on to the target."""
        self.target.notify_work()

    def direct_deliver(self, delivery: Delivery) -> None:
        """Hear of a message that the queue has given to the session at once: pass it on to who waits for it."""
        assert self.target.direct is not None, "only who has said so is handed messages"
        self.target.direct.take(delivery)

    def pull(self) -> Delivery | None:
        """Take the next message from the queue, if there is one for this consumer."""
        return self.queue.deliver_single_message(self)

    def close(self) -> None:
        """Leave the queue; what was pulled stays with the session. May be repeated."""
        self.queue.remove_consumer(self)


class DirectConsumer(Protocol):
    """A client that can be handed a message where that comes in, without having been woken for it."""

    def may_take(self) -> bool:
        """Say whether it takes one now. Any thread; the queue's lock is held, so it takes no other lock, and never waits."""
        ...

    def take(self, delivery: Delivery) -> None:
        """Have the message, after `may_take` has said so. No lock of the queue is held. Must not raise, or wait."""
        ...


class ConsumerTarget:
    """The broker's image of one consuming client."""

    __slots__ = ("_turn", "consumers", "direct", "on_ready", "session", "wants_work")

    def __init__(self, session: ConsumerSession, on_ready: Callable[[], None]) -> None:
        self.session = session
        self.on_ready = on_ready
        """Called when there may be work."""
        self.direct: DirectConsumer | None = None
        """Who is handed messages at once; None: all are announced, and pulled."""
        self.consumers: tuple[Consumer, ...] = ()
        self.wants_work = False
        """Whether a consumer was woken since the target last pulled in vain."""
        self._turn = 0

    def notify_work(self) -> None:
        """Hear that there may be work for a consumer: pass it on to the session."""
        self.wants_work = True
        self.session.notify_work(self)

    def pull(self) -> Delivery | None:
        """Pull one message through one of the consumers, each in its turn."""
        consumers = self.consumers
        for _ in consumers:
            self._turn = turn = (self._turn + 1) % len(consumers)
            delivery = consumers[turn].pull()
            if delivery is not None:
                return delivery
        self.wants_work = False
        return None


class ConsumerSession:
    """The receiving side of one client session: its targets, and where what they pulled came from."""

    __slots__ = ("_consumer_count", "_lock", "_queues", "_targets", "is_closed", "is_delivering", "receiver_id")

    def __init__(self, receiver_id: ReceiverId, *, is_delivering: bool) -> None:
        self.receiver_id = receiver_id
        self.is_delivering = is_delivering
        """Whether pulls answer: the connection is started."""
        self.is_closed = False
        self._lock = Lock()
        self._targets: dict[ConsumerTarget, None] = {}
        self._queues: dict[EntryQueue, dict[Consumer, None]] = {}
        """Where it consumes, or holds messages, and its consumers there."""
        self._consumer_count = 0

    def add_target(self, on_ready: Callable[[], None]) -> ConsumerTarget:
        """Make a target without consumers. Raises `ClosedError`."""
        target = ConsumerTarget(self, on_ready)
        with self._lock:
            self._check_open()
            self._targets[target] = None
        return target

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer to its queue and its target. Raises `ClosedError`, `ChannelClosedError`."""
        with self._lock:
            self._check_open()
            self._queues.setdefault(consumer.queue, {})[consumer] = None
            self._consumer_count += 1
            consumer.number = self._consumer_count
            consumer.target.consumers = (*consumer.target.consumers, consumer)
        consumer.queue.add_consumer(consumer)

    def remove_target(self, target: ConsumerTarget) -> None:
        """Close the target's consumers and forget it; what they pulled stays here. May be repeated."""
        with self._lock:
            self._targets.pop(target, None)
        for consumer in target.consumers:
            consumer.close()
            with self._lock:
                others = self._queues.get(consumer.queue, {})
                others.pop(consumer, None)
            if not others and not consumer.queue.held_count(self):
                with self._lock:
                    if not self._queues.get(consumer.queue):  # none has come meanwhile
                        self._queues.pop(consumer.queue, None)

    def take_queue(self, queue: EntryQueue) -> None:
        """Note a queue whose messages this session took over from another one. Raises `ClosedError`."""
        with self._lock:
            self._check_open()
            self._queues.setdefault(queue, {})

    def set_delivering(self, is_delivering: bool) -> None:
        """Let pulls answer, or not; when it returns, no pull answers any more."""
        self.is_delivering = is_delivering
        with self._lock:
            targets = list(self._targets)
        for target in targets:
            for consumer in target.consumers:
                consumer.queue.review_interest(consumer)

    def notify_work(self, target: ConsumerTarget) -> None:
        """Hear that a target wants to work: tell its client. It is a step of its own for `trace`, which tells of them all."""
        target.on_ready()

    def pull(self) -> Delivery | None:
        """Pull one message through one of the targets that want to work, each in its turn."""
        with self._lock:
            wanting = [target for target in self._targets if target.wants_work]
        for target in wanting:
            delivery = target.pull()
            if delivery is not None:
                with self._lock:
                    if self._targets.pop(target, self) is None:
                        self._targets[target] = None  # at the back
                return delivery
        return None

    def give_back_all(self) -> None:
        """Give back what the consumers pulled and have not settled, marked redelivered; they go on."""
        with self._lock:
            queues = list(self._queues)
        for queue in queues:
            queue.give_back_all(self)

    def close(self) -> None:
        """Detach all consumers and give back what they pulled, marked redelivered. May be repeated."""
        with self._lock:
            self.is_closed = True
            targets = list(self._targets)
            queues = list(self._queues)
        for target in targets:
            for consumer in target.consumers:
                consumer.close()
        for queue in queues:
            queue.give_back_all(self)
        with self._lock:
            self._targets.clear()
            self._queues.clear()

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("the session is closed")
