"""One provider under test in this process: its profile, its declared facts, and all waiting."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from threading import Event
from typing import TypeVar, cast
from uuid import uuid4

from pyjms import ConnectionFactory
from pyjms.spi.capability import Capability
from pyjms.spi.clock import SystemClock
from pyjms.spi.url import ProviderUrl
from pyjms_tck.checks import CheckError
from pyjms_tck.profile import Profile

__all__ = ["Environment", "Facts", "Waits"]

_Factory = TypeVar("_Factory", bound=ConnectionFactory)

NOTHING_EMBEDDED_MS = 50
NOTHING_MS = 300
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts that a provider declares once connected."""

    name: str
    version: str
    jms_version: str
    capabilities: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Waiting times, in milliseconds: for expected events, and to show that an event does not happen."""

    something_ms: int
    nothing_ms: int

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Return when `condition()` is true; raise AssertionError that names `what` after `something_ms`."""
        end_ms = _CLOCK.monotonic_ms() + self.something_ms
        pause = Event()
        while not condition():
            if _CLOCK.monotonic_ms() >= end_ms:
                raise CheckError(
                    f"waited {self.something_ms} ms in vain until {what}", what, f"not so after {self.something_ms} ms"
                )
            pause.wait(0.005)

    def pause(self) -> None:
        """Wait `nothing_ms`, for events that must not happen."""
        Event().wait(self.nothing_ms / 1000)


class Environment:
    """The provider at `url`, administered through `profile`. The names that it generates are unique to this run."""

    def __init__(self, url: str, profile: Profile) -> None:
        self.url = url
        self.profile = profile
        profile.url = url
        # Process and random part: several workers, and successive runs, use one broker.
        self._run = f"{os.getpid():x}{uuid4().hex[:6]}"
        self._numbers = count(1)
        self._facts: Facts | None = None

    def factory(self, kind: type[_Factory], **options: object) -> _Factory:
        """Return a factory for the provider, with the profile's credentials and options, of the profile's class for
        `kind`.
        """
        made = cast("type[_Factory]", self.profile.factories.get(kind, kind))
        given = {"user_name": self.profile.user_name, "password": self.profile.password, **self.profile.options}
        # The test's own options come last, so they override the profile's.
        return made(self.url, **{**given, **options})

    @property
    def shown_url(self) -> str:
        """The URL without credentials and options, which may be secrets."""
        url = ProviderUrl.parse(self.url)
        return f"{url.scheme}://{url.host}{'' if url.port is None else f':{url.port}'}{url.path}"

    @property
    def facts(self) -> Facts:
        """The provider's declared facts; the first call connects. Raises JMSException."""
        if self._facts is None:
            # Only at the first use: pytest creates the environment before it knows whether any test is collected.
            with self.factory(ConnectionFactory).create_connection() as connection:
                about = connection.meta_data
                self._facts = Facts(
                    name=about.jms_provider_name,
                    version=about.provider_version,
                    jms_version=about.jms_version,
                    capabilities=connection.capabilities,
                )
        return self._facts

    @property
    def waits(self) -> Waits:
        """The waiting times of the profile, or the defaults for this kind of provider."""
        nothing_ms = self.profile.nothing_ms
        if nothing_ms is None:
            is_embedded = Capability.EMBEDDED_BROKER in self.facts.capabilities
            nothing_ms = NOTHING_EMBEDDED_MS if is_embedded else NOTHING_MS
        return Waits(something_ms=self.profile.something_ms, nothing_ms=nothing_ms)

    def make_name(self, prefix: str) -> str:
        """Return a unique name for destinations, client identifiers and subscriptions."""
        return f"{prefix}_{self._run}_{next(self._numbers)}"
