"""``--stand-by``: waiting for the broker that holds a configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyjms.spi.clock import SystemClock

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal

__all__ = ["await_free"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A process that waits in its main thread: a signal of the system ends that."""

    clock: Clock
    waits: bool = True
    cancelled: Signal | None = None


def await_free(path: Path) -> None:
    """Return when no broker holds the configuration file, which the log says if it has to wait. Raises `StoreError`."""
    from pyjms_provider.stores.file_lock import FileLock, describe_holder
    from pyjms_provider.stores.stand_by import acquire

    lock = FileLock(f"{path.absolute()}.lock", describe_holder("that stands by"))
    acquire(lock.acquire, _Waiting(SystemClock()))
    lock.release()
