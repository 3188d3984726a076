"""The cluster of a virtual host: its attributes, and the shards that this member leads, each of which is a virtual host in the tree.

A member tells on threads of its own which shards it begins and ends to lead. The virtual hosts of the shards are made and removed on the
configuration thread of the node, as any object below it is; they run the brokers that the member has made, and leave them to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, cast
from uuid import uuid5

from pydantic import BaseModel, Field

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.selector import selector_or_none
from pyjms_provider.broker import serve_in_process
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.cluster.known import KnownDestinations
from pyjms_provider.cluster.placement import SHARDS_MAX, ShardPlace
from pyjms_provider.cluster.placing import shards_for
from pyjms_provider.cluster.settings import FOLLOW_MS, LEASE_MS, NAME, ClusterSettings, LinkSettings, LinkTls
from pyjms_provider.cluster.status import MemberStatus, PlacedStatus, ShardStatus
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.model.attributes import Attributes, attribute
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.errors import NotChangeableError, Problem, UnknownObjectError, WrongStateError
from pyjms_provider.model.lookup import find_referred
from pyjms_provider.model.managed import ConfigurationChangeListener, ManagedObject
from pyjms_provider.model.member_requests import LINK
from pyjms_provider.model.operations import StatisticKind, operation, statistic
from pyjms_provider.model.security import KeyStoreAttributes, TrustStoreAttributes
from pyjms_provider.model.whole import Whole
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.security.contracts import Operation
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord
from pyjms_provider.transport.settings import ListenerSettingsError

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.errors import ProviderError
    from pyjms.spi.provider import ConnectionEvents, ConnectRequest, ProviderConnection, ProviderSession
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.contracts import Cluster, PromotionLog
    from pyjms_provider.cluster.known import JoinedCluster
    from pyjms_provider.cluster.placement import Place, Placement
    from pyjms_provider.cluster.status import ClusterStatus
    from pyjms_provider.model.configured import ConfiguredObject
    from pyjms_provider.model.contracts import ManagedHost
    from pyjms_provider.settings import BrokerSettings

_SCHEME: Final = "postgresql+psycopg"
_PLACE: Final = re.compile(r"(\[[^\]\s]+\]|[^:\s\[\]]+):([0-9]{1,5})")
_PORT_MAX: Final = 65_535
_LOOK_MS: Final = 250
"""How often it is seen which shards the member leads."""
_MOVED_AT_ONCE: Final = 100
"""Messages of one transaction of two shards."""
_ONLY_WITH: Final = (
    "cluster_member",
    "cluster_shards",
    "cluster_link_address",
    "cluster_key_store",
    "cluster_trust_store",
)


class ClusterAttributes(Attributes):
    """The attributes of a virtual host that several brokers serve."""

    cluster: str | None = attribute(
        "The cluster that serves it: the name that all its members give, and that of a schema in the database of store_url, which is one "
        "of PostgreSQL; none: this broker alone.",
        default=None,
        mutable=False,
    )
    cluster_member: str | None = attribute(
        "The name of this member, which no other has; none: the broker's.", default=None, min_length=1, max_length=100
    )
    cluster_shards: int | None = attribute(
        "How many shards the cluster has, as its first member makes it; none: 8 for a new cluster, and what an existing one has.",
        default=None,
        ge=1,
        le=SHARDS_MAX,
    )
    cluster_lease_ms: int = attribute(
        "How long a member may be silent; then others lead its shards.",
        default=LEASE_MS,
        unit="ms",
        ge=1_000,
        le=600_000,
    )
    cluster_follow_ms: int = attribute(
        "After so long a shard that only clients of one other member consume from gets that one as its leader; 0: never.",
        default=FOLLOW_MS,
        unit="ms",
        ge=0,
        le=86_400_000,
    )
    cluster_link: str = attribute(
        "Where connections of other members are accepted, as HOST:PORT; port 0: any that is free.",
        default="127.0.0.1:0",
    )
    cluster_link_address: str | None = attribute(
        "Where other members connect, if that is another address than they are accepted at, as HOST:PORT.", default=None
    )
    cluster_key_store: str | None = attribute(
        "Who this member is, for TLS between members; none: they use no TLS.", default=None, refers_to="key_store"
    )
    cluster_trust_store: str | None = attribute(
        "The authorities of the members' certificates, for TLS between members; needed with cluster_key_store.",
        default=None,
        refers_to="trust_store",
    )


def cluster_problems(chosen: ClusterAttributes, store_url: str | None) -> Iterator[Problem]:
    """Yield the problems of the attributes of a cluster."""
    if chosen.cluster is None:
        given = [name for name in _ONLY_WITH if getattr(chosen, name) is not None]
        if given:
            yield Problem(name=given[0], text="is for a virtual host of a cluster; name that: cluster")
        return
    for name in ("cluster", "cluster_member"):
        value = getattr(chosen, name)
        if value is not None and not NAME.fullmatch(value):
            yield Problem(name=name, text="is a name of up to 40 of the characters a-z, 0-9 and _, a letter first")
    if (store_url or "").partition(":")[0] != _SCHEME:
        text = f'needs a store in PostgreSQL, which all its members share: store_url = "{_SCHEME}://USER@HOST/DATABASE"'
        yield Problem(name="cluster", text=text)
    for name in ("cluster_link", "cluster_link_address"):
        place = getattr(chosen, name)
        if place is not None and not _is_place(place):
            yield Problem(name=name, text="is an address and a port, as 10.0.0.7:7800 or [::1]:7800")
    if chosen.cluster_trust_store is not None and chosen.cluster_key_store is None:
        yield Problem(name="cluster_key_store", text="is needed, too: each member shows a certificate to the others")
    if chosen.cluster_key_store is not None and chosen.cluster_trust_store is None:
        text = "is needed, too: it names the authorities of the members' certificates, and each member checks those of the others"
        yield Problem(name="cluster_trust_store", text=text)


def _is_place(text: str) -> bool:
    found = _PLACE.fullmatch(text)
    return found is not None and int(found[2]) <= _PORT_MAX


def _host_and_port(text: str) -> tuple[str, int]:
    found = _PLACE.fullmatch(text)
    assert found is not None, "it was validated"
    return found[1].strip("[]"), int(found[2])


def cluster_settings(host: ManagedObject, chosen: ClusterAttributes, broker: BrokerSettings) -> ClusterSettings:
    """Return the settings of a clustered virtual host's member. Raises `ClusterError`, `WrongStateError`."""
    assert chosen.cluster is not None, "it is clustered"
    listening, port = _host_and_port(chosen.cluster_link)
    shown = None if chosen.cluster_link_address is None else _host_and_port(chosen.cluster_link_address)
    return ClusterSettings(
        name=chosen.cluster,
        member=chosen.cluster_member or _broker_name(host),
        virtual_host=host.name,
        broker=broker,
        shards=chosen.cluster_shards,
        lease_ms=chosen.cluster_lease_ms,
        follow_ms=chosen.cluster_follow_ms,
        link=LinkSettings(
            host=listening,
            port=port,
            advertised_host=None if shown is None else shown[0],
            advertised_port=None if shown is None else shown[1] or None,
            tls=_link_tls(host, chosen),
        ),
    )


