"""Something ends once, whoever wants it, and however who began is interrupted."""

from __future__ import annotations

from contextlib import suppress
from threading import Event

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.clients.ending import Ending
from tests.provider.interruptions import Interruption, each_interruption
from tests.pyjms.runtime.helpers import Call


def test_others_wait_until_it_is_done() -> None:
    ending, has_begun, may_end = Ending(), Event(), Event()
    ends: list[int] = []

    def end() -> None:
        has_begun.set()
        assert may_end.wait(10)
        ends.append(1)

    first = Call(ending.do, end)
    assert has_begun.wait(10)
    second = Call(ending.do, lambda: ends.append(2))
    assert second.is_blocked()
    may_end.set()
    first.result()
    second.result()
    assert ends == [1]


def test_its_own_thread_does_not_wait_for_itself() -> None:
    ending = Ending()
    ends: list[int] = []

    def end() -> None:
        ending.do(end)
        ends.append(1)

    ending.do(end)
    assert ends == [1]


def test_after_an_error_it_has_ended() -> None:
    ending = Ending()

    def end() -> None:
        raise ResourceError("the network is away")

    with pytest.raises(ResourceError):
        ending.do(end)
    ending.do(end)


@pytest.mark.parametrize("is_awaited", [False, True])
def test_who_comes_next_takes_over_from_who_was_interrupted(is_awaited: bool) -> None:
    """The next one comes afterwards, or waits when the interrupt comes."""

    def attempt(interruption: Interruption) -> None:
        ending = Ending()
        ends: list[int] = []
        others: list[Call[None]] = []

        def end() -> None:
            if is_awaited:
                others.append(Call(ending.do, lambda: ends.append(2)))
            ends.append(1)

        with suppress(KeyboardInterrupt), interruption():
            ending.do(end)
        if not others:
            others.append(Call(ending.do, lambda: ends.append(2)))
        others[0].result()
        assert ends, interruption.where

    assert each_interruption(attempt, "clients/ending.py", "clients/test_ending.py") > 3
