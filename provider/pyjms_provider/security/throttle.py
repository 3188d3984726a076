"""How often somebody may be wrong: wrong credentials at speed neither burn the processor nor shut out the right user.

Attempts are counted for a network and a user together, and for a network whatever the user: so guesses from one place
leave the user free elsewhere, and trying many names helps nobody. A network is an IPv4 address, or 64 bits of an IPv6 one.
Each count drains with time (a leaky bucket). An attempt counts before it is judged, so that a thousand at once do not slip
through, and is taken back when it was right; who waits to be judged does not count yet, so that a thousand right ones at once
are not taken for guesses. Attempts that are refused are not counted: nobody is shut out for good.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol, runtime_checkable

from pyjms.spi.clock import Clock
from pyjms_provider.security.contracts import Credentials
from pyjms_provider.security.refusals import TooManyAttemptsError

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
            wait_ms = max(self._users.wait_ms((network, user), now), self._networks.wait_ms(network, now))
            if wait_ms <= 0 and is_counted:
                is_last = self._users.take((network, user), now) | self._networks.take(network, now)
        if wait_ms > 0:
            raise TooManyAttemptsError(int(wait_ms) + 1)
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
            self.full_at_ms[key] -= self._interval_ms


def network_of(peer: str) -> str:
    """Return what counts as one network: of ``192.0.2.7:61613``, ``[2001:db8::1]:61613``, the like without port, or a name."""
    host = peer
    if peer.startswith("["):
        host = peer[1:].partition("]")[0]
    elif peer.count(":") == 1:
        host = peer.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:_LONGEST_NAME]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _IPV6_BITS), strict=False))
    return str(address)
