"""``--stand-by``: waiting for the broker that holds a configuration file."""

from __future__ import annotations

from pathlib import Path

from pyjms.spi.clock import SystemClock


def await_free(path: Path) -> None:
    """Return when no broker holds the configuration file, which the log says if it has to wait. Raises `StoreError`."""
    from pyjms_provider.stores.file_lock import FileLock, acquire, describe_holder

    lock = FileLock(f"{path.absolute()}.lock", describe_holder("that stands by"))
    acquire(lock.acquire, SystemClock())  # in the main thread, where a signal of the system ends the wait
    lock.release()
