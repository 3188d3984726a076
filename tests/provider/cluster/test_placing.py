"""Queues that an operator places in other shards, and divides into partitions, while clients of several members use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

import pytest

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationInUseError, InDoubtError, ProviderError, ResourceError
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_provider.cluster.errors import ClusterError
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.settings import BrokerSettings, StoreSettings
from tests.provider.cluster.world import LONG_MS, SHARDS, ClusterWorld, counts, wait_until
from tests.provider.helpers import RecordedEvents, make_envelope

ORDERS = Address(AddressKind.QUEUE, "orders")
MESSAGES = 40
_FROM_ORDERS = SubscribeRequest(address=ORDERS, selector=None, no_local=False, durable_name=None)
pytestmark = pytest.mark.requires("postgresql")


@contextmanager
def connected(member: ClusterMember) -> Iterator[ClusterConnection]:
    connection = ClusterConnection(member, RecordedEvents(), SystemClock())
    try:
        connection.start()
        yield connection
    finally:
        connection.close()


def send(session: ClusterSession, *texts: str, **properties: str) -> None:
    for each in texts:
        session.send(make_envelope(each, destination=ORDERS, persistent=True, properties=properties))


class Receiving:
    """A consumer of the queue, which waits for messages."""

    def __init__(self, session: ClusterSession) -> None:
        self.session = session
        self._ready = Signal()
        self.consumer: ProviderConsumer = session.subscribe(_FROM_ORDERS, self._ready.set)

    def take(self) -> Delivery:
        """Receive and acknowledge one message."""
        clock = SystemClock()
        until_ms = clock.monotonic_ms() + LONG_MS
        while (found := self.consumer.poll_or_wait()) is None:
            assert clock.monotonic_ms() < until_ms, "there are no more messages"
            clock.wait(self._ready, until_ms)
        self.session.acknowledge([found])
        return found

    def texts(self, many: int) -> list[str]:
        return [str(self.take().envelope.body) for _ in range(many)]


@pytest.fixture
def members(world: ClusterWorld) -> tuple[ClusterMember, ClusterMember]:
    first, second = world.start("first"), world.start("second")
    wait_until(lambda: counts(first) == counts(second) == [SHARDS // 2] * 2)
    return first, second


def depths(*members: ClusterMember) -> dict[int, int]:
    """Return how many messages each shard has in the queue, where it is."""
    found = {number: broker for each in members for number, broker in each.brokers().items()}
    queues = {number: broker.virtual_host.find_queue("orders") for number, broker in found.items()}
    return {number: len(queue.browse()) for number, queue in queues.items() if queue is not None}


def other_shard(member: ClusterMember) -> int:
    """Return a shard of another leader than the queue's."""
    shards = member.status().shards
    now = member.placement.shard_of(AddressKind.QUEUE, "orders")
    return next(each.number for each in shards if each.leader != shards[now].leader)


