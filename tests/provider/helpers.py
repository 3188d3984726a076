"""What the broker's tests share: a clock by hand, messages, queues, and clients that record what they are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, BodyKind, ConnectionId, Envelope, MessageId
from pyjms.spi.errors import ProviderError
from pyjms.spi.receivers import NotAcceptedError
from pyjms.spi.selector import Selector, compile_selector
from pyjms.types import Stored
from pyjms_provider.core.channel import Receiver
from pyjms_provider.core.message.entry import QueueEntry, ReceiverId, Transaction
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.queue.channel_state import ChannelState, Reliability
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.store import MemoryMessageStore, MessageStore
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork

ORDERS = Address(AddressKind.QUEUE, "orders")
NEWS = Address(AddressKind.TOPIC, "news")

_numbers = count(1)


class HandClock:
    """Time that a test sets. A wait ends by its signal alone."""

    def __init__(self, now_ms: int = 1_000) -> None:
        self.now_ms = now_ms
        self.ahead_ms = 0
        """By how much somebody has set the clock on the wall."""

    def time_ms(self) -> int:
        return self.now_ms + self.ahead_ms

    def monotonic_ms(self) -> float:
        return float(self.now_ms)

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        return signal.wait(-1)


def make_envelope(
    text: str = "",
    *,
    destination: Address = ORDERS,
    priority: int = 4,
    expiration_ms: int = 0,
    persistent: bool = False,
    properties: Mapping[str, Stored] | None = None,
) -> Envelope:
    return Envelope(
        destination=destination,
        message_id=MessageId(f"ID:{next(_numbers)}"),
        timestamp_ms=0,
        expiration_ms=expiration_ms,
        delivery_mode=2 if persistent else 1,
        priority=priority,
        correlation_id=None,
        reply_to=None,
        jms_type=None,
        properties=properties or {},
        body_kind=BodyKind.TEXT,
        body=text,
    )


def text_of(delivery: Delivery | None) -> str:
    assert delivery is not None, "there was no message"
    assert isinstance(delivery.envelope.body, str)
    return delivery.envelope.body


def entry_of(delivery: Delivery) -> QueueEntry:
    assert isinstance(delivery.tag, QueueEntry)
    return delivery.tag


class QueueWorld:
    """One queue in a store of its own, with a clock by hand, and sessions that read it."""

    def __init__(self, *, reliability: Reliability = Reliability.MEMORY, clock: Clock | None = None) -> None:
        self.clock = HandClock()
        self.store = MemoryMessageStore("test")
        self.due: list[int] = []
        self.queue = self.make_queue("queue://orders", reliability=reliability, clock=clock)

    def make_queue(
        self, name: str, *, reliability: Reliability = Reliability.MEMORY, clock: Clock | None = None
    ) -> Queue:
        state = ChannelState(self.store, reliability=reliability)
        return Queue(name, self.store, state, clock or self.clock, schedule=lambda _, at_ms: self.due.append(at_ms))

    def send(
        self,
        text: str = "",
        *,
        unit: UnitOfWork | None = None,
        queue: Queue | None = None,
        priority: int = 4,
        expiration_ms: int = 0,
        persistent: bool = False,
        properties: Mapping[str, Stored] | None = None,
    ) -> MessageReference:
        envelope = make_envelope(
            text, priority=priority, expiration_ms=expiration_ms, persistent=persistent, properties=properties
        )
        reference = self.store.store(envelope, None)
        (queue or self.queue).enqueue(reference, unit)
        return reference

    def session(self, name: str = "session", *, is_delivering: bool = True) -> ConsumerSession:
        return ConsumerSession(ReceiverId(name), is_delivering=is_delivering)

    def unit(self, session: ConsumerSession | None = None, *, expired_rolls_back: bool = True) -> UnitOfWork:
        return UnitOfWork(UnitId("unit"), session or self.session(), expired_rolls_back=expired_rolls_back)

    def reader(
        self,
        name: str = "reader",
        *,
        selector: str | None = None,
        priority: int = 0,
        acquires: bool = True,
        interested: bool = False,
        session: ConsumerSession | None = None,
        queue: Queue | None = None,
    ) -> Reader:
        reader = Reader(
            name, session or self.session(name), queue or self.queue, selector, priority=priority, acquires=acquires
        )
        if interested:
            reader.consumer.set_interested(True)
        return reader

    def texts(self) -> list[str]:
        return [str(envelope.body) for envelope in self.queue.browse()]


class Reader:
    """A consumer with a session, that counts its wake-ups."""

    def __init__(
        self,
        name: str,
        session: ConsumerSession,
        queue: Queue,
        selector: str | None,
        *,
        priority: int,
        acquires: bool,
    ) -> None:
        self.name = name
        self.session = session
        self.wake_ups = 0
        self.target: ConsumerTarget = session.add_target(self._on_ready)
        compiled: Selector | None = None if selector is None else compile_selector(selector)
        self.consumer = Consumer(queue, self.target, selector=compiled, priority=priority, acquires=acquires)
        session.add_consumer(self.consumer)

    def _on_ready(self) -> None:
        self.wake_ups += 1

    def pull(self) -> Delivery | None:
        return self.consumer.pull()

    def texts(self, limit: int = 1_000_000) -> list[str]:
        """Pull until there is nothing, at most `limit` times."""
        found: list[str] = []
        while len(found) < limit and (delivery := self.pull()) is not None:
            found.append(text_of(delivery))
        return found

    def settle(self, delivery: Delivery) -> bool:
        entry = entry_of(delivery)
        return entry.queue.settle(entry, delivery.count, self.session)

    def give_back(self, *deliveries: Delivery) -> None:
        self.consumer.queue.give_back([(entry_of(delivery), delivery.count) for delivery in deliveries], self.session)


class HookedLock:
    """Is a queue's lock until it has been let go of so many times; then something else happens, once."""

    def __init__(self, queue: Queue, afterwards: Callable[[], object], releases: int = 1) -> None:
        self._queue = queue
        self._lock = queue.lock
        self._afterwards = afterwards
        self._left = releases
        queue.lock = self  # type: ignore[assignment]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._left -= 1
        if not self._left:
            self._queue.lock = self._lock
            self._afterwards()


