"""The PostgreSQL server of the tests ends with the process that has started it, however that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

PATIENCE_S = 30
_STARTING = """
from tests.provider.postgresql import PostgresqlServer
print(PostgresqlServer().directory, flush=True)
input()
"""


@pytest.mark.requires("postgresql")
def test_it_ends_with_a_process_that_is_killed() -> None:
    """Each run that was broken off left one behind."""
    with subprocess.Popen(
        [sys.executable, "-c", _STARTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        main = int((directory / "data" / "postmaster.pid").read_text().split()[0])
        process.kill()
    pause = Event()
    for _ in range(PATIENCE_S * 100):
        if not directory.exists() and not _runs(main):
            return
        pause.wait(0.01)
    raise AssertionError(f"process {main} runs, or {directory} is there")


def _runs(process: int) -> bool:
    """Return whether it does, and has not merely been left unburied."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
