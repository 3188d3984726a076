"""Recorded histories as a table of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pyjms.history.events import COLUMNS, Event
from pyjms.history.parquet import COMPULSORY, SCHEMA, read_events
from pyjms.history.reading import HistoryError, check_files, open_journals, recorded_files, unclosed
from pyjms.spark.places import all_below, literally, matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMES = {"int64": "BIGINT", "int32": "INT", "int8": "TINYINT", "bool": "BOOLEAN", "string": "STRING"}

_VALUES = itemgetter(*COLUMNS)

EVENT_SCHEMA = ", ".join(f"`{field.name}` {_NAMES[str(field.type)]}" for field in SCHEMA)
"""The columns of a history, as Spark writes schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A history as a lazy table."""

    events: DataFrame
    """The columns of `pyjms.history.events.Event`, and `h`, which identifies the history if several lie together."""
    cut_off: tuple[str, ...]
    """The processes whose buffered recording was not closed."""


def read_history(session: SparkSession, directories: Sequence[Path | str], *, by_run: bool = False) -> Recorded:
    """Return the history in `directories` and their subfolders.

    directories: local ones, whose journals are read as well, or URLs that Spark can read, such as ``hdfs://...``, of
    which only Parquet files are read. by_run: each run is a history of its own; otherwise all are read as one, as
    `pyjms.history.read` does. Raises `HistoryError` when there is none, or none at one of the URLs, and for a file that
    is no history: Spark would silently skip some.
    """
    remote = [str(each) for each in directories if "://" in str(each)]
    local = [Path(each) for each in directories if "://" not in str(each)]
    listed = {folder: recorded_files(folder) for folder in local}
    files = [path for folder in local for path in listed[folder]]
    check_files(files)
    for place in remote:
        _check_remote(session, place)
    # Spark skips such names silently, so local files are read by Python and remote ones are refused.
    here = [event for path in files if _is_hidden(path) for event in read_events(path)]
    here += [event for folder in local for event in open_journals(folder, listed[folder])]
    cut_off = tuple(pid for folder in local for pid in unclosed(folder))
    # A local path may have brackets or stars in its name, which Spark would expand.
    places = [*remote, *(literally(path) for path in files if not _is_hidden(path))]
    if not places and not here and not files:
        raise HistoryError(f"there is no recorded history in {', '.join(map(str, directories)) or 'no directory'}")
    parts = []
    if places:
        reader = session.read.schema(EVENT_SCHEMA).option("recursiveFileLookup", "true")
        reader = reader.option("pathGlobFilter", "*.parquet")
        parts.append(reader.parquet(*places))
        if remote:
            _check_events(reader.parquet(*remote), remote)
    # Files without events are a history all the same, of no rows.
    if here or not parts:
        parts.append(session.createDataFrame(table_of(here), EVENT_SCHEMA))
    events = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    return Recorded(events=events.selectExpr("run AS h" if by_run else "'' AS h", "*"), cut_off=cut_off)


def _is_hidden(path: Path) -> bool:
    """Say whether Spark skips a file because of its name, even if the file is named explicitly."""
    return path.name.startswith(("_", "."))


def _check_remote(session: SparkSession, place: str) -> None:
    """Check the files of a URL. Raises `HistoryError` if there are none, and for files that Spark would silently skip."""
    files = [
        each
        for folder in matches(session, place)
        for each in all_below(session, folder)
        if each.name.endswith(".parquet")
    ]
    if not files:
        raise HistoryError(f"there is no recorded history in {place}")
    for each in files:
        if not each.size:
            raise HistoryError(f"{each.place} cannot be read as a history: the file has no bytes")
        if any(name.startswith(("_", ".")) for name in each.below):
            raise HistoryError(
                f"{each.place} cannot be read as a history: Spark passes over names that begin with _ or a dot; give the file, or its "
                "folder, another name"
            )


def _check_events(events: DataFrame, remote: Sequence[str]) -> None:
    """Raise `HistoryError` if Spark reads no events, or rows that are no events: columns that a file lacks are null."""
    wrong = events.where(" OR ".join(f"{name} IS NULL" for name in COMPULSORY))
    # Spark fills columns that a file lacks with NULL instead of failing, so a foreign file looks like empty events.
    for name in [row[0] for row in wrong.selectExpr("input_file_name()").limit(1).collect()]:
        raise HistoryError(
            f"{name} cannot be read as a history: it has rows that are no events, without {', '.join(COMPULSORY)}"
        )
    if events.isEmpty():
        raise HistoryError(f"there are no events in {', '.join(remote)}")


def table_of(events: Sequence[Event]) -> pa.Table:
    """Return events as an Arrow table with the columns of a history."""
    return pa.Table.from_pylist([asdict(event) for event in events], schema=SCHEMA)


def event_of(row: dict[str, object]) -> Event:
    """Return the event of a row; columns that no event has are left out."""
    return Event(*_VALUES(row))  # the schema fixes their types
