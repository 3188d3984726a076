"""The session of our commands: on the loopback interface, in UTC, without a web page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.spark.session import _processors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_session_is_quiet_and_for_itself(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sql("SELECT timestamp_micros(0)").first() is not None


@pytest.mark.parametrize(("master", "number"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_data_are_cut_into_as_many_parts_as_tasks_run_at_once(master: str, number: int) -> None:
    assert _processors(master) == number
    assert _processors("local[*]") >= 1
