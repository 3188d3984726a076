"""The verifiers of SCRAM-SHA-256 (RFC 5802, RFC 7677), as PostgreSQL keeps them.

A password that came as it is, as STOMP sends it, is judged by the keys that are derived from it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from dataclasses import dataclass, field
from typing import Final

from scramp import ScramException
from scramp.utils import saslprep

__all__ = ["SCRAM_PREFIX", "ScramVerifier"]

SCRAM_PREFIX: Final = "SCRAM-SHA-256$"
DEFAULT_ITERATIONS: Final = 100_000
_ITERATIONS: Final = range(4096, 10_000_001)  # RFC 7677 §4; more would be an attack on ourselves
_BASE64: Final = "[A-Za-z0-9+/]+={0,2}"
_TEXT: Final = re.compile(rf"SCRAM-SHA-256\$([0-9]{{1,8}}):({_BASE64})\$({_BASE64}):({_BASE64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramVerifier:
    """What a server keeps of a password."""

    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def make(cls, password: str, iterations: int = DEFAULT_ITERATIONS, salt: bytes | None = None) -> ScramVerifier:
        """Return the verifier of `password`; without `salt`, with a new random one."""
        salt = os.urandom(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, iterations)
        return cls(
            iterations=iterations,
            salt=salt,
            stored_key=hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest(),
            server_key=hmac.digest(salted, b"Server Key", "sha256"),
        )

    @classmethod
    def parse(cls, text: str) -> ScramVerifier:
        """Return the verifier that `str` wrote. Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError("not a SCRAM-SHA-256 verifier")
        iterations = int(match[1])
        salt, stored_key, server_key = (base64.b64decode(part, validate=True) for part in match.groups()[1:])
        if iterations not in _ITERATIONS or len(salt) < 12 or {len(stored_key), len(server_key)} != {32}:
            raise ValueError("not a usable SCRAM-SHA-256 verifier")
        return cls(iterations=iterations, salt=salt, stored_key=stored_key, server_key=server_key)

    def accepts(self, password: str) -> bool:
        """Tell whether this is the verifier of `password`; costs as much as making one."""
        return hmac.compare_digest(self.make(password, self.iterations, self.salt).stored_key, self.stored_key)

    def __str__(self) -> str:
        """Return the form in which PostgreSQL keeps it: ``SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY``."""
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"{SCRAM_PREFIX}{self.iterations}:{salt}${stored}:{server}"


def _prepared(password: str) -> bytes:
    """Return the password as RFC 5802 §2.2 wants it; as it is when it has what SASLprep forbids, as PostgreSQL does."""
    try:
        prepared = str(saslprep(password))
    except ScramException:
        prepared = password
    # Of soft hyphens and their like nothing is left: then the password would be the empty one.
    return (prepared or password).encode("utf-8", "surrogatepass")
