"""Receivers that a broker of this process pushes messages to: the messaging core for programs that embed it (JBoss Messaging Core, Revision 1).

`Receivers` connects them to queues and topics, and makes channels of the application's own. The contract of a receiver is `pyjms.spi.receivers`.
A queue pushes on one thread of its own, so that a slow receiver keeps no sender waiting, and receivers get messages in the queue's order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock, Thread, get_ident
from typing import TYPE_CHECKING, Any, Final, Self

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import ClosedError, DestinationError, ProviderError, ResourceError
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.receivers import (
    MessageReceiver,
    NotAcceptedError,
    PushedMessage,
    PushTo,
    ReceiverError,
    ReceiverTransaction,
)
from pyjms.spi.selector import selector_or_none
from pyjms_provider.broker import EmbeddedBroker, inherited_broker, running_broker
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.channel import Channel, Receiver
from pyjms_provider.core.host.host_policy import ExpiredInTransaction
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.topic import Subscription, Topic
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork

if TYPE_CHECKING:
    from types import TracebackType

    from pyjms.spi.selector import Selector
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.message.entry import Transaction
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId

__all__ = ["Attachment", "ChannelFacts", "Receivers", "SynchronousChannel"]

_log = logging.getLogger(__name__)
_BACK_OFF_MS: Final = 1_000.0
"""After a receiver, or a write, has failed: messages are offered again after this time, which doubles while that goes on."""
_BACK_OFF_MAX_MS: Final = 60_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFacts:
    """What a channel lets its senders know (§7)."""

    is_synchronous: bool
    """Whether the sender gets the receivers' acknowledgement, and nothing is stored."""
    is_reliable: bool
    """Whether PERSISTENT messages survive the process."""
    is_transactional: bool
    """Whether messages and acknowledgements can be part of a transaction."""
    is_storing_undeliverable: bool
    """Whether a message that no receiver takes is kept (True), or acknowledged and discarded (False)."""

    @classmethod
    def of(cls, channel: Channel) -> Self:
        """Return what a channel says of itself."""
        return cls(
            is_synchronous=channel.is_synchronous,
            is_reliable=channel.is_reliable,
            is_transactional=channel.is_transactional,
            is_storing_undeliverable=channel.is_storing_undeliverable,
        )


@dataclass(slots=True)
class ReceiverStatistics:
    """What one receiver has done since it was attached."""

    handled: int = 0
    """Messages that it took."""
    acknowledged: int = 0
    """Messages that it acknowledged, at once or later."""
    declined: int = 0
    """Messages that it was offered and did not accept; a message counts each time."""
    failures: int = 0
    """Calls that raised an exception."""
    last_error: str | None = None


