"""Log-ins of the console: a cookie that scripts cannot read, and a token that other sites cannot send.

A session ends half an hour after its last request, and twelve hours after its log-in.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import AccessDeniedError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.security.contracts import Principal
    from pyjms_provider.security.revocations import RevocationGuard

__all__ = ["CSRF_HEADER", "Session", "Sessions"]

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
        """`revocations`: where users are noted before `end_all_of` is called for them."""
        self._clock = clock
        self._lock = Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._revocations = revocations

    def begin(self, principal: Principal, mark: int) -> tuple[str, Session]:
        """Return the cookie of a new session, and the session.

        `mark`: that of the shut-outs before it was looked who somebody is. Raises `AccessDeniedError` if that user has been shut out since: the
        user is not any more who was looked at.
        """
        cookie = secrets.token_urlsafe(32)
        now_ms = self._clock.monotonic_ms()
        session = Session(principal, secrets.token_urlsafe(32), now_ms, now_ms)
        with self._lock:
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
        """Return a session that has been used lately, and note that it is used."""
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
            self._sessions.move_to_end(cookie)
            return session

    def end(self, cookie: str | None) -> None:
        """Forget a session. May be repeated."""
        if cookie is not None:
            with self._lock:
                self._sessions.pop(cookie, None)

    def end_all_of(self, provider: str, user_name: str) -> None:
        """Forget the sessions of a user whom an authentication provider vouched for."""
        key = provider, user_name
        with self._lock:
            for cookie, session in list(self._sessions.items()):
                if (session.principal.provider, session.principal.name) == key:
                    del self._sessions[cookie]

    @staticmethod
    def is_own(session: Session, token: str | None) -> bool:
        """Say whether a request that would change something comes from the console's own pages."""
        return token is not None and hmac.compare_digest(session.csrf_token.encode(), token.encode())
