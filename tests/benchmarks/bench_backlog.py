"""A backlog that outgrows memory: what a message costs, however many there are.

``python tests/benchmarks/bench_backlog.py 1000000`` goes to a million; the default is 20,000. Messages of 1 KiB are sent in
transactions of 100; then the broker is started again by another process, which drains the queue in transactions of 100.
Each step has a process of its own, so that its memory is its own. Costs are compared by the processor's time, which other work on
the machine changes least; the time by the clock stands beside it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Final
from urllib.parse import quote

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from durable import directory, receiver, sender
from measure import REPEATS, report

from pyjms import ConnectionFactory

DEFAULT: Final = 20_000
LEAST: Final = 1_000
BATCH: Final = 100
SIZES: Final = (10_000, 100_000, 1_000_000)
MEMORY: Final = "10MB"
"""What the broker may keep of the messages in memory: a hundredth of a million, or half of the default."""
BODIES_MB: Final = 30
"""What that takes at most, with what the allocator keeps."""
OPENING_US: Final = 5
ENTRY_BYTES: Final = 600
"""What a queue may know of a message whose body is on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one process needed."""

    messages: int
    seconds: float
    """By the clock."""
    busy_seconds: float
    """Of the processor."""
    opening_seconds: float
    opening_busy_seconds: float
    grown_bytes: int

    @property
    def each_us(self) -> float:
        """Microseconds of the processor for each message."""
        return self.busy_seconds / self.messages * 1e6


def work(what: str, path: str, messages: int) -> Step:
    """Fill or drain the store; in a process that does nothing else."""
    process = psutil.Process()
    before = process.memory_info().rss
    begin, busy = perf_counter(), process_time()
    factory = ConnectionFactory(f"vm://backlog?store={quote(f'sqlite:///{path}', safe='')}&memory={MEMORY}")
    with factory.create_connection() as connection:
        connection.start()
        opening_seconds, opening_busy_seconds = perf_counter() - begin, process_time() - busy
        act = (sender if what == "fill" else receiver)(connection, BATCH)
        most = process.memory_info().rss
        begin, busy = perf_counter(), process_time()
        for _ in range(messages // BATCH):
            act()
            most = max(most, process.memory_info().rss)
        seconds, busy_seconds = perf_counter() - begin, process_time() - busy
    return Step(
        messages=messages,
        seconds=seconds,
        busy_seconds=busy_seconds,
        opening_seconds=opening_seconds,
        opening_busy_seconds=opening_busy_seconds,
        grown_bytes=most - before,
    )


def in_process(what: str, path: Path, messages: int) -> Step:
    """Have another process do it."""
    command = [sys.executable, __file__, what, str(path), str(messages)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Step(**json.loads(done.stdout))


def fill_and_drain(messages: int) -> tuple[Step, Step]:
    """Fill a fresh store, and drain it."""
    with directory() as path:
        return in_process("fill", path / "backlog.db", messages), in_process("drain", path / "backlog.db", messages)


def main(most: int) -> int:
    """Run and report."""
    rounds = [fill_and_drain(LEAST) for _ in range(REPEATS)]
    few = [statistics.median(step.each_us for step in steps) for steps in zip(*rounds, strict=True)]
    idle = statistics.median(step.grown_bytes for steps in rounds for step in steps)
    opening = statistics.median(drained.opening_busy_seconds for _, drained in rounds)
    good = True
    for size in sorted({*(size for size in SIZES if size < most), most}):
        filled, drained = fill_and_drain(size)
        for name, step, cost in (("send", filled, few[0]), ("drain", drained, few[1])):
            detail = f"{step.each_us:.0f} µs against {cost:.0f} µs; {step.seconds:.1f} s by the clock in all"
            good &= report(f"{name}, a message of {size:,} / of {LEAST:,}", step.each_us / cost, most=2, detail=detail)
        longer = drained.opening_busy_seconds - opening
        detail = f"{drained.opening_busy_seconds:.2f} s against {opening:.2f} s; {drained.opening_seconds:.2f} s by the clock"
        limit = 1 + size * OPENING_US / 1e6
        good &= report(f"more seconds to start again, {size:,} messages", longer, most=limit, detail=detail)
        grown = [(step.grown_bytes - idle) / 1e6 for step in (filled, drained)]
        detail = f"{grown[0]:.0f} MB more than for {LEAST:,} while sent, {grown[1]:.0f} MB more while drained"
        limit = BODIES_MB + size * ENTRY_BYTES / 1e6
        good &= report(f"MB of memory, {size:,} messages", max(grown), most=limit, detail=detail)
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(asdict(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT))
