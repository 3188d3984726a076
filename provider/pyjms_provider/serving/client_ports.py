"""Opens ports for STOMP and AMQP clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.words import installed_version
from pyjms_provider.model.port import AmqpPort, AmqpPortAttributes, Protocol, StompPort, StompPortAttributes
from pyjms_provider.protocols.amqp.server.service import AmqpService
from pyjms_provider.protocols.amqp.server.settings import AmqpSettings
from pyjms_provider.protocols.engine import ChoosingEngine
from pyjms_provider.protocols.stomp.server.service import StompService
from pyjms_provider.protocols.stomp.server.settings import StompSettings
from pyjms_provider.security.contracts import (
    Credentials,
    PasswordCredentials,
)
from pyjms_provider.security.logins import RevocationGuard
from pyjms_provider.serving.hosts import ManagedHosts, check_hosts, log_open_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.management.service import ManagementService
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.protocols.engine import ProtocolEngine, TransportContext
    from pyjms_provider.security.contracts import Principal
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


def client_opener(
    network: NetworkService,
    synthetic: EmbeddedBroker | None = None,
    management: Callable[[ManagedObject], ManagementService] | None = None,
) -> Callable[[ManagedObject], ListeningPort]:
    """Return the opener of ports for STOMP and AMQP clients on that network.

    `synthetic`: a virtual host that is not in the tree; `management`: audits log-ins.
    """

    def opener(port: ManagedObject) -> ListeningPort:
        assert isinstance(port, StompPort | AmqpPort)
        # Before listening: a failover client would connect to a port without a running host.
        check_hosts(port)
        make_engine = _engines(_Login(port, synthetic, None if management is None else management(port)))
        opened = ListeningPort(network.open(port.listener_settings(), make_engine))
        log_open_access(port)
        return opened

    return opener


class _Login:
    """What a port's services need to log clients in."""

    def __init__(
        self, port: StompPort | AmqpPort, synthetic: EmbeddedBroker | None, management: ManagementService | None
    ) -> None:
        chosen = port.chosen
        assert isinstance(chosen, StompPortAttributes)
        self.port = port
        self.chosen = chosen
        self.authenticator = port.authenticator()
        self.hosts = ManagedHosts(port, chosen.default_host, synthetic)
        self.revocations = RevocationGuard() if management is None else management.revocations
        self._management = management

    def note_login(self, principal: Principal | None, shown: Credentials | None, address: str, reason: str) -> None:
        """Record a log-in."""
        if self._management is not None:
            self._management.note_client(principal, user_name_in(shown), address, self.port.name, reason)


def _engines(login: _Login) -> Callable[[TransportContext], ProtocolEngine]:
    """Return what makes the engine of a connection at a port."""
    chosen = login.chosen
    protocols = chosen.protocols if isinstance(chosen, AmqpPortAttributes) else [Protocol.STOMP]
    stomp = _stomp_service(login, chosen).engine
    if not isinstance(chosen, AmqpPortAttributes) or Protocol.AMQP not in protocols:
        return stomp
    amqp = _amqp_service(login, chosen).engine
    return amqp if Protocol.STOMP not in protocols else lambda transport: ChoosingEngine(transport, amqp, stomp)


def _stomp_service(login: _Login, chosen: StompPortAttributes) -> StompService:
    return StompService(
        clock=login.port.clock,
        authenticator=login.authenticator,
        hosts=login.hosts,
        settings=StompSettings(
            server_name=f"pyjms/{installed_version()}",
            login_timeout_ms=chosen.login_timeout_ms,
            heart_beat_ms=chosen.heart_beat_ms,
            prefetch=chosen.prefetch,
        ),
        note_login=login.note_login,
        revocations=login.revocations,
    )


def _amqp_service(login: _Login, chosen: AmqpPortAttributes) -> AmqpService:
    return AmqpService(
        clock=login.port.clock,
        authenticator=login.authenticator,
        hosts=login.hosts,
        settings=AmqpSettings(
            container_id="pyjms" if login.port.parent is None else login.port.parent.name,
            version=installed_version(),
            login_timeout_ms=chosen.login_timeout_ms,
            idle_timeout_ms=chosen.idle_timeout_ms,
            frame_bytes_max=chosen.max_frame_bytes,
            message_bytes_max=chosen.max_message_bytes,
            sessions_max=chosen.max_sessions,
            links_max=chosen.max_links,
        ),
        note_login=login.note_login,
        revocations=login.revocations,
    )


def user_name_in(shown: Credentials | None) -> str:
    """Return the user name in the credentials; "" where they have none."""
    return shown.user_name if isinstance(shown, PasswordCredentials) else ""
