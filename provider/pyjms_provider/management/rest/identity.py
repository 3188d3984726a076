"""Who sends a request: by a session's cookie, a password, a bearer token, or nobody known."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.management.desk import Caller
from pyjms_provider.management.rest.sessions import CSRF_HEADER, Sessions
from pyjms_provider.security.contracts import Credentials, PasswordCredentials, TokenCredentials

if TYPE_CHECKING:
    from uuid import UUID

    from starlette.requests import Request

    from pyjms_provider.security.contracts import AccessPolicy, Authenticator

__all__ = ["ForgedRequestError", "Identity", "offered_name", "read_credentials"]

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


class Identity:
    """Tells who asks. `identify` may wait, so it is called on a thread that may."""

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

    def identify(self, request: Request) -> Caller:
        """Return who asks. Raises `AccessDeniedError`, `ForgedRequestError`."""
        peer = "" if request.client is None else request.client.host
        session = self.sessions.find(request.cookies.get(self._cookie))
        header = request.headers.get("authorization")
        if session is not None and header is None:
            if request.method not in _SAFE and not Sessions.is_own(session, request.headers.get(CSRF_HEADER)):
                raise ForgedRequestError(f"a change needs the header {CSRF_HEADER} that POST /api/login answered with")
            return Caller(principal=session.principal, access=self.access, peer=peer, port=self._port)
        if request.method not in _SAFE:
            _check_origin(request)  # browsers send passwords that they remember on behalf of any page
        principal = self.authenticator.authenticate(read_credentials(header), peer=peer)
        return Caller(principal=principal, access=self.access, peer=peer, port=self._port)


def _check_origin(request: Request) -> None:
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    is_foreign = site is not None and site not in {"same-origin", "none"}
    if origin is not None and site is None:
        is_foreign = urlsplit(origin).netloc != request.headers.get("host")
    if is_foreign:
        raise ForgedRequestError("the request comes from a page of another site")
