"""A new user follows the guide: each command of the page is typed, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms_tck.command import Exit
from pyjms_tck.profile import Profile
from pyjms_tck.results import Report
from tests.tidy.source import ROOT

PAGE = ROOT / "docs" / "how-to" / "conformance.md"
TEXT = PAGE.read_text("utf-8")
COMMANDS = re.findall(r"^\$ (.+)$", TEXT, re.MULTILINE)
# A whole run takes minutes on a busy machine: the commands are tried on one section.
SECTION = "3.4.7"


def typed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as the page has it, on messages of its own and on one section."""
    words = shlex.split(command.replace("/tmp/pyjms-messages", f"{folder}/messages?poll_ms=5"))
    if words[:2] == ["pyjms-tck", "run"] and "--select" not in words:
        words += ["--select", SECTION]
    return subprocess.run(
        [str(Path(sys.executable).with_name(words[0])), *words[1:]],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.timeout(1200)  # minutes where others use the machine, too
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    for link in re.findall(r"{download}`[^`]*<([^>]+)>`", TEXT):
        shutil.copy(PAGE.parent / link, tmp_path)
    expected = {command: Exit.CONFORMS for command in COMMANDS if command.startswith(("pyjms-tck", "pytest"))}
    for command in expected:
        if "faulty" in command:
            expected[command] = Exit.FAILED
    outcomes = {command: typed(command, tmp_path) for command in expected}
    told = {command: (outcome.returncode, outcome.stderr) for command, outcome in outcomes.items()}
    assert {command: code for command, (code, _) in told.items()} == expected, told
    report = Report.from_json((tmp_path / "faulty.json").read_text("utf-8"))
    assert "3.4.7-a" in [one.requirement.id for one in report.judgements if one.was_run]
    assert all((tmp_path / name).stat().st_size > 300 for name in ("report.html", "faulty.html", "conformance.xml"))


def test_the_other_commands_of_the_page_only_install_and_copy() -> None:
    others = [command for command in COMMANDS if not command.startswith(("pyjms-tck", "pytest"))]
    assert others == [
        "mkdir judge && cd judge",
        "python3 -m venv .venv",
        ". .venv/bin/activate",
        "pip install 'pyjms-messaging[tck]'",
        "cp ../pyjms/docs/provider-authors/*.py .",
        "pip install 'pyjms-messaging[store]'",
        "cp ../pyjms/docs/conformance/stored_profile.py .",
    ]


def test_the_page_names_each_exit_code() -> None:
    _, _, table = TEXT.partition("| exit code of `run` |")
    assert [int(code) for code in re.findall(r"^\| (\d) \|", table, re.MULTILINE)] == list(Exit)


def test_the_profile_of_the_page_has_what_profiles_have() -> None:
    (block,) = re.findall(r"class OurBroker\(Profile\):\n(.*?)```", TEXT, re.DOTALL)
    names = re.findall(r"^    (?:def )?(\w+)", block, re.MULTILINE)
    assert set(names) <= set(dir(Profile))


def test_the_pictures_are_there() -> None:
    pictures = re.findall(r"\]\((pictures/[^)]+)\)", TEXT)
    assert len(pictures) == 2
    assert all((PAGE.parent / path).read_bytes().startswith(b"\x89PNG") for path in pictures)
