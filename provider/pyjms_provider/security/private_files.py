"""Files with secrets: only their owner can read them, and after a crash they have either the old text or the new one.

Their formats are in `secrets` (keys) and `user_file` (users). Windows has no such modes; there the permissions of the folder apply.
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
"""The suffix of an incomplete file. Neither editors nor people use it, so that no other files are removed."""


class PrivateFileError(ProviderError):
    """A file with secrets is missing, cannot be read or written, or is open to others."""

    code = "PYJMS-PRIVATE-FILE"


def read_private(path: Path, limit: int) -> str:
    """Return the UTF-8 text of `path`.

    Raises `PrivateFileError` if it cannot be read, others than its owner may read or write it, or it has more than
    `limit` bytes.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())  # of the open file, as another one may get its name in the meantime
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
    """Replace the content of `path` by `text`, atomically and durably. Raises `PrivateFileError`."""
    real = path.resolve()  # a symbolic link is kept
    try:
        temporary = _write_beside(real, text)
        try:
            # The content is forced to the disk before the rename: after a crash the file has
            # the old text or the new one.
            temporary.replace(real)
        except OSError:
            temporary.unlink()
            raise
        _force_folder(real.parent)
    except OSError as error:
        raise PrivateFileError(f"{path}: cannot be written: {error.strerror}") from error


def create_private(path: Path, text: str) -> bool:
    """Create `path` with `text`; return False if it exists, or another process has created it at the same time.

    Raises `PrivateFileError`.
    """
    try:
        temporary = _write_beside(path, text)
        try:
            os.link(temporary, path)  # fails if the file exists, where a rename would replace it
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        _force_folder(path.parent)
    except OSError as error:
        raise PrivateFileError(f"{path}: cannot be made: {error.strerror}") from error
    return True


def remove_unfinished(path: Path) -> None:
    """Remove incomplete files next to `path`, left by `write_private` when the process or the machine stopped. Raises `OSError`."""
    real = path.resolve()
    for left in real.parent.glob(f".{escape(real.name)}.*{_UNFINISHED}"):
        left.unlink(missing_ok=True)


def _write_beside(path: Path, text: str) -> Path:
    """Write a new file in the folder of `path`, mode 600, and return its name."""
    # `mkstemp` creates the file with mode 600, so others can never open it.
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
    """Force the directory entry of a new file to the disk, if the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
