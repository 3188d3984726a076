"""A session of a client of the cluster: one session at each shard that it uses, and transactions over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import (
    AccessDeniedError,
    BranchError,
    CapabilityError,
    ClosedError,
    DestinationError,
    InDoubtError,
    InvalidSelectorError,
    ProviderError,
    ResourceError,
    RolledBackError,
    StageError,
    TooLateError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms.spi.sessions import ClientTags, check_tags
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.cluster.browser import browse
from pyjms_provider.clients.cluster.consumer import ClusterConsumer, DeliveryTag
from pyjms_provider.clients.cluster.partitions import PartitionChoice, TurnsConsumer
from pyjms_provider.clients.cluster.shard_connection import unless_done
from pyjms_provider.clients.cluster.two_phase import commit_alone, commit_together
from pyjms_provider.clients.network.calls import not_restored
from pyjms_provider.clients.stomp.native.session import NativeSession
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.cluster.placement import Placement, ShardPlace
from pyjms_provider.core.queue.altering import RetiredQueueError
from pyjms_provider.repeatable import LOST, REPEATED, RepeatableError

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.replay import StageName, Stages
    from pyjms.spi.selector import Selector
    from pyjms_provider.clients.cluster.branches import ClusterBranches
    from pyjms_provider.clients.cluster.shard_connection import ShardConnection, Term
    from pyjms_provider.cluster.contracts import Cluster
    from pyjms_provider.cluster.placement import Place
    from pyjms_provider.core.journal.journal import SubscriptionKey

_Result = TypeVar("_Result")
_MOVED_MAX = 1_000
"""So often a call is made again that found its queue elsewhere; each time it waits for some milliseconds, or until it is known where it is."""
_REFUSED = (AccessDeniedError, DestinationError, InvalidSelectorError)
"""The errors of a consumer that no further attempt can make. Others pass: a subscription may be in use by this consumer's last connection."""


