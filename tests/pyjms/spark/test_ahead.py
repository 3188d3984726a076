"""One page ahead: in order, no more than one, and with an end in every case."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from threading import Event

import pytest

from pyjms.spark.planning import one_ahead

PATIENCE_S = 20


def test_pages_come_in_order_and_all_of_them() -> None:
    assert list(one_ahead(range(5))) == [0, 1, 2, 3, 4]
    assert list(one_ahead(())) == []


def test_the_next_page_is_fetched_while_the_present_one_is_worked_on_and_no_further_one() -> None:
    asked: SimpleQueue[int] = SimpleQueue()

    def source() -> Iterator[int]:
        for number in range(4):
            asked.put(number)
            yield number

    pages = one_ahead(source())
    assert next(pages) == 0
    assert [asked.get(timeout=PATIENCE_S) for _ in range(2)] == [0, 1]
    assert asked.empty()
    assert next(pages) == 1
    assert asked.get(timeout=PATIENCE_S) == 2
    pages.close()  # type: ignore[attr-defined]  # a generator


def test_an_error_comes_after_the_pages_before_it() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise LookupError("gone")

    pages = one_ahead(source())
    assert next(pages) == 1
    with pytest.raises(LookupError, match="gone"):
        next(pages)


def test_who_stops_in_the_middle_waits_for_no_page() -> None:
    begun, go_on, ended = Event(), Event(), Event()

    def source() -> Iterator[int]:
        yield 1
        begun.set()
        go_on.wait(PATIENCE_S)
        ended.set()
        yield 2

    pages = one_ahead(source())
    assert next(pages) == 1
    assert begun.wait(PATIENCE_S)
    pages.close()  # type: ignore[attr-defined]  # a generator
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(PATIENCE_S)
