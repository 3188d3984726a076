"""What tests need from outside Python: how they are left out, what is said of it, and that none of them can hide it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.needs import plugin, table
from tests.needs.__main__ import add
from tests.needs.table import NEEDS, is_there, packages_of

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest
from tests.needs.declaring import needing, use

@pytest.fixture
def activemq(): return "a broker"

@pytest.fixture
def postgresql(): return "a server"

@pytest.fixture(params=["sqlite", needing("postgresql")])
def store(request): return request.param if request.param == "sqlite" else request.getfixturevalue(request.param)

def test_plain(): pass
def test_by_fixture(activemq): pass
def test_by_value(store): pass

@pytest.mark.requires("java", "browser")
def test_by_marker(): use("java")
"""
UNDECLARED = """
import pytest
from tests.needs.declaring import use

@pytest.fixture
def activemq(): return "a broker"

@pytest.mark.parametrize("kind", ["activemq"])
def test_a_fixture_by_its_name(request, kind): request.getfixturevalue(kind)

def test_a_helper(): use("browser")
"""
INI = "[pytest]\nmarkers = requires(*names): needs"


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    pytester.makeini(INI)
    return pytester.runpytest_inprocess(
        "-p", "tests.needs.plugin", "-p", "no:randomly", "-p", "no:cacheprovider", *options
    )


@pytest.fixture
def nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "is_there", lambda name: False)
    monkeypatch.delenv("CI", raising=False)


@pytest.mark.usefixtures("nothing_there")
def test_what_cannot_run_is_left_out_and_the_last_lines_name_the_commands(pytester: pytest.Pytester) -> None:
    result = run(pytester, TESTS)
    result.assert_outcomes(passed=2, deselected=3)
    *_, first, brokers, browser, java, postgresql, every, summary = result.outlines
    assert first == "Left out: 3 tests, for want of what this machine lacks. On Debian and Ubuntu:"
    assert brokers.split(maxsplit=2) == ["make", "brokers", "adds ActiveMQ Classic, RabbitMQ, for 1 test"]
    assert browser.split(maxsplit=2) == ["make", "browser", "adds Chromium and its driver, for 1 test"]
    assert java.split(maxsplit=2) == ["make", "java", "adds Java 17 or newer, for 1 test"]
    assert postgresql.split(maxsplit=2) == ["make", "postgresql", "adds PostgreSQL's server, for 1 test"]
    assert every.split(maxsplit=2) == ["make", "needs", "adds all of it"]
    assert "2 passed, 3 deselected" in summary


@pytest.mark.usefixtures("nothing_there")
def test_what_needs_something_can_be_chosen(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "is_there", lambda name: True)
    result = run(pytester, TESTS, "-m", "requires")
    result.assert_outcomes(passed=3, deselected=2)
    result.stdout.no_fnmatch_line("Left out*")


@pytest.mark.usefixtures("nothing_there")
def test_in_ci_what_is_missing_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = run(pytester, TESTS)
    result.assert_outcomes(passed=2, errors=3)
    result.stdout.fnmatch_lines(
        "it needs PostgreSQL's server, which is not on this machine; `make postgresql` adds it*"
    )


def test_what_is_used_and_not_declared_fails_on_every_machine(pytester: pytest.Pytester) -> None:
    result = run(pytester, UNDECLARED)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        '*it uses ActiveMQ Classic and does not say so: mark it with pytest.mark.requires("activemq")*'
    )
    result.stdout.fnmatch_lines("*it uses Chromium and its driver and does not say so*")


def test_a_need_that_is_not_in_the_table_stops_the_run(pytester: pytest.Pytester) -> None:
    result = run(pytester, "import pytest\n@pytest.mark.requires('jvaa')\ndef test(): pass")
    result.stderr.fnmatch_lines("*needs jvaa: not in tests/needs/table.py")


def test_workers_tell_what_they_have_left_out_on_a_machine_with_python_and_make_only(tmp_path: Path) -> None:
    """The programs that this machine may have are not found: there is none on the PATH, or below the packages' root."""
    (tmp_path / "test_sample.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(INI)
    command = [sys.executable, "-m", "pytest", "-p", "tests.needs.plugin", "-n", "2", "-q", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.needs", "without", *command, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CI": "true", "JAVA_HOME": "/nowhere"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, first, _brokers, _browser, _java, _postgresql, _every, summary = done.stdout.splitlines()
    assert (first.partition(",")[0], "2 passed" in summary) == ("Left out: 3 tests", True), done.stdout


@pytest.mark.parametrize("name", NEEDS)
def test_without_programs_nothing_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYJMS_TESTS_PACKAGES", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    is_there.cache_clear()
    try:
        assert not is_there(name)
    finally:
        is_there.cache_clear()


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [
        ('openjdk version "17.0.9" 2023-10-17', True),
        ('java version "1.8.0_391"', False),
        ('openjdk version "25"', True),
    ],
)
def test_an_old_java_will_not_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, is_enough: bool
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert bool(table.java()) is is_enough


def test_make_has_a_target_for_each() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (line,) = (line for line in makefile.splitlines() if line.startswith("java ") and line.endswith(": $(VENV)/.made"))
    assert set(line.partition(":")[0].split()) == {need.target for need in NEEDS.values()}


def test_what_is_included_is_installed_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYJMS_TESTS_PACKAGES", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert packages_of([NEEDS["activemq"]]) == ["activemq", "default-jre-headless"]
    is_there.cache_clear()
    try:
        assert add(["brokers"]) == (
            "This adds packages of Debian and Ubuntu, as root or with sudo. Install by hand: ActiveMQ Classic; RabbitMQ"
        )
    finally:
        is_there.cache_clear()


def test_one_target_needs_no_word_on_all() -> None:
    assert len(plugin.left_out_lines(Counter({"": 2, "java": 2}))) == 2
    assert plugin.left_out_lines(Counter()) == []
