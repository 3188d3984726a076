"""The checker on Spark against one pass of Spark over the same file, and how it grows with the history.

The peer reads the whole file, joins sends with deliveries by a hash join, and aggregates: the least that any check of what
was lost must do. ``PYJMS_EVENTS`` names how many events the larger history has: 20 million by itself, 100 million in ``make soak-spark``;
0 leaves it out.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from histories import AGAIN, LOST, SWAPPED, write_history
from measure import report

from pyjms.spark.checker.audit import audit
from pyjms.spark.checker.reading import read_history
from pyjms.spark.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 2_000_000
WARM_UP, WARM_UPS = 50_000, 3
PLANTED = {"reordered": SWAPPED, "delivered-after-ack": AGAIN, "lost": LOST}
MASTER = os.environ.get("PYJMS_MASTER", "local[2]")
MEMORY = os.environ.get("PYJMS_MEMORY", "6g")
LARGE = int(os.environ.get("PYJMS_EVENTS", "20000000"))
ROUNDS = 5


def one_pass(session: SparkSession, folder: Path) -> float:
    """Return the seconds that reading, hash-joining and aggregating the history once takes."""
    begin = perf_counter()
    events = read_history(session, [folder]).events
    session.conf.set("spark.sql.join.preferSortMergeJoin", "false")
    sent = events.where("op = 'send'").selectExpr("h", "mid", "dest", "struct(*) AS sent")
    come = events.where("op = 'deliver'").selectExpr("h", "mid", "struct(*) AS come")
    joined = come.join(sent.hint("shuffle_hash"), ["h", "mid"])
    rows = joined.selectExpr("dest", "come.t1 - sent.t0 AS took", "xxhash64(sent, come) AS digest").groupBy("dest")
    assert len(rows.agg({"took": "max", "digest": "min", "*": "count"}).toArrow()) > 0
    return perf_counter() - begin


def judged(session: SparkSession, folder: Path) -> float:
    """Return the seconds that the checker takes; it must find what was planted, and nothing else."""
    begin = perf_counter()
    found = audit(read_history(session, [folder]))
    took = perf_counter() - begin
    assert dict(found.counts) == PLANTED, found.counts
    return took


def main() -> int:
    """Run and report."""
    settings = {"spark.driver.memory": MEMORY}
    with TemporaryDirectory(dir=os.environ.get("PYJMS_SCRATCH")) as place:
        session = make_session("benchmark", master=MASTER, settings={**settings, "spark.local.dir": f"{place}/spark"})
        folders = {name: Path(place) / name for name in ("warm", "small", "large")}
        for folder in folders.values():
            folder.mkdir()
        write_history(folders["warm"], WARM_UP)
        small = write_history(folders["small"], EVENTS)
        for work in (one_pass, judged) * WARM_UPS:
            work(session, folders["warm"])
        ours, theirs = measured(session, folders["small"], ROUNDS)
        detail = f"{small:,} events in {ours:.1f} s against {theirs:.1f} s"
        good = report("checker / one pass of Spark", ours / theirs, most=3.0, detail=detail)
        if LARGE:
            large = write_history(folders["large"], LARGE)
            took = judged(session, folders["large"])
            most = 11.0 * large / small / 10
            detail = f"{large:,} events in {took:.1f} s, {large / small:.1f} times as many"
            good &= report("growth of the checker's time", took / ours, most=most, detail=detail)
        session.stop()
    return 0 if good else 1


def measured(session: SparkSession, folder: Path, rounds: int) -> tuple[float, float]:
    """Return the medians of both, which alternate."""
    times: dict[Callable[[SparkSession, Path], float], list[float]] = {judged: [], one_pass: []}
    for _ in range(rounds):
        for work, found in times.items():
            found.append(work(session, folder))
    return statistics.median(times[judged]), statistics.median(times[one_pass])


if __name__ == "__main__":
    sys.exit(main())
