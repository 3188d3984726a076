"""Watching a run that goes on: the rules that need no end of it, as a streaming query over what is recorded.

What has been written down lately stays in a window, which is kept as Parquet beside the query's checkpoint, so that the state is
bounded and outlives the driver. Each new file is judged together with the window. What clients do beside messages is never dropped: it is little,
and says who else may have held a message.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyjms.history.findings import Finding
from pyjms.history.rules import RULES
from pyjms.spark.checker.audit import audit
from pyjms.spark.checker.expressions import expr
from pyjms.spark.checker.reading import EVENT_SCHEMA, Recorded
from pyjms.spark.errors import OptionError
from pyjms.spark.places import are_within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LIVE_RULES = frozenset(
    {"redelivered-without-flag", "reordered", "reordered-shared", "after-expiry", "uncommitted-visible"}
)
"""The rules that can be decided before a run ends. Losses cannot, nor who has sent a message: its file may come late."""

_NS_PER_S = 10**9
_LISTED = 10_000  # of each rule: a run with more of them has been told enough
_KEPT = "op IN ('subscribe', 'unsubscribe', 'close', 'crash', 'clock')"


def watch(
    session: SparkSession,
    directory: Path | str,
    tell: Callable[[Finding], None],
    *,
    state: Path | str,
    horizon_s: int = 600,
    once: bool = False,
    without: Iterable[str] = (),
) -> StreamingQuery:
    """Start a query that judges what is recorded into `directory`, and calls `tell` with each finding, once.

    state: a directory for the query's checkpoint and window; who starts again with it goes on where it ended, and may
    be told again what the last files held.
    horizon_s: how many seconds of the history stay in the window.
    once: end when all files that are there have been judged.
    without: rules to be left out.
    Raises `OptionError` for a `state` that lies in `directory`, whose windows would be judged as recordings, and for one that has
    windows and no checkpoint: another's, or of a checkpoint that was lost, which would be deleted.
    """
    _check_state(Path(state), str(directory))
    judge = _Judge(session, Path(state), tell, horizon_s, frozenset(without))
    files = session.readStream.schema(EVENT_SCHEMA).option("recursiveFileLookup", "true")
    events = files.option("pathGlobFilter", "*.parquet").parquet(str(directory))
    writer = events.writeStream.foreachBatch(judge.batch).option("checkpointLocation", str(Path(state) / "checkpoint"))
    trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="5 seconds")
    return trigger.start()


def _check_state(state: Path, directory: str) -> None:
    for each in (state / "windows", state / "checkpoint"):
        if are_within(str(each), directory):
            raise OptionError(
                f"state={str(state)!r} and the recordings in {directory} lie in each other: name another folder for the state"
            )
    if (state / "windows").exists() and not (state / "checkpoint").exists():
        raise OptionError(
            f"state={str(state)!r} has a folder 'windows' and no checkpoint, and what is there would be deleted: name a new folder"
        )


class _Judge:
    def __init__(
        self,
        session: SparkSession,
        state: Path,
        tell: Callable[[Finding], None],
        horizon_s: int,
        without: frozenset[str],
    ) -> None:
        self._session = session
        self._windows = state / "windows"
        self._tell = tell
        self._horizon_ns = horizon_s * _NS_PER_S
        self._left_out = (RULES.keys() - LIVE_RULES) | without
        self._told: dict[tuple[str, str | None, str], int] = {}

    def batch(self, new: DataFrame, number: int) -> None:
        """Judge one batch together with the window. Repeated after a crash, it does the same."""
        before, now = self._windows / str(number - 1), self._windows / str(number)
        whole = new
        if before.exists():
            whole = new.unionByName(self._session.read.schema(EVENT_SCHEMA).parquet(str(before)))
        latest = whole.agg(expr("max(t0) AS latest")).toArrow().to_pylist()[0]["latest"]
        if latest is None:
            return
        since = latest - self._horizon_ns
        whole.where(f"t0 >= {since} OR {_KEPT}").coalesce(1).write.mode("overwrite").parquet(str(now))
        window = self._session.read.schema(EVENT_SCHEMA).parquet(str(now))
        found = audit(
            Recorded(events=window.selectExpr("'' AS h", "*"), cut_off=()), without=self._left_out, listed=_LISTED
        )
        for each in found.report.findings:
            key = each.rule, each.mid, each.text
            if key not in self._told:
                self._tell(each)
            self._told[key] = each.events[-1].t0
        self._told = {key: at for key, at in self._told.items() if at >= since}
        if before.exists():
            shutil.rmtree(before)