def _broker_name(host: ManagedObject) -> str:
    above = host
    while above.category != "broker" and above.parent is not None:
        above = above.parent
    return above.name


def _link_tls(host: ManagedObject, chosen: ClusterAttributes) -> LinkTls | None:
    if chosen.cluster_key_store is None or chosen.cluster_trust_store is None:
        return None
    found = find_referred(host, "key_store", chosen.cluster_key_store)
    own = None if found is None else found.attributes
    assert isinstance(own, KeyStoreAttributes), "references are checked before"
    if own.key_password is not None:
        raise WrongStateError(
            f"the key of {chosen.cluster_key_store!r} is encrypted, and links between members cannot use such a key"
        )
    trusted = find_referred(host, "trust_store", chosen.cluster_trust_store)
    others = None if trusted is None else trusted.attributes
    assert isinstance(others, TrustStoreAttributes), "references are checked before"
    return LinkTls(
        certificate=Path(own.certificate_file),
        key=None if own.key_file is None else Path(own.key_file),
        authorities=Path(others.certificate_file),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A shard that this member leads."""

    number: int
    broker: EmbeddedBroker
    membership: Membership
    """The member that leads it."""

    @property
    def host(self) -> ConfiguredObject:
        """The virtual host whose destinations it has."""
        return self.membership.host

    def has_queue(self, name: str) -> bool:
        """Return whether a queue is here, all of it or a part; no queue that is to be divided at its first use is."""
        member = self.membership.member
        is_settled = member.is_settled(Address(AddressKind.QUEUE, name))
        return is_settled and self.number in self.membership.shards_of_queue(name)

    def check_child(self, path: str, category: str, name: str) -> None:
        """Refuse an object that does not belong below this shard. Raises `NotChangeableError`."""
        if category != "queue":
            raise NotChangeableError(
                f"{path} is a shard, which is here while this member leads it; create the {category} below {self.host.path}"
            )
        if self.number not in self.membership.shards_of_queue(name):
            self.membership.refuse_queue(name)


class ShardCrossing:
    """Moves messages from a queue of a shard that this member leads to a queue of another shard. Implements `contracts.Crossing`."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._host = shard.membership.host

    @contextmanager
    def _session(self, source: Address, *, transacted: bool) -> Iterator[tuple[ProviderConnection, ProviderSession]]:
        cluster = ClusterAtLeader(self._shard.membership.member, source)
        connection = ClusterConnection(cluster, _Unheard(), self._host.clock)
        cluster.front.describe(connection.connection_id, user="", address="", protocol=LINK)
        try:
            yield connection, connection.open_session(transacted=transacted)
        finally:
            connection.close()

    def move(self, name: str, target: str, selector: str | None, most: int | None, go_on: Callable[[int], bool]) -> int:
        """Move messages that no consumer holds, at most `most`, each once; return their number.

        Raises:
            WrongStateError: The queue is paused: its messages leave it for another shard only as those of its consumers do.
            ProviderError: Those of the last transaction have not moved.
        """
        queue = self._shard.broker.virtual_host.find_queue(name)
        if queue is None:
            raise UnknownObjectError(f"there is no queue {name!r}")
        if queue.policy.paused:
            raise WrongStateError(
                f"queue {name!r} is paused, and {target!r} is in another shard of the cluster: resume it, and move its messages then"
            )
        # So many, as others may arrive meanwhile for ever.
        there_are = queue.count(MessageState.NEW)
        left = there_are if most is None else min(most, there_are)
        source = Address(AddressKind.QUEUE, name)
        wanted = SubscribeRequest(
            address=source, selector=selector_or_none(selector), no_local=False, durable_name=None
        )
        moved = 0
        with self._session(source, transacted=True) as (connection, session):
            consumer = session.subscribe(wanted, lambda: None)
            connection.start()
            while moved < left and go_on(moved):
                unit: list[Delivery] = []
                while len(unit) < min(_MOVED_AT_ONCE, left - moved) and (found := consumer.poll()) is not None:
                    unit.append(found)
                    session.send(replace(found.envelope, destination=Address(AddressKind.QUEUE, target)))
                if not unit:
                    break
                session.acknowledge(unit)
                session.commit()
                moved += len(unit)
        return moved

    def copy(self, name: str, target: str, selector: str | None, most: int | None, go_on: Callable[[int], bool]) -> int:
        """Copy messages that no consumer holds, at most `most`; return their number."""
        copied = 0
        with self._session(Address(AddressKind.QUEUE, name), transacted=False) as (_, session):
            for envelope in QueueManager(self._shard.broker.virtual_host).browse(name, selector):
                if copied == most or not go_on(copied):
                    break
                session.send(replace(envelope, destination=Address(AddressKind.QUEUE, target)))
                copied += 1
        return copied


class _Unheard:
    def on_exception(self, error: ProviderError) -> None:
        """Ignore it: the next call on the connection raises it."""


class ClusterAtLeader:
    """The cluster for what runs once, at the leader of a shard: it has no connection to that shard where another member leads it.

    So the lease of the shard decides where it runs, also while members do not agree yet. Implements `cluster.contracts.Cluster`.
    """

    def __init__(self, member: JoinedCluster, address: Address) -> None:
        """`address`: a destination of the shard."""
        self._member = member
        self._place = member.placement.place_of(address)
        self.name = member.name
        self.front = member.front
        self.decisions = member.decisions
        self.subscriptions = member.subscriptions

    @property
    def placement(self) -> Placement:
        """The present placement."""
        return self._member.placement

    @property
    def promotions(self) -> PromotionLog:
        """The promotions of staged units under way."""
        return self._member.promotions

    def is_settled(self, address: Address) -> bool:
        """Return whether it is known where a destination is."""
        return self._member.is_settled(address)

    def await_placed(self, queue: str) -> None:
        """Wait while a queue is being placed. Raises `ResourceError`: it takes too long."""
        self._member.await_placed(queue)

    def connect(self, place: Place, events: ConnectionEvents) -> ProviderConnection:
        """Open a connection to a place. Raises `ResourceError` for the shard if this member does not lead it."""
        if place != self._place:
            return self._member.connect(place, events)
        broker = self._member.brokers().get(place.number) if isinstance(place, ShardPlace) else None
        if broker is None:
            raise ResourceError(f"another member of cluster {self.name} leads the shard")
        # Not by the member, which would find the next leader if this one ended just now.
        return VmConnection(broker, events)


MakeShardHost = Callable[[ObjectRecord, Shard], "ConfiguredObject"]


class Membership(ConfigurationChangeListener):
    """A clustered virtual host's member, from the opening of the host to its stop, and the virtual hosts of the shards that it leads.

    Those are below the node of the clustered host, and are made and removed on its configuration thread.
    """

    def __init__(self, host: ConfiguredObject, member: JoinedCluster, make: MakeShardHost) -> None:
        """`host`: the clustered host; `make`: makes the object of a shard."""
        self.member = member
        self.known = KnownDestinations(member, host.clock)
        """The destinations of all shards."""
        self.host = host
        self.whole = Whole(cast("ManagedHost", host), member, self._shown_shard)
        """The objects of all members."""
        self._make = make
        self._shown: dict[int, tuple[EmbeddedBroker, ConfiguredObject]] = {}
        """By number; only the node's configuration thread changes it."""
        self._wake = Signal()
        self._has_ended = False
        self._end_in_process: Callable[[], None] = lambda: None
        self._watch = Thread(target=self._look_on, name=f"pyjms shards of {host.name}", daemon=True)

    def begin(self) -> None:
        """Show the shards that the member leads from now on."""
        self.host.add_listener(self)
        self._end_in_process = serve_in_process(self.host.name, self._connect_here)
        self._watch.start()

    def end(self) -> None:
        """Hand the shards over, and leave the cluster. May wait."""
        self._has_ended = True
        self._wake.set()
        # First: what is connected from here on gets a host that does not end.
        self._end_in_process()
        self.host.remove_listener(self)
        with ExitStack() as ends:
            ends.callback(self._remove_all)
            ends.callback(self.whole.close)
            ends.callback(self.known.close)
            ends.callback(self.member.stop)
            # A look that goes on just now finds that this has ended.
            if self._watch.is_alive():
                ends.callback(self._watch.join)

    def _connect_here(self, request: ConnectRequest, events: ConnectionEvents) -> ClusterConnection:
        """Open a connection of this process, as to any ``vm://`` host. Raises `ResourceError`, also if the member has just stopped."""
        own = self.host.clock
        # With two clocks a message could expire before it was sent.
        if request.clock is not own and not isinstance(request.clock, SystemClock):
            raise ResourceError(
                f"the virtual host {self.host.name} of a cluster runs by another clock; connect without a clock"
            )
        try:
            return ClusterConnection(self.member, events, request.clock, request.on_expired)
        except ClosedError as error:
            raise ResourceError(error.reason) from error

    def attributes_changed(self, managed: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Have the virtual hosts of the shards follow the clustered one, as for the limits of alerts."""
        if managed is self.host:
            with suppress(ClosedError):
                self._node.configuration_thread.submit(self._follow)

    def shards_of_queue(self, name: str) -> Sequence[int]:
        """Return the numbers of a queue's shards: several if it is partitioned."""
        return self.member.placement.shards_of(AddressKind.QUEUE, name)

    def tells_of(self, managed: ManagedObject) -> bool:
        """Return whether this member counts an object below the host that all members see alike, as a database: one of them does."""
        address = Address(AddressKind.QUEUE, f"{managed.category} {managed.name}")
        return self.broker_with(address) is not None

    def broker_with(self, address: Address) -> EmbeddedBroker | None:
        """Return the broker of a destination if this member has it; of a partitioned queue that of the first partition."""
        place = self.member.placement.place_of(address)
        if isinstance(place, ShardPlace):
            return self.member.brokers().get(place.number)
        return self.member.front if place.run_id == self.member.front.run_id else None

    def refuse_queue(self, name: str) -> NoReturn:
        """Say where a queue is to be created. Raises `NotChangeableError`."""
        number = self.shards_of_queue(name)[0]
        leader = next((each.leader for each in self.member.status().shards if each.number == number), None)
        where = "which no member leads just now" if leader is None else f"at the member {leader!r}, which leads it"
        raise NotChangeableError(
            f"queue {name!r} belongs to shard {number} of {self.host.path}: create it below virtual_host "
            f"{'/'.join(self.host.names)}.{number}, {where}; or let a client create it by its first use"
        )

    def _shown_shard(self, number: int) -> ManagedHost | None:
        """Return the virtual host of a shard, if it shows the broker by which this member leads it."""
        shown = self._shown.get(number)
        if shown is None or self.member.brokers().get(number) is not shown[0]:
            return None
        host = cast("ManagedHost", shown[1])
        # One that is just being opened would say that it has nothing.
        return host if host.is_running else None

    @property
    def _node(self) -> ConfiguredObject:
        return self.host._above  # noqa: SLF001 - as the objects of the tree among themselves

    def _look_on(self) -> None:
        clock = self.host.clock
        seen: tuple[Mapping[int, EmbeddedBroker], Placement | None] = {}, None
        while not self._has_ended:
            now = dict(self.member.brokers()), self.member.placement
            if now != seen:
                seen = now
                with suppress(ClosedError):  # the broker ends, and its tree with it
                    self._node.configuration_thread.submit(self._show)
                    self.host.configuration_thread.submit(self._have_followed)
            clock.wait(self._wake, clock.monotonic_ms() + _LOOK_MS)

    # On the node's configuration thread

    def _show(self) -> None:
        led = {} if self._has_ended else self.member.brokers()
        for number, (broker, shown) in list(self._shown.items()):
            if led.get(number) is not broker:
                del self._shown[number]
                shown.disappear()
        for number, broker in sorted(led.items()):
            if number not in self._shown:
                shown = self._make(self._record(number), Shard(number=number, broker=broker, membership=self))
                self._shown[number] = broker, shown
                shown.appear()

    def _have_followed(self) -> None:
        """Have what is configured below the host run at the leaders of its destinations; on the host's own configuration thread."""
        for each in list(self.host.children()):
            if isinstance(each, Stoppable):
                each.follow_leaders()

    def _record(self, number: int) -> ObjectRecord:
        return ObjectRecord(
            id=ObjectId(uuid5(self.host.id, f"shard/{number}")),
            category=self.host.category,
            parent=self._node.id,
            attributes=self._attributes(number),
        )

    def _attributes(self, number: int) -> Mapping[str, Any]:
        """Return the attributes of a shard: those of the clustered host, without what makes it one."""
        given = self.host.snapshot.record.attributes
        kept = {name: value for name, value in given.items() if not name.startswith("cluster")}
        own = {
            "name": f"{self.host.name}.{number}",
            "durable": False,
            "description": f"Shard {number} of {self.host.name}.",
        }
        return {**kept, **own}

    def _follow(self) -> None:
        for number, (_, shown) in self._shown.items():
            shown.follow(self._attributes(number))

    def _remove_all(self) -> None:
        with suppress(ClosedError):
            self._node.configuration_thread.call(self._show, however_long=True)


class MemberTotals(BaseModel):
    """What one member has."""

    member: str | None
    """None: all together."""
    connections: int
    queues: int
    consumers: int
    waiting: int
    held: int
    arrived: int
    departed: int


_TOTALS: Final = ("consumers", "waiting", "held", "arrived", "departed")


class ClusterTotals(BaseModel):
    """What the members of a cluster have, and all together."""

    total: MemberTotals
    members: list[MemberTotals]


class ClusterView(BaseModel):
    """The state of a cluster, as a member last saw it."""

    name: str
    virtual_host: str
    members: list[MemberStatus]
    shards: list[ShardStatus]
    undecided: int
    """Transactions over several shards whose decision not all shards have applied."""
    format: int
    """The format of what its members share."""
    placed: list[PlacedStatus]
    """The queues that an operator has placed, and partitioned ones."""
    trouble: str | None
    """Why the member that tells this serves nothing; none: it serves."""


def _totals(member: str | None, counted: Mapping[str, int]) -> MemberTotals:
    fields = ("connections", "queues", *_TOTALS)
    return MemberTotals(member=member, **{field: counted.get(field, 0) for field in fields})


class Clustered:
    """The operations and statistics of a virtual host about its cluster."""

    _membership: Membership | None
    if TYPE_CHECKING:

        @property
        def path(self) -> str: ...

    @property
    def membership(self) -> Membership | None:
        """Its member of a cluster; None: it is in none, or does not run."""
        return self._membership

    @property
    def joined(self) -> Cluster | None:
        """The cluster that it has joined; None: it is in none, or does not run."""
        membership = self._membership
        return None if membership is None else membership.member

    def _status(self) -> ClusterStatus | None:
        membership = self._membership
        return None if membership is None else membership.member.status()

    @operation(
        "Tell the members of its cluster, its shards, and which member leads which.",
        needs=Operation.OBSERVE,
        changes=False,
    )
    def cluster_status(self) -> ClusterView:
        """Return the state of its cluster. Raises `WrongStateError` if it is in none, or does not run."""
        found = self._status()
        if found is None:
            raise WrongStateError(f"{self.path} is served by no cluster, or does not run")
        return ClusterView(
            name=found.name,
            virtual_host=found.virtual_host,
            members=list(found.members),
            shards=list(found.shards),
            undecided=found.undecided,
            format=found.format,
            placed=list(found.placed),
            trouble=found.trouble,
        )

    @operation(
        "Tell how many connections, queues, consumers and messages each member of its cluster has, and all together.",
        needs=Operation.OBSERVE,
        changes=False,
    )
    def cluster_totals(self) -> ClusterTotals:
        """Return the numbers. Raises `WrongStateError` if it is in no cluster, or does not run; `LeaderMissingError`."""
        membership = self._membership
        if membership is None:
            raise WrongStateError(f"{self.path} is served by no cluster, or does not run")
        status, fronts = membership.member.status(), membership.member.fronts()
        leaders: dict[Place, str | None] = {ShardPlace(each.number): each.leader for each in status.shards}
        names: dict[Place, str | None] = dict(leaders)
        names.update((front, name) for name, front in fronts.items())
        counted: dict[str, Counter[str]] = {name: Counter() for name in fronts}
        for place, columns in membership.whole.columns_by_place("queue", _TOTALS).items():
            found = counted.setdefault(names.get(place) or "", Counter())
            found["queues"] += len(columns["waiting"])
            for field in _TOTALS:
                found[field] += sum(columns[field].values())
        for place, there in membership.whole.names_by_place("connection").items():
            counted.setdefault(names.get(place) or "", Counter())["connections"] += len(there)
        members = [_totals(name, found) for name, found in sorted(counted.items()) if name or found]
        return ClusterTotals(total=_totals(None, sum(counted.values(), Counter())), members=members)

    @operation("Have a member of its cluster lead a shard from now on, whenever it lives; without a member: any.")
    def move_leader(
        self,
        shard: Annotated[int, Field(ge=0, description="The number of the shard.")],
        member: Annotated[
            str | None, Field(description="The name of a living member; none: any member may lead it again.")
        ] = None,
    ) -> None:
        """Pin a shard to a member. Raises `WrongStateError` if the host is in no cluster, `ProviderError`."""
        self._joined_member().move_leader(shard, member)

    def _joined_member(self) -> JoinedCluster:
        membership = self._membership
        if membership is None:
            raise WrongStateError(f"{self.path} is served by no cluster, or does not run")
        return membership.member

    @operation(
        "Use the present certificates of its key store and its trust store for new links between this member and others. Open links stay; "
        "unusable certificates are refused, and nothing changes."
    )
    def reload_link_certificates(self) -> None:
        """Use renewed certificates. Raises `WrongStateError` if the host is in no cluster, its links have no TLS, or the files cannot be used."""
        member, membership = self._joined_member(), self._membership
        chosen = None if membership is None else membership.host.attributes
        assert membership is not None, "it has just been there"
        assert isinstance(chosen, ClusterAttributes), "it is clustered"
        tls = _link_tls(membership.host, chosen)
        if tls is None:
            raise WrongStateError(
                f"{self.path} has no TLS for its links: give it cluster_key_store and cluster_trust_store"
            )
        try:
            member.reload_certificates(tls)
        except ListenerSettingsError as error:
            raise WrongStateError(f"{self.path} goes on with its present certificates: {error.reason}") from error

    @operation(
        "Place a queue in another shard than a hash of its name gives, while it is empty and nobody uses it; without a shard: back there."
    )
    def place_queue(
        self,
        name: Annotated[str, Field(min_length=1, description="The name of the queue; it need not exist.")],
        shard: Annotated[
            int | None, Field(ge=0, description="The number of the shard; none: as its name says.")
        ] = None,
    ) -> None:
        """Place a queue. Raises `WrongStateError` if the host is in no cluster, `ProviderError`."""
        member = self._joined_member()
        member.place_queue(name, [member.placement.hashed(AddressKind.QUEUE, name) if shard is None else shard])

    @operation(
        "Divide a queue into partitions with leaders of their own, while it is empty and nobody uses it; one partition: an ordinary queue again."
    )
    def partition_queue(
        self,
        name: Annotated[str, Field(min_length=1, description="The name of the queue; it need not exist.")],
        partitions: Annotated[int, Field(ge=1, description="How many partitions it has then.")],
    ) -> None:
        """Partition a queue. Raises `WrongStateError` if the host is in no cluster, or has fewer shards, `ProviderError`."""
        member = self._joined_member()
        status, placement = member.status(), member.placement
        if partitions > placement.shards:
            raise WrongStateError(
                f"{self.path} has {placement.shards} shards, and each has one partition of a queue at most"
            )
        member.place_queue(name, shards_for(name, partitions, placement, status))

    @statistic("How many members of its cluster are alive; 0: it is in none.", unit="members")
    def cluster_members_alive(self) -> int:
        found = self._status()
        return 0 if found is None else sum(each.is_alive for each in found.members)

    @statistic("How many shards of its cluster this member leads.", unit="shards")
    def cluster_shards_led(self) -> int:
        membership = self._membership
        return 0 if membership is None else len(membership.member.brokers())

    @statistic("How many shards of its cluster have no leader now, as far as this member knows.", unit="shards")
    def cluster_shards_without_leader(self) -> int:
        found = self._status()
        return 0 if found is None else sum(each.leader is None for each in found.shards)

    @statistic("How often a shard of its cluster has got a leader.", unit="changes", kind=StatisticKind.COUNTER)
    def cluster_leader_changes(self) -> int:
        found = self._status()
        return 0 if found is None else sum(each.terms for each in found.shards)

    @statistic("Transactions over several shards whose decision not all shards have applied.", unit="transactions")
    def cluster_undecided(self) -> int:
        found = self._status()
        return 0 if found is None else found.undecided

    @statistic(
        "Connections of clients to shards of its cluster that its member could not make in time, as the leader could not be reached or there was none; "
        "and links to living leaders that stayed broken, once for each lease.",
        unit="connections",
        kind=StatisticKind.COUNTER,
    )
    def cluster_failed_connections(self) -> int:
        found = self._status()
        return 0 if found is None else found.failed_connections

    @statistic("Why its member of the cluster serves nothing now; none: it serves, or is in no cluster.")
    def cluster_trouble(self) -> str | None:
        membership = self._membership
        return None if membership is None else membership.member.trouble
