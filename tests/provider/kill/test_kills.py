"""Kill a process that works with a durable broker, again and again; then judge all that its clients were told.

``PYJMS_KILLS=200`` says how often; the default is 20 for each store. Half of the deaths come at random moments, half
before or after a certain write of the journal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event

import pytest

from pyjms.history import record

KILLS = int(os.environ.get("PYJMS_KILLS", "20"))
PATIENCE_S = 120
ROOT = Path(__file__).parents[3]


class Site:
    """A store, a directory of histories, and the processes that work there one after the other."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory
        self.kills = 0

    def kill_at_random(self, seed: int, after_s: float) -> None:
        """Let a process work so long, and kill it."""
        worker = self._start("work", str(seed))
        try:
            self._await_word(worker)
            Event().wait(after_s)  # the moment of death is what is random here
        finally:
            worker.kill()
            self._bury(worker)

    def kill_at(self, seed: int, point: str, passing: int) -> None:
        """Let a process work until it kills itself at a write of its journal."""
        worker = self._start("work", str(seed), f"{point}:{passing}")
        try:
            worker.wait(PATIENCE_S)
        finally:
            worker.kill()
            self._bury(worker)

    def drain(self) -> None:
        """Take all that is left."""
        drainer = self._start("drain")
        try:
            output, errors = drainer.communicate(timeout=PATIENCE_S)
        finally:
            drainer.kill()
        assert "drained" in output, errors

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        what, *rest = arguments
        command = [sys.executable, "-m", "tests.provider.kill.worker", what, self.url, str(self.directory), *rest]
        return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _await_word(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        word = worker.stdout.readline()
        if word.strip() != "working":
            assert worker.stderr is not None
            pytest.fail(f"the worker did not start: {worker.stderr.read()}")

    def _bury(self, worker: subprocess.Popen[str]) -> None:
        _, errors = worker.communicate(timeout=PATIENCE_S)
        assert worker.returncode == -9, f"it ended by itself with {worker.returncode}: {errors}"
        self.kills += 1
        with record(self.directory, run="kill", synchronous=True) as recording:
            recording.broker_died()


@pytest.mark.timeout(120 + 30 * KILLS)
def test_nothing_is_lost_or_seen_twice_however_often_the_broker_dies(
    kill_store: Callable[[], str], tmp_path: Path
) -> None:
    random = Random(20260)
    site = Site(f"vm://killed?store={kill_store()}", tmp_path / "history")
    for number in range(KILLS):
        seed = random.randrange(10**6)
        if number % 2:
            site.kill_at(seed, random.choice(["before", "after"]), random.randint(1, 200))
        else:
            site.kill_at_random(seed, random.uniform(0.0, 1.0))
    site.drain()
    assert site.kills == KILLS
    with record(site.directory, run="kill") as recording:
        report = recording.check(complete=True)
    assert report.events > 50 * KILLS
    assert [each.text for each in report.violations] == []
