"""The whole way of orders: through two queues, by a routing job that ends in the middle, into Parquet, and back to a queue.

`make soak-spark` sends 200,000 orders and kills the job twice, which takes a JVM each time. The suite sends fewer, and its job ends by
itself before all orders are there: test_source.py has the deaths at each point.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from pyjms.spark import groups
from pyjms.spark.commands import commands
from pyjms.spark.connecting import close_links
from tests.pyjms.spark.jvm import QUICK
from tests.pyjms.spark.orders import Facts, fill, order, take_all
from tests.pyjms.spark.served import ServedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IS_SOAK = "PYJMS_ORDERS" in os.environ
ORDERS = int(os.environ.get("PYJMS_ORDERS", "600"))
BATCH = max(100, min(10_000, ORDERS // 8))
DEATHS_AFTER_S = (0.1, 0.7)
"""How long after a batch was told its job is killed: while the next one is planned, and while it is read or written."""
RULES = """
[[rule]]
name = "everything is made in the kitchen"
to = "queue:kitchen"
[[rule]]
name = "what is hot is told at the bar"
selector = "hot AND cups > 2"
transform = [{ use = "set", properties = { told = true } }]
to = "queue:bar"
"""
_log = logging.getLogger(__name__)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path / "broker", durable=True) as broker:
        yield broker
        close_links()


class Stopwatch:
    """Tells how long each part took."""

    def __init__(self) -> None:
        self._since = perf_counter()

    def done(self, what: str) -> None:
        now = perf_counter()
        _log.warning("%s: %.1f s", what, now - self._since)  # shown by pytest -rP
        self._since = now


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(commands(), [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def route_until_killed(arguments: list[str], seconds: float) -> None:
    """Run a routing job of its own, and kill all of its processes after its first batch and some more `seconds`."""
    program = [str(Path(sys.executable).with_name("pyjms")), "pipeline", *arguments, "--master", "local[2]"]
    quick = {"PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{QUICK}' pyspark-shell"}
    job = subprocess.Popen(
        program, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, **quick}
    )
    assert job.stderr is not None
    seen = []
    try:
        for line in job.stderr:
            seen.append(line)
            if line.startswith("routed: batch"):
                break
        else:
            raise AssertionError(f"the job ended by itself: {''.join(seen)}")
        with pytest.raises(subprocess.TimeoutExpired):
            job.wait(seconds)  # it must work still
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(30)
        job.stderr.close()


def sums(facts: Counter[Facts]) -> dict[str, float]:
    """Return the sums of all numbers."""
    found: Counter[str] = Counter()
    for (*_, properties), times in facts.items():
        for name, _, value in properties:
            if not isinstance(value, str):
                found[name] += times * value  # type: ignore[operator]
    return dict(found)


def told_at_the_bar(number: int) -> Iterator[Facts]:
    text, kind, correlation, priority, properties = order(number)
    values = {name: value for name, _, value in properties}
    if values["hot"] and values["cups"] > 2:  # type: ignore[operator]
        yield text, kind, correlation, priority, tuple(sorted((*properties, ("told", "bool", True))))


@pytest.mark.requires("spark")
@pytest.mark.timeout(7200 if IS_SOAK else 600)  # JVMs start, on a busy machine slowly
def test_orders_go_through_two_queues_and_files_and_back_though_the_routing_job_ends_in_the_middle(
    spark: SparkSession, broker: ServedBroker, tmp_path: Path
) -> None:
    watch = Stopwatch()
    wanted = Counter(map(order, range(ORDERS)))
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    routing = ["route", str(rules), broker.url, "queue:incoming", "--checkpoint", str(tmp_path / "route"),
               "--batch", str(BATCH), "--every", "0 seconds"]  # fmt: skip
    if IS_SOAK:
        fill(broker.url, "incoming", ORDERS)
        watch.done(f"{ORDERS} orders sent")
        for seconds in DEATHS_AFTER_S:
            route_until_killed(routing, seconds)
            watch.done("a routing job, killed")
    else:
        fill(broker.url, "incoming", ORDERS // 3)
        assert run(*routing, "--once")["routed"] > 0
        fill(broker.url, "incoming", ORDERS - ORDERS // 3, first=ORDERS // 3)
        watch.done(f"{ORDERS} orders sent, and some routed")
    (left,) = groups(url=broker.url)
    assert 0 < left.low < ORDERS, "the job was to end in the middle"
    assert run(*routing, "--once")["routed"] > 0
    watch.done("the rest routed")
    archived = run("archive", broker.url, "queue:kitchen", str(tmp_path / "archive"), "--once")
    assert archived == {"archived": ORDERS}
    watch.done("archived")
    assert_archive_has(spark, tmp_path / "archive", wanted)
    watch.done("the archive summed up")
    replayed = run("replay", str(tmp_path / "archive"), broker.url, "--job", "again", "--to", "queue:again")
    assert replayed == {"replayed": ORDERS}
    watch.done("replayed")
    came, at_the_bar = Counter(take_all(broker.url, "again")), Counter(take_all(broker.url, "bar"))
    watch.done("received")
    assert sums(came) == sums(wanted)
    assert came == wanted
    assert at_the_bar == Counter(each for number in range(ORDERS) for each in told_at_the_bar(number))
    for queue in ("incoming", "kitchen", "route.undeliverable"):
        assert list(take_all(broker.url, queue)) == []


def assert_archive_has(spark: SparkSession, folder: Path, wanted: Counter[Facts]) -> None:
    """Spark's own sums over the files are those of the orders."""
    row = (
        spark.read.parquet(str(folder))
        .selectExpr(
            "count(*) AS messages",
            "count(DISTINCT properties['number']) AS numbers",
            *(f"CAST(sum(CAST(properties['{name}'] AS DOUBLE)) AS DOUBLE) AS {name}" for name in ("cups", "price")),
            "sum(CAST(properties['far'] AS DECIMAL(20))) AS far",
        )
        .toArrow()
        .to_pylist()[0]
    )
    totals = sums(wanted)
    assert row == {
        "messages": ORDERS,
        "numbers": ORDERS,
        **{name: pytest.approx(totals[name]) for name in ("cups", "price")},
        "far": totals["far"],
    }
