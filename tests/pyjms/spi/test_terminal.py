"""What commands write, to people and to programs."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pyjms.spi.terminal import complain, escaped, listing, note, printable, put_json, results

_TEXTS = st.text(
    st.sampled_from(["\x1b", "\x9b", "\x7f", "\x07", "\r", "\u202e", "[", "/", "]", "\\", "a"]), max_size=12
)


@given(_TEXTS)
def test_no_character_of_a_text_steers_a_terminal(text: str) -> None:
    shown = printable(text)
    assert all(each.isprintable() for each in shown)
    assert printable(shown) == shown


def test_lines_and_tabs_stay_and_other_scripts_too() -> None:
    assert printable("Straße\t中\n🍵") == "Straße\t中\n🍵"


@given(_TEXTS.filter(lambda text: "\\" not in text))
def test_no_bracket_of_a_text_is_markup(text: str) -> None:
    output = io.StringIO()
    Console(file=output, width=1000, emoji=False).print(f"[bold]{escaped(text)}[/].", soft_wrap=True)
    assert output.getvalue() == f"{printable(text)}.\n"


def test_notes_and_complaints_are_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    note("[a] \x1b \\[b] \\", style="red")
    complain("pyjms send", "[/b] \x9b")
    assert capsys.readouterr() == ("", "[a] \\x1b \\[b] \\\npyjms send: [/b] \\x9b\n")


def test_a_name_between_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    note("queue:key:x")
    complain("pyjms send", "queue:key:x")
    assert capsys.readouterr().err == "queue:key:x\npyjms send: queue:key:x\n"


@pytest.mark.parametrize("is_line", [True, False])
def test_json_is_whole_and_steers_no_terminal(capsys: pytest.CaptureFixture[str], is_line: bool) -> None:
    value = {"name": "ü\x1b[2J\x9b\x7f\n", "list": [1]}
    put_json(value, is_line=is_line)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert out.count("\n") == 1 or not is_line
    assert not {"\x1b", "\x9b", "\x7f"} & set(out)
    assert "ü" in out


def _listed(width: int, *, whole: frozenset[str] = frozenset()) -> str:
    output = io.StringIO()
    table = listing("address", "state of it", whole=whole)
    table.add_row("default/default/orders.failed", "active")
    Console(file=output, width=width).print(table)
    return output.getvalue()


@pytest.mark.parametrize("width", [12, 20, 60])
def test_nothing_of_a_listing_is_cut_off(width: int) -> None:
    shown = _listed(width)
    assert "…" not in shown
    assert set("default/default/orders.failed") <= set(shown)
    assert sum(map(shown.count, "/.")) == 3


def test_a_column_that_is_whole_leaves_the_others_less_room() -> None:
    assert "default/default/orders.failed" in _listed(36, whole=frozenset({"address"}))


def test_in_a_pipe_a_row_stays_on_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who looks for a name by `grep` finds it: it was cut off after 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
    table = listing("address", "why")
    table.add_row("default/default/" + 50 * "long", "because " * 20)
    table.add_row("short", "")
    results().print(table)
    results().print("as it is  ", soft_wrap=True)
    head, whole, short, text = capsys.readouterr().out.splitlines()
    assert (head.split(), len(whole) > 300, short, text) == (["address", "why"], True, "short", "as it is  ")
    monkeypatch.setenv("COLUMNS", "80")
    results().print(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
