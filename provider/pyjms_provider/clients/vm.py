"""The provider of ``vm://``: connections, sessions and consumers of a broker in this process, with local and distributed transactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import count
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Literal

from pyjms.spi.capability import Capability
from pyjms.spi.delivery import ELSEWHERE, Delivery, Elsewhere
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import (
    BranchError,
    CapabilityError,
    ClosedError,
    ConnectionLostError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
    TooLateError,
)
from pyjms.spi.provider import (
    ConnectionEvents,
    ConnectRequest,
    Provider,
    ProviderConnection,
    ProviderConsumer,
    ProviderInfo,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.replay import StageName
from pyjms.spi.selector import Selector
from pyjms.spi.sessions import ClientTags
from pyjms.spi.url import ProviderUrl
from pyjms.spi.words import installed_version
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.broker import EmbeddedBroker, find_broker, served_host, stop_broker
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.vm_services import VmPersistentSessions, VmReaderGroups, VmStages
from pyjms_provider.core.host.admission import SendTimeout
from pyjms_provider.core.host.host_policy import ExpiredInTransaction
from pyjms_provider.core.host.message_mover import OnExpired
from pyjms_provider.core.message.entry import QueueEntry, ReceiverId
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.queue.pager import is_there
from pyjms_provider.core.store import NotAtOnceError
from pyjms_provider.core.transaction.branches import NEEDS_STORE
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork, UnitState
from pyjms_provider.forks import forget_in_children
from pyjms_provider.settings import read_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.journal.journal import JoinedTransaction
    from pyjms_provider.core.message.entry import EntryQueue
    from pyjms_provider.core.queue.consumer import ConsumerTarget, DirectConsumer
    from pyjms_provider.core.queue.search import QueueBrowser
    from pyjms_provider.core.topic import Subscription
    from pyjms_provider.core.transaction.branches import Branch, Branches
    from pyjms_provider.core.transaction.registered_clients import ClientUser
    from pyjms_provider.core.transaction.unit_of_work import OpenTransaction


class VmTransactions(ProviderSession):
    """The transactions of a session, local ones and XA branches; `VmSession` adds sending and receiving."""

    def __init__(self, host: VirtualHost, name: str, receiving: ConsumerSession, *, transacted: bool) -> None:
        self._host = host
        self._name = name
        self._receiving = receiving
        self._transacted = transacted
        self._expired_rolls_back = host.policy.expired_in_transaction is ExpiredInTransaction.ROLLBACK
        self._unit_numbers = count(1)
        self._lock = Lock()
        self._closed = False
        self._refusal: ProviderError | None = None
        """The error that every call raises in a process that was forked from the broker's."""
        self._unit: UnitOfWork | None = None
        self._limit = host.time_limit if transacted and host.time_limit.timeout_ms else None
        self._timed: OpenTransaction | None = None
        self._was_too_long = False
        self._branch: Branch | None = None
        self._unanswered: dict[Xid, Branch] = {}
        """Branches whose commit the store did not answer: the next commit of one reports its outcome."""
        self._branch_timeout_s = 0
        self._has_branches = False

    # Local transactions

    def _open_unit(self) -> UnitOfWork:
        branch = self._branch
        if branch is not None:
            return branch.unit
        unit = self._unit
        if unit is None:
            # Checked again under the lock that `close` takes: a unit opened after the close would stay open.
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

    def commit(self) -> None:
        self._host.work(self._commit)

    def _commit(self, join: Callable[[], JoinedTransaction] | None = None) -> None:
        """Commit the open unit of work; with `join`, together with the application's database transaction."""
        unit = self._begin_commit()
        try:
            if join is None:
                if unit is not None:
                    self._host.finish_commit(unit)
                return
            # Inside the `try`, as it asks the database: any error ends the unit.
            joined = join()
            if unit is None:
                joined.commit()
            else:
                self._host.finish_joined(unit, joined)
        except Exception:
            if unit is not None:
                unit.end_unwritten()
            raise

    def _begin_commit(self, *, for_stage: bool = False) -> UnitOfWork | None:
        """Return the unit to be committed, or staged: nothing else can end it from now on. Raises `RolledBackError`."""
        with self._lock:
            self._check_local()
            unit = self._take_unit()
            was_too_long, self._was_too_long = self._was_too_long, False
            if unit is not None and not was_too_long:
                # Under the lock: neither the timer nor `close` can end a unit that is COMMITTING.
                unit.begin_commit(self._host.clock.time_ms(), for_stage=for_stage)
        # Without the lock: a rollback takes the locks of the queues, and wakes consumers.
        if was_too_long:
            if unit is not None:
                unit.rollback()
            raise self._host.time_limit.exceeded()
        return unit

    def commit_with(self, transaction: object) -> None:
        """Commit together with `transaction`, an SQLAlchemy connection with an open transaction in the store's database."""
        self._host.work(partial(self._commit, partial(self._host.join, transaction)))

    def prepare(self, xid: Xid) -> bool:
        self._check_transacted()
        unit = self._open_unit()
        try:
            return self._host.work(partial(self._branches().prepare_transaction, xid, unit, self._begin_commit))
        except BranchError:
            self.rollback()  # the name was refused, and the transaction is still open
            raise

    def _check_transacted(self) -> None:
        """Raise `CapabilityError` or `BranchError` unless the present work is that of a local transaction."""
        if not self._transacted:
            raise CapabilityError("the session is not transacted")
        self._check_local()

    def stage(self, name: StageName, *, keep_s: int) -> int:
        self._check_transacted()
        begin = partial(self._begin_commit, for_stage=True)
        return self._host.pipelines.stages.stage(name, keep_s, self._open_unit(), begin)

    def rollback(self) -> None:
        with self._lock:
            self._check_local()
            unit = self._take_unit()
            self._was_too_long = False
        if unit is not None:
            unit.rollback()

    def _check_local(self) -> None:
        if self._closed:
            raise self._closed_error()
        if self._branch is not None:
            raise BranchError(f"the session works in branch {self._branch.xid}, which only its coordinator ends")

    def _take_unit(self) -> UnitOfWork | None:
        """Detach the present unit of work and return it. The lock is held. Raises `CapabilityError`."""
        if not self._transacted:
            raise CapabilityError("the session is not transacted")
        self._end_time()
        unit, self._unit = self._unit, None
        return unit

    # Their time limit

    @property
    def is_timed(self) -> bool:
        """Whether its transactions have a time limit."""
        return self._limit is not None

    def begin_time(self) -> None:
        """Start the time limit of a transaction, unless it has started, there is none, or the work belongs to a branch."""
        if self._limit is not None and self._timed is None:
            with self._lock:
                self._begin_time()

    def _begin_time(self) -> None:
        """As `begin_time`, with the lock held."""
        if self._limit is not None and self._timed is None and not self._closed and not self._has_branches:
            self._timed = self._limit.begin(self._time_out)

    def _end_time(self) -> None:
        """Stop the time limit of the present transaction. The lock is held."""
        timed, self._timed = self._timed, None
        if timed is not None:
            self._host.time_limit.end(timed)

    def _time_out(self, timed: OpenTransaction) -> None:
        """Roll back, on the timer thread; the client's commit raises the error."""
        with self._lock:
            if self._timed is not timed:
                # The transaction has ended since the timer looked.
                return
            self._timed = None
            self._was_too_long = True
            unit, self._unit = self._unit, None
        if unit is not None:
            unit.rollback()
        # Messages received and not yet acknowledged go back, too: the time limit frees all that the transaction holds.
        self._receiving.give_back_all()

    # Distributed transactions: a coordinator may send its decisions through any session.

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        if join and resume:
            raise BranchError("a session joins a branch or resumes it, not both", BranchFailure.INVALID)
        branches, worker = self._host.branches, self._receiving
        self._unanswered.pop(xid, None)  # an earlier one of the same name
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
            self._end_time()  # messages received belong to the branch

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        if suspend and fail:
            raise BranchError("work is suspended or has failed, not both", BranchFailure.INVALID)
        with self._lock:
            if self._closed:
                raise self._closed_error()
            if self._branch is not None and self._branch.xid == xid:  # one that was suspended is ended all the same
                self._branch = None
        branches = self._host.branches
        if suspend:
            branches.suspend(xid, self._receiving)
            return
        branches.end(xid, self._receiving, fail=fail)

    def xa_prepare(self, xid: Xid) -> bool:
        return self._host.work(partial(self._branches().prepare, xid))

    def xa_prepare_as(self, xid: Xid, name: Xid) -> bool:
        return self._host.work(partial(self._branches().prepare_as, xid, name))

    def xa_note(self, xid: Xid, notes: Collection[str] = ()) -> Collection[str]:
        return self._branches().note(xid, notes)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        found = (branches := self._branches()).find(xid)
        over = self._unanswered.get(xid) if found is None else None  # its end is learnt by this call
        try:
            if over is not None and (one_phase or over.unit.state is UnitState.COMMITTED):
                _check_committed(over)
            else:
                self._host.work(partial(branches.commit, xid, one_phase=one_phase))
        except BranchError as error:
            if error.failure is not BranchFailure.UNREACHABLE:
                self._unanswered.pop(xid, None)
            elif found is not None:
                self._unanswered[xid] = found
            raise
        self._unanswered.pop(xid, None)
        # The branch is committed even if this fails: the next sender then learns that there is no room.
        with suppress(ProviderError):
            self._host.store.relieve()

    def xa_rollback(self, xid: Xid) -> None:
        self._host.work(partial(self._branches().rollback, xid))

    def xa_recover(self) -> Sequence[Xid]:
        return self._branches().recover()

    def xa_forget(self, xid: Xid) -> None:
        self._host.work(partial(self._branches().forget, xid))

    def xa_set_timeout(self, seconds: int) -> bool:
        self._branch_timeout_s = seconds
        return self._host.branches.are_kept

    def xa_get_timeout(self) -> int:
        return self._branch_timeout_s or self._host.branches.timeout_ms // 1000

    def _branches(self) -> Branches:
        if self._closed:
            raise self._closed_error()
        return self._host.branches

    # The end

    def _end_work(self) -> None:
        """Refuse further work, and roll back what is open. May be repeated."""
        with self._lock:
            self._closed = True
            self._end_time()
            unit, self._unit = self._unit, None
        if unit is not None:
            unit.rollback()
        if self._has_branches:
            self._host.branches.abandon(self._receiving)

    def _closed_error(self) -> ProviderError:
        return self._refusal or ClosedError(f"session {self._name} is closed")


