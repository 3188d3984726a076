"""The provider of ``vm://NAME``: the broker in this process, reached by plain calls.

The first connection to a name starts the broker; it runs, with all its messages, until `stop_broker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from threading import Lock

from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import BranchError, CapabilityError, ClosedError, ConnectionLostError, ProviderError
from pyjms.spi.provider import (
    ConnectionEvents,
    ConnectRequest,
    Provider,
    ProviderConnection,
    ProviderInfo,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.replay import StageName
from pyjms.spi.selector import Selector
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.broker import EmbeddedBroker, find_broker, stop_broker
from pyjms_provider.clients.ending import Ending
from pyjms_provider.clients.received import by_queue, entry_of
from pyjms_provider.clients.vm_consumer import VmConsumer
from pyjms_provider.clients.vm_info import embedded_broker_info
from pyjms_provider.clients.vm_pipelines import VmReaderGroups, VmStages
from pyjms_provider.core.branch import Branch
from pyjms_provider.core.branches import NEEDS_STORE, Branches
from pyjms_provider.core.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.doorkeeper import Patience
from pyjms_provider.core.entry import QueueEntry, ReceiverId
from pyjms_provider.core.expiry_watch import OnExpired
from pyjms_provider.core.host_policy import ExpiredInTransaction
from pyjms_provider.core.ordering import Cursor
from pyjms_provider.core.queue import Queue
from pyjms_provider.core.stored_delivery import is_there
from pyjms_provider.core.subscription import Subscription
from pyjms_provider.core.time_limit import OpenTransaction
from pyjms_provider.core.unit_of_work import UnitId, UnitOfWork
from pyjms_provider.settings import read_url

__all__ = ["VmConnection", "VmConsumer", "VmProvider", "VmSession"]

_WITHOUT_STORE = ~(Capability.XA | Capability.SHARED_TRANSACTIONS)


class VmProvider(Provider):
    """Connects to brokers in this process."""

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> VmConnection:
        name, settings = read_url(request.url)
        while True:
            broker = find_broker(name, request.clock, settings, request.on_expired)
            try:
                connection = VmConnection(broker, events, request.on_expired)
            except ClosedError:
                continue  # it was stopped at this moment, and is no longer registered
            break
        if request.client_id is not None:
            try:
                connection.set_client_id(request.client_id)
            except ProviderError:
                connection.close()
                raise
        return connection

    def stop_broker(self, url: ProviderUrl) -> None:
        stop_broker(read_url(url)[0])


class VmConnection(ProviderConnection):
    """One client's connection to a broker in this process."""

    def __init__(self, broker: EmbeddedBroker, events: ConnectionEvents, on_expired: OnExpired | None = None) -> None:
        self.broker = broker
        self._host = broker.virtual_host
        self._events = events
        self._lock = Lock()
        self._closed = False
        self._ending = Ending()
        self._started = False
        self._client_id: str | None = None
        self._sessions: dict[VmSession, None] = {}
        self._numbers = count(1)
        self._connection_id = broker.attach(self._lose, self, on_expired)

    @property
    def connection_id(self) -> ConnectionId:
        return self._connection_id

    @property
    def capabilities(self) -> Capability:
        if not self._host.branches.are_kept:
            return _WITHOUT_STORE
        keeper = self._host.keeper
        return ~Capability.NONE if keeper is not None and keeper.journal.can_join else ~Capability.SHARED_TRANSACTIONS

    @property
    def info(self) -> ProviderInfo:
        return embedded_broker_info()

    @property
    def resource_manager(self) -> str:
        return self.broker.run_id

    def advice(self, capability: Capability) -> str:
        return NEEDS_STORE if capability is Capability.XA else ""

    @property
    def client_id(self) -> str | None:
        """The client id, if one was set."""
        return self._client_id

    def set_client_id(self, client_id: str) -> None:
        with self._lock:
            self._check_open()
            self._host.take_client_id(client_id, self._connection_id)
            self._client_id = client_id

    def open_session(self, *, transacted: bool) -> VmSession:
        with self._lock:
            self._check_open()
            name = f"{self._connection_id}/{next(self._numbers)}"
            session = VmSession(self, name, transacted=transacted, is_delivering=self._started)
            self._sessions[session] = None
        return session

    def start(self) -> None:
        self._set_started(True)

    def stop(self) -> None:
        self._set_started(False)

    def _set_started(self, started: bool) -> None:
        with self._lock:
            self._check_open()
            self._started = started
            sessions = list(self._sessions)
        for session in sessions:
            session.set_delivering(started)

    def create_temporary(self, kind: AddressKind) -> Address:
        self._check_open()
        return self._host.create_temporary(kind, self._connection_id)

    def delete_temporary(self, address: Address) -> None:
        self._check_open()
        self._host.delete_temporary(address, self._connection_id)

    def reader_groups(self) -> VmReaderGroups:
        return VmReaderGroups(self._host.pipelines.groups, self._check_open, lambda: self._client_id)

    def stages(self) -> VmStages:
        return VmStages(self._host.pipelines.stages, self._check_open)

    def close(self) -> None:
        if not self._ending.begin():
            return
        try:
            with self._lock:
                self._closed = True
                sessions = list(self._sessions)
            for session in sessions:
                session.close()
            self._host.end_connection(self._connection_id, self._client_id)
            self.broker.detach(self._connection_id)
        finally:
            self._ending.finish()

    def forget(self, session: VmSession) -> None:
        """Let go of a session that has closed."""
        with self._lock:
            self._sessions.pop(session, None)

    def _lose(self, error: ConnectionLostError) -> None:
        """End because the broker stops, and tell the client."""
        with self._lock:
            was_open = not self._closed
        self.close()
        if was_open:
            self._events.on_exception(error)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the connection to vm://{self.broker.name} is closed")


