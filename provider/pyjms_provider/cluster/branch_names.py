"""The names of the branches of a transaction over several shards."""

from __future__ import annotations

from typing import Final

from pyjms.spi.xid import Xid

FORMAT: Final = 0x706A6D63
"""Their format: the letters pjmc."""


def branch_of(transaction: str, shard: int) -> Xid:
    """Return the branch that a shard has of a transaction."""
    return Xid(FORMAT, transaction.encode(), str(shard).encode())


def transaction_of(branch: Xid) -> str | None:
    """Return the transaction of a branch; None: it is a branch of another coordinator."""
    return branch.global_transaction_id.decode(errors="replace") if branch.format_id == FORMAT else None


def coordinator_of(transaction: str) -> str:
    """Return the incarnation of the member that coordinates a transaction."""
    return transaction.partition(":")[0]
