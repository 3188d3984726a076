"""A disk that loses power, for SQLite: what was not forced to it is not there afterwards, or only a part of it.

``python -m tests.provider.kill.power DISK SEED MODULE ARGUMENT…`` runs a module, and stands between SQLite and its file system. Beside each
file of a store it keeps another one in the directory DISK: what the disk has of it. What SQLite writes goes there when SQLite forces it; a
sector now and then earlier and out of order, as an operating system writes when it likes to. The process may be killed at any moment.
Then `lose_power` has the disk's files be the store's.
"""

from __future__ import annotations

import _sqlite3
import errno
import os
import runpy
import shutil
import sqlite3
import sys
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int64,
    c_void_p,
    cast,
    memmove,
    sizeof,
    string_at,
)
from os import pwrite
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, ClassVar, Final

_SECTOR: Final = 512
_EARLY: Final = 0.05  # so many sectors reach the disk before they are forced
_MAIN_AND_LOG: Final = 0x100 | 0x80000  # SQLITE_OPEN_MAIN_DB, SQLITE_OPEN_WAL
_OK: Final = 0

_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)
_Close = CFUNCTYPE(c_int, c_void_p)
_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)


class _Methods(Structure):
    """The first members of `sqlite3_io_methods`, and room for all others."""

    _fields_: ClassVar = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("others", c_void_p * 13),
    ]


