"""The name of a transaction branch."""

from __future__ import annotations

import pytest

from pyjms.spi.xid import Xid


def test_two_with_the_same_parts_are_one_branch() -> None:
    assert Xid(1, b"g", b"b") == Xid(1, b"g", b"b")
    assert len({Xid(1, b"g", b"b"), Xid(1, b"g", b"b"), Xid(2, b"g", b"b"), Xid(1, b"b", b"g")}) == 3


@pytest.mark.parametrize("parts", [(b"", b""), (b"g" * 64, b"b" * 64)])
def test_parts_have_up_to_64_bytes(parts: tuple[bytes, bytes]) -> None:
    assert Xid(-1, *parts).branch_qualifier == parts[1]


@pytest.mark.parametrize("parts", [(b"g" * 65, b""), (b"", b"b" * 65)])
def test_longer_parts_are_refused(parts: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="64"):
        Xid(0, *parts)


@pytest.mark.parametrize("format_id", [2**63, -(2**63) - 1])
def test_a_format_that_no_store_can_hold_is_refused(format_id: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        Xid(format_id, b"g", b"b")


def test_a_xid_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Xid(1, b"", b"").format_id = 2  # type: ignore[misc]


def test_operators_read_and_write_it_as_text() -> None:
    xid = Xid(17, b"global", b"\x00\xff")
    assert str(xid) == "17:676c6f62616c:00ff"
    assert Xid.parse(str(xid)) == xid


@pytest.mark.parametrize("text", ["", "17", "17:zz:00", "x:00:00", "1:00:00:00", "1:" + "00" * 65 + ":"])
def test_other_texts_are_no_branches(text: str) -> None:
    with pytest.raises(ValueError, match="FORMAT:GLOBAL:BRANCH"):
        Xid.parse(text)
