"""What is prepared outlives the broker, time, and failures of the disk; a coordinator or an operator ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationInUseError, InDoubtError, ResourceError
from pyjms.spi.xid import BranchFailure
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.transaction.branches import BranchState
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stores.volatile import Crash
from tests.provider.keeping.site import NEWS, consume, take_all, text
from tests.provider.xa.site import BILLS, ONE, TWO, XaSite, refused

pytestmark = pytest.mark.realises("MOM-10")


def failing(error: BaseException, point: str = "before write") -> Callable[[str, Changes], None]:
    """Return a trap that raises `error` at a write that prepares or settles."""

    def trap(where: str, changes: Changes) -> None:
        if where == point and (changes.prepared is not None or changes.outcomes or changes.messages):
            raise error

    return trap


class TestRestart:
    @pytest.mark.realises("JBM-5.1.b")
    def test_prepared_work_is_there_again_and_still_held(self, site: XaSite) -> None:
        for name in "ab":
            site.send(name)
        site.party().prepare()
        site.crash()
        assert site.branches.recover() == [ONE]
        assert (site.texts(), site.texts(BILLS)) == (["b"], [])
        assert (site.report.state, site.report.sent, site.report.received) == (BranchState.PREPARED, 1, 1)
        assert site.report.prepared_ms == site.hand_clock.now_ms

    @pytest.mark.realises("JBM-5.1.b")
    @pytest.mark.parametrize("orderly", [False, True])
    @pytest.mark.parametrize("commits", [False, True])
    def test_the_coordinator_settles_it_afterwards(self, site: XaSite, orderly: bool, commits: bool) -> None:
        for name in "ab":
            site.send(name)
        site.party().prepare()
        for _ in range(2):
            site.restart() if orderly else site.crash()
        session = site.session(transacted=True)
        session.xa_commit(ONE) if commits else session.xa_rollback(ONE)
        bills = [("bill", 1)] if commits else []
        orders = [("b", 1)] if commits else [("a", 2), ("b", 1)]
        site.crash()
        assert site.branches.recover() == []
        assert site.drain(BILLS) == bills
        assert site.drain() == orders
        assert not site.medium.entries
        assert not site.medium.messages

    def test_what_was_received_and_not_prepared_is_flagged_after_an_orderly_stop(self, site: XaSite) -> None:
        site.send("a")
        party = site.party()
        party.session.xa_start(ONE)
        assert text(party.receive()) == "a"
        party.session.xa_end(ONE)
        party.session.close()
        site.restart()
        assert site.drain() == [("a", 2)]

    @pytest.mark.parametrize("commits", [False, True])
    def test_a_queue_of_a_prepared_branch_cannot_be_destroyed(self, site: XaSite, commits: bool) -> None:
        for name in "ab":
            site.send(name)
        site.party().prepare()
        for _ in range(2):
            site.crash()
            manager = QueueManager(site.broker.virtual_host)
            for name in ("orders", "bills"):
                with pytest.raises(DestinationInUseError, match=str(ONE)):
                    manager.destroy(name)
        session = site.session(transacted=True)
        session.xa_commit(ONE) if commits else session.xa_rollback(ONE)
        assert site.texts() == (["b"] if commits else ["a", "b"])
        manager = QueueManager(site.broker.virtual_host)
        for name in ("orders", "bills"):
            manager.destroy(name)
        site.crash()
        assert not site.medium.messages
        assert not site.medium.queues

    def test_what_was_not_prepared_is_gone(self, site: XaSite) -> None:
        site.send("order")
        site.party().work()
        site.crash()
        assert not site.branches.reports()
        assert (site.texts(), site.texts(BILLS)) == (["order"], [])

    def test_work_of_several_queues_and_subscriptions_is_one(self, site: XaSite) -> None:
        for name in ("one", "two"):
            connection = site.connect(name)
            consume(connection.open_session(transacted=False), NEWS, durable_name="kept")
            connection.close()
        party = site.party()
        party.session.xa_start(ONE)
        party.send("bill")
        party.send("news", NEWS)
        party.session.xa_end(ONE)
        assert party.session.xa_prepare(ONE)
        site.crash()
        assert site.report.sent == 3
        site.session(transacted=True).xa_commit(ONE)
        assert site.texts(BILLS) == ["bill"]
        for name in ("one", "two"):
            session = site.connect(name).open_session(transacted=False)
            taken = take_all(consume(session, NEWS, durable_name="kept"))
            assert [text(each) for each in taken] == ["news"]
            session.acknowledge(taken)
        assert len(site.medium.messages) == 1, "the bill"

    def test_a_message_sent_and_taken_by_two_branches_in_turn(self, site: XaSite) -> None:
        party = site.party()
        party.session.xa_start(ONE)
        party.send("order", Address(AddressKind.QUEUE, "orders"))
        party.session.xa_end(ONE)
        party.session.xa_prepare(ONE)
        site.crash()
        site.session(transacted=True).xa_commit(ONE)
        party = site.party()
        party.prepare(TWO)
        site.crash()
        site.session(transacted=True).xa_commit(TWO)
        assert (site.texts(), site.texts(BILLS)) == ([], ["bill"])

    def test_a_message_that_waits_on_the_disk_reaches_a_consumer_with_a_selector(self, site: XaSite) -> None:
        site.send("order")
        site.party().prepare()
        site.crash()
        session = site.session()
        consumer = consume(session, BILLS, "JMSPriority = 4")
        consumer.set_interested(True)
        assert consumer.poll() is None
        site.session(transacted=True).xa_commit(ONE)
        assert text(consumer.poll()) == "bill"

    def test_what_cannot_be_read_is_left_out_and_the_rest_committed(self, site: XaSite) -> None:
        site.send("order")
        site.party().prepare()
        site.crash()
        site.medium.branches[ONE].changes.messages.clear()  # as if its row were damaged
        site.session(transacted=True).xa_commit(ONE)
        assert (site.texts(), site.texts(BILLS)) == ([], [])

    def test_a_subscription_that_is_gone_takes_its_part_along(self, site: XaSite) -> None:
        connection = site.connect("one")
        consume(connection.open_session(transacted=False), NEWS, durable_name="kept").close()
        party = site.party()
        party.session.xa_start(ONE)
        party.send("news", NEWS)
        party.send("bill")
        party.session.xa_end(ONE)
        party.session.xa_prepare(ONE)
        connection.open_session(transacted=False).unsubscribe("kept")
        site.crash()
        assert site.report.sent == 1
        site.session(transacted=True).xa_commit(ONE)
        assert site.texts(BILLS) == ["bill"]


class TestWrites:
    def test_prepare_and_outcome_are_forced(self, site: XaSite, monkeypatch: pytest.MonkeyPatch) -> None:
        site.send("order")
        forced: list[tuple[bool, bool, bool]] = []
        write = site.journal.write

        def watched(changes: Changes, *, force: bool) -> None:
            forced.append((changes.prepared is not None, bool(changes.outcomes), force))
            write(changes, force=force)

        monkeypatch.setattr(site.journal, "write", watched)
        party = site.party()
        party.work()
        forced.clear()
        party.session.xa_prepare(ONE)
        party.session.xa_commit(ONE)
        assert forced == [(True, False, True), (False, True, True)]

    @pytest.mark.parametrize("point", ["before write", "after write"])
    def test_a_death_while_it_is_prepared_leaves_it_prepared_or_gone(self, site: XaSite, point: str) -> None:
        site.send("order")
        party = site.party()
        party.work()
        site.trap = failing(Crash(), point)
        with pytest.raises(Crash):
            party.session.xa_prepare(ONE)
        site.trap = None
        site.crash()
        is_there = point == "after write"
        assert site.branches.recover() == ([ONE] if is_there else [])
        assert site.texts() == ([] if is_there else ["order"])

    @pytest.mark.parametrize("point", ["before write", "after write"])
    def test_a_death_while_it_is_settled_leaves_it_prepared_or_settled(self, site: XaSite, point: str) -> None:
        site.send("order")
        party = site.party()
        party.prepare()
        site.trap = failing(Crash(), point)
        with pytest.raises(Crash):
            party.session.xa_commit(ONE)
        site.trap = None
        site.crash()
        is_settled = point == "after write"
        assert site.branches.recover() == ([] if is_settled else [ONE])
        assert site.texts(BILLS) == (["bill"] if is_settled else [])

    def test_what_cannot_be_prepared_is_rolled_back(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.work()
        site.trap = failing(ResourceError("no space"))
        with refused(BranchFailure.ROLLED_BACK, "no space"):
            party.session.xa_prepare(ONE)
        site.trap = None
        assert site.drain() == [("order", 2)]
        party.session.xa_rollback(ONE)
        assert not site.branches.reports()

    @pytest.mark.parametrize("written", [False, True])
    def test_what_may_be_prepared_was_not_promised_and_is_rolled_back(self, site: XaSite, written: bool) -> None:
        site.send("order")
        party = site.party()
        party.work()
        site.trap = failing(InDoubtError("no answer"), "after write" if written else "before write")
        with refused(BranchFailure.UNREACHABLE, "no answer"):
            party.session.xa_prepare(ONE)
        site.trap = None
        assert (ONE in site.medium.branches) is written
        assert site.texts() == ["order"]
        site.send("another")  # whatever is written next takes the branch along
        assert not site.medium.branches
        site.crash()
        assert not site.branches.recover()
        assert (site.texts(), site.texts(BILLS)) == (["order", "another"], [])

    def test_what_cannot_be_committed_in_one_phase_is_rolled_back(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.work()
        site.trap = failing(ResourceError("no space"))
        with refused(BranchFailure.ROLLED_BACK, "no space"):
            party.session.xa_commit(ONE, one_phase=True)
        site.trap = None
        assert site.drain() == [("order", 2)]
        assert not site.branches.reports()

    def test_nobody_knows_of_one_phase_without_an_answer_before_the_next_start(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.work()
        site.trap = failing(InDoubtError("no answer"), "after write")
        with refused(BranchFailure.UNREACHABLE):
            party.session.xa_commit(ONE, one_phase=True)
        site.trap = None
        assert (site.texts(), site.texts(BILLS)) == ([], [])
        with refused(BranchFailure.UNREACHABLE, "ask again"):
            party.session.xa_commit(ONE, one_phase=True)
        site.crash()
        assert (site.texts(), site.texts(BILLS)) == ([], ["bill"])

    def test_a_commit_that_cannot_be_written_may_be_tried_again(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.prepare()
        site.trap = failing(ResourceError("no space"))
        with refused(BranchFailure.RETRY, "still prepared"):
            party.session.xa_commit(ONE)
        assert site.branches.recover() == [ONE]
        site.trap = None
        party.session.xa_commit(ONE)
        assert site.texts(BILLS) == ["bill"]

    def test_so_may_a_rollback(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.prepare()
        site.trap = failing(ResourceError("no space"))
        with refused(BranchFailure.UNREACHABLE, "still prepared"):
            party.session.xa_rollback(ONE)
        assert site.texts() == []
        site.trap = None
        party.session.xa_rollback(ONE)
        assert site.texts() == ["order"]

    @pytest.mark.parametrize("commits", [False, True])
    def test_after_a_decision_without_an_answer_only_the_same_can_be_tried(self, site: XaSite, commits: bool) -> None:
        site.send("order")
        party = site.party()
        party.prepare()
        site.trap = failing(InDoubtError("no answer"), "after write")
        calls: list[Callable[[], None]] = [lambda: party.session.xa_rollback(ONE), lambda: party.session.xa_commit(ONE)]
        with refused(BranchFailure.UNREACHABLE):
            calls[commits]()
        site.trap = None
        with refused(BranchFailure.PROTOCOL, "only the same"):
            calls[not commits]()
        with refused(BranchFailure.PROTOCOL, "only the same"):
            site.branches.settle_heuristically(ONE, commit=not commits)
        calls[commits]()
        site.crash()
        assert (site.texts(), site.texts(BILLS)) == (([], ["bill"]) if commits else (["order"], []))


class TestDuplicates:
    """A producer's id is remembered when its message arrives: with the decision, not with the promise."""

    @pytest.mark.parametrize("commits", [False, True])
    def test_the_id_of_a_message_in_a_branch(self, site: XaSite, commits: bool) -> None:
        party = site.party()
        party.session.xa_start(ONE)
        named: dict[str, Any] = {"properties": {"JMS_pyjms_duplicateId": "42"}}
        party.send("bill", **named)
        party.session.xa_end(ONE)
        assert party.session.xa_prepare(ONE)
        assert not site.medium.duplicates
        with pytest.raises(ResourceError):
            site.send("bill", to=BILLS, **named)  # nobody knows whether the first one will arrive
        party.session.xa_commit(ONE) if commits else party.session.xa_rollback(ONE)
        assert bool(site.medium.duplicates) is commits
        site.crash()
        site.send("bill", to=BILLS, **named)
        assert site.texts(BILLS) == ["bill"]

    @pytest.mark.parametrize("commits", [False, True])
    @pytest.mark.parametrize("orderly", [False, True])
    def test_the_id_is_held_over_restarts_while_the_branch_is_in_doubt(
        self, site: XaSite, orderly: bool, commits: bool
    ) -> None:
        party = site.party()
        party.session.xa_start(ONE)
        named: dict[str, Any] = {"properties": {"JMS_pyjms_duplicateId": "42"}}
        party.send("bill", **named)
        party.session.xa_end(ONE)
        assert party.session.xa_prepare(ONE)
        for _ in range(2):
            site.restart() if orderly else site.crash()
            with pytest.raises(ResourceError):
                site.send("bill", to=BILLS, **named)
        session = site.session(transacted=True)
        session.xa_commit(ONE) if commits else session.xa_rollback(ONE)
        site.send("bill", to=BILLS, **named)
        site.crash()
        site.send("bill", to=BILLS, **named)
        assert site.texts(BILLS) == ["bill"]

    def test_the_id_of_a_send_that_was_not_answered_is_known_after_the_restart(self, site: XaSite) -> None:
        site.texts(BILLS)
        site.trap = failing(Crash(), "after write")
        named: dict[str, Any] = {"properties": {"JMS_pyjms_duplicateId": "42"}}
        with pytest.raises(Crash):
            site.send("bill", to=BILLS, **named)
        site.trap = None
        site.start()
        site.send("bill", to=BILLS, **named)
        assert site.texts(BILLS) == ["bill"]


