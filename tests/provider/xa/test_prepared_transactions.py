"""A session's local transaction becomes a prepared branch, which any session commits or rolls back."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import BranchError, CapabilityError, ClosedError, InDoubtError, ResourceError, RolledBackError
from pyjms.spi.sessions import ClientTags
from pyjms.spi.xid import BranchFailure
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.transaction.branches import BranchState
from pyjms_provider.stores.volatile import Crash
from tests.provider.clients.world import World
from tests.provider.xa.site import BILLS, ONE, TWO, Party, XaSite, refused

pytestmark = pytest.mark.realises("MOM-10")


def work(site: XaSite, *orders: str) -> Party:
    """Return a session that has received the first order, and sent a bill, in its open transaction."""
    for order in orders or ("order",):
        site.send(order)
    party = site.party()
    party.receive()
    party.send("bill")
    return party


def fail_at(site: XaSite, error: BaseException, point: str) -> None:
    """Have the journal fail at the write of what is prepared."""

    def trap(where: str, changes: Changes) -> None:
        if where == point and changes.prepared is not None:
            raise error

    site.trap = trap


class TestPrepared:
    def test_it_is_seen_when_another_session_commits_it_and_not_before(self, site: XaSite) -> None:
        party = work(site)
        assert party.session.prepare(ONE)
        assert (site.report.state, site.report.sent, site.report.received) == (BranchState.PREPARED, 1, 1)
        assert site.report.prepared_ms == site.hand_clock.now_ms
        assert site.branches.recover() == [ONE]
        assert (site.texts(), site.texts(BILLS)) == ([], [])
        site.session(transacted=True).xa_commit(ONE)
        assert (site.texts(), site.texts(BILLS)) == ([], ["bill"])
        assert not site.branches.reports()
        site.crash()
        assert (site.texts(), site.texts(BILLS)) == ([], ["bill"])

    def test_what_it_received_comes_back_in_its_place_and_marked_when_it_is_rolled_back(self, site: XaSite) -> None:
        party = work(site, *"abc")
        assert party.session.prepare(ONE)
        site.session(transacted=True).xa_rollback(ONE)
        assert site.texts(BILLS) == []
        assert site.drain() == [("a", 2), ("b", 1), ("c", 1)]

    @pytest.mark.parametrize("orderly", [False, True])
    @pytest.mark.parametrize("commits", [False, True])
    def test_it_outlives_session_connection_and_broker(self, site: XaSite, orderly: bool, commits: bool) -> None:
        party = work(site, *"ab")
        assert party.session.prepare(ONE)
        party.session.close()
        assert site.texts() == ["b"]
        site.restart() if orderly else site.crash()
        assert site.branches.recover() == [ONE]
        assert (site.texts(), site.texts(BILLS)) == (["b"], [])
        session = site.session(transacted=True)
        session.xa_commit(ONE) if commits else session.xa_rollback(ONE)
        site.crash()
        assert site.drain(BILLS) == ([("bill", 1)] if commits else [])
        assert site.drain() == ([("b", 1)] if commits else [("a", 2), ("b", 1)])

    def test_the_session_goes_on_in_its_next_transaction(self, site: XaSite) -> None:
        party = work(site, *"ab")
        assert party.session.prepare(ONE)
        party.receive()
        party.send("second")
        assert party.session.prepare(TWO)
        party.send("third")
        party.session.commit()
        assert (site.texts(), site.texts(BILLS)) == ([], ["third"])
        party.session.xa_rollback(ONE)
        party.session.xa_commit(TWO)
        assert sorted(site.texts(BILLS)) == ["second", "third"]
        assert site.drain() == [("a", 2)]

    def test_a_rollback_of_the_next_transaction_leaves_it_alone(self, site: XaSite) -> None:
        party = work(site)
        delivery_of_next = party.session.prepare(ONE)
        assert delivery_of_next
        party.session.rollback()
        assert site.report.state is BranchState.PREPARED
        assert site.texts() == []

    def test_what_changes_nothing_is_over(self, site: XaSite) -> None:
        session = site.session(transacted=True)
        site.points.clear()
        assert session.prepare(ONE) is False
        session.acknowledge([])
        assert session.prepare(ONE) is False
        assert (site.points, site.branches.reports()) == ([], [])

    def test_messages_that_are_lost_with_the_process_are_prepared_too(self, site: XaSite) -> None:
        party = site.party()
        party.send("bill", delivery_mode=1)
        assert party.session.prepare(ONE)
        assert site.texts(BILLS) == []
        party.session.xa_commit(ONE)
        assert site.texts(BILLS) == ["bill"]

    def test_tags_go_with_it(self, site: XaSite) -> None:
        connection = site.connect()
        clients = connection.persistent_sessions()
        incarnation = clients.register("desk").incarnation
        session = connection.open_session(transacted=True)
        session.tag(ClientTags(name="desk", incarnation=incarnation, request="first"))
        assert session.prepare(ONE)
        (client,) = clients.clients()
        assert client.request_tag is None
        site.session(transacted=True).xa_commit(ONE)
        (client,) = clients.clients()
        assert client.request_tag == "first"

    def test_operators_see_and_settle_it(self, site: XaSite) -> None:
        work(site).session.prepare(ONE)
        queue = site.broker.virtual_host.find_queue("bills")
        assert queue is not None
        assert list(site.branches.in_doubt_at(queue)) == [ONE]
        site.branches.settle_heuristically(ONE, commit=True)
        assert site.texts(BILLS) == ["bill"]
        with refused(BranchFailure.HEURISTICALLY_COMMITTED):
            site.session(transacted=True).xa_rollback(ONE)

    def test_it_has_no_time_limit(self, site: XaSite) -> None:
        party = work(site)
        assert party.session.prepare(ONE)
        site.advance(10_000_000)
        assert site.report.state is BranchState.PREPARED

    def test_a_message_that_expires_after_the_promise_stays_until_the_decision(self, site: XaSite) -> None:
        party = site.party()
        party.send("brief", expiration_ms=site.hand_clock.now_ms + 100)
        party.send("bill")
        assert party.session.prepare(ONE)
        site.advance(200)
        site.broker.virtual_host.queue("bills").run_due(site.hand_clock.now_ms)
        assert site.report.sent == 2
        party.session.xa_commit(ONE)
        assert site.texts(BILLS) == ["bill"]


class TestRefused:
    def test_a_name_that_is_taken_rolls_it_back(self, site: XaSite) -> None:
        first, second = work(site), work(site)
        assert first.session.prepare(ONE)
        with refused(BranchFailure.DUPLICATE, "is here already"):
            second.session.prepare(ONE)
        assert second.session.prepare(TWO) is False
        first.session.xa_commit(ONE)
        assert site.texts(BILLS) == ["bill"]
        second.session.close()
        assert site.drain() == [("order", 2)]

    def test_one_name_for_two_transactions_of_a_session(self, site: XaSite) -> None:
        party = work(site, *"ab")
        assert party.session.prepare(ONE)
        party.send("second")
        with refused(BranchFailure.DUPLICATE):
            party.session.prepare(ONE)
        party.session.xa_commit(ONE)
        assert site.texts(BILLS) == ["bill"]

    def test_a_message_that_expired_in_it_rolls_it_back(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        delivery = party.receive()
        party.send("brief", expiration_ms=site.hand_clock.now_ms + 100)
        site.advance(200)
        with pytest.raises(RolledBackError, match="expired"):
            party.session.prepare(ONE)
        assert site.texts() == []
        party.session.recover([delivery])
        assert site.drain() == [("order", 2)]
        assert not site.branches.reports()

    def test_a_transaction_that_took_too_long(self) -> None:
        site = XaSite(policy=HostPolicy(transaction_timeout_ms=1_000))
        try:
            party = work(site)
            site.hand_clock.now_ms += 1_001
            site.broker.virtual_host.time_limit.run_due(site.hand_clock.now_ms)
            with pytest.raises(RolledBackError, match="open for more than"):
                party.session.prepare(ONE)
            assert site.drain() == [("order", 2)]
            assert not site.branches.reports()
            assert party.session.prepare(ONE) is False
        finally:
            site.stop()

    def test_tags_of_a_client_that_has_registered_again(self, site: XaSite) -> None:
        connection = site.connect()
        clients = connection.persistent_sessions()
        incarnation = clients.register("desk").incarnation
        session = connection.open_session(transacted=True)
        session.tag(ClientTags(name="desk", incarnation=incarnation, request="first"))
        site.send("bill", session, BILLS)
        clients.register("desk")
        with pytest.raises(RolledBackError):
            session.prepare(ONE)
        assert (site.branches.reports(), site.texts(BILLS)) == ([], [])

    def test_work_in_a_branch_goes_on(self, site: XaSite) -> None:
        party = site.party()
        party.session.xa_start(ONE)
        party.send("bill")
        with refused(BranchFailure.PROTOCOL):
            party.session.prepare(TWO)
        party.session.xa_end(ONE)
        party.session.xa_commit(ONE, one_phase=True)
        assert site.texts(BILLS) == ["bill"]

    def test_sessions_that_are_not_transacted_or_closed(self, site: XaSite) -> None:
        with pytest.raises(CapabilityError, match="not transacted"):
            site.session().prepare(ONE)
        session = site.session(transacted=True)
        session.close()
        with pytest.raises(ClosedError):
            session.prepare(ONE)

    def test_a_broker_that_keeps_nothing(self, world: World) -> None:
        with pytest.raises(CapabilityError, match=Capability.XA.name):
            world.connect().open_session(transacted=True).prepare(ONE)


class TestWrites:
    def test_what_the_store_refuses_is_rolled_back_and_its_messages_stay_with_the_client(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        delivery = party.receive()
        party.send("bill")
        fail_at(site, ResourceError("no space"), "before write")
        with pytest.raises(RolledBackError, match="no space"):
            party.session.prepare(ONE)
        site.trap = None
        assert (site.texts(), site.texts(BILLS), site.branches.reports()) == ([], [], [])
        party.session.recover([delivery])
        assert site.drain() == [("order", 2)]
        with refused(BranchFailure.UNKNOWN):
            party.session.xa_rollback(ONE)

    @pytest.mark.parametrize("point", ["before write", "after write"])
    def test_what_may_be_written_was_not_promised_and_is_rolled_back(self, site: XaSite, point: str) -> None:
        party = work(site)
        fail_at(site, InDoubtError("no answer"), point)
        with pytest.raises(InDoubtError, match="no answer"):
            party.session.prepare(ONE)
        site.trap = None
        assert site.report.state is BranchState.ROLLBACK_ONLY
        assert site.drain() == [("order", 2)]
        other = site.session(transacted=True)
        other.xa_rollback(ONE)
        assert not site.branches.reports()
        site.send("something else")  # the note goes with the next write
        site.crash()
        assert site.branches.recover() == []
        assert (site.texts(), site.texts(BILLS)) == (["something else"], [])

    def test_nobody_asks_about_it_any_more(self, site: XaSite) -> None:
        party = work(site)
        fail_at(site, InDoubtError("no answer"), "before write")
        with pytest.raises(InDoubtError):
            party.session.prepare(ONE)
        site.trap = None
        site.advance(10_000_000)
        assert not site.branches.reports()

    @pytest.mark.parametrize("point", ["before write", "after write"])
    def test_a_death_leaves_it_prepared_or_gone(self, site: XaSite, point: str) -> None:
        party = work(site)
        fail_at(site, Crash(), point)
        with pytest.raises(Crash):
            party.session.prepare(ONE)
        site.trap = None
        site.crash()
        is_there = point == "after write"
        assert site.branches.recover() == ([ONE] if is_there else [])
        assert site.texts() == ([] if is_there else ["order"])

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_session_that_closes_while_it_is_written(self, site: XaSite, fails: bool) -> None:
        party = work(site)
        is_written, may_go_on = Event(), Event()

        def trap(where: str, changes: Changes) -> None:
            if where == "before write" and changes.prepared is not None:
                is_written.set()
                assert may_go_on.wait(20)
                if fails:
                    raise ResourceError("no space")

        site.trap = trap
        outcomes: list[object] = []

        def prepare() -> None:
            try:
                outcomes.append(party.session.prepare(ONE))
            except RolledBackError as error:
                outcomes.append(type(error))

        thread = Thread(target=prepare)
        thread.start()
        assert is_written.wait(20)
        with refused(BranchFailure.UNREACHABLE):
            site.session(transacted=True).xa_rollback(ONE)
        party.session.close()
        assert site.texts() == []
        may_go_on.set()
        thread.join(20)
        site.trap = None
        assert outcomes == [RolledBackError if fails else True]
        assert site.texts() == (["order"] if fails else [])
        if not fails:
            site.session(transacted=True).xa_rollback(ONE)
            assert site.drain() == [("order", 2)]


def test_branch_errors_name_the_branch(site: XaSite) -> None:
    work(site).session.prepare(ONE)
    party = work(site)
    with pytest.raises(BranchError, match=str(ONE)):
        party.session.prepare(ONE)
