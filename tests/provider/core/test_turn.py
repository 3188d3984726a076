"""One at a time, and each name for itself."""

from __future__ import annotations

from threading import Thread

import pytest

from pyjms.spi.clock import Signal
from pyjms_provider.core.turn import Turn, Turns


def test_who_asks_gets_it_in_turn() -> None:
    turn, order, threads = Turn(), list[int](), list[Thread]()

    def work(number: int) -> None:
        with turn:
            order.append(number)

    with turn:
        for number in range(3):
            threads.append(Thread(target=work, args=(number,), daemon=True))
            threads[-1].start()
            while len(turn._waiting) <= number:
                threads[-1].join(0.001)
                assert threads[-1].is_alive(), "it did not wait"
        assert order == []
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2]


def test_each_name_has_a_turn_while_somebody_has_it() -> None:
    turns = Turns()
    with turns.of("a"), turns.of("b"):
        assert turns.of("a") is turns.of("a")
        assert not turns.of("a").try_enter()
        assert len(turns._turns) == 2
    assert len(turns._turns) == 0


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_who_is_interrupted_while_waiting_keeps_nobody_else_from_it(
    monkeypatch: pytest.MonkeyPatch, is_handed_over: bool
) -> None:
    """A Ctrl-C comes to a thread that waits, also at the very moment when it is handed the turn."""
    turn = Turn()
    assert turn.try_enter()

    def wait(timeout: float) -> bool:
        if is_handed_over:
            turn.leave()
        raise KeyboardInterrupt

    def make_signal() -> Signal:
        signal = Signal()
        signal.wait = wait
        return signal

    monkeypatch.setattr("pyjms_provider.core.turn.Signal", make_signal)
    with pytest.raises(KeyboardInterrupt):
        turn.__enter__()
    if not is_handed_over:
        assert not turn.try_enter()
        turn.leave()
    assert turn.try_enter()
