"""The provider ``amqp://`` against Qpid Proton's blocking client and against ``stomp://``, all at one broker of ours.

``bench_amqp_provider.py [ROUNDS [SCALE]]``: the clients take turns, so many rounds (5), and their medians are compared. SCALE (1) multiplies
the numbers of messages. Each message has 1 KiB of text and ten properties. Each durable send and each commit is forced to the disk; no
client waits for the answer to an acknowledgement. A first round is not counted.

Messages are NON_PERSISTENT but for those that are called durable. Proton waits for the outcome of each; the providers of pyjms wait for those
that go to a temporary queue of their own, and else for the first one to a destination.

Needs what `make proton` installs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
from drivers import Driver, Figures, median_of
from measure import report
from network_brokers import our_broker_with

from tests.peers.building import SOURCES

AMQP: Final = "amqp://"
PROTON: Final = "Qpid Proton"
STOMP: Final = "stomp://"
LEAST: Final = {PROTON: 2.0, STOMP: 0.7}
"""How many times the rate of the others is demanded."""
_OPTIONS: Final = "prefetch_messages=1000&confirm_acknowledge=no"
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A workload."""

    workload: str
    title: str
    messages: int
    is_demanded: bool = False
    """Whether it has floors."""


STEPS: Final = (
    (
        Step(
            workload="send-temporary",
            title="sends to a temporary queue of its own, each confirmed",
            messages=3_000,
            is_demanded=True,
        ),
    ),
    (
        Step(workload="send-transient", title="sends", messages=3_000),
        Step(workload="receive", title="receive and acknowledge each", messages=3_000, is_demanded=True),
    ),
    (
        Step(workload="send-durable", title="durable sends, each confirmed", messages=1_000, is_demanded=True),
        Step(workload="receive", title="receive and acknowledge each, durable", messages=1_000),
    ),
    (
        Step(workload="send-batches", title="sends in transactions of 100", messages=5_000),
        Step(workload="receive-batches", title="receives in transactions of 100", messages=5_000),
    ),
    (Step(workload="request", title="requests, each with its reply", messages=500),),
)
"""What is done on one queue stands together."""


def compare(drivers: dict[str, Driver], steps: Sequence[Step], rounds: int, scale: float) -> bool:
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
        for other, least in LEAST.items():
            title, ratio = f"{step.title} / {other}", middle[AMQP].rate / middle[other].rate
            if step.is_demanded:
                good &= report(title, ratio, least=least)
            else:
                print(f"     {title}: {ratio:.3g}")
        for name, each in middle.items():
            print(
                f"      {name}: {each.rate:,.0f}/s; client {each.client_us:.0f} µs, broker {each.broker_us:.0f} µs",
                flush=True,
            )
    return good


def main() -> int:
    """Run and report."""
    arguments = sys.argv[1:]
    rounds = int(arguments[0]) if arguments else 5
    scale = float(arguments[1]) if len(arguments) > 1 else 1.0
    good = True
    with ExitStack() as running:
        directory = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="pyjms-bench-")))
        ports, broker = running.enter_context(our_broker_with(directory, ("amqp", "stomp")))
        jms = [sys.executable, str(Path(__file__).with_name("jms_rate.py"))]
        commands = {
            AMQP: [*jms, f"amqp://127.0.0.1:{ports['amqp']}?{_OPTIONS}"],
            PROTON: [sys.executable, str(SOURCES / "proton" / "rate.py"), f"amqp://127.0.0.1:{ports['amqp']}"],
            STOMP: [*jms, f"stomp://127.0.0.1:{ports['stomp']}?{_OPTIONS}"],
        }
        drivers = {}
        for name, command in commands.items():
            drivers[name] = Driver(command, broker)
            running.callback(drivers[name].end)
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        for steps in STEPS:
            good &= compare(drivers, steps, rounds, scale)
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
