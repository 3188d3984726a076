"""What an epoch was made of, kept as the marker of a sink of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms.spark.connecting import close_links, link_of
from pyjms.spark.options import JmsOptions
from pyjms.spark.writing import Content, RowSum, note, noted, together
from pyjms.spi.replay import Stages


@pytest.fixture
def stages(jms_broker_url: str) -> Iterator[Stages]:
    yield link_of(JmsOptions(url=jms_broker_url)).connection().stages()
    close_links()


def content(*batches: tuple[list[str], list[list[object]]]) -> Content:
    seen = RowSum()
    for names, columns in batches:
        seen.add(names, columns)
    return seen.content


def test_rows_are_the_same_in_any_order_and_cut_in_any_way() -> None:
    whole = content((["text", "seq"], [["a", "b", None], [1, 2, 3]]))
    parts = [content((["seq", "text"], [[3], [None]])), content((["seq", "text"], [[2, 1], ["b", "a"]])), content()]
    assert together(parts) == whole
    assert whole.mark == Content(rows=3, digests=whole.digests).mark
    assert together([whole, None]) is None, "a task of another pyjms does not know"


@pytest.mark.parametrize("texts", [["a"], ["a", "b", "b"], ["a", "c"], ["a", "\ud800"]])
def test_other_rows_are_others(texts: list[object]) -> None:
    assert content((["text"], [texts])).mark != content((["text"], [["a", "b"]])).mark


def test_the_mark_of_the_last_epoch_is_known_and_the_first_of_an_epoch_stays(stages: Stages) -> None:
    sink = "s" * 200
    assert noted(stages, sink, 0) is None
    for epoch, mark in ((0, 2**20 - 1), (1, 0), (2**43 - 1, 7)):
        note(stages, sink, epoch, mark)
        note(stages, sink, epoch, 0)
        assert noted(stages, sink, epoch) == mark
    assert noted(stages, sink, 1) is None
    note(stages, sink, 2**43, 1)  # there are no bits for it
    assert noted(stages, sink, 2**43) is None
    assert stages.marker(sink) is None
