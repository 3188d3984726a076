"""The contract tests of branches are tests of something: each mistake here, built into the broker, makes one of them fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.spi.errors import BranchError
from pyjms.spi.xid import BranchFailure
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.transaction.branches import Branch, Branches
from pyjms_provider.core.transaction.unit_of_work import UnitOfWork, UnitState
from pyjms_tck.spi import branch_suite
from pyjms_tck.spi.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyjms.spi.xid import Xid
    from pyjms_tck.spi.branch_suite import Work

Replace = dict[tuple[type, str], object]

_prepare, _prepare_transaction, _end = Branches.prepare, Branches.prepare_transaction, Branches.end


def prepare_and_publish(branches: Branches, xid: Xid) -> bool:
    """What is prepared is seen at once."""
    done = _prepare(branches, xid)
    branches._branches[xid].unit.decide(commit=True)
    return done


def prepare_transaction_and_publish(
    branches: Branches, xid: Xid, unit: UnitOfWork, begin: Callable[[], object]
) -> bool:
    """What is prepared is seen at once."""
    done = _prepare_transaction(branches, xid, unit, begin)
    unit.decide(commit=True)
    return done


def prepare_nothing_as_something(branches: Branches, xid: Xid) -> bool:
    """Nobody is told that a branch is read only."""
    return _prepare(branches, xid) or True


def begin_whatever_has_expired(unit: UnitOfWork, now_ms: int, *, for_stage: bool = False) -> None:
    """A message that has expired does not end its transaction."""
    unit._state = UnitState.COMMITTING


def fail_silently(branches: Branches, xid: Xid, worker: object, *, fail: bool = False) -> None:
    """That the work failed is not heeded."""
    _end(branches, xid, worker)  # type: ignore[arg-type]


def join_nobody(branches: Branches, xid: Xid, worker: object) -> Branch:
    """A branch is the work of one session."""
    raise BranchError(f"branch {xid} is another session's", BranchFailure.DUPLICATE)


def abandon_all(branches: Branches, worker: object) -> None:
    """Whatever is there goes with the first session that closes."""
    for branch in list(branches._branches.values()):
        branch.undo()
        del branches._branches[branch.xid]


MISTAKES: dict[str, tuple[Replace, Callable[[Work], None]]] = {
    "what is prepared is seen": (
        {(Branches, "prepare"): prepare_and_publish},
        lambda work: branch_suite.test_a_branch_is_seen_once_it_is_committed(work, False),
    ),
    "nothing is given back": (
        {(Branch, "undo"): lambda branch: branch.unit.rollback()},
        lambda work: branch_suite.test_what_a_branch_received_comes_back_marked_when_it_is_rolled_back(work, False),
    ),
    "what is sent is kept after a rollback": (
        {(Branch, "undo"): lambda branch: branch.unit.commit(0)},
        lambda work: branch_suite.test_what_a_branch_received_comes_back_marked_when_it_is_rolled_back(work, False),
    ),
    "nobody is told of read-only branches": (
        {(Branches, "prepare"): prepare_nothing_as_something},
        branch_suite.test_a_branch_that_did_nothing_is_read_only_and_over,
    ),
    "failure is not heeded": (
        {(Branches, "end"): fail_silently},
        branch_suite.test_a_branch_whose_work_failed_can_only_be_rolled_back,
    ),
    "what is prepared ends with its session": (
        {(Branches, "abandon"): abandon_all},
        branch_suite.test_what_is_prepared_is_in_doubt_whatever_becomes_of_its_session,
    ),
    "active work outlives its session": (
        {(Branches, "abandon"): lambda branches, worker: None},
        branch_suite.test_work_that_has_ended_outlives_its_session_and_other_work_does_not,
    ),
    "recovery finds nothing": (
        {(Branches, "recover"): lambda branches: []},
        branch_suite.test_what_is_prepared_is_in_doubt_whatever_becomes_of_its_session,
    ),
    "time-outs are said to be heeded": (
        {(Branches, "_set_deadline"): lambda branches, branch, timeout_ms: False},
        branch_suite.test_a_branch_that_takes_too_long_is_rolled_back_if_timeouts_are_heeded,
    ),
    "what is not there is rolled back without a word": (
        {(Branches, "rollback"): lambda branches, xid: None},
        branch_suite.test_each_wrong_call_has_its_code,
    ),
    "the work outside becomes part of a branch": (
        {(UnitOfWork, "is_empty"): property(lambda unit: True)},
        branch_suite.test_work_outside_of_branches_must_end_first,
    ),
    "suspended work has ended": (
        {(Branches, "suspend"): _end},
        branch_suite.test_work_is_suspended_and_resumed,
    ),
    "a branch is one session's": (
        {(Branches, "join"): join_nobody},
        branch_suite.test_sessions_of_one_resource_manager_work_in_one_branch,
    ),
    "a session commits what its coordinator should": (
        {(VmSession, "_check_local"): lambda session: None},
        branch_suite.test_only_the_coordinator_ends_what_is_worked_in,
    ),
    "a closed session settles branches": (
        {(VmSession, "_branches"): lambda session: session._host.branches},
        branch_suite.test_a_closed_session_refuses_branches,
    ),
    "a prepared transaction is seen": (
        {(Branches, "prepare_transaction"): prepare_transaction_and_publish},
        lambda work: branch_suite.test_a_transaction_that_is_prepared_is_settled_by_any_session(work, True),
    ),
    "what a prepared transaction received stays with its session": (
        {(UnitOfWork, "_change_holder"): lambda unit, heir: None},
        lambda work: branch_suite.test_a_transaction_that_is_prepared_is_settled_by_any_session(work, True),
    ),
    "nobody is told of transactions that did nothing": (
        {(Branches, "prepare_transaction"): lambda branches, xid, unit, begin: True},
        branch_suite.test_a_transaction_that_did_nothing_is_over_when_it_is_prepared,
    ),
    "a transaction goes on when it is prepared": (
        {(VmSession, "prepare"): lambda session, xid: True},
        branch_suite.test_a_session_goes_on_in_a_new_transaction_after_a_prepare,
    ),
    "a name is given twice": (
        {(Branches, "_add"): lambda branches, branch, advice: branches._branches.update({branch.xid: branch})},
        branch_suite.test_a_transaction_is_rolled_back_if_a_branch_has_its_name,
    ),
    "what has expired is prepared": (
        {(UnitOfWork, "begin_commit"): begin_whatever_has_expired},
        branch_suite.test_a_transaction_whose_message_expired_is_rolled_back_by_its_prepare,
    ),
    "a session prepares what its coordinator should": (
        {(VmSession, "prepare"): lambda session, xid: True},
        branch_suite.test_the_work_in_a_branch_is_no_transaction_of_its_session,
    ),
}


@pytest.fixture
def impatient(kept_url: str) -> Iterator[Environment]:
    with Environment(kept_url, patience_s=0.3) as opened:
        yield opened


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(impatient: Environment, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    work = branch_suite.open_work(impatient)
    assert work is not None
    replaced, contract_test = MISTAKES[mistake]
    for (owner, name), instead in replaced.items():
        monkeypatch.setattr(owner, name, instead)
    with pytest.raises((AssertionError, pytest.fail.Exception, BranchError)):
        contract_test(work)


@pytest.mark.parametrize("name", [name for name in vars(branch_suite) if name.startswith("test_")])
def test_who_does_not_declare_branches_is_not_asked_for_them(name: str) -> None:
    """Every test of the suite passes by a provider without the capability."""
    test = getattr(branch_suite, name)
    marks = getattr(test, "pytestmark", [])
    test(None, *(mark.args[1][0] for mark in marks if mark.name == "parametrize"))
