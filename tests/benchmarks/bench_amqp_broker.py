"""The broker over AMQP against ActiveMQ Artemis, both driven by Qpid JMS and both by Qpid Proton.

``bench_amqp_broker.py [ROUNDS [SCALE]]``: the brokers take turns, so many rounds (5), and their medians are compared. SCALE (1) multiplies
the numbers of messages. Each message has 1 KiB of text and ten properties. Both brokers force durable sends and commits to the disk; a first
round is not counted, as Java compiles what it runs often.

Needs what `make maven` and `make proton` install.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
import psutil
from drivers import Driver, Figures, median_of
from measure import report
from network_brokers import TunedArtemis, our_broker, process_of

from tests.peers.building import SOURCES, java_program

OURS: Final = "pyjms"
ARTEMIS: Final = "Artemis"
QPID_JMS: Final = "Qpid JMS"
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A workload, and what is demanded of it with Qpid JMS: how our rate compares with Artemis', and our processor time."""

    workload: str
    title: str
    messages: int
    least_rate: float | None = None


STEPS: Final = (
    (
        Step(workload="send-transient", title="sends, each confirmed", messages=3_000, least_rate=0.5),
        Step(workload="receive", title="receive and acknowledge each", messages=3_000),
    ),
    (
        Step(workload="send-durable", title="durable sends, each confirmed", messages=1_000, least_rate=1.0),
        Step(workload="receive", title="receive and acknowledge each, durable", messages=1_000),
    ),
    (
        Step(workload="send-batches", title="sends in transactions of 100", messages=5_000),
        Step(workload="receive-batches", title="receives in transactions of 100", messages=5_000),
    ),
    (Step(workload="request", title="requests, each with its reply", messages=500),),
)
"""What is done on one queue stands together."""
MOST_PROCESSOR: Final = 2.0
"""Our processor time for a message, as a multiple of Artemis'."""


@contextmanager
def brokers() -> Iterator[dict[str, tuple[str, psutil.Process]]]:
    """Start both brokers; give the URL and the process of each."""
    with tempfile.TemporaryDirectory(prefix="pyjms-bench-") as directory:
        ours_in = Path(directory, "ours")
        ours_in.mkdir()
        artemis = TunedArtemis(Path(directory, "artemis"))
        try:
            artemis.start()
            with our_broker(ours_in, "amqp") as (port, process):
                yield {
                    OURS: (f"amqp://127.0.0.1:{port}", process),
                    ARTEMIS: (f"amqp://127.0.0.1:{artemis.ports['amqp']}", process_of(artemis)),
                }
        finally:
            artemis.kill()


def commands(url: str) -> dict[str, list[str]]:
    """Return how each client is started."""
    class_path = java_program("qpid_jms", SOURCES / "qpid_jms" / "Rate.java")
    java = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path, "Rate", url]
    return {QPID_JMS: java, "Qpid Proton": [sys.executable, str(SOURCES / "proton" / "rate.py"), url]}


def compare(client: str, drivers: dict[str, Driver], steps: Sequence[Step], rounds: int, scale: float) -> bool:
    """Measure workloads of one queue in turn; print what they took."""
    found: dict[tuple[str, Step], list[Figures]] = {(name, step): [] for name in drivers for step in steps}
    for turn in range(rounds + 1):
        for name, driver in drivers.items():
            queue = f"bench-{next(_numbers)}"
            for step in steps:
                figures = driver.measure(step.workload, queue, max(100, int(step.messages * scale) // 100 * 100))
                if turn:
                    found[name, step].append(figures)
    good = True
    for step in steps:
        middle = {name: median_of(found[name, step]) for name in drivers}
        rate = middle[OURS].rate / middle[ARTEMIS].rate
        processor = middle[OURS].broker_us / middle[ARTEMIS].broker_us
        title = f"{client}: {step.title} / {ARTEMIS}"
        if client == QPID_JMS and step.least_rate is not None:
            good &= report(title, rate, least=step.least_rate)
            good &= report(f"{title}, processor time", processor, most=MOST_PROCESSOR)
        else:
            print(f"     {title}: {rate:.3g}; processor time {processor:.3g}")
        for name, each in middle.items():
            print(f"      {name}: {each.rate:,.0f}/s; broker {each.broker_us:.0f} µs", flush=True)
    return good


def main() -> int:
    """Run and report."""
    arguments = sys.argv[1:]
    rounds = int(arguments[0]) if arguments else 5
    scale = float(arguments[1]) if len(arguments) > 1 else 1.0
    good = True
    with brokers() as sides:
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        for client in commands(""):
            with ExitStack() as running:
                drivers = {}
                for name, (url, process) in sides.items():
                    drivers[name] = Driver(commands(url)[client], process)
                    running.callback(drivers[name].end)
                for steps in STEPS:
                    good &= compare(client, drivers, steps, rounds, scale)
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
