"""Random sequences of calls, right and wrong ones, deaths and time-outs, against the model: each answer, and all messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyjms.spi.errors import BranchError
from pyjms.spi.xid import BranchFailure, Xid
from tests.provider.keeping.site import ORDERS
from tests.provider.xa.model import DEFAULT_TIMEOUT_MS, Model, RefusedError
from tests.provider.xa.site import Party, XaSite

NAMES = ("one", "two", "three")
names = st.sampled_from(NAMES)
sessions = st.integers(0, 2)


def xid(name: str) -> Xid:
    return Xid(7, name.encode(), b"q")


def outcome(call: Callable[[], object]) -> object:
    """Return what a call of the broker or of the model answers, be it a failure."""
    try:
        return call()
    except (BranchError, RefusedError) as refused:
        return refused.failure


class Branches(RuleBasedStateMachine):
    """Three sessions, three names, one queue; a coordinator that calls whatever it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.site = XaSite()
        self.parties = [Party(self.site) for _ in range(3)]
        self.sent = 0

    def teardown(self) -> None:
        self.site.stop()

    def both(self, real: Callable[[], object], model: Callable[[], object]) -> None:
        answer, expected = outcome(real), outcome(model)
        assert answer == expected, f"the broker says {answer}, and the model {expected}"

    @rule(session=sessions, name=names, seconds=st.sampled_from([0, 10]))
    def start(self, session: int, name: str, seconds: int) -> None:
        provider = self.parties[session].session
        provider.xa_set_timeout(seconds)
        timeout_ms = seconds * 1000 or DEFAULT_TIMEOUT_MS
        self.both(lambda: provider.xa_start(xid(name)), lambda: self.model.start(session, name, timeout_ms))

    @rule(session=sessions, name=names)
    def join(self, session: int, name: str) -> None:
        provider = self.parties[session].session
        self.both(lambda: provider.xa_start(xid(name), join=True), lambda: self.model.join(session, name))

    @rule(session=sessions, name=names)
    def resume(self, session: int, name: str) -> None:
        provider = self.parties[session].session
        self.both(lambda: provider.xa_start(xid(name), resume=True), lambda: self.model.resume(session, name))

    @rule(session=sessions, name=names)
    def suspend(self, session: int, name: str) -> None:
        provider = self.parties[session].session
        self.both(lambda: provider.xa_end(xid(name), suspend=True), lambda: self.model.suspend(session, name))

    @rule(session=sessions, name=names, fail=st.sampled_from([False, False, True]))
    def end(self, session: int, name: str, fail: bool) -> None:
        provider = self.parties[session].session
        self.both(lambda: provider.xa_end(xid(name), fail=fail), lambda: self.model.end(session, name, fail))

    @precondition(lambda self: self.model.working)
    @rule(data=st.data())
    def end_what_a_session_works_in(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.model.working)))
        self.end(session, self.model.working[session], False)

    @precondition(lambda self: self.model.working)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.model.working)))
        self.sent += 1
        self.parties[session].send(f"{self.sent}", ORDERS)
        self.model.send(session, f"{self.sent}")

    @precondition(lambda self: self.model.working and self.model.queue)
    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.model.working)))
        text = self.parties[session].receive().envelope.body
        self.model.queue.sort(key=lambda each: each != text)  # the order of the queue is others' business
        self.model.receive(session)

    @rule()
    def send_outside(self) -> None:
        self.sent += 1
        self.site.send(f"{self.sent}")
        self.model.queue.append(f"{self.sent}")

    @rule(session=sessions, name=names)
    def prepare(self, session: int, name: str) -> None:
        self.both(lambda: self.parties[session].session.xa_prepare(xid(name)), lambda: self.model.prepare(name))

    @precondition(lambda self: len(self.model.working) < len(self.parties))
    @rule(name=names, data=st.data())
    def work_and_prepare(self, name: str, data: st.DataObject) -> None:
        """What single steps seldom make: a branch in doubt that holds something."""
        free = [session for session in range(len(self.parties)) if session not in self.model.working]
        session = data.draw(st.sampled_from(free))
        if name in self.model.branches:
            return
        self.send_outside()
        self.start(session, name, 0)
        self.receive(data)
        self.send(data)
        self.end(session, name, False)
        self.prepare(session, name)

    @rule(session=sessions, name=names)
    def commit(self, session: int, name: str) -> None:
        self.both(lambda: self.parties[session].session.xa_commit(xid(name)), lambda: self.model.commit(name))

    @rule(session=sessions, name=names)
    def commit_at_once(self, session: int, name: str) -> None:
        provider = self.parties[session].session
        self.both(lambda: provider.xa_commit(xid(name), one_phase=True), lambda: self.model.commit_at_once(name))

    @rule(session=sessions, name=names)
    def rollback(self, session: int, name: str) -> None:
        self.both(lambda: self.parties[session].session.xa_rollback(xid(name)), lambda: self.model.rollback(name))

    @rule(session=sessions, name=names)
    def forget(self, session: int, name: str) -> None:
        self.both(lambda: self.parties[session].session.xa_forget(xid(name)), lambda: self.model.forget(name))

    @rule(name=names, commit=st.booleans())
    def settle(self, name: str, commit: bool) -> None:
        self.both(
            lambda: self.site.branches.settle_heuristically(xid(name), commit=commit),
            lambda: self.model.settle(name, commit),
        )

    @rule(milliseconds=st.sampled_from([1, 10_000, DEFAULT_TIMEOUT_MS]))
    def advance(self, milliseconds: int) -> None:
        self.site.advance(milliseconds)
        self.model.advance(milliseconds)

    @rule(session=sessions)
    def close(self, session: int) -> None:
        self.parties[session].session.close()
        self.model.close(session)
        self.parties[session] = Party(self.site)

    @rule(orderly=st.booleans())
    def restart(self, orderly: bool) -> None:
        self.site.restart() if orderly else self.site.crash()
        self.model.crash()
        self.parties = [Party(self.site) for _ in range(3)]

    @invariant()
    def the_queue_has_what_the_model_has(self) -> None:
        assert sorted(self.site.texts()) == sorted(self.model.queue)

    @invariant()
    def the_same_branches_are_in_doubt(self) -> None:
        assert set(self.site.branches.recover()) == {xid(name) for name in self.model.recover()}

    @invariant()
    def no_branch_is_kept_that_is_over(self) -> None:
        reports = {each.xid: each for each in self.site.branches.reports()}
        assert set(reports) == {xid(name) for name in self.model.branches}
        for name, branch in self.model.branches.items():
            report = reports[xid(name)]
            assert (report.sent, report.received) == (len(branch.sent), len(branch.received)), report


TestBranches = pytest.mark.realises("MOM-10")(Branches.TestCase)
TestBranches.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_the_model_finds_a_broker_that_forgets_to_hold() -> None:
    """The test can fail: what was received in a branch that is prepared must not be seen."""
    machine = Branches()
    try:
        machine.send_outside()
        machine.start(0, "one", 0)
        machine.parties[0].receive()  # unknown to the model
        with pytest.raises(AssertionError):
            machine.the_queue_has_what_the_model_has()
        machine.both(lambda: None, lambda: None)
        with pytest.raises(AssertionError, match="the model"):
            machine.both(lambda: BranchFailure.UNKNOWN, lambda: BranchFailure.PROTOCOL)
    finally:
        machine.teardown()