class TestExpiry:
    def test_time_does_not_touch_what_is_prepared(self, site: XaSite) -> None:
        now_ms = site.hand_clock.now_ms
        site.send("order", expiration_ms=now_ms + 1_000)
        party = site.party()
        party.session.xa_start(ONE)
        party.receive()
        party.send("bill", expiration_ms=now_ms + 1_000)
        party.session.xa_end(ONE)
        party.session.xa_prepare(ONE)
        host = site.broker.virtual_host
        site.hand_clock.now_ms += 5_000
        for name in ("orders", "bills"):
            assert host.queue(name).run_due(site.hand_clock.now_ms) is None
        assert (site.report.sent, site.report.received) == (1, 1)
        party.session.xa_commit(ONE)
        assert site.texts(BILLS) == [], "it is delivered to nobody, as its time was over"
        site.restart()
        assert not site.medium.entries

    def test_what_expired_meanwhile_does_not_come_back(self, site: XaSite) -> None:
        now_ms = site.hand_clock.now_ms
        site.send("order", expiration_ms=now_ms + 1_000)
        site.send("patient order")
        party = site.party()
        party.prepare()
        site.crash()
        site.hand_clock.now_ms += 5_000
        site.broker.virtual_host.queue("orders").run_due(site.hand_clock.now_ms)
        assert site.report.received == 1
        site.session(transacted=True).xa_rollback(ONE)
        assert site.texts() == ["patient order"]

    def test_what_expires_before_the_prepare_rolls_the_branch_back(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.session.xa_start(ONE)
        party.receive()
        party.send("bill", expiration_ms=site.hand_clock.now_ms + 1_000)
        party.session.xa_end(ONE)
        site.hand_clock.now_ms += 5_000
        with refused(BranchFailure.ROLLED_BACK, "expired"):
            party.session.xa_prepare(ONE)
        assert site.drain() == [("order", 2)]


class TestTimeouts:
    def test_work_that_takes_too_long_is_rolled_back(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        assert party.session.xa_get_timeout() == 300
        assert party.session.xa_set_timeout(10)
        assert party.session.xa_get_timeout() == 10
        party.session.xa_start(ONE)
        party.receive()
        party.send("bill")
        site.advance(9_999)
        assert site.report.state is BranchState.ACTIVE
        site.advance(1)
        assert (site.texts(), site.texts(BILLS)) == (["order"], [])
        with refused(BranchFailure.TIMED_OUT, "set a longer timeout"):
            party.session.xa_end(ONE)
        party.session.xa_rollback(ONE)

    @pytest.mark.parametrize("suspended", [False, True])
    def test_so_is_work_that_is_not_prepared_in_time(self, site: XaSite, suspended: bool) -> None:
        site.send("order")
        party = site.party()
        party.session.xa_start(ONE)
        party.receive()
        party.session.xa_end(ONE, suspend=suspended)
        site.advance(300_000)
        assert site.texts() == ["order"]
        with refused(BranchFailure.TIMED_OUT):
            party.session.xa_start(ONE, resume=True) if suspended else party.session.xa_start(ONE, join=True)
        with refused(BranchFailure.TIMED_OUT):
            party.session.xa_end(ONE) if suspended else party.session.xa_prepare(ONE)

    def test_one_phase_hears_of_it_once(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.work()
        site.advance(300_000)
        with refused(BranchFailure.TIMED_OUT):
            party.session.xa_commit(ONE, one_phase=True)
        with refused(BranchFailure.UNKNOWN):
            party.session.xa_commit(ONE, one_phase=True)

    def test_what_is_prepared_has_all_the_time_of_the_world(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.prepare()
        site.advance(10**9)
        party.session.xa_commit(ONE)
        assert site.texts(BILLS) == ["bill"]

    def test_a_coordinator_that_never_asks_is_forgotten(self, site: XaSite) -> None:
        party = site.party()
        party.session.xa_start(ONE)
        party.send("bill")
        site.advance(300_000)
        site.advance(300_000)
        assert site.report.state is BranchState.ROLLBACK_ONLY, "a session works in it still"
        with refused(BranchFailure.TIMED_OUT):
            party.session.xa_end(ONE)
        site.advance(300_000)
        assert not site.branches.reports()

    def test_the_housekeeper_comes_when_the_next_time_is_over(self, site: XaSite) -> None:
        party, hasty = site.party(), site.party()
        hasty.session.xa_set_timeout(5)
        for each, xid in ((party, ONE), (hasty, TWO)):
            each.session.xa_start(xid)
            each.send("bill")
        now_ms = site.hand_clock.now_ms
        assert site.branches.run_due(now_ms) == now_ms + 5_000
        site.advance(5_000)
        assert {each.xid: each.state for each in site.branches.reports()} == {
            ONE: BranchState.ACTIVE,
            TWO: BranchState.ROLLBACK_ONLY,
        }
        assert site.branches.run_due(now_ms + 5_000) == now_ms + 300_000


class TestOperators:
    @pytest.mark.parametrize("commits", [False, True])
    @pytest.mark.parametrize("restarted", [False, True])
    def test_they_decide_in_place_of_a_coordinator_which_is_told_when_it_comes_back(
        self, site: XaSite, commits: bool, restarted: bool
    ) -> None:
        site.send("order")
        site.party().prepare()
        site.branches.settle_heuristically(ONE, commit=commits)
        expected = (["bill"], []) if commits else ([], ["order"])
        assert (site.texts(BILLS), site.texts()) == expected
        if restarted:
            site.crash()
        assert (site.texts(BILLS), site.texts()) == expected
        failure = BranchFailure.HEURISTICALLY_COMMITTED if commits else BranchFailure.HEURISTICALLY_ROLLED_BACK
        session = site.session(transacted=True)
        assert list(session.xa_recover()) == [ONE]
        assert site.report.state.name == failure.name
        calls: list[Callable[[], None]] = [
            lambda: session.xa_commit(ONE),
            lambda: session.xa_commit(ONE, one_phase=True),
            lambda: session.xa_rollback(ONE),
            lambda: site.branches.settle_heuristically(ONE, commit=True),
        ]
        for call in calls:
            with refused(failure):
                call()
        session.xa_forget(ONE)
        assert not session.xa_recover()
        site.crash()
        assert not site.branches.reports()
        assert (site.texts(BILLS), site.texts()) == expected

    def test_what_is_not_prepared_is_none_of_their_business(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.work()
        with refused(BranchFailure.PROTOCOL):
            site.branches.settle_heuristically(ONE, commit=True)
        with refused(BranchFailure.UNKNOWN):
            site.branches.settle_heuristically(TWO, commit=True)
        party.session.xa_commit(ONE, one_phase=True)

    def test_a_branch_that_cannot_be_forgotten_is_remembered(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.prepare()
        site.branches.settle_heuristically(ONE, commit=False)
        site.trap = failing(ResourceError("no space"))
        with pytest.raises(ResourceError):
            party.session.xa_forget(ONE)
        site.trap = None
        assert site.branches.recover() == [ONE]
        party.session.xa_forget(ONE)
        assert site.branches.recover() == []

    def test_the_log_tells_of_what_is_in_doubt(self, site: XaSite, caplog: pytest.LogCaptureFixture) -> None:
        site.send("order")
        site.party().prepare()
        site.crash()
        assert "PYJMS-BROKER-11" in caplog.text
        site.branches.settle_heuristically(ONE, commit=True)
        assert f"PYJMS-BROKER-12 an operator has committed branch {ONE}" in caplog.text
