"""Time: the system's, frozen time, and waiting for a signal."""

from __future__ import annotations

import subprocess
import sys
import time
from threading import Thread

import pytest
from freezegun import freeze_time

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.testing import VirtualClock
from pyjms_tck.spi.environment import PATIENCE_S, Threads


@pytest.mark.parametrize("clock", [SystemClock(), VirtualClock()])
def test_both_clocks_keep_the_contract(clock: Clock) -> None:
    assert isinstance(clock, Clock)
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first
    assert isinstance(clock.time_ms(), int)


def test_what_is_no_clock_is_told_apart() -> None:
    assert not isinstance(time, Clock)


# A signal


def test_a_signal_that_was_raised_is_seen_once() -> None:
    signal = Signal()
    assert not signal.wait(0)
    signal.set()
    signal.set()
    assert signal.wait(0)
    assert not signal.wait(0)


def test_a_signal_ends_the_wait_of_another_thread() -> None:
    signal, seen = Signal(), list[bool]()
    with Threads() as threads:
        threads.start(lambda: seen.append(signal.wait(-1)))
        signal.set()
    assert seen == [True]


def test_no_signal_between_threads_is_lost() -> None:
    ping, pong = Signal(), Signal()

    def answer() -> None:
        for _ in range(2000):
            assert ping.wait(PATIENCE_S)
            pong.set()

    with Threads() as threads:
        threads.start(answer)
        for _ in range(2000):
            ping.set()
            assert pong.wait(PATIENCE_S)


def test_many_may_raise_a_signal_at_once() -> None:
    """The flag holds one: raising it a hundred times from four threads at once is never an error, nor a hundred."""
    signal = Signal()

    def raise_often() -> None:
        for _ in range(2000):
            signal.set()

    with Threads() as threads:
        for _ in range(4):
            threads.start(raise_often)
    assert signal.wait(0)
    assert not signal.wait(0)


# The system's clock


def test_the_system_clock_reads_the_time_module() -> None:
    clock = SystemClock()
    before = time.time()
    assert before * 1000 - 1 <= clock.time_ms() <= time.time() * 1000 + 1
    start = time.monotonic()
    assert start * 1000 <= clock.monotonic_ms() <= time.monotonic() * 1000


@pytest.mark.parametrize("timeout_ms", [-5, 0, 30])
def test_a_wait_ends_at_its_time(timeout_ms: int) -> None:
    clock = SystemClock()
    until = clock.monotonic_ms() + timeout_ms
    assert not clock.wait(Signal(), until)
    assert clock.monotonic_ms() >= until


def test_a_wait_ends_with_its_signal() -> None:
    clock, signal = SystemClock(), Signal()
    signal.set()
    assert clock.wait(signal, clock.monotonic_ms() - 1000)  # also when its time has passed
    signal.set()
    assert clock.wait(signal, None)
    with Threads() as threads:
        threads.start(lambda: clock.wait(signal, clock.monotonic_ms() + PATIENCE_S * 1000))
        signal.set()


# Frozen time


def test_frozen_time_is_that_of_every_thread_however_little_stands_above() -> None:
    clock, seen = SystemClock(), list[tuple[int, float]]()

    def look() -> None:
        seen.append((clock.time_ms(), clock.monotonic_ms()))

    with freeze_time("2001-09-09 01:46:40"):
        look()
        for _ in range(2):
            thread = Thread(target=look)
            thread.start()
            thread.join(PATIENCE_S)
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0][0] == 1_000_000_000_000


def test_frozen_time_is_obeyed() -> None:
    clock = SystemClock()
    with freeze_time("2001-09-09 01:46:40") as frozen:
        assert clock.time_ms() == 1_000_000_000_000
        start = clock.monotonic_ms()
        frozen.tick(1.5)
        assert clock.time_ms() == 1_000_000_001_500
        assert clock.monotonic_ms() == start + 1500


@pytest.mark.parametrize("timeout_ms", [-5, 0, 35])
def test_a_wait_in_frozen_time_ends_after_its_timeout_in_real_time(timeout_ms: int) -> None:
    clock, real = SystemClock(), time.monotonic
    with freeze_time("2020-01-01"):
        start = real()
        assert not clock.wait(Signal(), clock.monotonic_ms() + timeout_ms)
        assert real() - start >= timeout_ms / 1000
        assert real() - start < PATIENCE_S


def test_a_wait_in_frozen_time_ends_when_the_time_is_moved_past_it() -> None:
    clock, ended = SystemClock(), Signal()
    with freeze_time("2020-01-01") as frozen:
        until = clock.monotonic_ms() + 3_600_000
        with Threads() as threads:
            threads.start(lambda: (clock.wait(Signal(), until), ended.set()))  # type: ignore[func-returns-value]
            frozen.tick(3599)
            assert not ended.wait(0.05)
            frozen.tick(2)
            assert ended.wait(PATIENCE_S)


def test_a_wait_in_frozen_time_ends_with_its_signal() -> None:
    clock, signal, results = SystemClock(), Signal(), list[bool]()
    with freeze_time("2020-01-01"), Threads() as threads:
        threads.start(lambda: results.append(clock.wait(signal, clock.monotonic_ms() + 3_600_000)))
        signal.set()
    assert results == [True]


def test_a_signal_counts_also_in_the_moment_when_time_is_up() -> None:
    clock, signal = SystemClock(), Signal()
    signal.set()
    with freeze_time("2020-01-01"):
        assert clock.wait(signal, clock.monotonic_ms() - 1)


def test_a_wait_begun_in_frozen_time_outlives_it() -> None:
    clock, signal, results = SystemClock(), Signal(), list[bool]()
    with freeze_time("2020-01-01"):
        until = clock.monotonic_ms() + 3_600_000
        thread = Thread(target=lambda: results.append(clock.wait(signal, until)), daemon=True)
        thread.start()
    signal.set()
    thread.join(PATIENCE_S)
    assert results == [True]


IMPORTED_WHILE_FROZEN = """
from freezegun import freeze_time
with freeze_time("2020-01-01") as frozen:
    from pyjms.spi.clock import Signal, SystemClock
    from threading import Thread
    clock, ended = SystemClock(), Signal()
    until = clock.monotonic_ms() + 3_600_000
    Thread(target=lambda: clock.wait(Signal(), until) or ended.set(), daemon=True).start()
    frozen.tick(3601)
    assert ended.wait(20), "the wait does not follow the frozen clock"
assert abs(SystemClock().monotonic_ms() - __import__("time").monotonic() * 1000) < 10_000
"""


def test_frozen_time_is_obeyed_also_by_who_is_imported_in_it() -> None:
    subprocess.run([sys.executable, "-c", IMPORTED_WHILE_FROZEN], check=True, timeout=120)
