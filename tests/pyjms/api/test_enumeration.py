from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms import Enumeration, NoSuchElementException


def test_it_is_a_python_iterator() -> None:
    found = Enumeration(["a", "b"])
    assert iter(found) is found
    assert isinstance(found, Iterator)
    assert list(found) == ["a", "b"]
    assert list(found) == []


def test_a_java_loop_works() -> None:
    found, gathered = Enumeration(["a", None, "b"]), []
    while found.hasMoreElements():
        gathered.append(found.nextElement())
    assert gathered == ["a", None, "b"]


@pytest.mark.parametrize("elements", [[], ["a"]])
def test_after_the_last_element_java_gets_an_exception(elements: list[str]) -> None:
    found = Enumeration(elements)
    list(found)
    assert not found.has_more_elements()
    with pytest.raises(NoSuchElementException, match="hasMoreElements"):
        found.next_element()
    assert issubclass(NoSuchElementException, LookupError)


def test_elements_are_taken_only_when_asked_for() -> None:
    taken: list[int] = []

    def elements() -> Iterator[int]:
        for number in range(9):
            taken.append(number)
            yield number

    found = Enumeration(elements())
    assert taken == []
    assert found.hasMoreElements()
    assert found.hasMoreElements()
    assert taken == [0]
    assert next(found) == 0
    assert taken == [0]


@given(st.lists(st.integers()), st.lists(st.sampled_from(["ask", "next", "nextElement"])))
def test_asking_changes_nothing(elements: list[int], calls: list[str]) -> None:
    found = Enumeration(elements)
    gathered: list[int] = []
    for call in calls:
        more = len(gathered) < len(elements)
        if call == "ask":
            assert found.hasMoreElements() is more
        elif more:
            gathered.append(next(found) if call == "next" else found.nextElement())
    assert gathered + list(found) == elements


class _Countdown(Enumeration[int]):
    """As a program from Java writes one: its own fields, both methods, and no call of a constructor above it."""

    def __init__(self, start: int) -> None:
        self.left = start

    def hasMoreElements(self) -> bool:
        return self.left > 0

    def nextElement(self) -> int:
        if not self.left:
            raise NoSuchElementException("there are no more")
        self.left -= 1
        return self.left


def test_one_that_is_written_as_in_java_can_be_iterated_over() -> None:
    """It raised AttributeError, and yielded nothing where it had called the constructor of `Enumeration`."""
    assert list(_Countdown(3)) == [2, 1, 0]
    found = _Countdown(2)
    assert next(found) == 1
    assert found.has_more_elements()
    assert found.next_element() == 0
    with pytest.raises(StopIteration):
        next(found)
