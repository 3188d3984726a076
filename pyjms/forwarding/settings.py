"""What a route is made of: sites, targets, and how it works. Facts without behaviour that could fail late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from pyjms.spi.back_off import BackOff
from pyjms.spi.envelope import Address
from pyjms.spi.provider import ConnectionEvents, ProviderConnection

__all__ = ["Guarantee", "RouteSettings", "Site", "Target"]


class Guarantee(Enum):
    """What can be said of a message when anything may die at any moment."""

    ONCE_ONLY = "once only"
    """Each message is at each of its targets exactly once."""
    AT_LEAST_ONCE = "at least once"
    """No message is lost; those of one batch may be at a target twice after a crash between two commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A message system that a route connects to: by its URL, or as whoever starts the route says."""

    url: str
    """Also its name in messages; without a password."""
    user_name: str | None = None
    password: str | None = field(default=None, repr=False)
    opens: Callable[[ConnectionEvents], ProviderConnection] | None = field(default=None, repr=False)
    """What connects instead of the provider of the URL: for a broker that is here, and that its own route needs no URL for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One destination at one site."""

    site: Site
    address: Address
    duplicate_property: str | None = None
    """The property by which the site recognizes what it has already; None: as its provider is known to do."""

    def __str__(self) -> str:
        return f"{self.address.name} at {self.site.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """How a route works. Times are in milliseconds."""

    name: str
    """Part of every duplicate id: two routes with the same name between the same queues count as one."""
    source: Target
    selector: str | None = None
    """Take only these messages; None: all."""
    batch: int = 100
    """Messages of one transaction at most."""
    linger_ms: int = 0
    """How long a batch that is not full waits for more; 0: it goes as soon as the source is empty."""
    back_off: BackOff = field(default_factory=BackOff)
    hops_max: int = 16
    """Through how many routes a message may go: an end for messages that go round in circles."""
    undeliverable: str | None = None
    """The queue at the source's site for messages that a target refuses; None: they block the route, and keep their place."""
    require: Guarantee = Guarantee.AT_LEAST_ONCE
    """A route that can give less is refused."""
    attempts: int = 5
    """How often a message that was rolled back alone is tried before it counts as refused."""
