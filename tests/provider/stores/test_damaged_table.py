"""Reading a table of SQLite some of whose pages are damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms_provider.stores.sql.salvage import DamagedTable

PAGE = 4096
ROWS = 400
LEAF = 13
"""The first byte of a leaf of a table with rowids."""


def text_of(number: int) -> str:
    return f"<{number}>" + "x" * 500


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 400 rows with even keys, seven or eight of them in each leaf."""
    path = tmp_path_factory.mktemp("damaged") / "whole.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE row (number INTEGER PRIMARY KEY, text TEXT)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO row VALUES (?, ?)", [(2 * each, text_of(each)) for each in range(ROWS)])
        connection.execute("COMMIT")
    return path


def leaves(whole: bytes) -> dict[int, set[int]]:
    """Return which rows are in which page."""
    found: dict[int, set[int]] = {}
    for number in range(ROWS):
        page = whole.index(f"<{number}>".encode()) // PAGE
        assert whole[page * PAGE] == LEAF
        found.setdefault(page, set()).add(number)
    return found


def read(path: Path) -> tuple[DamagedTable, list[int]]:
    rows: list[Sequence[Any]] = []
    with closing(sqlite3.connect(path)) as connection:
        reader = DamagedTable(connection, "row", "number", ["number", "text"], rows.append, is_unique=True)
        reader.read()
    assert all(text == text_of(key // 2) for key, text in rows)
    return reader, [key // 2 for key, _ in rows]


def damaged(table: Path, pages: Sequence[int]) -> Path:
    whole = bytearray(table.read_bytes())
    for page in pages:
        whole[page * PAGE : (page + 1) * PAGE] = b"\xff" * PAGE
    path = table.with_name("damaged.db")
    path.write_bytes(whole)
    return path


def test_a_whole_table_is_read_once(table: Path) -> None:
    reader, numbers = read(table)
    assert numbers == list(range(ROWS))
    assert (reader.is_whole, reader.unread, reader.lacks_ends) == (True, 0, False)


@settings(max_examples=40)
@given(st.data())
def test_between_its_ends_all_is_read_that_is_on_whole_pages(table: Path, data: st.DataObject) -> None:
    by_page = leaves(table.read_bytes())
    inner = sorted(by_page, key=lambda page: min(by_page[page]))[1:-1]
    pages = data.draw(st.lists(st.sampled_from(inner), unique=True, min_size=1))
    reader, numbers = read(damaged(table, pages))
    lost = set().union(*(by_page[page] for page in pages))
    assert set(numbers) == set(range(ROWS)) - lost
    assert not reader.is_whole
    assert not reader.lacks_ends
    assert reader.unread >= len(lost)
    assert reader.unread < 2 * len(lost) + 2 * len(pages), "only every other key is used, and each gap ends at rows"


@settings(max_examples=15)
@given(st.data())
def test_where_an_end_is_damaged_what_can_be_reached_is_read_and_the_loss_is_told(
    table: Path, data: st.DataObject
) -> None:
    by_page = leaves(table.read_bytes())
    in_order = sorted(by_page, key=lambda page: min(by_page[page]))
    ends = data.draw(st.sampled_from([in_order[:1], in_order[-1:], in_order[:1] + in_order[-1:], in_order[:9]]))
    others = data.draw(st.lists(st.sampled_from(in_order), max_size=2))
    reader, numbers = read(damaged(table, [*ends, *others]))
    lost = set().union(*(by_page[page] for page in [*ends, *others]))
    assert set(numbers) == set(range(ROWS)) - lost
    assert reader.lacks_ends


def test_with_its_root_all_is_lost_and_nothing_is_waited_for(table: Path) -> None:
    with closing(sqlite3.connect(table)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'row'")
    reader, numbers = read(damaged(table, [root - 1]))
    assert (numbers, reader.is_whole, reader.lacks_ends) == ([], False, True)


def test_of_keys_that_are_not_unique_all_rows_are_found(tmp_path: Path) -> None:
    path = tmp_path / "entries.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE row (number INTEGER, text TEXT, PRIMARY KEY (number, text)) WITHOUT ROWID")
        connection.execute("BEGIN")
        entries = [(number, text_of(each)) for number in range(8) for each in range(60)]
        connection.executemany("INSERT INTO row VALUES (?, ?)", entries)
        connection.execute("COMMIT")
    whole = path.read_bytes()
    middle = sorted(set(entries))[200]
    page = whole.index(middle[1].split(">")[0].encode() + b">", len(whole) // 3) // PAGE
    content = whole[page * PAGE : (page + 1) * PAGE]
    on_page = content.count(b"x" * 500)
    path.write_bytes(whole[: page * PAGE] + b"\xff" * PAGE + whole[(page + 1) * PAGE :])
    rows: list[Sequence[Any]] = []
    with closing(sqlite3.connect(path)) as connection:
        reader = DamagedTable(connection, "row", "number", ["number", "text"], rows.append, is_unique=False)
        reader.read()
    assert on_page > 0
    assert len({tuple(row) for row in rows}) == len(entries) - on_page
    assert {tuple(row) for row in rows} <= set(entries)


def test_a_key_that_became_null_is_passed_over(tmp_path: Path) -> None:
    """SQLite returns such a row, which nobody can ask for."""
    path = tmp_path / "entries.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE row (number INTEGER, other INTEGER, PRIMARY KEY (number, other)) WITHOUT ROWID"
        )
        connection.executemany("INSERT INTO row VALUES (?, 5)", [(1000 + number,) for number in range(100)])
    whole = path.read_bytes()
    record = b"\x03\x02\x01" + (1050).to_bytes(2, "big") + b"\x05"  # its header: a key of two bytes, one of one
    assert whole.count(record) == 1
    path.write_bytes(whole.replace(record, b"\x03\x00\x01" + record[3:]))
    rows: list[Sequence[Any]] = []
    with closing(sqlite3.connect(path)) as connection:
        reader = DamagedTable(connection, "row", "number", ["number", "other"], rows.append, is_unique=False)
        reader.read()
    assert {row[0] for row in rows} >= {1000 + number for number in range(100) if number != 50}


def test_what_is_no_damage_is_told(table: Path) -> None:
    with (
        closing(sqlite3.connect(table)) as connection,
        pytest.raises(sqlite3.OperationalError, match="no such table"),
    ):
        DamagedTable(connection, "other", "number", ["text"], print, is_unique=True).read()


class Astray(sqlite3.Connection):
    """Finds the row before the one that was asked for, as SQLite does where pages of the tree are cut off; then the damage."""

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        low, high = parameters
        if low <= 6 and "OFFSET" not in statement and "DESC" not in statement:
            yield from super().execute(statement, (low, min(high, 6)))
        elif "OFFSET" not in statement and "DESC" not in statement:
            yield from super().execute(statement, (6, 6))
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


@pytest.mark.timeout(30)
def test_rows_that_were_not_asked_for_do_not_lead_back_for_ever(table: Path) -> None:
    rows: list[Sequence[Any]] = []
    with closing(sqlite3.connect(table, factory=Astray)) as connection:
        reader = DamagedTable(connection, "row", "number", ["number", "text"], rows.append, is_unique=True)
        reader.read()
    assert {key for key, _ in rows} == {0, 2, 4, 6}
    assert reader.lacks_ends
