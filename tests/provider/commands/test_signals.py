"""SIGTERM, Ctrl-C and SIGHUP end a broker, wherever its main thread is just then."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pyjms_provider.commands.broker import ending_signals, stopped_early
from tests.interrupting import interrupted_at, interrupted_elsewhere

pytestmark = pytest.mark.timeout(30)  # who waits for what has been missed is never free again


@pytest.fixture(autouse=True)
def _former_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("line", range(1, 8))
def test_a_signal_that_comes_while_another_is_told_is_told_too(line: int) -> None:
    with ending_signals() as wait_for_signal:
        with interrupted_at(line) as left:
            signal.raise_signal(signal.SIGINT)
            left[0] = min(left[0], 0)  # at the next line, if there were not that many
            first = wait_for_signal()
        assert {first, wait_for_signal()} == {signal.SIGINT, signal.SIGTERM}


def test_a_signal_ends_the_wait_though_nothing_interrupts_it() -> None:
    with ending_signals() as wait_for_signal, interrupted_elsewhere(0.1):
        assert wait_for_signal() == signal.SIGTERM


def test_other_signals_do_not_end_it() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with ending_signals() as wait_for_signal:
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGINT)
            assert wait_for_signal() == signal.SIGINT
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_while_it_ends_does_nothing() -> None:
    with ending_signals():
        pass
    signal.raise_signal(signal.SIGTERM)
    assert signal.set_wakeup_fd(-1) == -1


def test_a_signal_after_it_has_ended_does_nothing_either() -> None:
    """What was asked to end is being closed, or is closed: who asks again must not have it end otherwise than it would."""
    came: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: came.append(number))
    with stopped_early(), ending_signals():
        pass
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    assert came == []


def test_sigterm_ends_what_waits_and_then_does_what_it_did() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, stopped_early():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_end_of_its_terminal_ends_it_in_order() -> None:
    with ending_signals() as wait_for_signal:
        signal.raise_signal(signal.SIGHUP)
        assert wait_for_signal() == signal.SIGHUP
    with pytest.raises(SystemExit) as ended, stopped_early():
        signal.raise_signal(signal.SIGHUP)
    assert ended.value.code == 0


def test_under_nohup_it_goes_on() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stopped_early():
        signal.raise_signal(signal.SIGHUP)
        with ending_signals() as wait_for_signal:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
            assert wait_for_signal() == signal.SIGTERM
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
