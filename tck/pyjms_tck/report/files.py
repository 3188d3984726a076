"""Writes reports into files: all of one, or nothing."""

from __future__ import annotations

import os
from pathlib import Path


def check_can_write(file: Path) -> None:
    """Raise OSError, with a text for people, for what is seen before the run to be no place for a report."""
    if not file.parent.is_dir():
        raise NotADirectoryError(f"there is no folder {file.parent}")
    if file.is_dir():
        raise IsADirectoryError("it is a folder")
    if not os.access(file.parent if _is_replaced(file) else file, os.W_OK):
        raise PermissionError(
            f"there is no right to write {'in ' + str(file.parent) if _is_replaced(file) else 'to it'}"
        )


def write_whole(file: Path, text: str) -> None:
    """Write `text`, so that an earlier report stays until this one is complete. Raises OSError."""
    data = text.encode()
    if not _is_replaced(file):
        file.write_bytes(data)
        return
    target = file.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        part.write_bytes(data)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _is_replaced(file: Path) -> bool:
    """Return whether `file` is an ordinary one, or none yet; a pipe or /dev/stdout is written to as it is."""
    return file.is_file() or not file.exists()
