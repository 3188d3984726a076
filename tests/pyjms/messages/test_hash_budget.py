from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from pyjms.errors import MessageFormatException
from pyjms.messages.unpickling import DEPTH_MAX, HashBudget

COLLIDING = 2**61 - 1
"""Python's hash of a whole number is its remainder by this one."""


def weigh(budget: HashBudget, levels: int, width: int) -> Any:
    """Weigh a tuple that holds another one `width` times, and so on, as decoding does: from the inside."""
    whole: tuple[Any, ...] = (0,)
    for _ in range(levels - 1):
        whole = (whole,) * width
        budget.weigh(whole)
    return whole


def test_parts_count_wherever_they_occur() -> None:
    budget = HashBudget(0)
    inner = (1, 2)
    assert budget.weigh(inner) == (1, 3)
    assert budget.weigh((inner, inner, inner)) == (2, 10)
    assert budget.weigh(frozenset({inner, 5})) == (2, 5)


def test_what_was_made_elsewhere_is_weighed_where_it_is_met() -> None:
    assert HashBudget(0).weigh((((1,),),)) == (3, 4)


def test_large_values_count_by_their_size() -> None:
    budget = HashBudget(0)
    assert budget.weigh((1 << 10_240,))[1] > 10
    assert budget.weigh(("x" * 25_600,))[1] > 100
    assert budget.weigh((b"x" * 25_600,))[1] > 100


def test_tuples_are_not_deeper_than_a_stack_bears() -> None:
    weigh(HashBudget(0), DEPTH_MAX, 1)
    with pytest.raises(MessageFormatException, match="deep"):
        weigh(HashBudget(10**6), DEPTH_MAX + 1, 1)


def test_a_tuple_is_not_larger_than_can_be_hashed() -> None:
    weigh(HashBudget(0), 20, 2)
    with pytest.raises(MessageFormatException, match="too often"):
        weigh(HashBudget(0), 60, 2)


def test_keys_that_are_hashed_again_and_again_are_paid_again() -> None:
    budget = HashBudget(0)
    key = weigh(budget, 18, 2)
    with pytest.raises(MessageFormatException, match="too often"):
        for _ in range(20):
            budget.pay({}, [key])


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([number * COLLIDING for number in range(2, 20_000)], id="numbers"),
        pytest.param(list(product((-1, -2), repeat=12)), id="tuples"),
        pytest.param([1 << 4_000_000] * 2_000, id="one large number"),
        pytest.param(["x" * 4_000_000] * 2_000, id="one large text"),
    ],
)
def test_keys_that_cost_much_are_refused(keys: list[Any]) -> None:
    with pytest.raises(MessageFormatException, match="too often"):
        HashBudget(0).pay(set(), keys)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(range(100_000), id="numbers"),
        pytest.param([str(number) for number in range(100_000)], id="texts"),
        pytest.param([number / 7 for number in range(100_000)], id="fractions"),
        pytest.param(list(product(range(-20, 20), repeat=3)), id="coordinates"),
        pytest.param(list(product((-1, -2), repeat=9)), id="coordinates of one hash"),
        pytest.param([None, True, b"x", frozenset({1})], id="others"),
    ],
)
def test_keys_as_programs_have_them_are_paid(keys: Any) -> None:
    HashBudget(0).pay({}, keys)


def test_each_holder_has_its_own_keys() -> None:
    budget = HashBudget(0)
    for _ in range(100_000):
        budget.pay({}, [(1, 2)])


def test_what_has_no_hash_is_no_key() -> None:
    with pytest.raises(TypeError):
        HashBudget(0).pay({}, [([],)])
