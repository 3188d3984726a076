"""What the process of the broker takes of its machine, where the system tells it: on Linux, and in part elsewhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

__all__ = ["free_bytes", "open_file_count", "open_file_limit", "resident_bytes"]

_PROC: Final = Path("/proc/self")


def free_bytes(place: Path) -> int | None:
    """Return how much room is left on the disk of a folder, which may not be there yet; None: the system does not tell."""
    whole = place.resolve()
    there = next((each for each in (whole, *whole.parents) if each.exists()), whole)
    try:
        return shutil.disk_usage(there).free
    except OSError:
        return None


def resident_bytes() -> int | None:
    """Return how much memory the process takes; None: the system does not tell."""
    try:
        pages = (_PROC / "statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def open_file_count() -> int | None:
    """Return how many files and connections the process has open; None: the system does not tell."""
    try:
        return len(os.listdir(_PROC / "fd"))  # noqa: PTH208 -- one call, whatever their number
    except OSError:
        return None


def open_file_limit() -> int | None:
    """Return how many it may have; None: any number, or the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if most == resource.RLIM_INFINITY else most
