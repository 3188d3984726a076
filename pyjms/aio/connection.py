"""A connection for asyncio (JMS 1.1 §4.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Lock
from typing import TypeAlias, TypeVar
from weakref import WeakSet

from pyjms.aio.calls import SessionThread, call_on_thread
from pyjms.aio.contexts import Closing, Opening
from pyjms.aio.serving import Listening
from pyjms.aio.session import Session
from pyjms.aio.sessions import AwaitedSession
from pyjms.api.connection import ConnectionMetaData
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.listeners import exception_callback
from pyjms.runtime.session import JmsSession

ExceptionListenerLike: TypeAlias = Callable[[JMSException], Awaitable[object] | object]
"""A function or coroutine function of one exception, or an object with such an `on_exception`."""

_Session = TypeVar("_Session", bound=Session)
_Beneath = TypeVar("_Beneath", bound=JmsSession)


class Connection(Closing):
    """An open connection to a provider, stopped until `start`. Belongs to the event loop in which it was made."""

    def __init__(self, beneath: JmsConnection, loop: asyncio.AbstractEventLoop) -> None:
        """Made by a factory."""
        self._beneath = beneath
        self._loop = loop
        self._exception_listener: ExceptionListenerLike | None = None
        self._threads: WeakSet[SessionThread] = WeakSet()
        self._lock = Lock()
        """Held while a thread is entered, and while all are listed: who closes does so beside the event loop."""

    def create_session(
        self, transacted: bool = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> Opening[Session]:
        """Make a session. `acknowledge_mode` is one of `AcknowledgeMode`, ignored if `transacted` (§4.4).

        Raises JMSException for any other mode; ResourceAllocationException when the system has no thread for it.
        """
        return Opening(partial(self._open, Session, AwaitedSession, transacted, acknowledge_mode))

    async def _open(
        self,
        kind: Callable[[_Beneath, SessionThread, asyncio.AbstractEventLoop], _Session],
        beneath: type[_Beneath],
        transacted: bool,
        mode: int,
    ) -> _Session:
        self._check_loop()
        made = await call_on_thread(
            "pyjms-aio-open", lambda: self._beneath.open_session(beneath, transacted, mode), JmsSession.close
        )
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
        """The identifier that the client's durable subscriptions belong to, or None (§4.3.2)."""
        return self._beneath.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Set it: at most once, before anything else is done with the connection, and not when the factory has set it.

        Raises IllegalStateException if it is too late; InvalidClientIDException when it is none, or in use by another client.
        """
        await self._call("set-client-id", lambda: setattr(self._beneath, "client_id", client_id))

    @property
    def meta_data(self) -> ConnectionMetaData:
        """What this connection knows of its provider."""
        return self._beneath.meta_data

    @property
    def state(self) -> str:
        """Where the connection is: ``connected``, ``reconnecting``, ``lost`` or ``closed``. For health checks."""
        return self._beneath.state

    @property
    def exception_listener(self) -> ExceptionListenerLike | None:
        """What is told of the connection's problems, one call at a time, on the event loop (§4.3.8): a function or coroutine function."""
        return None if self._beneath.exception_listener is None else self._exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListenerLike | None) -> None:
        if listener is None:
            self._beneath.exception_listener = None
        else:
            self._beneath.exception_listener = Listening(
                self._loop, exception_callback(listener, awaits=True), None, _nothing
            )
        self._exception_listener = listener

    # Life

    async def start(self) -> None:
        """Begin, or go on, to deliver messages (§4.3.3)."""
        await self._call("start", self._beneath.start)

    async def stop(self) -> None:
        """Pause delivery; returns when running listeners have returned. Sending goes on (§4.3.4).

        Raises IllegalStateException when a listener of the connection awaits it.
        """
        self._refuse_in_listener("stop")
        await self._call("stop", self._beneath.stop)

    async def close(self) -> None:
        """End the connection with all that was made from it; a `receive` that waits returns None (§4.3.5).

        Waits for running listeners; transactions in progress are rolled back. Raises IllegalStateException when a listener of this
        connection awaits it. Goes on, if the task is cancelled. May be awaited on another event loop: the connection's may have ended.
        """
        self._refuse_in_listener("close")
        await call_on_thread("pyjms-aio-close", self._close)

    def _close(self) -> None:
        try:
            self._beneath.close()
        finally:
            for thread in self._all_threads():
                thread.end()

    def _refuse_in_listener(self, what: str) -> None:
        if any(thread.serves_here for thread in self._all_threads()):
            raise IllegalStateException(f"a listener cannot {what} its own connection: it would wait for itself")

    def _all_threads(self) -> list[SessionThread]:
        with self._lock:
            return list(self._threads)

    async def _call(self, what: str, function: Callable[[], None]) -> None:
        self._check_loop()
        await call_on_thread(f"pyjms-aio-{what}", function)

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise IllegalStateException("this connection belongs to another event loop: make one in each")


def _nothing() -> None:
    """Nobody is left to be told."""
