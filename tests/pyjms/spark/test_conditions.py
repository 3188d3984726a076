"""A replay chooses the same messages each time, so that no condition may look at a clock or throw dice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.spark.archives import ARCHIVE_SCHEMA
from pyjms.spark.options import OptionError, check_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME = (
    "day = '2026-01-31'",
    "day >= '2026-01-01' AND timestamp < '2026-01-31 12:00'",
    "text = 'yesterday' OR text IN ('now()', 'rand()')",
    "cast(properties['cups'] AS INT) > 2",
    "hash(message_id) % 10 = 0",
    f"seq IN ({', '.join(map(str, range(300)))})",
)
OTHERS = (
    ("rand() < 0.5", "rand()"),
    ("seq > 5 AND (text = 'a' OR uuid() > text)", "uuid()"),
    ("spark_partition_id() = 0", "SPARK_PARTITION_ID()"),
    ("seq IN (SELECT cast(10 * rand() AS INT))", "listquery()"),
    ("day = current_date() - 1", "current_date()"),
    ("timestamp > now() - INTERVAL 1 HOUR", "now()"),
    ("unix_timestamp() > seq", "current_timestamp()"),
    ("timestamp > localtimestamp()", "localtimestamp()"),
    ("day = 'yesterday'", "CAST('yesterday' AS DATE)"),
    ("timestamp >= 'Today UTC'", "CAST('Today UTC' AS TIMESTAMP)"),
)


def test_what_chooses_the_same_each_time_is_taken_and_nothing_else(plain_spark: SparkSession) -> None:
    rows = plain_spark.createDataFrame([], ARCHIVE_SCHEMA)
    for where in SAME:
        check_condition(rows.where(where), where)
    for where, told in OTHERS:
        with pytest.raises(OptionError, match="a job that is started again must choose the same messages") as refused:
            check_condition(rows.where(where), where)
        assert f"another result each time, by {told}," in refused.value.reason
