"""Messages as Arrow record batches, built by the column, and record batches as columns of Python values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyjms.spark.messages import row_told
from pyjms.spark.options import RowError
from pyjms.spark.schema import COLUMNS, Run, column_values, property_columns
from pyjms.spi.replay import ReservedMessage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = frozenset({"timestamp", "expiration"})
_OWN = frozenset({"seq", "message_id", "text", "bytes", "body"})
"""Columns that are compared for one common value only if it is null: their values differ in each message, or are large."""
_MAPS = frozenset({"properties", "property_types"})


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for batches of `schema`. Raises `RowError` for columns that messages
    do not have.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        kind = COLUMNS.get(field.name)
        if kind is None:
            raise RowError(f"messages have no column {field.name!r}; they have {', '.join(COLUMNS)}")
        if field.dataType.simpleString() != kind:
            raise RowError(
                f"column {field.name!r} is {kind}, not {field.dataType.simpleString()}: name it so in .schema(...), and cast it "
                "where you read it"
            )
    return to_arrow_schema(schema, timezone="UTC")


def full_schema() -> pa.Schema:
    """Return `arrow_schema` of all columns, without calling Spark."""
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in COLUMNS.items()])


_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "tinyint": pa.int8(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


def record_batch(messages: Sequence[ReservedMessage], schema: pa.Schema, *, with_bodies: bool = True) -> pa.RecordBatch:
    """Return messages as one batch of `schema`, a result of `arrow_schema`."""
    plain = [name for name in schema.names if name not in _MAPS]
    columns = column_values(messages, plain, with_bodies=with_bodies)
    maps: dict[str, list[Run]] = {}
    if len(plain) < len(schema.names):
        maps["properties"], maps["property_types"] = property_columns(messages)
    arrays = [
        _map_array(field.type, maps[field.name]) if field.name in _MAPS else _array(field, columns[field.name])
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(field: pa.Field, values: list[Any]) -> pa.Array:
    first = values[0] if values else None
    # `count` stops at nothing but compares by identity first, so it is quick where all messages share one value.
    if (first is None or field.name not in _OWN) and values.count(first) == len(values):
        # One value for all messages, as in most batches.
        return (
            pa.nulls(len(values), field.type) if first is None else pa.repeat(pa.scalar(first, field.type), len(values))
        )
    if field.name in _TIMES:
        return pa.array(values, pa.int64()).cast(field.type)
    return pa.array(values, field.type)


def _map_array(kind: pa.DataType, runs: Sequence[Run]) -> pa.Array:
    sizes = chain.from_iterable(repeat(len(run.names), run.maps) for run in runs)
    # Built from offsets, keys and items: `pa.array` would need a dict for each message.
    offsets = pa.array(accumulate(sizes, initial=0), pa.int32())
    if len(runs) == 1:
        (run,) = runs
        keys = _repeated(run.names, run.maps)
        is_same = len(run.items) == len(run.names)
        items = _repeated(tuple(run.items), run.maps) if is_same else pa.array(run.items, pa.string())
    else:
        keys = pa.array([key for run in runs for key in run.names * run.maps], pa.string())
        items = pa.array([item for run in runs for item in _items(run)], pa.string())
    return pa.MapArray.from_arrays(offsets, keys, items, kind)


def _items(run: Run) -> Sequence[str | None]:
    return tuple(run.items) * run.maps if len(run.items) == len(run.names) else run.items


@lru_cache(maxsize=16)
def _repeated(texts: tuple[str | None, ...], times: int) -> pa.Array:
    """Return `texts` repeated `times` times. Cached: most batches are of one size and have properties of the same
    names.
    """
    return pa.array(texts * times, pa.string())


def tuples(
    messages: Sequence[ReservedMessage], names: Sequence[str], *, with_bodies: bool = True
) -> Iterator[tuple[Any, ...]]:
    """Yield messages as the tuples that Spark takes: slower than `record_batch`, and the same rows."""
    columns = column_values(messages, names, with_bodies=with_bodies)
    for name in _TIMES & columns.keys():
        # Computed from the epoch, since `datetime.fromtimestamp` goes through a float and loses microseconds.
        columns[name] = [None if value is None else _EPOCH + timedelta(microseconds=value) for value in columns[name]]
    return zip(*columns.values(), strict=True)


def column_lists(batch: pa.RecordBatch) -> Iterable[list[Any]]:
    """Return each column of a batch as Python values, as `pyjms.spark.messages` reads them. Raises `RowError` for
    invalid text.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        # As whole numbers: `to_pylist` would make a `datetime`, which ends with the year 9999.
        plain = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()) if name in _TIMES else column
        try:
            yield plain.to_pylist()
        # Arrow does not check text that Spark wrote, so the error appears only when a value becomes a Python string.
        except UnicodeDecodeError as error:  # Spark makes text of any bytes, for example by cast(bytes AS STRING)
            raise RowError(
                f"column {name!r} has text that is no UTF-8, as no message has it: write such bytes in the column bytes; the row has "
                f"{_first_undecodable(batch, name)}"
            ) from error


def _first_undecodable(batch: pa.RecordBatch, name: str) -> str:
    place = next(place for place, value in enumerate(batch.column(name)) if _value_of(value) is _NO_TEXT)
    return row_told({each: _value_of(batch.column(each)[place]) for each in batch.schema.names})


def _value_of(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return _NO_TEXT


class _NoText:
    def __repr__(self) -> str:
        return "(no UTF-8)"


_NO_TEXT = _NoText()
