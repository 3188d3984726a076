"""Where processes work with a durable broker and are killed: their store, and the histories of what their clients were told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from threading import Event
from typing import NamedTuple

import pytest

from pyjms import ConnectionFactory, TextMessage
from pyjms.history import Report, read, record
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from tests.provider.kill.coordinator_log import CoordinatorLog
from tests.provider.kill.deeds import LOG
from tests.provider.kill.points import ANY, NAMED, SIDES
from tests.provider.kill.torn import find_torn

PATIENCE_S = 120
_EVENTS_MIN = 100
ROOT = Path(__file__).parents[3]


class Verdict(NamedTuple):
    """What was found after a drain."""

    report: Report
    torn: Sequence[str]
    """Transactions of which a part took effect, and a part did not."""
    complaints: Sequence[str]
    """What coordinators have seen a broker do wrong."""


class Site:
    """A store, a directory of histories, and the processes that work there one after the other."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory
        self.kills = 0

    def modules(self) -> Sequence[str]:
        """Return what runs the worker's module, with its arguments."""
        return ()

    def after_kill(self) -> None:
        """Do what else happens when a process dies."""

    def kill_often(self, random: Random, kills: int) -> None:
        """Let one process after the other work and die: a quarter of them at random moments, a quarter at some write of the journal, and
        the others at one named point after the other."""
        named = cycle(random.sample(NAMED, len(NAMED)))
        for number in range(kills):
            seed = random.randrange(10**6)
            if number % 4 == 0:
                self.kill_at_random(seed, random.uniform(0.0, 1.0))
            elif number % 4 == 1:
                self.kill_at(seed, random.choice(SIDES), ANY, random.randint(1, 200))
            else:
                self.kill_at(seed, *next(named), random.randint(1, 3))

    def kill_at_random(self, seed: int, after_s: float) -> None:
        """Let a process work so long once it has done something, however long that takes on a busy machine, and kill it."""
        before = set(self._journals())
        worker = self._start("work", str(seed))
        try:
            await_word(worker)
            while worker.poll() is None and self._written(before) < _EVENTS_MIN:
                Event().wait(0.01)  # another process writes them
            Event().wait(after_s)  # the moment of death is what is random here
        finally:
            worker.kill()
            self._bury(worker)

    def kill_at(self, seed: int, side: str, kind: str, passing: int) -> None:
        """Let a process work until it kills itself at a point (`points.py`)."""
        worker = self._start("work", str(seed), f"{side}:{kind}:{passing}")
        try:
            worker.wait(PATIENCE_S)
        finally:
            worker.kill()
            self._bury(worker)

    def _journals(self) -> Iterator[Path]:
        return self.directory.rglob("*.journal")

    def _written(self, before: Collection[Path]) -> int:
        """Return how many events are in journals of histories that were not there before."""
        return sum(each.read_bytes().count(b"\n") for each in self._journals() if each not in before)

    def drain(self) -> None:
        """Take all that is left."""
        drainer = self._start("drain")
        try:
            output, errors = drainer.communicate(timeout=PATIENCE_S)
        finally:
            drainer.kill()
        assert "drained" in output, errors

    def judge(self) -> Verdict:
        """Judge what clients and coordinators were told, after all was taken."""
        with record(self.directory, run="kill") as recording:
            report = recording.check(complete=True)
        torn = find_torn(read(self.directory).events)
        return Verdict(report, torn, CoordinatorLog(self.directory.with_name(LOG)).complaints)

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        what, *rest = arguments
        worker = "tests.provider.kill.worker", what, self.url, str(self.directory)
        return start_process(*self.modules(), *worker, *rest)

    def _bury(self, worker: subprocess.Popen[str]) -> None:
        bury(worker)
        self.kills += 1
        self.after_kill()
        with record(self.directory, run="kill", synchronous=True) as recording:
            recording.broker_died()


def start_process(*modules: str) -> subprocess.Popen[str]:
    """Run a module with its arguments in a process of its own; those before it run it."""
    command = [sys.executable, "-m", *modules]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def await_word(process: subprocess.Popen[str]) -> None:
    """Wait until a process says that it works."""
    assert process.stdout is not None
    if process.stdout.readline().strip() != "working":
        assert process.stderr is not None
        process.kill()
        pytest.fail(f"it does not work: {process.stderr.read()}")


def bury(process: subprocess.Popen[str]) -> None:
    """See that a process was killed, and did not end by itself."""
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -9, f"it ended by itself with {process.returncode}: {errors}"


def drained(url: str, queue: str) -> list[tuple[str, bool]]:
    """Take all that is left of a queue: texts, and whether they are flagged."""
    found: list[tuple[str, bool]] = []
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session()
        consumer = session.create_consumer(session.create_queue(queue))
        connection.start()
        while (message := consumer.receive_no_wait()) is not None:
            assert isinstance(message, TextMessage)
            found.append((message.text or "", message.jms_redelivered))
    find_provider("vm").stop_broker(ProviderUrl.parse(url))
    return found
