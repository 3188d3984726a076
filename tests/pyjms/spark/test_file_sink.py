"""Whether an archive's folder and a checkpoint go together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyjms.spark.archives import check_place
from pyjms.spark.options import DataLossError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def logs(tmp_path: Path, **names: list[str]) -> tuple[str, str]:
    """Make the logs of a folder and of a checkpoint, and return both."""
    places = {"written": "archive [1]/_spark_metadata", "offsets": "ck/offsets", "commits": "ck/commits"}
    for log, files in names.items():
        folder = tmp_path / places[log]
        folder.mkdir(parents=True)
        for name in (*files, ".3.crc", ".9.0a1b.tmp"):
            (folder / name).touch()
    return str(tmp_path / "archive [1]"), str(tmp_path / "ck")


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"offsets": ["0"]},
        {"written": ["0"], "offsets": ["0"], "commits": []},
        {"written": ["8", "9.compact", "10"], "offsets": ["9", "10"], "commits": ["9", "10"]},
        {"written": ["8", "9.compact", "10"], "offsets": ["9", "10"], "commits": ["8", "9"]},
        {"written": [], "offsets": ["9", "10"], "commits": ["9", "10"]},
    ],
    ids=["new", "planned", "written, not committed", "in order", "written last, not committed", "an empty folder"],
)
def test_what_goes_together_is_used(spark: SparkSession, tmp_path: Path, names: dict[str, list[str]]) -> None:
    check_place(spark, *logs(tmp_path, **names))


@pytest.mark.parametrize(
    "names",
    [
        {"written": ["0"]},
        {"written": ["9.compact", "10"], "offsets": ["8", "9"], "commits": ["8", "9"]},
        {"written": ["9.compact"], "offsets": ["8"], "commits": []},
    ],
    ids=["a new checkpoint", "one batch behind", "after a compaction"],
)
def test_a_checkpoint_that_is_behind_is_refused(
    spark: SparkSession, tmp_path: Path, names: dict[str, list[str]]
) -> None:
    directory, checkpoint = logs(tmp_path, **names)
    with pytest.raises(DataLossError, match="into a new folder with a new checkpoint"):
        check_place(spark, directory, checkpoint)
    check_place(spark, f"{directory}, a new one", f"{checkpoint}, a new one")
