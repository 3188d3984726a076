"""A disk that fails to force something now and then, forgets what that was, as Linux does, and works again; and that may lose power at any moment.

``python -m tests.provider.kill.failing DISK SEED MODULE ARGUMENT…`` runs a module over it, as `power.py` does. The log of a store is carried over more
often than it would be, as the disk is to fail at that, too.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from pyjms_provider.stores.sql import sqlite_files as checkpoints
from tests.provider.kill.power import Power

ODDS = {"": 0.4, "-wal": 0.01}
"""How often the database file is not forced, and the log, of which each send forces some."""
PAGES = 60


def main(disk: str, seed: str, module: str, *arguments: str) -> None:
    """Run a module over such a disk."""
    Path(disk).mkdir(exist_ok=True)
    power = Power(Path(disk), int(seed))
    power.sees_python()
    power.odds.update(ODDS)
    checkpoints.PAGES = PAGES  # type: ignore[misc]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