class SessionOwner(Protocol):
    """The connection of a session."""

    cluster: Cluster
    branches: ClusterBranches

    def shard(self, place: Place, client_id: str | None = None) -> ShardConnection:
        """Return the connection to a place; `client_id` "": one without the client id."""
        ...

    def key_of(self, name: str, client_id: str | None) -> SubscriptionKey:
        """Return the identity of a durable subscription."""
        ...

    def enter_subscription(self, session: ClusterSession, name: str, topic: str, client_id: str | None) -> None:
        """Enter a durable subscription that is about to be made."""
        ...

    def open_session(self, *, transacted: bool) -> ClusterSession:
        """Open another session."""
        ...

    def home_of_sink(self, sink: str) -> ShardPlace:
        """Return the shard of the marker of a sink of staged units."""
        ...

    def stages(self) -> Stages:
        """Return the staged units."""
        ...

    def on_exception(self, error: ProviderError) -> None:
        """Report a problem to the client."""
        ...

    def discard(self, session: ClusterSession) -> None:
        """Remove a session that has closed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class UnitPart:
    """A part of a transaction that is to be committed: at that session, though a restore gives its part another one meanwhile, which knows nothing of it."""

    shard: ShardConnection
    session: ProviderSession | None
    term: int

    def ready(self) -> ProviderSession:
        """Return the session."""
        assert self.session is not None, "it has a part of the transaction"
        return self.session


class SessionPart:
    """The part of a session at one shard: a session of its own there, and the state of the transaction in it."""

    def __init__(self, owner: ClusterSession, shard: ShardConnection, *, transacted: bool) -> None:
        self.shard = shard
        self._owner = owner
        self._transacted = transacted
        self.session: ProviderSession | None = None
        """The session at the shard; None: it was not opened yet."""
        self.term = 0
        """The number of its term."""
        self.consumers: dict[ClusterConsumer, None] = {}
        self.is_dirty = False
        """Whether the present transaction has a part here."""
        self.is_doomed = False
        """Whether that part is lost, so that the transaction can only be rolled back."""
        self.branch: Xid | None = None
        """The branch in which the session at the shard works."""
        self.suspended: set[Xid] = set()
        """The branches in which it has suspended its work."""
        self.notes: dict[Xid, str] = {}
        """What is to be noted about its work in each of these branches."""

    def ready(self) -> ProviderSession:
        """Return the session at the shard, opened on the present term. Raises as `ShardConnection.current`."""
        session = self.session
        if session is not None and self.shard.is_current(self.term):
            return session
        # A call that begins later goes on as far as it need not wait.
        may_have_to_end = not self._owner.ends_waits
        while True:
            term = self.shard.current(self._owner.check_waiting)
            if may_have_to_end:
                # To connect, and to open a session, takes a while as well: a client that has left meanwhile may have sent later messages elsewhere.
                self._owner.check_waiting()
            if self.session is not None and self.term == term.number:
                return self.session
            try:
                self._enter(term, term.connection.open_session(transacted=self._transacted))
            except LOST as error:
                self._owner.check_open()
                self.shard.lose(term.number, error)

    def renewed(self, error: ProviderError, term: int | None = None) -> ProviderSession:
        """Return the session at the shard on another term, as a call of it has raised `error` before it had any effect.

        After a `RepeatableError` the term goes on: the link below it is being connected again. `term`: that of the call; None: the present one.
        """
        self._owner.check_waiting()  # it may be the end of the session's waits, and no loss
        if not isinstance(error, RepeatableError):
            self.shard.lose(self.term if term is None else term, error)
        return self.ready()

    def repeat(self, act: Callable[[ProviderSession], _Result]) -> _Result:
        """Return the result of a call that may be repeated: it is made again while the shard's leader changes. Raises as `act`, and as `ready`."""
        session = self.ready()  # its own errors are no loss
        try:
            return act(session)
        except REPEATED as error:
            return self.again(error, act)

    def again(
        self, error: ProviderError, act: Callable[[ProviderSession], _Result], term: int | None = None
    ) -> _Result:
        """Do as `repeat`, after a first call that has raised `error`; `term`: as in `renewed`."""
        while True:
            session = self.renewed(error, term)
            try:
                return act(session)
            except REPEATED as another:
                error, term = another, None

    def restore(self, term: Term) -> None:
        """Open the part again, with its consumers, on a term that is not in use yet. Implements `RestoredSession`."""
        if not self.consumers:
            return  # the session's thread opens it when it needs it
        session = term.connection.open_session(transacted=self._transacted)
        for consumer in list(self.consumers):
            try:
                inner = session.subscribe(consumer.request, consumer.on_ready)
            except _REFUSED as error:
                self.consumers.pop(consumer, None)
                self._owner.report(not_restored(consumer.request.address, error))
            else:
                consumer.place(inner, term.number)
        self._enter(term, session)

    def _enter(self, term: Term, session: ProviderSession) -> None:
        old = self.session
        # First: who finds the other session finds this as well.
        self.is_doomed = self.is_doomed or self.is_dirty or self.branch is not None
        self.suspended.clear()
        self.session, self.term = session, term.number
        # Again: work may have begun meanwhile, at the old one.
        self.is_doomed = self.is_doomed or self.is_dirty or self.branch is not None
        if old is not None:
            with suppress(ProviderError):
                old.close()

    def unit(self) -> UnitPart:
        """Return the part of the present transaction here. Then look whether it is lost: `is_lost`."""
        return UnitPart(self.shard, self.session, self.term)

    @property
    def is_lost(self) -> bool:
        """Whether what the present transaction did here is lost."""
        return self.is_doomed or not self.shard.is_current(self.term)

    def forget_transaction(self) -> None:
        """Begin another transaction."""
        self.is_dirty = self.is_doomed = False

    def close(self) -> None:
        """Close the session at the shard. May be repeated."""
        self.shard.remove(self)
        if self.session is not None:
            with suppress(ProviderError):  # the other parts must be closed as well
                self.session.close()


