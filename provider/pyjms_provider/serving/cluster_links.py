"""The link ports of a cluster's members, and the connections between them: native STOMP, with the secret of the cluster."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pyjms.spi.provider import ConnectRequest
from pyjms.spi.url import ProviderUrl
from pyjms.spi.words import installed_version
from pyjms_provider.clients.network.endpoints import Endpoint, TlsFiles
from pyjms_provider.clients.network.failover import FailoverState
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.clients.stomp.options import StompSettings as ClientSettings
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.server.service import StompService
from pyjms_provider.protocols.stomp.server.settings import StompSettings
from pyjms_provider.security.access import Everything
from pyjms_provider.security.contracts import (
    Authenticator,
    Credentials,
    PasswordCredentials,
    Principal,
    wrong_credentials,
)
from pyjms_provider.serving.hosts import EmbeddedHost
from pyjms_provider.transport.service import NetworkService
from pyjms_provider.transport.settings import ClientCertificates, ListenerSettings, TlsSettings

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.clients.stomp.failover import StompFailoverConnection
    from pyjms_provider.cluster.links import LinkRequest
    from pyjms_provider.cluster.settings import ClusterSettings, LinkSettings, LinkTls
    from pyjms_provider.transport.listener import Listener

_LINK: Final = "link"
"""The protocol of other members' connections, as observers see it."""
_CONNECT_MS: Final = 2_000
"""How long one link port may take to answer: a stopped member takes connections, and says nothing."""
_HEART_BEAT_MS: Final = 5_000
_RECONNECT_MS: Final = 100
"""Long, as the member tells its links of the next leader: until then each attempt takes time from the members that make one."""
_RECONNECT_MAX_MS: Final = 500
_SUBSCRIPTIONS_MAX: Final = 1_000_000
_SESSIONS_MAX: Final = 100_000


def start_member(
    settings: ClusterSettings, clock: Clock, network: NetworkService | None = None, cancelled: Signal | None = None
) -> ClusterMember:
    """Start a member of a cluster.

    Args:
        settings: Its settings.
        clock: For all waits.
        network: The service for its link port; None: one of its own.
        cancelled: Ends the wait for the database when it is raised.

    Raises as `ClusterMember`.
    """
    return ClusterMember(settings, clock, ClusterLinks(settings.name, network), cancelled=cancelled)


class ClusterLinks:
    """Implements `cluster.links.Links`."""

    def __init__(self, name: str, network: NetworkService | None) -> None:
        """`name`: that of the cluster, for threads; `network`: see `start_member`."""
        self._name = name
        self._network = network

    def listen(
        self, settings: LinkSettings, find: Callable[[str], EmbeddedBroker | None], secret: str, clock: Clock
    ) -> OpenLinkPort:
        """Open the link port. Raises `ResourceError`, `ListenerSettingsError`."""
        service = StompService(
            clock=clock,
            authenticator=_SecretAuthenticator(secret),
            hosts=_LedHosts(find),
            settings=StompSettings(
                server_name=f"pyjms/{installed_version()}",
                subscriptions_max=_SUBSCRIPTIONS_MAX,
                sessions_max=_SESSIONS_MAX,
            ),
        )
        own = None if self._network is not None else NetworkService(f"links of {self._name}", clock=clock)
        network = self._network or own
        assert network is not None, "it is the given one, or its own"
        try:
            network.start()
            listener = network.open(
                ListenerSettings(
                    host=settings.host,
                    port=settings.port,
                    tls=None if settings.tls is None else _server_tls(settings.tls),
                    max_connections=None,
                ),
                service.engine,
            )
        except Exception:
            if own is not None:
                own.stop()
            raise
        return OpenLinkPort(listener, own)

    def connect_here(self, broker: EmbeddedBroker, events: ConnectionEvents) -> ProviderConnection:
        """Connect to a broker of this process. Raises `ClosedError` if it has stopped."""
        return VmConnection(broker, events)

    def consuming(self, broker: EmbeddedBroker) -> set[str | None]:
        """Return the names of the members whose clients consume from a broker of this process; None: those of this member."""
        return {
            each.user if each.protocol == _LINK else None
            for each in broker.clients().values()
            if isinstance(each.handle, VmConnection) and _has_consumers(each.handle)
        }

    def connect(
        self, request: LinkRequest, clock: Clock, events: ConnectionEvents
    ) -> tuple[ProviderConnection, OpenLink]:
        """Open a link. Raises `ResourceError` if no link port has the broker now."""
        tls = request.tls
        settings = ClientSettings(
            scheme="stomp" if tls is None else "stomps",
            endpoints=tuple(map(_endpoint, request.addresses)),
            tls=None if tls is None else _client_tls(tls),
            connect_timeout_ms=_CONNECT_MS,
            timeout_ms=request.timeout_ms,
            reconnect_delay_ms=_RECONNECT_MS,
            reconnect_delay_max_ms=_RECONNECT_MAX_MS,
            reconnect_attempts=request.attempts,
            dialect=PYJMS.name,
            virtual_host=request.broker,
            heart_beat_ms=_HEART_BEAT_MS,
        )
        asked = ConnectRequest(
            url=ProviderUrl.parse(f"{settings.scheme}://{settings.endpoints[0]}"),
            user_name=request.member,
            password=request.secret,
            client_id=None,
            clock=clock,
        )
        connection = NativeConnection(settings, asked, events)
        return connection, OpenLink(connection)


