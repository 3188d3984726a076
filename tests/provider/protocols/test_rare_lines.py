"""How many lines of a kind come through."""

from __future__ import annotations

from pyjms_provider.protocols.engine import RareLines


def test_one_line_of_a_kind_comes_through_in_five_seconds_and_tells_of_the_others() -> None:
    lines = RareLines()
    assert lines.missed("a", 0) == ""
    assert [lines.missed("a", at) for at in (1, 4_999)] == [None, None]
    assert lines.missed("b", 4_999) == ""
    assert lines.missed("a", 5_000) == " (and 2 more since the last such line)"
    assert lines.missed("a", 9_999) is None
    assert lines.missed("a", 60_000) == " (and 1 more since the last such line)"
    assert lines.missed("a", 120_000) == ""
