"""A broker that breaks a promise about branches on purpose, so that tests can show that this is found.

``python -m tests.provider.kill.faulty FAULT MODULE ARGUMENT…`` runs a module beside such a broker.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping
from typing import Final

from pyjms.spi.xid import Xid
from pyjms_provider.core.host.restoring import BranchesInDoubt
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.transaction.branches import Branches
from pyjms_provider.stores.sql import SqlJournal


def forget() -> None:
    """After a death no branch is in doubt, and what they have received is given to others."""
    BranchesInDoubt.holds = lambda *_: False  # type: ignore[method-assign]
    Branches.restore = lambda *_: None  # type: ignore[method-assign,assignment]


def commit_instead() -> None:
    """A prepared branch that is rolled back is committed."""
    rollback = Branches.rollback

    def committed(branches: Branches, xid: Xid) -> None:
        branches.commit(xid) if xid in branches.recover() else rollback(branches, xid)

    Branches.rollback = committed  # type: ignore[method-assign, assignment]


def write_no_promise() -> None:
    """What is prepared is not written."""
    write = SqlJournal.write

    def written(journal: SqlJournal, changes: Changes, *, force: bool) -> None:
        if changes.prepared is None:
            write(journal, changes, force=force)

    SqlJournal.write = written  # type: ignore[method-assign, assignment]


FAULTS: Final[Mapping[str, Callable[[], None]]] = {
    fault.__name__: fault for fault in (forget, commit_instead, write_no_promise)
}


def main(fault: str, module: str, *arguments: str) -> None:
    """Run a module beside a broker with that fault."""
    FAULTS[fault]()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
