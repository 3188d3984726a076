"""Opens ports for STOMP clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.words import installed_version
from pyjms_provider.model.port import StompPort, StompPortAttributes
from pyjms_provider.protocols.stomp.server.service import StompService
from pyjms_provider.protocols.stomp.server.settings import StompSettings
from pyjms_provider.security.contracts import PasswordCredentials
from pyjms_provider.security.logins import RevocationGuard
from pyjms_provider.serving.hosts import ManagedHosts, check_hosts, log_open_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.management.service import ManagementService
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.contracts import Credentials, Principal
    from pyjms_provider.transport.listener import Listener
    from pyjms_provider.transport.service import NetworkService
    from pyjms_provider.transport.settings import TlsSettings


class ListeningPort:
    """Implements `OpenPort` with a listener."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its addresses, as URLs."""
        return self.listener.urls

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self.listener.connection_count

    def reload_certificates(self, tls: TlsSettings) -> None:
        """Use the certificates that `tls` names for connections from now on. Raises `ListenerSettingsError`: then nothing changes."""
        self.listener.reload_tls(tls)

    def close(self, *, lingers: bool = False) -> None:
        """Stop listening, and end its connections."""
        self.listener.close()


def stomp_opener(
    network: NetworkService,
    synthetic: EmbeddedBroker | None = None,
    management: Callable[[ManagedObject], ManagementService] | None = None,
) -> Callable[[ManagedObject], ListeningPort]:
    """Return the opener of a `StompPort` on that network.

    `synthetic`: a virtual host that is not in the tree; `management`: audits log-ins.
    """

    def opener(port: ManagedObject) -> ListeningPort:
        assert isinstance(port, StompPort)
        # Before listening: a failover client would connect to a port without a running host.
        check_hosts(port)

        def note_login(principal: Principal | None, shown: Credentials | None, address: str, reason: str) -> None:
            if management is not None:
                management(port).note_client(principal, user_name_in(shown), address, port.name, reason)

        chosen = port.chosen
        assert isinstance(chosen, StompPortAttributes)
        service = StompService(
            clock=port.clock,
            authenticator=port.authenticator(),
            hosts=ManagedHosts(port, chosen.default_host, synthetic),
            settings=StompSettings(
                server_name=f"pyjms/{installed_version()}",
                login_timeout_ms=chosen.login_timeout_ms,
                heart_beat_ms=chosen.heart_beat_ms,
                prefetch=chosen.prefetch,
            ),
            note_login=note_login,
            revocations=RevocationGuard() if management is None else management(port).revocations,
        )
        opened = ListeningPort(network.open(port.listener_settings(), service.engine))
        log_open_access(port)
        return opened

    return opener


def user_name_in(shown: Credentials | None) -> str:
    """Return the user name in the credentials; "" where they have none."""
    return shown.user_name if isinstance(shown, PasswordCredentials) else ""
