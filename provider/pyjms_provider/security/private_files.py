"""Files that hold secrets: only their owner reads them, and a crash leaves either the old text or the new one.

What they mean is elsewhere: `secrets` (keys), `user_file` (users). Windows has no such modes; there the folder's rights count.
"""

from __future__ import annotations

import os
import stat
import tempfile
from glob import escape
from pathlib import Path

from pyjms.spi.errors import ProviderError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_UNFINISHED = ".pyjms-new"
"""How the name of a file ends that is being written: no editor's, nor a person's, whose files beside ours are not ours to remove."""


class PrivateFileError(ProviderError):
    """A file with secrets is missing, cannot be read or written, or is open to others."""

    code = "PYJMS-PRIVATE-FILE"


def read_private(path: Path, limit: int) -> str:
    """Return the text of `path`, in UTF-8.

    Raises `PrivateFileError`: it cannot be read, others than its owner may read or write it, or it has more than
    `limit` bytes.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())  # of the file that is open, not of what has the name a moment later
            if os.name == "posix" and status.st_mode & _OTHERS:
                raise PrivateFileError(
                    f"{path}: others may read or write this file with secrets (mode {stat.S_IMODE(status.st_mode):o}). "
                    f"Change that with: chmod 600 '{path}'"
                )
            data = file.read(limit + 1)
    except OSError as error:
        raise PrivateFileError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > limit:
        raise PrivateFileError(f"{path}: has more than {limit} bytes; is it the right file?")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PrivateFileError(f"{path}: is not a text in UTF-8 (byte {error.start}); is it the right file?") from error


def write_private(path: Path, text: str) -> None:
    """Put `text` in place of what `path` holds, at once and durably. Raises `PrivateFileError`."""
    real = path.resolve()  # a symbolic link stays one
    try:
        temporary = _write_beside(real, text)
        try:
            # The content is on the disk before the name points to it: after a crash
            # there is the old text or the new one.
            temporary.replace(real)
        except OSError:
            temporary.unlink()
            raise
        _force_folder(real.parent)
    except OSError as error:
        raise PrivateFileError(f"{path}: cannot be written: {error.strerror}") from error


def create_private(path: Path, text: str) -> bool:
    """Make `path` with `text`; return False when it is there already. Of two that try at once, one makes it.

    Raises `PrivateFileError`.
    """
    try:
        temporary = _write_beside(path, text)
        try:
            os.link(temporary, path)  # fails where a rename would replace
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        _force_folder(path.parent)
    except OSError as error:
        raise PrivateFileError(f"{path}: cannot be made: {error.strerror}") from error
    return True


def remove_unfinished(path: Path) -> None:
    """Remove what `write_private` left half written beside `path` when the process or the machine was stopped. Raises `OSError`."""
    real = path.resolve()
    for left in real.parent.glob(f".{escape(real.name)}.*{_UNFINISHED}"):
        left.unlink(missing_ok=True)


def _write_beside(path: Path, text: str) -> Path:
    """Write a new file in the folder of `path`, mode 600, and return its name."""
    # `mkstemp` makes the file with mode 600, so there is no moment in which others could open it.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except Exception:
        Path(name).unlink()
        raise
    return Path(name)


def _force_folder(folder: Path) -> None:
    """Force the entry of a new name to the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
