"""Ports for the servers that tests start as other processes."""

from __future__ import annotations

import random
import socket
from contextlib import closing
from typing import Final

__all__ = ["free_port"]

PORTS: Final = range(15_000, 30_000)
"""The system gives none of these to who asks for any: a port asked for and given back may be another test's by then."""


def free_port() -> int:
    """Return a port of the loopback interface that nothing listens on."""
    chance = random.SystemRandom()  # workers have the same seed
    while True:
        port = chance.choice(PORTS)
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)):
                return port
