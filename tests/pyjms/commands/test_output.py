"""What commands do when their results can be written no longer: one line that says so, and an exit code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.provider.commands.served import PATIENCE_S, PYJMS, environment

COMMANDS = (
    ("--version",),
    ("--help",),
    ("send", "vm://output", "orders", "one"),
    ("stats", "vm://output"),
    ("stats", "vm://output", "--json"),
    ("broker", "tree"),
    ("broker", "tree", "port"),
)


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def unbuffered(request: pytest.FixtureRequest) -> str:
    """What PYTHONUNBUFFERED says: with it an error comes at the write, else at the end."""
    return str(request.param)


def _run(*arguments: str, stdout: int, unbuffered: str) -> tuple[int, str]:
    ended = subprocess.run(
        [*PYJMS, *arguments],
        env=environment(PYTHONUNBUFFERED=unbuffered),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_disk_that_is_full_is_told_in_one_line(command: tuple[str, ...], unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        code, err = _run(*command, stdout=full.fileno(), unbuffered=unbuffered)
    told = [line for line in err.splitlines() if line.startswith("pyjms:")]
    assert told == [
        "pyjms: the result could not be written: No space left on device; make room there, or have it go elsewhere"
    ]
    assert (code, "Traceback" in err, "Exception ignored" in err) == (1, False, False)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_has_seen_enough_is_not_told(command: tuple[str, ...], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code, err = _run(*command, stdout=writer, unbuffered=unbuffered)
    finally:
        os.close(writer)
    assert (code, err) == (1, "")
