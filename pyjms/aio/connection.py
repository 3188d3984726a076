"""Connections for asyncio (JMS 1.1 §4.3), and XA connections with their sessions (§8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, ClassVar, TypeAlias, TypeVar, overload
from weakref import WeakSet

from pyjms.aio.calls import Closing, Listening, Opening, SessionThread, call_on_thread
from pyjms.aio.session import Session
from pyjms.aio.sessions import AwaitedSession, AwaitedXASession
from pyjms.api import xa
from pyjms.api.connection import ConnectionMetaData
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.runtime.checks import exception_callback
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.session import JmsSession

ExceptionListenerLike: TypeAlias = Callable[[JMSException], Awaitable[object] | object]
"""A function or coroutine function of one exception, or an object with such an `on_exception`."""

_Session = TypeVar("_Session", bound=Session)
_SyncSession = TypeVar("_SyncSession", bound=JmsSession)


class Connection(Closing):
    """An open connection to a provider, stopped until `start`. Belongs to the event loop in which it was made."""

    def __init__(self, sync: JmsConnection, loop: asyncio.AbstractEventLoop) -> None:
        """Made by a factory."""
        self._sync = sync
        self._loop = loop
        self._exception_listener: ExceptionListenerLike | None = None
        self._threads: WeakSet[SessionThread] = WeakSet()
        self._lock = Lock()
        """Held while a thread is entered, and while all are listed: a close runs on another thread than the event loop's."""

    @overload
    def create_session(
        self, transacted: bool = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> Opening[Session]: ...

    @overload
    def create_session(self, session_mode: int) -> Opening[Session]: ...

    def create_session(self, *arguments: Any, **named: Any) -> Opening[Session]:
        """Make a session, with the arguments of `pyjms.Connection.create_session` (§4.4).

        Raises JMSException for an unknown mode; ResourceAllocationException when the system has no thread for it.
        """
        return Opening(partial(self._open, Session, AwaitedSession, *arguments, **named))

    async def _open(
        self,
        kind: Callable[[_SyncSession, SessionThread, asyncio.AbstractEventLoop], _Session],
        sync: type[_SyncSession],
        *arguments: Any,
        **named: Any,
    ) -> _Session:
        self._check_loop()
        # If the task is cancelled meanwhile, the session that was opened for it is closed again.
        made = await call_on_thread(
            "pyjms-aio-open", lambda: self._sync.open_session(sync, *arguments, **named), JmsSession.close
        )
        # The session is open already: without a thread it would never be closed.
        try:
            thread = SessionThread(f"pyjms-aio-session-{made.next_message_id()[3:]}", self._loop)
        except JMSException:
            await call_on_thread("pyjms-aio-close", made.close)
            raise
        with self._lock:
            self._threads.add(thread)
        return kind(made, thread, self._loop)

    # Settings

    @property
    def client_id(self) -> str | None:
        """The identifier of the client's durable subscriptions, or None (§4.3.2)."""
        return self._sync.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Set the client identifier: at most once, before anything else is done with the connection, and not when the factory has set it.

        Raises IllegalStateException if it is too late; InvalidClientIDException when it is invalid, or in use by another client.
        """
        await self._call("set-client-id", lambda: setattr(self._sync, "client_id", client_id))

    @property
    def meta_data(self) -> ConnectionMetaData:
        """The facts about the connection's provider."""
        return self._sync.meta_data

    @property
    def state(self) -> str:
        """The state of the connection: ``connected``, ``reconnecting``, ``lost`` or ``closed``. For health checks."""
        return self._sync.state

    @property
    def exception_listener(self) -> ExceptionListenerLike | None:
        """The function or coroutine function called for problems of the connection, one call at a time, on the event loop (§4.3.8)."""
        # The runtime's connection is asked first, as it refuses when it is closed.
        return None if self._sync.exception_listener is None else self._exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListenerLike | None) -> None:
        if listener is None:
            self._sync.exception_listener = None
        else:
            self._sync.exception_listener = Listening(
                self._loop, exception_callback(listener, awaits=True), None, _nothing
            )
        self._exception_listener = listener

    # Life cycle

    async def start(self) -> None:
        """Start, or resume, the delivery of messages (§4.3.3)."""
        await self._call("start", self._sync.start)

    async def stop(self) -> None:
        """Pause delivery; returns when running listeners have returned. Sending goes on (§4.3.4).

        Raises IllegalStateException when a listener of the connection awaits it.
        """
        self._refuse_in_listener("stop")
        await self._call("stop", self._sync.stop)

    async def close(self) -> None:
        """Close the connection and all objects made from it; a waiting `receive` returns None (§4.3.5).

        Waits for running listeners; transactions in progress are rolled back. Raises IllegalStateException when a listener of this
        connection awaits it. Goes on, if the task is cancelled. May be awaited on another event loop: the connection's may have ended.
        """
        self._refuse_in_listener("close")
        # The close has a thread of its own: each session's may be in a send that waits for capacity, which the close ends.
        await call_on_thread("pyjms-aio-close", self._close)

    def _close(self) -> None:
        try:
            self._sync.close()
        finally:
            for thread in self._all_threads():
                thread.end()

    def _refuse_in_listener(self, what: str) -> None:
        # The listener awaits this call, and this call would wait for the listener.
        if any(thread.serves_here for thread in self._all_threads()):
            raise IllegalStateException(f"a listener cannot {what} its own connection: it would wait for itself")

    def _all_threads(self) -> list[SessionThread]:
        # The lock is taken, as a set that grows while it is listed raises an error.
        with self._lock:
            return list(self._threads)

    async def _call(self, what: str, function: Callable[[], None]) -> None:
        self._check_loop()
        await call_on_thread(f"pyjms-aio-{what}", function)

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise IllegalStateException("this connection belongs to another event loop: make one in each")


