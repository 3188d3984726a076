"""How commands follow a query, without Spark: what they tell, how they stop, when they start again."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import typer

from pyjms.spark.commands.running import ended_at_once, follow

SLOW = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


class Query:
    """A query that has done some batches, and ended, with a problem or without."""

    def __init__(self, rows: dict[int, int], problem: str | None = None, *, is_active: bool = False) -> None:
        self.recentProgress = [
            {"batchId": batch, "numInputRows": number, "processedRowsPerSecond": 1.0} for batch, number in rows.items()
        ]
        self.isActive = is_active
        self._problem = None if problem is None else RuntimeError(problem)

    def exception(self) -> Exception | None:
        return self._problem

    def stop(self) -> None:
        self.isActive = False


def followed(*queries: Query, wanted: threading.Event | None = None) -> tuple[int, list[int], int]:
    """Return how many messages were moved, which batches were heard of, and how many queries were left."""
    left, heard = list(queries), list[int]()

    def start() -> Any:
        return left.pop(0)

    moved = follow(start, wanted or threading.Event(), "moved", lambda each: heard.append(each["batchId"]))
    return moved, heard, len(left)


def test_each_batch_that_moved_something_is_told_once() -> None:
    assert followed(Query({0: 10, 1: 0, 2: 5})) == (15, [0, 2], 0)


def test_a_query_whose_process_started_too_slowly_is_started_again() -> None:
    assert followed(Query({0: 10}, SLOW), Query({}, SLOW), Query({0: 10, 1: 7})) == (17, [0, 1], 0)


def test_it_is_not_started_again_for_ever_nor_for_another_problem() -> None:
    with pytest.raises(RuntimeError, match="failed to connect back"):
        followed(*(Query({}, SLOW) for _ in range(15)))
    with pytest.raises(RuntimeError, match="PYJMS-FENCED"):
        followed(Query({}, "PYJMS-FENCED"), Query({}))


def test_who_wants_it_to_end_is_obeyed() -> None:
    wanted = threading.Event()
    wanted.set()
    assert followed(Query({0: 3}, is_active=True), Query({}), wanted=wanted) == (3, [0], 1)


def test_a_command_that_only_reads_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, ended_at_once("report"):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 1
    assert "nothing was written" in capsys.readouterr().err
