"""One broker for all processes of a test session; see `tests.brokers.keeper`."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[2]


@contextmanager
def shared_broker(kind: str, directory: Path) -> Iterator[dict[str, int]]:
    """Use the broker of `kind` in `directory`, which the first process starts; give its ports."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "users").open("a") as users, (directory / "starting").open("a") as starting:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(starting, fcntl.LOCK_EX)
        keeper = None
        try:
            if not (directory / "address").exists():
                keeper = _start_keeper(kind, directory)
        finally:
            fcntl.flock(starting, fcntl.LOCK_UN)
        ports: dict[str, int] = json.loads((directory / "address").read_text())
        try:
            yield ports
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)
            if keeper is not None:
                keeper.wait()


def _start_keeper(kind: str, directory: Path) -> subprocess.Popen[str]:
    with (directory / "keeper.log").open("a") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.brokers.keeper", kind, str(directory)],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # a Ctrl-C ends the tests, and with them the keeper in its own time
        )
    assert keeper.stdout is not None
    with keeper.stdout as output:
        if output.readline().strip() != "ready":
            keeper.wait()
            raise RuntimeError(f"{kind} did not start:\n{(directory / 'keeper.log').read_text()}")
    return keeper
