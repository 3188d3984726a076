"""Contract tests: branches of distributed transactions, for providers with `Capability.XA` (JMS 1.1 §8, X/Open XA)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import BranchError, ClosedError, RolledBackError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_tck.requirements import needs, needs_offered
from pyjms_tck.spi.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConnection, ProviderSession

_numbers = count(1)


def new_xid() -> Xid:
    """Return a unique name of a branch."""
    return Xid(20_021, Environment.name("branch").encode(), f"{next(_numbers)}".encode())


class Work(NamedTuple):
    """A session that works in a branch: it receives from one queue and sends to another one."""

    environment: Environment
    connection: ProviderConnection
    session: ProviderSession
    xid: Xid
    orders: Address
    bills: Address

    def do(self, text: str = "order") -> None:
        """Receive an order and send a bill, in the branch that was started."""
        self.environment.send(self.environment.session(), self.orders, text)
        receiver = self.environment.receiver(self.session, self.orders)
        self.session.acknowledge([receiver.take()])
        # Closed, so that no message of a later branch is prefetched to it.
        receiver.consumer.close()
        self.environment.send(self.session, self.bills, f"bill for {text}", delivery_mode=2)

    def whole(self, text: str = "order") -> None:
        """Do the same in a new branch, and end the work."""
        self.session.xa_start(self.xid)
        self.do(text)
        self.session.xa_end(self.xid)

    def seen(self, address: Address) -> list[tuple[object, bool]]:
        """Return text and mark of all messages, which another client receives."""
        return self.environment.drain(address)


def open_work(environment: Environment) -> Work | None:
    """Return a session with its connection; None from a provider that does not declare XA."""
    connection = environment.connect()
    if Capability.XA not in connection.capabilities:
        return None
    session = connection.open_session(transacted=True)
    return Work(environment, connection, session, new_xid(), environment.queue(), environment.queue())


@pytest.fixture
def work(environment: Environment) -> Work | None:
    return open_work(environment)


def failure_of(call: Callable[[], object]) -> BranchFailure | None:
    """Return why the call was refused, or None."""
    try:
        call()
    except BranchError as error:
        return error.failure
    return None


@needs_offered("XA")
@pytest.mark.parametrize("one_phase", [False, True], ids=["two phases", "one phase"])
def test_a_branch_is_seen_once_it_is_committed(work: Work, one_phase: bool) -> None:
    work.whole()
    assert work.seen(work.bills) == []
    if not one_phase:
        assert work.session.xa_prepare(work.xid)
        assert work.seen(work.bills) == []
    work.session.xa_commit(work.xid, one_phase=one_phase)
    work.connection.close()
    assert work.seen(work.bills) == [("bill for order", False)]
    assert work.seen(work.orders) == []


@needs_offered("XA")
@pytest.mark.parametrize("prepared", [False, True], ids=["ended", "prepared"])
def test_what_a_branch_received_comes_back_marked_when_it_is_rolled_back(work: Work, prepared: bool) -> None:
    work.whole()
    if prepared:
        assert work.session.xa_prepare(work.xid)
    work.session.xa_rollback(work.xid)
    assert work.seen(work.bills) == []
    assert work.seen(work.orders) == [("order", True)]


@needs_offered("XA")
def test_a_branch_that_did_nothing_is_read_only_and_over(work: Work) -> None:
    work.session.xa_start(work.xid)
    work.session.xa_end(work.xid)
    assert work.session.xa_prepare(work.xid) is False
    assert failure_of(lambda: work.session.xa_commit(work.xid)) is BranchFailure.UNKNOWN


@needs_offered("XA")
def test_work_is_suspended_and_resumed(work: Work) -> None:
    other = work._replace(xid=new_xid())
    work.session.xa_start(work.xid)
    work.do("first")
    work.session.xa_end(work.xid, suspend=True)
    other.whole("of another branch")
    work.session.xa_start(work.xid, resume=True)
    work.do("second")
    work.session.xa_end(work.xid)
    work.session.xa_rollback(other.xid)
    work.session.xa_commit(work.xid, one_phase=True)
    assert work.seen(work.bills) == [("bill for first", False), ("bill for second", False)]


@needs_offered("XA")
def test_sessions_of_one_resource_manager_work_in_one_branch(work: Work) -> None:
    connection = work.environment.connect()
    other = work._replace(connection=connection, session=connection.open_session(transacted=True))
    # Only sessions of one resource manager can join a branch: where each
    # connection has its own, both sessions are on one.
    if connection.resource_manager != work.connection.resource_manager:
        other = work._replace(session=work.connection.open_session(transacted=True))
    work.session.xa_start(work.xid)
    other.session.xa_start(work.xid, join=True)
    work.do("first")
    other.do("second")
    work.session.xa_end(work.xid)
    other.session.xa_end(work.xid)
    assert other.session.xa_prepare(work.xid)
    work.session.xa_commit(work.xid)
    assert sorted(str(text) for text, _ in work.seen(work.bills)) == ["bill for first", "bill for second"]


@needs_offered("XA")
def test_a_branch_whose_work_failed_can_only_be_rolled_back(work: Work) -> None:
    work.session.xa_start(work.xid)
    work.do()
    work.session.xa_end(work.xid, fail=True)
    assert failure_of(lambda: work.session.xa_prepare(work.xid)) is BranchFailure.ROLLED_BACK
    work.session.xa_rollback(work.xid)
    assert work.seen(work.bills) == []
    assert work.seen(work.orders) == [("order", True)]


@needs_offered("XA")
def test_what_is_prepared_is_in_doubt_whatever_becomes_of_its_session(work: Work) -> None:
    work.whole()
    assert work.session.xa_prepare(work.xid)
    # After the prepare the branch belongs to the resource manager: neither the messages that it received nor those that
    # it sent may be visible.
    work.connection.close()
    assert work.seen(work.orders) == []
    assert work.seen(work.bills) == []
    session = work.environment.session(transacted=True)
    assert work.xid in session.xa_recover()
    session.xa_commit(work.xid)
    assert work.xid not in session.xa_recover()
    assert work.seen(work.bills) == [("bill for order", False)]


@needs_offered("XA")
def test_work_that_has_ended_outlives_its_session_and_other_work_does_not(work: Work) -> None:
    work.whole()
    active = work._replace(xid=new_xid(), orders=work.environment.queue(), bills=work.environment.queue())
    active.session.xa_start(active.xid)
    active.do()
    # One session has worked in both branches: the ended one stays, the active one is rolled back.
    work.session.close()
    assert active.seen(active.orders) == [("order", True)]
    session = work.environment.session(transacted=True)
    assert failure_of(lambda: session.xa_prepare(active.xid)) is BranchFailure.ROLLED_BACK
    session.xa_rollback(active.xid)
    session.xa_commit(work.xid, one_phase=True)
    assert work.seen(work.bills) == [("bill for order", False)]
    assert active.seen(active.bills) == []


@needs("XA")
def test_a_branch_that_takes_too_long_is_rolled_back_if_timeouts_are_heeded(work: Work | None) -> None:
    if work is None or not work.session.xa_set_timeout(10):
        return
    assert work.session.xa_get_timeout() == 10
    work.session.xa_start(work.xid)
    work.do()
    receiver = work.environment.receiver(work.environment.session(), work.orders)
    # The clock is the test's own, so the timeout takes no real time.
    work.environment.clock.advance(10_000)
    assert receiver.take().redelivered
    assert failure_of(lambda: work.session.xa_end(work.xid)) is BranchFailure.TIMED_OUT
    work.session.xa_rollback(work.xid)
    assert work.seen(work.bills) == []


@needs_offered("XA")
def test_each_wrong_call_has_its_code(work: Work) -> None:
    session, other, xid, none = work.session, work.connection.open_session(transacted=True), work.xid, new_xid()
    session.xa_start(xid)
    calls: dict[str, tuple[Callable[[], object], BranchFailure]] = {
        "begin the same again": (lambda: other.xa_start(xid), BranchFailure.DUPLICATE),
        "begin while another one is worked in": (lambda: session.xa_start(none), BranchFailure.PROTOCOL),
        "join none": (lambda: other.xa_start(none, join=True), BranchFailure.UNKNOWN),
        "resume what was not suspended": (lambda: other.xa_start(xid, resume=True), BranchFailure.PROTOCOL),
        "end what another one works in": (lambda: other.xa_end(xid), BranchFailure.PROTOCOL),
        "end none": (lambda: other.xa_end(none), BranchFailure.UNKNOWN),
        "prepare what is worked in": (lambda: other.xa_prepare(xid), BranchFailure.PROTOCOL),
        "prepare none": (lambda: other.xa_prepare(none), BranchFailure.UNKNOWN),
        "commit what is worked in": (lambda: other.xa_commit(xid, one_phase=True), BranchFailure.PROTOCOL),
        "commit what is not prepared": (lambda: other.xa_commit(xid), BranchFailure.PROTOCOL),
        "commit none": (lambda: other.xa_commit(none), BranchFailure.UNKNOWN),
        "roll back what is worked in": (lambda: other.xa_rollback(xid), BranchFailure.PROTOCOL),
        "roll back none": (lambda: other.xa_rollback(none), BranchFailure.UNKNOWN),
        "forget what nobody settled": (lambda: other.xa_forget(xid), BranchFailure.PROTOCOL),
        "forget none": (lambda: other.xa_forget(none), BranchFailure.UNKNOWN),
    }
    assert {name: failure_of(call) for name, (call, _) in calls.items()} == {
        name: failure for name, (_, failure) in calls.items()
    }
    work.do()
    session.xa_end(xid)
    assert session.xa_prepare(xid)
    assert failure_of(lambda: session.xa_prepare(xid)) is BranchFailure.PROTOCOL
    assert failure_of(lambda: session.xa_commit(xid, one_phase=True)) is BranchFailure.PROTOCOL
    assert failure_of(lambda: session.xa_start(xid, join=True)) is BranchFailure.PROTOCOL
    session.xa_rollback(xid)


@needs_offered("XA")
def test_work_outside_of_branches_must_end_first(work: Work) -> None:
    work.environment.send(work.session, work.bills, "outside")
    assert failure_of(lambda: work.session.xa_start(work.xid)) is BranchFailure.OUTSIDE
    # The local work is ended: from here on the same session may start a branch.
    work.session.rollback()
    work.whole()
    work.session.xa_rollback(work.xid)
    assert work.seen(work.bills) == []


@needs_offered("XA")
def test_only_the_coordinator_ends_what_is_worked_in(work: Work) -> None:
    work.session.xa_start(work.xid)
    work.do()
    assert failure_of(work.session.commit) is BranchFailure.PROTOCOL
    assert failure_of(work.session.rollback) is BranchFailure.PROTOCOL
    work.session.xa_end(work.xid)
    work.session.xa_commit(work.xid, one_phase=True)
    assert work.seen(work.bills) == [("bill for order", False)]


@needs_offered("XA")
def test_a_closed_session_refuses_branches(work: Work) -> None:
    session = work.session
    session.close()
    for call in (
        session.prepare,
        session.xa_start,
        session.xa_end,
        session.xa_prepare,
        session.xa_commit,
        session.xa_rollback,
    ):
        with pytest.raises(ClosedError):
            call(work.xid)


# A local transaction that becomes a branch as it is prepared


@needs_offered("XA")
@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
def test_a_transaction_that_is_prepared_is_settled_by_any_session(work: Work, commits: bool) -> None:
    work.do()
    assert work.session.prepare(work.xid)
    work.connection.close()
    assert work.seen(work.orders) == []
    assert work.seen(work.bills) == []
    session = work.environment.session(transacted=True)
    assert work.xid in session.xa_recover()
    session.xa_commit(work.xid) if commits else session.xa_rollback(work.xid)
    assert work.xid not in session.xa_recover()
    assert work.seen(work.bills) == ([("bill for order", False)] if commits else [])
    assert work.seen(work.orders) == ([] if commits else [("order", True)])


@needs_offered("XA")
def test_a_session_goes_on_in_a_new_transaction_after_a_prepare(work: Work) -> None:
    other = new_xid()
    work.do("first")
    assert work.session.prepare(work.xid)
    work.do("second")
    assert work.session.prepare(other)
    work.do("third")
    work.session.rollback()
    work.session.xa_rollback(work.xid)
    work.session.xa_commit(other)
    assert work.seen(work.bills) == [("bill for second", False)]


@needs_offered("XA")
def test_a_transaction_that_did_nothing_is_over_when_it_is_prepared(work: Work) -> None:
    assert work.session.prepare(work.xid) is False
    assert failure_of(lambda: work.session.xa_commit(work.xid)) is BranchFailure.UNKNOWN


@needs_offered("XA")
def test_a_transaction_is_rolled_back_if_a_branch_has_its_name(work: Work) -> None:
    work.do("first")
    assert work.session.prepare(work.xid)
    work.do("second")
    assert failure_of(lambda: work.session.prepare(work.xid)) is BranchFailure.DUPLICATE
    assert work.session.prepare(work.xid) is False
    work.session.xa_commit(work.xid)
    work.connection.close()
    assert work.seen(work.bills) == [("bill for first", False)]
    assert work.seen(work.orders) == [("second", True)]


@needs_offered("XA")
def test_a_transaction_whose_message_expired_is_rolled_back_by_its_prepare(work: Work) -> None:
    if Capability.EXPIRATION not in work.connection.capabilities:
        return
    expiration_ms = work.environment.clock.time_ms() + 10_000
    work.environment.send(work.session, work.bills, "brief", delivery_mode=2, expiration_ms=expiration_ms)
    work.environment.send(work.session, work.bills, "bill", delivery_mode=2)
    work.environment.clock.advance(20_000)
    with pytest.raises(RolledBackError):
        work.session.prepare(work.xid)
    assert work.xid not in work.session.xa_recover()
    assert work.seen(work.bills) == []


@needs_offered("XA")
def test_the_work_in_a_branch_is_no_transaction_of_its_session(work: Work) -> None:
    work.session.xa_start(work.xid)
    work.do()
    assert failure_of(lambda: work.session.prepare(new_xid())) is BranchFailure.PROTOCOL
    work.session.xa_end(work.xid)
    work.session.xa_commit(work.xid, one_phase=True)
    assert work.seen(work.bills) == [("bill for order", False)]
