"""What is asked wrongly is found out before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyjms.spark.options import OptionError, check_every, check_folder, check_job, check_lines, check_output, check_page
from pyjms.spark.plots import document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPANS = ("0 seconds", "10 second", " INTERVAL 1 hour  -30 MINUTES", "1.5 seconds", ".5 second", "2 weeks 1 microsecond")
OTHERS = (
    "", " ", "interval", "banana", "-3 seconds", "1 minute -61 seconds", "10s", "10", "1.5 minutes", "1 month", "seconds 1", ". seconds",
)  # fmt: skip


def test_spark_takes_the_spans_that_are_taken_here_and_no_others(spark: SparkSession) -> None:
    jvm: Any = spark
    trigger = jvm._jvm.org.apache.spark.sql.streaming.Trigger
    for every in SPANS:
        check_every(every)
        trigger.ProcessingTime(every)
    for every in OTHERS:
        with pytest.raises(OptionError, match="write how often, such as '10 seconds'"):
            check_every(every)
        with pytest.raises(Exception, match=r"interval|negative|INTERVAL"):
            trigger.ProcessingTime(every)


def test_a_job_has_a_name() -> None:
    check_job(f" {'j' * 200}\n")
    for job in ("", " ", "j" * 201):
        with pytest.raises(OptionError, match="the name of a job has 1 to 200 characters"):
            check_job(job)


def test_a_folder_has_a_name_that_spark_takes(spark: SparkSession) -> None:
    path: Any = spark
    path = path._jvm.org.apache.hadoop.fs.Path
    for place in ("orders", "./a", "/var/a:b", "a/b:c", "file:/var/a", "hdfs://namenode/a", "Ä rger☕", "a*"):
        check_folder(place)
        path(place)
    for place, told in (("", "is empty"), ("a:b", "write the whole path"), ("file:orders", "write the whole path")):
        with pytest.raises(OptionError, match=told):
            check_folder(place)
        with pytest.raises(Exception, match=r"empty string|URISyntaxException"):
            path(place)
    with pytest.raises(OptionError, match="is empty"):
        check_folder(" ")


def test_a_file_is_one_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    check_output(tmp_path / "there")
    check_output(tmp_path / "new")
    for path, told in ((tmp_path, "it is a folder"), (tmp_path / "no" / "x", "there is no folder .*/no")):
        with pytest.raises(OptionError, match=f"cannot be written: {told}"):
            check_output(path)


@pytest.mark.parametrize(
    ("check", "text"), [(check_page, document("title", [], {})), (check_lines, '{"batch": 1}\n')], ids=["page", "lines"]
)
def test_what_is_written_spoils_nothing_but_its_like(tmp_path: Path, check: Callable[[Path], None], text: str) -> None:
    path = tmp_path / "file"
    check(path)
    for former in ("", text):
        path.write_text(former)
        check(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(OptionError, match=r"is there and .*: name another file"):
        check(path)
    os.mkfifo(tmp_path / "pipe")
    check(tmp_path / "pipe")
