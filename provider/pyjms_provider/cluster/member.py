"""A member of a cluster: it joins, leads shards, and connects clients to all of them.

One thread does all that concerns the rows of members and shards, in *turns*: it writes the heartbeat, reads all rows, and does what follows
from them. Each turn compares the rows with what this member does, so that a step that failed is made in a later turn. Brokers are opened and
stopped by threads of their own (`leading`), branches are settled by another one (`decisions`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ClosedError, DestinationError, DestinationInUseError, ProviderError, ResourceError
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.cluster.assignment import Candidate, shards_to_hand_over, shards_to_take, with_following
from pyjms_provider.cluster.contracts import Promotion
from pyjms_provider.cluster.decisions import ClusterDecisions, Resolver
from pyjms_provider.cluster.leading import LeadState, ShardLeader
from pyjms_provider.cluster.links import LinkRequest
from pyjms_provider.cluster.membership import Membership
from pyjms_provider.cluster.placement import FrontPlace, Placement, ShardPlace
from pyjms_provider.cluster.placing import Placings, shards_for
from pyjms_provider.cluster.status import ClusterStatus, MemberStatus, PlacedStatus, ShardStatus
from pyjms_provider.forks import forget_in_children
from pyjms_provider.protocols.engine import RareLines
from pyjms_provider.repeatable import REPEATED
from pyjms_provider.settings import BrokerSettings, StandBy
from pyjms_provider.stores.errors import LostStoreError, StoreError
from pyjms_provider.stores.opening import cluster_database, placement_tables

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.cluster.contracts import ControlTables
    from pyjms_provider.cluster.links import Link, Links
    from pyjms_provider.cluster.placement import Place
    from pyjms_provider.cluster.settings import ClusterSettings, LinkTls
    from pyjms_provider.core.host.host_policy import HostPolicy
    from pyjms_provider.core.journal.journal import SubscriptionKey
    from pyjms_provider.stores.sql.cluster import ClusterView, MemberRow, ShardRow
    from pyjms_provider.stores.sql.cluster_placements import PlacementTables

_log = logging.getLogger(__name__)
_POLL_MS: Final = 250
"""How often the rows are read at least: changes are announced by the database, but the death of a member is not."""
_PLACEMENT_MS: Final = 5_000
_RESOLVE_MS: Final = 500
_CONSUMERS_MS: Final = 1_000
"""How often it is seen whose clients consume from a shard."""
_MOVING_MS: Final = 10_000
"""A shard without a leader for longer than that keeps no other one from being handed over: something is wrong with it."""
_LINK_RETRY_MS: Final = 50
_FRONT_ATTEMPTS: Final = 20
"""The rounds of attempts to reach the front of another member again: some seconds."""
_LEAVING_MS: Final = 30_000
"""How long a member that stops tries to hand its shards over in order."""
_STOPPING_S: Final = 60.0
_MEMORY_LEAST: Final = 1_000_000
_MOMENT_MS: Final = 20
"""How long a client waits that has asked a leader for a queue that is elsewhere, if this member does not know of that yet."""


class ClusterSubscriptions:
    """Implements `contracts.SubscriptionRegistry`."""

    def __init__(self, database: ControlTables) -> None:
        self._database = database

    def topic_of(self, key: SubscriptionKey) -> str | None:
        """Return the topic under which a subscription was last entered."""
        return self._database.topic_of(key.client_id, key.name)

    def enter(self, key: SubscriptionKey, topic: str) -> None:
        """Enter a subscription."""
        self._database.enter_subscription(key.client_id, key.name, topic)

    def remove(self, key: SubscriptionKey) -> None:
        """Remove a subscription."""
        self._database.remove_subscription(key.client_id, key.name)


class ClusterPromotions:
    """Implements `contracts.PromotionLog`."""

    def __init__(self, database: ControlTables) -> None:
        self._database = database

    def begin(self, promotion: Promotion) -> Promotion:
        """Write that a promotion begins; return it, or the one of its sink that is under way."""
        found = self._database.begin_promotion(promotion.sink, promotion.epoch, promotion.units)
        return Promotion(promotion.sink, *found)

    def find(self, sink: str) -> Promotion | None:
        """Return the promotion of a sink that is under way."""
        found = self._database.promotion_of(sink)
        return None if found is None else Promotion(sink, *found)

    def end(self, promotion: Promotion) -> None:
        """Remove a promotion that all shards have done."""
        self._database.end_promotion(promotion.sink, promotion.epoch)


class ClusterMember:
    """Implements `contracts.Cluster`. `serving.cluster_links.start_member` makes one. Safe to use from any thread."""

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock,
        links: Links,
        tables: tuple[ControlTables, PlacementTables] | None = None,
        cancelled: Signal | None = None,
    ) -> None:
        """Join the cluster, and make it if there is none. Shards are taken over afterwards: see `await_leaders`. Waits for the database.

        Args:
            settings: Its settings.
            clock: For all waits.
            links: Opens its link port, and connects to those of others.
            tables: The control tables, and those of the placed queues; None: those in the settings' database.
            cancelled: Ends the wait for the database when it is raised.

        Raises `ClusterError` if the cluster refuses the member as it is configured, `ClosedError` if the start is cancelled, `ResourceError`.
        """
        store = settings.broker.store
        assert store is not None, "the settings were checked"
        self._settings = settings
        self._clock = clock
        self._links = links
        self._lock = Lock()
        self._wake = Signal()
        self._settling_wake = Signal()
        self._waiting: set[Signal] = set()
        self._is_stopping = self._program_ends = self._is_abandoned = self._waits_for_format = False
        self._trouble: str | None = None
        self._view: ClusterView | None = None
        self._seen_ms = 0.0
        self._placed_ms = float("-inf")
        self._look_at_consumers_ms = float("-inf")
        self._consuming: dict[int, tuple[str | None, float]] = {}
        """The members whose clients, alone, consume from this one's shards, and since when."""
        self._failed_connections = 0
        self._lines = RareLines()
        self._open_links: list[tuple[int, Link]] = []
        self._broken_links: dict[Link, float] = {}
        """Since when links are broken, or were last reported."""
        with ExitStack() as undo:
            self._database: ControlTables
            if tables is None:
                database = cluster_database(store.url, settings.name, clock, answer_ms=settings.lease_ms / 2)
                tables = database, placement_tables(database)
            self._database, placements = tables
            undo.callback(self._database.close)
            self._membership = Membership(self._database, settings, clock, self._rows_changed, cancelled)
            self._facts = facts = self._membership.prepare()
            self._placings = Placings(placements, clock, facts.shards, settings.broker.policy.queues)
            # Before the first client: what it sends to a placed destination must not go by the hash.
            self._membership.retry_until_reached(self._placings.read)
            self._decisions = ClusterDecisions(self._database, clock, self._membership.need)
            self._subscriptions = ClusterSubscriptions(self._database)
            self._promotions = ClusterPromotions(self._database)
            self._resolver = Resolver(self._database, clock)
            self._leaders = {number: self._shard_leader(number) for number in range(facts.shards)}
            self._front = EmbeddedBroker(settings.virtual_host, clock, front_settings(settings.broker))
            undo.callback(self._front.stop)
            self._link_port = links.listen(settings.link, self._find, facts.secret, clock)
            undo.callback(self._link_port.close)
            self._membership.join_first(self.address, self._front.run_id)
            undo.pop_all()
        self._thread = Thread(target=self._run, name=f"pyjms cluster {settings.name}", daemon=True)
        self._settling = Thread(target=self._settle, name=f"pyjms settling {settings.name}", daemon=True)
        self._thread.start()
        self._settling.start()
        forget_in_children(self)

    def _shard_leader(self, number: int) -> ShardLeader:
        return ShardLeader(
            number,
            self._broker_name(number),
            self._clock,
            changed=self._changed,
            opened=partial(self._opened, number),
            end_dead_sessions=self._database.end_sessions_of_the_dead,
        )

    def _opened(self, number: int, broker: EmbeddedBroker) -> None:
        self._placings.prepare(number, broker)

    def _broker_name(self, number: int) -> str:
        return f"{self._settings.virtual_host}.{number}"

    def forget(self) -> None:
        """Be no member, in a child of this process, which has none of its threads."""
        self._lock, self._is_stopping, self._waiting = Lock(), True, set()

    # The contract

    @property
    def settings(self) -> ClusterSettings:
        """Its settings."""
        return self._settings

    @property
    def name(self) -> str:
        """The name of the virtual host."""
        return self._settings.virtual_host

    @property
    def front(self) -> EmbeddedBroker:
        """The broker in memory that has this member's connections and their temporary destinations."""
        return self._front

    @property
    def placement(self) -> Placement:
        """The present placement; another object after each change."""
        return self._placings.placement

    @property
    def decisions(self) -> ClusterDecisions:
        """The outcomes of transactions over several shards."""
        return self._decisions

    @property
    def subscriptions(self) -> ClusterSubscriptions:
        """The topics of durable subscriptions."""
        return self._subscriptions

    @property
    def promotions(self) -> ClusterPromotions:
        """The promotions of staged units under way."""
        return self._promotions

    @property
    def address(self) -> str:
        """The address of its link port, ``HOST:PORT``, as the other members know it."""
        link = self._settings.link
        host = link.advertised_host or link.host
        return f"{f'[{host}]' if ':' in host else host}:{link.advertised_port or self._link_port.port}"

    @property
    def incarnation(self) -> str | None:
        """The id of this start; None: it is no member at the moment, as it has not reached the database for longer than its lease."""
        return self._membership.incarnation

    @property
    def trouble(self) -> str | None:
        """Why it serves nothing at the moment; None: it serves. Never waits."""
        if self._is_stopping:
            return f"member {self._settings.member} is stopping"
        if self._membership.incarnation is None:
            return f"member {self._settings.member} cannot reach its cluster: {self._trouble or 'it joins again'}"
        # The thread that writes heartbeats may wait for an answer of the database, and give the incarnation up seconds later.
        if self._membership.is_overdue:
            return f"member {self._settings.member} cannot reach its cluster: {self._trouble or 'it waits for the database'}"
        return None

    def brokers(self) -> Mapping[int, EmbeddedBroker]:
        """Return the brokers of the shards that it leads now, by the number of the shard. Never waits."""
        found = {number: leader.broker for number, leader in self._leaders.items()}
        return {number: broker for number, broker in found.items() if broker is not None}

    def front_of_leader(self, shard: int) -> FrontPlace | None:
        """Return the front of the member that serves a shard; None: none does. Never waits."""
        if self._leaders[shard].broker is not None:
            return FrontPlace(self._front.run_id)
        leader = self._leader_of(shard)
        return (
            None if leader is None or leader.incarnation == self._membership.incarnation else FrontPlace(leader.run_id)
        )

    def fronts(self) -> Mapping[str, FrontPlace]:
        """Return the fronts of the living members, by the member's name. Never waits."""
        view = self._view
        found = {} if view is None else {each.name: FrontPlace(each.run_id) for each in view.members if each.is_alive}
        return {**found, self._settings.member: FrontPlace(self._front.run_id)}

    def await_leaders(self, timeout_ms: int) -> bool:
        """Wait until all shards are led; return False if that takes longer, or if the member is stopped."""
        until_ms = self._clock.monotonic_ms() + timeout_ms
        while not self._are_all_led():
            if self._is_stopping or not self._await_change(until_ms):
                return False
        return True

    def _are_all_led(self) -> bool:
        view = self._view
        return view is not None and all(each.leader is not None and not each.restoring for each in view.shards)

    def status(self) -> ClusterStatus:
        """Return the state of the cluster as this member last saw it. Never waits."""
        view = self._view
        members = () if view is None else view.members
        shards = () if view is None else view.shards
        names = {each.incarnation: each.name for each in members}
        older_ms = int(self._clock.monotonic_ms() - self._seen_ms)
        trouble = self.trouble
        return ClusterStatus(
            name=self._settings.name,
            virtual_host=self.name,
            members=[
                replace(found, is_alive=found.is_alive and trouble is None)
                for found in (_member_status(each, shards, older_ms) for each in members)
            ],
            shards=[
                ShardStatus(
                    number=each.number,
                    leader=None if each.leader is None or trouble is not None else names.get(each.leader),
                    since_ms=None if each.leader is None or trouble is not None else each.since_ms,
                    terms=each.terms,
                    pinned=each.pinned,
                    restoring=each.restoring,
                )
                for each in shards
            ],
            undecided=0 if view is None else view.undecided,
            format=self._database.formats.newest if view is None else view.format,
            placed=[
                PlacedStatus(kind=kind.name.lower(), name=name, shards=shards)
                for (kind, name), shards in sorted(self.placement.moved.items(), key=lambda each: each[0][1])
            ],
            trouble=trouble,
            failed_connections=self._failed_connections,
        )

    def is_settled(self, address: Address) -> bool:
        """Return whether it is known where a destination is; see `contracts.Cluster`. Never waits."""
        return self._placings.is_settled(address)

    def await_placed(self, queue: str) -> None:
        """Wait while a queue is being placed; see `contracts.Cluster`."""
        until_ms = self._clock.monotonic_ms() + self._settings.leader_wait_ms
        if queue not in self.placement.moving:
            if self._placings.is_to_be_divided(queue):
                self._divide(queue)
            else:
                self._await_change(until_ms, at_most_ms=_MOMENT_MS)
        while queue in self.placement.moving:
            if self._is_stopping:
                raise self._stopping_error()
            if not self._await_change(until_ms):
                raise ResourceError(f"queue://{queue} is still being placed after {self._settings.leader_wait_ms} ms")

    def _divide(self, queue: str) -> None:
        """Divide a queue as its policy says, unless it is there already, or somebody else divides it. Waits for the database, and for all members.

        Raises `ResourceError`, `ClosedError`.
        """
        placement = self.placement
        if self._has_queue(placement.hashed(AddressKind.QUEUE, queue), queue):
            self._placings.note_undivided(queue)
            return
        shards = shards_for(queue, self._placings.partitions_of(queue), placement, self.status())
        try:
            self._place(queue, shards, is_first_use=True)
        except DestinationInUseError:
            self._placings.note_undivided(queue)  # somebody was faster whose member has another policy for it
        until_ms = self._clock.monotonic_ms() + _MOVING_MS
        while queue not in self.placement.moving and self._placings.is_to_be_divided(queue):
            if self._is_stopping or not self._await_change(until_ms):
                break

    def _has_queue(self, shard: int, name: str) -> bool:
        while True:
            connection = self.connect(ShardPlace(shard), _Unheard())
            try:
                session = connection.open_session(transacted=False)
                return session.has_destination(Address(AddressKind.QUEUE, name)) is not False
            except REPEATED as error:  # its leader has changed meanwhile: the next one is asked
                _log.debug("shard %d was not asked for queue %r: %s", shard, name, error.reason)
            finally:
                connection.close()

    def place_queue(self, name: str, shards: Collection[int]) -> None:
        """Place a queue in these shards; with several, it has a partition in each. Waits for the database, and for all members.

        Raises:
            DestinationError: There is no such shard.
            DestinationInUseError: The queue has messages, consumers, or something else that would be lost.
            PolicyError: The queue cannot be partitioned.
            ResourceError: A member, or the database, does not answer.
        """
        unknown = [each for each in shards if each not in self._leaders]
        if unknown or not shards:
            raise self._no_shard(unknown)
        self._place(name, shards, is_first_use=False)
        until_ms = self._clock.monotonic_ms() + _MOVING_MS
        while name in self.placement.moving or set(self.placement.shards_of(AddressKind.QUEUE, name)) != set(shards):
            if not self._await_change(until_ms):
                break  # it is placed, and a later turn finds that

    def _place(self, name: str, shards: Collection[int], *, is_first_use: bool) -> None:
        own = self._membership.need()
        self._placings.place(name, shards, own, self._await_change, self._rows_changed, is_first_use=is_first_use)

    def connect(self, place: Place, events: ConnectionEvents) -> ProviderConnection:
        """Open a connection to a place; see `contracts.Cluster`."""
        if isinstance(place, FrontPlace):
            return self._connect_to_front(place, events)
        until_ms = self._clock.monotonic_ms() + self._settings.leader_wait_ms
        while True:
            if self._is_stopping:
                raise self._stopping_error()
            try:
                found = self._connect_now(place.number, events)
                failure = "no member leads it"
            except ProviderError as error:
                found, failure = None, error.reason
            if found is not None:
                return found
            if not self._await_change(until_ms, at_most_ms=_LINK_RETRY_MS):
                raise self._no_leader(place.number, self.trouble or failure)

    def _no_leader(self, number: int, why: str) -> ResourceError:
        """Return the error of a connection that could not be made in time, and let operators know."""
        self._note_unreached(number, why)
        return ResourceError(
            f"there has been no leader of shard {number} of {self.name} for {self._settings.leader_wait_ms} ms: {why}"
        )

    def _note_unreached(self, number: int, why: str) -> None:
        """Let operators know that clients of this member do not reach a shard."""
        with self._lock:
            self._failed_connections += 1
            missed = self._lines.missed("no connection", self._clock.monotonic_ms())
        leader = None if self.trouble is not None else self._leader_of(number)
        where = (
            "which no member leads as far as it knows"
            if leader is None
            else f"which {leader.name} leads at {leader.address}"
        )
        if missed is not None:
            _log.warning(
                "PYJMS-CLUSTER-11 a client of member %s did not reach shard %d, %s: %s%s",
                self._settings.member,
                number,
                where,
                why,
                missed,
            )

    def _note_broken_links(self) -> None:
        """Let operators know of links that stay broken though their leader lives: clients with a link wait for it, and open no other connection."""
        now_ms, lease_ms = self._clock.monotonic_ms(), self._settings.lease_ms
        with self._lock:
            broken = [(number, link) for number, link in self._open_links if not (link.is_connected or link.is_over)]
        since = {link: self._broken_links.get(link, now_ms) for _, link in broken}
        for number, link in broken:
            if now_ms - since[link] >= lease_ms:
                since[link] = now_ms
                if self._leader_of(number) is not None:
                    self._note_unreached(number, f"the link to it has been broken for {lease_ms} ms")
        self._broken_links = since

    def _connect_now(self, number: int, events: ConnectionEvents) -> ProviderConnection | None:
        """Connect to the present leader of a shard; None: there is none. Raises `ResourceError`, `ClosedError`."""
        broker = self._leaders[number].broker
        if broker is not None:
            return self._links.connect_here(broker, events)
        leader = self._leader_of(number)
        if leader is None or leader.incarnation == self._membership.incarnation:
            return None
        request = LinkRequest(
            broker=self._broker_name(number),
            addresses=(leader.address, *(each for each in self._addresses() if each != leader.address)),
            member=self._settings.member,
            secret=self._facts.secret,
            tls=self._settings.link.tls,
            timeout_ms=self._settings.leader_wait_ms,
        )
        connection, link = self._links.connect(request, self._clock, events)
        with self._lock:
            self._open_links.append((number, link))
            is_late = self._is_stopping
        if is_late:
            link.close()
            raise self._stopping_error()
        # The leader may have changed before the link was in the list.
        now = self._leader_of(number)
        if now is not None and now.address != leader.address:
            link.redirect(now.address)
        return connection

    def _connect_to_front(self, place: FrontPlace, events: ConnectionEvents) -> ProviderConnection:
        if self._is_stopping:
            raise self._stopping_error()
        if place.run_id == self._front.run_id:
            return self._links.connect_here(self._front, events)
        view = self._view
        member = next((each for each in ([] if view is None else view.members) if each.run_id == place.run_id), None)
        if member is None:
            raise DestinationError(
                f"no member of cluster {self._settings.name} has the connection of this temporary destination any more"
            )
        if not member.beats_here:
            raise ResourceError(f"member {member.name} has not been heard of since the database was started")
        request = LinkRequest(
            broker=self._front_name(place.run_id),
            addresses=(member.address,),
            member=self._settings.member,
            secret=self._facts.secret,
            tls=self._settings.link.tls,
            timeout_ms=self._settings.leader_wait_ms,
            attempts=_FRONT_ATTEMPTS,
        )
        return self._links.connect(request, self._clock, events)[0]

    def _front_name(self, run_id: str) -> str:
        return f"{self._settings.virtual_host}.{run_id}"

    def _stopping_error(self) -> ClosedError:
        return ClosedError(f"member {self._settings.member} of cluster {self._settings.name} is stopping")

    def _find(self, name: str) -> EmbeddedBroker | None:
        """Return the broker that another member asks for by name at the link port."""
        if name == self._front_name(self._front.run_id):
            return self._front
        return next((broker for broker in self.brokers().values() if broker.name == name), None)

    def _leader_of(self, number: int) -> MemberRow | None:
        """Return the member that serves a shard; None: none does, or it is not known to be one over this very database."""
        view = self._view
        shard = None if view is None else view.shards[number]
        if view is None or shard is None or shard.leader is None or shard.restoring:
            return None
        return next((each for each in view.members if each.incarnation == shard.leader and each.beats_here), None)

    def _addresses(self) -> list[str]:
        view = self._view
        return [] if view is None else [each.address for each in view.members if each.is_alive and each.beats_here]

    def move_leader(self, shard: int, member: str | None) -> None:
        """Have a member lead a shard from now on, whenever it lives; it takes it over in a moment. Waits for the database.

        Args:
            shard: The number of the shard.
            member: The name of a living member; None: any member may lead it again.

        Raises:
            DestinationError: There is no such shard.
            ResourceError: No living member has that name, or the database does not answer.
        """
        if shard not in self._leaders:
            raise self._no_shard([shard])
        living = [each.name for each in self._database.view().members if each.is_alive and not each.is_leaving]
        if member is not None and member not in living:
            raise ResourceError(
                f"cluster {self._settings.name} has no living member {member!r}: it has {', '.join(living) or 'none'}"
            )
        self._database.pin(shard, member)
        self._changed()

    def reload_certificates(self, tls: LinkTls) -> None:
        """Use the present content of these files for new links, in both directions; open ones stay. Raises `ListenerSettingsError`: then nothing changes."""
        self._link_port.reload_certificates(tls)
        self._settings = replace(self._settings, link=replace(self._settings.link, tls=tls))

    def _no_shard(self, numbers: Collection[int]) -> DestinationError:
        named = ", ".join(map(str, numbers)) or "none"
        return DestinationError(
            f"cluster {self._settings.name} has the shards 0 to {self._facts.shards - 1}, and no {named}"
        )

    # Waits

    def _rows_changed(self) -> None:
        """Have a turn made now, which also reads the moved destinations. Any thread; never blocks."""
        self._placed_ms = float("-inf")
        self._wake.set()

    def _changed(self) -> None:
        """Have a turn made now, and let all waiting threads look again. Any thread; never blocks."""
        self._wake.set()
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for signal in waiting:
            signal.set()

    def _await_change(self, until_ms: float, at_most_ms: float = _POLL_MS) -> bool:
        """Wait for a change, or some milliseconds; return False if the time is over."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= until_ms:
            return False
        signal = Signal()
        with self._lock:
            self._waiting.add(signal)
        try:
            self._clock.wait(signal, min(until_ms, now_ms + at_most_ms))
        finally:
            with self._lock:
                self._waiting.discard(signal)
        return True

    # Turns

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._turn()
            except ProviderError as error:
                self._note_trouble(error)
            except Exception:
                # The top of a thread: without it the others would take this member for dead, and nobody would know why.
                _log.exception("PYJMS-CLUSTER-5 member %s has met an error of pyjms", self._settings.member)
            self._clock.wait(self._wake, self._clock.monotonic_ms() + _POLL_MS)
        self._leave()

    def _turn(self) -> None:
        membership = self._membership
        if membership.incarnation is None:
            if any(leader.state is not LeadState.IDLE for leader in self._leaders.values()):
                return  # the sessions of the last incarnation end first
            membership.join(self.address, self._front.run_id)
            self._trouble = None
        if not membership.keep():
            self._lose("the other members took it for dead")
            return
        self._see(self._database.view())
        if self._bury_dead() or self._raise_format():
            self._see(self._database.view())
        self._follow_rows()
        self._note_broken_links()
        self._note_consumers()
        self._move()

    def _note_trouble(self, error: ProviderError) -> None:
        if self._trouble is None:
            self._membership.tell_unreached(error)
        self._trouble = error.reason
        if self._membership.incarnation is not None and self._membership.is_overdue:
            self._lose(error.reason)

    def _lose(self, why: str) -> None:
        """Lead nothing any more, until this process has joined again."""
        _log.error("PYJMS-CLUSTER-6 member %s leads nothing any more: %s", self._settings.member, why)
        self._trouble = why
        self._membership.lose()
        for leader in self._leaders.values():
            leader.stop()
        self._tell_waiting()

    def _see(self, view: ClusterView) -> None:
        """Take over what the rows say."""
        self._trouble = None
        old, self._view, self._seen_ms = self._view, view, self._clock.monotonic_ms()
        if self._seen_ms - self._placed_ms >= _PLACEMENT_MS:
            self._placed_ms = self._seen_ms
            self._see_placed()
        if old is None or _facts_of(old) != _facts_of(view):
            self._guide_links()
            self._tell_waiting()

    def _see_placed(self) -> None:
        """Take over where queues are, and do this member's part for those that are being placed."""
        if self._placings.read():
            self._tell_waiting()
        view = self._view
        assert view is not None, "it was just read"
        own = self._membership.need()
        terms = {each.number: each.terms for each in view.shards if each.leader == own}
        self._placings.obey(
            {number: broker for number, broker in self.brokers().items() if number in terms}, terms, own
        )

    def _guide_links(self) -> None:
        """Tell the links of new members, and of new leaders."""
        addresses = self._addresses()
        with self._lock:
            self._open_links = [(number, link) for number, link in self._open_links if not link.is_over]
            links = list(self._open_links)
        for number, link in links:
            link.add(addresses)
            leader = self._leader_of(number)
            if leader is not None:
                link.redirect(leader.address)

    def _bury_dead(self) -> bool:
        """Delete the members that have died; return whether there were some."""
        is_any = False
        for member in self._view.members if self._view is not None else ():
            if not member.is_alive and member.incarnation != self._membership.incarnation:
                if self._database.bury(member.incarnation):
                    _log.warning("PYJMS-CLUSTER-7 member %s of cluster %s has died", member.name, self._settings.name)
                is_any = True
        return is_any

    def _raise_format(self) -> bool:
        """Have the cluster be of this member's format, once all members know that; return whether it became so."""
        view, newest = self._view, self._database.formats.newest
        if view is None or view.format >= newest:
            return False
        older = [f"{each.name} {each.version}" for each in view.members if each.format < newest]
        if older:
            if not self._waits_for_format:
                self._waits_for_format = True
                _log.info(
                    "PYJMS-CLUSTER-8 member %s leads nothing until all members know format %d of cluster %s; those that do not: %s",
                    self._settings.member,
                    newest,
                    self._settings.name,
                    ", ".join(older),
                )
            return False
        is_raised = self._database.raise_format()
        if is_raised:
            _log.info("PYJMS-CLUSTER-9 cluster %s has format %d from now on", self._settings.name, newest)
        return is_raised

    def _follow_rows(self) -> None:
        """Confirm the shards that were opened, and release those that this member has stopped or lost."""
        own = self._membership.need()
        for row in self._shards():
            leader = self._leaders[row.number]
            if row.leader != own:
                leader.stop()
            elif leader.state is LeadState.LEADING and row.restoring:
                self._database.confirm(row.number, own)
            elif leader.state is LeadState.IDLE:
                self._database.release(row.number, own)

    def _shards(self) -> Collection[ShardRow]:
        return () if self._view is None else self._view.shards

    def _note_consumers(self) -> None:
        """Write whose clients alone have consumed from this member's shards for some time, so that their leaders follow them."""
        follow_ms, now_ms = self._settings.follow_ms, self._clock.monotonic_ms()
        if not follow_ms or now_ms < self._look_at_consumers_ms:
            return
        self._look_at_consumers_ms = now_ms + min(_CONSUMERS_MS, follow_ms)
        own = self._membership.need()
        brokers = self.brokers()
        for row in self._shards():
            if row.leader != own or row.number not in brokers:
                self._consuming.pop(row.number, None)
                continue
            members = {each or self._settings.member for each in self._links.consuming(brokers[row.number])}
            found = members.pop() if len(members) == 1 else None
            known, since_ms = self._consuming.get(row.number, (None, now_ms))
            if found != known:
                since_ms = now_ms
            self._consuming[row.number] = found, since_ms
            # What is known stays until something else has lasted as long: a new leader's consumers come one after the other.
            if found != row.consumers and now_ms - since_ms >= follow_ms:
                self._database.note_consumers(row.number, own, found)

    def _move(self) -> None:
        """Take shards over, or hand one over."""
        view = self._view
        assert view is not None, "it was just read"
        own = self._membership.need()
        members = [
            # Stores are of the cluster's format, and a newer member would write its own.
            Candidate(
                incarnation=each.incarnation,
                name=each.name,
                is_leaving=each.is_leaving or each.format > view.format,
            )
            for each in view.members
            if each.is_alive
        ]
        leaders = {each.number: each.leader for each in view.shards}
        pinned = with_following(
            members,
            leaders,
            {each.number: each.pinned for each in view.shards if each.pinned is not None},
            {each.number: each.consumers for each in view.shards if each.consumers is not None},
        )
        wanted = [number for number in shards_to_take(own, members, leaders, pinned) if self._leaders[number].may_open]
        if wanted:
            claimed = self._database.claim(wanted, own)
            if claimed:
                self._placings.read()  # after the claim: what is placed later, this leader is asked about
            for number in claimed:
                self._leaders[number].open(self._shard_settings(number, own))
        moving = [
            each.number for each in view.shards if (each.leader is None or each.restoring) and each.age_ms < _MOVING_MS
        ]
        if not any(leader.state is LeadState.STOPPING for leader in self._leaders.values()):
            for number in shards_to_hand_over(own, members, leaders, moving, pinned)[:1]:
                self._leaders[number].stop(program_ends=self._program_ends)

    def _shard_settings(self, number: int, incarnation: str) -> BrokerSettings:
        settings = self._settings.broker
        assert settings.store is not None, "the settings were checked"
        memory = max(_MEMORY_LEAST, settings.store.memory_bytes // self._facts.shards)
        url = self._database.store_url(number, incarnation)
        # Members do not stand by for a store: the rows say who opens it.
        store = replace(
            settings.store,
            url=url,
            memory_bytes=memory,
            stand_by=StandBy.REFUSE,
            wait_ms=0,
            held_until_s=partial(self._membership.held_until_s, incarnation),
        )
        story = settings.story
        if story is not None:
            directory = story.directory / f"shard-{number}"
            story = replace(story, directory=directory, total_bytes=story.total_bytes // self._facts.shards)
        return replace(settings, store=store, policy=_of_parts(settings), story=story)

    def _settle(self) -> None:
        """Settle branches, until the member stops."""
        while not self._is_stopping:
            try:
                self._decisions.flush()
                own = self._membership.incarnation
                if own is not None:
                    self._resolver.settle(self.brokers(), own)
            except ProviderError as error:
                _log.info("branches are settled later: %s", error.reason)
            except Exception:
                # The top of a thread: without it branches would stay prepared, and keep messages.
                _log.exception("PYJMS-CLUSTER-5 member %s has met an error of pyjms", self._settings.member)
            self._clock.wait(self._settling_wake, self._clock.monotonic_ms() + _RESOLVE_MS)

    # The end

    def stop(self, *, program_ends: bool = False) -> None:
        """Hand all shards over, leave the cluster, and end all connections. May be repeated. program_ends: see `EmbeddedBroker.stop`."""
        with self._lock:
            self._program_ends = self._program_ends or program_ends
            self._is_stopping = True
        self._decisions.close()
        self._settling_wake.set()
        self._changed()
        if current_thread() is not self._thread:
            self._thread.join(_STOPPING_S)

    def abandon(self) -> None:
        """End as at the death of the process: hand nothing over, write nothing more, and leave the row to the others. May be repeated.

        Cut the connections of its network first: clients of a process that dies hear nothing from it.
        """
        with self._lock:
            self._is_abandoned = self._is_stopping = True
        own = self._membership.incarnation
        for leader in self._leaders.values():
            leader.abandon(LostStoreError(f"member {self._settings.member} was abandoned"))
        if own is not None:
            with suppress(StoreError):  # the others find out that there is no heartbeat
                self._database.end_sessions(own)
        self.stop()

    def _leave(self) -> None:
        """The last work of the thread."""
        try:
            self._settling.join(_STOPPING_S)
            if not self._is_abandoned:
                self._hand_all_over()
        except ProviderError as error:
            _log.warning(
                "PYJMS-CLUSTER-2 member %s leaves without its cluster: %s", self._settings.member, error.reason
            )
        finally:
            self._end()

    def _hand_all_over(self) -> None:
        """Hand the shards over, one after the other. Raises `StoreError`."""
        own = self._membership.incarnation
        if own is None:
            return
        self._database.announce_leaving(own)
        self._decisions.flush()
        until_ms = self._clock.monotonic_ms() + _LEAVING_MS
        for number, leader in self._leaders.items():
            leader.stop(program_ends=self._program_ends)
            while leader.state is not LeadState.IDLE and self._clock.monotonic_ms() < until_ms:
                self._membership.keep()
                self._clock.wait(self._wake, self._clock.monotonic_ms() + _POLL_MS)
            if leader.state is LeadState.IDLE:
                self._database.release(number, own)

    def _end(self) -> None:
        for leader in self._leaders.values():
            leader.stop(program_ends=self._program_ends)
        until_ms = self._clock.monotonic_ms() + _LEAVING_MS
        while any(leader.state is not LeadState.IDLE for leader in self._leaders.values()):
            if self._clock.monotonic_ms() >= until_ms:
                break
            self._clock.wait(self._wake, self._clock.monotonic_ms() + _POLL_MS)
        try:
            if self._is_abandoned:
                self._membership.lose()
            else:
                self._membership.leave()
        except StoreError as error:
            _log.info(
                "the row of member %s stays until another one deletes it: %s", self._settings.member, error.reason
            )
        self._front.stop(program_ends=self._program_ends)
        with self._lock:
            links, self._open_links = self._open_links, []
        for _, link in links:
            link.close()
        self._link_port.close()
        self._database.close()


def front_settings(settings: BrokerSettings) -> BrokerSettings:
    """Return the settings of the broker in memory of a member whose shards have those settings."""
    story = settings.story
    if story is not None:
        story = replace(story, directory=story.directory / "front")
    return BrokerSettings(policy=_of_parts(settings), story=story)


def _of_parts(settings: BrokerSettings) -> HostPolicy:
    """Return the policy of a broker that has parts of queues: where the parts are is no matter of its own."""
    return replace(settings.policy, queues=settings.policy.queues.undivided())


class _Unheard:
    def on_exception(self, error: ProviderError) -> None:
        """Ignore it: the call on the connection raises it."""


def _facts_of(view: ClusterView) -> object:
    """Return what matters to connections."""
    members = [(each.incarnation, each.address, each.is_alive) for each in view.members]
    return members, [(each.leader, each.restoring) for each in view.shards]


def _member_status(row: MemberRow, shards: Collection[ShardRow], older_ms: int) -> MemberStatus:
    return MemberStatus(
        name=row.name,
        incarnation=row.incarnation,
        version=row.version,
        address=row.address,
        joined_ms=row.joined_ms,
        heartbeat_age_ms=row.heartbeat_age_ms + older_ms,
        is_alive=row.is_alive,
        is_leaving=row.is_leaving,
        shards=tuple(each.number for each in shards if each.leader == row.incarnation),
        format=row.format,
    )