class ClusterSession(ProviderSession):
    """A session of a `ClusterConnection`."""

    def __init__(self, connection: SessionOwner, *, transacted: bool) -> None:
        self._connection = connection
        self._transacted = transacted
        self._lock = Lock()
        self._parts: dict[ShardConnection, SessionPart] = {}
        self._by_name: dict[str, SessionPart] = {}
        """The parts of queues by name, while the placement is `_placement`."""
        self._placement: Placement | None = None
        self._partitions = PartitionChoice()
        self._branch: Xid | None = None
        self._request_tag: ClientTags | None = None
        """Outside of transactions, the tag that the next send stores."""
        self._reply_tag: ClientTags | None = None
        """The tag that the next acknowledgement stores."""
        self._tagging: ClusterSession | None = None
        """The transacted session that stores tags together with a send or an acknowledgement of this one."""
        self._timeout_s = 0
        self._closed = False
        self.ends_waits = False
        """Whether calls may not wait any more."""
        self._close_once = CloseOnce()

    def check_open(self) -> None:
        """Raise `ClosedError` if the session is closed."""
        if self._closed:
            raise ClosedError("the session is closed")

    def check_waiting(self) -> None:
        """Raise `ClosedError` if calls may not wait for a leader any more, as the session is about to be closed."""
        if self._closed or self.ends_waits:
            raise ClosedError("the session is closed")

    def report(self, error: ProviderError) -> None:
        """Report a problem to the client."""
        self._connection.on_exception(error)

    # The parts

    def _part_of(self, envelope: Envelope) -> SessionPart:
        """Return the part at the shard that gets a message. Waits while its queue is being placed."""
        address = envelope.destination
        self.check_open()
        placement = self._connection.cluster.placement
        if self._placement is not placement:
            self._placement, self._by_name = placement, {}
        # By name, as hashing an address costs more; names of queues only, which are the most.
        is_queue = address.kind is AddressKind.QUEUE and not address.temporary
        part = self._by_name.get(address.name) if is_queue else None
        if part is not None:
            return part
        placement = self._settled_placement(address)
        shards = placement.shards_of(address.kind, address.name) if is_queue else ()
        if len(shards) > 1:
            return self.part_at(self._partitions.shard_for(placement, shards, envelope))
        part = self._part_at(self._connection.shard(placement.place_of(address)))
        if is_queue and self._placement is placement:
            self._by_name[address.name] = part
        return part

    def _settled_placement(self, address: Address) -> Placement:
        """Return the placement, once it is known where a queue is. Raises `ResourceError`."""
        cluster = self._connection.cluster
        while not cluster.is_settled(address):
            self.check_waiting()
            cluster.await_placed(address.name)
            self.check_waiting()  # as in `SessionPart.ready`
        return cluster.placement

    def _is_settled(self, address: Address) -> bool:
        """Return whether it is known where a destination is. Never waits."""
        cluster = self._connection.cluster
        is_used = self._placement is cluster.placement and address.name in self._by_name
        return is_used or cluster.is_settled(address)

    def _await_placed(self, address: Address, error: DestinationError, attempt: int) -> None:
        """Wait until it is known where a queue is that was elsewhere; raise `error` if that was not its cause.

        A queue that was closed meanwhile is looked for once more.
        """
        is_elsewhere = error.code == RetiredQueueError.code or (error.code == DestinationError.code and attempt == 0)
        if address.temporary or address.kind is not AddressKind.QUEUE or not is_elsewhere or attempt >= _MOVED_MAX:
            raise error
        self.check_waiting()
        if error.code == RetiredQueueError.code:
            self._connection.cluster.await_placed(address.name)
            self.check_waiting()

    def _part_at(self, shard: ShardConnection) -> SessionPart:
        part = self._parts.get(shard)
        if part is None:
            part = SessionPart(self, shard, transacted=self._transacted)
            with self._lock:
                self.check_open()
                self._parts[shard] = part
            shard.add(part)
        return part

    def _in_unit(self, part: SessionPart) -> ProviderSession:
        """Return the session at the shard for work that belongs to the present transaction, or branch."""
        session = part.ready()
        if self._branch is None:
            part.is_dirty = part.is_dirty or self._transacted
            if part.session is not session:  # a restore has not seen that the transaction has a part here
                part.is_doomed = part.is_dirty
        elif part.branch != self._branch and not part.is_doomed:
            self._connection.branches.work(self._branch, part, self._timeout_s)
        return session

    # Sending

    def send(self, envelope: Envelope) -> None:
        try:
            self._send(envelope)
        except DestinationError as error:
            self._send_again(envelope, error)

    def _send_again(self, envelope: Envelope, error: DestinationError) -> None:
        """Send a message that a shard has refused, as its queue is elsewhere. Raises `error` if that was not the cause."""
        for attempt in count():
            self._await_placed(envelope.destination, error, attempt)
            try:
                self._send(envelope)
            except DestinationError as again:
                error = again
            else:
                return

    def _send(self, envelope: Envelope) -> None:
        part = self._part_of(envelope)
        if not self._transacted and self._branch is None:
            if self._request_tag is not None:
                self._send_tagged(envelope)
                return
            try:
                part.ready().send(envelope)
            except REPEATED as error:  # raised before the message was sent
                part.again(error, lambda session: session.send(envelope))
            return
        try:
            session = self._in_unit(part)
            if not part.is_doomed:  # else the commit raises the error
                session.send(envelope)
        except LOST as error:
            self._doom(part, error)

    def send_at_once(self, envelope: Envelope) -> None:
        """Send as `send` does, and wait for no room where this member leads the shard: `QueueFullError` if there is none."""
        part = self._part_of(envelope)
        session = part.ready()
        if self._transacted or self._branch is not None or not isinstance(session, VmSession):
            self.send(envelope)
            return
        try:
            session.send_at_once(envelope)
        except DestinationError as error:
            self._send_again(envelope, error)
        except LOST as error:
            part.renewed(error)
            self.send_at_once(envelope)

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        if self._transacted or self._branch is not None or self._request_tag is not None:
            super().send_async(envelope, done)
            return
        part = self._part_of(envelope)
        try:
            part.ready().send_async(envelope, done)
        except REPEATED as error:  # as in `_send`; and `done` is not called
            part.again(error, lambda session: session.send_async(envelope, done))

    def begin_send(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> bool:
        """Send as `send_async` does, if another member leads the shard, and this need not wait; return whether it was begun."""
        if self._transacted or self._branch is not None or self._request_tag is not None:
            return False
        if not self._is_settled(envelope.destination):
            return False
        part = self._part_of(envelope)
        session = part.session
        if not isinstance(session, NativeSession) or not part.shard.is_current(part.term):
            return False
        return session.begin_send(envelope, done)

    def begin_acknowledge(self, deliveries: Sequence[Delivery], done: Callable[[ProviderError | None], None]) -> bool:
        """Settle messages of one shard that another member leads, if this need not wait; `done` is told the outcome.

        Returns:
            Whether that was begun; False: nothing has happened.
        """
        if self._transacted or self._branch is not None or self._reply_tag is not None or not deliveries:
            return False
        self.check_open()
        first = deliveries[0].tag
        assert isinstance(first, DeliveryTag), "deliveries of browsers cannot be settled"
        part = self._parts.get(first.shard)
        if part is None or not isinstance(part.session, NativeSession) or part.term != first.term:
            return False
        own: list[Delivery] = []
        for delivery in deliveries:
            tag = delivery.tag
            assert isinstance(tag, DeliveryTag), "deliveries of browsers cannot be settled"
            if tag.shard is not first.shard or tag.term != first.term:
                return False
            own.append(tag.delivery)
        return first.shard.is_current(first.term) and part.session.begin_acknowledge(own, done)

    def may_wait(self, envelope: Envelope) -> bool:
        if not self._is_settled(envelope.destination):
            return True
        part = self._part_of(envelope)
        session = part.session
        return (
            self._request_tag is not None
            or session is None
            or part.branch != self._branch  # the shard, and the branch's home, are told of it first
            or not part.shard.is_current(part.term)
            or session.may_wait(envelope)
        )

    def _doom(self, part: SessionPart, error: ProviderError) -> None:
        """Let the transaction or branch be rolled back, as its part at a shard is lost: its end raises the error."""
        self.check_waiting()  # as in `SessionPart.renewed`
        self._doom_part(part)
        part.shard.lose(part.term, error)

    def _doom_part(self, part: SessionPart) -> None:
        part.is_doomed = True
        if self._branch is None:
            part.is_dirty = True
        else:
            part.branch = self._branch  # it may have no part there yet: the end of the branch looks at those that have

    # Tags of a registered client

    def tag(self, tags: ClientTags) -> None:
        self.check_open()
        place = ShardPlace(self._connection.cluster.placement.shard_of_registered(tags.name))
        part = self._part_at(self._connection.shard(place))
        if self._transacted or self._branch is not None:
            try:
                session = self._in_unit(part)
                if not part.is_doomed:
                    session.tag(tags)
            except LOST as error:
                self._doom(part, error)
            return
        check_tags(tags)
        if tags.request is not None:
            self._request_tag = replace(tags, reply=None)
        if tags.reply is not None:
            self._reply_tag = replace(tags, request=None)

    def _tagging_session(self) -> ClusterSession:
        if self._tagging is None:
            self._tagging = self._connection.open_session(transacted=True)
            self._tagging._partitions = self._partitions  # noqa: SLF001 - it sends in place of this session
        return self._tagging

    def _send_tagged(self, envelope: Envelope) -> None:
        """Send a message, and store the request's tag, in one transaction, as they may be in two shards."""
        tags, self._request_tag = self._request_tag, None
        assert tags is not None, "it is tagged"
        unit = self._tagging_session()
        try:
            unit.tag(tags)
            unit.send(envelope)
        except ProviderError:
            unit.rollback()
            raise
        _commit_tagged(unit)

    def _acknowledge_tagged(self, deliveries: Sequence[Delivery]) -> None:
        """Settle messages, and store the reply's tag, in one transaction."""
        tags, self._reply_tag = self._reply_tag, None
        assert tags is not None, "it is tagged"
        unit = self._tagging_session()
        unit.adopt(deliveries)
        try:
            unit.tag(tags)
            unit.acknowledge(deliveries)
            _commit_tagged(unit)
        except InDoubtError:
            raise
        except ProviderError:
            unit.rollback()
            self.adopt(deliveries)
            raise

    # Receiving

    def subscribe(
        self, request: SubscribeRequest, on_ready: Callable[[], None], client_id: str | None = None
    ) -> ProviderConsumer:
        """Attach a consumer; to a partitioned queue, one at each partition.

        Args:
            request: As in `ProviderSession.subscribe`.
            on_ready: The same.
            client_id: The client whose subscriptions are meant; None: the connection's; empty: those of no client.
        """
        self.check_open()
        if request.shared_name is not None:
            return self._subscribe_guarded(request, request.shared_name, on_ready, client_id)
        if request.durable_name is None:
            return self._subscribe_everywhere(request, on_ready, client_id)
        self._connection.enter_subscription(self, request.durable_name, request.address.name, client_id)
        return self._subscribe(request, on_ready, client_id)

    def _subscribe_everywhere(
        self, request: SubscribeRequest, on_ready: Callable[[], None], client_id: str | None
    ) -> ProviderConsumer:
        consumers: list[ProviderConsumer] = []
        attempts = count()
        while not consumers:
            try:
                consumers = self._subscribe_at_all(request, on_ready, client_id)
            except DestinationError as error:
                self._await_placed(request.address, error, next(attempts))
        return consumers[0] if len(consumers) == 1 else TurnsConsumer(consumers)

    def _subscribe_at_all(
        self, request: SubscribeRequest, on_ready: Callable[[], None], client_id: str | None
    ) -> list[ProviderConsumer]:
        """Attach a consumer at each place of a destination; return none if it is placed elsewhere meanwhile."""
        address = request.address
        places = self._settled_placement(address).places_of(address)
        consumers: list[ProviderConsumer] = []
        with ExitStack() as undo:
            for place in places:
                consumer = self._subscribe(request, on_ready, client_id, place)
                undo.callback(consumer.close)
                consumers.append(consumer)
            # Read again, as nobody would miss the consumer that a new partition does not have.
            if self._settled_placement(address).places_of(address) == places:
                undo.pop_all()
                return consumers
        return []

    def _subscribe_guarded(
        self, request: SubscribeRequest, name: str, on_ready: Callable[[], None], client_id: str | None
    ) -> ClusterConsumer:
        """Attach a consumer of a shared subscription that is not durable.

        The shard that a hash of its name gives has a consumer of that subscription as well, which gets no messages: so consumers of that
        name with topics in several shards are refused (JMS 2.0 §8.3.2).
        """
        placement = self._connection.cluster.placement
        home = ShardPlace(placement.shard_of_shared(self._connection.key_of(name, client_id)))
        if home == placement.place_of(request.address):
            return self._subscribe(request, on_ready, client_id)
        guard = self._subscribe(request, _ignore, client_id, home)
        try:
            consumer = self._subscribe(request, on_ready, client_id)
        except ProviderError:
            guard.close()
            raise
        consumer.guard = guard
        return consumer

    def _subscribe(
        self,
        request: SubscribeRequest,
        on_ready: Callable[[], None],
        client_id: str | None,
        place: Place | None = None,
    ) -> ClusterConsumer:
        place = place or self._connection.cluster.placement.place_of(request.address)
        part = self._part_at(self._connection.shard(place, client_id))
        while True:
            session = part.ready()
            term = part.term
            try:
                inner = session.subscribe(request, on_ready)
            except LOST as error:
                part.renewed(error)
                continue
            consumer = ClusterConsumer(part, request, on_ready, inner, term)
            # From here on a restore finds it, and gives it the consumer of the next term.
            if part.shard.enter_if_current(term, partial(part.consumers.setdefault, consumer)):
                break
            with suppress(*LOST):
                inner.close()
        if self._closed:
            consumer.close()
            self.check_open()
        return consumer

    def _everywhere(self, address: Address) -> list[SessionPart]:
        """Return the parts at all shards of a destination."""
        self.check_open()
        places = self._settled_placement(address).places_of(address)
        return [self._part_at(self._connection.shard(place)) for place in places]

    def has_destination(self, address: Address) -> bool | None:
        found = [part.repeat(lambda session: session.has_destination(address)) for part in self._everywhere(address)]
        return True if True in found else found[0]

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        found = [browse(part, address, selector) for part in self._everywhere(address)]
        return found[0] if len(found) == 1 else merge(*found, key=_rank)

    def unsubscribe(self, name: str, client_id: str | None = None) -> None:
        """Delete a durable subscription. `client_id`: as in `subscribe`."""
        self.check_open()
        connection = self._connection
        key = connection.key_of(name, client_id)
        topic = connection.cluster.subscriptions.topic_of(key)
        if topic is None:
            whose = f"client {key.client_id!r}" if key.client_id else "a connection without a client id"
            raise UnknownSubscriptionError(f"{whose} has no durable subscription {name!r}")
        self.unsubscribe_from(topic, name, client_id)
        connection.cluster.subscriptions.remove(key)

    def unsubscribe_from(self, topic: str, name: str, client_id: str | None) -> None:
        """Delete a durable subscription of that topic at its shard."""
        place = ShardPlace(self._connection.cluster.placement.shard_of(AddressKind.TOPIC, topic))
        part = self._part_at(self._connection.shard(place, client_id))
        part.repeat(unless_done(lambda session: session.unsubscribe(name), UnknownSubscriptionError))

    # Settling and giving back

    def _by_part(self, deliveries: Iterable[Delivery]) -> dict[SessionPart, list[Delivery]]:
        """Return the shards' own deliveries by the parts that settle them; those of an earlier term are left out."""
        found: dict[SessionPart, list[Delivery]] = {}
        for delivery in deliveries:
            tag = delivery.tag
            assert isinstance(tag, DeliveryTag), "deliveries of browsers cannot be settled"
            part = self._part_at(tag.shard)
            if part.session is None:  # received by another session of the connection
                part.ready()
            if tag.shard.is_current(tag.term) and part.term == tag.term:
                found.setdefault(part, []).append(tag.delivery)
        return found

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.check_open()
        found = self._by_part(deliveries)
        are_all = sum(map(len, found.values())) == len(deliveries)
        if self._transacted or self._branch is not None:
            if not are_all:
                self._doom_earlier(deliveries)
            for part, own in found.items():
                self._acknowledge_in_unit(part, own)
            return
        if self._reply_tag is not None and are_all and deliveries:
            self._acknowledge_tagged(deliveries)
            return
        if not are_all:
            # One error stands for all of them: a client that rolls back because of it must get each again.
            for part, own in found.items():
                self._ready(part).recover(own)
            raise TooLateError(
                "another member became the leader before messages were settled; they come again, and what was to be settled with them"
            )
        for index, (part, own) in enumerate(found.items()):
            try:
                self._ready(part).acknowledge(own)
            except ProviderError as error:
                if index and not self._closed:  # others are settled, so it must not be said that all come again
                    raise InDoubtError(
                        f"some of the messages are settled, and others may come again: {error.reason}"
                    ) from error
                if not isinstance(error, LOST):
                    raise
                self.check_open()
                part.shard.lose(part.term, error)
                raise TooLateError(
                    f"another member became the leader before messages were settled: {error.reason}"
                ) from error

    def _acknowledge_in_unit(self, part: SessionPart, deliveries: Sequence[Delivery]) -> None:
        try:
            session = self._in_unit(part)
            if not part.is_doomed:
                session.acknowledge(deliveries)
        except LOST as error:
            self._doom(part, error)

    def _doom_earlier(self, deliveries: Iterable[Delivery]) -> None:
        """Let the transaction or branch be rolled back: messages in it come again."""
        for delivery in deliveries:
            tag = delivery.tag
            if isinstance(tag, DeliveryTag) and not tag.shard.is_current(tag.term):
                self._doom_part(self._part_at(tag.shard))

    @staticmethod
    def _ready(part: SessionPart) -> ProviderSession:
        assert part.session is not None, "it has received"
        return part.session

    def _for_each_part(
        self, deliveries: Sequence[Delivery], act: Callable[[ProviderSession, Sequence[Delivery]], None]
    ) -> None:
        """Give messages back, by part; those of a lost term are back already."""
        self.check_open()
        for part, own in self._by_part(deliveries).items():
            try:
                act(self._ready(part), own)
            except RepeatableError:
                self.check_open()  # they are back already
            except LOST as error:
                self.check_open()
                part.shard.lose(part.term, error)

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._for_each_part(deliveries, lambda session, own: session.recover(own))

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._for_each_part(deliveries, lambda session, own: session.give_back_unseen(own))

    def retry(self, delivery: Delivery, reason: str) -> None:
        self.retry_all((delivery,), reason)

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        self._for_each_part(deliveries, lambda session, own: session.retry_all(own, reason))

    def reject(self, delivery: Delivery, reason: str) -> None:
        self._for_each_part((delivery,), lambda session, own: session.reject(own[0], reason))

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._for_each_part(deliveries, lambda session, own: session.adopt(own))

    # Local transactions

    def commit(self) -> None:
        self._check_local()
        parts = [part for part in self._parts.values() if part.is_dirty or part.is_doomed]
        units = [part.unit() for part in parts]
        try:
            self._check_not_lost(parts)
            if len(units) == 1:
                commit_alone(units[0], self.check_open)
            elif units:
                commit_together(self._connection.cluster.decisions, units)
        except Exception:
            # Whatever has failed: what is left at a shard would become part of the next transaction.
            self._roll_back(parts)
            raise
        finally:
            for part in parts:
                part.forget_transaction()

    @staticmethod
    def _check_not_lost(parts: Iterable[SessionPart]) -> None:
        """Raise `RolledBackError` if what the transaction did at a shard is lost."""
        if any(part.is_lost for part in parts):
            raise RolledBackError(
                "the transaction was rolled back, as another member became the leader of a destination in it"
            )

    def prepare(self, xid: Xid) -> bool:
        """Prepare the present transaction at all its shards as parts of one branch. Raises as `ProviderSession.prepare`."""
        self._check_local()
        parts = [part for part in self._parts.values() if part.is_dirty or part.is_doomed]
        units = {part: part.unit() for part in parts}
        prepared: list[SessionPart] = []
        try:
            self._check_not_lost(parts)
            if not all(isinstance(part.shard.place, ShardPlace) for part in parts):
                raise RolledBackError("a branch of a cluster cannot contain messages of temporary destinations")
            for part, unit in units.items():
                try:
                    if unit.ready().prepare(xid):
                        prepared.append(part)
                except LOST as error:
                    self.check_open()
                    part.shard.lose(part.term, error)
                    raise RolledBackError(
                        f"the transaction was rolled back, as another member became the leader: {error.reason}"
                    ) from error
        except ProviderError:
            self._roll_back([part for part in parts if part not in prepared])
            for part in prepared:
                with suppress(ProviderError):  # its coordinator, or an operator, settles it
                    self._ready(part).xa_rollback(xid)
            raise
        finally:
            for part in parts:
                part.forget_transaction()
        return bool(prepared)

    def rollback(self) -> None:
        self._check_local()
        parts = [part for part in self._parts.values() if part.is_dirty or part.is_doomed]
        self._roll_back(parts)
        for part in parts:
            part.forget_transaction()

    def _roll_back(self, parts: Iterable[SessionPart]) -> None:
        """Roll back what the transaction did at parts: where that fails, by the end of the session there."""
        for part in parts:
            if part.session is None or not part.shard.is_current(part.term):
                continue  # its end has rolled it back
            try:
                part.session.rollback()
            except ProviderError as error:
                if not self._closed:
                    part.shard.lose(part.term, error)

    def _check_local(self) -> None:
        self.check_open()
        if self._branch is not None:
            raise BranchError(f"the session works in branch {self._branch}, which only its coordinator ends")
        if not self._transacted:
            raise CapabilityError("the session is not transacted")

    def stage(self, name: StageName, *, keep_s: int) -> int:
        self._check_local()
        parts = [part for part in self._parts.values() if part.is_dirty or part.is_doomed]
        if not all(isinstance(part.shard.place, ShardPlace) for part in parts):
            raise StageError("a staged unit of a cluster cannot contain messages of temporary destinations")
        if self._partitions.are_used and any(each.name == name for each in self._connection.stages().units(name.sink)):
            # An earlier unit of that name may have gone to other partitions, whose shards know of it.
            raise StageError(f"there is a staged unit {name} already")
        # A unit that sends nothing is staged as well, as it may be promoted.
        units = {part: part.unit() for part in parts}
        staging = parts or [self._part_at(self._connection.shard(self._connection.home_of_sink(name.sink)))]
        staged: list[SessionPart] = []
        messages = 0
        try:
            self._check_not_lost(parts)
            for part in staging:
                messages += (units.get(part) or part).ready().stage(name, keep_s=keep_s)
                staged.append(part)
        except Exception as error:
            if isinstance(error, StageError) and not staged:
                raise  # as at a single broker, the transaction goes on
            self._unstage(name, parts, staged)
            if isinstance(error, LOST):
                self.check_open()
            if isinstance(error, (StageError, *LOST)):
                raise RolledBackError(
                    f"the transaction was rolled back, as a part of it could not be staged: {error.reason}"
                ) from error
            raise
        for part in parts:
            part.forget_transaction()
        return messages

    def _unstage(self, name: StageName, parts: Iterable[SessionPart], staged: Collection[SessionPart]) -> None:
        """Roll back a transaction, some parts of which are staged."""
        self._roll_back([part for part in parts if part not in staged])
        for part in staged:
            # Only what this call has staged: another unit may have the name. What stays is discarded when its time is over.
            with suppress(ProviderError):
                part.shard.call(lambda connection: connection.stages().discard([name]))
        for part in parts:
            part.forget_transaction()

    # Distributed transactions

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        self._check_unit_is_empty()
        self._connection.branches.start(xid, self, join=join, resume=resume, timeout_s=self._timeout_s)
        self._branch = xid

    def _check_unit_is_empty(self) -> None:
        self.check_open()
        if self._branch is not None:
            raise BranchError(f"the session works in branch {self._branch}, which only its coordinator ends")
        if any(part.is_dirty for part in self._parts.values()):
            raise BranchError(
                "the session has sent or received outside of branches: commit that, or roll it back, first",
                BranchFailure.OUTSIDE,
            )

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        self.check_open()
        if self._branch == xid:
            self._branch = None
        self._connection.branches.end(xid, self, suspend=suspend, fail=fail)

    def xa_prepare(self, xid: Xid) -> bool:
        self.check_open()
        return self._connection.branches.prepare(xid, self)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self.check_open()
        self._connection.branches.commit(xid, self, one_phase=one_phase)

    def xa_rollback(self, xid: Xid) -> None:
        self.check_open()
        self._connection.branches.rollback(xid, self)

    def xa_recover(self) -> Sequence[Xid]:
        self.check_open()
        return self._connection.branches.recover(self)

    def xa_forget(self, xid: Xid) -> None:
        self.check_open()
        self._connection.branches.forget(xid, self)

    def xa_set_timeout(self, seconds: int) -> bool:
        self._timeout_s = seconds
        return True

    def xa_get_timeout(self) -> int:
        return self._timeout_s

    def part_at(self, number: int) -> SessionPart:
        """Return the part at a shard. Implements `BranchSession`."""
        return self._part_at(self._connection.shard(ShardPlace(number)))

    def parts(self) -> list[SessionPart]:
        """Return the parts of the session."""
        with self._lock:
            return list(self._parts.values())

    # The end

    def end_waits(self) -> None:
        self.ends_waits = True
        for part in self.parts():
            part.shard.wake()
            if part.session is not None:
                part.session.end_waits()
        if self._tagging is not None:
            self._tagging.end_waits()

    def close(self) -> None:
        self.end_waits()
        self._close_once.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            parts = list(self._parts.values())
        for part in parts:
            part.close()
        if self._tagging is not None:
            self._tagging.close()
        self._connection.discard(self)


def _commit_tagged(unit: ClusterSession) -> None:
    """Commit the transaction of a single send or acknowledgement with its tags. Raises `ResourceError`, `InDoubtError`."""
    try:
        unit.commit()
    except RolledBackError as error:
        # There is no transaction that the client could know of.
        raise error.__cause__ if isinstance(error.__cause__, ProviderError) else ResourceError(error.reason) from error


def _rank(delivery: Delivery) -> tuple[int, int]:
    """Return by what the messages of partitions are put together for a browser; each partition's own are in their order anyway."""
    return -delivery.envelope.priority, delivery.envelope.timestamp_ms


def _ignore() -> None:
    """Do nothing: this consumer gets no messages."""
