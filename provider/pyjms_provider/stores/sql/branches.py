"""Branches of distributed transactions as rows: what is prepared is kept apart until it is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms.spi.xid import Xid
from pyjms_provider.core.journal.journal import BranchOutcome, Changes

if TYPE_CHECKING:
    from pyjms_provider.stores.sql.batch import Batch, Row
    from pyjms_provider.stores.sql.database import Database

__all__ = ["add_branches"]


def add_branches(batch: Batch, changes: Changes, database: Database, next_number: Callable[[], int]) -> None:
    """Add the branch that `changes` prepare, and the ends of those that they decide.

    Reads what the decided branches take out of queues. Raises `StoreError`, `CodecError`.
    """
    statements = database.statements
    prepared = changes.prepared
    if prepared is not None:
        number = next_number()
        for message in changes.messages:
            batch.add(message, number)
        key = _key(prepared.xid)
        batch.others.append((statements.add_branch, [(number, *key, prepared.prepared_ms)]))
        removals = [(number, removal.reference.id, removal.queue) for removal in changes.removals]
        if removals:
            batch.others.append((statements.add_branch_removal, removals))
        batch.witness = (statements.has_branch, (number,))
    for outcome in changes.outcomes:
        _decide(batch, outcome, database)


def _key(xid: Xid) -> Row:
    return xid.format_id, xid.global_transaction_id, xid.branch_qualifier


def _decide(batch: Batch, outcome: BranchOutcome, database: Database) -> None:
    statements, key, others = database.statements, _key(outcome.xid), batch.others
    for (number,) in database.query(statements.find_branch, key):
        if outcome.commit:
            removals: list[Row] = database.query(statements.branch_removals, (number,))
            others.append((statements.publish_branch, [(number,)]))
            if removals:
                others.append((statements.remove_single, removals))
                others.append((statements.remove_entry, removals))
                others.append((statements.remove_unreferenced, [(message,) for message, _ in removals]))
        else:
            others.append((statements.drop_branch_entries, [(number,)]))
            others.append((statements.drop_branch_messages, [(number,)]))
        others.append((statements.drop_branch_removals, [(number,)]))
        others.append((statements.drop_branch, [(number,)]))
    if outcome.heuristic:
        others.append((statements.put_heuristic, [(*key, outcome.commit)]))
    else:
        others.append((statements.drop_heuristic, [key]))