class OpenLinkPort:
    """Implements `cluster.links.LinkPort`."""

    def __init__(self, listener: Listener, network: NetworkService | None) -> None:
        """`network`: the service that ends with the port; None: it goes on."""
        self._listener = listener
        self._network = network

    @property
    def port(self) -> int:
        """The number of the port at which it listens."""
        return self._listener.port

    def reload_certificates(self, tls: LinkTls) -> None:
        """Use the present content of these files for new connections. Raises `ListenerSettingsError`: then nothing changes."""
        self._listener.reload_tls(_server_tls(tls))

    def close(self) -> None:
        """Stop listening, and end its connections."""
        self._listener.close()
        if self._network is not None:
            self._network.stop()


class OpenLink:
    """Implements `cluster.links.Link`."""

    def __init__(self, connection: NativeConnection) -> None:
        self._connection = connection

    @property
    def _failover(self) -> StompFailoverConnection:
        return self._connection.link

    @property
    def is_over(self) -> bool:
        """Whether it is closed or lost for good."""
        return self._failover.state in (FailoverState.CLOSED, FailoverState.LOST)

    @property
    def is_connected(self) -> bool:
        """Whether it is connected now."""
        return self._failover.state is FailoverState.CONNECTED

    def add(self, addresses: Sequence[str]) -> None:
        """Try other link ports as well from now on."""
        self._failover.add_endpoints([_endpoint(each) for each in addresses])

    def redirect(self, address: str) -> None:
        """Connect to another link port now, unless the link is connected to that already."""
        endpoint = _endpoint(address)
        self._failover.go_to(endpoint, f"another member leads the shard now, at {endpoint}")

    def close(self) -> None:
        """End it."""
        self._connection.close()


class _SecretAuthenticator(Authenticator):
    """Lets in the members of the cluster, who know its secret."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        if not isinstance(credentials, PasswordCredentials):
            raise wrong_credentials()
        if not hmac.compare_digest(credentials.password.encode("utf-8", "surrogatepass"), self._secret):
            raise wrong_credentials()
        return Principal(name=credentials.user_name, provider="cluster")


class _LedHosts:
    """Implements `HostDirectory`: the brokers that this member has now."""

    def __init__(self, find: Callable[[str], EmbeddedBroker | None]) -> None:
        self._find = find
        self._access = Everything()

    def find(self, name: str) -> EmbeddedHost | None:
        broker = self._find(name)
        # The rights of clients are checked by the member that has their connection.
        return None if broker is None else EmbeddedHost(broker, self._access, protocol=_LINK)


def _has_consumers(connection: VmConnection) -> bool:
    with connection._lock:  # noqa: SLF001 - the connection's own view, which would make its module too long
        return any(session._consumers for session in connection._sessions)  # noqa: SLF001


def _server_tls(tls: LinkTls) -> TlsSettings:
    return TlsSettings(
        certificate_file=tls.certificate,
        key_file=tls.key,
        client_certificates=ClientCertificates.REQUIRED,
        trust_file=tls.authorities,
    )


def _client_tls(tls: LinkTls) -> TlsFiles:
    return TlsFiles(
        ca_file=str(tls.authorities),
        certificate_file=str(tls.certificate),
        key_file=None if tls.key is None else str(tls.key),
    )


def _endpoint(address: str) -> Endpoint:
    host, _, port = address.rpartition(":")
    return Endpoint(host.removeprefix("[").removesuffix("]"), int(port))
