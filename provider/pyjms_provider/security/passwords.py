"""Passwords: their hashes (argon2id, RFC 9106), and log-ins by them.

The time of a check reveals nothing: the same hashes are computed for every user, known or not. Each costs memory and a core on
purpose, so few are computed at once, and wrong attempts are counted (`logins.Throttle`). A recently verified password is
recognised by a keyed digest in memory, so that a thousand connections of one application do not cost a thousand hashes
(docs/decisions/0160). Users are stored by `user_file`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from threading import BoundedSemaphore, Lock
from typing import Final, Protocol

import argon2
from argon2.exceptions import Argon2Error, InvalidHashError
from scramp import ScramException
from scramp.utils import saslprep

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
    wrong_credentials,
)
from pyjms_provider.security.logins import Throttle, ThrottleSettings

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
        # Compared in constant time: the duration must not tell how many bytes were right.
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


_log = logging.getLogger(__name__)
LONGEST_NAME: Final = 255
LONGEST_PASSWORD: Final = 1024
_ARGON2_PREFIX: Final = "$argon2id$"
_ARGON2_MEMORY_KIB: Final = 1024 * 1024
_ARGON2_PASSES: Final = 100


class Scheme(Enum):
    """How a password is kept."""

    ARGON2ID = "argon2id"
    """The safest against guessing from a stolen file."""
    SCRAM_SHA_256 = "scram-sha-256"
    """Lets clients of protocols with SASL log in without sending the password."""


class VerifierError(ValueError):
    """A text is not a hash of a password of a known kind, or one that would cost too much to check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSettings:
    """What a hash costs. The defaults are those that OWASP recommends; existing hashes are renewed at the next log-in."""

    scheme: Scheme = Scheme.ARGON2ID
    """For new passwords; those that are there are checked by their own."""
    memory_kib: int = 19 * 1024
    """argon2id: memory in KiB, for each password that is checked at a time."""
    passes: int = 2
    """argon2id: how often it goes through the memory."""
    lanes: int = 1
    """argon2id: how many threads it uses."""
    iterations: int = 100_000
    """scram-sha-256: rounds of PBKDF2; clients have to compute them, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """What is done against guessing, and for speed."""

    throttle: ThrottleSettings = field(default_factory=ThrottleSettings)
    concurrent: int = 2
    """So many passwords are checked at a time; bounds memory and processor."""
    patience_ms: int = 5_000
    """So long a log-in waits for its turn, in milliseconds."""
    remembered: int = 1_000
    """So many right passwords are recognised without a hash; 0: none."""
    remembered_ms: int = 300_000
    """For so long, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who may log in with a password."""

    name: str
    verifier: str = field(repr=False)
    groups: frozenset[str] = frozenset()


class UserDirectory(Protocol):
    """Where users are kept. Any thread."""

    def find(self, name: str) -> User | None:
        """Return the user of that name, as it is now; None: there is none."""
        ...

    def schemes(self) -> frozenset[Scheme]:
        """Return how the passwords are kept: what an unknown user must cost, too."""
        ...

    def renew(self, user: User, verifier: str) -> None:
        """Put `verifier`, of the same password, in place of the user's, unless it has another by now.

        Raises `ProviderError`: it cannot be written.
        """
        ...


class PasswordHasher:
    """Makes and checks the texts that are kept in place of passwords. Safe to use from any thread."""

    def __init__(self, settings: HashSettings | None = None) -> None:
        self.settings = settings or HashSettings()
        self._argon2 = argon2.PasswordHasher(
            time_cost=self.settings.passes, memory_cost=self.settings.memory_kib, parallelism=self.settings.lanes
        )

    def make(self, password: str, scheme: Scheme | None = None) -> str:
        """Return the verifier of `password`, with a new salt."""
        if (scheme or self.settings.scheme) is Scheme.SCRAM_SHA_256:
            return str(ScramVerifier.make(password, self.settings.iterations))
        return self._argon2.hash(_encoded(password))

    def accepts(self, verifier: str, password: str) -> bool:
        """Tell whether `verifier` is that of `password`."""
        if verifier.startswith(SCRAM_PREFIX):
            return ScramVerifier.parse(verifier).accepts(password)
        try:
            return self._argon2.verify(verifier, _encoded(password))
        except (Argon2Error, InvalidHashError):
            return False

    def is_current(self, verifier: str) -> bool:
        """Tell whether a new verifier would be made in the same way."""
        if scheme_of(verifier) is not self.settings.scheme:
            return False
        if self.settings.scheme is Scheme.SCRAM_SHA_256:
            return ScramVerifier.parse(verifier).iterations == self.settings.iterations
        return not self._argon2.check_needs_rehash(verifier)


def scheme_of(verifier: str) -> Scheme:
    """Return how this verifier was made. Raises `VerifierError`, whose text never holds the verifier."""
    try:
        if verifier.startswith(SCRAM_PREFIX):
            ScramVerifier.parse(verifier)
            return Scheme.SCRAM_SHA_256
        if verifier.startswith(_ARGON2_PREFIX):
            _check_cost(argon2.extract_parameters(verifier))
            return Scheme.ARGON2ID
    except VerifierError:
        raise
    except ValueError as error:  # InvalidHashError among them
        raise VerifierError("is a damaged hash of a password") from error
    raise VerifierError("is not a hash of a password")


def _check_cost(found: argon2.Parameters) -> None:
    if found.memory_cost > _ARGON2_MEMORY_KIB or found.time_cost > _ARGON2_PASSES:
        raise VerifierError("would take more than 1 GiB or 100 passes to check")


class PasswordAuthenticator(Authenticator):
    """Knows users by name and password."""

    def __init__(
        self,
        users: UserDirectory,
        clock: Clock,
        *,
        name: str = "users",
        hasher: PasswordHasher | None = None,
        settings: LoginSettings | None = None,
    ) -> None:
        """`name`: of this provider, as its principals bear it."""
        settings = settings or LoginSettings()
        self._users = users
        self._name = name
        self._hasher = hasher or PasswordHasher()
        self._throttle = Throttle(settings.throttle, clock)
        self._known = _KnownPasswords(settings, clock)
        self._turns = BoundedSemaphore(settings.concurrent)
        self._patience_s = settings.patience_ms / 1000
        # A verifier of each scheme that fits no password, made at the first need.
        self._false_verifiers: dict[Scheme, str] = {}

    def handles(self, credentials: Credentials | None) -> bool:
        return isinstance(credentials, PasswordCredentials) and credentials.user_name != TOKEN_USER

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        if not isinstance(credentials, PasswordCredentials):
            raise AccessDeniedError(NO_CREDENTIALS)
        name, password = credentials.user_name, credentials.password
        # Before the hash: how much is hashed must not be a client's choice.
        if len(name) > LONGEST_NAME or len(password) > LONGEST_PASSWORD:
            raise wrong_credentials()
        user = self._users.find(name)
        # Before the limits: a user whose password was right lately gets in during an attack in their name.
        if user is not None and self._known.has(user, password):
            return self._principal(user)
        # Before the turn: attempts that will be refused must not take one of the few turns from others.
        self._throttle.peek(peer, name)
        with self._turn():
            if user is not None and self._known.has(user, password):
                return self._principal(user)  # another connection of the same application was faster
            # Counted in the turn, as an attempt that found no turn has guessed nothing; and before
            # the hash, so that attempts at the same time cannot all pass by the last place.
            self._throttle.admit(peer, name)
            is_right = self._judge(user, password)
            if user is None or not is_right:
                raise wrong_credentials()
            # A right password is taken back from the count, which is of wrong ones alone.
            self._throttle.forgive(peer, name)
            self._known.add(user, password)
        self._renew(user, password)
        return self._principal(user)

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Take back that these were wrong: another authenticator knew them."""
        if isinstance(credentials, PasswordCredentials):
            self._throttle.forgive(peer, credentials.user_name)

    def _judge(self, user: User | None, password: str) -> bool:
        """Check the password at the same cost for every user, known or not: one hash for each scheme in use."""
        own = None if user is None else scheme_of(user.verifier)
        is_right = False
        for scheme in sorted(self._users.schemes() or {self._hasher.settings.scheme}, key=lambda scheme: scheme.value):
            if user is not None and scheme is own:
                is_right = self._hasher.accepts(user.verifier, password)
            else:
                self._hasher.accepts(self._false_verifier(scheme), password)
        return is_right

    def _false_verifier(self, scheme: Scheme) -> str:
        verifier = self._false_verifiers.get(scheme)
        if verifier is None:
            verifier = self._false_verifiers[scheme] = self._hasher.make(os.urandom(32).hex(), scheme)
        return verifier

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._turns.acquire(timeout=self._patience_s):
            raise LogInsBusyError
        try:
            yield
        finally:
            self._turns.release()

    def _renew(self, user: User, password: str) -> None:
        """Renew the user's verifier if its scheme or parameters are no longer the present ones."""
        if self._hasher.is_current(user.verifier):
            return
        verifier = self._hasher.make(password)
        try:
            self._users.renew(user, verifier)
        except ProviderError as error:
            _log.warning(
                "PYJMS-SECURITY-2 the hash of the password of %a could not be renewed: %s", user.name, error.reason
            )
        else:
            # The verifier is part of the digest: without this entry the next log-in would compute a hash again.
            self._known.add(User(name=user.name, verifier=verifier), password)

    def _principal(self, user: User) -> Principal:
        return Principal(name=user.name, groups=user.groups, provider=self._name)


