"""Alerts: raised once, repeated after a gap, cleared below the limit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.model.metrics_sampler import AlertBook, AlertKind, AlertLimits, Telling

DEPTH = AlertLimits(messages=10, repeat_gap_ms=1_000)


def told(book: AlertBook, depth: int, at_ms: int, limits: AlertLimits = DEPTH) -> list[Telling]:
    news = book.judge("q", limits, {AlertKind.MESSAGES: depth} if depth else {}, at_ms)
    book.end_round(at_ms, {"q"})
    return [each.telling for each in news]


def test_an_alert_is_told_once_then_after_each_gap_and_when_it_is_over() -> None:
    book = AlertBook()
    assert told(book, 9, 0) == []
    assert told(book, 10, 10) == [Telling.RAISED]
    assert told(book, 11, 1_009) == []
    assert told(book, 12, 1_010) == [Telling.REPEATED]
    assert [(each.value, each.limit, each.since_ms) for each in book.holding["q"]] == [(12, 10, 10)]
    assert told(book, 9, 1_011) == [Telling.CLEARED]
    assert not book.holding


def test_one_that_comes_and_goes_is_told_as_often_as_the_gap_allows() -> None:
    book = AlertBook()
    heard = [(at_ms, each) for at_ms in range(0, 2_000, 100) for each in told(book, 10 * (at_ms // 100 % 2), at_ms)]
    assert heard == [
        (100, Telling.RAISED),
        (200, Telling.CLEARED),
        (1_100, Telling.RAISED),
        (1_200, Telling.CLEARED),
    ]


def test_one_that_was_kept_quiet_is_told_when_the_gap_is_over() -> None:
    book = AlertBook()
    assert told(book, 10, 0) == [Telling.RAISED]
    assert told(book, 0, 100) == [Telling.CLEARED]
    assert told(book, 10, 200) == []
    assert told(book, 10, 1_000) == [Telling.RAISED]


def test_a_clock_that_is_put_back_keeps_nothing_quiet_for_longer_than_the_gap() -> None:
    book, hour_ms = AlertBook(), 3_600_000
    assert told(book, 10, hour_ms) == [Telling.RAISED]
    assert told(book, 10, 0) == []
    assert told(book, 10, 1_000) == [Telling.REPEATED]
    assert told(book, 0, 1_010) == [Telling.CLEARED]


def test_without_a_gap_nothing_is_repeated() -> None:
    book, limits = AlertBook(), AlertLimits(messages=10)
    assert told(book, 10, 0, limits) == [Telling.RAISED]
    assert told(book, 10, 10**9, limits) == []


def test_a_limit_that_is_taken_away_ends_its_alert() -> None:
    book = AlertBook()
    told(book, 10, 0)
    assert told(book, 10, 1, AlertLimits()) == [Telling.CLEARED]


def test_a_queue_that_has_gone_is_forgotten_without_a_word() -> None:
    book = AlertBook()
    told(book, 10, 0)
    book.end_round(5, set())
    assert not book.holding
    assert told(book, 10, 10) == [], "a queue of the same name waits for the gap, too"


@pytest.mark.parametrize("kind", AlertKind)
def test_each_kind_has_a_limit_of_its_own(kind: AlertKind) -> None:
    field = "age_ms" if kind is AlertKind.AGE else kind.value
    limits = AlertLimits(**{field: 5})
    assert limits.of(kind) == 5
    assert limits.is_any
    news = AlertBook().judge("q", limits, dict.fromkeys(AlertKind, 7), 0)
    assert [(each.alert.kind, each.alert.value) for each in news] == [(kind, 7)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 700)), max_size=60))
def test_what_is_told_alternates_and_keeps_the_gap(steps: list[tuple[int, int]]) -> None:
    book, now_ms = AlertBook(), 0
    heard: list[tuple[int, Telling]] = []
    for depth, later_ms in steps:
        now_ms += later_ms
        heard += [(now_ms, each) for each in told(book, depth, now_ms)]
        assert ("q" in book.holding) == (depth >= 10)
    begun = False
    for _, telling in heard:
        assert begun == (telling is not Telling.RAISED)
        begun = telling is not Telling.CLEARED
    loud = [at_ms for at_ms, telling in heard if telling is not Telling.CLEARED]
    assert all(later - earlier >= 1_000 for earlier, later in pairwise(loud))
