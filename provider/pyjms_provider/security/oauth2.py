"""What signed tokens and tokens that a server is asked about have in common: from claims to a principal.

A client of a protocol that knows bearer tokens offers `TokenCredentials`; one that knows only passwords, as STOMP, logs in as
the user `oauth2` with the token as its password (docs/decisions/0160).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from pyjms_provider.security.contracts import (
    TOKEN_USER,
    Credentials,
    PasswordCredentials,
    Principal,
    TokenCredentials,
)

_LONGEST_TOKEN: Final = 16 * 1024
_LONGEST_NAME: Final = 1024
_MOST_GROUPS: Final = 1000


class ClaimError(ValueError):
    """A token does not say what it must; the text is for the log, not for the client."""


def token_in(credentials: Credentials | None) -> str | None:
    """Return the token that these credentials are, or None."""
    if isinstance(credentials, TokenCredentials):
        return credentials.token
    if isinstance(credentials, PasswordCredentials) and credentials.user_name == TOKEN_USER:
        return credentials.password
    return None


def check_size(token: str) -> None:
    """Raise `ClaimError`: it is empty, or larger than any token."""
    if not 0 < len(token) <= _LONGEST_TOKEN or not token.isascii():
        raise ClaimError(f"it is not 1 to {_LONGEST_TOKEN} characters of ASCII")


def check_times(claims: Mapping[str, object], now_ms: int, leeway_s: int, *, must_expire: bool) -> None:
    """Raise `ClaimError`: the token has expired, or is not valid yet, by the clocks of both sides."""
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
    """Raise `ClaimError`: the token is for somebody else."""
    found = claims.get("aud")
    if not (found == audience or (isinstance(found, list) and audience in found)):
        raise ClaimError("it is for another audience")


def check_issuer(claims: Mapping[str, object], issuer: str) -> None:
    """Raise `ClaimError`: the token was made by somebody else."""
    if claims.get("iss") != issuer:
        raise ClaimError("it has another issuer")


def check_scopes(claims: Mapping[str, object], required: Iterable[str]) -> None:
    """Raise `ClaimError`: a scope is missing (RFC 9068 §2.2.3; some servers name the claim `scp`, or make it a list)."""
    found: set[str] = set()
    for claim in ("scope", "scp"):
        value = claims.get(claim)
        found.update(value.split() if isinstance(value, str) else _texts(value))
    missing = [scope for scope in required if scope not in found]
    if missing:
        raise ClaimError(f"it lacks the scope {missing[0]}")


def principal_of(claims: Mapping[str, object], user_claim: str, groups_claim: str, provider: str) -> Principal:
    """Return whom the claims are about. Raises `ClaimError`."""
    name = _at(claims, user_claim)
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ClaimError(f"its claim {user_claim} is no name")
    value = _at(claims, groups_claim) if groups_claim else None
    groups = [value] if isinstance(value, str) else _texts(value)
    if len(groups) > _MOST_GROUPS:
        raise ClaimError(f"its claim {groups_claim} lists more than {_MOST_GROUPS} groups")
    return Principal(name=name, groups=frozenset(groups), provider=provider)


def _at(claims: Mapping[str, object], path: str) -> object:
    """Return the claim of that name, or for ``a.b`` the member b of the claim a."""
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
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ClaimError(f"its claim {claim} is no time")
    return float(value)
