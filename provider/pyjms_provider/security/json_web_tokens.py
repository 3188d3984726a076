"""Authentication by signed tokens (JWT, RFC 7519, following RFC 8725), verified with the public keys of the issuer.

The configuration decides what is accepted, never the token: the algorithms are an allow-list without `none` and without shared
keys; a key is used only for the family of algorithms that it was made for; URLs of keys within a token are ignored. Keys are read from
a file or a URL, and cached. They are fetched again when they are old, or when a token names an unknown one, but at most once in
half a minute, so that forged tokens cannot make the broker flood the server with requests.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

import jwt

from pyjms.spi.clock import Clock
from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.security.contracts import (
    NO_CREDENTIALS,
    Authenticator,
    Credentials,
    LogInsBusyError,
    Principal,
    wrong_credentials,
)
from pyjms_provider.security.oauth2 import (
    ClaimError,
    Endpoint,
    EndpointError,
    check_audience,
    check_issuer,
    check_scopes,
    check_size,
    check_times,
    principal_of,
    token_in,
)
from pyjms_provider.security.settings import JwtSettings

_log = logging.getLogger(__name__)
_FAMILIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
# RFC 7518 §3.4 binds each of these algorithms to one curve.
_CURVES: Final[Mapping[str, str]] = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
# RFC 7518 §3.3 requires 2048 bits or more.
_LEAST_RSA_BITS: Final = 2048
_MOST_KEYS: Final = 100
_PAUSE_MS: Final = 30_000
_FILE_LIMIT: Final = 1024 * 1024


class JwtAuthenticator(Authenticator):
    """Authenticates users by signed tokens."""

    def __init__(self, settings: JwtSettings, clock: Clock, *, name: str = "jwt") -> None:
        """Raises ValueError if a setting is wrong. The server is first contacted at a log-in, as it may start later than the broker."""
        wrong = [algorithm for algorithm in settings.algorithms if algorithm not in _FAMILIES]
        if wrong or not settings.algorithms:
            raise ValueError(f"algorithms: {', '.join(wrong) or 'none'} will not do; there are {', '.join(_FAMILIES)}")
        if not settings.issuer or not settings.audience:
            raise ValueError("issuer and audience are needed: else tokens that were made for others would count here")
        self._settings = settings
        self._clock = clock
        self._name = name
        self._keys = _KeySet(_source(settings, clock), settings.keys_ms, clock)

    def handles(self, credentials: Credentials | None) -> bool:
        return token_in(credentials) is not None

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        token = token_in(credentials)
        if token is None:
            raise AccessDeniedError(NO_CREDENTIALS)
        settings = self._settings
        try:
            claims = self._verified(token)
            check_issuer(claims, settings.issuer)
            check_audience(claims, settings.audience)
            check_times(claims, self._clock.time_ms(), settings.leeway_s, must_expire=True)
            check_scopes(claims, settings.required_scopes)
            return principal_of(claims, settings.user_claim, settings.groups_claim, self._name)
        except (ClaimError, jwt.PyJWTError) as error:
            _log.info("PYJMS-SECURITY-7 a token from %a was refused: %a", peer, str(error)[:200])
            raise wrong_credentials() from error

    def _verified(self, token: str) -> dict[str, Any]:
        """Verify the signature of a token, and return its claims. Raises `ClaimError`, `jwt.PyJWTError`."""
        check_size(token)
        try:
            header = jwt.get_unverified_header(token)
        except (ValueError, RecursionError) as error:
            raise ClaimError("it is no signed token") from error
        algorithm = header.get("alg")
        # The token's own `alg` only selects one of the algorithms that the operator allows (RFC 8725 §3.1).
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            raise ClaimError("its algorithm is not allowed")
        # RFC 7515 §4.1.11: a token with a critical extension that the receiver does not know must be refused.
        if "crit" in header:
            raise ClaimError("it asks for extensions")
        # `authenticate` checks the claims, as PyJWT would use the system's clock, not the injected one.
        options: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
        failure: jwt.PyJWTError | None = None
        for key in self._keys.find(header.get("kid"), algorithm):
            try:
                claims: dict[str, Any] = jwt.decode(token, key, algorithms=[algorithm], options=options)
            except jwt.InvalidSignatureError as error:
                failure = error  # another key without a name may fit
            except (ValueError, RecursionError) as error:
                raise ClaimError("its claims cannot be read") from error
            else:
                return claims
        raise failure or ClaimError("its key is unknown")


@dataclass(frozen=True, slots=True)
class _Key:
    name: str | None
    family: str
    curve: str | None
    algorithm: str | None
    key: Any

    def serves(self, name: object, algorithm: str) -> bool:
        return (
            self.family == _FAMILIES[algorithm]
            and self.algorithm in {None, algorithm}
            and (algorithm not in _CURVES or self.curve == _CURVES[algorithm])
            and (name is None or self.name is None or self.name == name)
        )


class _KeySet:
    """A cache of the issuer's keys, fetched on demand."""

    def __init__(self, fetch: Callable[[], object], keep_ms: int, clock: Clock) -> None:
        self._fetch = fetch
        self._keep_ms = keep_ms
        self._clock = clock
        self._keys: tuple[_Key, ...] = ()
        self._fetched_ms: float | None = None
        self._tried_ms: float | None = None
        self._lock = Lock()

    def find(self, name: object, algorithm: str) -> list[Any]:
        """Return the keys that may have signed a token; if necessary, fetch them again.

        Raises `LogInsBusyError` if no keys have been fetched yet.
        """
        now = self._clock.monotonic_ms()
        is_old = self._fetched_ms is None or now >= self._fetched_ms + self._keep_ms
        # An unknown name may be that of a new key: an issuer may change keys long before the cached ones are old.
        if is_old or not self._serving(name, algorithm):
            self._refresh(now)
        if self._fetched_ms is None:
            raise LogInsBusyError  # the first keys are being fetched, or the server cannot be reached; the token may be right
        return [key.key for key in self._serving(name, algorithm)]

    def _serving(self, name: object, algorithm: str) -> list[_Key]:
        return [key for key in self._keys if key.serves(name, algorithm)]

    def _refresh(self, now: float) -> None:
        """Fetch the keys, unless a thread has fetched them, or tried to, a moment ago."""
        # The lock covers only the decision, not the fetch: other log-ins go on with the cached keys.
        with self._lock:
            if self._tried_ms is not None and now < self._tried_ms + _PAUSE_MS:
                return
            self._tried_ms = now
        try:
            # The keys are set before the time, as `find` assumes that there are keys if there is a time.
            self._keys = _read_keys(self._fetch())
        except EndpointError as error:
            _log.warning("PYJMS-SECURITY-3 the keys for tokens are not renewed; those of before stay: %s", error.reason)
        else:
            self._fetched_ms = now


