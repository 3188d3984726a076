"""The demo reads any CSV file, and says what to do about one that it cannot use."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pyjms.demo.plan import InputError, Value, read_table, typed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("  ", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-17", -17),
        ("2147483648", 2**31),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", "9223372036854775808"),
        ("1" * 5000, "1" * 5000),
        ("1.5", 1.5),
        ("-2e3", -2000.0),
        ("1e999", "1e999"),
        ("007", "007"),
        ("+49301234", "+49301234"),
        ("nan", "nan"),
        ("٣", "٣"),
        ("NA", "NA"),
        (" Rome ", "Rome"),
    ],
)
def test_the_type_is_found_value_by_value(text: str, value: Value) -> None:
    found = typed(text)
    assert (found, type(found)) == (value, type(value))


def test_a_file_with_a_header_is_read(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text('article,price,\nlamp,25,x\n\n"chair, red",40.5,\n', encoding="utf-8-sig")
    table = read_table(file)
    assert table.name == "orders.csv"
    assert table.columns == ("article", "price", "column_3")
    assert [(record.id, record.values) for record in table.records] == [
        (1, ("lamp", 25, "x")),
        (2, ("chair, red", 40.5, None)),
    ]


def test_other_delimiters_and_compression_are_found_out(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv.gz"
    file.write_bytes(gzip.compress(b"article;price\nlamp;25\n"))
    assert read_table(file).records[0].values == ("lamp", 25)


def test_the_limit_ends_reading(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("article\nlamp\nchair\nbroken,row\n")
    assert len(read_table(file, limit=2).records) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"article,price\n", "no records"),
        (b"article,article\nlamp,chair\n", "article more than once"),
        (b"article,price\nlamp\n", "record 1: 1 fields where the header has 2"),
        (b"article,price\nlamp,1\nchair,2,3\n", "record 2: 3 fields"),
        (b'article\n"lamp\n', "line 2"),
        (b"article\n\xff\xfe\n", "not UTF-8"),
        (b"\x00\x01\n", "NUL"),
        (b"\x1f\x8b\x08 no gzip", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "orders.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        read_table(file)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        read_table(tmp_path / "orders.csv")
    with pytest.raises(InputError, match="folder"):
        read_table(tmp_path)
