"""A program that kills a copy of itself at each step of a change to a configuration store: first, second, third … until none is left.

Arguments: the kind of store, and a folder. It prints what each killed process left, a line each: ``old`` or ``new``, and last ``done``.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from pyjms_provider.model.configuration.json_file import JsonConfigurationStore
from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.stores.configuration_contract import ConfigurationStore
from pyjms_provider.stores.sql.configuration import SqlConfigurationStore
from pyjms_provider.stores.testing.configuration_suite import ADMIN, BROKER, PORT, USERS

STEPS = {"open", "os.rename", "os.remove", "os.link", "os.truncate", "tempfile.mkstemp"}
OLD = {"shop", "stomp"}
NEW = {"shop", "people", "admin"}


def make(kind: str, folder: Path) -> ConfigurationStore:
    """Return a store of that kind in a folder."""
    if kind == "sqlite":
        return SqlConfigurationStore(f"sqlite:///{folder}/broker.db")
    return (JsonConfigurationStore if kind == "json" else TomlConfigurationStore)(folder / "conf")


class Killer:
    """Ends this process as kill -9 does, before a step."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._is_armed = False

    def arm(self) -> None:
        """Count from now on."""
        sys.addaudithook(lambda name, _: self.step() if name in STEPS else None)
        fsync, write = os.fsync, os.write

        def forced(handle: int) -> None:
            self.step()
            fsync(handle)
            self.step()

        def written(handle: int, data: bytes) -> int:
            self.step()
            return write(handle, data)

        os.fsync, os.write = forced, written  # type: ignore[assignment]
        for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
            event.listen(Engine, moment, self._hear)
        self._is_armed = True

    def disarm(self) -> None:
        """Count no more: the change was answered."""
        self._is_armed = False

    def _hear(self, *_: Any) -> None:
        self.step()

    def step(self) -> None:
        """Come to a step."""
        if not self._is_armed:
            return
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def change(kind: str, folder: Path, at: int) -> None:
    """Change the store, and be killed at that step if there are so many."""
    store = make(kind, folder)
    store.open("test")
    killer = Killer(at)
    killer.arm()
    store.update([USERS, ADMIN], [PORT.id])
    killer.disarm()
    os._exit(0)


def main(kind: str, folder: Path) -> None:
    """Kill, and look; once for each step."""
    first = folder / "first"
    first.mkdir()
    store = make(kind, first)
    store.open("test")
    store.update([BROKER, PORT])
    store.close()
    for at in range(200):
        own = folder / str(at)
        shutil.copytree(first, own)
        child = os.fork()
        if not child:
            change(kind, own, at)
        _, status = os.waitpid(child, 0)
        store = make(kind, own)
        found = {str(each.attributes["name"]) for each in store.open("test")}
        store.close()
        left = "old" if found == OLD else "new" if found == NEW else f"half: {sorted(found)}"
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            assert left == "new", "what was answered is there"
            sys.stdout.write("done\n")
            return
        sys.stdout.write(f"{left}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
