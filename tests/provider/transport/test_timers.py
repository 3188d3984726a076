from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from weakref import ref

import pytest

from pyjms.testing import VirtualClock
from pyjms_provider.transport.scheduler import Alarm, Timers
from tests.provider.transport.world import PATIENCE_S, Net


class Bell:
    def __init__(self, name: str, rung: SimpleQueue[str]) -> None:
        self.name = name
        self.rung = rung

    def alarm(self, due_ms: float) -> None:
        self.rung.put(self.name)


@pytest.fixture
def rung() -> SimpleQueue[str]:
    return SimpleQueue()


def arm(net: Net, at_ms: int, bell: Bell) -> float:
    return net.on_loop(lambda: net.service.timers.arm(at_ms, Alarm(bell)))


@pytest.mark.realises("BJ-IDLE-4")
def test_alarms_go_off_by_the_clock_that_was_given(net: Net, rung: SimpleQueue[str]) -> None:
    arm(net, 1_000, Bell("late", rung))
    arm(net, 500, Bell("early", rung))
    net.advance(500)
    assert rung.get(timeout=PATIENCE_S) == "early"
    net.advance(500)
    assert rung.get(timeout=PATIENCE_S) == "late"


def test_an_alarm_does_not_go_off_before_its_time(net: Net, rung: SimpleQueue[str]) -> None:
    arm(net, 500, Bell("later", rung))
    arm(net, 400, Bell("sooner", rung))
    net.advance(400)
    assert rung.get(timeout=PATIENCE_S) == "sooner"
    net.clock.await_wait(100)
    assert rung.empty()


def test_alarms_of_about_the_same_time_go_off_together(net: Net, rung: SimpleQueue[str]) -> None:
    assert [arm(net, at, Bell(str(at), rung)) for at in (481, 490, 500)] == [500, 500, 500]
    net.advance(500)
    assert sorted(rung.get(timeout=PATIENCE_S) for _ in range(3)) == ["481", "490", "500"]


def test_an_alarm_that_is_due_already_goes_off_at_once(net: Net, rung: SimpleQueue[str]) -> None:
    net.clock.advance(1_000)
    arm(net, 0, Bell("overdue", rung))
    assert rung.get(timeout=PATIENCE_S) == "overdue"


def test_an_alarm_that_comes_while_another_is_waited_for_is_not_missed(net: Net, rung: SimpleQueue[str]) -> None:
    arm(net, 10_000, Bell("far", rung))
    net.clock.await_wait(10_000)
    arm(net, 100, Bell("near", rung))
    net.advance(100)
    assert rung.get(timeout=PATIENCE_S) == "near"


def test_who_is_called_in_time_anyway_is_not_called_twice(net: Net, rung: SimpleQueue[str]) -> None:
    alarm, timers = Alarm(Bell("once", rung)), net.service.timers
    armed_ms = net.on_loop(lambda: timers.arm(490, alarm))
    assert net.on_loop(lambda: [timers.arm(at, alarm, armed_ms) for at in (481, 500, 9_000)]) == [500] * 3
    assert net.on_loop(lambda: timers.arm(480, alarm, armed_ms)) == 480
    net.advance(500)
    assert [rung.get(timeout=PATIENCE_S) for _ in range(2)] == ["once", "once"]
    net.on_loop(lambda: None)
    assert rung.empty()


def test_who_has_ended_is_not_called_and_not_kept(net: Net, rung: SimpleQueue[str]) -> None:
    gone, later = Bell("gone", rung), Bell("later", rung)
    alarm, kept = Alarm(gone), ref(gone)
    net.on_loop(lambda: net.service.timers.arm(480, alarm))
    arm(net, 500, later)
    alarm.target = None
    del gone
    assert kept() is None
    net.advance(500)
    assert rung.get(timeout=PATIENCE_S) == "later"
    assert rung.empty()


class Steps:
    """A loop by hand: its steps are run when the test takes them."""

    def __init__(self) -> None:
        self.waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def add(self, step: Callable[[], None]) -> None:
        self.waiting.put(step)

    def run_next(self) -> None:
        self.waiting.get(timeout=PATIENCE_S)()


def test_an_alarm_that_comes_late_lets_the_loop_read_what_peers_have_said_meanwhile(rung: SimpleQueue[str]) -> None:
    clock, steps = VirtualClock(), Steps()
    timers = Timers("test", clock, steps)  # type: ignore[arg-type]  # what it needs of a scheduler
    try:
        timers.arm(1_000, Alarm(Bell("punctual", rung)))
        timers.arm(2_000, Alarm(Bell("late", rung)))
        clock.await_wait(1_000)
        clock.advance(1_000)
        steps.run_next()
        assert rung.get(timeout=PATIENCE_S) == "punctual"
        clock.await_wait(1_000)
        clock.advance(60_000)  # the process stood still
        steps.run_next()
        assert rung.empty()
        steps.run_next()  # after the loop has looked at its sockets
        assert rung.get(timeout=PATIENCE_S) == "late"
    finally:
        timers.stop()
