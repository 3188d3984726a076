"""Places on this machine and elsewhere, as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyjms.spark.options import OptionError
from pyjms.spark.places import (
    all_below,
    are_within,
    exists,
    inside,
    literally,
    local_path,
    make_folder,
    matches,
    parents,
    qualified,
    text_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("/var/a", "/var/a/", True),
        ("/var/a", "/var/b/../a/x", True),
        ("/var/a", "/var/ab", False),
        ("/var/run[1]", "/var/run1", False),
        ("file:///var/a b#1", "/var/a b#1", True),
        ("file:/var/a", "file:///var", True),
        ("hdfs://n/a", "/a", False),
        ("hdfs://n/a", "hdfs://m/a", False),
        ("hdfs://n/a/b", "HDFS://n/a/./", True),
        ("hdfs://n", "hdfs://n/a", True),
        ("s3a://n/a-1", "s3a://n/a-*", False),
        ("s3a://n/a", "s3a://n/a/{b,c}/d", True),
    ],
)
def test_what_lies_within_what(one: str, other: str, *, wanted: bool) -> None:
    assert are_within(one, other) == are_within(other, one) == wanted


def test_a_link_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert local_path(f"file://{tmp_path}/link/x") == tmp_path.resolve() / "real" / "x"
    assert are_within(str(tmp_path / "link"), str(tmp_path / "real" / "x"))


def test_files_are_found_as_spark_finds_them(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a [1]/.b/_c.txt", "a [1]/d.txt", "a [1]/e/f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Ärger", encoding="utf-8")
    folder = tmp_path / "a [1]"
    found = list(all_below(spark, f"file://{folder}"))
    assert [each.below for each in found] == [(".b", "_c.txt"), ("d.txt",), ("e", "f.txt")]
    assert {each.size for each in found} == {6}
    assert text_of(spark, found[0].place) == "Ärger"
    listed = inside(spark, str(folder))
    assert listed is not None
    assert [(each.name, each.is_folder) for each in listed] == [(".b", True), ("d.txt", False), ("e", True)]
    assert inside(spark, str(tmp_path / "nowhere")) is None
    assert matches(spark, f"{tmp_path}/a*/[de]*") == [f"file:{folder}/d.txt", f"file:{folder}/e"]
    assert matches(spark, literally(folder)) == [qualified(spark, f"file://{folder}")] == [f"file:{folder}"]
    assert matches(spark, str(folder)) == []


def test_where_there_can_be_no_folder_is_told_with_what_is_in_the_way(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    new = tmp_path / "a" / "b c"
    for _ in range(2):
        make_folder(spark, str(new))
    assert (new.is_dir(), exists(spark, str(new)), exists(spark, f"{new}/d")) == (True, True, False)
    assert list(parents(spark, str(new)))[:2] == [f"file:{tmp_path}/a", f"file:{tmp_path}"]
    for place in ("file", "file/x/y"):
        with pytest.raises(OptionError, match=r"cannot be written to: file:/.*/file is a file; name another folder"):
            make_folder(spark, f"{tmp_path}/{place}")
    with pytest.raises(OptionError, match="file:/proc does not permit it"):
        make_folder(spark, "/proc/no/folder")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(OptionError, match=r"b c does not permit it"):
        make_folder(spark, str(new))
