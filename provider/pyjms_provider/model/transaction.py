"""Branches of distributed transactions as operators see them, and how one that is in doubt is settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.model.observed import ObservedObject
from pyjms_provider.model.operations import operation
from pyjms_provider.model.statistics import statistic

if TYPE_CHECKING:
    from pyjms_provider.core.transaction.branch import BranchReport

__all__ = ["Transaction"]


class Transaction(ObservedObject):
    """A branch; its name is its xid: ``FORMAT:GLOBAL:BRANCH``."""

    category = "transaction"

    def _report(self) -> BranchReport:
        for each in self.host.embedded.virtual_host.branches.reports():
            if str(each.xid) == self.name:
                return each
        raise UnknownObjectError(f"{self.host.path} has no transaction {self.name!r}: it has ended")

    @statistic("Where it is in its life; a prepared one is in doubt until it is settled.")
    def branch_state(self) -> str:
        """Where it is in its life."""
        return self._report().state.name.lower()

    @statistic("When it was prepared, in milliseconds since 1970 UTC.", unit="ms")
    def prepared_at_ms(self) -> int | None:
        """When it was prepared; None: it is not."""
        return self._report().prepared_ms

    @statistic("Messages that it adds to queues and subscriptions.", unit="messages")
    def sent(self) -> int:
        """How many messages it adds."""
        return self._report().sent

    @statistic("Messages that it takes away.", unit="messages")
    def received(self) -> int:
        """How many messages it takes away."""
        return self._report().received

    @operation("Commit a prepared branch in place of its coordinator, whose log is to be asked first.")
    def commit(self) -> None:
        """Commit it heuristically. Raises `BranchError` unless it is prepared."""
        self.host.embedded.virtual_host.branches.settle_heuristically(self._report().xid, commit=True)

    @operation("Roll a prepared branch back in place of its coordinator, whose log is to be asked first.")
    def rollback(self) -> None:
        """Roll it back heuristically. Raises `BranchError` unless it is prepared."""
        self.host.embedded.virtual_host.branches.settle_heuristically(self._report().xid, commit=False)

    @operation("Forget a branch that an operator settled, when its coordinator will not come back for it.")
    def forget(self) -> None:
        """Forget it. Raises `BranchError` unless an operator settled it."""
        self.host.embedded.virtual_host.branches.forget(self._report().xid)
