"""Names of branches."""

from __future__ import annotations

from pyjms import Xid


class Branch(Xid):
    """The name of a branch that no other test uses."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()

    def getFormatId(self) -> int:
        return 20_020

    def getGlobalTransactionId(self) -> bytes:
        # X/Open XA allows 64 bytes; the end of the name is what makes it unique.
        return self._name[-64:]

    def getBranchQualifier(self) -> bytes:
        return b"1"
