"""Factories of connections and contexts for asyncio (JMS 1.1 §4.2, JMS 2.0 §2.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from pyjms.aio.calls import Opening, call_on_thread
from pyjms.aio.connection import Connection, XAConnection
from pyjms.aio.context import JMSContext, XAJMSContext, open_context
from pyjms.aio.sessions import AwaitedContext, AwaitedXAContext
from pyjms.api.session import AcknowledgeMode
from pyjms.runtime import factory
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.xa import XAConnectionFactory as SyncXAConnectionFactory

_Made = TypeVar("_Made", bound=Connection)
_SyncConnection = TypeVar("_SyncConnection", bound=JmsConnection)


class ConnectionFactory:
    """Makes connections to the message system behind a URL, with the arguments of `pyjms.ConnectionFactory` (JMS 1.1 §4.2).

    Raises the same for a malformed URL or option. May be shared by tasks, threads and event loops.
    """

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self._factory = factory.ConnectionFactory(url, **options)

    def __repr__(self) -> str:
        return f"pyjms.aio.{self._factory!r}"

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> Opening[Connection]:
        """Make a connection, which is stopped, for the running event loop. Raises the errors of `pyjms.ConnectionFactory`."""
        return Opening(partial(_connect, Connection, partial(self._factory.create_connection, user_name, password)))

    @overload
    def create_context(self, session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE) -> Opening[JMSContext]: ...

    @overload
    def create_context(
        self,
        user_name: str | None,
        password: str | None = None,
        session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE,
    ) -> Opening[JMSContext]: ...

    def create_context(self, *arguments: Any, **named: Any) -> Opening[JMSContext]:
        """Make a context, with the arguments and errors of `pyjms.ConnectionFactory.create_context`, for the running event loop."""
        make = partial(self._factory.open_context, AwaitedContext, *arguments, **named)
        return Opening(partial(open_context, JMSContext, make))


class XAConnectionFactory(ConnectionFactory):
    """Makes XA connections, too (§8.6). Each call raises JMSException when the provider lacks `Capability.XA`."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        # One factory makes both kinds of connections: the XA one makes plain ones, too.
        self._factory = self._xa_factory = SyncXAConnectionFactory(url, **options)

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> Opening[XAConnection]:
        """Make a connection whose sessions a transaction manager controls."""
        connect = partial(self._xa_factory.create_xa_connection, user_name, password)
        return Opening(partial(_connect, XAConnection, connect))

    def create_xa_context(self, user_name: str | None = None, password: str | None = None) -> Opening[XAJMSContext]:
        """Make a context that a transaction manager controls."""
        make = partial(self._xa_factory.open_xa_context, AwaitedXAContext, user_name, password)
        return Opening(partial(open_context, XAJMSContext, make))


async def _connect(
    kind: Callable[[_SyncConnection, asyncio.AbstractEventLoop], _Made], connect: Callable[[], _SyncConnection]
) -> _Made:
    sync = await call_on_thread("pyjms-aio-connect", connect, JmsConnection.close)
    return kind(sync, asyncio.get_running_loop())
