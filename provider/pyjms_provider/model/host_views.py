"""Views of the observed objects below a virtual host, other than its queues; made on demand, and cheap.

`look_at` takes a snapshot of a ``vm://`` connection, which also serves the clients of other protocols. A view shows one moment; the next one may differ.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, cast

from pydantic import BaseModel, Field

from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import ClosedError, RegistrationError, SubscriptionInUseError, UnknownSubscriptionError
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.dead_letters import DEAD_PREFIX
from pyjms_provider.core.transaction.registered_clients import IN_PROCESS
from pyjms_provider.model.attributes import Attributes
from pyjms_provider.model.errors import ObjectInUseError, UnknownObjectError, WrongStateError
from pyjms_provider.model.managed import ChildSource, ManagedObject, Snapshot, State, observed_id
from pyjms_provider.model.messages import LetterView, MessageRenderer
from pyjms_provider.model.operations import NO_PROGRESS, Progress, operation, statistic
from pyjms_provider.model.queue import Ids, Offset, Selector, chosen
from pyjms_provider.security.contracts import Operation, Target, TargetKind
from pyjms_provider.stores.configuration_contract import ObjectRecord

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms.spi.replay import StagedUnit, StageName
    from pyjms.spi.sessions import RegisteredClient
    from pyjms_provider.broker import Client
    from pyjms_provider.core.host.virtual_host import VirtualHost as RunningHost
    from pyjms_provider.core.journal.journal import SubscriptionKey
    from pyjms_provider.core.topic import Subscription, Topic
    from pyjms_provider.core.transaction.branches import BranchReport
    from pyjms_provider.core.transaction.reader_groups import Group
    from pyjms_provider.model.contracts import ManagedHost


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerView:
    """One consumer of a queue or a subscription."""

    name: str
    """The consumer's name within its session."""
    source: str
    """``queue://orders``, or the subscription's name."""
    selector: str | None
    priority: int
    is_browser: bool
    """Whether it only browses, and takes no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """One session."""

    name: str
    """The session's name within its connection."""
    is_transacted: bool
    is_open: bool
    """Whether it has a transaction with work in it."""
    held: int
    """Messages that it received and has not settled."""
    consumers: tuple[ConsumerView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionView:
    """One connection."""

    client_id: str | None
    is_started: bool
    sessions: tuple[SessionView, ...]


def look_at(connection: VmConnection) -> ConnectionView:
    """Return a snapshot of a connection."""
    # Copied under the lock; the locks below are taken after it is released, one at a time.
    with connection._lock:  # noqa: SLF001 - the connection's own view, which would make its module too long
        sessions = list(connection._sessions)  # noqa: SLF001
    views: list[SessionView] = []
    for session in sessions:
        receiving = session._receiving  # noqa: SLF001
        with receiving._lock:  # noqa: SLF001
            targets, queues = list(receiving._targets), list(receiving._queues)  # noqa: SLF001
        consumers = [consumer for target in targets for consumer in target.consumers]
        unit = session._unit  # noqa: SLF001
        views.append(
            SessionView(
                name=receiving.receiver_id.rpartition("/")[2],
                is_transacted=session._transacted,  # noqa: SLF001
                is_open=unit is not None and not unit.is_empty,
                held=sum(queue.held_count(receiving) for queue in queues),
                consumers=tuple(
                    ConsumerView(
                        name=str(consumer.number),
                        source=consumer.queue.name,
                        selector=None if consumer.selector is None else consumer.selector.text,
                        priority=consumer.priority,
                        is_browser=not consumer.acquires,
                    )
                    for consumer in consumers
                ),
            )
        )
    return ConnectionView(
        client_id=connection.client_id,
        is_started=connection._started,  # noqa: SLF001
        sessions=tuple(views),
    )


class ObservedObject(ManagedObject):
    """A view of an object by its name. Its values are read each time."""

    def __init__(self, parent: ManagedObject, name: str, **facts: Any) -> None:
        """`facts`: fields of the record, such as `created_ms`."""
        attributes = {"name": name, "durable": False}
        record = ObjectRecord(
            id=observed_id(parent, self.category, name),
            category=self.category,
            parent=parent.id,
            attributes=attributes,
            **facts,
        )
        super().__init__(parent, record)
        # The values are known to be right, and are the same for the whole life of the view.
        shown = Attributes(name=name, durable=False, type="", description=None, context={})
        self._snapshot = Snapshot(state=State.ACTIVE, record=record, attributes=shown)

    @property
    def life_time(self) -> str:
        return "observed"

    @property
    def host(self) -> ManagedHost:
        """The virtual host that it is in."""
        above = self.parent
        # Sessions and consumers stand below a connection, and so not directly below the host.
        while above is not None and above.category != "virtual_host":
            above = above.parent
        return cast("ManagedHost", above)  # observed objects are below one


def connect_within(
    host: ManagedHost, events: ConnectionEvents, protocol: str, source: Address | None = None
) -> ProviderConnection:
    """Connect to a virtual host for an object below it, which operators see as a client. Raises `ClosedError`.

    `source`: in a cluster, the destination that is reached only while this member leads its shard; None: there is none.
    """
    try:
        broker = host.embedded
    except WrongStateError as error:
        raise ClosedError(error.reason) from error
    cluster = host.joined if source is None else host.joined_as_leader(source)
    connection: VmConnection | ClusterConnection
    connection = VmConnection(broker, events) if cluster is None else ClusterConnection(cluster, events, host.clock)
    # Described like a client, so that an operator sees in the list of connections what a route does.
    broker.describe(connection.connection_id, user="", address="", protocol=protocol)
    return connection


class MadeOnDemand(ChildSource):
    """Children that a table of names describes."""

    def __init__(
        self,
        category: str,
        names: Callable[[], Sequence[str]],
        make: Callable[[str], ManagedObject | None],
    ) -> None:
        """`names` returns the names that exist now; `make` makes the child of a name, None if it no longer exists."""
        self._category = category
        self._names = names
        self._make = make

    @property
    def category(self) -> str:
        return self._category

    def names(self) -> Sequence[str]:
        return sorted(self._names())

    def find(self, name: str) -> ManagedObject | None:
        return self._make(name)


class ClientConnection(ObservedObject):
    """A connection, of this process or through a port; its name is its id."""

    category = "connection"

    def _client(self) -> Client:
        found = self.host.embedded.clients().get(ConnectionId(self.name))
        if found is None:
            raise UnknownObjectError(f"{self.host.path} has no connection {self.name!r}: it has closed")
        return found

    def view(self) -> ConnectionView:
        """Return the provider's view of the connection. Raises `UnknownObjectError`."""
        handle = self._client().handle
        if isinstance(handle, VmConnection):
            return look_at(handle)
        # A client of another kind reports no sessions.
        return ConnectionView(client_id=None, is_started=True, sessions=())

    def sources(self) -> Mapping[str, ChildSource]:
        return {
            "session": MadeOnDemand("session", lambda: [each.name for each in self.view().sessions], self._make_session)
        }

    def _make_session(self, name: str) -> ManagedObject | None:
        is_there = any(each.name == name for each in self.view().sessions)
        return ClientSession(self, name) if is_there else None

    @statistic("Who is connected; empty: nobody logged in, as within one process.")
    def user(self) -> str:
        return self._client().user

    @statistic(
        "The user name that it sent to a port which lets in everybody and checks none; null: none, or it was checked."
    )
    def unchecked_login(self) -> str | None:
        principal = self._client().principal
        return None if principal is None else principal.unchecked_login

    @statistic("Where it comes from; empty: from this process.")
    def address(self) -> str:
        return self._client().address

    @statistic("What it speaks.")
    def protocol(self) -> str:
        return self._client().protocol

    @statistic("When it came, in milliseconds since 1970 UTC.", unit="ms")
    def since_ms(self) -> int:
        return self._client().since_ms

    @statistic("Its JMS client id.")
    def client_id(self) -> str | None:
        return self.view().client_id

    @statistic("Whether it is started, so that it receives messages.")
    def is_started(self) -> bool:
        return self.view().is_started

    @statistic("Sessions.", unit="sessions")
    def session_count(self) -> int:
        """The number of its sessions."""
        return len(self.view().sessions)

    @operation("End the connection; its client is told why.")
    def disconnect(
        self,
        reason: Annotated[str, Field(max_length=1000, description="What the client is told.")] = "",
        *,
        by: str = "",
    ) -> None:
        """End it. Raises `UnknownObjectError`."""
        text = f"an operator{f' ({by})' if by else ''} has ended the connection{f': {reason}' if reason else ''}"
        if not self.host.embedded.end_connection(ConnectionId(self.name), text):
            raise UnknownObjectError(f"{self.host.path} has no connection {self.name!r}: it has closed")


class ClientSession(ObservedObject):
    """A session; its name is its number in its connection."""

    category = "session"

    def view(self) -> SessionView:
        """Return the provider's view of the session. Raises `UnknownObjectError`."""
        above = self.parent
        assert isinstance(above, ClientConnection)
        for each in above.view().sessions:
            if each.name == self.name:
                return each
        raise UnknownObjectError(f"{above.path} has no session {self.name!r}: it has closed")

    def sources(self) -> Mapping[str, ChildSource]:
        return {
            "consumer": MadeOnDemand(
                "consumer", lambda: [each.name for each in self.view().consumers], self._make_consumer
            )
        }

    def _make_consumer(self, name: str) -> ManagedObject | None:
        is_there = any(each.name == name for each in self.view().consumers)
        return ClientConsumer(self, name) if is_there else None

    @statistic("Whether it is transacted.")
    def is_transacted(self) -> bool:
        return self.view().is_transacted

    @statistic("Whether it has an open transaction with work in it.")
    def has_open_transaction(self) -> bool:
        return self.view().is_open

    @statistic("Messages that it received and has not settled.", unit="messages")
    def held(self) -> int:
        return self.view().held

    @statistic("Consumers.", unit="consumers")
    def consumer_count(self) -> int:
        """The number of its consumers."""
        return len(self.view().consumers)


class ClientConsumer(ObservedObject):
    """A consumer; its name is its number in its session."""

    category = "consumer"

    def _view(self) -> ConsumerView:
        above = self.parent
        assert isinstance(above, ClientSession)
        for each in above.view().consumers:
            if each.name == self.name:
                return each
        raise UnknownObjectError(f"{above.path} has no consumer {self.name!r}: it has closed")

    @statistic("What it receives from.")
    def source(self) -> str:
        """Its source: a queue's address, or a subscription's name."""
        return self._view().source

    @statistic("What it selects.")
    def selector(self) -> str | None:
        return self._view().selector

    @statistic("Its priority among the consumers of the queue.")
    def priority(self) -> int:
        return self._view().priority

    @statistic("Whether it only looks.")
    def is_browser(self) -> bool:
        return self._view().is_browser


STORE = "messages"
"""The name of the one store of a virtual host."""


class Store(ObservedObject):
    """The store of messages: memory, or a database too."""

    category = "store"

    @statistic("Where it is; no password is shown.")
    def url(self) -> str:
        return str(self.host.as_object.attribute_values(["store_url"]).get("store_url") or "memory")

    @statistic("Whether messages survive the process.")
    def is_reliable(self) -> bool:
        return self.host.embedded.virtual_host.store.is_reliable

    @statistic("Messages, each counted once.", unit="messages")
    def messages(self) -> int:
        return len(self.host.embedded.virtual_host.store)


class ManagedTopic(ObservedObject):
    """A topic that was used since the host was opened."""

    category = "topic"

    def target(self) -> Target:
        return Target(kind=TargetKind.TOPIC, name=self.name, virtual_host=self.host.access_name)

    def _topic(self) -> Topic:
        topic = self.host.embedded.virtual_host.find_topic(self.name)
        if topic is None:
            raise UnknownObjectError(f"{self.host.path} has no topic {self.name!r}")
        return topic

    @statistic("Subscriptions, durable ones among them.", unit="subscriptions")
    def subscriptions(self) -> int:
        return len(self._topic().subscriptions)

    @statistic("Durable subscriptions.", unit="subscriptions")
    def durable_subscriptions(self) -> int:
        """The number of its durable subscriptions."""
        return sum(each.is_durable for each in self._topic().subscriptions)

    @statistic("Shared subscriptions, durable or not.", unit="subscriptions")
    def shared_subscriptions(self) -> int:
        """The number of its shared subscriptions."""
        return sum(each.terms.is_shared for each in self._topic().subscriptions)

    @statistic("Messages that wait for its subscribers.", unit="messages")
    def waiting(self) -> int:
        return sum(each.count(MessageState.NEW) for each in self._topic().subscriptions)


class NamedSubscription(ObservedObject):
    """A subscription that clients name, and that has a queue of its own."""

    _kind: ClassVar[str]

    def target(self) -> Target:
        return Target(kind=TargetKind.SUBSCRIPTION, name=self.name, virtual_host=self.host.access_name)

    @abstractmethod
    def _table(self) -> Mapping[SubscriptionKey, Subscription]:
        """Return the subscriptions of this kind."""

    def _found(self) -> tuple[SubscriptionKey, Subscription]:
        for key, found in self._table().items():
            if str(key) == self.name:
                return key, found
        raise UnknownObjectError(f"{self.host.path} has no {self._kind} subscription {self.name!r}")

    @statistic("The topic.")
    def topic(self) -> str:
        return self._found()[1].terms.topic.name

    @statistic('The client id that it belongs to; "": it is shared by connections without one.')
    def client_id(self) -> str:
        return self._found()[0].client_id

    @statistic("What it selects.")
    def selector(self) -> str | None:
        return self._found()[1].terms.selector_text

    @statistic("Consumers that are there.", unit="consumers")
    def consumers(self) -> int:
        return len(self._found()[1].users)

    @statistic("Messages that wait.", unit="messages")
    def waiting(self) -> int:
        return self._found()[1].count(MessageState.NEW)

    @statistic("Messages that its consumers have and have not settled.", unit="messages")
    def held(self) -> int:
        return self._found()[1].count(MessageState.DELIVERED)


class DurableSubscription(NamedSubscription):
    """A durable subscription; deleting it is unsubscribing in JMS."""

    category = "durable_subscription"
    _kind = "durable"

    def _table(self) -> Mapping[SubscriptionKey, Subscription]:
        return self.host.embedded.virtual_host.subscriptions.durable()

    def delete(self, *, by: str = "") -> None:
        # The key is looked up, not parsed: client ids and names may contain the character between them.
        key, _ = self._found()
        try:
            self.host.embedded.virtual_host.subscriptions.unsubscribe(key.client_id, key.name)
        except UnknownSubscriptionError as error:
            raise UnknownObjectError(error.reason) from error
        except SubscriptionInUseError as error:
            raise ObjectInUseError(error.reason) from error

    @statistic("Whether it may have several consumers at once.")
    def is_shared(self) -> bool:
        return self._found()[1].terms.is_shared

    @statistic("Whether messages of its subscriber's own connection are left out.")
    def no_local(self) -> bool:
        return self._found()[1].terms.no_local

    @statistic("Whether a subscriber is there.")
    def is_active(self) -> bool:
        return self._found()[1].is_active


class SharedSubscription(NamedSubscription):
    """A shared subscription that is not durable: it ends with its last consumer."""

    category = "shared_subscription"
    _kind = "shared"

    def _table(self) -> Mapping[SubscriptionKey, Subscription]:
        return self.host.embedded.virtual_host.subscriptions.shared()


class Transaction(ObservedObject):
    """A branch; its name is its xid: ``FORMAT:GLOBAL:BRANCH``."""

    category = "transaction"

    def _report(self) -> BranchReport:
        for each in self.host.embedded.virtual_host.branches.reports():
            if str(each.xid) == self.name:
                return each
        raise UnknownObjectError(f"{self.host.path} has no transaction {self.name!r}: it has ended")

    @statistic("Where it is in its life; a prepared one is in doubt until it is settled.")
    def branch_state(self) -> str:
        return self._report().state.name.lower()

    @statistic("When it was prepared, in milliseconds since 1970 UTC.", unit="ms")
    def prepared_at_ms(self) -> int | None:
        """When it was prepared; None: it is not."""
        return self._report().prepared_ms

    @statistic("Messages that it adds to queues and subscriptions.", unit="messages")
    def sent(self) -> int:
        return self._report().sent

    @statistic("Messages that it takes away.", unit="messages")
    def received(self) -> int:
        return self._report().received

    @operation("Commit a prepared branch in place of its coordinator, whose log is to be asked first.")
    def commit(self) -> None:
        """Commit it heuristically. Raises `BranchError` unless it is prepared."""
        self.host.embedded.virtual_host.branches.settle_heuristically(self._report().xid, commit=True)

    @operation("Roll a prepared branch back in place of its coordinator, whose log is to be asked first.")
    def rollback(self) -> None:
        """Roll it back heuristically. Raises `BranchError` unless it is prepared."""
        self.host.embedded.virtual_host.branches.settle_heuristically(self._report().xid, commit=False)

    @operation("Forget a branch that an operator settled, when its coordinator will not come back for it.")
    def forget(self) -> None:
        """Forget it. Raises `BranchError` unless an operator settled it."""
        self.host.embedded.virtual_host.branches.forget(self._report().xid)


def group_names(running: RunningHost) -> list[str]:
    """Return the names of the reader groups."""
    return [group.record.name for group in running.pipelines.groups.all()]


def unit_name(name: StageName) -> str:
    """Return the name of a staged unit in the model: ``SINK:EPOCH:PARTITION:ATTEMPT``."""
    return f"{name.sink}:{name.epoch}:{name.partition}:{name.attempt}"


def unit_names(running: RunningHost) -> list[str]:
    """Return the names of the staged units."""
    return [unit_name(unit.name) for unit in running.pipelines.stages.units()]


class ReaderGroup(ObservedObject):
    """A reader group: a data pipeline's hold on messages of a queue or a durable subscription."""

    category = "reader_group"

    def _group(self) -> Group:
        for group in self.host.embedded.virtual_host.pipelines.groups.all():
            if group.record.name == self.name:
                return group
        raise UnknownObjectError(f"{self.host.path} has no reader group {self.name!r}: it was released")

    @statistic("The queue or topic that it reads.")
    def destination(self) -> str:
        return str(self._group().address)

    @statistic("The durable subscription that it reads, CLIENT-ID/NAME; none: it reads a queue.")
    def subscription(self) -> str | None:
        key = self._group().key
        return None if key is None else f"{key.client_id}/{key.name}"

    @statistic("Which messages it reserves; none: all.")
    def selector(self) -> str | None:
        return self._group().record.selector_text

    @statistic("Distinguishes its numbers from those of an earlier group of this name.")
    def generation(self) -> str:
        return self._group().record.generation

    @statistic("The highest number that is acknowledged.")
    def low(self) -> int:
        return self._group().report().low

    @statistic("The highest number that is reserved.")
    def high(self) -> int:
        return self._group().report().high

    @statistic("Messages that it holds, which no other consumer gets.", unit="messages")
    def held(self) -> int:
        report = self._group().report()
        return report.high - report.low

    @statistic("When it was opened last, in milliseconds since 1970 UTC.", unit="ms")
    def opened_at_ms(self) -> int:
        return self._group().record.opened_ms

    @operation(
        "End the group: what it holds goes back to its place, marked redelivered. Its pipeline stops with an error."
    )
    def release(self) -> int:
        """Release it; return how many messages went back."""
        return self.host.embedded.virtual_host.pipelines.groups.release(self.name)


class ManagedStagedUnit(ObservedObject):
    """A staged unit: messages of a data pipeline that wait, unseen, until their epoch is promoted."""

    category = "staged_unit"

    def _unit(self) -> StagedUnit:
        for unit in self.host.embedded.virtual_host.pipelines.stages.units():
            if unit_name(unit.name) == self.name:
                return unit
        raise UnknownObjectError(f"{self.host.path} has no staged unit {self.name!r}: it was promoted or discarded")

    @statistic("Who writes.")
    def sink(self) -> str:
        return self._unit().name.sink

    @statistic("The epoch that it is promoted with.")
    def epoch(self) -> int:
        return self._unit().name.epoch

    @statistic("Messages that wait in it.", unit="messages")
    def messages(self) -> int:
        return self._unit().messages

    @statistic("When it was staged, in milliseconds since 1970 UTC.", unit="ms")
    def staged_at_ms(self) -> int:
        return self._unit().staged_ms

    @statistic("When the broker discards it, in milliseconds since 1970 UTC.", unit="ms")
    def discarded_after_ms(self) -> int:
        return self._unit().discarded_after_ms

    @operation("Drop its messages, which no consumer has seen. Its pipeline's epoch then fails, and is written again.")
    def discard(self) -> None:
        self.host.embedded.virtual_host.pipelines.stages.discard([self._unit().name])


class ManagedRegisteredClient(ObservedObject):
    """A registered client: its persistent session, with the tags of its last committed request and reply."""

    category = "registered_client"

    def _client(self) -> RegisteredClient:
        for client in self.host.embedded.virtual_host.clients.reports():
            if client.name == self.name:
                return client
        raise UnknownObjectError(
            f"{self.host.path} has no registered client {self.name!r}: it was deregistered, or had no connection for too long"
        )

    @statistic("The user who registered it first; empty: a program in the broker's process.")
    def owner(self) -> str:
        try:
            return self.host.embedded.virtual_host.clients.owner_of(self.name)
        except RegistrationError as error:
            raise UnknownObjectError(error.reason) from error

    @statistic("Tells it from an earlier client of this name.")
    def generation(self) -> str:
        return self._client().generation

    @statistic("How often it has registered; the tags of an earlier registration are refused.")
    def incarnation(self) -> int:
        return self._client().incarnation

    @statistic("The tag of the last request that it committed; none: there was none.")
    def request_tag(self) -> str | None:
        return self._client().request_tag

    @statistic("When it committed that, in milliseconds since 1970 UTC; none: there was none.", unit="ms")
    def request_at_ms(self) -> int | None:
        return self._client().request_ms or None

    @statistic("The tag of the last reply that it took and committed; none: there was none.")
    def reply_tag(self) -> str | None:
        return self._client().reply_tag

    @statistic("When it committed that, in milliseconds since 1970 UTC; none: there was none.", unit="ms")
    def reply_at_ms(self) -> int | None:
        return self._client().reply_ms or None

    @statistic("When it registered last, in milliseconds since 1970 UTC.", unit="ms")
    def registered_at_ms(self) -> int:
        return self._client().registered_ms

    @statistic("Whether it has a connection.")
    def is_connected(self) -> bool:
        return self._client().left_ms is None

    @statistic("When its connection ended, in milliseconds since 1970 UTC; none: it is connected.", unit="ms")
    def left_at_ms(self) -> int | None:
        return self._client().left_ms

    @operation(
        "Forget the client with its tags: if it comes back, nothing tells which of its requests and replies were committed."
    )
    def deregister(self) -> None:
        """Deregister it. Raises `UnknownObjectError`; `InDoubtError` while a transaction with its tags is prepared or in doubt."""
        try:
            self.host.embedded.virtual_host.clients.deregister(self.name, IN_PROCESS)
        except RegistrationError as error:
            raise UnknownObjectError(error.reason) from error


class LetterPage(BaseModel):
    """A page of dead letters, shorter than requested if they are long."""

    letters: list[LetterView]
    has_more: bool


class Returned(BaseModel):
    """The outcome of a replay, or the one to be expected."""

    returned: int
    left: int
    """Letters whose original destination no longer exists, and messages that are no dead letters."""


class DeadLetterQueue(ObservedObject):
    """The queue that some queues use for dead letters, or for expired messages."""

    category = "dead_letter"

    def target(self) -> Target:
        return Target(kind=TargetKind.QUEUE, name=self.name, virtual_host=self.host.access_name)

    @statistic("Messages that are here.", unit="messages")
    def letters(self) -> int:
        queue = self.host.embedded.virtual_host.find_queue(self.name)
        if queue is None:
            raise UnknownObjectError(f"{self.host.path} has no queue {self.name!r}")
        return queue.count(MessageState.NEW)

    @statistic("How many there are of each reason's kind.", costly=True)
    def reasons(self) -> dict[str, int]:
        """The number of messages of each kind: rejected, deliveries, expired, none."""
        # Every message is read, so this statistic is costly, and is left out of lists.
        found = self.host.queue_manager.browse(self.name)
        return dict(Counter(str(each.properties.get(f"{DEAD_PREFIX}Kind", "none")) for each in found))

    @operation("Look at dead letters, with the reasons why they are here.", needs=Operation.BROWSE, changes=False)
    def list_letters(
        self,
        selector: Selector = None,
        message_ids: Ids = None,
        offset: Offset = 0,
        limit: Annotated[int, Field(ge=1, le=1000, description="At most so many.")] = 50,
        *,
        with_bodies: Annotated[bool, Field(description="Whether bodies are wanted.")] = True,
    ) -> LetterPage:
        """Return a page of letters. Raises `InvalidSelectorError`, `ResourceError`."""
        found = self.host.queue_manager.browse(self.name, chosen(selector, message_ids))
        renderer = MessageRenderer(with_bodies=with_bodies)
        shown, has_more = renderer.page(found, renderer.letter, offset, limit)
        return LetterPage(letters=shown, has_more=has_more)

    @operation("Return dead letters to where they came from.")
    def replay(
        self,
        selector: Selector = None,
        message_ids: Ids = None,
        *,
        dry_run: Annotated[bool, Field(description="Only say what would become of them.")] = False,
        progress: Progress = NO_PROGRESS,
    ) -> Returned:
        """Return letters to their original queues and subscriptions. Raises as `list_letters`."""
        # Counted before the replay, which takes letters away while it reports progress.
        total = self.letters
        done = self.host.queue_manager.replay(
            self.name, chosen(selector, message_ids), dry_run=dry_run, go_on=lambda so_far: progress(so_far, total)
        )
        return Returned(returned=done.returned, left=done.left)


Names = Callable[["RunningHost"], Sequence[str]]
_KINDS: Final[Sequence[tuple[type[ObservedObject], Names]]] = (
    (Store, lambda _: [STORE]),
    (ManagedTopic, lambda running: running.topic_names()),
    (DurableSubscription, lambda running: list(map(str, running.subscriptions.durable()))),
    (SharedSubscription, lambda running: list(map(str, running.subscriptions.shared()))),
    (Transaction, lambda running: [str(each.xid) for each in running.branches.reports()]),
    (ReaderGroup, group_names),
    (ManagedStagedUnit, unit_names),
    (ManagedRegisteredClient, lambda running: [each.name for each in running.clients.reports()]),
)


def host_sources(host: ManagedHost) -> Mapping[str, ChildSource]:
    """Return the sources of a virtual host's children, by category."""
    sources = [_source(host, kind, names) for kind, names in _KINDS]
    sources.append(_source(host, DeadLetterQueue, _dead_letter_queues))
    connections = MadeOnDemand(
        "connection", lambda: list(host.embedded.clients()) if host.is_running else [], partial(_connection, host)
    )
    return {each.category: each for each in (*sources, connections)}


def _source(host: ManagedHost, kind: type[ObservedObject], names: Names) -> MadeOnDemand:
    def names_now() -> Sequence[str]:
        return names(host.embedded.virtual_host) if host.is_running else []

    return MadeOnDemand(
        kind.category, names_now, lambda name: kind(host.as_object, name) if name in names_now() else None
    )


def _connection(host: ManagedHost, name: str) -> ClientConnection | None:
    found = host.embedded.clients().get(ConnectionId(name)) if host.is_running else None
    return None if found is None else ClientConnection(host.as_object, name, created_ms=found.since_ms)


def _dead_letter_queues(running: RunningHost) -> Sequence[str]:
    """Return the queues to which other queues send dead letters or expired messages."""
    # Policies name these queues; nothing in a queue itself says that it holds dead letters.
    named: set[str | None] = set()
    for name in running.queue_names():
        queue = running.find_queue(name)
        if queue is not None:
            named |= {queue.policy.dead_letter, queue.policy.expiry_queue}
    # Subscriptions have policies of their own, with their own queues for dead letters.
    for subscription in running.subscriptions.durable().values():
        named |= {subscription.policy.dead_letter, subscription.policy.expiry_queue}
    return [name for name in named if name is not None and running.find_queue(name) is not None]
