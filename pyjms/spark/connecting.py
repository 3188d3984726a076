"""Connections to the message system: opened when first needed, one per process, URL and user, and reopened after a
loss.

Spark makes readers and writers in several processes, and in some of them only to pickle them: so a connection is opened
at its first use, and a connection belongs to the process that opened it. A process that Spark kills closes nothing: the
message system notices.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TypeVar

from pyjms.spark.options import JmsOptions, OptionError
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.credentials import login_of_account
from pyjms.spi.envelope import MessageId
from pyjms.spi.errors import (
    CapabilityError,
    ClosedError,
    ConnectionLostError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
)
from pyjms.spi.provider import ConnectRequest, ProviderConnection
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

PATIENCE_MS = 30_000
"""How long a call is repeated while the message system is unreachable: about as long as a broker needs to restart."""
_PAUSE_MS = 250


class Link:
    """A process's connection of one user. Safe for any thread; calls wait for each other only while a connection is
    being opened.
    """

    def __init__(self, request: Callable[[], ConnectRequest], clock: Clock, *, patience_ms: int = PATIENCE_MS) -> None:
        self.clock = clock
        self._request = request
        self._patience_ms = patience_ms
        self._lock = Lock()
        self._connection: ProviderConnection | None = None

    def call(self, action: Callable[[ProviderConnection], _T]) -> _T:
        """Return the result of `action`, called with an open connection; if the connection is lost, call it again with
        a new one.

        So `action` must be safe to repeat. Raises what it raises; when no connection can be made for `PATIENCE_MS`, the
        reason.
        """
        until_ms = self.clock.monotonic_ms() + self._patience_ms
        while True:
            try:
                connection = self.connection()
            # A client id may still be in use by the former driver, whose connection the broker has not closed yet, so
            # this error is retried, too.
            except (ConnectionLostError, ResourceError, DuplicateClientIdError) as error:
                self._pause(error, until_ms)
                continue
            try:
                return action(connection)
            except ProviderError as error:
                # Providers report a broken connection by various errors, so the connection's state decides, too.
                if not (isinstance(error, (ClosedError, ConnectionLostError)) or connection.state != "connected"):
                    raise
                self.forget(connection)
                self._pause(error, until_ms)

    def connection(self) -> ProviderConnection:
        """Return the open connection. Raises as `Provider.connect`."""
        with self._lock:
            # Read under the lock and used outside of it: the call may take long, and
            # other threads use the same connection meanwhile.
            found = self._connection
        if found is not None:
            return found
        # Resolved for each connection, so that credentials are read again from their file.
        request = self._request()
        # Connecting takes seconds when a broker is away, so the lock is not held: two
        # threads may both connect, and one connection is closed.
        made = find_provider(request.url.scheme).connect(request, _Events())
        with self._lock:
            if self._connection is None:
                self._connection = made
                return made
            found = self._connection
        made.close()
        return found

    def forget(self, connection: ProviderConnection) -> None:
        """Close a connection that has failed; the next call opens another one."""
        with self._lock:
            # Another thread may have noticed the same loss and made a new connection already, which must stay.
            if self._connection is connection:
                self._connection = None
        _close(connection)

    def close(self) -> None:
        """Close the connection. May be repeated; a later call opens another one."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            _close(connection)

    def _pause(self, error: ProviderError, until_ms: float) -> None:
        """Wait a little, or raise `error` when the time limit is over."""
        # The monotonic clock: a change of the wall clock would end the attempts early, or never.
        now_ms = self.clock.monotonic_ms()
        if now_ms >= until_ms:
            raise error
        _log.info("trying again: %s", error.reason)
        self.clock.wait(Signal(), min(now_ms + _PAUSE_MS, until_ms))


def _close(connection: ProviderConnection) -> None:
    try:
        connection.close()
    except ProviderError as error:
        _log.info("a connection is left: %s", error.reason)


class _Events:
    """Logs problems of a connection: the call that fails reports them, or the next one."""

    def on_exception(self, error: ProviderError) -> None:
        _log.info("connection: %s", error.reason)


@dataclass(frozen=True, slots=True)
class _Key:
    pid: int
    url: str
    credentials: str | None
    client_id: str | None


_links: dict[_Key, Link] = {}
_lock = Lock()


def link_of(options: JmsOptions, *, with_client_id: bool = False) -> Link:
    """Return this process's link to the message system of `options`; nothing is opened yet.

    with_client_id: the connection uses the client id, as a durable subscription requires; only one connection may have
    it.
    """
    # A connection with the client id is one of its own: only one may exist at
    # the broker, and workers connect beside it.
    client_id = options.client_id if with_client_id else None
    # The process is part of the key: PySpark's daemon forks its workers, which inherit this table.
    key = _Key(os.getpid(), options.url, options.credentials, client_id)
    with _lock:
        found = _links.get(key)
        if found is None:  # a parent process's links stay untouched here: their sockets are the parent's
            found = _links[key] = Link(lambda: _request(options, client_id), SystemClock())
    return found


def close_links() -> None:
    """Close all connections of this process; later calls open others."""
    pid = os.getpid()
    with _lock:
        mine = [link for key, link in _links.items() if key.pid == pid]
    # Closed outside of the lock: a close waits for the broker.
    for link in mine:
        link.close()


def _request(options: JmsOptions, client_id: str | None) -> ConnectRequest:
    url = ProviderUrl.parse(options.url)
    user_name, password = read_credentials(options.credentials)
    if options.credentials is None:  # those of the account that runs the driver, or this executor
        user_name, password = login_of_account(find_provider(url.scheme), url)
    return ConnectRequest(
        url=url,
        user_name=user_name,
        password=password,
        client_id=client_id,
        clock=SystemClock(),
    )


def read_credentials(place: str | None) -> tuple[str | None, str | None]:
    """Return user name and password from ``file:PATH`` or ``env:VARIABLE``. Raises `OptionError`, which shows neither."""
    if place is None:
        return None, None
    where, _, name = place.partition(":")
    if where == "file":
        try:
            lines = Path(name).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(
                f"credentials={place}: {type(error).__name__}; the file must be readable on every machine that runs this job"
            ) from None
        if len(lines) < 2:
            raise OptionError(
                f"credentials={place}: write the user's name in the first line, the password in the second"
            )
        return lines[0], lines[1]
    # `partition` cuts at the first colon, so that passwords may contain more of them.
    user_name, colon, password = os.environ.get(name, "").partition(":")
    if not colon:
        raise OptionError(
            f"credentials={place}: set the variable {name} to USER:PASSWORD on the driver and on every executor "
            f"(spark.executorEnv.{name})"
        )
    return user_name, password


def require(connection: ProviderConnection, capability: Capability, remedy: str) -> None:
    """Raise `CapabilityError` with `remedy` when the connection lacks the capability."""
    if capability not in connection.capabilities:
        advice = connection.advice(capability)
        raise CapabilityError(
            f"{connection.info.name} lacks Capability.{capability.name}{f' ({advice})' if advice else ''}: {remedy}"
        )


class MessageIds:
    """Generates JMSMessageIDs, as a session of the runtime does (JMS 1.1 §3.4.3)."""

    _numbers = count(1)

    def __init__(self, connection: ProviderConnection) -> None:
        # Several tasks of one process share a connection, so each maker has a number of its own.
        self._prefix = f"ID:{connection.connection_id}:spark-{os.getpid()}-{next(self._numbers)}:"
        self._count = count(1)

    def next(self) -> MessageId:
        """Return an id that no other message of this message system has."""
        return MessageId(self._prefix + str(next(self._count)))
