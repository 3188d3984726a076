"""A small transaction coordinator with presumed abort: what is not in its log as committed is rolled back.

The log is a file of its own, forced to the disk before the first resource is told to commit. `passing` is called between every
two steps, so that a test can end the process there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pyjms import XAException, XAResource, Xid

__all__ = ["BranchId", "Coordinator"]

_FORMAT = 4711
_HEURISTIC = {XAException.XA_HEURCOM, XAException.XA_HEURRB, XAException.XA_HEURMIX, XAException.XA_HEURHAZ}
_ROLLED_BACK = range(XAException.XA_RBBASE, XAException.XA_RBEND + 1)


@dataclass(frozen=True)
class BranchId(Xid):
    """A transaction of this coordinator, and one of its resources."""

    transaction: str
    resource: str

    @property
    def format_id(self) -> int:
        return _FORMAT

    @property
    def global_transaction_id(self) -> bytes:
        return self.transaction.encode()

    @property
    def branch_qualifier(self) -> bytes:
        return self.resource.encode()


class Coordinator:
    """Runs transactions over several resources, and finishes after a death what was begun before."""

    def __init__(self, log: Path, passing: Callable[[str], None] = lambda step: None) -> None:
        self._log = log
        self._passing = passing
        self.heuristics: list[str] = []
        """The transactions that an operator settled otherwise."""

    def run(self, resources: dict[str, XAResource], work: Callable[[], bool]) -> bool:
        """Do `work` as one transaction; return whether it was committed. `work` returns False to roll back."""
        transaction = uuid4().hex  # as the log outlives the process, and knows no numbers twice
        branches = {name: BranchId(transaction, name) for name in resources}
        for name, resource in resources.items():
            resource.start(branches[name], XAResource.TMNOFLAGS)
            self._passing(f"started {name}")
        wanted = work()
        self._passing("worked")
        for name, resource in resources.items():
            resource.end(branches[name], XAResource.TMSUCCESS)
            self._passing(f"ended {name}")
        if not wanted:
            self._roll_back(resources, branches)
            return False
        voters: dict[str, XAResource] = {}
        for name, resource in resources.items():
            try:
                vote = resource.prepare(branches[name])
            except XAException:
                self._roll_back(resources, branches)
                return False
            self._passing(f"prepared {name}")
            if vote == XAResource.XA_OK:
                voters[name] = resource
        self._write(f"commit {transaction}")
        self._passing("decided")
        for name, resource in voters.items():
            self._settle(resource, branches[name], commit=True)
            self._passing(f"committed {name}")
        self._write(f"end {transaction}")
        return True

    def recover(self, resources: dict[str, XAResource]) -> None:
        """Finish all branches of this coordinator that the resources have in doubt."""
        committed = self._committed()
        for name, resource in resources.items():
            found = resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)
            self._passing(f"scanned {name}")
            for xid in self._own(found, name):
                transaction = bytes(xid.global_transaction_id).decode()
                self._settle(resource, xid, commit=transaction in committed)
                self._passing(f"recovered {name}")

    def _own(self, found: Sequence[Xid], name: str) -> list[Xid]:
        return [each for each in found if each.format_id == _FORMAT and bytes(each.branch_qualifier) == name.encode()]

    def _roll_back(self, resources: dict[str, XAResource], branches: dict[str, BranchId]) -> None:
        for name, resource in resources.items():
            self._settle(resource, branches[name], commit=False)
            self._passing(f"rolled back {name}")

    def _settle(self, resource: XAResource, xid: Xid, *, commit: bool) -> None:
        try:
            resource.commit(xid, False) if commit else resource.rollback(xid)
        except XAException as error:
            if error.error_code in _HEURISTIC:
                if error.error_code != (XAException.XA_HEURCOM if commit else XAException.XA_HEURRB):
                    self.heuristics.append(bytes(xid.global_transaction_id).decode())
                resource.forget(xid)
            elif commit or error.error_code not in {XAException.XAER_NOTA, *_ROLLED_BACK}:
                raise

    def _write(self, line: str) -> None:
        with self._log.open("ab") as log:
            log.write(f"{line}\n".encode())
            log.flush()
            os.fsync(log.fileno())

    def _committed(self) -> set[str]:
        """Return the transactions whose commit was decided; a line that was cut short decides nothing."""
        if not self._log.exists():
            return set()
        *lines, _ = self._log.read_text(encoding="utf-8").split("\n")
        return {line.removeprefix("commit ") for line in lines if line.startswith("commit ")}
