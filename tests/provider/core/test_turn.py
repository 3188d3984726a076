"""One at a time, and each name for itself."""

from __future__ import annotations

import signal
from contextlib import suppress
from threading import Event, Thread, get_ident
from types import FrameType

import pytest

from pyjms_provider.core.queue.turn import WritingTurns
from tests.provider.interruptions import Interruption, each_interruption


def test_one_at_a_time() -> None:
    turns, has, may_go, order = WritingTurns(), Event(), Event(), list[int]()

    def first() -> None:
        with turns.of("a"):
            has.set()
            assert may_go.wait(10)
            order.append(1)

    def second() -> None:
        assert has.wait(10)
        with turns.of("a"):
            order.append(2)

    threads = [Thread(target=work, daemon=True) for work in (first, second)]
    for thread in threads:
        thread.start()
    assert has.wait(10)
    may_go.set()
    for thread in threads:
        thread.join(10)
    assert order == [1, 2]


def test_each_name_has_a_turn_while_somebody_has_it() -> None:
    turns = WritingTurns()
    with turns.of("a"), turns.of("b"):
        assert turns.of("a") is turns.of("a")
        assert not turns.of("a").acquire(blocking=False)
        assert len(turns._turns) == 2
    assert len(turns._turns) == 0


def test_who_is_interrupted_keeps_nobody_from_it() -> None:
    """A Ctrl-C comes at each place at which Python can raise it in who asks for a turn, has it, and hands it on."""

    def attempt(interruption: Interruption) -> None:
        turns = WritingTurns()
        turn = turns.of("a")

        def work() -> None:
            with turns.of("a"):
                assert turn.locked()

        with suppress(KeyboardInterrupt), interruption():
            work()
        assert not turn.locked(), interruption.where

    assert each_interruption(attempt, "core/queue/turn.py", "core/test_turn.py") > 3


def test_who_is_interrupted_while_waiting_keeps_nobody_from_it() -> None:
    """A Ctrl-C comes to the main thread while another one has the turn.

    It is sent again until it is felt: one that comes between Python's last look for signals and the wait itself does not end the wait.
    """
    turn, has, asks, is_over = WritingTurns().of("a"), Event(), Event(), Event()

    def interrupt(_: int, frame: FrameType | None) -> None:
        if not is_over.is_set() and frame is not None and frame.f_code is wait.__code__:
            is_over.set()
            raise KeyboardInterrupt

    def wait() -> None:
        with turn:
            pytest.fail("two have it")

    def work() -> None:
        with turn:
            has.set()
            assert asks.wait(10)
            while not is_over.wait(0.01):
                signal.pthread_kill(main, signal.SIGUSR1)

    main, before = get_ident(), signal.signal(signal.SIGUSR1, interrupt)
    other = Thread(target=work, daemon=True)
    try:
        other.start()
        assert has.wait(10)
        asks.set()
        with pytest.raises(KeyboardInterrupt):
            wait()
    finally:
        asks.set()
        is_over.set()
        other.join(10)  # it sends no more signals, which would end the process once nobody handles them
        signal.signal(signal.SIGUSR1, before)
    assert turn.acquire(blocking=False)
