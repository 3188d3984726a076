"""Authentication and access control as the protocols, the management and the model see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pyjms.spi.envelope import Address, ConnectionId
from pyjms.spi.errors import AccessDeniedError

TOKEN_USER: Final = "oauth2"  # noqa: S105 - the name of a user, not a password
"""The user name by which a client of a protocol that knows only passwords says that its password is a bearer token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordCredentials:
    """A name and a password, as a client sent them."""

    user_name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateCredentials:
    """The certificate, in DER form, that a client proved to own when it set up TLS."""

    certificate: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredentials:
    """A bearer token of an OAuth 2 authorization server."""

    token: str = field(repr=False)


Credentials = PasswordCredentials | CertificateCredentials | TokenCredentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who somebody is."""

    name: str
    groups: frozenset[str] = frozenset()
    provider: str = ""
    """The name of the authentication provider that vouches for it."""
    unchecked_login: str | None = field(default=None, compare=False)
    """The user name that the client sent to a port which checks none; None: it sent none, or it was checked. It grants nothing."""


class Authenticator(ABC):
    """Tells who somebody is. Safe to use from any thread; may take long (hashes, other servers)."""

    def handles(self, credentials: Credentials | None) -> bool:
        """Tell whether these are credentials of the kind that this one judges; cheap."""
        return True

    @abstractmethod
    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        """Return the principal of these credentials; None: the client offered none.

        `peer`: the address of who offers them, with or without a port (`Peer.address`): wrong guesses are counted by it, so
        that somebody else's do not shut out the right user.

        Raises `AccessDeniedError`; its text never tells whether the user exists.
        """


class Operation(Enum):
    """What somebody wants to do with a target."""

    CONNECT = "connect"
    """To a virtual host."""
    WRITE = "write"
    """Send to it."""
    READ = "read"
    """Consume from it."""
    BROWSE = "browse"
    """Look at its messages."""
    CREATE = "create"
    """Make it: by first use, as a temporary one, as a durable subscription, or through management."""
    ADMINISTER = "administer"
    """Alter, delete, purge, move, pause, settle."""
    OBSERVE = "observe"
    """See it and its attributes through management."""


class TargetKind(Enum):
    """What kind of thing a target is."""

    VIRTUAL_HOST = "virtual_host"
    QUEUE = "queue"
    TOPIC = "topic"
    TEMPORARY = "temporary"
    """A temporary queue or topic; `Target.owner` is the connection that made it."""
    SUBSCRIPTION = "subscription"
    """A durable one; `Target.name` is ``CLIENT_ID:NAME``, `Target.owner` the name of the user who made it."""
    MANAGED = "managed"
    """Any other managed object; `Target.name` is its path: ``broker/port/stomp``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What somebody wants to do something with."""

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
    """Tells what somebody may do. Safe to use from any thread; fast, as it is asked for each message; never waits."""

    @abstractmethod
    def check(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> None:
        """Return if `principal` may do so. Raises `AccessDeniedError`, whose text names operation and target.

        `connection`: the one by which it is asked, as one user may have several and a temporary destination is read by the
        connection that made it; empty: by none, as through management.
        """

    @property
    def epoch(self) -> object | None:
        """What is another object as soon as `check` may answer otherwise; None: it always may, and is asked each time.

        With the same epoch, who was allowed to write somewhere still is, if that place is still there.
        """
        return None

    def permitted(
        self, principal: Principal, operation: Operation, kind: TargetKind, virtual_host: str, names: Sequence[str]
    ) -> list[str]:
        """Return those of `names` with whose targets `principal` may do so, in their order.

        For lists of thousands: `check` says the same of each.
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
    """Too many wrong credentials came from this address; nothing was checked."""

    code = "PYJMS-ACCESS-ATTEMPTS"

    def __init__(self, wait_ms: int) -> None:
        """`wait_ms`: milliseconds until the next attempt will be looked at."""
        super().__init__(f"too many wrong credentials from this address: try again in {max(1, -(-wait_ms // 1000))} s")
        self.wait_ms = wait_ms

    def __reduce__(self) -> tuple[object, ...]:
        # Python would pickle the text, and pass it to `__init__` in place of the milliseconds.
        return type(self), (self.wait_ms,)


class LogInsBusyError(AccessDeniedError):
    """So many log in at this moment that this one was not looked at."""

    code = "PYJMS-ACCESS-BUSY"

    def __init__(self) -> None:
        super().__init__("too many log in at this moment: try again in some seconds")

    def __reduce__(self) -> tuple[object, ...]:
        # Python would pass the text to `__init__`, which takes nothing.
        return type(self), ()


def wrong_credentials() -> AccessDeniedError:
    """Return the error for unknown user, wrong password, expired token and all the like: it tells no more than that."""
    return AccessDeniedError(WRONG_CREDENTIALS)
