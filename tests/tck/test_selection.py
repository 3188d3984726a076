from __future__ import annotations

import pytest

from pyjms_tck.catalogue import Level, SelectionError, select
from tests.tck.samples import catalogue, requirement

CATALOGUE = catalogue(
    requirement("3.4-a"),
    requirement("3.4.1-a", assertions=("JMS:SPEC:2",)),
    requirement("3.4.10-a", level=Level.OPTIONAL, feature="PRIORITIES"),
    requirement("4.1-a", level=Level.UNDEFINED),
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([], ["3.4-a", "3.4.1-a", "3.4.10-a", "4.1-a"]),
        (["3.4.1-a"], ["3.4.1-a"]),
        (["3.4.1"], ["3.4.1-a"]),  # and not 3.4.10
        (["3.4"], ["3.4-a", "3.4.1-a", "3.4.10-a"]),
        (["3"], ["3.4-a", "3.4.1-a", "3.4.10-a"]),
        (["4", "3.4.1"], ["3.4.1-a", "4.1-a"]),
        (["priorities"], ["3.4.10-a"]),
        (["PRIORITIES", "undefined"], ["3.4.10-a", "4.1-a"]),
        (["required"], ["3.4-a", "3.4.1-a"]),
        (["JMS:SPEC:2"], ["3.4.1-a"]),
    ],
)
def test_what_matches_is_selected_in_the_order_of_the_catalogue(wanted: list[str], found: list[str]) -> None:
    assert select(CATALOGUE, wanted) == tuple(found)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("3.4.1-b", "3.4.1-a meant?"),
        ("prioritie", "PRIORITIES meant?"),
        ("9", "Write an id"),
        ("JMS:SPEC:77", "Write an id"),
        ("", "Write an id"),
        ("TOPICS", "Write an id"),  # known, and without a requirement here
    ],
)
def test_what_matches_nothing_is_told(wanted: str, told: str) -> None:
    with pytest.raises(SelectionError, match=f"nothing is selected by '{wanted}'.*{told}"):
        select(CATALOGUE, ["3", wanted])
