"""Archives as files: every format gives back what was written, and they may be moved."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pyjms.spark.archives import METADATA, read_archive
from pyjms.spark.arrow import full_schema, record_batch
from pyjms.spark.options import OptionError
from pyjms.spark.schema import SCHEMA
from pyjms.spi.envelope import BodyKind, Envelope
from pyjms.spi.replay import ReservedMessage
from pyjms.types import Char, Double, Float
from tests.provider.helpers import make_envelope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW_MS = 1_790_000_000_123


def messages() -> list[Envelope]:
    """Messages of whatever may be lost on the way through a text format."""
    plain = make_envelope("a\r\nb\u2028\x00\u00e4\U0001f600 \"'\\")
    return [
        plain,
        replace(plain, timestamp_ms=NOW_MS, expiration_ms=NOW_MS + 1, body=""),
        replace(plain, timestamp_ms=-1, expiration_ms=2**62, body=None),
        replace(plain, timestamp_ms=1, body_kind=BodyKind.BYTES, body=bytes(range(256))),
        replace(plain, timestamp_ms=253_402_300_799_999, body_kind=BodyKind.BYTES, body=b""),
        replace(plain, body_kind=BodyKind.MAP, body={"x": None, "": 1.5, "y": b"\x00"}, correlation_id=b"\xff"),
        replace(
            plain,
            properties={"n": None, "t": "", "f": Float(0.1), "d": Double("-inf"), "c": Char("\ud800"), "i": -(2**31)},
        ),
    ]


def archived(spark: SparkSession, folder: Path, form: str) -> DataFrame:
    """Write an archive by hand, and return what is in it."""
    found = [
        ReservedMessage(number=number, envelope=each, count=1, redelivered=number % 2 == 0)
        for number, each in enumerate(messages())
    ]
    table = pa.Table.from_batches([record_batch(found, full_schema())])
    rows = spark.createDataFrame(table, SCHEMA).selectExpr("*", "to_date(timestamp) AS day")
    rows.write.format(form).partitionBy("day").save(str(folder))
    return rows


def rows_of(table: DataFrame) -> list[dict[str, Any]]:
    """Return rows by column; a map has no order."""
    return [
        {name: sorted(value) if isinstance(value, list) else value for name, value in row.items()}
        for row in table.toArrow().to_pylist()
    ]


def listed(folder: Path, root: str, *names: str, batch: str, action: str = "add") -> None:
    """Write a file of the list that Spark's file sink keeps."""
    (folder / METADATA).mkdir(exist_ok=True)
    same = {"isDir": False, "modificationTime": NOW_MS, "blockReplication": 1, "blockSize": 2**25, "action": action}
    lines = [json.dumps({"path": f"{root}/{name}", "size": (folder / name).stat().st_size, **same}) for name in names]
    (folder / METADATA / batch).write_text("\n".join(["v1", *lines]))


@pytest.mark.parametrize("form", ["parquet", "orc", "json"])
def test_what_was_written_comes_back(plain_spark: SparkSession, tmp_path: Path, form: str) -> None:
    written = rows_of(archived(plain_spark, tmp_path / "a", form))
    back = read_archive(plain_spark, str(tmp_path / "a"), form=form).orderBy("seq")
    assert rows_of(back) == written
    chosen = read_archive(plain_spark, str(tmp_path / "a"), form=form, where="properties['t'] = ''")
    assert [row["seq"] for row in chosen.collect()] == [6]


def test_other_formats_are_refused(plain_spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"none of parquet, orc, json, delta: 'csv'"):
        read_archive(plain_spark, str(tmp_path), form="csv")


@pytest.mark.parametrize("url", ["", "file://"])
def test_of_an_archive_that_was_moved_those_files_are_read_that_its_list_names(
    plain_spark: SparkSession, tmp_path: Path, url: str
) -> None:
    folder = tmp_path / "cold [1] {a,b}" / "orders"
    archived(plain_spark, folder, "parquet")
    files = sorted(str(each.relative_to(folder)) for each in folder.rglob("part-*.parquet"))
    assert len(files) >= 4
    root = "file:///not/here%20any%20more"
    encoded = [name.replace(" ", "%20") for name in files]
    assert encoded == files
    listed(folder, root, files[0], batch="0")  # in the compact one, too
    listed(folder, root, *files[:3], batch="9.compact")
    listed(folder, root, files[1], batch="10", action="delete")
    for beside in (".9.compact.crc", "11.tmp"):
        (folder / METADATA / beside).touch()
    read = read_archive(plain_spark, f"{url}{folder}")
    wanted = plain_spark.read.parquet(*(literal(folder / files[place]) for place in (0, 2))).count()
    assert read.count() == wanted
    assert dict(read.dtypes)["day"] == "date"
    assert read.where("day IS NULL").count() + read.where("day IS NOT NULL").count() == wanted
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / files[0]).write_bytes(b"cut off")
    (copy / files[2]).unlink()
    with pytest.raises(OptionError, match=r"2 of its 2 files are missing or of another length.*copy it as a whole"):
        read_archive(plain_spark, str(copy))


def test_where_an_archive_lies_as_it_was_written_spark_reads_its_list(
    plain_spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "orders"
    archived(plain_spark, folder, "parquet")
    name = next(str(each.relative_to(folder)) for each in folder.rglob("part-*.parquet"))
    listed(folder, f"file://{folder}", name, batch="0")
    assert read_archive(plain_spark, f"{folder}/").count() == plain_spark.read.parquet(str(folder / name)).count()
    shutil.rmtree(folder / METADATA)
    assert read_archive(plain_spark, str(folder)).count() == len(messages())


def test_a_part_of_an_archive_is_refused_as_it_may_have_files_of_batches_that_broke_off(
    plain_spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "orders"
    archived(plain_spark, folder, "parquet")
    files = sorted(str(each.relative_to(folder)) for each in folder.rglob("part-*.parquet"))
    listed(folder, f"file://{folder}", *files[1:], batch="0")
    whole = read_archive(plain_spark, str(folder)).count()
    assert whole < len(messages())
    for part in (Path(files[0]).parent, "*", files[0], METADATA):
        with pytest.raises(OptionError, match=r"is a part of the archive file:.*/orders, .*name the archive itself"):
            read_archive(plain_spark, f"{folder}/{part}")
    shutil.copytree(folder, folder / "a copy within")
    assert read_archive(plain_spark, str(folder / "a copy within")).count() == whole


def test_an_archive_of_another_format_is_told_by_its_files(plain_spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    archived(plain_spark, folder, "json")
    files = [str(each.relative_to(folder)) for each in folder.rglob("part-*.json")]
    listed(folder, f"file://{folder}", *files, batch="0")
    with pytest.raises(OptionError, match="are json, not parquet: give --format json"):
        read_archive(plain_spark, str(folder))


def literal(path: Path) -> str:
    return "".join(f"\\{each}" if each in "[]{}" else each for each in str(path))