class _PushThread:
    """Pushes the messages of one queue: the one thread that calls its receivers, while it has some."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._signal = Signal()
        self._lock = Lock()
        self._tasks: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._has_ended = False
        self.users = 0
        """How many attachments use it; guarded by `_attaching`."""
        self._thread = Thread(target=self._run, name=f"pyjms receivers {queue.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Have it look for messages to push, or for its end. Any thread; never waits."""
        self._signal.set()

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Have the thread call `task` between two messages. Raises `ClosedError` when it has ended."""
        future: Future[Any] = Future()
        if self._thread.ident == get_ident():
            # The receiver itself asks, inside of a call: the thread cannot come to it later while the receiver waits for it.
            future.set_result(task())
            return future
        with self._lock:
            if self._has_ended:
                raise _closed(self._queue)
            self._tasks.append((task, future))
        self._signal.set()
        return future

    def _run(self) -> None:
        pusher, clock = self._queue.pusher, self._clock
        back_off_ms = _BACK_OFF_MS
        while True:
            if not pusher.has_failed:
                back_off_ms = _BACK_OFF_MS
                self._signal.wait(-1)
            elif not clock.wait(self._signal, clock.monotonic_ms() + back_off_ms):
                # A receiver is broken: the messages that it did not take are offered again, more and more rarely.
                pusher.has_failed = False
                back_off_ms = min(2 * back_off_ms, _BACK_OFF_MAX_MS)
                pusher.offer_all()
            try:
                pusher.run()
            except Exception as error:
                reason = error.reason if isinstance(error, ProviderError) else repr(error)
                _log.warning(
                    "PYJMS-RECEIVER-1 %s cannot push a message now, and tries again: %s", self._queue.name, reason
                )
                pusher.has_failed = True
            self._do_tasks()
            if self._ends():
                return

    def _do_tasks(self) -> None:
        while True:
            with self._lock:
                if not self._tasks:
                    return
                task, future = self._tasks.popleft()
            try:
                result = task()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

    def _ends(self) -> bool:
        """Return whether no attachment uses the thread any more, so that the queue is without it from now on."""
        pusher = self._queue.pusher
        # In one step with `users`: an attachment that comes now uses this thread, or makes another one after it.
        with _attaching, self._lock:
            if self.users or self._tasks:
                return False
            pusher.schedule = None
            # A message that was offered before this line is seen here; the offer of a later one finds no thread, and runs by itself.
            if pusher.has_waiting:
                pusher.schedule = self.wake
                self._signal.set()
                return False
            del _threads[self._queue]
            self._has_ended = True
            return True


def _closed(queue: Queue) -> ClosedError:
    return ClosedError(f"{queue.name} pushes to no receiver any more")


_attaching = Lock()
"""Held while a receiver is attached or detached, and while a thread ends; never while a receiver is called."""
_threads: dict[Queue, _PushThread] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pushed(PushedMessage):
    """A delivery to an attached receiver."""

    envelope: Envelope
    is_redelivered: bool
    origin: ConnectionId | None
    adapter: _Adapter
    message_id: ReferenceId

    def acknowledge(self, transaction: ReceiverTransaction | None = None) -> None:
        self.adapter.acknowledge(self.message_id, transaction)


class _Adapter(Receiver):
    """A receiver of an application as the core calls it: with the message in place of its reference."""

    def __init__(self, name: str, channel: Channel, receiver: MessageReceiver, selector: Selector | None) -> None:
        self.statistics = ReceiverStatistics()
        self.receiver = receiver
        self._name = name
        self._channel = channel
        self._selector = selector

    @property
    def receiver_id(self) -> ReceiverId:
        return ReceiverId(self._name)

    def accept(self, reference: MessageReference) -> bool:
        # Waits for a disk if the message was paged out: the core calls receivers without a lock.
        envelope = self._channel.store.fetch(reference)
        wants = envelope is not None and (self._selector is None or self._selector.matches(envelope))
        accepted = wants and envelope is not None and self._call(lambda: self.receiver.accept(envelope))
        if not accepted:
            self.statistics.declined += 1
        return accepted

    def handle(
        self, reference: MessageReference, transaction: Transaction | None = None, redelivered: bool = False
    ) -> bool:
        envelope = self._channel.store.fetch(reference)
        if envelope is None:
            raise NotAcceptedError("the message cannot be read")

        message = _Pushed(
            envelope=envelope,
            is_redelivered=redelivered,
            origin=reference.origin,
            adapter=self,
            message_id=reference.id,
        )
        is_positive = self._call(lambda: self.receiver.handle(message))
        self.statistics.handled += 1
        if is_positive:
            self.statistics.acknowledged += 1
        return is_positive

    def acknowledge(self, message_id: ReferenceId, transaction: ReceiverTransaction | None) -> None:
        """Acknowledge a message after its delivery, or before that has ended."""
        if transaction is not None and not isinstance(transaction, _HostTransaction):
            raise ReceiverError("the transaction is none of Receivers.transaction()")
        self._channel.acknowledge(message_id, self.receiver_id, None if transaction is None else transaction.work)
        self.statistics.acknowledged += 1

    def _call(self, call: Callable[[], bool]) -> bool:
        try:
            return bool(call())
        except NotAcceptedError:
            self.statistics.declined += 1
            raise
        except Exception as error:
            self.statistics.failures += 1
            self.statistics.last_error = f"{type(error).__name__}: {error}"
            raise


class Attachment:
    """One receiver at one queue, or at one subscription of a topic. All calls may come from any thread."""

    def __init__(self, owner: Receivers, queue: Queue, adapter: _Adapter, on_closed: Callable[[], None]) -> None:
        self._owner = owner
        self._queue = queue
        self._adapter = adapter
        self._on_closed = on_closed
        self._lock = Lock()
        self._is_closed = False
        self._thread: _PushThread | None = None

    def open(self, push_to: PushTo | None, host: VirtualHost) -> None:
        """Connect the receiver. Raises `ReceiverError`."""
        self._thread = _attach(self._queue, self._adapter, push_to, host)
        # Those that are there already; without waiting, as the receiver may be slow.
        self._queue.pusher.offer_all()

    @property
    def name(self) -> str:
        """The receiver's name, by which the queue knows its acknowledgements."""
        return self._adapter.receiver_id

    @property
    def channel(self) -> str:
        """The name of the queue or the subscription."""
        return self._queue.name

    @property
    def statistics(self) -> ReceiverStatistics:
        """What the receiver has done so far."""
        return self._adapter.statistics

    @property
    def unacknowledged(self) -> int:
        """How many messages the receiver has taken and not acknowledged: they are DELIVERED (§5.3.1)."""
        queue = self._queue
        with queue.lock:
            return len(queue.state.unacknowledged_by(self._adapter.receiver_id))

    def deliver(self, timeout_s: float | None = None) -> bool:
        """Have all messages offered to the receivers that are NEW now (§7.4): a receiver that has declined some accepts them by now.

        Args:
            timeout_s: how long to wait, in seconds; None: until all were offered.

        Returns:
            Whether no message is left NEW.

        Raises:
            TimeoutError: the time is over; the rest is offered nevertheless.
            ClosedError: the receiver was closed meanwhile.
        """
        return bool(self._submit(self._queue.deliver).result(timeout_s))

    def redeliver(self, timeout_s: float | None = None) -> None:
        """Have all unacknowledged messages of the receiver delivered again, flagged (§7.5). As `deliver`."""
        self._submit(lambda: self._queue.redeliver(self._adapter)).result(timeout_s)

    def release(self) -> int:
        """Give the receiver's unacknowledged messages back; return how many.

        They are NEW again, for all receivers and consumers of the queue, flagged as redelivered; those that came too often become dead letters.
        """
        return self._queue.release_unacknowledged(self._adapter.receiver_id)

    def close(self, *, keep: bool = False) -> None:
        """Push no more messages to the receiver, and let it close, once a call under way has returned. May be repeated.

        Args:
            keep: whether its unacknowledged messages stay DELIVERED, so that it may acknowledge them, or ask for them when it is attached again
                (§7.5); otherwise they are released.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self.disconnect(keep=keep)
        thread = self._thread
        assert thread is not None, "an attachment is open before others know it"
        # The thread comes to this when a call of the receiver that was under way has returned.
        thread.submit(lambda: None).result()
        if not keep:
            self.release()  # what that call has left to acknowledge
        with _attaching:
            thread.users -= 1
        thread.wake()
        self._on_closed()
        self._owner.forget(self)
        self._adapter.receiver.close()

    def disconnect(self, *, keep: bool) -> None:
        """Push no more messages to the receiver, without waiting for a call under way; `close` follows. `keep`: as there."""
        with _attaching:
            self._queue.pusher.remove(self._adapter)
        if not keep:
            self.release()

    def _submit(self, task: Callable[[], Any]) -> Future[Any]:
        thread = self._thread
        if self._is_closed or thread is None:
            raise _closed(self._queue)
        return thread.submit(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _attach(queue: Queue, adapter: _Adapter, push_to: PushTo | None, host: VirtualHost) -> _PushThread:
    """Connect a receiver; return the thread that will call it. Raises `ReceiverError` when the queue cannot push to it."""
    pusher, policy = queue.pusher, queue.policy
    with _attaching:
        if any(each.receiver_id == adapter.receiver_id for each in pusher.receivers):
            raise ReceiverError(f"{queue.name} has a receiver {adapter.receiver_id!r}; choose another name")
        if policy.non_destructive or policy.groups or policy.exclusive:
            raise ReceiverError(
                f"{queue.name} gives each message to a consumer of its choice, or to all; push from a queue without groups, that is neither "
                "exclusive nor non-destructive"
            )
        if queue.sequencer is not None:
            raise ReceiverError(
                f"{queue.name} has a total order, which is kept for consumers that pull: push from a queue of another type"
            )
        if pusher.receivers and push_to not in {None, pusher.push_to}:
            raise ReceiverError(f"{queue.name} pushes {pusher.push_to.value}, as its other receivers were attached so")
        if push_to is not None:
            pusher.push_to = push_to
        thread = _threads.get(queue)
        if thread is None:
            thread = _threads[queue] = _PushThread(queue, host.clock)
            pusher.schedule = thread.wake
            storage = host.storage
            if storage is not None:
                pusher.write_settled, pusher.write_early = storage.write_settled, storage.write_early
            thread.start()
        thread.users += 1
        pusher.add(adapter)
    return thread


class SynchronousChannel:
    """A channel of the application's own: it passes each message to its receivers at once, and stores nothing (§2). Any thread."""

    def __init__(self, owner: Receivers, name: str, host: VirtualHost) -> None:
        self._owner = owner
        self._topic = Topic(f"channel://{name}", host.store)

    @property
    def facts(self) -> ChannelFacts:
        """What it lets its senders know: nobody can send to it within a transaction."""
        return ChannelFacts(
            is_synchronous=True, is_reliable=False, is_transactional=False, is_storing_undeliverable=False
        )

    def add(self, receiver: MessageReceiver, *, name: str, selector: str | None = None) -> Callable[[], None]:
        """Connect a receiver: `send` calls it, on the sender's thread; return what disconnects it. Raises `InvalidSelectorError`."""
        adapter = _Adapter(name, self._topic, receiver, selector_or_none(selector))
        self._topic.add_receiver(adapter)
        return lambda: self._topic.remove_receiver(adapter)

    def send(self, envelope: Envelope) -> bool:
        """Pass a message to all receivers that accept it.

        Returns:
            Whether all of them acknowledged it positively, or none wanted it. After a negative acknowledgement the message is the sender's
            affair: a synchronous channel keeps nothing.

        Raises:
            ClosedError: the channel was closed.
            Exception: what a receiver raised.
        """
        store = self._topic.store
        reference = store.store(envelope, self._owner.connection_id)
        try:
            return self._topic.enqueue(reference)
        except Exception:
            store.release(reference)
            raise

    def close(self) -> None:
        """Take no more messages. May be repeated."""
        self._topic.close()


