"""Something ends once, whoever wants it, and however who began is interrupted."""

from __future__ import annotations

from threading import Event

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.clients.close_once import CloseOnce
from tests.pyjms.runtime.helpers import Call


def test_others_wait_until_it_is_done() -> None:
    ending, has_begun, may_end = CloseOnce(), Event(), Event()
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
    ending = CloseOnce()
    ends: list[int] = []

    def end() -> None:
        ending.do(end)
        ends.append(1)

    ending.do(end)
    assert ends == [1]


def test_after_an_error_it_has_ended() -> None:
    ending = CloseOnce()

    def end() -> None:
        raise ResourceError("the network is away")

    with pytest.raises(ResourceError):
        ending.do(end)
    ending.do(end)
