"""The login of a client at the broker, the same for every protocol: authenticated, connected to a virtual host, audited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyjms.spi.errors import AccessDeniedError, ResourceError
from pyjms_provider.protocols.hosts import Guard
from pyjms_provider.security.contracts import Credentials, Principal

if TYPE_CHECKING:
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.protocols.engine import Peer, TransportContext
    from pyjms_provider.protocols.hosts import HostDirectory
    from pyjms_provider.security.contracts import Authenticator
    from pyjms_provider.security.logins import RevocationGuard

NoteLogin = Callable[[Principal | None, Credentials | None, str, str], None]
"""Called for each log-in: the principal (None if refused), the credentials, the address, and the reason of a refusal. On any thread; may
wait.
"""


class LoginService(Protocol):
    """What a port needs to log clients in."""

    @property
    def authenticator(self) -> Authenticator:
        """Authenticates clients."""
        ...

    @property
    def hosts(self) -> HostDirectory:
        """The virtual hosts."""
        ...

    @property
    def note_login(self) -> NoteLogin:
        """Records log-ins."""
        ...

    @property
    def revocations(self) -> RevocationGuard:
        """Finds users whose connections were ended during their login."""
        ...


@dataclass(frozen=True, slots=True)
class Authenticated:
    """A client that is who it says, and is connected to no virtual host yet."""

    principal: Principal
    shown: Credentials | None
    """Its credentials; None: it has shown none."""
    mark: int
    """The number of revocations before the check: a user who is shut out after it is found by this."""


def authenticate(service: LoginService, shown: Credentials | None, peer: Peer) -> Authenticated:
    """Authenticate a client. May wait: call it by `TransportContext.work`.

    Args:
        service: the port's.
        shown: the client's credentials; None: it has shown none.
        peer: the client's end, as the transport knows it.

    Raises:
        AccessDeniedError: the client is not who it says.
    """
    # Before the check of the password.
    mark = service.revocations.mark
    try:
        return Authenticated(service.authenticator.authenticate(shown, peer=peer.address), shown, mark)
    except AccessDeniedError as error:
        service.note_login(None, shown, peer.address, error.reason)
        raise


def enter(
    service: LoginService,
    client: Authenticated,
    *,
    virtual_host: str,
    advice: str,
    peer: Peer,
    events: ConnectionEvents,
    client_id: str | None = None,
) -> tuple[ProviderConnection, Guard]:
    """Connect an authenticated client to a virtual host. May wait: call it by `TransportContext.work`.

    Args:
        service: the port's.
        client: the client.
        virtual_host: the name of the host; empty: the default one.
        advice: what the client can do if there is no such host, for the error.
        peer: the client's end, as the transport knows it.
        events: hears of the end of the connection.
        client_id: the client identifier that the connection gets; None: none.

    Raises:
        AccessDeniedError: the client may not connect.
        DuplicateClientIdError: another connection has the client identifier.
        ResourceError: no such host runs.
    """
    host = service.hosts.find(virtual_host)
    if host is None:
        missing = f"there is no virtual host {virtual_host!r} here, or it does not run" if virtual_host else ""
        raise ResourceError(f"{missing or 'you named no virtual host, and this port has no default one'}; {advice}")
    connection = host.connect(events, principal=client.principal, address=peer.address)
    try:
        # If the user is shut out later, this connection is found and ended.
        service.revocations.check(client.principal, client.mark)
        guard = Guard(client.principal, host, connection.connection_id)
        guard.enter()
        if client_id is not None:
            connection.set_client_id(client_id)
    except Exception as error:
        connection.close()
        if isinstance(error, AccessDeniedError):
            service.note_login(None, client.shown, peer.address, error.reason)
        raise
    service.note_login(client.principal, client.shown, peer.address, "")
    return connection, guard


def leave(transport: TransportContext, connection: ProviderConnection, report: Callable[[BaseException], None]) -> None:
    """Close a client's connection to its virtual host, on a worker: closing gives messages back, which may wait for the disk.

    Args:
        transport: that of the client's connection.
        connection: the connection to the virtual host.
        report: called on the connection's thread with the error of a close that failed.
    """

    def closed(_: None, error: BaseException | None) -> None:
        if error is not None:
            report(error)
        # Perhaps no thread became free: without another try the connection's messages would never go back.
        if isinstance(error, ResourceError):
            leave(transport, connection, report)

    transport.work(connection.close, closed)
