"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a log-in that never sends the password, and the verifiers that it needs.

A verifier is kept as PostgreSQL keeps it. It serves two ways: the exchange here, and a password that came as it is, as
STOMP sends it, from which the keys are derived. The exchange knows no socket; `passwords` counts wrong attempts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from scramp import ScramException, ScramMechanism
from scramp.utils import saslprep

from pyjms_provider.security.refusals import wrong_credentials

__all__ = ["SCRAM_PREFIX", "ScramExchange", "ScramVerifier"]

SCRAM_PREFIX: Final = "SCRAM-SHA-256$"
DEFAULT_ITERATIONS: Final = 100_000
_ITERATIONS: Final = range(4096, 10_000_001)  # RFC 7677 §4; more would be an attack on ourselves
_LONGEST_MESSAGE: Final = 4096
_BASE64: Final = "[A-Za-z0-9+/]+={0,2}"
_TEXT: Final = re.compile(rf"SCRAM-SHA-256\$([0-9]{{1,8}}):({_BASE64})\$({_BASE64}):({_BASE64})")
_MECHANISM: Final = ScramMechanism("SCRAM-SHA-256")


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


class ScramExchange:
    """The server's half of one log-in: `first`, then `final`. For one thread."""

    REFUSAL: Final = "e=invalid-proof"
    """What the client is sent when `final` raised: the same for an unknown user (RFC 5802 §7 leaves that to us)."""

    def __init__(self, find: Callable[[str], ScramVerifier]) -> None:
        """`find`: returns the verifier of a user, or for an unknown one a false verifier, always the same; may raise."""
        self._find = find
        self._failure: BaseException | None = None
        self._server = _MECHANISM.make_server(self._look_up)
        self.user_name = ""
        """Who logs in; to be believed when `final` has returned."""

    def first(self, client_first: str) -> str:
        """Take the client's first message and return the answer. Raises `AccessDeniedError`."""
        try:
            self._server.set_client_first(_limited(client_first))
            return str(self._server.get_server_first())
        except ScramException as error:
            raise self._failure or wrong_credentials() from error

    def final(self, client_final: str) -> str:
        """Take the client's last message and return the answer: the user has the password.

        Raises `AccessDeniedError`; the client is then sent `REFUSAL`.
        """
        try:
            self._server.set_client_final(_limited(client_final))
            return str(self._server.get_server_final())
        except ScramException as error:
            raise wrong_credentials() from error

    def _look_up(self, user_name: str) -> tuple[bytes, bytes, bytes, int]:
        self.user_name = user_name
        try:
            verifier = self._find(user_name)
        except BaseException as error:
            self._failure = error  # the library puts an error of its own in its place
            raise
        return verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations


def _limited(message: str) -> str:
    if len(message) > _LONGEST_MESSAGE:
        raise wrong_credentials()
    return message


def _prepared(password: str) -> bytes:
    """Return the password as RFC 5802 §2.2 wants it; as it is when it has what SASLprep forbids, as PostgreSQL does."""
    try:
        prepared = str(saslprep(password))
    except ScramException:
        prepared = password
    # Of soft hyphens and their like nothing is left: then the password would be the empty one.
    return (prepared or password).encode("utf-8", "surrogatepass")
