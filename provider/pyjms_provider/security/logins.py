"""Log-ins: combined and anonymous authenticators, limits for wrong attempts, and revocations during a log-in."""

from __future__ import annotations

import ipaddress
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final, Protocol, runtime_checkable

from pyjms.spi.clock import Clock
from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.security.contracts import (
    NO_CREDENTIALS,
    TOKEN_USER,
    Authenticator,
    Credentials,
    LogInsBusyError,
    PasswordCredentials,
    Principal,
    ScramKeys,
    TokenCredentials,
    TooManyAttemptsError,
    wrong_credentials,
)


class CompositeAuthenticator(Authenticator):
    """Tries several authenticators one after the other."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        """`authenticators`: in the order in which they are tried; without any, all log-ins are refused."""
        self._authenticators = tuple(authenticators)

    def handles(self, credentials: Credentials | None) -> bool:
        return any(authenticator.handles(credentials) for authenticator in self._authenticators)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        refusal: AccessDeniedError | None = None
        asked: list[Authenticator] = []
        for authenticator in self._authenticators:
            if not authenticator.handles(credentials):
                continue
            try:
                principal = authenticator.authenticate(credentials, peer=peer)
            except AccessDeniedError as error:
                refusal = error
                # After these errors nothing was checked, and nothing was counted.
                if not isinstance(error, LogInsBusyError | TooManyAttemptsError):
                    asked.append(authenticator)
            else:
                # The credentials are right, so the others must not count them as wrong attempts.
                for other in asked:
                    if isinstance(other, Forgiving):
                        other.forgive(credentials, peer)
                return principal
        if refusal is not None:
            raise refusal
        raise AccessDeniedError(NO_CREDENTIALS) if credentials is None else wrong_credentials()

    @property
    def knows_scram(self) -> bool:
        # A client chooses one mechanism for whichever authenticator has its user.
        with_passwords = [each for each in self._authenticators if each.handles(_SOME_PASSWORD)]
        return bool(with_passwords) and all(each.knows_scram for each in with_passwords)

    def scram_keys(self, user_name: str, *, peer: str = "") -> ScramKeys | None:
        for authenticator in self._authenticators:
            keys = authenticator.scram_keys(user_name, peer=peer) if authenticator.knows_scram else None
            if keys is not None:
                return keys
        return None


_SOME_PASSWORD: Final = PasswordCredentials(user_name="user", password="")


class AnonymousAuthenticator(Authenticator):
    """Authenticates all clients without credentials as one principal.

    Clients with credentials need another authenticator, or are refused: a wrong password must not look right.
    """

    def __init__(
        self, *, name: str = "anonymous", user_name: str = "anonymous", groups: frozenset[str] = frozenset()
    ) -> None:
        """`name`: that of this provider; `user_name`: that of the principal."""
        self._principal = Principal(name=user_name, groups=groups, provider=name)

    def handles(self, credentials: Credentials | None) -> bool:
        return credentials is None or _is_empty(credentials)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        if not self.handles(credentials):
            raise wrong_credentials()
        return self._principal


class UncheckedLogins(Authenticator):
    """Authenticates each client as one without credentials, and records the user name that it sent.

    For ports with an `AnonymousAuthenticator` only: many clients always send a login, such as guest. If the port has another
    authenticator, too, that one must check the credentials: a wrong password must not look right.
    """

    def __init__(self, anonymous: Authenticator) -> None:
        """`anonymous`: authenticates clients without credentials."""
        self._anonymous = anonymous

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        principal = self._anonymous.authenticate(None, peer=peer)
        if isinstance(credentials, TokenCredentials):
            return replace(principal, unchecked_login=TOKEN_USER)
        if isinstance(credentials, PasswordCredentials) and not _is_empty(credentials):
            return replace(principal, unchecked_login=credentials.user_name)
        return principal


def _is_empty(credentials: Credentials) -> bool:
    """Return whether a client sent empty headers for user and password."""
    return isinstance(credentials, PasswordCredentials) and not credentials.user_name and not credentials.password


_USERS_MAX: Final = 1000
"""The number of revocations that are remembered. During one log-in only a program can change more users: then the log-in must be repeated."""


class RevocationGuard:
    """Refuses log-ins of users who are changed or deleted during the log-in. Any thread; no other lock is taken while its own is held.

    A log-in reads the mark, authenticates, registers itself, and then calls `check`. A revocation calls `note` first, and then ends the
    registered log-ins. So one of the two always sees the other.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._number = 0
        self._forgotten = 0
        """The number of the latest revocation that was dropped from `_latest`."""
        self._latest: OrderedDict[tuple[str, str], int] = OrderedDict()
        """The number of the latest revocation for each user, by provider and user name."""

    @property
    def mark(self) -> int:
        """The number of revocations so far, to be read before a log-in authenticates."""
        # Read without the lock: a revocation a moment later has a higher number, and `check` sees it.
        return self._number

    def note(self, provider: str, user_name: str) -> None:
        """Record that a user of an authentication provider was changed or deleted."""
        key = provider, user_name
        with self._lock:
            self._number += 1
            self._latest[key] = self._number
            # Sorted by number: the first entry is the oldest, and `_forgotten` is the
            # highest number of all that were dropped.
            self._latest.move_to_end(key)
            if len(self._latest) > _USERS_MAX:
                _, self._forgotten = self._latest.popitem(last=False)

    def check(self, principal: Principal, mark: int) -> None:
        """Raise `AccessDeniedError` if the user was revoked since `mark` was taken, or may have been, as too many others were."""
        with self._lock:
            # The entry of the user may have been dropped since the mark: then the client has to log in again.
            latest = self._latest.get((principal.provider, principal.name), self._forgotten)
        if latest > mark:
            raise wrong_credentials()


