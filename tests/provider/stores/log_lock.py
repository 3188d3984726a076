"""The index of a database's log, and the lock on it of who carries the log over: as SQLite's page on the format says."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_CHECKPOINTS = 121


def index_of(path: Path) -> int:
    """Return the descriptor by which SQLite has the index of a log open in this process; `path`: that of the database."""
    wanted = Path(f"{path}-shm").stat()
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - the names are numbers, not paths
        try:
            if os.path.samestat(os.fstat(int(name)), wanted):
                return int(name)
        except OSError:  # that by which the folder was read
            continue
    raise AssertionError(f"{path}-shm is not open")


def open_index(path: Path) -> int:
    """Open the index once more, behind SQLite's descriptor, which is so the one that is found first."""
    others: list[int] = []
    while not others or others[-1] < index_of(path):
        others.append(os.open(os.devnull, os.O_RDONLY))
    index = os.open(f"{path}-shm", os.O_RDWR)
    for other in others:
        os.close(other)
    return index


def keep_out(index: int) -> bool:
    """Be who carries the log over, by a descriptor of one's own; return False if somebody is."""
    try:
        fcntl.fcntl(index, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK))
    except (BlockingIOError, PermissionError):
        return False
    return True


def let_in(index: int) -> None:
    """Be so no longer."""
    fcntl.fcntl(index, fcntl.F_OFD_SETLK, _lock(fcntl.F_UNLCK))


def _lock(kind: int) -> bytes:
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, _CHECKPOINTS, 1, 0)