def _source(settings: JwtSettings, clock: Clock) -> Callable[[], object]:
    if bool(settings.keys_url) == bool(settings.keys_file):
        raise ValueError("name either keys_url or keys_file")
    if settings.keys_url:
        return Endpoint(settings.keys_url, timeout_ms=settings.timeout_ms, clock=clock, ca_file=settings.ca_file).ask
    path = Path(settings.keys_file)

    def read() -> object:
        try:
            with path.open("rb") as file:
                return json.loads(file.read(_FILE_LIMIT))
        except (OSError, ValueError, RecursionError) as error:
            raise EndpointError(f"{path}: no keys in JSON: {error}") from error

    return read


def _read_keys(data: object) -> tuple[_Key, ...]:
    """Return the public signature keys of a JWKS (RFC 7517), and ignore all others. Raises `EndpointError`."""
    entries = data.get("keys") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise EndpointError("no list of keys (JWKS)")
    keys = [key for entry in entries[:_MOST_KEYS] if isinstance(entry, dict) and (key := _read_key(entry)) is not None]
    if not keys:
        raise EndpointError("the list of keys (JWKS) holds no public key that signs")
    return tuple(keys)


def _read_key(entry: dict[str, Any]) -> _Key | None:
    family, curve = str(entry.get("kty")), entry.get("crv")
    algorithm = entry.get("alg")
    if family not in _FAMILIES.values() or entry.get("use", "sig") != "sig" or "d" in entry:
        return None  # shared keys (kty oct), encryption keys, and private keys, which must not be published
    # PyJWK needs an algorithm to choose the class of the key; if the entry names none, any of its family is right.
    hint = algorithm or next((a for a, c in _CURVES.items() if c == curve), {"RSA": "RS256"}.get(family, "EdDSA"))
    try:
        key = jwt.PyJWK(entry, hint).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if family == "RSA" and key.key_size < _LEAST_RSA_BITS:
        return None
    name = entry.get("kid")
    return _Key(
        name=name if isinstance(name, str) else None,
        family=family,
        curve=curve if isinstance(curve, str) else None,
        algorithm=algorithm if isinstance(algorithm, str) else None,
        key=key,
    )