class _KnownPasswords:
    """Which passwords were right lately. Holds no password: digests with a key that no disk has seen.

    The verifier is part of what is digested, so that a new password ends the old one's life here, too.
    """

    def __init__(self, settings: LoginSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._key = os.urandom(32)
        self._until_ms: OrderedDict[bytes, float] = OrderedDict()
        self._lock = Lock()

    def has(self, user: User, password: str) -> bool:
        digest = self._digest(user, password)
        with self._lock:
            return self._until_ms.get(digest, 0.0) > self._clock.monotonic_ms()

    def add(self, user: User, password: str) -> None:
        if self._settings.remembered == 0:
            return
        digest = self._digest(user, password)
        with self._lock:
            self._until_ms[digest] = self._clock.monotonic_ms() + self._settings.remembered_ms
            self._until_ms.move_to_end(digest)
            if len(self._until_ms) > self._settings.remembered:
                self._until_ms.popitem(last=False)

    def _digest(self, user: User, password: str) -> bytes:
        parts = (user.name, user.verifier, password)
        # Each part is digested first, to a fixed length: no zero byte in a name can shift the limits between the parts.
        return hmac.digest(
            self._key, b"\0".join(hmac.digest(self._key, _encoded(p), "sha256") for p in parts), "sha256"
        )


def _encoded(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