_log = logging.getLogger(__name__)
_IPV6_BITS: Final = 64  # the prefix that one customer usually gets
_LONGEST_NAME: Final = 64  # of a peer that is not an IP address


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleSettings:
    """The limits for wrong attempts."""

    burst: int = 10
    """The maximal number of wrong attempts in a row, for one user from one network."""
    interval_ms: int = 5_000
    """The time after which one more of them is allowed."""
    network_burst: int = 50
    """The maximal number of wrong attempts in a row from one network, for all users together."""
    network_interval_ms: int = 1_000
    """The time after which one more of them is allowed."""
    remembered: int = 10_000
    """The maximal number of networks, and of pairs of network and user, with counts; the oldest are dropped."""


@runtime_checkable
class Forgiving(Protocol):
    """An authenticator that counts wrong attempts, and can undo this."""

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Undo the count of these credentials, as another authenticator has accepted them."""
        ...


class Throttle:
    """Counts and limits wrong attempts. Safe to use from any thread."""

    def __init__(self, settings: ThrottleSettings, clock: Clock) -> None:
        self._clock = clock
        self._users = _Buckets(settings.burst, settings.interval_ms, settings.remembered)
        self._networks = _Buckets(settings.network_burst, settings.network_interval_ms, settings.remembered)
        self._lock = Lock()

    def admit(self, peer: str, user: str) -> None:
        """Count an attempt before it is checked. Raises `TooManyAttemptsError` if it must not be checked."""
        self._look(peer, user, is_counted=True)

    def peek(self, peer: str, user: str) -> None:
        """Raise `TooManyAttemptsError` if `admit` would, without counting."""
        self._look(peer, user, is_counted=False)

    def _look(self, peer: str, user: str, *, is_counted: bool) -> None:
        network = network_of(peer)
        is_last = False
        with self._lock:
            now = self._clock.monotonic_ms()
            # A refused attempt is not counted: a client that repeats it would
            # otherwise keep its own limit full for ever.
            wait_ms = max(self._users.wait_ms((network, user), now), self._networks.wait_ms(network, now))
            if wait_ms <= 0 and is_counted:
                # `|` and not `or`, as both must be counted.
                is_last = self._users.take((network, user), now) | self._networks.take(network, now)
        if wait_ms > 0:
            raise TooManyAttemptsError(int(wait_ms) + 1)
        # Logged once, when the limit is reached, as a client can cause any number of
        # refusals after that; and outside of the lock.
        if is_last:
            _log.warning(
                "PYJMS-SECURITY-4 many wrong credentials from %s, the last for the user %a", network, user[:80]
            )

    def forgive(self, peer: str, user: str) -> None:
        """Undo the count of an attempt that was right."""
        network = network_of(peer)
        with self._lock:
            self._users.give_back((network, user))
            self._networks.give_back(network)

    def __len__(self) -> int:
        """Return the number of counts in memory."""
        return len(self._users.full_at_ms) + len(self._networks.full_at_ms)


class _Buckets:
    """Leaky buckets, each stored as the time when it will be empty (the generic cell rate algorithm)."""

    def __init__(self, burst: int, interval_ms: int, remembered: int) -> None:
        self._interval_ms = interval_ms
        self._span_ms = (burst - 1) * interval_ms
        self._remembered = remembered
        self.full_at_ms: OrderedDict[object, float] = OrderedDict()

    def wait_ms(self, key: object, now: float) -> float:
        return self.full_at_ms.get(key, now) - now - self._span_ms

    def take(self, key: object, now: float) -> bool:
        """Count one attempt; return True if it was the last one allowed for now."""
        drained = max(self.full_at_ms.get(key, now), now) + self._interval_ms
        self.full_at_ms[key] = drained
        self.full_at_ms.move_to_end(key)
        if len(self.full_at_ms) > self._remembered:
            self.full_at_ms.popitem(last=False)
        return drained - now > self._span_ms

    def give_back(self, key: object) -> None:
        if key in self.full_at_ms:
            # If the result is in the past, no correction is needed: `take` then starts at the present.
            self.full_at_ms[key] -= self._interval_ms


def network_of(peer: str) -> str:
    """Return the network of a peer such as ``192.0.2.7:61613``, ``[2001:db8::1]:61613``, the same without port, or a name."""
    host = peer
    if peer.startswith("["):
        host = peer[1:].partition("]")[0]
    elif peer.count(":") == 1:
        host = peer.partition(":")[0]
    try:
        # The part after % is the interface of a link-local IPv6 address, and not part of the network.
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:_LONGEST_NAME]
    if isinstance(address, ipaddress.IPv6Address):
        # A socket for both families shows IPv4 clients as ::ffff:192.0.2.7; both forms mean the same network.
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _IPV6_BITS), strict=False))
    return str(address)