class TestPlacing:
    def test_a_queue_goes_where_an_operator_says_and_stays_there(
        self, world: ClusterWorld, members: tuple[ClusterMember, ClusterMember]
    ) -> None:
        first, second = members
        home, there = first.placement.shard_of(AddressKind.QUEUE, "orders"), other_shard(first)
        first.place_queue("orders", [there])
        assert [(each.name, each.shards) for each in first.status().placed] == [("orders", (there,))]
        with connected(second) as connection:
            send(connection.open_session(transacted=False), "placed")
        assert depths(*members) == {there: 1}
        with pytest.raises(DestinationInUseError, match="1 message"):
            second.place_queue("orders", [home])
        second.stop()
        wait_until(lambda: len(first.brokers()) == SHARDS)
        with connected(first) as connection:
            receiving = Receiving(connection.open_session(transacted=False))
            assert receiving.texts(1) == ["placed"]
            with pytest.raises(DestinationInUseError, match="1 consumer"):
                first.place_queue("orders", [home])
        wait_until(lambda: not first.brokers()[there].virtual_host.queue("orders").consumer_count)
        first.place_queue("orders", [home])
        assert first.status().placed == []
        assert world.execute("SELECT name FROM shop.pyjms_placing") == []

    def test_what_a_transaction_has_sent_holds_a_queue(self, members: tuple[ClusterMember, ClusterMember]) -> None:
        first, second = members
        there = other_shard(first)
        with connected(second) as connection:
            session = connection.open_session(transacted=True)
            send(session, "not committed yet")
            # Over a link, a session's sends may be under way.
            wait_until(lambda: self._is_refused(first, there))
            session.commit()
            assert sum(depths(*members).values()) == 1

    @staticmethod
    def _is_refused(member: ClusterMember, shard: int) -> bool:
        try:
            member.place_queue("orders", [shard])
        except DestinationInUseError:
            return True
        member.place_queue("orders", [member.placement.hashed(AddressKind.QUEUE, "orders")])
        return False

    def test_a_member_that_does_not_answer_leaves_the_queue_where_it_is(
        self, world: ClusterWorld, members: tuple[ClusterMember, ClusterMember]
    ) -> None:
        first, _ = members
        world.execute(
            "INSERT INTO shop.pyjms_placing VALUES ('orders', 'other', 'somebody', '{0}', '{1}', '{}', '{}', NULL)"
        )
        with pytest.raises(ResourceError, match="by somebody else"):
            first.place_queue("orders", [other_shard(first)])

    def test_nothing_is_lost_or_left_behind_while_a_queue_moves_under_senders(
        self, members: tuple[ClusterMember, ClusterMember]
    ) -> None:
        first = members[0]
        with ExitStack() as ends:
            sessions = [
                ends.enter_context(connected(member)).open_session(transacted=False)
                for member in members
                for _ in range(2)
            ]
            gate, failed = Event(), list[BaseException]()

            def go_on(number: int, session: ClusterSession) -> None:
                try:
                    gate.wait()
                    for each in range(MESSAGES):
                        send(session, f"{number} {each}")
                except ProviderError as error:
                    failed.append(error)

            threads = [Thread(target=go_on, args=pair) for pair in enumerate(sessions)]
            for each in threads:
                each.start()
            mover = Thread(target=lambda: self._is_refused(first, other_shard(first)))
            mover.start()
            gate.set()
            for each in (*threads, mover):
                each.join()
            assert not failed
            receiving = Receiving(ends.enter_context(connected(members[1])).open_session(transacted=False))
            texts = receiving.texts(MESSAGES * len(sessions))
        for number in range(len(sessions)):
            own = [each for each in texts if each.startswith(f"{number} ")]
            assert own == [f"{number} {each}" for each in range(MESSAGES)]
        assert sum(depths(*members).values()) == 0

    @pytest.mark.parametrize("transacted", [False, True])
    def test_who_finds_a_queue_elsewhere_asks_again(
        self,
        members: tuple[ClusterMember, ClusterMember],
        monkeypatch: pytest.MonkeyPatch,
        transacted: bool,
    ) -> None:
        home = members[0].placement.shard_of(AddressKind.QUEUE, "orders")
        leader, other = members if home in members[0].brokers() else reversed(members)
        host = leader.brokers()[home].virtual_host
        for member in (other, leader):  # over a link, and without one
            monkeypatch.setattr(member, "await_placed", host.admit_queue)
            with connected(member) as connection:
                session = connection.open_session(transacted=transacted)
                host.retire_queue("orders")
                send(session, "sent again")
                if transacted:
                    session.commit()
                receiving = Receiving(connection.open_session(transacted=False))
                assert receiving.texts(1) == ["sent again"]
                receiving.consumer.close()
                wait_until(lambda: not host.queue("orders").consumer_count)
                host.retire_queue("orders")
                Receiving(connection.open_session(transacted=False))
                assert "orders" not in host.retired_queues
            wait_until(lambda: not host.queue("orders").consumer_count)