class _Vfs(Structure):
    """The first members of `sqlite3_vfs`, and room for all others."""

    _fields_: ClassVar = [
        ("version", c_int),
        ("file_size", c_int),
        ("path_max", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("others", c_void_p * 14),
    ]


class _Disk:
    """One file as the disk has it, and what was done to it since it was forced."""

    def __init__(self, path: Path, random: Random) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._random = random
        self._lock = Lock()
        self._pending: list[tuple[int, bytes | None]] = []
        """Where something is written; or with None, where the file ends."""

    def write(self, offset: int, data: bytes) -> None:
        with self._lock:
            for at in range(0, len(data), _SECTOR):
                sector = offset + at, data[at : at + _SECTOR]
                if self._random.random() < _EARLY:
                    self._do(*sector)
                self._pending.append(sector)

    def truncate(self, size: int) -> None:
        with self._lock:
            self._pending.append((size, None))

    def force(self) -> None:
        with self._lock:
            for change in self._pending:
                self._do(*change)
            self._pending.clear()

    def forget(self) -> None:
        with self._lock:
            self._pending.clear()

    def delete(self, path: Path) -> None:
        os.close(self._descriptor)
        path.unlink()

    def _do(self, offset: int, data: bytes | None) -> None:
        if data is None:
            os.ftruncate(self._descriptor, offset)
        else:
            pwrite(self._descriptor, data, offset)


class Power:
    """Has SQLite's default file system do what it does, and tells the disks of it."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.is_bad = False
        """Whether the disk fails when it is to force something. As Linux does, it takes what it could not write for written."""
        self.odds: dict[str, float] = {}
        """How often it fails without that, by what stands behind the name of the database: nothing, or ``-wal``."""
        self.failures: list[str] = []
        """Which file it was, for each time that it has failed."""
        self._failing = Random(seed)
        self._directory = directory
        self._random = Random(seed)
        self._lock = Lock()
        self._disks: dict[Path, _Disk] = {}
        """By file: whoever forces one of a file's descriptors forces what was written through all of them."""
        self._opened: dict[int, _Disk] = {}
        self._methods: dict[int, _Methods] = {}
        library = CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self._system = library.sqlite3_vfs_find(None)
        self._system_open = _Open(self._system.contents.open)
        self._system_delete = _Delete(self._system.contents.delete)
        self._ours = _Vfs()
        memmove(byref(self._ours), self._system, sizeof(_Vfs))
        self._callbacks: list[Any] = [_Open(self._open), _Delete(self._delete)]
        self._ours.name = b"power"
        self._ours.open, self._ours.delete = (cast(each, c_void_p).value for each in self._callbacks)
        library.sqlite3_vfs_register(byref(self._ours), 1)

    def _open(self, _: object, name: int, file: int, flags: int, out: Any) -> int:
        answer = self._system_open(self._system, name, file, flags, out)
        if answer == _OK and flags & _MAIN_AND_LOG:
            self._opened[file] = self._disk(string_at(name))
            methods = cast(file, POINTER(c_void_p))
            methods[0] = cast(byref(self._wrapped(methods[0])), c_void_p).value
        return int(answer)

    def _delete(self, _: object, name: bytes, synchronous: int) -> int:
        with self._lock:
            path = self._path(name)
            if path in self._disks:
                self._disks.pop(path).delete(path)
        return int(self._system_delete(self._system, name, synchronous))

    def sees_python(self) -> None:
        """Have the disk know what Python writes to the files of a store, and not only SQLite."""
        write, force = os.pwrite, os.fsync

        def pwrite(descriptor: int, data: bytes, offset: int) -> int:
            disk = self._disk_of(descriptor)
            if disk is not None:
                disk.write(offset, data)
            return write(descriptor, data, offset)

        def fsync(descriptor: int) -> None:
            disk = self._disk_of(descriptor)
            if disk is not None:
                if self.fails(disk):
                    raise OSError(errno.EIO, "Input/output error")
                disk.force()
            force(descriptor)

        os.pwrite, os.fsync = pwrite, fsync  # type: ignore[assignment]

    def _disk_of(self, descriptor: int) -> _Disk | None:
        """Return what the disk has of a file that is open; None: it is none of those that are kept."""
        with self._lock:
            return self._disks.get(self._path(os.fsencode(Path(f"/proc/self/fd/{descriptor}").readlink())))

    def fails(self, disk: _Disk) -> bool:
        """Return whether the disk fails to force one file now; then it forgets what that was."""
        which = disk.path.name.partition(".db")[2]
        is_failure = self.is_bad or self._failing.random() < self.odds.get(which, 0)
        if is_failure:
            self.failures.append(which)
            disk.forget()
        return is_failure

    def _disk(self, name: bytes) -> _Disk:
        with self._lock:
            path = self._path(name)
            if path not in self._disks:
                self._disks[path] = _Disk(path, self._random)
            return self._disks[path]

    def _path(self, name: bytes) -> Path:
        return self._directory / Path(os.fsdecode(name)).name

    def _wrapped(self, address: int) -> _Methods:
        """Return the methods of a file, with some of ours among them."""
        if address in self._methods:
            return self._methods[address]
        theirs = cast(address, POINTER(_Methods)).contents
        write, truncate = _Write(theirs.write), _Truncate(theirs.truncate)
        sync, close = _Sync(theirs.sync), _Close(theirs.close)

        def our_write(file: int, data: int, size: int, offset: int) -> int:
            self._opened[file].write(offset, string_at(data, size))
            return int(write(file, data, size, offset))

        def our_truncate(file: int, size: int) -> int:
            self._opened[file].truncate(size)
            return int(truncate(file, size))

        def our_sync(file: int, flags: int) -> int:
            if self.fails(self._opened[file]):
                return sqlite3.SQLITE_IOERR_FSYNC
            self._opened[file].force()
            return int(sync(file, flags))

        def our_close(file: int) -> int:
            del self._opened[file]
            return int(close(file))

        ours = self._methods[address] = _Methods()
        memmove(byref(ours), byref(theirs), sizeof(_Methods))
        wrapped = [_Write(our_write), _Truncate(our_truncate), _Sync(our_sync), _Close(our_close)]
        self._callbacks += wrapped
        ours.write, ours.truncate, ours.sync, ours.close = (cast(each, c_void_p).value for each in wrapped)
        return ours


def lose_power(store: Path, disk: Path) -> None:
    """Have of the files of a store what its disk has. Whoever worked with them is dead."""
    for path in store.parent.glob(f"{store.name}*"):
        if not path.name.endswith(".lock"):
            path.unlink()
    for path in disk.iterdir():
        shutil.copy(path, store.parent)


def main(disk: str, seed: str, module: str, *arguments: str) -> None:
    """Run a module over a disk that may lose power."""
    Path(disk).mkdir(exist_ok=True)
    _power = Power(Path(disk), int(seed))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