def _check_committed(branch: Branch) -> None:
    """Return if an ended branch was committed. Raises `BranchError` if it was rolled back, or if that is not known yet."""
    state = branch.unit.state
    if state is UnitState.ROLLED_BACK:
        raise BranchError(
            f"branch {branch.xid} was rolled back, as its write failed",
            BranchFailure.ROLLED_BACK,
        )
    if state is not UnitState.COMMITTED:
        raise BranchError(
            f"it is not known whether branch {branch.xid} is committed: the store has not been asked yet; ask again in a second",
            BranchFailure.UNREACHABLE,
        )


# Deliveries of a session of ``vm://NAME``, mapped to entries of its queues.


def by_queue(deliveries: Iterable[Delivery]) -> dict[EntryQueue, list[tuple[QueueEntry, int]]]:
    """Return the entries and delivery counts of consumers' deliveries, by queue, each in the given order."""
    found: dict[EntryQueue, list[tuple[QueueEntry, int]]] = {}
    for delivery in deliveries:
        entry: QueueEntry = delivery.tag  # type: ignore[assignment]  # as `entry_of`, without the price of a call
        found.setdefault(entry.queue, []).append((entry, delivery.count))
    return found


def entry_of(delivery: Delivery) -> QueueEntry:
    """Return the entry of a consumer's delivery."""
    entry = delivery.tag
    assert isinstance(entry, QueueEntry), "deliveries of browsers cannot be settled"
    return entry


