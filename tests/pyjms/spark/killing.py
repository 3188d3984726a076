"""Drivers of their own whose JVM, Python processes and broker are killed at each point: every message comes out once.

Run as ``python -m tests.pyjms.spark.killing ROUNDS``; each round is a death of each of the three at each point, with other partitions
after each start and a consumer that competes. (`test_source.py` kills Spark's Python processes at some points within one session.)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path

from tests.pyjms.spark.messages_of import fill, look, take
from tests.pyjms.spark.planting import MYSELF, POINTS, plant, struck
from tests.pyjms.spark.served import ServedBroker

BROKER = "broker"
DEATHS = list(product(POINTS, ("jvm", BROKER, MYSELF)))
ATTEMPTS = 6
_SECONDS = 600


def drive(broker: ServedBroker, folder: Path, partitions: int) -> int:
    """Run a driver to its end, and return its exit code; bring back the broker if that is what dies."""
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
    driver.kill()
    raise AssertionError(f"the driver does not end: {_end_of(folder)}")


def _end_of(folder: Path) -> str:
    return (folder / "driver.log").read_text()[-4000:]


def kill_and_count(folder: Path, deaths: list[tuple[str, str]]) -> int:
    """Let each die, one after the other; return how many messages came through, each once."""
    (folder / "plants").mkdir()
    texts: list[str] = []
    taken: list[str] = []
    with ServedBroker(folder / "broker", durable=True) as broker:
        for number, (point, victim) in enumerate(deaths):
            texts += fill(broker.url, 60, first=1000 * number)
            taken += take(broker.url, "orders", 3)  # a consumer competes with the stream
            plant(folder / "plants", point, str(broker.pid) if victim == BROKER else victim)
            done = any(drive(broker, folder, partitions=1 + (number + attempt) % 4) == 0 for attempt in range(ATTEMPTS))
            assert done, f"{point}, {victim}: {_end_of(folder)}"
            assert struck(folder / "plants", point), (point, victim)
            assert look(broker.url, "orders") == [], (point, victim)
            came = Counter(look(broker.url, "out") + taken)
            assert came == Counter(texts), (point, victim, came - Counter(texts), Counter(texts) - came)
    return len(texts)


def main(rounds: int) -> None:
    """Run all deaths so many times."""
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            count = kill_and_count(Path(folder), DEATHS)
        sys.stdout.write(f"round {number + 1}: {len(DEATHS)} deaths, {count} messages, each once\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
