"""The contracts of authentication and access control, for the protocols, the management and the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pyjms.spi.envelope import Address, ConnectionId
from pyjms.spi.errors import AccessDeniedError

TOKEN_USER: Final = "oauth2"  # noqa: S105 - the name of a user, not a password
"""The user name that marks the password as a bearer token, for clients of protocols with passwords only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordCredentials:
    """A user name and a password sent by a client."""

    user_name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateCredentials:
    """The client's certificate, in DER form, verified by TLS."""

    certificate: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredentials:
    """A bearer token of an OAuth 2 authorization server."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What a broker stores of a password for SCRAM-SHA-256 (RFC 5802, 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    provider: str = ""
    """The name of the authentication provider that has the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCredentials:
    """A user whose password a protocol has verified by the keys that an authenticator gave it, as SCRAM does."""

    user_name: str
    provider: str
    """Of the keys: a user of that name at another provider is another user."""


Credentials = PasswordCredentials | CertificateCredentials | TokenCredentials | VerifiedCredentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated user with its groups."""

    name: str
    groups: frozenset[str] = frozenset()
    provider: str = ""
    """The name of the authentication provider that has authenticated it."""
    unchecked_login: str | None = field(default=None, compare=False)
    """The user name that the client sent to a port without authentication; None: it sent none, or it was checked. It grants nothing."""


class Authenticator(ABC):
    """Authenticates clients. Safe to use from any thread; may take long (hashes, other servers)."""

    def handles(self, credentials: Credentials | None) -> bool:
        """Return whether this authenticator is for credentials of this kind; cheap."""
        return True

    @abstractmethod
    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        """Return the principal of `credentials`; None: the client sent none.

        `peer`: the address of the client, with or without a port (`Peer.address`): wrong attempts are counted by it, so
        that those of other clients do not block the right user.

        Raises `AccessDeniedError`; its text never reveals whether the user exists.
        """

    @property
    def knows_scram(self) -> bool:
        """Whether all its users can log in by SCRAM-SHA-256; cheap."""
        return False

    def scram_keys(self, user_name: str, *, peer: str = "") -> ScramKeys | None:
        """Return what is stored of a user's password for SCRAM, or for an unknown user keys that fit no password; None: it knows no SCRAM.

        It counts as a wrong attempt until `authenticate` gets `VerifiedCredentials` of the user. Raises `AccessDeniedError` after too many.
        """
        return None


class Operation(Enum):
    """An operation on a target."""

    CONNECT = "connect"
    """Connect to a virtual host."""
    WRITE = "write"
    """Send messages to the target."""
    READ = "read"
    """Consume its messages."""
    BROWSE = "browse"
    """Browse its messages."""
    CREATE = "create"
    """Create it: by first use, as a temporary destination, as a durable subscription, or through management."""
    ADMINISTER = "administer"
    """Change, delete, purge, move, pause, settle."""
    OBSERVE = "observe"
    """Read its attributes through management."""


class TargetKind(Enum):
    """The kind of a target."""

    VIRTUAL_HOST = "virtual_host"
    QUEUE = "queue"
    TOPIC = "topic"
    TEMPORARY = "temporary"
    """A temporary queue or topic; `Target.owner` is the connection that created it."""
    SUBSCRIPTION = "subscription"
    """A durable subscription; `Target.name` is ``CLIENT_ID:NAME``, `Target.owner` the name of the user who created it."""
    MANAGED = "managed"
    """Any other managed object; `Target.name` is its path: ``broker/port/stomp``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object of an operation."""

    kind: TargetKind
    name: str
    virtual_host: str = ""
    owner: ConnectionId | str = ""

    @classmethod
    def of(cls, address: Address, virtual_host: str) -> Target:
        """Return the target for a destination."""
        kind = TargetKind.TEMPORARY if address.temporary else TargetKind[address.kind.name]
        return cls(kind=kind, name=address.name, virtual_host=virtual_host)


class AccessPolicy(ABC):
    """Decides which operations a principal may do. Safe to use from any thread; fast, as it is called for each message; never blocks."""

    @abstractmethod
    def check(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> None:
        """Return if `principal` may do the operation. Raises `AccessDeniedError`, whose text names operation and target.

        `connection`: that of the request, as a user may have several connections, and only the connection that created a temporary
        destination may read from it; empty: none, for instance for requests through management.
        """

    @property
    def epoch(self) -> object | None:
        """An object that is replaced as soon as results of `check` may change; None: they may change at any time.

        As long as the epoch is the same, an allowed write to a destination stays allowed, if the destination still exists.
        """
        return None

    def permitted(
        self, principal: Principal, operation: Operation, kind: TargetKind, virtual_host: str, names: Sequence[str]
    ) -> list[str]:
        """Return those of `names` for whose targets `principal` may do the operation, in their order.

        For lists of thousands of names; `check` has the same result for each.
        """
        found: list[str] = []
        for name in names:
            try:
                self.check(principal, operation, Target(kind=kind, name=name, virtual_host=virtual_host))
            except AccessDeniedError:
                continue
            found.append(name)
        return found


WRONG_CREDENTIALS = "the credentials were refused: check user name and password, certificate or token"
NO_CREDENTIALS = "this broker asks who you are: log in with a user name and a password, a client certificate or a token"


class TooManyAttemptsError(AccessDeniedError):
    """There were too many wrong credentials from this address; nothing was checked."""

    code = "PYJMS-ACCESS-ATTEMPTS"

    def __init__(self, wait_ms: int) -> None:
        """`wait_ms`: milliseconds until the next attempt will be checked."""
        super().__init__(f"too many wrong credentials from this address: try again in {max(1, -(-wait_ms // 1000))} s")
        self.wait_ms = wait_ms

    def __reduce__(self) -> tuple[object, ...]:
        # By default Python pickles the text, and passes it to `__init__` in place of the milliseconds.
        return type(self), (self.wait_ms,)


class LogInsBusyError(AccessDeniedError):
    """The log-in was not checked, as there are too many at this moment, or a server does not answer."""

    code = "PYJMS-ACCESS-BUSY"

    def __init__(self) -> None:
        super().__init__("too many log in at this moment: try again in some seconds")

    def __reduce__(self) -> tuple[object, ...]:
        # By default Python passes the text to `__init__`, which takes no argument.
        return type(self), ()


def wrong_credentials() -> AccessDeniedError:
    """Return the error for all wrong credentials: an unknown user, a wrong password, an expired token. It does not say which."""
    return AccessDeniedError(WRONG_CREDENTIALS)