# A consumer of ``vm://NAME``: it passes calls on to its queue, or to its queues in turn; a message that it receives starts the time limit of a
# transaction.


class VmConsumer(ProviderConsumer):
    """One consumer at a broker in this process."""

    def __init__(self, session: VmSession, target: ConsumerTarget, subscriptions: Sequence[Subscription]) -> None:
        """`target` has its consumers; `subscriptions`: those of its topics."""
        self._session = session
        self._target = target
        self._subscriptions = subscriptions
        self._deliver: Callable[..., Delivery | None]
        self._desire: Callable[[bool], None]
        if len(target.consumers) == 1:
            # Bound once: a method that only passes on would cost each message one more call.
            (consumer,) = target.consumers
            self._deliver = partial(consumer.queue.deliver_single_message, consumer)
            self._desire = partial(consumer.queue.set_notify_work_desired, consumer)
        else:
            self._deliver, self._desire = target.pull, target.set_interested
        if session.is_timed:
            self._deliver = partial(self._deliver_in_time, self._deliver)
        self._is_forked = False

    def _deliver_in_time(
        self, deliver: Callable[..., Delivery | None], *, or_wait: bool = False, at_once: bool = False
    ) -> Delivery | None:
        delivery = deliver(or_wait=or_wait, at_once=at_once)
        if delivery is not None:
            self._session.begin_time()
        return delivery

    def hand_over_to(self, taker: DirectConsumer) -> None:
        """Have messages delivered directly to `taker` as they arrive; not with a time limit, which a message may have to start."""
        if not self._session.is_timed:
            self._target.direct = taker

    def poll(self) -> Delivery | None:
        return self._deliver()

    def poll_or_wait(self) -> Delivery | None:
        return self._deliver(or_wait=True)

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        try:
            return self._deliver(or_wait=True, at_once=True)
        except NotAtOnceError:
            # The message lies on the disk, or a search takes long: the event loop has a worker ask for it.
            return ELSEWHERE

    def set_interested(self, interested: bool) -> None:
        self._desire(interested)

    def forget_broker(self, error: ProviderError) -> None:
        """Fail with `error` when asked for a message, in a child of the broker's process."""

        def refuse(*_: object, **__: object) -> Delivery | None:
            raise error

        def ignore(desired: bool) -> None:
            """Do nothing."""

        self._deliver, self._desire, self._is_forked = refuse, ignore, True

    def close(self) -> None:
        if self._is_forked:
            return
        self._session.end_consumer(self._target, self._subscriptions)
        self._session.forget(self)


