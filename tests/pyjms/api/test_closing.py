from __future__ import annotations

import pytest

import pyjms
from pyjms.api.base import Closeable

CLOSEABLE = ("Connection", "Session", "MessageProducer", "MessageConsumer", "QueueBrowser", "ConnectionConsumer")


class Door(Closeable):
    """Counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_leaving_closes() -> None:
    with Door() as door:
        assert isinstance(door, Door)
        assert door.closed == 0
    assert door.closed == 1


def test_an_error_passes_through_a_closed_door() -> None:
    door = Door()
    with pytest.raises(KeyError), door:
        raise KeyError("x")
    assert door.closed == 1


@pytest.mark.parametrize("name", CLOSEABLE)
def test_what_jms_closes_is_a_context_manager(name: str) -> None:
    assert issubclass(getattr(pyjms, name), Closeable)
