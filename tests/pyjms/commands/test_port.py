"""``pyjms port``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.pyjms.demo.command_line import runner

CLEAN = "package shop; class Clean { static int twice(int n) { return n + n; } }"
DOUBTFUL = "class Doubtful {\n    void f(int n) {\n        assert n > 1;\n    }\n}\n"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "Clean.java").write_text(CLEAN, encoding="utf-8")
    (folder / "Doubtful.java").write_text(DOUBTFUL, encoding="utf-8")
    (folder / "package-info.java").write_text("package shop;", encoding="utf-8")
    return folder


def test_files_are_written_below_their_packages(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(monkeypatch, capsys)
    code, out, _ = run("port", str(sources / "shop"), "-o", str(tmp_path / "out"))
    assert code == 0
    assert out.split() == [
        "file",
        "statements",
        "translated",
        "to",
        "look",
        "at",
        str(sources / "shop" / "Clean.java"),
        "1",
        "1",
        "0",
    ]
    assert "def twice(n):" in (tmp_path / "out" / "shop" / "Clean.py").read_text(encoding="utf-8")


def test_what_needs_a_human_is_listed_and_is_the_exit_code(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = runner(monkeypatch, capsys)("port", str(sources), "-o", str(tmp_path / "out"))
    assert code == 1
    assert "not ported" in out
    assert "-ea" in out
    assert (tmp_path / "out" / "Doubtful.py").exists()


def test_check_writes_nothing(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner(monkeypatch, capsys)("port", str(sources), "-o", str(tmp_path / "out"), "--check")[0] == 1
    assert not (tmp_path / "out").exists()


def test_json_has_all_of_it(sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = runner(monkeypatch, capsys)("port", str(sources / "Doubtful.java"), "--check", "--json")
    assert code == 1
    assert json.loads(out) == {
        "statements": 1,
        "translated": 0,
        "files": [
            {
                "java": (sources / "Doubtful.java").as_posix(),
                "python": "Doubtful.py",
                "statements": 1,
                "translated": 0,
                "findings": [
                    {
                        "line": 3,
                        "column": 9,
                        "kind": "not ported",
                        "what": "assert",
                        "advice": "Java looks at it with -ea alone: leave it out, or write an if and a raise",
                    }
                ],
            }
        ],
    }


def test_a_file_that_is_there_is_left_alone(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(monkeypatch, capsys)
    place = tmp_path / "out" / "shop" / "Clean.py"
    place.parent.mkdir(parents=True)
    place.write_text("mine", encoding="utf-8")
    code, _, err = run("port", str(sources), "-o", str(tmp_path / "out"))
    assert code == 2
    assert "is there already" in err
    assert place.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "out" / "Doubtful.py").exists()
    assert run("port", str(sources), "-o", str(tmp_path / "out"), "--force")[0] == 1
    assert "twice" in place.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("empty", None, "there are no .java files"),
        ("Missing.java", None, "No such file"),
        ("Latin.java", b'class Latin { String s = "\xe9"; }', "is no UTF-8"),
    ],
)
def test_what_cannot_be_read_is_told(
    name: str,
    content: bytes | None,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    elif name == "empty":
        (tmp_path / name).mkdir()
    code, _, err = runner(monkeypatch, capsys)("port", str(tmp_path / name), "--check")
    assert code == 2
    assert told in err


def test_two_files_of_one_module_are_two_programs(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (sources / "other").mkdir()
    (sources / "other" / "Doubtful.java").write_text(DOUBTFUL, encoding="utf-8")
    code, _, err = runner(monkeypatch, capsys)("port", str(sources), "--check")
    assert code == 2
    assert "port the programs one by one" in err


def test_without_the_parser_the_extra_is_named(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyjms.porting.program", None)
    code, _, err = runner(monkeypatch, capsys)("port", str(sources), "--check")
    assert code == 2
    assert "pip install 'pyjms-messaging[port]'" in err
