"""One Spark session for all tests on Spark of a process. They run in two processes of pytest-xdist, so that two JVMs serve them all.

Without Java or PySpark a developer's run leaves them out and says so; a run with CI in its environment fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyjms.spark.missing import spark_sql
from pyjms.spark.session import make_session
from pyjms.spi.errors import MissingProviderError
from tests.pyjms.spark.jvm import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


@cache
def missing() -> str | None:
    """Return what to do so that tests can run on Spark; None: they can."""
    try:
        spark_sql()
    except MissingProviderError as error:
        return error.reason
    return None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests that need a JVM into two groups, as one would end last of all; leave them out, on a developer's machine, without one."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        wants = "spark" in fixtures or item.get_closest_marker("spark") is not None
        if wants:
            item.add_marker("spark")
            item.add_marker(pytest.mark.xdist_group("plain_spark" if "plain_spark" in fixtures else "spark"))
        (left_out if wants and "CI" not in os.environ and missing() else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and what to do about it."""
    reason = missing() if "CI" not in os.environ else None
    if reason is not None:
        terminalreporter.write_line(f"Not run: tests on Spark: {reason}", yellow=True)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session in this process, on two threads; a task that fails is tried once more."""
    reason = missing()
    if reason is not None:
        pytest.fail(reason, pytrace=False)
    folder = tmp_path_factory.mktemp("spark")
    session = make_session(
        "tests",
        master="local[2,2]",
        settings={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def plain_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The same session, which neither compiles queries nor plans them anew while they run.

    For sixty steps over a few thousand rows, either costs more than the work itself.
    """
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, former in before.items():
        assert former is not None
        spark.conf.set(name, former)