class TestPartitions:
    def test_a_session_and_a_group_stay_in_one_partition_and_consumers_see_one_queue(
        self, members: tuple[ClusterMember, ClusterMember]
    ) -> None:
        members[0].place_queue("orders", range(SHARDS))
        with ExitStack() as ends:
            sessions = [
                ends.enter_context(connected(member)).open_session(transacted=False)
                for member in members
                for _ in range(SHARDS // 2)
            ]
            for number in range(5):
                for at, session in enumerate(sessions):
                    send(session, f"{at} {number}")
            found = depths(*members)
            assert sum(found.values()) == 5 * SHARDS
            assert set(found.values()) <= {5, 10}, "each session's messages are in one of them"
            browsed = [str(each.envelope.body) for each in sessions[0].browse(ORDERS, None)]
            assert len(browsed) == 5 * SHARDS
            texts = Receiving(sessions[0]).texts(5 * SHARDS)
            for order in (browsed, texts):
                for at in range(SHARDS):
                    own = [each for each in order if each.startswith(f"{at} ")]
                    assert own == [f"{at} {number}" for number in range(5)]

    def test_a_message_that_another_session_sends_again_is_found(
        self, members: tuple[ClusterMember, ClusterMember]
    ) -> None:
        members[0].place_queue("orders", range(SHARDS))
        with connected(members[0]) as one, connected(members[1]) as other:
            for connection in (one, other, one):
                for number in range(SHARDS):
                    session = connection.open_session(transacted=False)
                    send(session, f"{number}", JMS_pyjms_duplicateId=f"id {number}")
        assert sum(depths(*members).values()) == SHARDS
        assert len(depths(*members)) > 1

    def test_transactions_cover_partitions(self, members: tuple[ClusterMember, ClusterMember]) -> None:
        members[0].place_queue("orders", range(SHARDS))
        with connected(members[0]) as connection:
            unit = connection.open_session(transacted=True)
            for group in "abcdefgh":
                send(unit, group, JMSXGroupID=group)
            unit.rollback()
            for group in "abcdefgh":
                send(unit, group, JMSXGroupID=group)
            unit.commit()
            assert sum(depths(*members).values()) == 8
            assert len(depths(*members)) > 1
            reader = Receiving(connection.open_session(transacted=True))
            assert Counter(reader.texts(8)) == Counter("abcdefgh")
            reader.session.rollback()

    def test_the_others_go_on_when_the_leader_of_a_partition_is_killed(self, world: ClusterWorld) -> None:
        killed = world.start_process("killed")
        first = world.start("first")
        wait_until(lambda: counts(first) == [SHARDS // 2] * 2)
        first.place_queue("orders", range(SHARDS))
        with connected(first) as connection:
            here = list(first.brokers())
            sessions = [connection.open_session(transacted=False) for _ in range(SHARDS)]
            for at, session in enumerate(sessions):
                send(session, f"{at} before")
            local = [session for at, session in enumerate(sessions) if self._home(session) in here]
            assert local
            killed.kill()
            for session in local:
                send(session, "at once")
            assert len(first.brokers()) < SHARDS, "the killed one's are not led yet"
            for at, session in enumerate(sessions):
                self._send_again(session, f"{at} after")
            texts = Receiving(sessions[0]).texts(2 * SHARDS + len(local))
        for at in range(SHARDS):
            own = [each for each in texts if each.startswith(f"{at} ")]
            assert own == [f"{at} before", f"{at} after"]

    @staticmethod
    def _send_again(session: ClusterSession, text: str) -> None:
        """Send a message, a second time if the link has only now found that the leader is dead, which has kept nothing."""
        try:
            send(session, text)
        except InDoubtError:
            send(session, text)

    @staticmethod
    def _home(session: ClusterSession) -> int:
        from pyjms_provider.cluster.placement import ShardPlace

        [part] = session.parts()
        assert isinstance(part.shard.place, ShardPlace)
        return part.shard.place.number

    def test_what_partitions_cannot_keep_is_refused(self, world: ClusterWorld) -> None:
        queues = QueuePolicies(default=QueuePolicy(exclusive=True))
        broker = BrokerSettings(store=StoreSettings(url=world.url), policy=HostPolicy(queues=queues))
        first = world.start("first", broker=broker)
        assert first.await_leaders(LONG_MS)
        with pytest.raises(DestinationInUseError, match="exclusive"):
            first.place_queue("orders", [0, 1])


class TestPartitionsByPolicy:
    """Queues that the members' configuration divides."""

    def start(self, world: ClusterWorld, name: str, partitions: int = SHARDS) -> ClusterMember:
        queues = QueuePolicies(patterns=(("order*", QueuePolicy(partitions=partitions, max_messages=100)),))
        broker = BrokerSettings(store=StoreSettings(url=world.url), policy=HostPolicy(queues=queues))
        return world.start(name, broker=broker)

    @pytest.fixture
    def members(self, world: ClusterWorld) -> tuple[ClusterMember, ClusterMember]:
        first, second = self.start(world, "first"), self.start(world, "second")
        wait_until(lambda: counts(first) == counts(second) == [SHARDS // 2] * 2)
        return first, second

    def test_a_queue_is_divided_at_its_first_use_whoever_is_the_first(
        self, members: tuple[ClusterMember, ClusterMember]
    ) -> None:
        gate, failed = Event(), list[BaseException]()

        def go_on(number: int, session: ClusterSession) -> None:
            try:
                gate.wait()
                send(session, *(f"{number} {each}" for each in range(3)))
            except ProviderError as error:
                failed.append(error)

        with ExitStack() as ends:
            sessions = [
                ends.enter_context(connected(member)).open_session(transacted=False)
                for member in members
                for _ in range(SHARDS)
            ]
            threads = [Thread(target=go_on, args=pair) for pair in enumerate(sessions)]
            for each in threads:
                each.start()
            gate.set()
            for each in threads:
                each.join()
            assert not failed
            assert [(each.name, each.shards) for each in members[0].status().placed] == [("orders", (0, 1, 2, 3))]
            found = depths(*members)
            assert sum(found.values()) == 6 * SHARDS
            assert set(found) == set(range(SHARDS))
            assert len([number for number in found.values() if number]) > 1
            texts = Receiving(sessions[0]).texts(6 * SHARDS)
        for number in range(len(sessions)):
            own = [each for each in texts if each.startswith(f"{number} ")]
            assert own == [f"{number} {each}" for each in range(3)]
        policies = {
            broker.virtual_host.queue("orders").policy for each in members for broker in each.brokers().values()
        }
        assert policies == {QueuePolicy(max_messages=100)}

    def test_a_consumer_may_be_the_first_and_other_queues_stay_whole(
        self, members: tuple[ClusterMember, ClusterMember]
    ) -> None:
        plain = Address(AddressKind.QUEUE, "plain")
        with connected(members[0]) as one, connected(members[1]) as other:
            receiving = Receiving(one.open_session(transacted=False))
            assert set(depths(*members)) == set(range(SHARDS))
            session = other.open_session(transacted=False)
            send(session, "espresso")
            assert receiving.texts(1) == ["espresso"]
            session.send(make_envelope("ristretto", destination=plain, persistent=True))
        assert [each.name for each in members[0].status().placed] == ["orders"]

    def test_a_queue_that_is_there_already_stays_as_it_is(self, world: ClusterWorld) -> None:
        first = world.start("first")
        assert first.await_leaders(LONG_MS)
        with connected(first) as connection:
            send(connection.open_session(transacted=False), "before")
        first.stop()
        later = self.start(world, "later")
        assert later.await_leaders(LONG_MS)
        with connected(later) as connection:
            session = connection.open_session(transacted=False)
            send(session, "after")
            assert Receiving(session).texts(2) == ["before", "after"]
        assert later.status().placed == []
        home = later.placement.hashed(AddressKind.QUEUE, "orders")
        wait_until(lambda: not later.brokers()[home].virtual_host.queue("orders").consumer_count)
        later.place_queue("orders", range(2))
        assert [each.shards for each in later.status().placed] == [(0, 1)]

    def test_what_an_operator_says_comes_first(self, members: tuple[ClusterMember, ClusterMember]) -> None:
        home = members[0].placement.hashed(AddressKind.QUEUE, "orders")
        members[0].place_queue("orders", [home])
        with connected(members[1]) as connection:
            send(connection.open_session(transacted=False), "whole")
        assert depths(*members) == {home: 1}
        assert [each.shards for each in members[1].status().placed] == [(home,)]

    def test_more_partitions_than_shards_are_refused(self, world: ClusterWorld) -> None:
        with pytest.raises(ClusterError, match=f"partitions={SHARDS + 1}, and the cluster {SHARDS} shards"):
            self.start(world, "first", SHARDS + 1)

    def test_a_placing_that_has_ended_since_it_was_looked_up_is_seen(
        self, members: tuple[ClusterMember, ClusterMember], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = members
        tables = second._placings._database
        looked_up = tables.placements

        def too_early() -> object:
            found = looked_up()
            monkeypatch.setattr(tables, "placements", looked_up)
            first.place_queue("orders", [0, 1])
            return found

        monkeypatch.setattr(tables, "placements", too_early)
        with pytest.raises(ResourceError, match="by somebody else"):
            second._placings.place("orders", [2, 3], "second", lambda *_: False, lambda: None)
        assert first.placement.shards_of(AddressKind.QUEUE, "orders") == (0, 1)


class TestFollowing:
    def test_a_leader_follows_its_consumers_and_another_one_comes_back(self, world: ClusterWorld) -> None:
        first, second = (world.start(name, follow_ms=200) for name in ("first", "second"))
        wait_until(lambda: counts(first) == counts(second) == [SHARDS // 2] * 2)
        home = first.placement.shard_of(AddressKind.QUEUE, "orders")
        leader, other = (first, second) if home in first.brokers() else (second, first)
        with connected(other) as connection:
            receiving = Receiving(connection.open_session(transacted=False))
            wait_until(lambda: home in other.brokers())
            wait_until(lambda: counts(other) == counts(leader) == [SHARDS // 2] * 2)
            assert home in other.brokers()
            with connected(leader) as sending:
                send(sending.open_session(transacted=False), "after the move")
            assert receiving.texts(1) == ["after the move"]
