"""Passwords: hashes (argon2id, RFC 9106; SCRAM-SHA-256), and authentication by passwords.

The time of a check reveals nothing: the same hashes are computed for every user, known or not. Hashes deliberately cost memory and
processor time, so only few are computed at once, and wrong attempts are counted (`logins.Throttle`). A recently verified password is
recognized by a keyed digest in memory, so that a thousand connections of one application do not cost a thousand hashes
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
    ScramKeys,
    VerifiedCredentials,
    wrong_credentials,
)
from pyjms_provider.security.logins import Throttle, ThrottleSettings

SCRAM_PREFIX: Final = "SCRAM-SHA-256$"
DEFAULT_ITERATIONS: Final = 100_000
_ITERATIONS: Final = range(4096, 10_000_001)  # RFC 7677 §4; more could be used to overload the broker
_BASE64: Final = "[A-Za-z0-9+/]+={0,2}"
_TEXT: Final = re.compile(rf"SCRAM-SHA-256\$([0-9]{{1,8}}):({_BASE64})\$({_BASE64}):({_BASE64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramVerifier:
    """The verifier of a password that a server stores for SCRAM-SHA-256."""

    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def make(cls, password: str, iterations: int = DEFAULT_ITERATIONS, salt: bytes | None = None) -> ScramVerifier:
        """Return the verifier of `password`, with `salt` or a new random one."""
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
        """Parse the text of a verifier, as `str` returns it. Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError("not a SCRAM-SHA-256 verifier")
        iterations = int(match[1])
        salt, stored_key, server_key = (base64.b64decode(part, validate=True) for part in match.groups()[1:])
        if iterations not in _ITERATIONS or len(salt) < 12 or {len(stored_key), len(server_key)} != {32}:
            raise ValueError("not a usable SCRAM-SHA-256 verifier")
        return cls(iterations=iterations, salt=salt, stored_key=stored_key, server_key=server_key)

    def accepts(self, password: str) -> bool:
        """Return whether this is the verifier of `password`; costs as much as making one."""
        # Compared in constant time: the duration must not reveal how many bytes are right.
        return hmac.compare_digest(self.make(password, self.iterations, self.salt).stored_key, self.stored_key)

    def __str__(self) -> str:
        """Return the text in PostgreSQL's format: ``SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY``."""
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"{SCRAM_PREFIX}{self.iterations}:{salt}${stored}:{server}"


def _prepared(password: str) -> bytes:
    """Normalize a password by SASLprep (RFC 5802 §2.2); if it has forbidden characters, leave it unchanged, as PostgreSQL does."""
    try:
        prepared = str(saslprep(password))
    except ScramException:
        prepared = password
    # SASLprep removes soft hyphens and the like: a password of these alone would become empty.
    return (prepared or password).encode("utf-8", "surrogatepass")


_log = logging.getLogger(__name__)
LONGEST_NAME: Final = 255
LONGEST_PASSWORD: Final = 1024
_ARGON2_PREFIX: Final = "$argon2id$"
_ARGON2_MEMORY_KIB: Final = 1024 * 1024
_ARGON2_PASSES: Final = 100


class Scheme(Enum):
    """The scheme by which passwords are hashed."""

    ARGON2ID = "argon2id"
    """The best protection against guessing if the file is stolen."""
    SCRAM_SHA_256 = "scram-sha-256"
    """Allows clients of protocols with SASL to log in without sending the password."""


