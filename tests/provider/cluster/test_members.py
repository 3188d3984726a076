"""Members of a cluster over a real PostgreSQL: who leads what, when members come, go, die, and are stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ClosedError, DestinationError, ResourceError
from pyjms.spi.provider import ProviderConnection
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.placement import FrontPlace, ShardPlace
from pyjms_provider.cluster.settings import LinkSettings, LinkTls
from pyjms_provider.settings import BrokerSettings, StoreSettings
from tests.provider.cluster.world import LEASE_MS, LONG_MS, SHARDS, ClusterWorld, counts, leaders, wait_until
from tests.provider.helpers import RecordedEvents, make_envelope
from tests.provider.postgresql import PostgresqlServer
from tests.provider.transport.certificates import Authority


def send(connection: ProviderConnection, queue: str, text: str) -> None:
    session = connection.open_session(transacted=False)
    session.send(make_envelope(text, destination=Address(AddressKind.QUEUE, queue), persistent=True))
    session.close()


def stored(world: ClusterWorld, shard: int) -> int:
    """Return how many messages a shard's store has."""
    [[found]] = world.execute(f"SELECT count(*) FROM shop_{shard}.pyjms_message")
    assert isinstance(found, int)
    return found


def balanced(*members: ClusterMember) -> bool:
    share = SHARDS // len(members)
    return all(counts(each) == [share] * len(members) for each in members)


