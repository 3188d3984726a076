"""Opens ports of the types that packages bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyjms.spi.errors import AccessDeniedError, ProviderError, ResourceError
from pyjms.spi.registry import PluginError
from pyjms.spi.words import reason_of
from pyjms_provider.model.port import InstalledPort
from pyjms_provider.model.port_type import PortServices
from pyjms_provider.protocols.stomp.server.hosts import Guard
from pyjms_provider.security.contracts import PasswordCredentials
from pyjms_provider.security.logins import RevocationGuard
from pyjms_provider.serving.guarding import GuardedConnection
from pyjms_provider.serving.hosts import ManagedHosts, check_hosts, log_open_access
from pyjms_provider.serving.stomp_port import ListeningPort

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.management.service import ManagementService
    from pyjms_provider.model.contracts import OpenPort, PortOpener
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.protocols.engine import Peer, ProtocolEngine, TransportContext
    from pyjms_provider.security.contracts import Credentials, Principal
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
        try:
            principal, connection = self._connect(credentials, peer, events, virtual_host)
        except AccessDeniedError as error:
            self._note(None, credentials, peer, error.reason)
            raise
        self._note(principal, credentials, peer, "")
        return connection

    def _connect(
        self, credentials: Credentials | None, peer: Peer, events: ConnectionEvents, virtual_host: str
    ) -> tuple[Principal, ProviderConnection]:
        host = self._hosts.find(virtual_host)
        if host is None:
            missing = f"there is no virtual host {virtual_host!r} here" if virtual_host else "no virtual host is named"
            raise ResourceError(f"{missing}, or it does not run; name one that does")
        revocations: RevocationGuard = self._management.revocations
        # Before the check of the password: `check` finds a user who is shut out after this.
        mark = revocations.mark
        principal = self._authenticator.authenticate(credentials, peer=peer.address)
        connection = host.connect(events, principal=principal, address=peer.address)
        try:
            revocations.check(principal, mark)
            guard = Guard(principal, host, connection.connection_id)
            guard.enter()
        except Exception:
            connection.close()
            raise
        return principal, GuardedConnection(connection, guard)

    def _note(self, principal: Principal | None, shown: Credentials | None, peer: Peer, reason: str) -> None:
        user_name = shown.user_name if isinstance(shown, PasswordCredentials) else ""
        self._management.note_client(principal, user_name, peer.address, self._port.name, reason)


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
