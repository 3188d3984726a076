"""One Spark session for all tests on Spark of a process. They run in two processes of pytest-xdist, so that two JVMs serve them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyjms.spark.session import make_session
from tests.needs.declaring import declared
from tests.pyjms.spark.jvm import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that need a JVM into two groups, as one would end last of all."""
    for item in items:
        if "spark" in declared(item):
            is_plain = "plain_spark" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("plain_spark" if is_plain else "spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session in this process, on two threads; a task that fails is tried once more."""
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
