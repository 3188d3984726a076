"""Drivers of their own that die at each point, with their JVM, their Python processes and the broker: every message comes out once.

Run as ``python -m tests.pyjms.spark.killing ROUNDS [POINT ...]``; each round is a death of each of the four at each point, with other
partitions after each start and a consumer that competes, before each start and while drivers work. The history of all clients is judged by the checker. (`test_source.py` kills
Spark's Python processes at some points within one session.)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pyjms.history import RULES, Verdict, check, read
from tests.pyjms.spark.messages_of import fill, look, take
from tests.pyjms.spark.planting import DRIVER, JVM, MYSELF, POINTS, plant, struck
from tests.pyjms.spark.served import ServedBroker

BROKER = "broker"
VICTIMS = (JVM, BROKER, MYSELF, DRIVER)
ATTEMPTS = 6
MEANWHILE = 5
"""So many messages at most are taken while one driver works: it is to find some."""
_SECONDS = 600


def drive(broker: ServedBroker, folder: Path, partitions: int, compete: Callable[[], None]) -> int:
    """Run a driver to its end, and return its exit code; bring back the broker if that is what dies. `compete` is called meanwhile."""
    command = [sys.executable, "-m", "tests.pyjms.spark.driver", broker.url, str(folder / "checkpoint"),
               str(folder / "plants"), str(partitions)]  # fmt: skip
    with (folder / "driver.log").open("a") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log)
    for _ in range(_SECONDS):
        try:
            return driver.wait(1)
        except subprocess.TimeoutExpired:
            if broker.is_dead():
                broker.wait()
                broker.start()
            compete()
    driver.kill()
    raise AssertionError(f"the driver does not end: {_end_of(folder)}")


def _end_of(folder: Path) -> str:
    return (folder / "driver.log").read_text()[-4000:]


def judged(history: Path) -> dict[str, int]:
    """Return what the checker finds, and how often; messages that came through are `moved`, by their ids, and nothing else is well."""
    counts = check(read(history), complete=True).counts()
    return {rule: number for rule, number in counts.items() if rule == "moved" or _is_bad(rule)}


def _is_bad(rule: str) -> bool:
    return RULES[rule].verdict is not Verdict.INFORMATION


class Kills:
    """One broker, one checkpoint, and what was sent and taken so far."""

    def __init__(self, broker: ServedBroker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._texts: list[str] = []
        self._taken: list[str] = []
        self._starts = 0
        self._victim = MYSELF
        self._left_to_take = 0
        (folder / "plants").mkdir()

    @property
    def _url(self) -> str:
        return f"{self._broker.url}?record={self._folder}/history"

    def die(self, point: str, victim: str) -> None:
        """Send some messages, and start drivers until one has come to the point."""
        self._texts += fill(self._url, 60, first=1000 * len(self._texts))
        self._taken += take(self._url, "orders", 3)  # a consumer competes with the stream
        self._victim = victim
        plant(self._folder / "plants", point, str(self._broker.pid) if victim == BROKER else victim)
        for _ in range(ATTEMPTS):
            self._drive()
            if struck(self._folder / "plants", point):
                return
        raise AssertionError(f"nobody came to {point!r} for {victim}: {_end_of(self._folder)}")

    def finish(self) -> None:
        """Let a driver work to its end, and compare what came with what was sent."""
        done = any(self._drive() == 0 for _ in range(ATTEMPTS))
        assert done, _end_of(self._folder)
        assert look(self._broker.url, "orders") == []
        came = Counter(look(self._broker.url, "out") + self._taken)
        assert came == Counter(self._texts), (came - Counter(self._texts), Counter(self._texts) - came)

    def judge(self) -> int:
        """Have the checker judge what all clients saw, and return how many messages came through."""
        came = take(self._url, "out", len(self._texts) + 1)
        counts = judged(self._folder / "history")
        assert counts == {"moved": len(came)}, counts
        return len(came)

    def _drive(self) -> int:
        self._starts += 1
        self._left_to_take = MEANWHILE
        return drive(self._broker, self._folder, 1 + self._starts % 4, self._compete)

    def _compete(self) -> None:
        """Take a message while the driver works; not where the broker is to die, as nobody could tell then whether it was taken."""
        if self._left_to_take and self._victim != BROKER:
            found = take(self._url, "orders", 1, wait_ms=100)
            self._left_to_take -= len(found)
            self._taken += found


def kill_and_count(folder: Path, points: Sequence[str]) -> int:
    """Let each of the four die at each point; return how many messages came through, each once."""
    with ServedBroker(folder / "broker", durable=True) as broker:
        kills = Kills(broker, folder)
        for point in points:
            for victim in VICTIMS:
                kills.die(point, victim)
            kills.finish()
            sys.stdout.write(f"{point}: {', '.join(VICTIMS)} died, and each message came once\n")
            sys.stdout.flush()
        return kills.judge()


def main(rounds: int, points: Sequence[str]) -> None:
    """Run all deaths so many times."""
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            count = kill_and_count(Path(folder), points)
        sys.stdout.write(
            f"round {number + 1}: {len(points) * len(VICTIMS)} deaths, {count} messages, each once, and the checker finds nothing\n"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or POINTS)