class VerifierError(ValueError):
    """A text is not a password hash of a known scheme, or would be too expensive to check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSettings:
    """The scheme and the cost of hashes. The defaults are OWASP's recommendations; existing hashes are renewed at the next log-in."""

    scheme: Scheme = Scheme.ARGON2ID
    """The scheme for new passwords; existing hashes are checked by their own."""
    memory_kib: int = 19 * 1024
    """argon2id: memory in KiB for each concurrent check."""
    passes: int = 2
    """argon2id: the number of passes over the memory."""
    lanes: int = 1
    """argon2id: the number of threads."""
    iterations: int = 100_000
    """scram-sha-256: the number of rounds of PBKDF2; clients have to compute them, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """The limits of log-ins by password, and the cache of verified passwords."""

    throttle: ThrottleSettings = field(default_factory=ThrottleSettings)
    concurrent: int = 2
    """The maximal number of concurrent password checks; limits the use of memory and processor."""
    patience_ms: int = 5_000
    """The longest wait of a log-in for its check, in milliseconds."""
    remembered: int = 1_000
    """The maximal number of cached passwords, which are recognized without a hash; 0: none."""
    remembered_ms: int = 300_000
    """How long they are cached, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user with a password hash and groups."""

    name: str
    verifier: str = field(repr=False)
    groups: frozenset[str] = frozenset()


class UserDirectory(Protocol):
    """A store of users. Safe to use from any thread."""

    def find(self, name: str) -> User | None:
        """Return the present state of the user of that name; None: there is none."""
        ...

    def schemes(self) -> frozenset[Scheme]:
        """Return the schemes of all hashes, as the check of an unknown user must have the same cost."""
        ...

    def renew(self, user: User, verifier: str) -> None:
        """Replace the user's verifier by `verifier`, of the same password, unless it was changed in the meantime.

        Raises `ProviderError` if it cannot be written.
        """
        ...


class PasswordHasher:
    """Creates and checks verifiers, the texts that are stored in place of passwords. Safe to use from any thread."""

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
        """Return whether `verifier` is that of `password`."""
        if verifier.startswith(SCRAM_PREFIX):
            return ScramVerifier.parse(verifier).accepts(password)
        try:
            return self._argon2.verify(verifier, _encoded(password))
        except (Argon2Error, InvalidHashError):
            return False

    def is_current(self, verifier: str) -> bool:
        """Return whether `verifier` has the present scheme and parameters."""
        if scheme_of(verifier) is not self.settings.scheme:
            return False
        if self.settings.scheme is Scheme.SCRAM_SHA_256:
            return ScramVerifier.parse(verifier).iterations == self.settings.iterations
        return not self._argon2.check_needs_rehash(verifier)


def scheme_of(verifier: str) -> Scheme:
    """Return the scheme of a verifier. Raises `VerifierError`, whose text never contains the verifier."""
    try:
        if verifier.startswith(SCRAM_PREFIX):
            ScramVerifier.parse(verifier)
            return Scheme.SCRAM_SHA_256
        if verifier.startswith(_ARGON2_PREFIX):
            _check_cost(argon2.extract_parameters(verifier))
            return Scheme.ARGON2ID
    except VerifierError:
        raise
    except ValueError as error:  # also argon2's InvalidHashError
        raise VerifierError("is a damaged hash of a password") from error
    raise VerifierError("is not a hash of a password")


def _check_cost(found: argon2.Parameters) -> None:
    if found.memory_cost > _ARGON2_MEMORY_KIB or found.time_cost > _ARGON2_PASSES:
        raise VerifierError("would take more than 1 GiB or 100 passes to check")


class PasswordAuthenticator(Authenticator):
    """Authenticates users by name and password."""

    def __init__(
        self,
        users: UserDirectory,
        clock: Clock,
        *,
        name: str = "users",
        hasher: PasswordHasher | None = None,
        settings: LoginSettings | None = None,
    ) -> None:
        """`name`: that of this provider, in `Principal.provider`."""
        settings = settings or LoginSettings()
        self._users = users
        self._name = name
        self._hasher = hasher or PasswordHasher()
        self._throttle = Throttle(settings.throttle, clock)
        self._known = _KnownPasswords(settings, clock)
        self._turns = BoundedSemaphore(settings.concurrent)
        self._patience_s = settings.patience_ms / 1000
        # For each scheme, a verifier that matches no password, created on first use.
        self._false_verifiers: dict[Scheme, str] = {}
        self._decoy = os.urandom(32)

    def handles(self, credentials: Credentials | None) -> bool:
        if isinstance(credentials, VerifiedCredentials):
            return credentials.provider == self._name
        return isinstance(credentials, PasswordCredentials) and credentials.user_name != TOKEN_USER

    @property
    def knows_scram(self) -> bool:
        return self._users.schemes() == {Scheme.SCRAM_SHA_256}

    def scram_keys(self, user_name: str, *, peer: str = "") -> ScramKeys | None:
        if len(user_name) > LONGEST_NAME:
            return None
        self._throttle.admit(peer, user_name)
        user = self._users.find(user_name)
        if user is None or scheme_of(user.verifier) is not Scheme.SCRAM_SHA_256:
            # An unknown user gets keys as well, with always the same salt: the answer reveals nothing, and no password fits.
            salt = hmac.digest(self._decoy, user_name.encode("utf-8", "surrogatepass"), "sha256")[:16]
            return ScramKeys(salt, self._hasher.settings.iterations, os.urandom(32), os.urandom(32), self._name)
        stored = ScramVerifier.parse(user.verifier)
        return ScramKeys(stored.salt, stored.iterations, stored.stored_key, stored.server_key, self._name)

    def _verified(self, credentials: VerifiedCredentials, peer: str) -> Principal:
        user = self._users.find(credentials.user_name) if credentials.provider == self._name else None
        if user is None:  # deleted meanwhile
            raise wrong_credentials()
        self._throttle.forgive(peer, user.name)
        return self._principal(user)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        if isinstance(credentials, VerifiedCredentials):
            return self._verified(credentials, peer)
        if not isinstance(credentials, PasswordCredentials):
            raise AccessDeniedError(NO_CREDENTIALS)
        name, password = credentials.user_name, credentials.password
        # Before the hash, as a client must not choose how much is hashed.
        if len(name) > LONGEST_NAME or len(password) > LONGEST_PASSWORD:
            raise wrong_credentials()
        user = self._users.find(name)
        # Before the limits: a user whose password was verified recently can log in during an attack on this user.
        if user is not None and self._known.has(user, password):
            return self._principal(user)
        # Before the wait for a check: attempts that will be refused must not use one of the few concurrent checks.
        self._throttle.peek(peer, name)
        with self._turn():
            if user is not None and self._known.has(user, password):
                return self._principal(user)  # verified by another connection in the meantime
            # Counted after the wait, as an attempt that was not checked is no guess; and before the
            # hash, so that concurrent attempts cannot exceed the limit.
            self._throttle.admit(peer, name)
            is_right = self._judge(user, password)
            if user is None or not is_right:
                raise wrong_credentials()
            # The count of a right password is undone, as only wrong ones count.
            self._throttle.forgive(peer, name)
            self._known.add(user, password)
        self._renew(user, password)
        return self._principal(user)

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Undo the count of these credentials, as another authenticator has accepted them."""
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
            # The digest contains the verifier: without this entry the next log-in would compute a hash again.
            self._known.add(User(name=user.name, verifier=verifier), password)

    def _principal(self, user: User) -> Principal:
        return Principal(name=user.name, groups=user.groups, provider=self._name)


class _KnownPasswords:
    """A cache of recently verified passwords: digests with a key that is never written to disk, and not the passwords.

    The digest contains the verifier, so that an old password is not accepted any more after a change.
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
        # Each part is first digested to a fixed length, so that different parts cannot give the same concatenation.
        return hmac.digest(
            self._key, b"\0".join(hmac.digest(self._key, _encoded(p), "sha256") for p in parts), "sha256"
        )


def _encoded(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
