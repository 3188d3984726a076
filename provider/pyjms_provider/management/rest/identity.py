"""Who sends a request: by a session's cookie, a password, a bearer token, or nobody known."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.management.desk import Caller
from pyjms_provider.management.rest.sessions import CSRF_HEADER, Sessions
from pyjms_provider.management.rest.threads import LogInThreads
from pyjms_provider.security.contracts import Credentials, PasswordCredentials, TokenCredentials

if TYPE_CHECKING:
    from uuid import UUID

    from starlette.requests import Request

    from pyjms_provider.security.contracts import AccessPolicy, Authenticator

__all__ = ["ForgedRequestError", "Identity", "offered_name", "peer_of", "read_credentials"]

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class ForgedRequestError(AccessDeniedError):
    """A request that would change something may come from another site's page, in the name of who is logged in."""

    code = "PYJMS-FORGED"


def read_credentials(header: str | None) -> Credentials | None:
    """Return what ``Authorization`` shows. Raises `AccessDeniedError` for what cannot be read."""
    if header is None:
        return None
    scheme, _, text = header.partition(" ")
    if scheme.lower() == "bearer" and text:
        return TokenCredentials(token=text.strip())
    if scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            decoded = ""
        user_name, colon, password = decoded.partition(":")
        if colon:
            return PasswordCredentials(user_name=user_name, password=password)
    raise AccessDeniedError("Authorization is Basic, or Bearer with a token")


def offered_name(header: str | None) -> str | None:
    """Return the user name that ``Authorization`` shows, empty if it shows something else; None: it shows nothing."""
    if header is None:
        return None
    try:
        credentials = read_credentials(header)
    except AccessDeniedError:
        return ""
    return credentials.user_name if isinstance(credentials, PasswordCredentials) else ""


def peer_of(request: Request) -> str:
    """Return the address that a request comes from; empty if it is not known."""
    return "" if request.client is None else request.client.host


class Identity:
    """Tells who asks."""

    def __init__(
        self,
        authenticator: Authenticator,
        access: AccessPolicy,
        sessions: Sessions,
        cookie: str,
        port: UUID | None = None,
    ) -> None:
        """`cookie`: the name of what a browser shows; `port`: the port by which requests come."""
        self._port = port
        self._cookie = cookie
        self.authenticator = authenticator
        self.access = access
        self.sessions = sessions
        self.log_ins = LogInThreads()

    async def identify(self, request: Request) -> Caller:
        """Return who asks. Raises `AccessDeniedError`, `ForgedRequestError`, `BusyError`."""
        caller = self.by_session(request)
        if caller is None:
            caller = await self.log_ins.run(peer_of(request), self.by_credentials, request)
        return caller

    def by_session(self, request: Request) -> Caller | None:
        """Return who asks if that is known by a session; it never waits. Raises `ForgedRequestError`."""
        session = self.sessions.find(request.cookies.get(self._cookie))
        if session is None or "authorization" in request.headers:
            return None
        if request.method not in _SAFE and not Sessions.is_own(session, request.headers.get(CSRF_HEADER)):
            raise ForgedRequestError(f"a change needs the header {CSRF_HEADER} that POST /api/login answered with")
        return Caller(principal=session.principal, access=self.access, peer=peer_of(request), port=self._port)

    def by_credentials(self, request: Request) -> Caller:
        """Return who asks, by what the request shows. May wait, so it is called on a thread that may. Raises `AccessDeniedError`, `ForgedRequestError`."""
        if request.method not in _SAFE:
            _check_origin(request)  # browsers send passwords that they remember on behalf of any page
        peer = peer_of(request)
        principal = self.authenticator.authenticate(read_credentials(request.headers.get("authorization")), peer=peer)
        return Caller(principal=principal, access=self.access, peer=peer, port=self._port)


def _check_origin(request: Request) -> None:
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    is_foreign = site is not None and site not in {"same-origin", "none"}
    if origin is not None and site is None:
        is_foreign = origin.partition("://")[2] != request.headers.get("host")
    if is_foreign:
        raise ForgedRequestError("the request comes from a page of another site")
