"""Where a worker of the kill tests may end itself: before or after a certain write of the journal, or of its coordinator's log."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from threading import local
from typing import Any, Final

from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.transaction.branches import Branches
from pyjms_provider.stores.sql import SqlJournal
from tests.provider.kill.coordinator_log import CoordinatorLog

ANY: Final = "write"
"""Each write of the journal, whatever it is of."""
PREPARE, COMMIT, ROLLBACK, ONE_PHASE, DECISION = "prepare", "commit", "rollback", "one phase", "decision"
SIDES: Final = ("before", "after")
NAMED: Final = tuple((side, kind) for kind in (PREPARE, COMMIT, ROLLBACK, ONE_PHASE, DECISION) for side in SIDES)
"""What concerns branches: the journal's writes of them, and their coordinator's decision to commit."""


class Suicide:
    """Kills this process when it passes a point for the Nth time: nothing that Python does at its end is done."""

    def __init__(self, side: str, kind: str, passing: int) -> None:
        self._side = side
        self._kind = kind
        self._passing = passing
        self._numbers = count(1)
        self._thread = local()

    def install(self) -> None:
        """Stand before and after each write."""
        for name in ("write", "add"):
            setattr(SqlJournal, name, self._watched(getattr(SqlJournal, name)))
        CoordinatorLog.decide = self._watched(CoordinatorLog.decide, DECISION)  # type: ignore[method-assign]
        commit = Branches.commit

        def watched(branches: Branches, *arguments: Any, one_phase: bool = False) -> None:
            self._thread.is_one_phase = one_phase
            try:
                commit(branches, *arguments, one_phase=one_phase)
            finally:
                self._thread.is_one_phase = False

        Branches.commit = watched  # type: ignore[method-assign, assignment]  # mypy takes it for unbound

    def _watched(self, write: Callable[..., None], kind: str | None = None) -> Callable[..., None]:
        def watched(*arguments: Any, **options: Any) -> None:
            kinds = {kind} if kind is not None else {ANY, self._kind_of(arguments[1])}
            is_last = self._kind in kinds and next(self._numbers) == self._passing
            if is_last and self._side == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            write(*arguments, **options)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)

        return watched

    def _kind_of(self, changes: object) -> str:
        if isinstance(changes, Changes) and changes.prepared is not None:
            return PREPARE
        if isinstance(changes, Changes) and changes.outcomes:
            return COMMIT if changes.outcomes[0].commit else ROLLBACK
        return ONE_PHASE if getattr(self._thread, "is_one_phase", False) else ANY
