"""The table maker and the plugin that feeds it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.traceability.plugin import ITEMS_FILE
from tests.traceability.table import Citation, Item, ItemsError, load_items, make_rows, missing, render, unknown_ids

if TYPE_CHECKING:
    from pathlib import Path


def item(item_id: str, belongs_to: str | None = None) -> Item:
    why = "There is no disk." if belongs_to else None
    return Item(id=item_id, statement=f"What {item_id} asks.", belongs_to=belongs_to, why=why, left_open=False)


def cite(item_id: str, test: str, outcome: str = "passed") -> Citation:
    return Citation(item_id=item_id, test=test, outcome=outcome)


ITEMS = {"A-1": item("A-1"), "A-2": item("A-2"), "B-1": item("B-1", "durability")}


def test_an_item_is_realised_by_a_test_that_passes() -> None:
    rows = make_rows(ITEMS, [cite("A-1", "t.py::one"), cite("A-1", "t.py::two")])
    assert [row.verdict for row in rows] == ["realised", "NOT REALISED", "durability"]
    assert rows[0].outcomes == (("t.py::one", "passed"), ("t.py::two", "passed"))
    assert [row.item.id for row in missing(rows)] == ["A-2"]


@pytest.mark.parametrize("outcomes", [("passed", "failed"), ("failed", "passed"), ("failed", "failed")])
def test_one_failed_case_fails_the_test(outcomes: tuple[str, str]) -> None:
    rows = make_rows(ITEMS, [cite("A-1", "t.py::one", outcome) for outcome in outcomes])
    assert rows[0].verdict == "FAILED"
    assert rows[0] in missing(rows)


def test_one_failed_test_is_not_outvoted() -> None:
    rows = make_rows(ITEMS, [cite("A-1", "t.py::one"), cite("A-1", "t.py::two", "failed")])
    assert not rows[0].is_realised


def test_a_test_that_was_not_run_realises_nothing() -> None:
    assert not make_rows(ITEMS, [cite("A-1", "t.py::one", "skipped")])[0].is_realised


def test_an_excused_item_may_be_realised_but_not_fail() -> None:
    assert make_rows(ITEMS, [cite("B-1", "t.py::one")])[2].verdict == "realised"
    failed = make_rows(ITEMS, [cite("B-1", "t.py::one", "failed")])
    assert failed[2] in missing(failed)


def test_unknown_ids_are_found() -> None:
    assert unknown_ids(ITEMS, ["A-1", "C-2", "C-1", "C-2"]) == ["C-1", "C-2"]


def test_the_report_shows_tests_excuses_and_sums() -> None:
    lines = render(make_rows(ITEMS, [cite("A-1", "t.py::one"), cite("A-1", "t.py::two", "failed")]))
    text = "\n".join(lines)
    assert "A-1           FAILED        t.py::one" in text
    assert "t.py::two (failed)" in text
    assert "B-1           durability: What B-1 asks. There is no disk." in text
    assert "A-2           NOT REALISED: What A-2 asks." in text
    assert lines[-1] == "3 items: 0 realised, 1 belong elsewhere, 2 not realised"


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (['id = "A"', 'statement = "a"', "[[item]]", 'id = "A"', 'statement = "b"'], "twice"),
        (['id = "A"', 'statement = "a"', 'belongs_to = "network"'], "go together"),
        (['id = "A"', 'statement = "a"', 'why = "so"'], "go together"),
        (['id = "A"', 'statement = "a"', 'belongs_to = "laziness"', 'why = "so"'], "none of"),
    ],
)
def test_contradictions_in_the_items_are_refused(tmp_path: Path, lines: list[str], complaint: str) -> None:
    path = tmp_path / "items.toml"
    path.write_text("\n".join(["[[item]]", *lines]), encoding="utf-8")
    with pytest.raises(ItemsError, match=complaint):
        load_items(path)


def test_the_items_of_this_project() -> None:
    items = load_items(ITEMS_FILE)
    by_seed = Counter(item_id.split("-")[0] for item_id in items)
    assert by_seed.keys() == {"JBM", "QCM", "BOIL", "MOM", "BJ"}
    assert (by_seed["JBM"], by_seed["QCM"], by_seed["BOIL"]) == (110, 40, 155)  # all that there are
    assert all(entry.statement for entry in items.values())


PYTEST_FILE = """
import pytest

pytestmark = pytest.mark.realises("QCM-1")

@pytest.mark.realises("JBM-2.a", "JBM-2.b")
class TestMarked:
    @pytest.mark.parametrize("n", [1, 2])
    def test_cases(self, n): pass

    @pytest.mark.realises("JBM-2.c")
    def test_fails(self): assert {passes}
"""


@pytest.fixture
def marked_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ITEMS_FILE.parents[2]))
    monkeypatch.setenv(
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"
    )  # the plugin stands on its own, and others take seconds to load
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist")
    pytester.makeconftest('pytest_plugins = ["tests.traceability.plugin"]')
    return pytester


@pytest.mark.parametrize("workers", ["0", "1"])
def test_markers_are_gathered_also_from_workers(marked_tests: pytest.Pytester, workers: str) -> None:
    marked_tests.makepyfile(test_marked=PYTEST_FILE.format(passes=False))
    result = marked_tests.runpytest_subprocess("--traceability", "-n", workers)
    result.stdout.re_match_lines(
        [
            r"JBM-2\.a +FAILED +test_marked\.py::TestMarked::test_cases$",
            r" +test_marked\.py::TestMarked::test_fails \(failed\)$",
            r"JBM-2\.c +FAILED +test_marked\.py::TestMarked::test_fails \(failed\)$",
            r"QCM-1 +FAILED ",
            r"\d+ items: 0 realised, \d+ belong elsewhere, \d+ not realised$",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_an_unrealised_item_fails_the_run_only_when_asked(marked_tests: pytest.Pytester) -> None:
    marked_tests.makepyfile(test_marked=PYTEST_FILE.format(passes=True))
    assert marked_tests.runpytest_inprocess().ret == pytest.ExitCode.OK
    assert marked_tests.runpytest_inprocess("--traceability").ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("marker", ['realises("JBM-99")', "realises()", "realises", 'realises(id="JBM-2.a")'])
def test_a_bad_marker_stops_every_run(marked_tests: pytest.Pytester, marker: str) -> None:
    marked_tests.makepyfile(test_marked=f"import pytest\n@pytest.mark.{marker}\ndef test_one(): pass")
    result = marked_tests.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.re_match_lines([r"ERROR: test_marked.py::test_one(: `realises` takes| cites JBM-99: not in) "])


def test_each_declined_item_says_why() -> None:
    declined = {name: each for name, each in load_items(ITEMS_FILE).items() if each.belongs_to == "declined"}
    assert all(len((each.why or "").split()) >= 8 for each in declined.values())
    assert declined.keys() == {"BJ-TCP-7", "BJ-ST-3"}


def test_a_reason_that_says_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.toml"
    path.write_text('[[item]]\nid = "A-1"\nstatement = "x"\nbelongs_to = "declined"\nwhy = " "\n', encoding="utf-8")
    with pytest.raises(ItemsError, match="says nothing"):
        load_items(path)
