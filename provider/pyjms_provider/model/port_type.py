"""The contract of packages that bring a protocol, with the type of the ports that speak it.

A package registers a class as an entry point of the group ``pyjms.ports``; the name of the entry point is the type of the port, as operators write
it. The class is constructed without arguments; it is called by any thread, also by several at once, as a broker may have several such ports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyjms_provider.security.settings import NoSettings

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.model.contracts import OpenPort
    from pyjms_provider.protocols.engine import Peer, ProtocolEngine, TransportContext
    from pyjms_provider.security.contracts import Credentials

PORT_GROUP: Final = "pyjms.ports"


class PortServices(ABC):
    """What a broker does for one open port of a package's type. Any thread."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the port."""

    @property
    @abstractmethod
    def settings(self) -> Any:
        """The settings of the plug-in, an object of `PortType.settings`."""

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    @abstractmethod
    def login_timeout_ms(self) -> int:
        """How long a client may take to log in. The engine sees to it, as only it knows when a client has."""

    @abstractmethod
    def listen(self, make_engine: Callable[[TransportContext], ProtocolEngine]) -> OpenPort:
        """Open the listener that the port's attributes describe: address, TCP, TLS or WebSocket, limits.

        `make_engine` is called for each connection, on the thread of the network, and must not wait. Raises `ResourceError`.
        """

    @abstractmethod
    def connect(
        self, credentials: Credentials | None, peer: Peer, events: ConnectionEvents, *, virtual_host: str = ""
    ) -> ProviderConnection:
        """Log a client in by the port's authentication providers, and return its connection to a virtual host, "" being the default one.

        Each call of the connection, its sessions and consumers is checked by the port's access control. `credentials`: None if the client sent
        none. May wait: call it by `TransportContext.work`, as all calls of the connection that may. The engine closes the connection, by the
        same way, when its own has ended.

        Raises `AccessDeniedError`, `ResourceError`, `ClosedError`.
        """


class PortType(ABC):
    """A type of ports: an entry point of the group ``pyjms.ports``."""

    title: ClassVar[str] = ""
    """What it is, for operators."""
    scheme: ClassVar[str] = ""
    """The scheme of its addresses, with an ``s`` for TLS; empty: the name of the entry point."""
    settings: ClassVar[type[Any]] = NoSettings
    """A frozen dataclass whose fields, each a `setting`, are attributes of the port beside those that every port has."""

    @abstractmethod
    def open(self, services: PortServices) -> OpenPort:
        """Open a port: most do it by `services.listen`. Called when the port is opened, started or restarted.

        Raises `ProviderError` or `OSError`: the port is ERRORED then, and has left nothing behind.
        """