class VmSession(VmTransactions):
    """A session at a broker in this process."""

    def __init__(self, connection: VmConnection, name: str, *, transacted: bool, is_delivering: bool) -> None:
        receiving = ConsumerSession(ReceiverId(name), is_delivering=is_delivering)
        super().__init__(connection.broker.virtual_host, name, receiving, transacted=transacted)
        self._connection = connection
        self._connection_id = connection.connection_id
        self._route = self._host.route
        self._send_timeout = SendTimeout()
        self._close_once = CloseOnce()
        self._consumers: dict[VmConsumer, None] = {}
        self._request_tag: ClientTags | None = None
        """Outside of transactions, the tag that the next send stores."""
        self._reply_tag: ClientTags | None = None
        """The tag that the next acknowledgement stores."""

    # Sending

    def send(self, envelope: Envelope) -> None:
        if self._closed:
            raise self._closed_error()
        if self._request_tag is not None:
            self._send_tagged(envelope, self._send_timeout)
            return
        self._route(envelope, self._connection_id, self._open_unit() if self._transacted else None, self._send_timeout)

    def send_at_once(self, envelope: Envelope) -> None:
        """Send as `send` does, but wait for no room. Raises `QueueFullError` where there is none."""
        if self._closed:
            raise self._closed_error()
        if self._request_tag is not None:
            self._send_tagged(envelope, None)
            return
        self._route(envelope, self._connection_id, self._open_unit() if self._transacted else None, None)

    def may_wait(self, envelope: Envelope) -> bool:
        return self._request_tag is not None or self._host.may_wait(envelope, is_transacted=self._transacted)

    def _send_tagged(self, envelope: Envelope, timeout: SendTimeout | None) -> None:
        """Send a message, and store the request's tag in the same write: as a transaction of its own."""
        tags, self._request_tag = self._request_tag, None
        assert tags is not None, "it is tagged"
        unit = self._unit_of_its_own()
        try:
            self._route(envelope, self._connection_id, unit, timeout)
        except Exception:
            unit.rollback()
            raise
        self._commit_tagged(unit, tags)

    # Tags of a registered client

    def tag(self, tags: ClientTags) -> None:
        if self._closed:
            raise self._closed_error()
        self._host.clients.check(tags, self._connection_id, self._connection.client_user)
        if self._connection.has_ended:
            # Perhaps before the client was noted as connected by it.
            self._host.clients.end_connection(self._connection_id)
        if self._transacted:
            self._open_unit().tag(tags)
            return
        if tags.request is not None:
            self._request_tag = replace(tags, reply=None)
        if tags.reply is not None:
            self._reply_tag = replace(tags, request=None)

    def _unit_of_its_own(self) -> UnitOfWork:
        name = UnitId(f"{self._name}:{next(self._unit_numbers)}")
        return UnitOfWork(name, self._receiving, expired_rolls_back=self._expired_rolls_back)

    def _commit_tagged(self, unit: UnitOfWork, tags: ClientTags) -> None:
        """Commit the unit of a single send or acknowledgement with its tags. Raises `ResourceError`, `InDoubtError`."""
        unit.tag(tags)
        try:
            self._host.work(partial(self._commit_alone, unit))
        except RolledBackError as error:
            # There is no transaction that the client could know of.
            raise (
                error.__cause__ if isinstance(error.__cause__, ProviderError) else ResourceError(error.reason)
            ) from error

    def _commit_alone(self, unit: UnitOfWork) -> None:
        unit.begin_commit(self._host.clock.time_ms())
        try:
            self._host.finish_commit(unit)
        except Exception:
            unit.end_unwritten()
            raise

    # Receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> VmConsumer:
        return self.subscribe_to_all((request,), on_ready)

    def subscribe_to_all(
        self, requests: Iterable[SubscribeRequest], on_ready: Callable[[], None], client_id: str | None = None
    ) -> VmConsumer:
        """Return one consumer for all requests, which takes their messages in turn. Raises as `subscribe` does; then there is none.

        `client_id`: the client whose subscriptions are meant; None: the connection's; empty: those of no client.
        """
        if self._closed:
            raise self._closed_error()
        target = self._receiving.add_target(on_ready)
        subscriptions: list[Subscription] = []
        try:
            for request in requests:
                self._receiving.add_consumer(self._consumer_of(request, target, subscriptions, client_id))
            made = VmConsumer(self, target, subscriptions)
            # If the session was closed meanwhile, this raises, and the consumer is detached below.
            self._remember(made)
        except Exception:
            self.end_consumer(target, subscriptions)
            raise
        return made

    def _consumer_of(
        self,
        request: SubscribeRequest,
        target: ConsumerTarget,
        subscriptions: list[Subscription],
        client_id: str | None,
    ) -> Consumer:
        """Return a consumer of the queue, or of the subscription that is begun and added to `subscriptions`."""
        if request.address.kind is AddressKind.TOPIC:
            subscription = self._host.subscriptions.subscribe(
                request, self._connection_id, self._connection.client_id if client_id is None else client_id, target
            )
            subscriptions.append(subscription)
            return Consumer(subscription, target, priority=request.priority)
        queue = self._host.readable_queue(request.address, self._connection_id)
        return Consumer(queue, target, selector=request.selector, priority=request.priority)

    def _remember(self, consumer: VmConsumer) -> None:
        """Keep a new consumer. Raises `ClosedError` if the session was closed meanwhile."""
        with self._lock:
            if self._closed:
                raise self._closed_error()
            self._consumers[consumer] = None

    def end_consumer(self, target: ConsumerTarget, subscriptions: Iterable[Subscription]) -> None:
        """Detach a consumer and end its subscriptions that are not durable. May be repeated."""
        self._receiving.remove_target(target)
        for subscription in subscriptions:
            self._host.subscriptions.end(subscription, target)

    def forget(self, consumer: VmConsumer) -> None:
        """Remove a consumer that has closed."""
        with self._lock:
            self._consumers.pop(consumer, None)

    def has_destination(self, address: Address) -> bool | None:
        if self._closed:
            raise self._closed_error()
        return self._host.has_destination(address)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        if self._closed:
            raise self._closed_error()
        queue = self._host.readable_queue(address, self._connection_id)
        return self._look(queue.open_browser(selector))

    def _look(self, browser: QueueBrowser) -> Iterator[Delivery]:
        while not self._closed:
            delivery = browser.next()
            if delivery is None:
                return
            if is_there(delivery):
                yield delivery
        raise self._closed_error()

    def unsubscribe(self, name: str, client_id: str | None = None) -> None:
        if self._closed:
            raise self._closed_error()
        self._host.subscriptions.unsubscribe(self._connection.client_id if client_id is None else client_id, name)

    def set_delivering(self, is_delivering: bool) -> None:
        """Start or stop the delivery of messages, together with the connection."""
        self._receiving.set_delivering(is_delivering)

    # Settling and giving back

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        if self._closed:
            raise self._closed_error()
        session = self._receiving
        branch = self._branch
        if branch is not None:
            for delivery in deliveries:
                # The branch no longer finds the message with the session:
                # that is an error only if the session was closed.
                if not branch.take(entry_of(delivery), delivery.count, session) and self._closed:
                    raise self._closed_error()
            return
        if self._transacted:
            if not deliveries:
                # A commit that is repeated has nothing more to acknowledge.
                return
            unit = self._open_unit()
            for queue, received in by_queue(deliveries).items():
                if not queue.settle_in(unit, received, session) and self._closed:
                    raise self._closed_error()  # closed meanwhile: the message is back on its queue
            return
        if self._reply_tag is not None and deliveries:
            self._acknowledge_tagged(deliveries)
            return
        # Mostly there is one message; if the journal does not have it, nothing has to be written.
        if len(deliveries) == 1:
            only: QueueEntry = deliveries[0].tag  # type: ignore[assignment]  # as in `_settle`
            if not only.reference.journaled:
                if not only.queue.settle(only, deliveries[0].count, session):
                    self._raise_outcome(deliveries)
                return
        self._host.work(partial(self._settle, deliveries))

    def _acknowledge_tagged(self, deliveries: Sequence[Delivery]) -> None:
        """Settle messages, and store the reply's tag in the same write: as a transaction of its own."""
        tags, self._reply_tag = self._reply_tag, None
        assert tags is not None, "it is tagged"
        unit = self._unit_of_its_own()
        are_held = [
            queue.settle_in(unit, received, self._receiving) for queue, received in by_queue(deliveries).items()
        ]
        if not all(are_held):
            unit.rollback()
            try:
                self._raise_outcome(deliveries)
            except TooLateError:
                self._reply_tag = tags  # for the acknowledgement of the message when it comes again
                raise
            # An earlier call had settled them: the tag is still to be stored.
            unit = self._unit_of_its_own()
            for queue, received in by_queue(deliveries).items():
                queue.settle_in(unit, received, self._receiving)
        self._commit_tagged(unit, tags)

    def _settle(self, deliveries: Sequence[Delivery]) -> None:
        session = self._receiving
        settled: list[QueueEntry] = []
        transient: list[Delivery] = []
        is_missing = False
        storage = self._host.storage
        is_mixed = len(deliveries) > 1 and storage is not None
        for delivery in deliveries:
            entry: QueueEntry = delivery.tag  # type: ignore[assignment]  # as `entry_of`, without the price of a call
            if is_mixed and not entry.reference.journaled:
                transient.append(delivery)
            elif entry.queue.settle(entry, delivery.count, session):
                if entry.reference.journaled:
                    settled.append(entry)
            else:
                is_missing = True
        # One write for all messages of the acknowledgement.
        if settled and storage is not None:  # the journal has all of these
            storage.write_settled(settled)
        # After the write, so that an acknowledgement that cannot be written settles nothing.
        for delivery in transient:
            entry = entry_of(delivery)
            if not entry.queue.settle(entry, delivery.count, session):
                is_missing = True
        if is_missing:
            self._raise_outcome(deliveries)

    def _raise_outcome(self, deliveries: Sequence[Delivery]) -> None:
        """Raise the outcome of messages that the session no longer holds because an earlier call that settled them failed.

        A write of unknown outcome is repeated. If `deliveries` has a message twice, as it was given back and delivered again, the later
        delivery counts, since that one may be settled. Raises `TooLateError` if a message is delivered again, `InDoubtError` if its outcome
        is still unknown.
        """
        if self._closed:
            raise self._closed_error()
        storage = self._host.storage
        latest = {entry_of(each): each.count for each in sorted(deliveries, key=attrgetter("count"))}
        # First, since resolving a write in doubt may put the message back into its queue.
        is_certain = storage is None or storage.remove_again(latest)
        if any(_comes_again(entry, count) for entry, count in latest.items()):
            raise TooLateError("that a message is settled could not be written: it comes again")
        if not is_certain:
            raise InDoubtError(
                "that a message is settled was written, and the store does not answer whether it was: settle it again, or let it come again"
            )

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._give_back(deliveries)

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._give_back(deliveries, unseen=True)

    def retry(self, delivery: Delivery, reason: str) -> None:
        self._give_back((delivery,), reason)

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        self._give_back(deliveries, reason)

    def _give_back(self, deliveries: Sequence[Delivery], reason: str | None = None, *, unseen: bool = False) -> None:
        if self._closed:
            raise self._closed_error()
        for queue, returned in by_queue(deliveries).items():
            queue.give_back(returned, self._receiving, reason, unseen=unseen)

    def reject(self, delivery: Delivery, reason: str) -> None:
        if self._closed:
            raise self._closed_error()
        self._host.mover.reject(delivery, entry_of(delivery), self._receiving, reason)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        if self._closed:
            raise self._closed_error()
        for delivery in deliveries:
            entry = entry_of(delivery)
            self._receiving.take_queue(entry.queue)
            holder = entry.holder
            if holder is None and entry.queue.policy.non_destructive:
                # The message has stayed in its queue, and no session holds this delivery.
                continue
            if holder is None or not entry.queue.change_holder(entry, delivery.count, holder, self._receiving):
                # Gives back those that were adopted before this one; the session does not hold the others.
                self.recover(deliveries)
                raise ClosedError("a message was given back, as the consumer that had received it was closed")

    # The end

    def end_waits(self) -> None:
        self._send_timeout.end()

    def forget_broker(self, error: ProviderError) -> None:
        """Fail every call with `error`, in a child of the broker's process, which has only a copy of the queues."""
        self._lock, self._closed, self._refusal, self._close_once = Lock(), True, error, CloseOnce.ended()
        for consumer in self._consumers:
            consumer.forget_broker(error)
        self._consumers = {}

    def close(self) -> None:
        # First: a `send` that waits for room ends as soon as a close begins, also where another thread closes already.
        self._send_timeout.end()
        self._close_once.do(self._shut_down)

    def _shut_down(self) -> None:
        self._end_work()
        with self._lock:
            consumers = list(self._consumers)  # none is added any more
        for consumer in consumers:
            consumer.close()
        # After the consumers: no message is delivered to the session while it gives back what it holds.
        self._receiving.close()
        self._connection.discard(self)


