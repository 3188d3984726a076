"""The broker in this process, and the register of those that run, by name."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count
from threading import Lock

from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import ClosedError, ConnectionLostError, ResourceError
from pyjms_provider.core.virtual_host import HostPolicy, VirtualHost
from pyjms_provider.housekeeping import Housekeeper
from pyjms_provider.stores.memory import MemoryMessageStore

__all__ = ["EmbeddedBroker", "find_broker", "running_broker", "stop_broker"]


class EmbeddedBroker:
    """A broker that lives in this process, from its first connection until `stop`. Safe to use from any thread."""

    def __init__(self, name: str, clock: Clock, policy: HostPolicy | None = None) -> None:
        self.name = name
        self.clock = clock
        # Ids stay unique when a broker of the same name is started anew, here or elsewhere.
        self._run_id = uuid.uuid4().hex[:12]
        self._numbers = count(1)
        self._housekeeper = Housekeeper(name, clock)
        self.virtual_host = VirtualHost(
            name, MemoryMessageStore(f"{name}-{self._run_id}"), clock, policy=policy, on_due=self._housekeeper.ask
        )
        self._lock = Lock()
        self._stopped = False
        self._on_stop: dict[ConnectionId, Callable[[ConnectionLostError], None]] = {}

    def __repr__(self) -> str:
        return f"<EmbeddedBroker {self.name}>"

    def attach(self, lose: Callable[[ConnectionLostError], None]) -> ConnectionId:
        """Register a connection, which `lose` ends when the broker stops; return its id. Raises `ClosedError`."""
        connection_id = ConnectionId(f"{self.name}-{self._run_id}-{next(self._numbers)}")
        with self._lock:
            if self._stopped:
                raise ClosedError(f"broker {self.name} has been stopped")
            self._on_stop[connection_id] = lose
        return connection_id

    def detach(self, connection_id: ConnectionId) -> None:
        """Forget a connection that has closed. May be repeated."""
        with self._lock:
            self._on_stop.pop(connection_id, None)

    def stop(self) -> None:
        """End all connections, which are told once, and let all messages go. May be repeated."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            connections = list(self._on_stop.values())
            self._on_stop.clear()
        for lose in connections:
            lose(ConnectionLostError(f"broker {self.name} was stopped, and its messages are gone"))
        self._housekeeper.stop()
        self.virtual_host.close()


_lock = Lock()
_running: dict[str, EmbeddedBroker] = {}


def find_broker(name: str, clock: Clock, policy: HostPolicy | None) -> EmbeddedBroker:
    """Return the broker `name`, started now if it does not run. `policy` None: whatever it has, or the default.

    A broker keeps the clock and the policy with which it was started: `ResourceError` for another policy, or for another
    clock that is not simply the system's.
    """
    with _lock:
        broker = _running.get(name)
        if broker is None:
            broker = _running[name] = EmbeddedBroker(name, clock, policy)
            return broker
    if clock is not broker.clock and not isinstance(clock, SystemClock):
        raise ResourceError(
            f"broker {name} runs by another clock; stop it first, or connect with the clock that it was started with"
        )
    if policy is not None and policy != broker.virtual_host.policy:
        raise ResourceError(f"broker {name} runs with other options than the URL's; stop it first, or leave them out")
    return broker


def running_broker(name: str) -> EmbeddedBroker | None:
    """Return the broker `name` if it runs."""
    with _lock:
        return _running.get(name)


def stop_broker(name: str) -> None:
    """Stop the broker `name`; the next connection starts a new one. Does nothing if it does not run."""
    with _lock:
        broker = _running.pop(name, None)
    if broker is not None:
        broker.stop()