def _nothing() -> None:
    """Do nothing: the listener is not called."""


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

    def __init__(self, sync: xa.XAResource, thread: SessionThread) -> None:
        """Made by a session."""
        self._sync = sync
        self._thread = thread

    async def start(self, xid: xa.Xid, flags: int) -> None:
        """Begin the session's work in a branch, join it, or resume it."""
        await self._thread.call(partial(self._sync.start, xid, flags))

    async def end(self, xid: xa.Xid, flags: int) -> None:
        """End, suspend or fail the session's work in a branch."""
        await self._thread.call(partial(self._sync.end, xid, flags))

    async def prepare(self, xid: xa.Xid) -> int:
        """Promise that the branch can be committed: XA_OK; XA_RDONLY if there is nothing to commit."""
        return await self._thread.call(partial(self._sync.prepare, xid))

    async def commit(self, xid: xa.Xid, one_phase: bool) -> None:
        """Commit a prepared branch, or with `one_phase` one that was not prepared."""
        await self._thread.call(partial(self._sync.commit, xid, one_phase))

    async def rollback(self, xid: xa.Xid) -> None:
        """Undo a branch."""
        await self._thread.call(partial(self._sync.rollback, xid))

    async def recover(self, flag: int) -> Sequence[xa.Xid]:
        """Return the branches that were prepared, or settled by the operator."""
        return await self._thread.call(partial(self._sync.recover, flag))

    async def forget(self, xid: xa.Xid) -> None:
        """Forget a branch that an operator has settled."""
        await self._thread.call(partial(self._sync.forget, xid))

    async def get_transaction_timeout(self) -> int:
        """Return after how many seconds without an end a branch is rolled back."""
        return await self._thread.call(self._sync.get_transaction_timeout)

    async def set_transaction_timeout(self, seconds: int) -> bool:
        """Set that time, for branches that begin from now on; 0: the default. Return whether it could be set."""
        return await self._thread.call(partial(self._sync.set_transaction_timeout, seconds))

    def is_same_rm(self, xa_resource: XAResource) -> bool:
        """Return whether both work for the same message system, so that they can share a branch."""
        return isinstance(xa_resource, XAResource) and self._sync.is_same_rm(xa_resource._sync)


class XASession(Session):
    """A session whose transactions are ended through its `xa_resource` only: `commit` raises TransactionInProgressException."""

    def __init__(self, sync: AwaitedXASession, thread: SessionThread, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(sync, thread, loop)
        self._resource = XAResource(sync.xa_resource, thread)

    @property
    def xa_resource(self) -> XAResource:
        """The resource for a transaction manager."""
        return self._resource


class XAConnection(Connection):
    """A connection whose XA sessions a transaction manager controls (§8.6.1)."""

    def create_xa_session(self) -> Opening[XASession]:
        """Make a session that a transaction manager controls."""
        return Opening(partial(self._open, XASession, AwaitedXASession, Session.SESSION_TRANSACTED))
