"""Reading the file: a CSV with a header row becomes records of typed values.

The type is found value by value: empty is None; true and false are bools; whole numbers that fit 64 bits are ints;
other decimal numbers are floats; all else is text. A number with a leading zero or plus sign stays text, because
postcodes and telephone numbers are written so.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

__all__ = ["InputError", "Record", "Table", "Value", "read_table", "typed"]

Value: TypeAlias = bool | int | float | str | None

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_DELIMITERS = ",;\t|"
_GZIP = b"\x1f\x8b"


class InputError(Exception):
    """The file cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One row. `id` is its number in the file, from 1; `values` are in the order of the table's columns."""

    id: int
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All that was read."""

    name: str
    columns: tuple[str, ...]
    records: tuple[Record, ...]


def typed(text: str) -> Value:
    """Return the value that `text` stands for."""
    text = text.strip()
    if not text:
        return None
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if _INTEGER.fullmatch(text):
        number = int(text) if len(text) < 21 else 2**64
        return number if -(2**63) <= number < 2**63 else text
    if _DECIMAL.fullmatch(text):
        decimal = float(text)
        return decimal if math.isfinite(decimal) else text
    return text


def read_table(path: Path, limit: int | None = None) -> Table:
    """Read the first `limit` records of a CSV file, or all; it may be compressed with gzip.

    Raises:
        InputError: There is no such file, or it is not a CSV file with a header and records.
    """
    text = io.StringIO(_text(path), newline="")
    rows = csv.reader(text, delimiter=_delimiter(text), strict=True)
    try:
        columns = _columns(path, next(rows, []))
        records = tuple(_records(path, rows, len(columns), limit))
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: {error}. Is it a CSV file?") from error
    if not records:
        raise InputError(f"{path} has a header and no records: there is nothing to send.")
    return Table(name=path.name, columns=columns, records=records)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        text = data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}.") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; name a CSV file in it.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}). Save it as CSV in UTF-8.") from error
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    if "\0" in text:
        raise InputError(f"{path} holds NUL characters: it is not a CSV file. Save it as CSV in UTF-8.")
    return text


def _delimiter(text: io.StringIO) -> str:
    """Return the delimiter that is most frequent in the first line."""
    header = text.readline()
    text.seek(0)
    return max(_DELIMITERS, key=header.count)


def _columns(path: Path, header: list[str]) -> tuple[str, ...]:
    columns = tuple(name.strip() or f"column_{number}" for number, name in enumerate(header, 1))
    if not columns:
        raise InputError(f"{path} is empty: it needs a header row with the names of the columns, then records.")
    if doubled := sorted({name for name in columns if columns.count(name) > 1}):
        raise InputError(f"{path}: the header has {', '.join(doubled)} more than once; give each column its own name.")
    return columns


def _records(path: Path, rows: Iterator[list[str]], width: int, limit: int | None) -> Iterator[Record]:
    number = 0
    for row in rows:
        if not row:
            continue
        if limit is not None and number >= limit:
            return
        number += 1
        if len(row) != width:
            raise InputError(
                f"{path}, record {number}: {len(row)} fields where the header has {width} columns. "
                "A field that holds the delimiter needs quotation marks around it."
            )
        yield Record(id=number, values=tuple(typed(field) for field in row))
