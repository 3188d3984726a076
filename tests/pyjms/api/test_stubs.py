"""The stubs are up to date, show both names to mypy, and hide no error in the modules that they stand for."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms.api.names import JavaNames
from tools import make_stubs

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = Path(__file__).with_name("typing_sample.py")
_IGNORE = re.compile(r"  # type: ignore\[(?P<codes>[^]]*)\]$", re.MULTILINE)
_ERROR = re.compile(r":(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$", re.MULTILINE)

MODULES = pytest.mark.parametrize("source", make_stubs.SOURCES)


def _mypy(*arguments: str | Path, folder: Path = ROOT) -> tuple[int, str]:
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_stubs_are_up_to_date() -> None:
    for source in make_stubs.SOURCES:
        stub = (ROOT / source).with_suffix(".pyi").read_text(encoding="utf-8")
        assert stub == make_stubs.stub(source, (ROOT / source).read_text(encoding="utf-8")), "run tools/make_stubs.py"


def test_a_stale_stub_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thing.py").write_text("class Thing(JavaNames, declares=True):\n    def do_it(self) -> int: ...\n")
    monkeypatch.setattr(make_stubs, "ROOT", tmp_path)
    monkeypatch.setattr(make_stubs, "SOURCES", ("thing.py",))
    monkeypatch.setattr(sys, "argv", ["make_stubs.py", "--check"])
    assert make_stubs.main() == 1
    assert "thing.pyi is not up to date" in capsys.readouterr().out
    assert not (tmp_path / "thing.pyi").exists()
    monkeypatch.setattr(sys, "argv", ["make_stubs.py"])
    assert make_stubs.main() == 0
    assert "def doIt(self) -> int: ..." in (tmp_path / "thing.pyi").read_text()
    monkeypatch.setattr(sys, "argv", ["make_stubs.py", "--check"])
    assert make_stubs.main() == 0


@MODULES
def test_a_stub_shows_exactly_the_names_that_the_classes_have(source: str) -> None:
    module = importlib.import_module(source.removesuffix(".py").replace("/", "."))
    tree = ast.parse((ROOT / source).with_suffix(".pyi").read_text(encoding="utf-8"))
    for definition in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        found = getattr(module, definition.name)
        shown = {node.name for node in definition.body if isinstance(node, ast.FunctionDef)}
        inherited = {name for base in found.__mro__[1:] if base is not JavaNames for name in vars(base)}
        functions = {
            name for name, value in vars(found).items() if isinstance(value, property) or inspect.isfunction(value)
        }
        assert {name for name in shown if not name.startswith("_")} <= functions
        assert {name for name in functions if not name.startswith("_")} <= shown | inherited


def test_every_module_that_declares_members_has_a_stub() -> None:
    declaring = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "pyjms").rglob("*.py")
        if re.search(r"^class .*declares=True", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    needless = {"pyjms/runtime/requestor.py"}  # its methods have the same name in both languages
    assert declaring - needless <= set(make_stubs.SOURCES)


@pytest.mark.timeout(300)
def test_mypy_sees_both_names_and_finds_the_deliberate_errors(tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    expected = {
        (text.count("\n", 0, match.start()) + 1, code.strip())
        for match in _IGNORE.finditer(text)
        for code in match["codes"].split(",")
    }
    plain = tmp_path / "plain_sample.py"
    plain.write_text(_IGNORE.sub("", text), encoding="utf-8")
    code, output = _mypy("--cache-dir", tmp_path / "cache", SAMPLE)
    assert code == 0, output
    code, output = _mypy("--cache-dir", tmp_path / "cache", plain)
    assert code == 1, output
    assert {(int(match["line"]), match["code"]) for match in _ERROR.finditer(output)} == expected


@pytest.mark.timeout(300)
def test_mypy_finds_no_error_in_the_modules_behind_the_stubs(tmp_path: Path) -> None:
    copied = tmp_path / "pyjms"
    shutil.copytree(ROOT / "pyjms" / "api", copied / "api", ignore=shutil.ignore_patterns("*.pyi", "__pycache__"))
    for name in ("errors.py", "types.py"):
        shutil.copy(ROOT / "pyjms" / name, copied / name)
    (copied / "__init__.py").touch()
    code, output = _mypy("--cache-dir", tmp_path / "cache", "pyjms", folder=tmp_path)
    assert code == 0, output
