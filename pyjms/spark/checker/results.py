"""The findings of an audit as files, in a folder that loses nothing else by it: Spark empties the folder that it writes anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pyjms.spark.checker.judging import FINDING_SCHEMA
from pyjms.spark.errors import OptionError
from pyjms.spark.places import are_within, inside, literally, local_path, matches, qualified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_place_of_findings", "write_findings"]

_COLUMNS = [part.split()[0] for part in FINDING_SCHEMA.split(", ")]
_PART = re.compile(r"part-.*\.parquet")
_BESIDE = re.compile(r"_SUCCESS|\._SUCCESS\.crc|\.part-.*\.parquet\.crc")
_NAME_ANOTHER = "name a folder that does not exist, is empty, or has nothing but the findings of a former audit"


def write_findings(findings: DataFrame, place: str, histories: Sequence[Path | str]) -> None:
    """Write findings into the folder `place` as Parquet; those of a former audit give way.

    histories: what was audited. Raises `OptionError` when the folder has something else, or is, has or lies in a history.
    """
    check_place_of_findings(place, histories, findings.sparkSession)
    findings.write.mode("overwrite").parquet(place)


def check_place_of_findings(place: str, histories: Sequence[Path | str], session: SparkSession | None = None) -> None:
    """Look that nothing is lost when findings are written into the folder `place`. Raises `OptionError`.

    session: None: before Spark starts, so that only what is on this machine is looked at.
    """
    texts = [str(each) for each in histories]
    _check_apart(place, texts)
    path = local_path(place)
    if path is not None and path.exists():
        names = [each.name for each in path.iterdir()] if path.is_dir() else None
        _check_former(place, names, lambda parts: all(map(_is_of_findings, (path / name for name in parts))))
    if session is None:
        return
    _check_apart(qualified(session, place), [each for text in texts for each in matches(session, _as_read(text))])
    listed = inside(session, place)
    if path is None and listed is not None:
        files = {each.name: each.place for each in listed if not each.is_folder}
        is_file = len(listed) == 1 and qualified(session, place) == listed[0].place
        names = None if is_file else [each.name for each in listed]
        _check_former(place, names, lambda parts: _are_of_findings(session, [files.get(name) for name in parts]))


def _as_read(text: str) -> str:
    return text if "://" in text else literally(text)


def _check_apart(place: str, histories: Iterable[str]) -> None:
    for each in histories:
        if are_within(place, each):
            raise OptionError(
                f"findings would be written to {place}, which is, has or lies in the history {each}, and what is there would be deleted: "
                "name another folder"
            )


def _check_former(place: str, names: Sequence[str] | None, are_findings: Callable[[Sequence[str]], bool]) -> None:
    """Raise `OptionError` unless all `names` in a folder are those of a former result. names: None: it is a file."""
    if names is None:
        raise OptionError(f"findings would be written to {place}, which is a file: {_NAME_ANOTHER}")
    parts = [name for name in names if _PART.fullmatch(name)]
    others = sorted(name for name in names if not _PART.fullmatch(name) and not _BESIDE.fullmatch(name))
    if not others and not are_findings(parts):
        others = sorted(parts)
    if others:
        raise OptionError(
            f"findings would be written to {place}, which has {others[0]!r} in it, and all that is there would be deleted: {_NAME_ANOTHER}"
        )


def _is_of_findings(path: Path) -> bool:
    try:
        return list(pq.read_schema(path).names) == _COLUMNS
    except (OSError, pa.ArrowException):
        return False


def _are_of_findings(session: SparkSession, places: Sequence[str | None]) -> bool:
    """Say so of files that only Spark reaches; None: a folder of such a name."""
    from pyspark.errors import PySparkException

    known = [literally(place) for place in places if place is not None]
    if len(known) < len(places):
        return False
    try:
        return not known or session.read.option("mergeSchema", "true").parquet(*known).columns == _COLUMNS
    except PySparkException:
        return False
