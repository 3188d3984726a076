"""Client processes that do workloads at a broker in turn, for benchmarks of AMQP.

A driver is a program that reads ``WORKLOAD QUEUE COUNT`` from its standard input and prints the seconds that the workload took:
`jms_rate.py`, `tests/peers/proton/rate.py`, `tests/peers/qpid_jms/Rate.java`.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

__all__ = ["Driver", "Figures", "median_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one workload took."""

    rate: float
    """Messages, or round trips, a second."""
    broker_us: float
    """Processor time of the broker for each."""
    client_us: float
    """Processor time of the client for each."""


def median_of(found: Sequence[Figures]) -> Figures:
    """Return the median of each figure."""
    return Figures(
        rate=statistics.median(each.rate for each in found),
        broker_us=statistics.median(each.broker_us for each in found),
        client_us=statistics.median(each.client_us for each in found),
    )


class Driver:
    """A client process at one broker."""

    def __init__(self, command: Sequence[str], broker: psutil.Process) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._client = psutil.Process(self._process.pid)
        self._broker = broker

    def measure(self, workload: str, queue: str, messages: int) -> Figures:
        """Have a workload done. Raises `ValueError`: it has failed, and has said why."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        broker_s, client_s = _seconds(self._broker), _seconds(self._client)
        self._process.stdin.write(f"{workload} {queue} {messages}\n")
        self._process.stdin.flush()
        took = float(self._process.stdout.readline())
        return Figures(
            rate=messages / took,
            broker_us=(_seconds(self._broker) - broker_s) / messages * 1e6,
            client_us=(_seconds(self._client) - client_s) / messages * 1e6,
        )

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
