"""A child process whose disk fails to force the database file once, and forgets what that was; run by `test_forgetful_disk.py`.

``python -m tests.provider.stores.forgetful_database FILE DISK WHO`` sends messages while somebody reads an older state, so that some of the log is carried
over into the database, which is not forced. Then all is to be carried over, and the disk fails; it works again, all is carried over, and the log begins anew.
WHO carries over when the disk fails: the ``thread``, the ``writer``, an application's ``commit`` with messages, an ``other`` one of its own before the store is closed, or the
``last`` connection as it is closed, after the thread has failed. In ``stays`` the disk cannot force the log either then. It prints the ids of what was confirmed, and dies.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from threading import Semaphore
from typing import Any

from sqlalchemy import Engine, create_engine, event, text

from pyjms.spi.clock import SystemClock
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql.sqlite_files import Checkpoints
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.provider.kill.power import Power

LONG = "x" * 9000


class Store:
    """A store on such a disk, and its clients."""

    def __init__(self, path: str, disk: str) -> None:
        Path(disk).mkdir()
        self._path = path
        self.power = Power(Path(disk), 1)
        self.power.sees_python()
        settings = StoreSettings(url=f"sqlite:///{path}?pyjms_shared=true")
        self._world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
        self.journal: Any = self._world.journal
        self._idle = Semaphore(0)
        self._is_begun = False
        self.kept: list[int] = []

    def send(self, count: int = 1) -> None:
        """Send messages, each of some pages."""
        for _ in range(count):
            self.kept.append(self._world.add(self._world.message(text=LONG)).reference.id)

    def send_in(self, engine: Engine) -> None:
        """Send one in an application's transaction."""
        message = self._world.message(text=LONG)
        with engine.connect() as connection:
            connection.execute(text("UPDATE pyjms_meta SET one = 1"))
            self.journal.join(connection).write(Changes(messages=[message]), force=True)
        self.kept.append(message.reference.id)

    def carry_over(self) -> None:
        """Have the thread carry over, and wait until it has, or has failed."""
        checkpoints = self.journal._database._checkpoints
        if not self._is_begun:
            wait = Checkpoints._has_work

            def tell(checkpoints: Checkpoints) -> bool:
                self._idle.release()
                return wait(checkpoints)

            Checkpoints._has_work = tell  # type: ignore[method-assign, assignment]
            self._is_begun = True
            checkpoints._wake()
            self._idle.acquire()
        else:
            checkpoints._wake()
        self._idle.acquire()

    def carry_some_over(self) -> None:
        """Carry over while somebody reads what was there before the last messages."""
        self.send(20)
        reader = sqlite3.connect(self._path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM pyjms_message").fetchone()
        self.send(2)
        self.carry_over()
        reader.execute("ROLLBACK")
        reader.close()


def application(url: str) -> Engine:
    """Return an application's engine, which carries the log over with each commit."""
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=1")

    return engine


def main(path: str, disk: str, who: str) -> None:
    """Do what the module says."""
    store = Store(path, disk)
    power = store.power
    store.carry_some_over()
    engine = application(f"sqlite:///{path}")
    if who == "writer":
        power.odds[""] = 1
        store.send()
        power.odds.clear()
    elif who == "commit":
        store.send()  # it has the rest carried over
        store.carry_some_over()
        power.odds[""] = 1
        store.send_in(engine)
        power.odds.clear()
        store.send_in(engine)
    elif who == "other":
        power.odds[""] = 1
        with engine.begin() as connection:
            connection.execute(text("UPDATE pyjms_meta SET one = 1"))
        power.odds.clear()
    else:
        power.odds[""] = 1
        store.carry_over()
        power.odds.clear()
    failures = power.failures.count("")
    if who in {"last", "stays", "other"}:
        if who == "stays":
            power.odds["-wal"] = 1
        engine.dispose()
        store.journal.close(clean=False)
    else:
        store.send()
        store.carry_over()
        store.send(3)
    sys.stdout.write(f"{failures} {' '.join(map(str, store.kept))}")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
