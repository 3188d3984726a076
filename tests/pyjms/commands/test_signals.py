"""Ctrl-C and SIGTERM end what waits, wherever the main thread is just then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from pyjms.commands.signals import interruptible, told_of_signals
from tests.interrupting import interrupted_at, interrupted_elsewhere

pytestmark = pytest.mark.timeout(30)  # who waits for what has been missed is never free again


@pytest.mark.parametrize("line", range(1, 20))
def test_a_signal_ends_a_wait_at_whichever_line_it_comes(line: int) -> None:
    ended = threading.Event()
    with told_of_signals(ended.set):
        with interrupted_at(line) as left:
            ended.wait(0.05)
        if left[0] >= 0:  # the wait has fewer lines
            signal.raise_signal(signal.SIGTERM)
        assert ended.wait(20)


def test_a_signal_ends_a_wait_though_nothing_interrupts_it() -> None:
    ended = threading.Event()
    with told_of_signals(ended.set), interrupted_elsewhere(0.1):
        assert ended.wait(20)


def test_each_signal_is_told_and_the_former_handlers_come_back() -> None:
    told, before = [], signal.getsignal(signal.SIGTERM)
    with told_of_signals(lambda: told.append(threading.current_thread().name)):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert told == ["pyjms signals"] * 2
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_another_thread_than_the_main_one_hears_of_no_signal() -> None:
    before, inside = signal.getsignal(signal.SIGTERM), []

    def run() -> None:
        with told_of_signals(lambda: None):
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert inside == [before]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Have Ctrl-C raise `KeyboardInterrupt`: it is ignored where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_wait_that_nothing_interrupted() -> None:
    waiting, urgent = threading.Event(), signal.getsignal(signal.SIGURG)
    with pytest.raises(KeyboardInterrupt), interruptible(), interrupted_elsewhere(0.1, signal.SIGINT):
        waiting.wait()
    assert signal.getsignal(signal.SIGURG) is urgent
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_raised_once() -> None:
    interrupts, waiting = 0, threading.Event()
    with interruptible():
        for _ in range(2):
            try:
                if not interrupts:
                    signal.raise_signal(signal.SIGINT)
                waiting.wait(0.3)  # longer than until the main thread is interrupted once more
            except KeyboardInterrupt:
                interrupts += 1
    assert interrupts == 1
