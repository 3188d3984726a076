"""Branches at the level of the SPI: work, two phases, and the code of XA for each wrong call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import BranchError, CapabilityError, ClosedError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.transaction.branches import BranchState
from tests.provider.clients.world import World
from tests.provider.xa.site import BILLS, ONE, TWO, XaSite, refused

pytestmark = pytest.mark.realises("MOM-10")


class TestWork:
    def test_a_branch_is_seen_when_it_is_committed_and_not_before(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.work()
        assert site.report.state is BranchState.IDLE
        assert (site.texts(), site.texts(BILLS)) == ([], [])
        assert party.session.xa_prepare(ONE)
        assert (site.texts(), site.texts(BILLS)) == ([], [])
        party.session.xa_commit(ONE)
        assert (site.texts(), site.texts(BILLS)) == ([], ["bill"])
        assert not site.branches.reports()
        site.crash()
        assert (site.texts(), site.texts(BILLS)) == ([], ["bill"])

    def test_one_phase(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.work()
        party.session.xa_commit(ONE, one_phase=True)
        site.crash()
        assert (site.texts(), site.texts(BILLS)) == ([], ["bill"])

    @pytest.mark.parametrize("prepared", [False, True])
    def test_a_rollback_brings_back_what_was_received_in_its_place_and_marked(
        self, site: XaSite, prepared: bool
    ) -> None:
        for text in "abc":
            site.send(text)
        party = site.party()
        party.prepare() if prepared else party.work()
        party.session.xa_rollback(ONE)
        assert site.texts(BILLS) == []
        assert site.drain() == [("a", 2), ("b", 1), ("c", 1)]

    def test_several_branches_of_one_session_are_independent(self, site: XaSite) -> None:
        for text in "ab":
            site.send(text)
        party = site.party()
        party.work(ONE, bill="first")
        party.work(TWO, bill="second")
        party.session.xa_rollback(ONE)
        party.session.xa_commit(TWO, one_phase=True)
        assert (site.texts(), site.texts(BILLS)) == (["a"], ["second"])

    def test_a_session_may_suspend_work_do_other_work_and_resume(self, site: XaSite) -> None:
        party = site.party()
        session = party.session
        session.xa_start(ONE)
        party.send("one, first")
        session.xa_end(ONE, suspend=True)
        assert site.report.state is BranchState.SUSPENDED
        session.xa_start(TWO)
        party.send("two")
        session.xa_end(TWO)
        session.xa_start(ONE, resume=True)
        party.send("one, second")
        session.xa_end(ONE)
        session.xa_commit(ONE, one_phase=True)
        assert site.texts(BILLS) == ["one, first", "one, second"]
        session.xa_commit(TWO, one_phase=True)
        assert site.texts(BILLS)[-1] == "two"

    def test_sessions_of_several_connections_work_in_one_branch_and_any_settles_it(self, site: XaSite) -> None:
        for text in "ab":
            site.send(text)
        first, second, third = site.party(), site.party(), site.party()
        first.session.xa_start(ONE)
        second.session.xa_start(ONE, join=True)
        assert first.receive().envelope.body == "a"
        assert second.receive().envelope.body == "b"
        first.send("of the first")
        second.send("of the second")
        first.session.xa_end(ONE)
        assert site.report.state is BranchState.ACTIVE
        second.session.xa_end(ONE)
        assert (site.report.sent, site.report.received) == (2, 2)
        assert third.session.xa_prepare(ONE)
        third.session.xa_commit(ONE)
        assert (site.texts(), site.texts(BILLS)) == ([], ["of the first", "of the second"])

    def test_suspended_work_may_be_ended_without_resuming_it(self, site: XaSite) -> None:
        party = site.party()
        party.session.xa_start(ONE)
        party.send("bill")
        party.session.xa_end(ONE, suspend=True)
        party.session.xa_end(ONE)
        party.session.xa_commit(ONE, one_phase=True)
        assert site.texts(BILLS) == ["bill"]

    def test_failed_work_is_undone_at_once_and_the_coordinator_hears_of_it(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.session.xa_start(ONE)
        party.receive()
        party.send("bill")
        party.session.xa_end(ONE, fail=True)
        assert (site.texts(), site.texts(BILLS)) == (["order"], [])
        with refused(BranchFailure.ROLLED_BACK):
            party.session.xa_prepare(ONE)
        party.session.xa_rollback(ONE)
        assert not site.branches.reports()

    def test_what_did_nothing_is_read_only(self, site: XaSite) -> None:
        party = site.party()
        party.session.xa_start(ONE)
        party.session.xa_end(ONE)
        site.points.clear()
        assert not party.session.xa_prepare(ONE)
        assert site.points == [], "nothing needs to be written"
        with refused(BranchFailure.UNKNOWN):
            party.session.xa_commit(ONE)

    def test_what_only_moved_transient_messages_is_prepared_nevertheless(self, site: XaSite) -> None:
        """After a crash they are gone, as all transient messages; the coordinator's commit must find the branch."""
        party = site.party()
        party.session.xa_start(ONE)
        party.send("transient", delivery_mode=1)
        party.session.xa_end(ONE)
        assert party.session.xa_prepare(ONE)
        site.crash()
        session = site.session(transacted=True)
        session.xa_commit(ONE)
        assert site.texts(BILLS) == []

    def test_a_message_that_failed_to_be_understood_is_given_back_by_its_session(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.session.xa_start(ONE)
        party.session.recover([party.poll()])
        party.session.xa_end(ONE)
        assert not party.session.xa_prepare(ONE)
        assert site.drain() == [("order", 2)]


WRONG: Final[dict[str, tuple[Callable[[VmSession, VmSession], object], BranchFailure]]] = {
    "start the same": (lambda _, other: other.xa_start(ONE), BranchFailure.DUPLICATE),
    "start another one": (lambda session, _: session.xa_start(TWO), BranchFailure.PROTOCOL),
    "start it again": (lambda session, _: session.xa_start(ONE), BranchFailure.PROTOCOL),
    "join and resume": (lambda _, other: other.xa_start(ONE, join=True, resume=True), BranchFailure.INVALID),
    "join none": (lambda _, other: other.xa_start(TWO, join=True), BranchFailure.UNKNOWN),
    "resume none": (lambda _, other: other.xa_start(TWO, resume=True), BranchFailure.UNKNOWN),
    "resume another's": (lambda _, other: other.xa_start(ONE, resume=True), BranchFailure.PROTOCOL),
    "end another's": (lambda _, other: other.xa_end(ONE), BranchFailure.PROTOCOL),
    "suspend another's": (lambda _, other: other.xa_end(ONE, suspend=True), BranchFailure.PROTOCOL),
    "suspend and fail": (lambda session, _: session.xa_end(ONE, suspend=True, fail=True), BranchFailure.INVALID),
    "end none": (lambda _, other: other.xa_end(TWO), BranchFailure.UNKNOWN),
    "prepare active work": (lambda session, _: session.xa_prepare(ONE), BranchFailure.PROTOCOL),
    "prepare none": (lambda session, _: session.xa_prepare(TWO), BranchFailure.UNKNOWN),
    "commit active work": (lambda session, _: session.xa_commit(ONE), BranchFailure.PROTOCOL),
    "commit active work at once": (
        lambda session, _: session.xa_commit(ONE, one_phase=True),
        BranchFailure.PROTOCOL,
    ),
    "commit none": (lambda session, _: session.xa_commit(TWO), BranchFailure.UNKNOWN),
    "roll back active work": (lambda session, _: session.xa_rollback(ONE), BranchFailure.PROTOCOL),
    "roll back none": (lambda session, _: session.xa_rollback(TWO), BranchFailure.UNKNOWN),
    "forget active work": (lambda session, _: session.xa_forget(ONE), BranchFailure.PROTOCOL),
    "forget none": (lambda session, _: session.xa_forget(TWO), BranchFailure.UNKNOWN),
    "commit locally": (lambda session, _: session.commit(), BranchFailure.PROTOCOL),
    "roll back locally": (lambda session, _: session.rollback(), BranchFailure.PROTOCOL),
}
"""By a session that works in ONE, and one that has nothing to do with it."""


class TestWrongCalls:
    @pytest.mark.parametrize("name", WRONG)
    def test_each_has_its_code_and_changes_nothing(self, site: XaSite, name: str) -> None:
        call, failure = WRONG[name]
        party, other = site.party(), site.session(transacted=True)
        party.session.xa_start(ONE)
        party.send("before")
        with refused(failure):
            call(party.session, other)
        party.send("after")
        party.session.xa_end(ONE)
        party.session.xa_commit(ONE, one_phase=True)
        assert site.texts(BILLS) == ["before", "after"]

    def test_work_outside_must_end_before_a_branch_begins(self, site: XaSite) -> None:
        party = site.party()
        party.send("outside")
        with refused(BranchFailure.OUTSIDE):
            party.session.xa_start(ONE)
        party.session.commit()
        party.session.xa_start(ONE)
        assert site.texts(BILLS) == ["outside"]

    def test_two_phases_need_the_first(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.work()
        with refused(BranchFailure.PROTOCOL):
            party.session.xa_commit(ONE)
        assert party.session.xa_prepare(ONE)
        with refused(BranchFailure.PROTOCOL):
            party.session.xa_commit(ONE, one_phase=True)
        with refused(BranchFailure.PROTOCOL):
            party.session.xa_prepare(ONE)
        with refused(BranchFailure.PROTOCOL):
            party.session.xa_forget(ONE)
        for how in ({"join": True}, {"resume": True}):
            with refused(BranchFailure.PROTOCOL):
                party.session.xa_start(ONE, **how)
        party.session.xa_commit(ONE)

    def test_a_session_joins_once(self, site: XaSite) -> None:
        first, second = site.party(), site.party()
        first.session.xa_start(ONE)
        second.session.xa_start(ONE, join=True)
        second.session.xa_end(ONE, suspend=True)
        with refused(BranchFailure.PROTOCOL, "TMRESUME"):
            second.session.xa_start(ONE, join=True)
        with refused(BranchFailure.PROTOCOL):
            second.session.xa_end(ONE, suspend=True)

    @pytest.mark.parametrize(
        "call",
        [
            lambda session: session.xa_start(ONE),
            lambda session: session.xa_end(ONE),
            lambda session: session.xa_prepare(ONE),
            lambda session: session.xa_commit(ONE),
            lambda session: session.xa_rollback(ONE),
            lambda session: session.xa_recover(),
            lambda session: session.xa_forget(ONE),
        ],
    )
    def test_a_closed_session_does_nothing(self, site: XaSite, call: Callable[[VmSession], object]) -> None:
        session = site.session(transacted=True)
        session.close()
        with pytest.raises(ClosedError):
            call(session)


class TestClosing:
    @pytest.mark.parametrize("suspended", [False, True])
    def test_work_that_has_not_ended_is_rolled_back(self, site: XaSite, suspended: bool) -> None:
        site.send("order")
        party, other = site.party(), site.session(transacted=True)
        party.session.xa_start(ONE)
        party.receive()
        party.send("bill")
        if suspended:
            party.session.xa_end(ONE, suspend=True)
        party.session.close()
        assert (site.texts(), site.texts(BILLS)) == (["order"], [])
        with refused(BranchFailure.ROLLED_BACK, "session was closed"):
            other.xa_prepare(ONE)
        other.xa_rollback(ONE)

    def test_work_that_has_ended_is_the_coordinators(self, site: XaSite) -> None:
        """JMS 1.1, Connection.close: the result of a closed session's work is determined later by the manager."""
        site.send("order")
        party, other = site.party(), site.session(transacted=True)
        party.work()
        party.session.close()
        assert (site.texts(), site.texts(BILLS)) == ([], [])
        other.xa_commit(ONE, one_phase=True)
        assert (site.texts(), site.texts(BILLS)) == ([], ["bill"])

    def test_what_is_prepared_stays_held(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.prepare()
        party.session.close()
        assert (site.texts(), site.texts(BILLS)) == ([], [])
        site.session(transacted=True).xa_rollback(ONE)
        assert site.drain() == [("order", 2)]

    def test_one_of_several_that_work_dooms_it_for_all(self, site: XaSite) -> None:
        first, second = site.party(), site.party()
        first.session.xa_start(ONE)
        second.session.xa_start(ONE, join=True)
        second.session.close()
        first.send("in vain")
        with refused(BranchFailure.ROLLED_BACK):
            first.session.xa_end(ONE)
        first.session.xa_rollback(ONE)
        assert site.texts(BILLS) == []

    def test_what_a_session_receives_after_its_branch_was_doomed_goes_back(self, site: XaSite) -> None:
        for text in "ab":
            site.send(text)
        first, second = site.party(), site.party()
        first.session.xa_start(ONE)
        second.session.xa_start(ONE, join=True)
        first.receive()
        second.session.close()
        assert site.texts() == ["a", "b"]
        assert first.receive().count == 2
        assert site.texts() == ["a", "b"]
        with refused(BranchFailure.ROLLED_BACK):
            first.session.xa_end(ONE)


class TestOfSeveralBrokers:
    """What a resource manager of several brokers does with the part at one of them."""

    @pytest.mark.parametrize("commits", [True, False])
    def test_a_branch_becomes_another_one_as_it_is_prepared(self, site: XaSite, commits: bool) -> None:
        site.send("order")
        party, other = site.party(), site.party()
        party.work()
        assert other.session.xa_prepare_as(ONE, TWO)
        assert site.branches.recover() == [TWO]
        for call in (other.session.xa_commit, other.session.xa_rollback, other.session.xa_prepare):
            with refused(BranchFailure.UNKNOWN):
                call(ONE)
        site.crash()
        session = site.session(transacted=True)
        session.xa_commit(TWO) if commits else session.xa_rollback(TWO)
        assert (site.texts(), site.texts(BILLS)) == (([], ["bill"]) if commits else (["order"], []))

    def test_a_branch_that_did_nothing_is_over(self, site: XaSite) -> None:
        session = site.party().session
        session.xa_start(ONE)
        session.xa_end(ONE)
        assert session.xa_prepare_as(ONE, TWO) is False
        assert not site.branches.reports()

    def test_a_branch_that_was_rolled_back_is_over(self, site: XaSite) -> None:
        session = site.party().session
        session.xa_start(ONE)
        session.xa_end(ONE, fail=True)
        with refused(BranchFailure.ROLLED_BACK):
            session.xa_prepare_as(ONE, TWO)
        assert not site.branches.reports()

    def test_a_name_is_given_once(self, site: XaSite) -> None:
        site.send("a")
        site.send("b")
        party = site.party()
        party.prepare(TWO)
        party.work(ONE)
        with refused(BranchFailure.DUPLICATE):
            party.session.xa_prepare_as(ONE, TWO)
        party.session.xa_commit(ONE, one_phase=True)
        party.session.xa_commit(TWO)
        assert site.texts(BILLS) == ["bill", "bill"]

    def test_a_branch_in_which_a_session_works_stays(self, site: XaSite) -> None:
        site.send("order")
        party = site.party()
        party.session.xa_start(ONE)
        party.receive()
        with refused(BranchFailure.PROTOCOL):
            party.session.xa_prepare_as(ONE, TWO)
        party.session.xa_end(ONE)
        party.session.xa_commit(ONE, one_phase=True)
        assert site.texts() == []

    def test_notes_are_those_of_all_who_work_in_it_until_it_is_prepared(self, site: XaSite) -> None:
        site.send("order")
        party, other = site.party(), site.party()
        party.work()
        assert set(party.session.xa_note(ONE)) == set()
        assert set(party.session.xa_note(ONE, ["a"])) == {"a"}
        assert set(other.session.xa_note(ONE, ["b, c"])) == {"a", "b, c"}
        assert set(party.session.xa_note(ONE)) == {"a", "b, c"}
        party.session.xa_prepare(ONE)
        with refused(BranchFailure.PROTOCOL):
            party.session.xa_note(ONE)
        with refused(BranchFailure.UNKNOWN):
            party.session.xa_note(TWO, ["a"])

    def test_nothing_is_noted_of_a_branch_that_was_rolled_back(self, site: XaSite) -> None:
        session = site.party().session
        session.xa_start(ONE)
        session.xa_note(ONE, ["a"])
        session.xa_end(ONE, fail=True)
        assert set(session.xa_note(ONE)) == {"a"}
        with refused(BranchFailure.ROLLED_BACK):
            session.xa_note(ONE, ["b"])


class TestCapability:
    def test_a_broker_whose_journal_survives_has_it(self, site: XaSite) -> None:
        connection = site.connect()
        assert Capability.XA in connection.capabilities
        assert connection.resource_manager == site.connect().resource_manager

    def test_a_broker_in_memory_says_what_it_lacks(self, world: World) -> None:
        connection = world.connect()
        assert Capability.XA not in connection.capabilities
        assert "store=" in connection.advice(Capability.XA)
        assert connection.advice(Capability.TOPICS) == ""
        session = connection.open_session(transacted=True)
        for call in (
            lambda: session.xa_start(ONE),
            lambda: session.xa_end(ONE),
            lambda: session.xa_prepare(ONE),
            lambda: session.xa_commit(ONE, one_phase=True),
            lambda: session.xa_rollback(ONE),
            session.xa_recover,
            lambda: session.xa_forget(ONE),
        ):
            with pytest.raises(CapabilityError, match=r"Capability\.XA.*store="):
                call()
        assert session.xa_set_timeout(30) is False

    def test_errors_name_the_branch_as_operators_do(self, site: XaSite) -> None:
        with pytest.raises(BranchError, match="17:676c6f62616c:00"):
            site.session(transacted=True).xa_rollback(Xid(17, b"global", b"\0"))
