"""Log-ins of the console: a cookie that scripts cannot read, and a token that other sites cannot send.

A session ends half an hour after its last request, and twelve hours after its log-in.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.management.rest.threads import LogInThreads
from pyjms_provider.management.service import Caller
from pyjms_provider.security.contracts import Credentials, PasswordCredentials, TokenCredentials

if TYPE_CHECKING:
    from uuid import UUID

    from starlette.requests import Request

    from pyjms.spi.clock import Clock
    from pyjms_provider.security.contracts import AccessPolicy, Authenticator, Principal
    from pyjms_provider.security.logins import RevocationGuard

CSRF_HEADER: Final = "x-csrf-token"
_IDLE_MS: Final = 30 * 60 * 1000
_LONGEST_MS: Final = 12 * 60 * 60 * 1000
_SESSIONS_MAX: Final = 1000


@dataclass(slots=True)
class Session:
    """One log-in."""

    principal: Principal
    csrf_token: str
    begun_ms: float
    used_ms: float


class Sessions:
    """Safe to use from any thread; the lock is taken alone."""

    def __init__(self, clock: Clock, revocations: RevocationGuard) -> None:
        """`revocations`: the guard in which users are noted before `end_all_of` is called for them."""
        self._clock = clock
        self._lock = Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._revocations = revocations

    def begin(self, principal: Principal, mark: int) -> tuple[str, Session]:
        """Return the cookie of a new session, and the session.

        `mark`: that of the revocations before the log-in authenticated. Raises `AccessDeniedError` if the user was revoked since.
        """
        cookie = secrets.token_urlsafe(32)
        now_ms = self._clock.monotonic_ms()
        session = Session(principal, secrets.token_urlsafe(32), now_ms, now_ms)
        with self._lock:
            # Entered first and checked afterwards: a revocation in between either
            # finds the session here, or is seen by the check.
            self._sessions[cookie] = session
            while len(self._sessions) > _SESSIONS_MAX:
                self._sessions.popitem(last=False)
        try:
            self._revocations.check(principal, mark)
        except AccessDeniedError:
            self.end(cookie)
            raise
        return cookie, session

    def find(self, cookie: str | None) -> Session | None:
        """Return a session that has been used lately, and record this use."""
        if cookie is None:
            return None
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            session = self._sessions.get(cookie)
            if session is None:
                return None
            if now_ms - session.used_ms > _IDLE_MS or now_ms - session.begun_ms > _LONGEST_MS:
                del self._sessions[cookie]
                return None
            session.used_ms = now_ms
            # Sessions that were used lately are at the end, so the limit drops those unused for longest.
            self._sessions.move_to_end(cookie)
            return session

    def end(self, cookie: str | None) -> None:
        """Forget a session. May be repeated."""
        if cookie is not None:
            with self._lock:
                self._sessions.pop(cookie, None)

    def end_all_of(self, provider: str, user_name: str) -> None:
        """Forget the sessions of a user of an authentication provider."""
        key = provider, user_name
        with self._lock:
            for cookie, session in list(self._sessions.items()):
                if (session.principal.provider, session.principal.name) == key:
                    del self._sessions[cookie]

    @staticmethod
    def is_own(session: Session, token: str | None) -> bool:
        """Return whether a request that would change something comes from the console's own pages."""
        # Compared in constant time: the duration must not tell how many characters were right.
        return token is not None and hmac.compare_digest(session.csrf_token.encode(), token.encode())


_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class ForgedRequestError(AccessDeniedError):
    """A request that would change something may come from another site's page, with the log-in of the user."""

    code = "PYJMS-FORGED"


def read_credentials(header: str | None) -> Credentials | None:
    """Return the credentials in ``Authorization``. Raises `AccessDeniedError` if they cannot be read."""
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
        # RFC 7617 §2: the name ends at the first colon, and the password may have more of them.
        user_name, colon, password = decoded.partition(":")
        if colon:
            return PasswordCredentials(user_name=user_name, password=password)
    raise AccessDeniedError("Authorization is Basic, or Bearer with a token")


def offered_name(header: str | None) -> str | None:
    """Return the user name in ``Authorization``, empty if it has none; None: there is no such header."""
    if header is None:
        return None
    try:
        credentials = read_credentials(header)
    except AccessDeniedError:
        return ""
    return credentials.user_name if isinstance(credentials, PasswordCredentials) else ""


def peer_of(request: Request) -> str:
    """Return the address of the client; empty if it is unknown."""
    return "" if request.client is None else request.client.host


class Identity:
    """Authenticates the callers of requests."""

    def __init__(
        self,
        authenticator: Authenticator,
        access: AccessPolicy,
        sessions: Sessions,
        cookie: str,
        port: UUID | None = None,
    ) -> None:
        """`cookie`: the name of the session cookie; `port`: the port of the requests."""
        self._port = port
        self._cookie = cookie
        self.authenticator = authenticator
        self.access = access
        self.sessions = sessions
        self.log_ins = LogInThreads()

    async def identify(self, request: Request) -> Caller:
        """Return the caller. Raises `AccessDeniedError`, `ForgedRequestError`, `BusyError`."""
        # Without a thread: logged-in operators are identified even while all threads for log-ins wait for another server.
        caller = self.by_session(request)
        if caller is None:
            caller = await self.log_ins.run(peer_of(request), self.by_credentials, request)
        return caller

    def by_session(self, request: Request) -> Caller | None:
        """Return the caller if the request has a session; it never waits. Raises `ForgedRequestError`."""
        session = self.sessions.find(request.cookies.get(self._cookie))
        if session is None or "authorization" in request.headers:
            return None
        if request.method not in _SAFE and not Sessions.is_own(session, request.headers.get(CSRF_HEADER)):
            raise ForgedRequestError(f"a change needs the header {CSRF_HEADER} that POST /api/login answered with")
        return Caller(principal=session.principal, access=self.access, peer=peer_of(request), port=self._port)

    def by_credentials(self, request: Request) -> Caller:
        """Return the caller by the credentials of the request. May wait, so it is called on a thread that may. Raises `AccessDeniedError`, `ForgedRequestError`."""
        if request.method not in _SAFE:
            _check_origin(request)  # browsers send passwords that they remember on behalf of any page
        peer = peer_of(request)
        principal = self.authenticator.authenticate(read_credentials(request.headers.get("authorization")), peer=peer)
        return Caller(principal=principal, access=self.access, peer=peer, port=self._port)


def _check_origin(request: Request) -> None:
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    # `none` is a request by the user: a typed address, or a
    # bookmark. Programs that are no browsers send neither header.
    is_foreign = site is not None and site not in {"same-origin", "none"}
    if origin is not None and site is None:
        # For browsers that send no Sec-Fetch-Site.
        is_foreign = origin.partition("://")[2] != request.headers.get("host")
    if is_foreign:
        raise ForgedRequestError("the request comes from a page of another site")
