"""Factories of connections for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pyjms.aio.calls import call_on_thread
from pyjms.aio.connection import Connection
from pyjms.aio.contexts import Opening
from pyjms.aio.xa import XAConnection
from pyjms.runtime import factory, xa
from pyjms.runtime.connection import JmsConnection

_Made = TypeVar("_Made", bound=Connection)
_Beneath = TypeVar("_Beneath", bound=JmsConnection)


class ConnectionFactory:
    """Makes connections to the message system behind a URL. Takes what `pyjms.ConnectionFactory` takes (JMS 1.1 §4.2).

    Raises the same for a malformed URL or option. May be shared by tasks, threads and event loops.
    """

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self._factory = factory.ConnectionFactory(url, **options)

    def __repr__(self) -> str:
        return f"pyjms.aio.{self._factory!r}"

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> Opening[Connection]:
        """Make a connection, which is stopped, of the event loop that runs. Raises what `pyjms.ConnectionFactory` raises."""
        return Opening(partial(_connect, Connection, partial(self._factory.create_connection, user_name, password)))


class XAConnectionFactory(ConnectionFactory):
    """Makes XA connections, too (§8.6). Each call raises JMSException when the provider lacks `Capability.XA`."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        self._factory = self._xa_factory = xa.XAConnectionFactory(url, **options)

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> Opening[XAConnection]:
        """Make a connection whose sessions a transaction manager controls."""
        connect = partial(self._xa_factory.create_xa_connection, user_name, password)
        return Opening(partial(_connect, XAConnection, connect))


async def _connect(
    kind: Callable[[_Beneath, asyncio.AbstractEventLoop], _Made], connect: Callable[[], _Beneath]
) -> _Made:
    beneath = await call_on_thread("pyjms-aio-connect", connect, JmsConnection.close)
    return kind(beneath, asyncio.get_running_loop())
