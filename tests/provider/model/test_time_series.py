"""The last hour in a fixed amount of memory."""

from __future__ import annotations

from math import nan

from pyjms_provider.model.metrics_sampler import POINTS, STEP_MS, History


def test_what_was_noted_is_read_the_oldest_first() -> None:
    history = History(("depth", "rate"))
    history.note(10, {"a": (1, nan), "b": (7, 8)})
    history.note(20, {"a": (2, 0.5), "b": (7, 9)})
    past = history.read("a")
    assert past is not None
    assert list(past.times_ms) == [10, 20]
    assert past.columns == {"depth": [1, 2], "rate": [None, 0.5]}
    later = history.read("b", since_ms=10)
    assert later is not None
    assert (list(later.times_ms), later.columns) == ([20], {"depth": [7], "rate": [9]})


def test_an_hour_is_kept_and_no_more() -> None:
    history = History(("depth",))
    for step in range(POINTS + 5):
        history.note(step * STEP_MS, {"a": (step,)})
    past = history.read("a")
    assert past is not None
    assert POINTS * STEP_MS == 3_600_000
    assert list(past.columns["depth"]) == list(range(5, POINTS + 5))
    assert past.times_ms[0] == 5 * STEP_MS


def test_what_is_not_noted_any_more_has_no_past_and_begins_anew() -> None:
    history = History(("depth",))
    history.note(1, {"a": (1,), "b": (1,)})
    history.note(2, {"b": (2,)})
    assert history.read("a") is None
    assert history.names == {"b"}
    history.note(3, {"a": (3,), "b": (3,)})
    past = history.read("a")
    assert past is not None
    assert list(past.times_ms) == [3], "it begins when it is noted again"


def test_what_a_clock_that_was_put_back_has_still_to_reach_is_forgotten() -> None:
    history = History(("depth",))
    for at_ms in (100, 200, 300):
        history.note(at_ms, {"a": (at_ms,)})
    history.note(150, {"a": (150,)})
    past = history.read("a")
    assert past is not None
    assert (list(past.times_ms), past.columns) == ([100, 150], {"depth": [100, 150]})