class _HostTransaction(ReceiverTransaction):
    """A transaction at one host."""

    def __init__(self, host: VirtualHost, work: UnitOfWork, owner: Receivers) -> None:
        self.work = work
        self._host = host
        self._owner = owner

    def send(self, envelope: Envelope) -> None:
        self._host.route(envelope, self._owner.connection_id, self.work)

    def commit(self) -> None:
        self._host.work(self._commit)

    def _commit(self) -> None:
        self.work.begin_commit(self._host.clock.time_ms())
        try:
            self._host.finish_commit(self.work)
        except Exception:
            self.work.end_unwritten()
            raise

    def rollback(self) -> None:
        self.work.rollback()


class Receivers:
    """The receivers of one part of a program at one broker; as a connection, it closes what it has made. All calls may come from any thread.

    Args:
        broker: the running broker.
        client_id: for durable subscriptions; None: there are none.
        protocol: what the list of connections shows in place of a protocol.
    """

    def __init__(self, broker: EmbeddedBroker, *, client_id: str | None = None, protocol: str = "vm") -> None:
        self._host = broker.virtual_host
        self._connection = VmConnection(broker, self)
        if protocol != "vm":
            broker.describe(self.connection_id, user="", address="", protocol=protocol)
        self._lock = Lock()
        self._attachments: dict[Attachment, None] = {}
        self._is_closed = False
        self._numbers = 0
        if client_id is not None:
            try:
                self._connection.set_client_id(client_id)
            except ProviderError:
                self._connection.close()
                raise

    @classmethod
    def of(cls, broker: str, *, client_id: str | None = None) -> Self:
        """Return a new one for ``vm://BROKER``, which runs in this process. Raises `ResourceError` if it does not."""
        found = running_broker(broker)
        if found is None:
            refusal = inherited_broker(broker)
            raise ResourceError(
                refusal or f"there is no broker {broker!r} in this process; connect to vm://{broker} first"
            )
        return cls(found, client_id=client_id)

    @property
    def connection_id(self) -> ConnectionId:
        """The id of its connection, which messages that it sends have."""
        return self._connection.connection_id

    def attach(
        self,
        destination: str,
        receiver: MessageReceiver,
        *,
        name: str,
        selector: str | None = None,
        push_to: PushTo | None = None,
        subscription: str | None = None,
    ) -> Attachment:
        """Have the messages of a queue or a topic pushed to a receiver, also those that wait there.

        Args:
            destination: ``queue://NAME`` or ``topic://NAME``.
            receiver: it is closed with the attachment.
            name: the receiver's name, unique at its queue.
            selector: only messages that match are pushed to it; None: all.
            push_to: to whom the queue pushes; None: as before, which is to the first that takes it.
            subscription: the name of a durable subscription, which gathers messages while no receiver is attached; None: there is none.

        Raises:
            ReceiverError: the queue has a receiver of that name, or its policy does not let it push.
            DestinationError: there is no such destination.
            SubscriptionInUseError: the durable subscription has a subscriber.
            InvalidSelectorError: the selector is none.
        """
        address, compiled = _address_of(destination), selector_or_none(selector)
        token = object()
        queue: Queue
        if address.kind is AddressKind.TOPIC:
            request = SubscribeRequest(
                address=address, selector=compiled, no_local=False, durable_name=subscription, priority=0
            )
            queue = self._host.subscriptions.subscribe(request, self.connection_id, self._connection.client_id, token)
            compiled = None  # the topic selects
        elif subscription is not None:
            raise ReceiverError("only a topic has subscriptions; leave the name out, or name a topic://")
        else:
            queue = self._host.readable_queue(address, self.connection_id)

        def on_closed() -> None:
            if isinstance(queue, Subscription):
                self._host.subscriptions.end(queue, token)

        adapter = _Adapter(name, queue, receiver, compiled)
        attachment = Attachment(self, queue, adapter, on_closed)
        try:
            attachment.open(push_to, self._host)
        except ProviderError:
            on_closed()
            raise
        try:
            self._remember(attachment)
        except ClosedError:
            attachment.close()
            raise
        return attachment

    def _remember(self, attachment: Attachment) -> None:
        with self._lock:
            if self._is_closed:
                raise ClosedError(f"the receivers of vm://{self._connection.broker.name} are closed")
            self._attachments[attachment] = None

    def channel(self, name: str) -> SynchronousChannel:
        """Return a synchronous channel of the application's own."""
        return SynchronousChannel(self, name, self._host)

    def facts(self, destination: str) -> ChannelFacts:
        """Return what a destination lets its senders know (§7.1 to §7.3). Raises `DestinationError`."""
        address = _address_of(destination)
        is_queue = address.kind is AddressKind.QUEUE
        return ChannelFacts.of(self._host.queue(address.name) if is_queue else self._host.topic(address.name))

    def transaction(self) -> ReceiverTransaction:
        """Begin a transaction of acknowledgements and sends."""
        with self._lock:
            self._numbers += 1
            number = self._numbers
        session = ConsumerSession(ReceiverId(f"{self.connection_id}/unit-{number}"), is_delivering=False)
        rolls_back = self._host.policy.expired_in_transaction is ExpiredInTransaction.ROLLBACK
        work = UnitOfWork(UnitId(f"{self.connection_id}/{number}"), session, expired_rolls_back=rolls_back)
        return _HostTransaction(self._host, work, self)

    def attachments(self) -> list[Attachment]:
        """Return those that are open."""
        with self._lock:
            return list(self._attachments)

    def forget(self, attachment: Attachment) -> None:
        """Let go of an attachment that was closed."""
        with self._lock:
            self._attachments.pop(attachment, None)

    def on_exception(self, error: ProviderError) -> None:
        """Hear that the broker has stopped: detach all receivers."""
        for attachment in self.attachments():
            attachment.disconnect(keep=False)
        # On a thread of its own: the broker's stop must not wait for a receiver, nor a receiver that stops the broker for itself.
        Thread(target=self.close, name="pyjms receivers closing", daemon=True).start()

    def close(self) -> None:
        """Close all attachments, and let go of the broker. May be repeated."""
        with self._lock:
            self._is_closed = True
            attachments = list(self._attachments)
        for attachment in attachments:
            attachment.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def unacknowledged_by_receiver(queue: Queue) -> dict[str, int]:
    """Return how many unacknowledged messages each receiver of a queue has, by their names (§5.3.1); of a detached one only if it has some."""
    with queue.lock:
        attached = queue.pusher.receivers if queue.has_receivers else ()
        counts: dict[str, int] = dict.fromkeys((each.receiver_id for each in attached), 0)
        counts.update(queue.state.unacknowledged_counts().items())
        return counts


def _address_of(destination: str) -> Address:
    """Return the address that a text names. Raises `DestinationError`."""
    kind, separator, name = destination.partition("://")
    if not separator or not name or kind not in {"queue", "topic"}:
        raise DestinationError(f"{destination!r} is no destination; write queue://NAME or topic://NAME")
    return Address(AddressKind.QUEUE if kind == "queue" else AddressKind.TOPIC, name)