class VmSession(ProviderSession):
    """A session at a broker in this process."""

    def __init__(self, connection: VmConnection, name: str, *, transacted: bool, is_delivering: bool) -> None:
        self._connection = connection
        self._connection_id = connection.connection_id
        self._name = name
        self._transacted = transacted
        self._host = connection.broker.virtual_host
        self._route = self._host.route
        self._expired_rolls_back = self._host.policy.expired_in_transaction is ExpiredInTransaction.ROLLBACK
        self._receiving = ConsumerSession(ReceiverId(name), is_delivering=is_delivering)
        self._unit_numbers = count(1)
        self._patience = Patience()
        self._lock = Lock()
        self._closed = False
        self._ending = Ending()
        self._unit: UnitOfWork | None = None
        self._limit = self._host.time_limit if transacted and self._host.time_limit.timeout_ms else None
        self._timed: OpenTransaction | None = None
        self._was_too_long = False
        self._branch: Branch | None = None
        self._branch_timeout_s = 0
        self._has_branches = False
        self._consumers: dict[VmConsumer, None] = {}

    # Sending

    def send(self, envelope: Envelope) -> None:
        if self._closed:
            raise self._closed_error()
        self._route(envelope, self._connection_id, self._open_unit() if self._transacted else None, self._patience)

    def may_wait(self, envelope: Envelope) -> bool:
        return self._host.may_wait(envelope, is_transacted=self._transacted)

    def commit(self) -> None:
        keeper = self._host.keeper
        if keeper is None:
            self._commit()
        else:
            with keeper.work():
                self._commit()

    def _commit(self) -> None:
        unit = self._begin_commit()
        if unit is not None:
            self._host.finish_commit(unit)

    def _begin_commit(self, *, for_stage: bool = False) -> UnitOfWork | None:
        """Return what is to be committed, or staged, which nobody else can end any more. Raises `RolledBackError`."""
        with self._lock:
            self._check_local()
            unit, was_too_long = self._take_unit(), self._was_too_long
            self._was_too_long = False
            if unit is not None and not was_too_long:
                unit.begin_commit(self._host.clock.time_ms(), for_stage=for_stage)
        if was_too_long:
            if unit is not None:
                unit.rollback()
            raise self._host.time_limit.exceeded()
        return unit

    def commit_with(self, transaction: object) -> None:
        """Commit together with `transaction`, an SQLAlchemy connection with an open transaction in the store's database."""
        joined = self._host.join(transaction)
        unit = self._begin_commit()
        if unit is None:
            joined.commit()
        else:
            self._host.finish_joined(unit, joined)

    def stage(self, name: StageName, *, keep_s: int) -> int:
        if not self._transacted:
            raise CapabilityError("the session is not transacted")
        self._check_local()
        begin = partial(self._begin_commit, for_stage=True)
        return self._host.pipelines.stages.stage(name, keep_s, self._open_unit, begin)

    def rollback(self) -> None:
        with self._lock:
            self._check_local()
            unit, self._was_too_long = self._take_unit(), False
        if unit is not None:
            unit.rollback()

    def _check_local(self) -> None:
        if self._closed:
            raise self._closed_error()
        if self._branch is not None:
            raise BranchError(f"the session works in branch {self._branch.xid}, which only its coordinator ends")

    def _open_unit(self) -> UnitOfWork:
        branch = self._branch
        if branch is not None:
            return branch.unit
        unit = self._unit
        if unit is None:
            with self._lock:
                if self._closed:
                    raise self._closed_error()
                self._begin_time()
                unit = self._unit = UnitOfWork(
                    UnitId(f"{self._name}:{next(self._unit_numbers)}"),
                    self._receiving,
                    expired_rolls_back=self._expired_rolls_back,
                )
        return unit

    def _take_unit(self) -> UnitOfWork | None:
        """End the present transaction, and return what was done in it. The lock is held. Raises `CapabilityError`."""
        if not self._transacted:
            raise CapabilityError("the session is not transacted")
        self._end_time()
        unit, self._unit = self._unit, None
        return unit

    # The time limit of local transactions

    @property
    def is_timed(self) -> bool:
        """Whether its transactions may not stay open for ever."""
        return self._limit is not None

    def begin_time(self) -> None:
        """Let the time of a transaction begin, unless it has begun, there is no limit, or the work is a branch's."""
        if self._limit is not None and self._timed is None:
            with self._lock:
                self._begin_time()

    def _begin_time(self) -> None:
        """Do so with the lock held."""
        if self._limit is not None and self._timed is None and not self._closed and not self._has_branches:
            self._timed = self._limit.begin(self._time_out)

    def _end_time(self) -> None:
        """Let it end. The lock is held."""
        timed, self._timed = self._timed, None
        if timed is not None:
            self._host.time_limit.end(timed)

    def _time_out(self, timed: OpenTransaction) -> None:
        """Roll back, in the housekeeper's thread; the client hears of it when it commits."""
        with self._lock:
            if self._timed is not timed:
                return  # it has ended at this moment
            self._timed = None
            self._was_too_long = True
            unit, self._unit = self._unit, None
        if unit is not None:
            unit.rollback()
        self._receiving.give_back_all()

    # Receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> VmConsumer:
        if self._closed:
            raise self._closed_error()
        target = self._receiving.add_target(on_ready)
        subscription: Subscription | None = None
        try:
            if request.address.kind is AddressKind.TOPIC:
                subscription = self._host.subscribe(request, self._connection_id, self._connection.client_id)
                consumer = Consumer(subscription, target, priority=request.priority)
            else:
                queue = self._host.readable_queue(request.address, self._connection_id)
                consumer = Consumer(queue, target, selector=request.selector, priority=request.priority)
            self._receiving.add_consumer(consumer)
        except ProviderError:
            self.end_consumer(target, subscription)
            raise
        made = VmConsumer(self, target, consumer, subscription)
        if not self._remember(made):
            made.close()
            raise self._closed_error()
        return made

    def _remember(self, consumer: VmConsumer) -> bool:
        """Keep a new consumer; return False if the session was closed meanwhile."""
        with self._lock:
            if not self._closed:
                self._consumers[consumer] = None
            return not self._closed

    def end_consumer(self, target: ConsumerTarget, subscription: Subscription | None) -> None:
        """Detach a consumer and end its subscription, if it has one that is not durable. May be repeated."""
        self._receiving.remove_target(target)
        if subscription is not None:
            self._host.end_subscription(subscription)

    def forget(self, consumer: VmConsumer) -> None:
        """Let go of a consumer that has closed."""
        with self._lock:
            self._consumers.pop(consumer, None)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        if self._closed:
            raise self._closed_error()
        session = self._receiving
        branch = self._branch
        if branch is not None:
            for delivery in deliveries:
                if not branch.take(entry_of(delivery), delivery.count, session) and self._closed:
                    raise self._closed_error()
            return
        if self._transacted:
            unit = self._open_unit()
            for queue, received in by_queue(deliveries).items():
                if not queue.settle_in(unit, received, session) and self._closed:
                    raise self._closed_error()  # closed meanwhile: the message is back on its queue
            return
        if len(deliveries) == 1:  # mostly; and what no journal has needs no write
            only: QueueEntry = deliveries[0].tag  # type: ignore[assignment]  # as in `_settle`
            if not only.reference.journaled:
                if not only.queue.settle(only, deliveries[0].count, session) and self._closed:
                    raise self._closed_error()
                return
        keeper = self._host.keeper
        if keeper is None:
            self._settle(deliveries)
        else:
            with keeper.work():
                self._settle(deliveries)

    def _settle(self, deliveries: Sequence[Delivery]) -> None:
        session = self._receiving
        settled: list[QueueEntry] = []
        transient: list[Delivery] = []
        in_vain = False
        is_mixed = len(deliveries) > 1 and self._host.keeper is not None
        for delivery in deliveries:
            entry: QueueEntry = delivery.tag  # type: ignore[assignment]  # as `entry_of`, without the price of a call
            if is_mixed and not entry.reference.journaled:
                transient.append(delivery)
            elif entry.queue.settle(entry, delivery.count, session):
                if entry.reference.journaled:
                    settled.append(entry)
            else:
                in_vain = True
        if settled:
            self._host.write_settled(settled)
        for delivery in transient:  # afterwards, so that an acknowledgement that cannot be written settles nothing
            entry = entry_of(delivery)
            in_vain = not entry.queue.settle(entry, delivery.count, session) or in_vain
        if in_vain and self._closed:
            raise self._closed_error()

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._give_back(deliveries, unseen=False)

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._give_back(deliveries, unseen=True)

    def _give_back(self, deliveries: Sequence[Delivery], *, unseen: bool) -> None:
        if self._closed:
            raise self._closed_error()
        for queue, returned in by_queue(deliveries).items():
            queue.give_back(returned, self._receiving, unseen=unseen)

    def retry(self, delivery: Delivery, reason: str) -> None:
        if self._closed:
            raise self._closed_error()
        entry = entry_of(delivery)
        entry.queue.give_back([(entry, delivery.count)], self._receiving, reason)

    def reject(self, delivery: Delivery, reason: str) -> None:
        if self._closed:
            raise self._closed_error()
        self._host.reject(delivery, entry_of(delivery), self._receiving, reason)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        if self._closed:
            raise self._closed_error()
        for delivery in deliveries:
            entry = entry_of(delivery)
            self._receiving.take_queue(entry.queue)
            holder = entry.holder
            if holder is None and entry.queue.policy.non_destructive:
                continue  # the message has stayed in its queue, and this delivery is nobody's
            if holder is None or not entry.queue.hand_over(entry, delivery.count, holder, self._receiving):
                self.recover(deliveries)  # those that were taken over before; the others are nobody's here
                raise ClosedError("a message was given back, as the consumer that had received it was closed")

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        if self._closed:
            raise self._closed_error()
        queue = self._host.readable_queue(address, self._connection_id)
        return self._look(queue, queue.open_browser(selector))

    def _look(self, queue: Queue, cursor: Cursor) -> Iterator[Delivery]:
        while not self._closed:
            delivery = queue.look(cursor)
            if delivery is None:
                return
            if is_there(delivery):
                yield delivery
        raise self._closed_error()

    def unsubscribe(self, name: str) -> None:
        if self._closed:
            raise self._closed_error()
        self._host.unsubscribe(self._connection.client_id, name)

    def set_delivering(self, is_delivering: bool) -> None:
        """Hear that the connection was started or stopped."""
        self._receiving.set_delivering(is_delivering)

    # Distributed transactions: what a coordinator decides may come through any session.

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        if join and resume:
            raise BranchError("a session joins a branch or resumes it, not both", BranchFailure.INVALID)
        branches, worker = self._host.branches, self._receiving
        with self._lock:
            self._check_local()
            if self._unit is not None and not self._unit.is_empty:
                raise BranchError(
                    "the session has sent or received outside of branches: commit that, or roll it back, first",
                    BranchFailure.OUTSIDE,
                )
            if join:
                self._branch = branches.join(xid, worker)
            elif resume:
                self._branch = branches.resume(xid, worker)
            else:
                timeout_ms = self._branch_timeout_s * 1000 or None
                self._branch = branches.start(xid, worker, timeout_ms=timeout_ms)
            self._has_branches = True
            self._end_time()  # what was received belongs to the branch

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        if suspend and fail:
            raise BranchError("work is suspended or has failed, not both", BranchFailure.INVALID)
        with self._lock:
            if self._closed:
                raise self._closed_error()
            if self._branch is not None and self._branch.xid == xid:
                self._branch = None
        if suspend:
            self._host.branches.suspend(xid, self._receiving)
        else:
            self._host.branches.end(xid, self._receiving, fail=fail)

    def xa_prepare(self, xid: Xid) -> bool:
        return self._branches().prepare(xid)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._branches().commit(xid, one_phase=one_phase)
        with suppress(ProviderError):  # it is committed; who sends next is told that there is no room
            self._host.store.relieve()

    def xa_rollback(self, xid: Xid) -> None:
        self._branches().rollback(xid)

    def xa_recover(self) -> Sequence[Xid]:
        return self._branches().recover()

    def xa_forget(self, xid: Xid) -> None:
        self._branches().forget(xid)

    def xa_set_timeout(self, seconds: int) -> bool:
        self._branch_timeout_s = seconds
        return self._host.branches.are_kept

    def xa_get_timeout(self) -> int:
        return self._branch_timeout_s or self._host.branches.timeout_ms // 1000

    def _branches(self) -> Branches:
        if self._closed:
            raise self._closed_error()
        return self._host.branches

    # Ending

    def end_waits(self) -> None:
        self._patience.end()

    def close(self) -> None:
        self._patience.end()
        if not self._ending.begin():
            return
        try:
            self._shut_down()
        finally:
            self._ending.finish()

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            self._end_time()
            unit, self._unit = self._unit, None
            consumers = list(self._consumers)
        if unit is not None:
            unit.rollback()
        if self._has_branches:
            self._host.branches.abandon(self._receiving)
        for consumer in consumers:
            consumer.close()
        self._receiving.close()
        self._connection.forget(self)

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"session {self._name} is closed")
