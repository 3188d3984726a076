"""The accounting finds what is lost, doubled, altered or out of place."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from pyjms.demo.books import Entry, judge, total
from pyjms.demo.settings import Chance, Fate

SENT = [Entry(1, 10, "a"), Entry(2, 0.1, "a"), Entry(3, 0.2, "b"), Entry(4, -5, "b")]


def test_all_there_adds_up_in_any_order() -> None:
    verdict = judge("lane", SENT, reversed(SENT))
    assert verdict.adds_up
    assert (verdict.expected, verdict.found) == (4, 4)
    assert verdict.found_total == verdict.expected_total


def test_a_lost_record_is_named() -> None:
    verdict = judge("lane", SENT, SENT[:2] + SENT[3:])
    assert (verdict.adds_up, verdict.lost) == (False, (3,))


def test_a_doubled_record_is_named_once() -> None:
    verdict = judge("lane", SENT, [*SENT, SENT[1], SENT[1]])
    assert (verdict.adds_up, verdict.doubled, verdict.found) == (False, (2,), 6)


def test_a_lost_and_a_doubled_record_do_not_make_up_for_each_other() -> None:
    sent = [Entry(1, 5, "a"), Entry(2, 5, "a")]
    verdict = judge("lane", sent, [sent[0], sent[0]])
    assert verdict.found_total == verdict.expected_total
    assert (verdict.adds_up, verdict.lost, verdict.doubled) == (False, (2,), (1,))


def test_a_record_of_another_place_is_named() -> None:
    verdict = judge("lane", SENT[:3], SENT)
    assert (verdict.adds_up, verdict.unexpected) == (False, (4,))


@pytest.mark.parametrize("change", [{"amount": 11}, {"label": "b"}])
def test_a_changed_record_is_named(change: dict[str, object]) -> None:
    verdict = judge("lane", SENT, [replace(SENT[0], **change), *SENT[1:]])  # type: ignore[arg-type]  # parametrised
    assert (verdict.adds_up, verdict.altered) == (False, (1,))


def test_sums_are_exact() -> None:
    small = [Entry(number, 0.1, "") for number in range(10)]
    assert total(small) == 10 * Fraction(0.1)
    assert total([Entry(1, 1e300, ""), Entry(2, 1, ""), Entry(3, -1e300, "")]) == 1


def test_nothing_from_nothing_adds_up() -> None:
    assert judge("lane", [], []).adds_up


def test_failures_depend_on_the_seed_and_on_nothing_else() -> None:
    def fates(seed: int) -> list[Fate]:
        chance = Chance(seed=seed, rate=0.5)
        return [chance.fate("check", record_id, 1) for record_id in range(200)]

    assert fates(1) == fates(1) != fates(2)
    assert set(fates(1)) == set(Fate)


def test_a_rate_of_zero_never_fails() -> None:
    chance = Chance(seed=1, rate=0.0)
    assert {chance.fate("check", record_id, 1) for record_id in range(1000)} == {Fate.DONE}


def test_about_the_given_part_fails_and_other_attempts_are_drawn_anew() -> None:
    chance = Chance(seed=1, rate=0.1)
    failed = [record_id for record_id in range(2000) if chance.fate("check", record_id, 1) is not Fate.DONE]
    assert 140 < len(failed) < 260
    again = [record_id for record_id in failed if chance.fate("check", record_id, 2) is not Fate.DONE]
    assert len(again) < 60
