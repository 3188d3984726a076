"""The name of one branch of a distributed transaction (X/Open XA; JMS 1.1 §8)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Xid"]

_MAXIMUM_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Xid:
    """A branch: format, global transaction and branch qualifier, the last two at most 64 bytes each."""

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes

    def __post_init__(self) -> None:
        if max(len(self.global_transaction_id), len(self.branch_qualifier)) > _MAXIMUM_LENGTH:
            raise ValueError(f"the parts of an Xid have at most {_MAXIMUM_LENGTH} bytes")
