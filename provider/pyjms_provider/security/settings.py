"""The settings of each kind of authentication, as data classes; `kinds` lists the kinds.

This module imports nothing heavy. The types are those of a configuration: strings, numbers, booleans, and lists of strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any


def setting(text: str, *, default: Any = MISSING, is_secure: bool = False, choices: tuple[str, ...] = ()) -> Any:
    """Declare a setting of a plug-in: a field of a frozen dataclass whose type is `str`, `int`, `bool` or ``tuple[str, ...]``.

    `text`: the description, for operators; `default`: without one the setting is mandatory; `is_secure`: it is a secret, encrypted at rest
    and never shown; `choices`: the allowed values, empty: all of the type.
    """
    return field(default=default, repr=not is_secure, metadata=_meta(text, is_secure=is_secure, choices=choices))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSettings:
    """The settings of a plug-in that has none."""


def _meta(text: str, *, is_secure: bool = False, choices: tuple[str, ...] = ()) -> Mapping[str, Any]:
    return {"text": text, "is_secure": is_secure, "choices": choices}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFileSettings:
    """Users with passwords, in a file."""

    path: str = field(metadata=_meta("The user file; its users are managed by `pyjms broker user`."))
    scheme: str = field(
        default="argon2id",
        metadata=_meta("The scheme for hashes of new passwords.", choices=("argon2id", "scram-sha-256")),
    )
    argon2_memory_kib: int = field(default=19_456, metadata=_meta("Memory in KiB for the check of one password."))
    argon2_passes: int = field(default=2, metadata=_meta("The number of passes over that memory."))
    argon2_lanes: int = field(default=1, metadata=_meta("The number of threads for one hash."))
    scram_iterations: int = field(
        default=100_000, metadata=_meta("Rounds of SCRAM-SHA-256; clients compute them, too.")
    )
    attempts: int = field(default=10, metadata=_meta("Wrong passwords allowed in a row for one user from one network."))
    attempt_interval_ms: int = field(
        default=5_000, metadata=_meta("Milliseconds after which one more of them is allowed.")
    )
    network_attempts: int = field(default=50, metadata=_meta("Wrong passwords allowed in a row from one network."))
    network_attempt_interval_ms: int = field(
        default=1_000, metadata=_meta("Milliseconds after which one more of them is allowed.")
    )
    concurrent: int = field(default=2, metadata=_meta("Passwords checked at the same time."))
    remembered: int = field(
        default=1_000, metadata=_meta("Verified passwords that are cached, to save a hash; 0: none.")
    )
    remembered_ms: int = field(default=300_000, metadata=_meta("How long they are cached, in milliseconds."))


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """Users with TLS client certificates (SASL's EXTERNAL)."""

    name_from: str = field(
        default="common-name",
        metadata=_meta(
            "The part of the certificate that is the name of the user.",
            choices=("common-name", "subject", "dns-name", "email", "uri"),
        ),
    )
    are_units_groups: bool = field(default=False, metadata=_meta("Whether the subject's OUs are the user's groups."))
    issuer: str = field(default="", metadata=_meta("Only certificates of this issuer (RFC 4514); empty: any trusted."))


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """Users with signed tokens (JWT) of an OAuth 2 or OpenID Connect server."""

    issuer: str = field(metadata=_meta("The required `iss` of a token."))
    audience: str = field(
        metadata=_meta("The required `aud` of a token, or one of its values: the name of this broker at the server.")
    )
    keys_url: str = field(default="", metadata=_meta("The URL of the server's keys (JWKS); https."))
    keys_file: str = field(default="", metadata=_meta("A file with the keys, in place of a URL."))
    ca_file: str = field(default="", metadata=_meta("Certificates to trust for that URL; empty: the system's."))
    algorithms: tuple[str, ...] = field(
        default=("RS256", "ES256", "EdDSA"), metadata=_meta("The accepted signature algorithms; only with public keys.")
    )
    user_claim: str = field(default="sub", metadata=_meta("The claim that is the name of the user."))
    groups_claim: str = field(
        default="groups", metadata=_meta("The claim that lists the groups; `a.b` is b within a; empty: none.")
    )
    required_scopes: tuple[str, ...] = field(default=(), metadata=_meta("Scopes that a token must have."))
    leeway_s: int = field(default=30, metadata=_meta("The accepted difference of the clocks, in seconds."))
    keys_ms: int = field(default=3_600_000, metadata=_meta("How long keys are cached, in milliseconds."))
    timeout_ms: int = field(default=5_000, metadata=_meta("How long the server may take to answer, in milliseconds."))


@dataclass(frozen=True, slots=True, kw_only=True)
class IntrospectionSettings:
    """Users with tokens that an OAuth 2 server checks (RFC 7662)."""

    url: str = field(metadata=_meta("The introspection endpoint; https."))
    client_id: str = field(metadata=_meta("The client id of this broker at the server."))
    client_secret: str = field(repr=False, metadata=_meta("The password of that client.", is_secure=True))
    ca_file: str = field(default="", metadata=_meta("Certificates to trust for that URL; empty: the system's."))
    issuer: str = field(default="", metadata=_meta("The required `iss`; empty: not checked."))
    audience: str = field(default="", metadata=_meta("The required `aud`, or one of its values; empty: not checked."))
    user_claim: str = field(
        default="username", metadata=_meta("The member of the answer that is the name of the user.")
    )
    groups_claim: str = field(default="groups", metadata=_meta("The member that lists the groups; empty: none."))
    required_scopes: tuple[str, ...] = field(default=(), metadata=_meta("Scopes that a token must have."))
    remembered: int = field(default=1_000, metadata=_meta("Answers that are cached; 0: none."))
    remembered_ms: int = field(
        default=60_000,
        metadata=_meta("How long they are cached, in milliseconds; a revoked token is accepted as long."),
    )
    timeout_ms: int = field(default=5_000, metadata=_meta("How long the server may take to answer, in milliseconds."))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnonymousSettings:
    """Anybody, without credentials."""

    user_name: str = field(default="anonymous", metadata=_meta("The user name of all clients."))
    groups: tuple[str, ...] = field(default=("anonymous",), metadata=_meta("Their groups."))
