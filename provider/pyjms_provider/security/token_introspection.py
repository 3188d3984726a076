"""Tokens that say nothing by themselves: the server that made them is asked (RFC 7662).

An answer that a token is good is remembered for a while, under a digest of the token. Wrong tokens are counted by the network
they come from, so that nobody uses this broker to hammer that server.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import math
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from pyjms.spi.clock import Clock
from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.security.contracts import Authenticator, Credentials, Principal
from pyjms_provider.security.http_json import Endpoint, EndpointError
from pyjms_provider.security.oauth2 import (
    ClaimError,
    check_audience,
    check_issuer,
    check_scopes,
    check_size,
    check_times,
    principal_of,
    token_in,
)
from pyjms_provider.security.refusals import NO_CREDENTIALS, LogInsBusyError, wrong_credentials
from pyjms_provider.security.settings import IntrospectionSettings
from pyjms_provider.security.throttle import Throttle, ThrottleSettings

_log = logging.getLogger(__name__)
_ATTEMPTS: Final = ThrottleSettings(burst=50, interval_ms=1_000, network_burst=50, network_interval_ms=1_000)
_TELL_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A good answer."""

    principal: Principal
    until_ms: float
    """By the monotonic clock, so that it counts no longer where the clock on the wall is put back."""
    expires_ms: float
    """When the token says that it expires, by the clock on the wall."""


class IntrospectionAuthenticator(Authenticator):
    """Knows users by tokens, and tokens by asking."""

    def __init__(self, settings: IntrospectionSettings, clock: Clock, *, name: str = "introspection") -> None:
        """Raise ValueError: a setting is wrong. The server is asked at the first log-in, as it may start later than we."""
        if not settings.client_id or not settings.client_secret:
            raise ValueError("client_id and client_secret are needed: the server answers only whom it knows")
        self._settings = settings
        self._clock = clock
        self._name = name
        self._endpoint = Endpoint(settings.url, timeout_ms=settings.timeout_ms, clock=clock, ca_file=settings.ca_file)
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"  # RFC 6749 §2.3.1
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        self._throttle = Throttle(_ATTEMPTS, clock)
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._tell_again_ms = -math.inf
        self._lock = Lock()

    def handles(self, credentials: Credentials | None) -> bool:
        return token_in(credentials) is not None

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        token = token_in(credentials)
        if token is None:
            raise AccessDeniedError(NO_CREDENTIALS)
        try:
            check_size(token)
        except ClaimError as error:
            raise wrong_credentials() from error
        digest = hashlib.sha256(token.encode()).digest()
        with self._lock:
            known = self._known.get(digest)
        if (
            known is not None
            and self._clock.monotonic_ms() < known.until_ms
            and self._clock.time_ms() < known.expires_ms
        ):
            return known.principal
        self._throttle.peek(peer, "")
        return self._ask(token, digest, peer)

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Take back that these were wrong: another authenticator knew them."""
        self._throttle.forgive(peer, "")

    def _ask(self, token: str, digest: bytes, peer: str) -> Principal:
        settings = self._settings
        body = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
        try:
            answer = self._endpoint.ask(body, self._headers)
        except EndpointError as error:
            self._tell(error)
            raise LogInsBusyError from error
        now = self._clock.time_ms()
        try:
            claims = _active(answer)
            if settings.issuer:
                check_issuer(claims, settings.issuer)
            if settings.audience:
                check_audience(claims, settings.audience)
            check_times(claims, now, 0, must_expire=False)
            check_scopes(claims, settings.required_scopes)
            principal = principal_of(claims, settings.user_claim, settings.groups_claim, self._name)
        except ClaimError as error:
            _log.info("PYJMS-SECURITY-7 a token from %a was refused: %a", peer, str(error)[:200])
            # Counted when it is known to be wrong, as the question takes its time and many right ones may be under way.
            self._throttle.admit(peer, "")
            raise wrong_credentials() from error
        # The time was checked, so that it is a number.
        expires_ms = (claims.get("exp") or math.inf) * 1000
        until_ms = self._clock.monotonic_ms() + settings.remembered_ms
        self._remember(digest, _Known(principal=principal, until_ms=until_ms, expires_ms=expires_ms))
        return principal

    def _tell(self, error: EndpointError) -> None:
        """Log that the server does not answer, once a minute: a client without a valid token can cause requests as often as it likes."""
        now = self._clock.monotonic_ms()
        with self._lock:
            if now < self._tell_again_ms:
                return
            self._tell_again_ms = now + _TELL_MS
        _log.error("PYJMS-SECURITY-5 nobody with a token can log in: %s", error.reason)

    def _remember(self, digest: bytes, known: _Known) -> None:
        if self._settings.remembered == 0:
            return
        with self._lock:
            self._known[digest] = known
            self._known.move_to_end(digest)
            if len(self._known) > self._settings.remembered:
                self._known.popitem(last=False)


def _active(answer: object) -> dict[str, Any]:
    if not isinstance(answer, dict) or answer.get("active") is not True:
        raise ClaimError("the server does not know it, or no longer")
    return answer
