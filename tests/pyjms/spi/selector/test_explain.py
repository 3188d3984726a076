from __future__ import annotations

from textwrap import dedent

import pytest

from pyjms.spi.selector import Explanation, compile_selector
from pyjms.types import Stored
from tests.pyjms.spi.selector.support import envelope

SELECTOR = "region = 'EU' AND (price > 10 OR NOT urgent) AND JMSPriority BETWEEN 3 AND 5"


def explain(text: str, **properties: Stored) -> Explanation:
    return compile_selector(text).explain(envelope(properties))


def test_each_clause_has_its_text_its_value_and_what_it_read() -> None:
    root = explain(SELECTOR, region="EU", price=7)
    assert root.text == SELECTOR
    assert root.value is None
    assert root.read == ()
    region, either, priority = root.clauses
    assert (region.text, region.value, region.read) == ("region = 'EU'", True, (("region", "EU"),))
    assert (priority.text, priority.value, priority.read) == (
        "JMSPriority BETWEEN 3 AND 5",
        True,
        (("JMSPriority", 4),),
    )
    assert (either.text, either.value) == ("(price > 10 OR NOT urgent)", None)
    price, negation = either.clauses
    assert (price.value, price.read) == (False, (("price", 7),))
    assert (negation.value, negation.clauses[0].read) == (None, (("urgent", None),))


def test_it_is_printed_as_a_tree_with_a_mark_at_what_decided() -> None:
    assert str(explain(SELECTOR, region="EU", price=7)) == dedent(
        """\
          unknown  region = 'EU' AND (price > 10 OR NOT urgent) AND JMSPriority BETWEEN 3 AND 5
            true     region = 'EU'    (region: 'EU')
            unknown  (price > 10 OR NOT urgent)
              false    price > 10    (price: 7)
              unknown  NOT urgent
        >       unknown  urgent    (urgent: null)
            true     JMSPriority BETWEEN 3 AND 5    (JMSPriority: 4)"""
    )


@pytest.mark.parametrize(
    ("text", "properties", "deciding"),
    [
        ("a = 1", {"a": 1}, ["a = 1"]),
        ("a = 1 AND b = 2", {"a": 1, "b": 2}, ["a = 1", "b = 2"]),
        ("a = 1 AND b = 2", {"a": 1, "b": 3}, ["b = 2"]),
        ("a = 1 AND b = 2", {"b": 3}, ["b = 2"]),
        ("a = 1 AND b = 2", {"b": 2}, ["a = 1"]),
        ("a = 1 OR b = 2", {"a": 1, "b": 3}, ["a = 1"]),
        ("a = 1 OR b = 2", {"a": 2, "b": 3}, ["a = 1", "b = 2"]),
        ("a = 1 OR b = 2", {"a": 2}, ["b = 2"]),
        ("NOT (a = 1 OR b = 2)", {"a": 1}, ["a = 1"]),
        ("a + b > 1 AND TRUE", {"a": 1}, ["a + b > 1"]),
    ],
)
def test_it_says_which_clauses_decided(text: str, properties: dict[str, Stored], deciding: list[str]) -> None:
    assert [clause.text for clause in explain(text, **properties).deciding] == deciding


def test_the_text_of_a_clause_is_the_authors_own() -> None:
    root = explain("a =\n\t'x  y'  AND b", a="x  y")
    assert root.clauses[0].text == "a =\n\t'x  y'"
    assert str(root).splitlines()[1] == "    true     a =  'x  y'    (a: 'x  y')"


def test_names_are_read_once_and_in_order() -> None:
    assert explain("b + a > b", a=1, b=2).read == (("b", 2), ("a", 1))


def test_no_selector_is_explained_too() -> None:
    assert str(explain("")) == "> true     "
