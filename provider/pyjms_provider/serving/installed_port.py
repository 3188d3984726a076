"""Opens ports of the types that packages bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyjms.spi.errors import ProviderError
from pyjms.spi.registry import PluginError
from pyjms.spi.words import reason_of
from pyjms_provider.model.port import InstalledPort
from pyjms_provider.model.port_type import PortServices
from pyjms_provider.protocols.logins import authenticate, enter
from pyjms_provider.serving.client_ports import ListeningPort, user_name_in
from pyjms_provider.serving.guarding import GuardedConnection
from pyjms_provider.serving.hosts import ManagedHosts, check_hosts, log_open_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.management.service import ManagementService
    from pyjms_provider.model.contracts import OpenPort, PortOpener
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.protocols.engine import Peer, ProtocolEngine, TransportContext
    from pyjms_provider.protocols.hosts import HostDirectory
    from pyjms_provider.security.contracts import Authenticator, Credentials, Principal
    from pyjms_provider.security.logins import RevocationGuard
    from pyjms_provider.transport.service import NetworkService


class _Services(PortServices):
    """The services for one open port."""

    def __init__(self, port: InstalledPort, network: NetworkService, management: ManagementService) -> None:
        self._port = port
        self._network = network
        self._management = management
        self._settings = port.settings
        self._authenticator = port.authenticator()
        self._hosts = ManagedHosts(port, "")

    @property
    def name(self) -> str:
        return self._port.name

    @property
    def settings(self) -> Any:
        return self._settings

    @property
    def clock(self) -> Clock:
        return self._port.clock

    @property
    def login_timeout_ms(self) -> int:
        return self._port.chosen.login_timeout_ms

    def listen(self, make_engine: Callable[[TransportContext], ProtocolEngine]) -> OpenPort:
        return ListeningPort(self._network.open(self._port.listener_settings(), make_engine))

    def connect(
        self, credentials: Credentials | None, peer: Peer, events: ConnectionEvents, *, virtual_host: str = ""
    ) -> ProviderConnection:
        client = authenticate(self, credentials, peer)
        connection, guard = enter(
            self, client, virtual_host=virtual_host, advice="name one that does", peer=peer, events=events
        )
        return GuardedConnection(connection, guard)

    @property
    def authenticator(self) -> Authenticator:
        """Authenticates clients."""
        return self._authenticator

    @property
    def hosts(self) -> HostDirectory:
        """The virtual hosts."""
        return self._hosts

    @property
    def revocations(self) -> RevocationGuard:
        """Finds users whose connections were ended during their login."""
        return self._management.revocations

    def note_login(self, principal: Principal | None, shown: Credentials | None, address: str, reason: str) -> None:
        """Record a log-in."""
        self._management.note_client(principal, user_name_in(shown), address, self._port.name, reason)


def installed_opener(network: NetworkService, management: Callable[[ManagedObject], ManagementService]) -> PortOpener:
    """Return the opener of `InstalledPort`s on that network; `management`: audits log-ins."""

    def opener(port: ManagedObject) -> OpenPort:
        assert isinstance(port, InstalledPort)
        # Before listening: a failover client would connect to a port without a running host.
        check_hosts(port)
        services = _Services(port, network, management(port))
        try:
            opened = port.plugin.open(services)
        except (ProviderError, OSError):
            raise
        except Exception as error:
            raise PluginError(
                f"the plug-in for ports of the type {port.type!r} has failed: {reason_of(error)}; install another version of the package, or "
                f"tell its author"
            ) from error
        log_open_access(port)
        return opened

    return opener
