"""A child process whose disk cannot force what SQLite writes, when it is told so; run by `test_sqlite_disk.py`.

``python -m tests.provider.stores.bad_disk FILE HOW`` sends a message, and another one by ``add``, ``write`` or in a ``joined`` transaction while the
disk fails; prints the error of that one; with ``and another`` behind it sends a third one when the disk works again, and dies in any case.
"""

from __future__ import annotations

import _sqlite3
import os
import sqlite3
import sys
from ctypes import CDLL, POINTER, byref, c_void_p, cast, memmove, sizeof
from typing import Any

from sqlalchemy import create_engine, text

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ProviderError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import WholeMessage, World
from tests.provider.kill.power import _MAIN_AND_LOG, _Methods, _Open, _Sync, _Vfs


class BadDisk:
    """Stands between SQLite and its default file system."""

    def __init__(self) -> None:
        self.is_bad = False
        self._methods: dict[int, _Methods] = {}
        library = CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self._system = library.sqlite3_vfs_find(None)
        self._system_open = _Open(self._system.contents.open)
        self._ours = _Vfs()
        memmove(byref(self._ours), self._system, sizeof(_Vfs))
        self._callbacks: list[Any] = [_Open(self._open)]
        self._ours.name = b"bad"
        self._ours.open = cast(self._callbacks[0], c_void_p).value
        library.sqlite3_vfs_register(byref(self._ours), 1)

    def _open(self, _: object, name: int, file: int, flags: int, out: Any) -> int:
        answer = self._system_open(self._system, name, file, flags, out)
        if answer == 0 and flags & _MAIN_AND_LOG:
            methods = cast(file, POINTER(c_void_p))
            methods[0] = cast(byref(self._wrapped(methods[0])), c_void_p).value
        return int(answer)

    def _wrapped(self, address: int) -> _Methods:
        """Return the methods of a file, with one of ours among them."""
        if address not in self._methods:
            theirs = cast(address, POINTER(_Methods)).contents
            sync = _Sync(theirs.sync)
            ours = self._methods[address] = _Methods()
            memmove(byref(ours), byref(theirs), sizeof(_Methods))
            self._callbacks.append(
                _Sync(lambda file, flags: sqlite3.SQLITE_IOERR_FSYNC if self.is_bad else int(sync(file, flags)))
            )
            ours.sync = cast(self._callbacks[-1], c_void_p).value
        return self._methods[address]


def send(world: World, message: WholeMessage, how: str, url: str) -> None:
    if how == "add":
        world.journal.add(message.reference, message.envelope, world.queue)
    elif how == "write":
        world.add(message)
    else:
        with create_engine(url).connect() as connection:
            connection.execute(text("PRAGMA synchronous=FULL"))
            connection.commit()
            connection.execute(text("UPDATE pyjms_meta SET one = 1"))
            world.journal.join(connection).write(Changes(messages=[message]), force=True)


def main(path: str, how: str, then: str = "") -> None:
    """Do what the module says."""
    disk, url = BadDisk(), f"sqlite:///{path}"
    settings = StoreSettings(url=f"{url}?pyjms_shared=true")
    world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
    world.add(world.message())
    second = world.message()
    disk.is_bad = True
    try:
        send(world, second, how, url)
    except ProviderError as error:
        print(type(error).__name__)  # noqa: T201 - the parent reads it
    disk.is_bad = False
    if then:
        world.journal.note(Changes(messages=[second]).withdrawal())
        world.add(world.message())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
