"""A child process whose disk fails to force something, and forgets what that was; run by `test_forgetful_disk.py`.

``python -m tests.provider.stores.forgetful_disk FILE DISK HOW`` sends two messages and takes the first one, which is not forced. Then the disk fails in
a ``commit`` or a ``joined`` transaction; it works again, and two more are sent, with ``joined`` the first of them in such a transaction. It prints the ids of
those that were confirmed, and dies. With ``stays`` the disk goes on to fail, and the errors are printed. DISK is a directory, for what the disk has.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from sqlalchemy import create_engine, text

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import InDoubtError, ProviderError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import WholeMessage, World
from tests.provider.kill.power import Power


def add(world: World, how: str, url: str) -> WholeMessage:
    """Send a message."""
    message = world.message()
    if how == "joined":
        with create_engine(url).connect() as connection:
            connection.execute(text("PRAGMA synchronous=FULL"))
            connection.commit()
            connection.execute(text("UPDATE pyjms_meta SET one = 1"))
            world.journal.join(connection).write(Changes(messages=[message]), force=True)
    else:
        world.add(message)
    return message


def main(path: str, disk: str, how: str) -> None:
    """Do what the module says."""
    Path(disk).mkdir()
    power, url = Power(Path(disk), 1), f"sqlite:///{path}"
    power.sees_python()
    settings = StoreSettings(url=f"{url}?pyjms_shared=true")
    world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
    kept = [world.add(world.message()), world.add(world.message())]
    world.remove((world.queue, kept.pop(0).reference))
    power.is_bad = True
    with suppress(InDoubtError):
        add(world, how, url)
    power.is_bad = how == "stays"
    for one in (how, "commit"):
        try:
            kept.append(add(world, one, url))
        except ProviderError as error:
            sys.stdout.write(f"{type(error).__name__}: {error}\n")
    power.is_bad = False
    kept.append(world.add(world.message()))
    sys.stdout.write(" ".join(str(each.reference.id) for each in kept))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