class ScriptedReceiver(Receiver):
    """A receiver that answers as it is told to, and remembers what it was asked."""

    def __init__(
        self,
        name: str,
        answer: bool | Callable[[MessageReference], bool] = False,
        *,
        accepts: Callable[[MessageReference], bool] | bool = True,
    ) -> None:
        self._id = ReceiverId(name)
        self.answer = answer
        self.accepts = accepts
        self.handled: list[MessageReference] = []
        self.redelivered: list[bool] = []

    @property
    def receiver_id(self) -> ReceiverId:
        return self._id

    def accept(self, reference: MessageReference) -> bool:
        return self.accepts if isinstance(self.accepts, bool) else self.accepts(reference)

    def handle(
        self, reference: MessageReference, transaction: Transaction | None = None, redelivered: bool = False
    ) -> bool:
        self.handled.append(reference)
        self.redelivered.append(redelivered)
        return self.answer if isinstance(self.answer, bool) else self.answer(reference)


def refuse(reference: MessageReference) -> bool:
    """Be a receiver whose mind changed between `accept` and `handle`."""
    raise NotAcceptedError(f"not {reference}")


def break_down(reference: MessageReference) -> bool:
    """Be a broken receiver."""
    raise RuntimeError(f"broken by {reference}")


@dataclass(slots=True)
class RecordedEvents:
    """`ConnectionEvents` that are remembered."""

    errors: list[ProviderError] = field(default_factory=list)

    def on_exception(self, error: ProviderError) -> None:
        self.errors.append(error)


def holders(store: MessageStore, reference: MessageReference) -> int:
    """Return how many hold the message: 0 when it is gone."""
    try:
        store.retrieve(reference)
    except KeyError:
        return 0
    return reference.holders


CONNECTION = ConnectionId("connection-1")
