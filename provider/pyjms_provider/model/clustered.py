"""The cluster of a virtual host: its attributes, and the shards that this member leads, each of which is a virtual host in the tree.

A member tells on threads of its own which shards it begins and ends to lead. The virtual hosts of the shards are made and removed on the
configuration thread of the node, as any object below it is; they run the brokers that the member has made, and leave them to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn
from uuid import uuid5

from pydantic import BaseModel, Field

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ClosedError
from pyjms_provider.cluster.known import KnownDestinations
from pyjms_provider.cluster.placement import SHARDS_MAX
from pyjms_provider.cluster.settings import LEASE_MS, NAME, ClusterSettings, LinkSettings, LinkTls
from pyjms_provider.cluster.status import MemberStatus, ShardStatus
from pyjms_provider.model.attributes import Attributes, attribute
from pyjms_provider.model.errors import NotChangeableError, Problem, WrongStateError
from pyjms_provider.model.lookup import find_referred
from pyjms_provider.model.managed import ConfigurationChangeListener, ManagedObject
from pyjms_provider.model.operations import StatisticKind, operation, statistic
from pyjms_provider.model.security import KeyStoreAttributes, TrustStoreAttributes
from pyjms_provider.security.contracts import Operation
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.contracts import Cluster
    from pyjms_provider.cluster.known import JoinedCluster
    from pyjms_provider.cluster.status import ClusterStatus
    from pyjms_provider.model.configured import ConfiguredObject
    from pyjms_provider.settings import BrokerSettings

_SCHEME: Final = "postgresql+psycopg"
_PLACE: Final = re.compile(r"(\[[^\]\s]+\]|[^:\s\[\]]+):([0-9]{1,5})")
_PORT_MAX: Final = 65_535
_LOOK_MS: Final = 250
"""How often it is seen which shards the member leads."""
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
        "Whose certificates other members show, for TLS between members; none: those that the system trusts.",
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
    if chosen.cluster_key_store is None:
        return None
    found = find_referred(host, "key_store", chosen.cluster_key_store)
    own = None if found is None else found.attributes
    assert isinstance(own, KeyStoreAttributes), "references are checked before"
    if own.key_password is not None:
        raise WrongStateError(
            f"the key of {chosen.cluster_key_store!r} is encrypted, and links between members cannot use such a key"
        )
    trusted = (
        None if chosen.cluster_trust_store is None else find_referred(host, "trust_store", chosen.cluster_trust_store)
    )
    authorities = None
    if trusted is not None and isinstance(trusted.attributes, TrustStoreAttributes):
        authorities = Path(trusted.attributes.certificate_file)
    return LinkTls(
        certificate=Path(own.certificate_file),
        key=None if own.key_file is None else Path(own.key_file),
        authorities=authorities,
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

    def check_child(self, path: str, category: str, name: str) -> None:
        """Refuse an object that does not belong below this shard. Raises `NotChangeableError`."""
        if category != "queue":
            raise NotChangeableError(
                f"{path} is a shard, which is here while this member leads it; create the {category} below {self.host.path}"
            )
        if self.membership.shard_of_queue(name) != self.number:
            self.membership.refuse_queue(name)


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
        self._make = make
        self._shown: dict[int, tuple[EmbeddedBroker, ConfiguredObject]] = {}
        """By number; only the node's configuration thread uses it."""
        self._wake = Signal()
        self._has_ended = False
        self._watch = Thread(target=self._look_on, name=f"pyjms shards of {host.name}", daemon=True)

    def begin(self) -> None:
        """Show the shards that the member leads from now on."""
        self.host.add_listener(self)
        self._watch.start()

    def end(self) -> None:
        """Hand the shards over, and leave the cluster. May wait."""
        self._has_ended = True
        self._wake.set()
        self.host.remove_listener(self)
        with ExitStack() as ends:
            ends.callback(self._remove_all)
            ends.callback(self.known.close)
            ends.callback(self.member.stop)
            # A look that goes on just now finds that this has ended.
            if self._watch.is_alive():
                ends.callback(self._watch.join)

    def attributes_changed(self, managed: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Have the virtual hosts of the shards follow the clustered one, as for the limits of alerts."""
        if managed is self.host:
            with suppress(ClosedError):
                self._node.configuration_thread.submit(self._follow)

    def shard_of_queue(self, name: str) -> int:
        """Return the number of a queue's shard."""
        return self.member.placement.shard_of(AddressKind.QUEUE, name)

    def refuse_queue(self, name: str) -> NoReturn:
        """Say where a queue is to be created. Raises `NotChangeableError`."""
        number = self.shard_of_queue(name)
        leader = next((each.leader for each in self.member.status().shards if each.number == number), None)
        where = "which no member leads just now" if leader is None else f"at the member {leader!r}, which leads it"
        raise NotChangeableError(
            f"queue {name!r} belongs to shard {number} of {self.host.path}: create it below virtual_host "
            f"{'/'.join(self.host.names)}.{number}, {where}; or let a client create it by its first use"
        )

    @property
    def _node(self) -> ConfiguredObject:
        return self.host._above  # noqa: SLF001 - as the objects of the tree among themselves

    def _look_on(self) -> None:
        clock = self.host.clock
        seen: Mapping[int, EmbeddedBroker] = {}
        while not self._has_ended:
            led = dict(self.member.brokers())
            if led != seen:
                seen = led
                with suppress(ClosedError):  # the broker ends, and its tree with it
                    self._node.configuration_thread.submit(self._show)
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


class ClusterView(BaseModel):
    """The state of a cluster, as a member last saw it."""

    name: str
    virtual_host: str
    members: list[MemberStatus]
    shards: list[ShardStatus]
    undecided: int
    """Transactions over several shards whose decision not all shards have applied."""


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
        )

    @operation("Have a member of its cluster lead a shard from now on, whenever it lives; without a member: any.")
    def move_leader(
        self,
        shard: Annotated[int, Field(ge=0, description="The number of the shard.")],
        member: Annotated[
            str | None, Field(description="The name of a living member; none: any member may lead it again.")
        ] = None,
    ) -> None:
        """Pin a shard to a member. Raises `WrongStateError` if the host is in no cluster, `ProviderError`."""
        membership = self._membership
        if membership is None:
            raise WrongStateError(f"{self.path} is served by no cluster, or does not run")
        membership.member.move_leader(shard, member)

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

    @statistic("Why its member of the cluster serves nothing now; none: it serves, or is in no cluster.")
    def cluster_trouble(self) -> str | None:
        membership = self._membership
        return None if membership is None else membership.member.trouble
