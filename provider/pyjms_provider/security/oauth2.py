"""OAuth 2: checks of claims, JSON requests to a server, and authentication by token introspection (RFC 7662)."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import ipaddress
import json
import logging
import math
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from pyjms.spi.clock import Clock
from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms_provider.security.contracts import (
    NO_CREDENTIALS,
    TOKEN_USER,
    Authenticator,
    Credentials,
    LogInsBusyError,
    PasswordCredentials,
    Principal,
    TokenCredentials,
    wrong_credentials,
)
from pyjms_provider.security.logins import Throttle, ThrottleSettings
from pyjms_provider.security.settings import IntrospectionSettings

_LONGEST_TOKEN: Final = 16 * 1024
_LONGEST_NAME: Final = 1024
_MOST_GROUPS: Final = 1000


class ClaimError(ValueError):
    """A claim of a token is missing or wrong; the text is for the log, not for the client."""


def token_in(credentials: Credentials | None) -> str | None:
    """Return the bearer token in these credentials, or None."""
    if isinstance(credentials, TokenCredentials):
        return credentials.token
    if isinstance(credentials, PasswordCredentials) and credentials.user_name == TOKEN_USER:
        return credentials.password
    return None


def check_size(token: str) -> None:
    """Raise `ClaimError` if a token is empty or too large."""
    if not 0 < len(token) <= _LONGEST_TOKEN or not token.isascii():
        raise ClaimError(f"it is not 1 to {_LONGEST_TOKEN} characters of ASCII")


def check_times(claims: Mapping[str, object], now_ms: int, leeway_s: int, *, must_expire: bool) -> None:
    """Raise `ClaimError` if the token has expired, or is not valid yet; `leeway_s` allows for differences of clocks."""
    now_s = now_ms / 1000
    expires_s = _seconds(claims, "exp")
    if expires_s is None and must_expire:
        raise ClaimError("it never expires")
    if expires_s is not None and now_s >= expires_s + leeway_s:
        raise ClaimError("it has expired")
    for claim in ("nbf", "iat"):
        begins_s = _seconds(claims, claim)
        if begins_s is not None and now_s < begins_s - leeway_s:
            raise ClaimError("it is not valid yet")


def check_audience(claims: Mapping[str, object], audience: str) -> None:
    """Raise `ClaimError` if the token is for another audience."""
    found = claims.get("aud")
    # RFC 7519 §4.1.3: the claim is one text or a list of texts.
    if not (found == audience or (isinstance(found, list) and audience in found)):
        raise ClaimError("it is for another audience")


def check_issuer(claims: Mapping[str, object], issuer: str) -> None:
    """Raise `ClaimError` if the token is from another issuer."""
    if claims.get("iss") != issuer:
        raise ClaimError("it has another issuer")


def check_scopes(claims: Mapping[str, object], required: Iterable[str]) -> None:
    """Raise `ClaimError` if a scope is missing (RFC 9068 §2.2.3; some servers name the claim `scp`, or send a list)."""
    found: set[str] = set()
    for claim in ("scope", "scp"):
        value = claims.get(claim)
        found.update(value.split() if isinstance(value, str) else _texts(value))
    missing = [scope for scope in required if scope not in found]
    if missing:
        raise ClaimError(f"it lacks the scope {missing[0]}")


def principal_of(claims: Mapping[str, object], user_claim: str, groups_claim: str, provider: str) -> Principal:
    """Return the principal of the claims. Raises `ClaimError`."""
    name = _at(claims, user_claim)
    # The name is written to logs and audit records: no line breaks, no control characters, and a limited length.
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ClaimError(f"its claim {user_claim} is no name")
    value = _at(claims, groups_claim) if groups_claim else None
    groups = [value] if isinstance(value, str) else _texts(value)
    if len(groups) > _MOST_GROUPS:
        raise ClaimError(f"its claim {groups_claim} lists more than {_MOST_GROUPS} groups")
    return Principal(name=name, groups=frozenset(groups), provider=provider)


def _at(claims: Mapping[str, object], path: str) -> object:
    """Return the claim named `path`, or for ``a.b`` the member b of the claim a."""
    # The whole name first, as some servers use URLs with dots as names of claims.
    if path in claims:
        return claims[path]
    value: object = claims
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _seconds(claims: Mapping[str, object], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    # A bool is an int in Python, but not a time.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ClaimError(f"its claim {claim} is no time")
    return float(value)


_LIMIT: Final = 1024 * 1024
_CHUNK: Final = 16 * 1024


class EndpointError(ProviderError):
    """The request to the server failed, or its answer is malformed."""

    code = "PYJMS-ENDPOINT"


class Endpoint:
    """The URL of a JSON server. Safe to use from any thread: each request has its own connection."""

    def __init__(self, url: str, *, timeout_ms: int, clock: Clock, ca_file: str = "") -> None:
        """Raises ValueError if the URL is not allowed, or `ca_file` cannot be read."""
        parts = urlsplit(url)
        # A password in the URL would be in the text of every error, which shows the URL.
        if parts.scheme not in {"https", "http"} or not parts.hostname or parts.username is not None or parts.fragment:
            raise ValueError(f"{url!a} is no URL of a server: https://HOST/PATH is expected")
        if parts.scheme == "http" and not _is_here(parts.hostname):
            raise ValueError(f"{url!a} would send secrets unencrypted: use https")
        self.url = url
        self._host = parts.hostname
        self._port = parts.port
        self._target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._tls = _tls(ca_file) if parts.scheme == "https" else None

    def ask(self, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> object:
        """Send a GET, or a POST with `body`, and return the decoded JSON. Raises `EndpointError`."""
        timeout_s = self._timeout_ms / 1000
        until_ms = self._clock.monotonic_ms() + self._timeout_ms

        def left_s() -> float:
            left_ms = until_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError
            return left_ms / 1000

        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        # A socket's timeout applies to each read: a server that sends a byte now and then would block the
        # log-in for ever. The response therefore sets the remaining time before each read.
        connection.response_class = _limited(left_s)
        try:
            # An explicit connect: it gets the whole time, and the rest of the request the remaining time.
            connection.connect()
            connection.sock.settimeout(left_s())
            connection.request(
                "GET" if body is None else "POST", self._target, body, {"Accept": "application/json", **(headers or {})}
            )
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise EndpointError(f"{self.url} answered {answer.status}, and 200 is expected")
            return json.loads(self._read(answer))
        except TimeoutError as error:
            raise EndpointError(f"{self.url} took longer than {self._timeout_ms} ms to answer") from error
        except (OSError, http.client.HTTPException) as error:
            raise EndpointError(f"{self.url} cannot be asked: {str(error) or type(error).__name__}") from error
        # Python's parser raises RecursionError if JSON is nested too deeply.
        except (ValueError, RecursionError) as error:
            raise EndpointError(f"{self.url} did not answer in JSON") from error
        finally:
            connection.close()

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        data = bytearray()
        # `read1` returns the received bytes, so that the size is checked after each portion.
        while chunk := answer.read1(_CHUNK):
            data += chunk
            if len(data) > _LIMIT:
                raise EndpointError(f"{self.url} answered with more than {_LIMIT} bytes")
        return bytes(data)


def _limited(left_s: Callable[[], float]) -> type[http.client.HTTPResponse]:
    """Return a class of responses whose reads, including those of headers, time out after `left_s()` seconds."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
            super().__init__(sock, *arguments, **options)
            self.fp = io.BufferedReader(_Limited(sock, self.fp.detach(), left_s))

    return Response