class TestMembers:
    def test_the_first_member_makes_the_cluster_and_leads_all(self, world: ClusterWorld) -> None:
        first = world.start("first")
        assert first.await_leaders(LONG_MS)
        assert leaders(first) == dict.fromkeys(range(SHARDS), "first")
        wait_until(lambda: sorted(first.brokers()) == list(range(SHARDS)))
        assert [each.name for each in first.brokers().values()] == [f"shop.{n}" for n in range(SHARDS)]
        status = first.status()
        assert (status.name, status.virtual_host, status.undecided) == ("shop", "shop", 0)
        [member] = status.members
        assert (member.name, member.incarnation, member.address) == ("first", first.incarnation, first.address)
        assert member.is_alive
        assert member.shards == tuple(range(SHARDS))

    def test_a_member_that_joins_gets_its_share_and_gives_it_back(self, world: ClusterWorld) -> None:
        first = world.start("first")
        assert first.await_leaders(LONG_MS)
        second = world.start("second")
        wait_until(lambda: balanced(first, second))
        assert not first.brokers().keys() & second.brokers().keys()
        third = world.start("third")
        wait_until(lambda: counts(third) == [1, 1, 2])
        third.stop()
        second.stop()
        assert first.await_leaders(LONG_MS)
        wait_until(lambda: len(first.brokers()) == SHARDS)
        assert [each.name for each in first.status().members] == ["first"]

    def test_an_operator_moves_a_leader(self, world: ClusterWorld) -> None:
        first, second = world.start("first"), world.start("second")
        wait_until(lambda: balanced(first, second))
        moved = min(first.brokers())
        first.move_leader(moved, "second")
        wait_until(lambda: moved in second.brokers() and len(second.brokers()) == SHARDS // len((first, second)))
        assert second.status().shards[moved].pinned == "second"
        second.stop()
        wait_until(lambda: moved in first.brokers())  # while its member is gone, it is led by another one
        again = world.start("second")
        wait_until(lambda: moved in again.brokers())
        with pytest.raises(ResourceError, match="no living member 'third'"):
            first.move_leader(moved, "third")
        with pytest.raises(DestinationError, match=f"and no {SHARDS}"):
            first.move_leader(SHARDS, "second")

    def test_messages_stay_where_their_shard_goes(self, world: ClusterWorld) -> None:
        first = world.start("first")
        connection = first.connect(ShardPlace(SHARDS - 1), RecordedEvents())
        send(connection, "orders", "1")
        second = world.start("second")
        wait_until(lambda: SHARDS - 1 in second.brokers())
        queue = second.brokers()[SHARDS - 1].virtual_host.find_queue("orders")
        assert queue is not None
        assert len(queue.browse()) == 1

    def test_a_stopped_member_connects_nobody(self, world: ClusterWorld) -> None:
        first = world.start("first")
        assert first.await_leaders(LONG_MS)
        events = RecordedEvents()
        connection = first.connect(ShardPlace(0), events)
        first.stop()
        first.stop()
        with pytest.raises(ClosedError):
            first.connect(ShardPlace(0), events)
        with pytest.raises(ClosedError):
            connection.open_session(transacted=False)
        assert world.execute("SELECT * FROM shop.pyjms_member") == []


class TestLinks:
    def test_members_with_certificates_of_one_authority_reach_each_other_and_others_do_not(
        self, world: ClusterWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        authority = Authority(tmp_path)

        def member(name: str, signed_by: Authority) -> ClusterMember:
            identity = signed_by.sign(name)
            tls = LinkTls(certificate=identity.certificate, key=identity.key, authorities=authority.file)
            return world.start(name, link=LinkSettings(tls=tls), leader_wait_ms=1_000)

        first, second = member("first", authority), member("second", authority)
        wait_until(lambda: balanced(first, second))
        shard = min(second.brokers())
        connection = first.connect(ShardPlace(shard), RecordedEvents())
        send(connection, "orders", "1")
        assert stored(world, shard) == 1
        connection.close()
        stranger = member("stranger", Authority(tmp_path, "other"))
        plain = world.start("plain", leader_wait_ms=1_000)
        wait_until(lambda: balanced(first, second, stranger, plain))
        shard = min(second.brokers())
        for refused in (stranger, plain):
            with pytest.raises(ResourceError, match=f"no leader of shard {shard}"):
                refused.connect(ShardPlace(shard), RecordedEvents())
            assert refused.status().failed_connections == 1
        told = f"did not reach shard {shard}, which second leads at {second.address}: "
        assert [each.split(told)[0] for each in caplog.messages if told in each] == [
            f"PYJMS-CLUSTER-11 a client of member {name} " for name in ("stranger", "plain")
        ]

    def test_a_link_follows_the_leader(self, world: ClusterWorld) -> None:
        first, second = world.start("first"), world.start("second")
        wait_until(lambda: balanced(first, second))
        shard = min(second.brokers())
        connection = first.connect(ShardPlace(shard), RecordedEvents())
        send(connection, "orders", "1")
        assert stored(world, shard) == 1
        second.stop()
        send(connection, "orders", "2")
        assert stored(world, shard) == 2
        assert shard in first.brokers()
        connection.close()

    def test_a_connection_in_the_process_ends_when_its_shard_goes(self, world: ClusterWorld) -> None:
        first = world.start("first")
        events = RecordedEvents()
        first.connect(ShardPlace(SHARDS - 1), events)
        world.start("second")
        wait_until(lambda: bool(events.errors))
        again = first.connect(ShardPlace(SHARDS - 1), RecordedEvents())
        send(again, "orders", "1")
        again.close()

    def test_the_front_of_another_member_is_reached(self, world: ClusterWorld) -> None:
        first, second = world.start("first"), world.start("second")
        wait_until(lambda: len(first.status().members) == 2)
        here = second.connect(FrontPlace(second.front.run_id), RecordedEvents())
        replies = here.create_temporary(AddressKind.QUEUE)
        there = first.connect(FrontPlace(second.front.run_id), RecordedEvents())
        session = there.open_session(transacted=False)
        session.send(make_envelope("a reply", destination=replies))
        there.close()
        second.stop()
        wait_until(lambda: len(first.status().members) == 1)
        with pytest.raises(DestinationError):
            first.connect(FrontPlace(second.front.run_id), RecordedEvents())


class TestDeath:
    def test_the_shards_of_a_killed_member_are_led_by_the_others(self, world: ClusterWorld) -> None:
        first, second = world.start("first"), world.start("second")
        killed = world.start_process("killed")
        wait_until(lambda: counts(first) == [1, 1, 2])
        led = killed.ask("led")
        killed.kill()
        wait_until(lambda: balanced(first, second))
        assert set(led) <= first.brokers().keys() | second.brokers().keys()
        # A process of that name may come again at once.
        world.start_process("killed")

    def test_a_stopped_process_leads_nothing_when_it_goes_on(self, world: ClusterWorld) -> None:
        first = world.start("first")
        stopped = world.start_process("stopped")
        wait_until(lambda: counts(first) == [2, 2])
        shard = min(stopped.ask("led"))
        stopped.ask(f"open {shard}")
        assert stopped.ask(f"send {shard} orders 1") == "sent"
        incarnation = stopped.ask("incarnation")
        stopped.freeze()
        wait_until(lambda: counts(first) == [SHARDS])
        send(first.connect(ShardPlace(shard), RecordedEvents()), "orders", "2")
        stopped.thaw()
        assert stopped.ask(f"send {shard} orders 3") != "sent"
        assert stored(world, shard) == 2
        wait_until(lambda: counts(first) == [2, 2])
        assert stopped.ask("incarnation") != incarnation

    def test_a_member_without_its_lock_keeps_its_shards(self, world: ClusterWorld) -> None:
        first, second = world.start("first"), world.start("second")
        wait_until(lambda: balanced(first, second))
        incarnation, terms = first.incarnation, [each.terms for each in first.status().shards]
        world.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
        )
        wait_until(lambda: len(held(world)) == 2, "both take their locks again")
        assert first.incarnation == incarnation
        assert [each.terms for each in first.status().shards] == terms

    def test_a_member_whose_row_is_deleted_joins_again(self, world: ClusterWorld) -> None:
        first = world.start("first")
        assert first.await_leaders(LONG_MS)
        incarnation = first.incarnation
        world.execute("UPDATE shop.pyjms_shard SET leader = NULL")
        world.execute("DELETE FROM shop.pyjms_member")
        wait_until(lambda: first.incarnation not in (None, incarnation))
        wait_until(lambda: len(first.brokers()) == SHARDS)


def held(world: ClusterWorld) -> list[object]:
    """Return the processes of the server that hold the locks of members."""
    return [
        pid
        for [pid] in world.execute(
            "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database() "
            "WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
        )
    ]


class TestServer:
    def test_a_restart_of_postgresql_changes_no_leader(self, world: ClusterWorld) -> None:
        first, second = world.start("first"), world.start("second")
        wait_until(lambda: balanced(first, second))
        before, incarnations = leaders(first), [first.incarnation, second.incarnation]
        world.server.stop("immediate")
        world.server.start()
        wait_until(lambda: len(held(world)) == 2)
        for number in range(SHARDS):
            send(first.connect(ShardPlace(number), RecordedEvents()), "orders", "1")
        assert leaders(first) == before
        assert [first.incarnation, second.incarnation] == incarnations

    def test_a_member_that_starts_together_with_postgresql_waits_until_its_former_row_is_over(
        self, world: ClusterWorld
    ) -> None:
        """As after a loss of power: no session can show any more that the former process is dead."""
        lease_ms = 2 * LEASE_MS
        world.start("first", lease_ms=lease_ms).abandon()
        world.server.stop("immediate")
        world.server.start()
        again = world.start("first", lease_ms=lease_ms)
        assert again.await_leaders(LONG_MS)

    def test_a_member_over_a_copy_of_the_database_never_reaches_those_over_the_first_one(
        self, world: ClusterWorld
    ) -> None:
        """Their rows have come along, and look alive for a lease; the secret of the cluster is the same."""
        first = world.start("first")
        assert first.await_leaders(LONG_MS)
        copied = PostgresqlServer(world.server)
        url = world.url.replace(f":{world.server.port}/", f":{copied.port}/")
        try:
            second = world.start("second", broker=BrokerSettings(store=StoreSettings(url=url)))
            send(second.connect(ShardPlace(0), RecordedEvents()), "orders", "1")
            assert first.brokers()[0].virtual_host.queue_names() == []
            assert second.brokers()[0].virtual_host.queue_names() == ["orders"]
            second.stop()
        finally:
            copied.remove()

    def test_without_postgresql_for_longer_than_the_lease_nothing_is_served(self, world: ClusterWorld) -> None:
        first = world.start("first", lease_ms=LEASE_MS // 2, leader_wait_ms=LONG_MS)
        assert first.await_leaders(LONG_MS)
        incarnation = first.incarnation
        world.server.stop("immediate")
        try:
            wait_until(lambda: first.incarnation is None)
            assert first.trouble is not None
            wait_until(lambda: not first.brokers())
        finally:
            world.server.start()
        send(first.connect(ShardPlace(0), RecordedEvents()), "orders", "1")
        assert first.incarnation not in (None, incarnation)
        assert first.trouble is None
