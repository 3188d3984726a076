"""A session of a client of the cluster: one session at each shard that it uses, and transactions over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from pyjms.spi.delivery import ELSEWHERE, Delivery, Elsewhere
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import (
    BranchError,
    CapabilityError,
    ClosedError,
    ConnectionLostError,
    InDoubtError,
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
from pyjms_provider.clients.cluster.two_phase import commit_together
from pyjms_provider.clients.network.calls import not_restored
from pyjms_provider.clients.vm import VmConsumer, VmSession
from pyjms_provider.cluster.placement import Placement, ShardPlace

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.replay import StageName, Stages
    from pyjms.spi.selector import Selector
    from pyjms_provider.clients.cluster.branches import ClusterBranches
    from pyjms_provider.clients.cluster.shard_connection import ShardConnection, Term
    from pyjms_provider.cluster.contracts import Cluster
    from pyjms_provider.cluster.placement import Place
    from pyjms_provider.core.journal.journal import SubscriptionKey

_LOST = (ClosedError, ConnectionLostError)
"""The errors of a part whose connection has ended, where the client has closed nothing."""


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


class _Tag(NamedTuple):
    """The tag of a delivery: where it is settled."""

    shard: ShardConnection
    term: int
    delivery: Delivery
    """As the shard's own session has it."""


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

    def ready(self) -> ProviderSession:
        """Return the session at the shard, opened on the present term. Raises as `ShardConnection.current`."""
        session = self.session
        if session is not None and self.shard.is_current(self.term):
            return session
        while True:
            term = self.shard.current(self._owner.check_waiting)
            if self.session is not None and self.term == term.number:
                return self.session
            try:
                self._enter(term, term.connection.open_session(transacted=self._transacted))
            except _LOST as error:
                self._owner.check_open()
                self.shard.lose(term.number, error)

    def renewed(self, error: ProviderError) -> ProviderSession:
        """Return the session at the shard on another term, as a call of it has raised `error` before it had any effect."""
        self._owner.check_open()
        self.shard.lose(self.term, error)
        return self.ready()

    def restore(self, term: Term) -> None:
        """Open the part again, with its consumers, on a term that is not in use yet. Implements `RestoredSession`."""
        if not self.consumers:
            return  # the session's thread opens it when it needs it
        session = term.connection.open_session(transacted=self._transacted)
        for consumer in list(self.consumers):
            try:
                inner = session.subscribe(consumer.request, consumer.on_ready)
            except _LOST:
                raise
            except ProviderError as error:
                self.consumers.pop(consumer, None)
                self._owner.report(not_restored(consumer.request.address, error))
            else:
                consumer.place(inner, term.number)
        self._enter(term, session)

    def _enter(self, term: Term, session: ProviderSession) -> None:
        old = self.session
        self.is_doomed = self.is_doomed or self.is_dirty or self.branch is not None
        self.suspended.clear()
        self.session, self.term = session, term.number
        if old is not None:
            with suppress(ProviderError):
                old.close()

    def forget_transaction(self) -> None:
        """Begin another transaction."""
        self.is_dirty = self.is_doomed = False

    def close(self) -> None:
        """Close the session at the shard. May be repeated."""
        self.shard.remove(self)
        if self.session is not None:
            with suppress(*_LOST):
                self.session.close()


