"""Log-ins: several authenticators in order, anybody where an operator said so, limits for wrong guesses, and revocation meanwhile."""

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
    TokenCredentials,
    TooManyAttemptsError,
    wrong_credentials,
)


class CompositeAuthenticator(Authenticator):
    """Asks one after the other."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        """`authenticators`: in the order in which they are asked; none: nobody is let in."""
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
                # they looked at nothing, and counted nothing
                if not isinstance(error, LogInsBusyError | TooManyAttemptsError):
                    asked.append(authenticator)
            else:
                # They are somebody else's, so that nobody has guessed.
                for other in asked:
                    if isinstance(other, Forgiving):
                        other.forgive(credentials, peer)
                return principal
        if refusal is not None:
            raise refusal
        raise AccessDeniedError(NO_CREDENTIALS) if credentials is None else wrong_credentials()


class AnonymousAuthenticator(Authenticator):
    """Authenticates all clients without credentials as one principal.

    Clients with credentials need another authenticator, or are refused: a wrong password must not look right.
    """

    def __init__(
        self, *, name: str = "anonymous", user_name: str = "anonymous", groups: frozenset[str] = frozenset()
    ) -> None:
        """`name`: of this provider; `user_name`: of the principal."""
        self._principal = Principal(name=user_name, groups=groups, provider=name)

    def handles(self, credentials: Credentials | None) -> bool:
        return credentials is None or _is_empty(credentials)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        if not self.handles(credentials):
            raise wrong_credentials()
        return self._principal


class UncheckedLogins(Authenticator):
    """Takes each client for one that offers no credentials, and notes the user name that it sent.

    For ports that are served by `AnonymousAuthenticator` alone: many clients send a login, such as guest, wherever they connect to.
    Where another authenticator serves the port, too, it must judge what is sent: a wrong password must not look right.
    """

    def __init__(self, anonymous: Authenticator) -> None:
        """`anonymous`: says who a client without credentials is."""
        self._anonymous = anonymous

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        principal = self._anonymous.authenticate(None, peer=peer)
        if isinstance(credentials, TokenCredentials):
            return replace(principal, unchecked_login=TOKEN_USER)
        if isinstance(credentials, PasswordCredentials) and not _is_empty(credentials):
            return replace(principal, unchecked_login=credentials.user_name)
        return principal


def _is_empty(credentials: Credentials) -> bool:
    """Tell whether a client sent the headers of user and password with nothing in them."""
    return isinstance(credentials, PasswordCredentials) and not credentials.user_name and not credentials.password


_USERS_MAX: Final = 1000
"""More users than are changed during one log-in, save by a program: then a log-in that is under way must be repeated."""


class RevocationGuard:
    """Refuses log-ins of users who are changed or deleted while they log in. Any thread; the lock is taken alone.

    A log-in takes the mark, authenticates, enters itself where it would be ended, and then checks. A revocation is noted first, and
    then ends the log-ins that are there. So one of the two sees the other.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._number = 0
        self._forgotten = 0
        """The number of the latest revocation of a user that is not in `_latest` any more."""
        self._latest: OrderedDict[tuple[str, str], int] = OrderedDict()
        """The number of the latest revocation of a user, by provider and user."""

    @property
    def mark(self) -> int:
        """The number of revocations so far, to be taken before a log-in authenticates."""
        # Read without the lock: a revocation that is noted a moment later has a higher number, and `check` sees it.
        return self._number

    def note(self, provider: str, user_name: str) -> None:
        """Note that a user of an authentication provider was changed or deleted."""
        key = provider, user_name
        with self._lock:
            self._number += 1
            self._latest[key] = self._number
            # In the order of the numbers: then the first entry is the oldest, and
            # `_forgotten` is the highest number of all that were dropped.
            self._latest.move_to_end(key)
            if len(self._latest) > _USERS_MAX:
                _, self._forgotten = self._latest.popitem(last=False)

    def check(self, principal: Principal, mark: int) -> None:
        """Raise `AccessDeniedError` if the user was revoked since `mark` was taken, or may have been, as too many others were."""
        with self._lock:
            # A user without an entry may be one that was dropped since the mark: the client has to log in again.
            latest = self._latest.get((principal.provider, principal.name), self._forgotten)
        if latest > mark:
            raise wrong_credentials()


