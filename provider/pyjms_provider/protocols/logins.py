"""The login of a client at the broker, the same for every protocol: authenticated, connected to a virtual host, audited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pyjms.spi.errors import AccessDeniedError, ResourceError
from pyjms_provider.protocols.hosts import Guard
from pyjms_provider.security.contracts import Credentials, Principal

if TYPE_CHECKING:
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.protocols.engine import Peer
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


def log_in(
    service: LoginService,
    shown: Credentials | None,
    *,
    virtual_host: str,
    advice: str,
    peer: Peer,
    events: ConnectionEvents,
    client_id: str | None = None,
) -> tuple[ProviderConnection, Guard]:
    """Authenticate a client, and connect it to a virtual host. May wait: call it by `TransportContext.work`.

    Args:
        service: the port's.
        shown: the client's credentials; None: it has shown none.
        virtual_host: the name of the host; empty: the default one.
        advice: what the client can do if there is no such host, for the error.
        peer: the client's end, as the transport knows it.
        events: hears of the end of the connection.
        client_id: the client identifier that the connection gets; None: none.

    Raises:
        AccessDeniedError: the client is not who it says, or may not connect.
        DuplicateClientIdError: another connection has the client identifier.
        ResourceError: no such host runs.
    """
    try:
        principal, connection, guard = _connect(service, shown, virtual_host, advice, peer, events, client_id)
    except AccessDeniedError as error:
        service.note_login(None, shown, peer.address, error.reason)
        raise
    service.note_login(principal, shown, peer.address, "")
    return connection, guard


def _connect(
    service: LoginService,
    shown: Credentials | None,
    virtual_host: str,
    advice: str,
    peer: Peer,
    events: ConnectionEvents,
    client_id: str | None,
) -> tuple[Principal, ProviderConnection, Guard]:
    host = service.hosts.find(virtual_host)
    if host is None:
        missing = f"there is no virtual host {virtual_host!r} here, or it does not run" if virtual_host else ""
        raise ResourceError(f"{missing or 'you named no virtual host, and this port has no default one'}; {advice}")
    # Before the check of the password: `check` finds a user who is shut out after this.
    mark = service.revocations.mark
    principal = service.authenticator.authenticate(shown, peer=peer.address)
    connection = host.connect(events, principal=principal, address=peer.address)
    try:
        # If the user is shut out later, this connection is found and ended.
        service.revocations.check(principal, mark)
        guard = Guard(principal, host, connection.connection_id)
        guard.enter()
        if client_id is not None:
            connection.set_client_id(client_id)
    except Exception:
        connection.close()
        raise
    return principal, connection, guard
