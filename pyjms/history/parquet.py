"""The one module that uses Parquet: rows to a file, and a file to events. Needs the extra `history`.

A file is written under a temporary name and then renamed, so that readers never see an incomplete one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyjms.history.events import COLUMNS, Event
from pyjms.history.rows import ROW, Row, column

_TYPES = {
    "t0": pa.int64(),
    "t1": pa.int64(),
    "n": pa.int64(),
    "mode": pa.int8(),
    "prio": pa.int8(),
    "sn": pa.int64(),
    "dn": pa.int64(),
    "redelivered": pa.bool_(),
    "count": pa.int32(),
    "exp": pa.int64(),
}
SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in COLUMNS])

_ROW_GROUP = 1 << 16
COMPULSORY = ("run", "node", "pid", "op", "ok", "t0")
"""The fields that every event has."""


def write_rows(path: Path, rows: Sequence[Row], run: str, node: str) -> None:
    """Write `rows` to `path`, which appears only when it is complete."""
    columns: dict[str, Any] = {name: [run if name == "run" else node] * len(rows) for name in ("run", "node")}
    columns.update(zip(ROW, zip(*rows, strict=True), strict=True))
    table = pa.table([_array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
    # With an underscore, so that readers skip it; in the same directory, as a rename is atomic only within a file
    # system.
    temporary = path.with_name(f"_{path.name}.tmp")
    pq.write_table(table, temporary, row_group_size=_ROW_GROUP)
    temporary.replace(path)


def _array(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except UnicodeEncodeError:
        # Only a column with half of a surrogate pair pays for the check of each of its values.
        return pa.array([column(value) for value in values], type=kind)


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a file, in the order in which they were written.

    Columns that the file lacks are None. Raises `OSError` or `ValueError` for a file that cannot be read, or is no history.
    """
    with pq.ParquetFile(path) as file:
        _check(file)
        present = [name for name in COLUMNS if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=present):
            values = {name: batch.column(name).to_pylist() for name in present}
            nothing = [None] * batch.num_rows
            yield from map(Event, *(values.get(name, nothing) for name in COLUMNS))


def check_file(path: Path) -> None:
    """Check the end of a file, which holds its schema. Raises `OSError` or `ValueError` as `read_events` would."""
    with pq.ParquetFile(path) as file:
        _check(file)


def _check(file: pq.ParquetFile) -> None:
    found = {field.name: field.type for field in file.schema_arrow}
    for name in COMPULSORY:
        if name not in found:
            raise ValueError(f"it has no column {name!r}")
    for field in SCHEMA:
        kind = found.get(field.name, field.type)
        if not _fits(kind, field.type):
            raise ValueError(f"its column {field.name!r} is {kind}, where a history has {field.type}")
    # The statistics in the footer count nulls, so that no value is read.
    for chunk in _chunks(file.metadata):
        statistics = chunk.statistics
        if (
            chunk.path_in_schema in COMPULSORY
            and statistics is not None
            and statistics.has_null_count
            and statistics.null_count
        ):
            raise ValueError(f"its column {chunk.path_in_schema!r} has nulls")


def _chunks(metadata: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        yield from map(group.column, range(group.num_columns))


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type can be those of a column: narrower integers, and all of Parquet's types of text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    # A writer makes a column without any value one of type null.
    if kind == wanted or pa.types.is_null(kind):
        return True
    if pa.types.is_signed_integer(wanted):
        return bool(pa.types.is_signed_integer(kind)) and kind.bit_width < wanted.bit_width
    return bool(pa.types.is_string(wanted) and pa.types.is_large_string(kind))
