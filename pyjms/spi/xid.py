"""The name of a branch of a distributed transaction, and the failures of calls for it (X/Open XA; JMS 1.1 §8)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Self

__all__ = ["BranchFailure", "Xid"]

# X/Open XA: MAXGTRIDSIZE and MAXBQUALSIZE.
_MAXIMUM_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Xid:
    """A branch: format, of 64 bits, global transaction and branch qualifier, at most 64 bytes each."""

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes

    def __post_init__(self) -> None:
        if max(len(self.global_transaction_id), len(self.branch_qualifier)) > _MAXIMUM_LENGTH:
            raise ValueError(f"the parts of an Xid have at most {_MAXIMUM_LENGTH} bytes")
        if not -(2**63) <= self.format_id < 2**63:
            raise ValueError("the format of an Xid is a number of 64 bits")

    def __str__(self) -> str:
        """Return ``FORMAT:GLOBAL:BRANCH``, the last two in hexadecimal, as operators read and write it."""
        return f"{self.format_id}:{self.global_transaction_id.hex()}:{self.branch_qualifier.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the branch of a text that `str` returned. Raises `ValueError`."""
        try:
            format_id, global_transaction_id, branch_qualifier = text.split(":")
            return cls(int(format_id), bytes.fromhex(global_transaction_id), bytes.fromhex(branch_qualifier))
        except ValueError as error:
            raise ValueError(
                f"{text!r} is no branch; write FORMAT:GLOBAL:BRANCH, the last two in hexadecimal"
            ) from error


class BranchFailure(Enum):
    """Why a call for a branch of a distributed transaction failed; the values are X/Open XA's codes."""

    RETRY = 4
    """It could not be committed now; it is still prepared, and the same call may succeed later."""
    HEURISTICALLY_ROLLED_BACK = 6
    HEURISTICALLY_COMMITTED = 7
    """An operator decided, and the coordinator must acknowledge that (`ProviderSession.xa_forget`)."""
    ROLLED_BACK = 100
    TIMED_OUT = 106
    """It was rolled back: for the given reason, or because its time was over."""
    FAILED = -3
    UNKNOWN = -4
    """There is no such branch."""
    INVALID = -5
    """The arguments contradict each other."""
    PROTOCOL = -6
    """The call came at a wrong time."""
    UNREACHABLE = -7
    """The provider cannot do it, or does not know whether it did; the branch is unchanged."""
    DUPLICATE = -8
    """There is such a branch already."""
    OUTSIDE = -9
    """The session has work of its own that is neither committed nor rolled back."""
