"""How long transactions may stay open, by hand."""

from __future__ import annotations

from pyjms_provider.core.transaction.unit_of_work import OpenTransaction, TimeLimit
from tests.provider.helpers import HandClock


class Limited:
    """A limit of 100 ms, and what it asks for and tells."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.asked: list[int] = []
        self.over: list[OpenTransaction] = []
        self.limit = TimeLimit(self.clock, 100, lambda _, at_ms: self.asked.append(at_ms))

    def begin(self) -> OpenTransaction:
        return self.limit.begin(self.over.append)

    def pass_time(self, milliseconds: int) -> int | None:
        self.clock.now_ms += milliseconds
        return self.limit.run_due(self.clock.now_ms)


def test_a_transaction_is_told_once_when_its_time_is_over() -> None:
    world = Limited()
    first = world.begin()
    assert world.asked == [1_100]
    assert world.pass_time(99) == 1_100
    assert world.over == []
    assert world.pass_time(1) is None
    assert world.over == [first]
    world.pass_time(1_000)
    assert world.over == [first]


def test_one_that_has_ended_is_not_told() -> None:
    world = Limited()
    ended = world.begin()
    world.limit.end(ended)
    world.limit.end(ended)
    assert world.pass_time(100) is None
    assert world.over == []


def test_the_housekeeper_is_asked_for_one_visit_and_comes_again_by_itself() -> None:
    world = Limited()
    first = world.begin()
    world.pass_time(40)
    second = world.begin()
    assert world.asked == [1_100]
    assert world.pass_time(60) == 1_140
    assert world.over == [first]
    assert world.pass_time(40) is None
    assert world.over == [first, second]
    world.begin()
    assert world.asked == [1_100, 1_240]
