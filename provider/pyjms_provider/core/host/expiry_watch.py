"""Who is told of the messages of a host that expire: connections that asked for it when they were made."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from pyjms.spi.provider import ExpiredMessage

if TYPE_CHECKING:
    from pyjms.spi.envelope import ConnectionId, Envelope
    from pyjms_provider.core.queue.dead_letters import DeadEntry

OnExpired: TypeAlias = Callable[[ExpiredMessage], None]
"""What a connection asks to be called, as `ConnectRequest` has it."""


class ExpiryWatch:
    """Safe to use from any thread. The lock is innermost; nobody is told under it."""

    __slots__ = ("_first", "_lock", "_tells", "_wanted")

    def __init__(self) -> None:
        self._lock = Lock()
        self._first: OnExpired | None = None
        self._wanted: dict[ConnectionId, OnExpired] = {}
        self._tells: tuple[OnExpired, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether anybody is told. May be read at any time, with a lock held."""
        return bool(self._tells)

    def add_first(self, tell: OnExpired) -> None:
        """Have the connection told for which the broker is started: what expired before is found before it is there."""
        with self._lock:
            self._first = tell
            self._arrange()

    def add(self, connection_id: ConnectionId, tell: OnExpired) -> None:
        """Have a connection told from now on."""
        with self._lock:
            self._wanted[connection_id] = tell
            if tell == self._first:
                self._first = None
            self._arrange()

    def remove(self, connection_id: ConnectionId) -> None:
        """Tell a connection no longer. May be repeated."""
        with self._lock:
            if self._wanted.pop(connection_id, None) is not None:
                self._arrange()

    def _arrange(self) -> None:
        """Have each callable called once, whoever asked for it. The lock is held."""
        wanted = dict.fromkeys(self._wanted.values())
        if self._first is not None:
            wanted[self._first] = None
        self._tells = tuple(wanted)

    def notify(self, dead: DeadEntry, envelope: Envelope) -> None:
        """Tell of a message that has expired. No lock may be held."""
        named = dead.subscription  # such as topic://prices#client/name
        expired = ExpiredMessage(
            message_id=envelope.message_id,
            destination=envelope.destination,
            subscription=None if named is None else named.removeprefix(f"{envelope.destination}#"),
            expiration_ms=envelope.expiration_ms,
            at_ms=dead.at_ms,
        )
        for tell in self._tells:
            tell(expired)
