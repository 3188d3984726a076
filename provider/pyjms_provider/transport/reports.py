"""The network's log lines: each kind has a stable code, by which people and alarms can find it.

The log never contains sent or received bytes, passwords, keys or certificates.
"""

from __future__ import annotations

import logging
from enum import Enum

from pyjms.spi.clock import Clock
from pyjms_provider.protocols.engine import RareLines

_log = logging.getLogger("pyjms.network")


class Report(Enum):
    """A kind of log line: its number, its level, and its subject."""

    STARTED = (1, logging.INFO, "network started")
    LISTENING = (2, logging.INFO, "listening")
    CLOSED = (3, logging.INFO, "listener closed")
    ACCEPT_FAILED = (4, logging.ERROR, "cannot accept connections; trying again")
    TOO_MANY = (5, logging.WARNING, "too many connections; hung up")
    TOO_MANY_OF_ONE = (6, logging.WARNING, "too many connections from one address; hung up")
    HANDSHAKE_FAILED = (7, logging.WARNING, "handshake failed; hung up")
    HANDSHAKE_SLOW = (8, logging.WARNING, "handshake took too long; hung up")
    PEER_STALLED = (9, logging.WARNING, "peer takes no bytes; hung up")
    ENGINE_FAILED = (10, logging.ERROR, "fault of the broker; hung up")
    WORKERS_BUSY = (11, logging.ERROR, "no worker thread is free")
    WORKERS_LEFT = (12, logging.WARNING, "jobs were left behind")
    UNPROTECTED = (13, logging.WARNING, "passwords cross the network in the clear; use TLS")
    CONNECTED = (14, logging.DEBUG, "connected")
    DISCONNECTED = (15, logging.DEBUG, "disconnected")
    LOOP_FAILED = (16, logging.ERROR, "fault of the event loop")
    CERTIFICATES = (17, logging.INFO, "other certificates from now on")
    NO_THREAD = (18, logging.ERROR, "the system gives no thread for work that may wait")
    FEW_FILES = (
        19,
        logging.ERROR,
        "the last files that the process may open are kept for stores and operators; hung up",
    )

    @property
    def code(self) -> str:
        """The code at the beginning of the line, such as ``PYJMS-NET-5``."""
        return f"PYJMS-NET-{self.value[0]}"

    def log(self, detail: str, *arguments: object, error: BaseException | None = None) -> None:
        """Write a line; `detail` and `arguments` are as for `logging`. The traceback of `error` is added."""
        number, level, what = self.value
        _log.log(level, f"PYJMS-NET-{number} {what}: {detail}", *arguments, exc_info=error)


class RareReports:
    """Writes lines that unauthenticated peers can cause: at most one of a kind in five seconds, with the number of omitted ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = RareLines()

    def log(self, report: Report, detail: str, *arguments: object) -> None:
        """Write the line, or count it as omitted."""
        missed = self._lines.missed(report, self._clock.monotonic_ms())
        if missed is not None:
            report.log(f"{detail}%s", *arguments, missed)
