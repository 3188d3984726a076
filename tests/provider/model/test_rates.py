"""Rates of counters that are looked at now and then."""

from __future__ import annotations

from pyjms_provider.model.metrics_sampler import Rates


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rates = Rates(window_ms=10_000, step_ms=500)
    assert rates.sample("q", (0, 0), 0) == (None, None)
    assert rates.sample("q", (100, 50), 1_000) == (100.0, 50.0)
    assert rates.sample("q", (100, 100), 2_000) == (50.0, 50.0)
    assert rates.sample("q", (100, 100), 11_500) == (0.0, 50_000 / 10_500), "the window begins with the look before it"
    assert rates.sample("q", (100, 100), 60_000) == (0.0, 0.0)


def test_looks_that_are_close_together_count_as_one() -> None:
    rates = Rates(step_ms=500)
    rates.sample("q", (0,), 0)
    for now_ms in range(1, 400):
        rates.sample("q", (now_ms,), now_ms)
    assert rates.sample("q", (1_000,), 1_000) == (1_000.0,)


def test_a_thing_that_was_made_anew_has_no_rate_yet() -> None:
    rates = Rates()
    rates.sample("q", (5,), 0)
    assert rates.sample("q", (1,), 1_000) == (None,)
    assert rates.sample("q", (3,), 2_000) == (2.0,)


def test_only_so_many_things_are_remembered() -> None:
    rates = Rates(most=2)
    for name in "abc":
        rates.sample(name, (0,), 0)
    assert rates.sample("c", (1,), 1_000) == (1.0,)
    assert rates.sample("a", (1,), 1_000) == (None,), "it was the oldest"
