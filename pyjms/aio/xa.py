"""Sessions that a transaction manager controls, for asyncio (JMS 1.1 §8): for providers that have `Capability.XA`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from pyjms.aio.calls import SessionThread
from pyjms.aio.connection import Connection
from pyjms.aio.contexts import Opening
from pyjms.aio.session import Session
from pyjms.aio.sessions import AwaitedXASession
from pyjms.api import xa


class XAResource:
    """Carries a transaction manager's calls to the session's provider. Its methods raise what `pyjms.XAResource` raises."""

    TMNOFLAGS: ClassVar = xa.XAResource.TMNOFLAGS
    TMJOIN: ClassVar = xa.XAResource.TMJOIN
    TMENDRSCAN: ClassVar = xa.XAResource.TMENDRSCAN
    TMSTARTRSCAN: ClassVar = xa.XAResource.TMSTARTRSCAN
    TMSUSPEND: ClassVar = xa.XAResource.TMSUSPEND
    TMSUCCESS: ClassVar = xa.XAResource.TMSUCCESS
    TMRESUME: ClassVar = xa.XAResource.TMRESUME
    TMFAIL: ClassVar = xa.XAResource.TMFAIL
    TMONEPHASE: ClassVar = xa.XAResource.TMONEPHASE
    XA_OK: ClassVar = xa.XAResource.XA_OK
    XA_RDONLY: ClassVar = xa.XAResource.XA_RDONLY

    def __init__(self, beneath: xa.XAResource, thread: SessionThread) -> None:
        """Made by a session."""
        self._beneath = beneath
        self._thread = thread

    async def start(self, xid: xa.Xid, flags: int) -> None:
        """Begin the session's work in a branch, join it, or resume it."""
        await self._thread.call(partial(self._beneath.start, xid, flags))

    async def end(self, xid: xa.Xid, flags: int) -> None:
        """End, suspend or fail the session's work in a branch."""
        await self._thread.call(partial(self._beneath.end, xid, flags))

    async def prepare(self, xid: xa.Xid) -> int:
        """Promise that the branch can be committed: XA_OK; XA_RDONLY if there is nothing to commit."""
        return await self._thread.call(partial(self._beneath.prepare, xid))

    async def commit(self, xid: xa.Xid, one_phase: bool) -> None:
        """Commit a prepared branch, or with `one_phase` one that was not prepared."""
        await self._thread.call(partial(self._beneath.commit, xid, one_phase))

    async def rollback(self, xid: xa.Xid) -> None:
        """Undo a branch."""
        await self._thread.call(partial(self._beneath.rollback, xid))

    async def recover(self, flag: int) -> Sequence[xa.Xid]:
        """Return the branches that were prepared, or settled by the operator."""
        return await self._thread.call(partial(self._beneath.recover, flag))

    async def forget(self, xid: xa.Xid) -> None:
        """Forget a branch that the operator has settled."""
        await self._thread.call(partial(self._beneath.forget, xid))

    async def get_transaction_timeout(self) -> int:
        """Return after how many seconds without an end a branch is rolled back."""
        return await self._thread.call(self._beneath.get_transaction_timeout)

    async def set_transaction_timeout(self, seconds: int) -> bool:
        """Set that, for branches that begin from now on; 0: as at first. Return whether it could be set."""
        return await self._thread.call(partial(self._beneath.set_transaction_timeout, seconds))

    def is_same_rm(self, xa_resource: XAResource) -> bool:
        """Return whether both work for the same message system, so that they can share a branch."""
        return isinstance(xa_resource, XAResource) and self._beneath.is_same_rm(xa_resource._beneath)


class XASession(Session):
    """A session whose transactions are ended through its `xa_resource` only: `commit` raises TransactionInProgressException."""

    def __init__(self, beneath: AwaitedXASession, thread: SessionThread, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(beneath, thread, loop)
        self._resource = XAResource(beneath.xa_resource, thread)

    @property
    def xa_resource(self) -> XAResource:
        """What a transaction manager calls."""
        return self._resource


class XAConnection(Connection):
    """A connection whose XA sessions a transaction manager controls (§8.6.1)."""

    def create_xa_session(self) -> Opening[XASession]:
        """Make a session that a transaction manager controls."""
        return Opening(partial(self._open, XASession, AwaitedXASession, True, Session.SESSION_TRANSACTED))