class _Limited(io.RawIOBase):
    """A socket's input whose reads time out after the remaining time."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, left_s: Callable[[], float]) -> None:
        self._socket = sock
        self._raw = raw
        self._left_s = left_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._left_s())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise ValueError(f"the certificates of {ca_file!a} cannot be read: {error.strerror or error}") from error


_log = logging.getLogger(__name__)
_ATTEMPTS: Final = ThrottleSettings(burst=50, interval_ms=1_000, network_burst=50, network_interval_ms=1_000)
_TELL_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedAnswer:
    """A cached positive answer."""

    principal: Principal
    until_ms: float
    """The end of the caching, by the monotonic clock, so that setting back the system's clock does not extend it."""
    expires_ms: float
    """The expiration of the token, by the system's clock."""


class IntrospectionAuthenticator(Authenticator):
    """Authenticates users by tokens, by asking a server about each token."""

    def __init__(self, settings: IntrospectionSettings, clock: Clock, *, name: str = "introspection") -> None:
        """Raises ValueError if a setting is wrong. The server is first contacted at a log-in, as it may start later than the broker."""
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
        self._known: OrderedDict[bytes, _CachedAnswer] = OrderedDict()
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
        # Answers are cached by digest, so that the broker's memory contains no tokens.
        digest = hashlib.sha256(token.encode()).digest()
        with self._lock:
            known = self._known.get(digest)
        if (
            known is not None
            and self._clock.monotonic_ms() < known.until_ms
            and self._clock.time_ms() < known.expires_ms
        ):
            return known.principal
        # The user is known only from the answer, so attempts are counted by network, without a user name.
        self._throttle.peek(peer, "")
        # Without the lock, so that a slow server delays only this log-in, and not those with a cached answer.
        return self._ask(token, digest, peer)

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Undo the count of these credentials, as another authenticator has accepted them."""
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
            # Counted only when it is known to be wrong, as requests take time, and many right ones may be running.
            self._throttle.admit(peer, "")
            raise wrong_credentials() from error
        # `check_times` has checked that the time is a number.
        expires_ms = (claims.get("exp") or math.inf) * 1000
        until_ms = self._clock.monotonic_ms() + settings.remembered_ms
        self._remember(digest, _CachedAnswer(principal=principal, until_ms=until_ms, expires_ms=expires_ms))
        return principal

    def _tell(self, error: EndpointError) -> None:
        """Log that the server does not answer, once a minute, as clients without a valid token can cause any number of requests."""
        now = self._clock.monotonic_ms()
        with self._lock:
            if now < self._tell_again_ms:
                return
            self._tell_again_ms = now + _TELL_MS
        _log.error("PYJMS-SECURITY-5 nobody with a token can log in: %s", error.reason)

    def _remember(self, digest: bytes, known: _CachedAnswer) -> None:
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