_log = logging.getLogger(__name__)
_IPV6_BITS: Final = 64  # what one customer usually gets
_LONGEST_NAME: Final = 64  # of a peer that is no IP address


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleSettings:
    """How many wrong attempts are looked at, at once and in the long run."""

    burst: int = 10
    """Wrong attempts in a row, for one user from one network."""
    interval_ms: int = 5_000
    """After them one more each so many milliseconds."""
    network_burst: int = 50
    """Wrong attempts in a row from one network, for all users together."""
    network_interval_ms: int = 1_000
    """After them one more each so many milliseconds."""
    remembered: int = 10_000
    """So many networks, and pairs of network and user, are remembered; more push out the oldest."""


@runtime_checkable
class Forgiving(Protocol):
    """An authenticator that counts wrong attempts, and can take one back."""

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Take back that these were wrong: another authenticator knew them."""
        ...


class Throttle:
    """Counts wrong attempts. Safe to use from any thread."""

    def __init__(self, settings: ThrottleSettings, clock: Clock) -> None:
        self._clock = clock
        self._users = _Buckets(settings.burst, settings.interval_ms, settings.remembered)
        self._networks = _Buckets(settings.network_burst, settings.network_interval_ms, settings.remembered)
        self._lock = Lock()

    def admit(self, peer: str, user: str) -> None:
        """Count an attempt that begins. Raises `TooManyAttemptsError`: it is not to be looked at."""
        self._look(peer, user, is_counted=True)

    def peek(self, peer: str, user: str) -> None:
        """Raise `TooManyAttemptsError` if `admit` would; count nothing."""
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
                # Both are counted, so no short circuit.
                is_last = self._users.take((network, user), now) | self._networks.take(network, now)
        if wait_ms > 0:
            raise TooManyAttemptsError(int(wait_ms) + 1)
        # Logged once, when the limit is reached, outside of the lock: refusals
        # that follow are as many as a client likes.
        if is_last:
            _log.warning(
                "PYJMS-SECURITY-4 many wrong credentials from %s, the last for the user %a", network, user[:80]
            )

    def forgive(self, peer: str, user: str) -> None:
        """Take an attempt back: it was right after all."""
        network = network_of(peer)
        with self._lock:
            self._users.give_back((network, user))
            self._networks.give_back(network)

    def __len__(self) -> int:
        """Return how many counts are remembered."""
        return len(self._users.full_at_ms) + len(self._networks.full_at_ms)


class _Buckets:
    """Leaky buckets, each remembered as the time when it will have drained (the generic cell rate algorithm)."""

    def __init__(self, burst: int, interval_ms: int, remembered: int) -> None:
        self._interval_ms = interval_ms
        self._span_ms = (burst - 1) * interval_ms
        self._remembered = remembered
        self.full_at_ms: OrderedDict[object, float] = OrderedDict()

    def wait_ms(self, key: object, now: float) -> float:
        return self.full_at_ms.get(key, now) - now - self._span_ms

    def take(self, key: object, now: float) -> bool:
        """Count one; return True when it was the last for now."""
        drained = max(self.full_at_ms.get(key, now), now) + self._interval_ms
        self.full_at_ms[key] = drained
        self.full_at_ms.move_to_end(key)
        if len(self.full_at_ms) > self._remembered:
            self.full_at_ms.popitem(last=False)
        return drained - now > self._span_ms

    def give_back(self, key: object) -> None:
        if key in self.full_at_ms:
            # A time in the past needs no correction: `take` begins at the present then.
            self.full_at_ms[key] -= self._interval_ms


def network_of(peer: str) -> str:
    """Return what counts as one network: of ``192.0.2.7:61613``, ``[2001:db8::1]:61613``, the like without port, or a name."""
    host = peer
    if peer.startswith("["):
        host = peer[1:].partition("]")[0]
    elif peer.count(":") == 1:
        host = peer.partition(":")[0]
    try:
        # After the % is the interface of a link-local IPv6 address, which is no part of the network.
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:_LONGEST_NAME]
    if isinstance(address, ipaddress.IPv6Address):
        # A socket for both families shows IPv4 clients as ::ffff:192.0.2.7; both forms are one network.
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _IPV6_BITS), strict=False))
    return str(address)
