"""A clock that is set back is noticed and told, and nothing else is taken for it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pyjms.history import Verdict, check, read, record
from pyjms.history.events import BEGIN_TX, CLOCK, OK, Event
from pyjms.history.rows import Call, Scope
from pyjms.history.stamps import NS_PER_MS, STEP_NS, StepWatch
from tests.pyjms.history.test_expiries import EXP_MS, START_MS, event

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

S = 10**9


class Clocks:
    """Two clocks that a test sets. `delay_ns`: so long the reader waits before it reads the steady one."""

    def __init__(self) -> None:
        self.wall, self.steady, self.delay_ns = 1_700_000_000 * S, 500 * S, 0
        self.told: list[tuple[int, int]] = []
        self.watch = StepWatch(lambda now_ns, by_ns: self.told.append((now_ns, by_ns)), self._wall, self._steady)

    def _wall(self) -> int:
        return self.wall

    def _steady(self) -> int:
        delay_ns, self.delay_ns = self.delay_ns, 0
        self.pass_time(delay_ns)
        return self.steady

    def pass_time(self, ns: int) -> None:
        self.wall += ns
        self.steady += ns


def test_a_step_back_is_told_once_by_who_reads_next() -> None:
    clocks = Clocks()
    clocks.pass_time(10 * S)
    assert clocks.watch.read() == clocks.wall
    clocks.pass_time(20 * S)  # longer than the step, so that the time of day alone does not show it
    clocks.wall -= 5 * S
    assert [clocks.watch.read() for _ in range(3)] == [clocks.wall] * 3
    assert clocks.told == [(clocks.wall, 5 * S)]


def test_a_step_forward_is_not_told_but_the_way_back_is() -> None:
    clocks = Clocks()
    clocks.wall += 3600 * S
    clocks.watch.read()
    assert clocks.told == []
    clocks.wall -= 3600 * S
    clocks.watch.read()
    assert clocks.told == [(clocks.wall, 3600 * S)]


def test_a_thread_that_has_to_wait_between_two_readings_sees_no_step() -> None:
    clocks = Clocks()
    for delay_ns in (STEP_NS * 2, 60 * S):
        clocks.delay_ns = delay_ns
        clocks.watch.read()
        clocks.watch.read()
    assert clocks.told == []
    clocks.wall -= S
    clocks.watch.read()
    assert [by_ns for _, by_ns in clocks.told] == [S]


def test_clocks_that_drift_apart_are_followed_by_who_looks_from_time_to_time() -> None:
    clocks = Clocks()
    for _ in range(100):
        clocks.wall -= STEP_NS // 2
        clocks.watch.look()
        clocks.watch.read()
    assert clocks.told == []


def test_a_recording_holds_that_its_machines_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks()
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: clocks.wall)
        patched.setattr(time, "monotonic_ns", lambda: clocks.steady)
        made = record(tmp_path)
    with made:
        scope = Scope(made.pid, "c", "c/1")
        for back_ns in (0, 2 * S):
            clocks.wall -= back_ns
            made.log.put(Call(BEGIN_TX, scope, made.now_ns(), "t", None), OK, made.now_ns())
    before, stepped, after = sorted(read(tmp_path).events, key=lambda each: (-each.t0, each.op != CLOCK))
    assert (stepped.op, stepped.note, stepped.conn) == (CLOCK, '{"back_ns":2000000000}', None)
    assert before.t0 - stepped.t0 == 2 * S
    assert after.t0 == stepped.t0
    (finding,) = check(read(tmp_path)).findings
    assert finding.text.startswith(f"the clock of {before.node} was set back by 2000 ms while it recorded")


def stepped_history() -> list[Event]:
    """A message that is sent, and delivered after the clock was set back, beside what two processes saw of that."""
    of_message = {"mid": "ID:1", "dest": "queue://q", "sha": "x"}
    back = event("clock", START_MS + 1000, conn=None, sess=None, note='{"back_ns":9000000000}')
    return [
        event("send", START_MS + 10_000, **of_message, mode=2, prio=4, sn=1, exp=EXP_MS),
        back,
        replace(back, pid="2", t0=back.t0 + 5, note='{"back_ns":9000000100}'),
        event("deliver", START_MS + 2000, **of_message, consumer="c/1/1", dn=1, redelivered=False, count=1),
    ]


def test_what_may_be_the_steps_fault_is_no_violation() -> None:
    events = stepped_history()
    without = [each for each in events if each.op != CLOCK]
    assert [(each.rule, each.verdict) for each in check(without, without=["unaccounted"]).findings] == [
        ("before-send", Verdict.VIOLATION)
    ]
    report = check(events, without=["unaccounted"])
    assert [(each.rule, each.verdict) for each in report.findings] == [
        ("before-send", Verdict.WARNING),
        ("clock-stepped", Verdict.INFORMATION),
    ]
    assert report.findings[1].events == (events[2],)
    assert check(events, without=["unaccounted", "clock-stepped"]).verdict is Verdict.WARNING
    assert events[1].t1 is not None
    assert events[1].t1 // NS_PER_MS == START_MS + 1000