class ClusterConsumer(ProviderConsumer):
    """A consumer at a shard, whichever member leads it."""

    def __init__(
        self,
        part: SessionPart,
        request: SubscribeRequest,
        on_ready: Callable[[], None],
        inner: ProviderConsumer,
        term: int,
    ) -> None:
        """`inner`: the consumer at the shard, which was made in that term."""
        self.request = request
        self.on_ready = on_ready
        self._part = part
        self._inner = (inner, term)
        self._interested = False
        self._closed = False
        self.guard: ClusterConsumer | None = None
        """The consumer of the same shared subscription at the shard of its name."""
        self._has_caught_up = isinstance(inner, VmConsumer)  # that one knows what is there
        """Whether the leader was asked for what it has since the consumer became idle."""
        self._is_to_catch_up = False

    def place(self, inner: ProviderConsumer, term: int) -> None:
        """Use the consumer of another term."""
        self._inner = (inner, term)
        self._has_caught_up = isinstance(inner, VmConsumer)
        if self._closed:
            inner.close()
        elif self._interested:
            inner.set_interested(True)

    def _wrapped(self, delivery: Delivery, term: int) -> Delivery:
        return Delivery(delivery.envelope, delivery.count, delivery.redelivered, _Tag(self._part.shard, term, delivery))

    def poll(self) -> Delivery | None:
        inner, term = self._inner
        delivery = inner.poll()
        return None if delivery is None else self._wrapped(delivery, term)

    def poll_or_wait(self) -> Delivery | None:
        inner, term = self._inner
        if self._is_to_catch_up:
            self._is_to_catch_up, self._has_caught_up = False, True
            inner.catch_up()
        delivery = inner.poll_or_wait()
        self._interested = delivery is None
        return None if delivery is None else self._wrapped(delivery, term)

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        inner, term = self._inner
        delivery = inner.poll_at_once()
        if delivery is ELSEWHERE:
            return ELSEWHERE
        if delivery is None and not self._has_caught_up:
            # A message may be at the leader that the link has not brought yet: a worker asks for it.
            self._is_to_catch_up = True
            return ELSEWHERE
        self._interested = delivery is None
        return None if delivery is None else self._wrapped(delivery, term)

    def take_unreturned(self) -> Delivery | None:
        inner, term = self._inner
        delivery = inner.take_unreturned()
        return None if delivery is None else self._wrapped(delivery, term)

    def catch_up(self) -> None:
        self._inner[0].catch_up()

    def set_interested(self, interested: bool) -> None:
        self._interested = interested
        if not interested:
            self._has_caught_up = isinstance(self._inner[0], VmConsumer)
        self._inner[0].set_interested(interested)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._part.consumers.pop(self, None)
        with suppress(*_LOST):
            self._inner[0].close()
        if self.guard is not None:
            self.guard.close()


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
        self._branch: Xid | None = None
        self._request_tag: ClientTags | None = None
        """Outside of transactions, the tag that the next send stores."""
        self._reply_tag: ClientTags | None = None
        """The tag that the next acknowledgement stores."""
        self._tagging: ClusterSession | None = None
        """The transacted session that stores tags together with a send or an acknowledgement of this one."""
        self._timeout_s = 0
        self._closed = self._ends_waits = False
        self._close_once = CloseOnce()

    def check_open(self) -> None:
        """Raise `ClosedError` if the session is closed."""
        if self._closed:
            raise ClosedError("the session is closed")

    def check_waiting(self) -> None:
        """Raise `ClosedError` if calls may not wait for a leader any more, as the session is about to be closed."""
        if self._closed or self._ends_waits:
            raise ClosedError("the session is closed")

    def report(self, error: ProviderError) -> None:
        """Report a problem to the client."""
        self._connection.on_exception(error)

    # The parts

    def _part_of(self, address: Address) -> SessionPart:
        """Return the part at the shard of a destination."""
        self.check_open()
        placement = self._connection.cluster.placement
        if self._placement is not placement:
            self._placement, self._by_name = placement, {}
        # By name, as hashing an address costs more; names of queues only, which are the most.
        is_queue = address.kind is AddressKind.QUEUE and not address.temporary
        part = self._by_name.get(address.name) if is_queue else None
        if part is None:
            part = self._part_at(self._connection.shard(placement.place_of(address)))
            if is_queue:
                self._by_name[address.name] = part
        return part

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
        elif part.branch != self._branch and not part.is_doomed:
            self._connection.branches.work(self._branch, part, self._timeout_s)
        return session

    # Sending

    def send(self, envelope: Envelope) -> None:
        part = self._part_of(envelope.destination)
        if not self._transacted and self._branch is None:
            if self._request_tag is not None:
                self._send_tagged(envelope)
                return
            try:
                part.ready().send(envelope)
            except _LOST as error:  # raised before the message was sent
                part.renewed(error).send(envelope)
            return
        try:
            session = self._in_unit(part)
            if not part.is_doomed:  # else the commit raises the error
                session.send(envelope)
        except _LOST as error:
            self._doom(part, error)

    def send_at_once(self, envelope: Envelope) -> None:
        """Send as `send` does, and wait for no room where this member leads the shard: `QueueFullError` if there is none."""
        part = self._part_of(envelope.destination)
        session = part.ready()
        if self._transacted or self._branch is not None or not isinstance(session, VmSession):
            self.send(envelope)
            return
        try:
            session.send_at_once(envelope)
        except _LOST as error:
            part.renewed(error)
            self.send_at_once(envelope)

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        if self._transacted or self._branch is not None or self._request_tag is not None:
            super().send_async(envelope, done)
            return
        part = self._part_of(envelope.destination)
        try:
            part.ready().send_async(envelope, done)
        except _LOST as error:
            part.renewed(error).send_async(envelope, done)

    def may_wait(self, envelope: Envelope) -> bool:
        part = self._part_of(envelope.destination)
        session = part.session
        return (
            self._request_tag is not None
            or session is None
            or not part.shard.is_current(part.term)
            or session.may_wait(envelope)
        )

    def _doom(self, part: SessionPart, error: ProviderError) -> None:
        """Let the transaction be rolled back, as its part at a shard is lost: its commit raises the error."""
        self.check_open()
        part.is_doomed = True
        part.shard.lose(part.term, error)

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
            except _LOST as error:
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
    ) -> ClusterConsumer:
        """Attach a consumer.

        Args:
            request: As in `ProviderSession.subscribe`.
            on_ready: The same.
            client_id: The client whose subscriptions are meant; None: the connection's; empty: those of no client.
        """
        self.check_open()
        if request.shared_name is not None:
            return self._subscribe_guarded(request, request.shared_name, on_ready, client_id)
        if request.durable_name is None:
            return self._subscribe(request, on_ready, client_id)
        self._connection.enter_subscription(self, request.durable_name, request.address.name, client_id)
        return self._subscribe(request, on_ready, client_id)

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
            except _LOST as error:
                part.renewed(error)
                continue
            consumer = ClusterConsumer(part, request, on_ready, inner, term)
            # From here on a restore finds it, and gives it the consumer of the next term.
            if part.shard.enter_if_current(term, partial(part.consumers.setdefault, consumer)):
                break
            with suppress(*_LOST):
                inner.close()
        if self._closed:
            consumer.close()
            self.check_open()
        return consumer

    def has_destination(self, address: Address) -> bool | None:
        return self._part_of(address).ready().has_destination(address)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        return self._part_of(address).ready().browse(address, selector)

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
        self._part_at(self._connection.shard(place, client_id)).ready().unsubscribe(name)

    # Settling and giving back

    def _by_part(self, deliveries: Iterable[Delivery]) -> dict[SessionPart, list[Delivery]]:
        """Return the shards' own deliveries by the parts that settle them; those of an earlier term are left out."""
        found: dict[SessionPart, list[Delivery]] = {}
        for delivery in deliveries:
            tag = delivery.tag
            assert isinstance(tag, _Tag), "deliveries of browsers cannot be settled"
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
                if not isinstance(error, _LOST):
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
        except _LOST as error:
            self._doom(part, error)

    def _doom_earlier(self, deliveries: Iterable[Delivery]) -> None:
        """Let the transaction be rolled back: messages in it come again."""
        for delivery in deliveries:
            tag = delivery.tag
            if isinstance(tag, _Tag) and not tag.shard.is_current(tag.term):
                part = self._part_at(tag.shard)
                part.is_dirty = part.is_doomed = True

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
            except _LOST as error:
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
        try:
            if any(part.is_doomed or not part.shard.is_current(part.term) for part in parts):
                self._roll_back(parts)
                raise RolledBackError(
                    "the transaction was rolled back, as another member became the leader of a destination in it"
                )
            if len(parts) == 1:
                self._commit_alone(parts[0])
            elif parts:
                commit_together(self._connection.cluster.decisions, parts)
        finally:
            for part in parts:
                part.forget_transaction()

    def prepare(self, xid: Xid) -> bool:
        """Prepare the present transaction at all its shards as parts of one branch. Raises as `ProviderSession.prepare`."""
        self._check_local()
        parts = [part for part in self._parts.values() if part.is_dirty or part.is_doomed]
        prepared: list[SessionPart] = []
        try:
            if any(part.is_doomed or not part.shard.is_current(part.term) for part in parts):
                raise RolledBackError(
                    "the transaction was rolled back, as another member became the leader of a destination in it"
                )
            if not all(isinstance(part.shard.place, ShardPlace) for part in parts):
                raise RolledBackError("a branch of a cluster cannot contain messages of temporary destinations")
            for part in parts:
                try:
                    if self._ready(part).prepare(xid):
                        prepared.append(part)
                except _LOST as error:
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

    def _commit_alone(self, part: SessionPart) -> None:
        try:
            self._ready(part).commit()
        except _LOST as error:
            self.check_open()
            part.shard.lose(part.term, error)
            raise RolledBackError(
                f"the transaction was rolled back, as another member became the leader: {error.reason}"
            ) from error

    def rollback(self) -> None:
        self._check_local()
        parts = [part for part in self._parts.values() if part.is_dirty or part.is_doomed]
        self._roll_back(parts)
        for part in parts:
            part.forget_transaction()

    def _roll_back(self, parts: Iterable[SessionPart]) -> None:
        for part in parts:
            if part.session is None or not part.shard.is_current(part.term):
                continue  # its end has rolled it back
            try:
                part.session.rollback()
            except _LOST as error:
                self.check_open()
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
        # A unit that sends nothing is staged as well, as it may be promoted.
        staging = parts or [self._part_at(self._connection.shard(self._connection.home_of_sink(name.sink)))]
        staged: list[SessionPart] = []
        messages = 0
        try:
            if any(part.is_doomed or not part.shard.is_current(part.term) for part in parts):
                raise RolledBackError(
                    "the transaction was rolled back, as another member became the leader of a destination in it"
                )
            for part in staging:
                messages += part.ready().stage(name, keep_s=keep_s)
                staged.append(part)
        except ProviderError:
            self._roll_back([part for part in parts if part not in staged])
            for part in staged:
                # Only what this call has staged: another unit may have the name. What stays is discarded when its time is over.
                with suppress(ProviderError):
                    part.shard.call(lambda connection: connection.stages().discard([name]))
            raise
        else:
            return messages
        finally:
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
        self._ends_waits = True
        for part in self.parts():
            part.shard.wake()
            if part.session is not None:
                part.session.end_waits()

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


def _ignore() -> None:
    """Do nothing: this consumer gets no messages."""