def _comes_again(entry: QueueEntry, count: int) -> bool:
    """Return whether the message went back to its queue after delivery number `count`; if not, it is settled, or was removed."""
    return entry.state is MessageState.NEW or entry.delivery_count > count


# Name, version and properties of the embedded broker


@cache  # the version is looked up on the disk
def embedded_broker_info() -> ProviderInfo:
    """Return the name and the version of the broker, and the properties that it sets."""
    return ProviderInfo(
        name="pyjms embedded broker",
        version=installed_version(),
        jmsx_property_names=("JMSXDeliveryCount", "JMSXGroupID", "JMSXGroupSeq"),
    )


_WITHOUT_STORE = ~(Capability.XA | Capability.SHARED_TRANSACTIONS)


class VmProvider(Provider):
    """Connects to brokers in this process."""

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        name, settings = read_url(request.url)
        while True:
            connect = served_host(name, settings)
            try:
                connection = self._embedded(request, events) if connect is None else connect(request, events)
            except ClosedError:
                # The broker, or the member, was stopped since it was found, and is no longer registered: look again.
                continue
            break
        if request.client_id is not None:
            try:
                connection.set_client_id(request.client_id)
            except ProviderError:
                # The caller never gets the connection, and cannot close it.
                connection.close()
                raise
        return connection

    def _embedded(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        name, settings = read_url(request.url)
        return VmConnection(find_broker(name, request.clock, settings, request.on_expired), events, request.on_expired)

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        return ()  # within the process there is no login

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
        self._lost: ConnectionLostError | None = None
        """Why it cannot be used: this process was forked from the broker's."""
        self._close_once = CloseOnce()
        self._started = False
        self._client_id: str | None = None
        self._sessions: dict[VmSession, None] = {}
        self._numbers = count(1)
        # Under the lock: a broker that stops at this moment ends the connection only once it has its id.
        with self._lock:
            self._connection_id = broker.attach(self._lose, self, on_expired)
        forget_in_children(self)

    @property
    def connection_id(self) -> ConnectionId:
        return self._connection_id

    @property
    def capabilities(self) -> Capability:
        if not self._host.branches.are_kept:
            return _WITHOUT_STORE
        storage = self._host.storage
        return ~Capability.NONE if storage is not None and storage.journal.can_join else ~Capability.SHARED_TRANSACTIONS

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
            # Under the lock that `_shut_down` takes: the session is either in its list or refused.
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
        # Without the lock: a session that starts wakes its consumers, which may call back.
        for session in sessions:
            session.set_delivering(started)

    def create_temporary(self, kind: AddressKind) -> Address:
        # Under the lock: a close at this moment finds the destination, and deletes it.
        with self._lock:
            self._check_open()
            return self._host.temporaries.create(kind, self._connection_id)

    def delete_temporary(self, address: Address) -> None:
        self._check_open()
        self._host.temporaries.delete(address, self._connection_id)

    def reader_groups(self) -> VmReaderGroups:
        return VmReaderGroups(self._host.pipelines.groups, self._check_open, lambda: self._client_id)

    def stages(self) -> VmStages:
        return VmStages(self._host.pipelines.stages, self._check_open)

    def persistent_sessions(self) -> VmPersistentSessions:
        return VmPersistentSessions(self._host.clients, self._connection_id, self._check_open, self.client_user)

    @property
    def has_ended(self) -> bool:
        """Whether it is closed, or is just being closed."""
        return self._closed

    def client_user(self) -> ClientUser:
        """Return the user of the connection, for registered clients."""
        return self.broker.client_user(self._connection_id)

    def close(self) -> None:
        self._close_once.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            sessions = list(self._sessions)
        for session in sessions:
            session.close()
        # After the sessions: temporary destinations and the client id are free once nothing uses them.
        self._host.end_connection(self._connection_id, self._client_id)
        self.broker.detach(self._connection_id)

    def forget(self) -> None:
        """Mark the connection as lost, in a child of this process: the broker is in the parent, and the child has only a copy."""
        error = self.broker.refusal
        self._lock, self._closed, self._lost, self._close_once = Lock(), True, error, CloseOnce.ended()
        for session in self._sessions:
            session.forget_broker(error)
        self._sessions = {}

    def discard(self, session: VmSession) -> None:
        """Remove a session that has closed."""
        with self._lock:
            self._sessions.pop(session, None)

    def _lose(self, error: ConnectionLostError) -> None:
        """Close the connection because the broker stops, and tell the client."""
        with self._lock:
            # A client that is closing the connection itself gets no error.
            was_open = not self._closed
        self.close()
        if was_open:
            self._events.on_exception(error)

    def _check_open(self) -> None:
        if self._closed:
            if self._lost is not None:
                raise self._lost
            raise ClosedError(f"the connection to vm://{self.broker.name} is closed")
