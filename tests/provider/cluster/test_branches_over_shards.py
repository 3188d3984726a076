"""Branches of XA over several shards, worked in and settled at several members: whatever fails, all parts are committed, or none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import count
from threading import Barrier, Thread, get_ident
from typing import Any

import pytest

from pyjms.spi.errors import BranchError, InDoubtError, ResourceError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_provider.clients.stomp.native.session import NativeSession
from pyjms_provider.clients.vm import VmSession
from tests.provider.cluster.clients import PATIENCE_S, Client
from tests.provider.cluster.fake import SHARDS
from tests.provider.cluster.test_two_phase import ALL, NOTHING

_numbers = count(1)


class KilledError(BaseException):
    """The member dies here: nothing else of it runs."""


class Faults:
    """Fails one of the calls at shards that the present thread makes."""

    CALLS = ("xa_prepare_as", "xa_commit", "xa_rollback")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        """How many calls succeed before one fails; 0: none fails."""
        self.error: BaseException = KilledError()
        self.is_done = False
        """Whether the failing call has its effect."""
        self.happened = False
        self._thread = get_ident()
        for kind in (VmSession, NativeSession):
            for name in self.CALLS:
                monkeypatch.setattr(kind, name, self._wrap(getattr(kind, name)))

    def plan(self, at: int, error: BaseException, *, is_done: bool) -> None:
        """Fail the call `at`, counted from 1."""
        self.left, self.error, self.is_done, self.happened = at, error, is_done, False

    def _wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            # Not those that a served shard makes for the same request.
            if not self.left or get_ident() != self._thread:
                return call(*args, **options)
            self.left -= 1
            if self.left:
                return call(*args, **options)
            self.happened = True
            if self.is_done:
                call(*args, **options)
            raise self.error

        return wrapped


def elsewhere(client: Client) -> ClusterSession:
    """Return a session at another member, which knows nothing of what this one has done."""
    return Client(copy(client.cluster), client.clock).session(transacted=True)


def ended(client: Client, *shards: int, session: ClusterSession | None = None) -> tuple[ClusterSession, Xid]:
    """Return a branch that has sent a message to each of the shards, and whose work has ended."""
    xid = Xid(1, b"one", str(next(_numbers)).encode())
    session = session or client.session(transacted=True)
    session.xa_start(xid)
    for number in shards:
        client.send(str(number), session=session, to=number)
    session.xa_end(xid)
    return session, xid


def failure(call: Callable[[], object]) -> BranchFailure | None:
    """Return why the call failed."""
    try:
        call()
    except BranchError as error:
        return error.failure
    return None


def check_over(client: Client, xid: Xid) -> None:
    """Check that no member lets a coordinator decide about the branch any more."""
    for session in (client.session(transacted=True), elsewhere(client)):
        assert xid not in session.xa_recover()
        for call in (session.xa_rollback, session.xa_commit, partial(session.xa_commit, one_phase=True)):
            assert failure(partial(call, xid)) is BranchFailure.UNKNOWN


def settled(client: Client) -> list[list[str]]:
    """Return what is in the queues once the members have settled what was left."""
    client.cluster.settle()
    assert client.cluster.in_doubt() == 0
    return client.all_left()


def test_all_parts_are_committed_and_no_decision_stays(client: Client) -> None:
    session, xid = ended(client, *range(SHARDS))
    session.xa_commit(xid, one_phase=True)
    assert client.all_left() == ALL
    assert (client.cluster.decisions.rows, client.cluster.in_doubt()) == ({}, 0)
    check_over(client, xid)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_branch_that_changes_one_shard_writes_no_decision_and_is_not_prepared(
    client: Client, shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[str] = []
    client.cluster.decisions.before_commit = lambda: decided.append("written")
    prepared: list[bool] = []
    for kind in (VmSession, NativeSession):
        prepare_as = kind.xa_prepare_as

        def note(inner: Any, xid: Xid, name: Xid, prepare_as: Callable[[Any, Xid, Xid], bool] = prepare_as) -> bool:
            prepared.append(prepare_as(inner, xid, name))
            return prepared[-1]

        monkeypatch.setattr(kind, "xa_prepare_as", note)
    session, xid = ended(client, shard)
    session.xa_commit(xid, one_phase=True)
    assert client.left(shard) == [(str(shard), False)]
    assert (decided, any(prepared)) == ([], False)


def test_a_branch_that_changes_nothing_is_over(client: Client) -> None:
    session, xid = ended(client)
    session.xa_commit(xid, one_phase=True)
    check_over(client, xid)


@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize(
    "error",
    [BranchError("no answer", BranchFailure.UNREACHABLE), ResourceError("no answer"), ValueError("a bug")],
    ids=["unreachable", "no answer", "bug"],
)
def test_each_call_at_a_shard_fails_once(
    client: Client, error: Exception, is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch)
    for at in count(1):
        session, xid = ended(client, *range(SHARDS))
        faults.plan(at, error, is_done=is_done)
        try:
            session.xa_commit(xid, one_phase=True)
            outcome: BranchFailure | None = None
        except BranchError as refusal:
            outcome = refusal.failure
        except ValueError:
            outcome = BranchFailure.FAILED
        faults.left = 0
        check_over(client, xid)
        found = settled(client)
        # The decision makes it: what fails later is settled by the members.
        assert found == (NOTHING if at <= SHARDS else ALL), f"call {at}"
        if not isinstance(error, ValueError):
            assert outcome is (BranchFailure.ROLLED_BACK if at <= SHARDS else None), f"call {at}"
        if not faults.happened:
            assert at > SHARDS
            break


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_the_member_dies_at_each_call(client: Client, is_done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(monkeypatch)
    for at in count(1):
        member = Client(copy(client.cluster), client.clock)
        session, xid = ended(member, *range(SHARDS))
        faults.plan(at, KilledError(), is_done=is_done)
        with suppress(KilledError):
            session.xa_commit(xid, one_phase=True)
        faults.left = 0
        member.connection.close()
        other = elsewhere(client)
        # A coordinator that got no answer finds no branch that is in doubt; it may roll back what was not prepared.
        assert list(other.xa_recover()) == []
        assert failure(partial(other.xa_rollback, xid)) in (None, BranchFailure.UNKNOWN)
        assert settled(client) == (NOTHING if at <= SHARDS else ALL), f"call {at}"
        if not faults.happened:
            break


class TestDecision:
    @pytest.mark.parametrize("written", [False, True])
    def test_the_member_dies_at_the_decision(self, client: Client, written: bool) -> None:
        def die() -> None:
            raise KilledError

        session, xid = ended(client, *range(SHARDS))
        decisions = client.cluster.decisions
        if written:
            decisions.after_commit = die
        else:
            decisions.before_commit = die
        with pytest.raises(KilledError):
            session.xa_commit(xid, one_phase=True)
        check_over(client, xid)
        assert settled(client) == (ALL if written else NOTHING)

    @pytest.mark.parametrize("written", [False, True])
    def test_its_answer_is_lost(self, client: Client, written: bool) -> None:
        session, xid = ended(client, *range(SHARDS))
        decisions = client.cluster.decisions
        if written:
            decisions.fails_after = InDoubtError("no answer")
        else:
            decisions.fails_before = InDoubtError("no answer")
        assert failure(lambda: session.xa_commit(xid, one_phase=True)) is BranchFailure.UNREACHABLE
        check_over(client, xid)
        assert settled(client) == (ALL if written else NOTHING)

    def test_it_is_refused(self, client: Client) -> None:
        session, xid = ended(client, *range(SHARDS))
        client.cluster.decisions.fails_before = ResourceError("the database refused it")
        assert failure(lambda: session.xa_commit(xid, one_phase=True)) is BranchFailure.ROLLED_BACK
        assert client.cluster.in_doubt() == 0
        check_over(client, xid)
        assert settled(client) == NOTHING

    def test_the_member_cannot_coordinate(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse() -> str:
            raise ResourceError("it is no member at the moment")

        session, xid = ended(client, *range(SHARDS))
        with monkeypatch.context() as context:
            context.setattr(client.cluster.decisions, "new_id", refuse)
            assert failure(lambda: session.xa_commit(xid, one_phase=True)) is BranchFailure.ROLLED_BACK
        check_over(client, xid)
        assert settled(client) == NOTHING

    @pytest.mark.parametrize("moved", [0, 1])
    @pytest.mark.parametrize("written", [False, True])
    def test_a_leader_moves_there(self, client: Client, moved: int, written: bool) -> None:
        session, xid = ended(client, *range(SHARDS))
        decisions = client.cluster.decisions
        if written:
            decisions.after_commit = partial(client.cluster.move, moved)
            session.xa_commit(xid, one_phase=True)
        else:
            decisions.before_commit = partial(client.cluster.move, moved)
            decisions.fails_before = ResourceError("the database refused it")
            assert failure(lambda: session.xa_commit(xid, one_phase=True)) is BranchFailure.ROLLED_BACK
        check_over(client, xid)
        assert settled(client) == (ALL if written else NOTHING)

    def test_others_have_taken_the_member_for_dead(self, client: Client) -> None:
        session, xid = ended(client, *range(SHARDS))
        client.cluster.decisions.before_commit = client.cluster.settle
        assert failure(lambda: session.xa_commit(xid, one_phase=True)) is BranchFailure.ROLLED_BACK
        assert settled(client) == NOTHING


@pytest.mark.parametrize("lost", range(SHARDS))
def test_a_part_that_is_lost_rolls_all_back(client: Client, lost: int) -> None:
    session, xid = ended(client, *range(SHARDS))
    client.cluster.move(lost)
    assert failure(lambda: session.xa_commit(xid, one_phase=True)) is BranchFailure.ROLLED_BACK
    check_over(client, xid)
    assert settled(client) == NOTHING


def test_a_branch_in_which_a_session_works_is_left_as_it_is(client: Client) -> None:
    session = client.session(transacted=True)
    xid = Xid(1, b"one", b"active")
    session.xa_start(xid)
    for number in range(SHARDS):
        client.send(str(number), session=session, to=number)
    other = client.session(transacted=True)
    assert failure(lambda: other.xa_commit(xid, one_phase=True)) is BranchFailure.PROTOCOL
    session.xa_end(xid)
    other.xa_commit(xid, one_phase=True)
    assert client.all_left() == ALL


def test_a_prepared_branch_is_not_committed_in_one_phase_nor_prepared_again(client: Client) -> None:
    session, xid = ended(client, *range(SHARDS))
    assert session.xa_prepare(xid)
    for other in (session, elsewhere(client)):
        assert failure(lambda: other.xa_prepare(xid)) is BranchFailure.PROTOCOL  # noqa: B023 - called at once
        assert failure(lambda: other.xa_commit(xid, one_phase=True)) is BranchFailure.PROTOCOL  # noqa: B023
    session.xa_commit(xid)
    assert client.all_left() == ALL


def test_many_coordinators_at_two_members_get_one_outcome(client: Client) -> None:
    """Two commit, one rolls back and one recovers what it finds, all at once: all parts or none, and no two answers disagree."""
    for _ in range(12):
        _, xid = ended(client, *range(SHARDS))
        here, there = client.session(transacted=True), elsewhere(client)
        also_here, also_there = client.session(transacted=True), elsewhere(client)
        answers: dict[str, BranchFailure | None] = {}
        recovered: list[Xid] = []
        calls: dict[str, Callable[[], object]] = {
            "commit here": partial(here.xa_commit, xid, one_phase=True),
            "commit there": partial(there.xa_commit, xid, one_phase=True),
            "roll back": partial(also_here.xa_rollback, xid),
            "recover": lambda session=also_there, found=recovered: found.extend(session.xa_recover()),  # type: ignore[misc]
        }
        barrier = Barrier(len(calls))

        def run(
            name: str, call: Callable[[], object], barrier: Barrier = barrier, answers: dict[str, Any] = answers
        ) -> None:
            barrier.wait(PATIENCE_S)
            answers[name] = failure(call)

        threads = [Thread(target=run, args=each) for each in calls.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(answers) == len(calls)
        found = settled(client)
        assert found in (ALL, NOTHING), answers
        assert recovered == []
        if None in (answers["commit here"], answers["commit there"]):
            assert found == ALL, answers
        if answers["roll back"] is None or BranchFailure.ROLLED_BACK in answers.values():
            assert found == NOTHING, answers


class TestSeveralMembers:
    """A coordinator, and sessions that work in one branch, are at members that know nothing of each other."""

    @pytest.mark.parametrize("through", ["first", "second", "third"])
    @pytest.mark.parametrize("one_phase", [False, True], ids=["two phases", "one phase"])
    def test_what_sessions_at_two_members_have_done_is_committed_by_any(
        self, client: Client, through: str, one_phase: bool
    ) -> None:
        first, second, third = client.session(transacted=True), elsewhere(client), elsewhere(client)
        sessions = {"first": first, "second": second, "third": third}
        xid = self.work(client, first, second)
        if not one_phase:
            assert sessions[through].xa_prepare(xid)
        # In two phases by another one than that which has prepared it.
        committing = sessions[through] if one_phase else first
        committing.xa_commit(xid, one_phase=one_phase)
        assert client.all_left() == [["first"], ["first"], ["second"], ["second"]]
        check_over(client, xid)

    def test_it_is_rolled_back_by_any(self, client: Client) -> None:
        first, second = client.session(transacted=True), elsewhere(client)
        xid = self.work(client, first, second)
        first.xa_rollback(xid)
        assert [client.cluster.broker(number).virtual_host.branches.reports() for number in (0, 2)] == [[], []]
        check_over(client, xid)

    @pytest.mark.parametrize("lost", range(SHARDS))
    @pytest.mark.parametrize("one_phase", [False, True], ids=["two phases", "one phase"])
    def test_a_part_that_is_lost_is_missed_by_another_member(self, client: Client, lost: int, one_phase: bool) -> None:
        _, xid = ended(client, *range(SHARDS))
        client.cluster.move(lost)
        other = elsewhere(client)
        call = partial(other.xa_commit, xid, one_phase=True) if one_phase else partial(other.xa_prepare, xid)
        assert failure(call) is BranchFailure.ROLLED_BACK
        check_over(client, xid)
        assert settled(client) == NOTHING

    def test_work_at_the_next_leader_does_not_stand_for_a_part_that_is_lost(self, client: Client) -> None:
        _, xid = ended(client, *range(SHARDS))
        home = client.cluster.placement.shard_of_branch(str(xid))
        lost = next(number for number in range(SHARDS) if number != home)
        client.cluster.move(lost)
        second = elsewhere(client)
        second.xa_start(xid, join=True)
        client.send("second", session=second, to=lost)
        second.xa_end(xid)
        assert failure(lambda: elsewhere(client).xa_prepare(xid)) is BranchFailure.ROLLED_BACK
        assert settled(client) == NOTHING

    def test_work_whose_end_the_home_does_not_hear_of_rolls_all_back(self, client: Client) -> None:
        session = client.session(transacted=True)
        xid = Xid(1, b"one", b"deaf")
        session.xa_start(xid)
        for number in range(SHARDS):
            client.send(str(number), session=session, to=number)
        client.cluster.move(client.cluster.placement.shard_of_branch(str(xid)))
        assert failure(lambda: session.xa_end(xid)) is BranchFailure.ROLLED_BACK
        assert failure(lambda: elsewhere(client).xa_commit(xid, one_phase=True)) in (
            BranchFailure.ROLLED_BACK,
            BranchFailure.UNKNOWN,
        )
        assert settled(client) == NOTHING

    @staticmethod
    def work(client: Client, first: ClusterSession, second: ClusterSession) -> Xid:
        """Have two sessions work in one branch, each in two shards; return it."""
        xid = Xid(1, b"joined", str(next(_numbers)).encode())
        first.xa_start(xid)
        second.xa_start(xid, join=True)
        for session, text, numbers in ((first, "first", (0, 1)), (second, "second", (2, 3))):
            for number in numbers:
                client.send(text, session=session, to=number)
            session.xa_end(xid)
        return xid
