"""The contract between a broker that manages routes and their runners: forwarders and routers.

A runner is found by the entry-point group ``pyjms.route_runners``, whose name is the kind of route. So brokers manage routes
without depending on runners, and runners do not depend on brokers. All calls may come from any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from pyjms.spi.clock import Clock
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ConnectionEvents, ProviderConnection
from pyjms.spi.registry import entry_points, make

__all__ = [
    "ENTRY_POINT_GROUP",
    "RouteError",
    "RouteRequest",
    "RouteRunner",
    "RouteState",
    "RouteStatistics",
    "RunningRoute",
    "find_runner",
    "runner_kinds",
]

ENTRY_POINT_GROUP = "pyjms.route_runners"


class RouteError(ProviderError):
    """The settings of a route are invalid; the text says what to change."""

    code = "PYJMS-ROUTE"


class RouteState(Enum):
    """The state of a running route."""

    RUNNING = "running"
    """It takes messages when there are any."""
    PAUSED = "paused"
    """A user has paused it."""
    AWAY = "away"
    """It waits for a site that is unreachable, or has no capacity; messages that it has taken keep their place."""
    FAILED = "failed"
    """It has ended, as it cannot continue: `RouteStatistics.last_error` says why."""
    STOPPED = "stopped"
    """A user has stopped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """The description of a route to run."""

    name: str
    settings: Mapping[str, object] = field(repr=False)
    """The settings of this kind of route, as JSON; may hold passwords. The runner checks it."""
    here: Callable[[ConnectionEvents], ProviderConnection] | None = None
    """Connects to the broker that starts the route; None: all sites are given by URLs."""
    clock: Clock
    is_paused: bool = False
    """Whether the route begins paused, and takes no message before `RunningRoute.resume`."""
    on_failure: Callable[[str], None] | None = None
    """Called once, on the route's thread, with the reason, when the route has ended by itself. It may take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStatistics:
    """The statistics of a route since it was started. Times are in milliseconds since 1970 UTC."""

    state: RouteState
    guarantee: str = "unknown"
    """``once only``, ``at least once``; ``unknown`` before the sites were reached."""
    forwarded: int = 0
    """Messages that have left the source for good."""
    sent: int = 0
    """Messages that targets have received: several for one with several targets."""
    undeliverable: int = 0
    """Messages that were dead-lettered with a reason."""
    expired: int = 0
    waiting: int = 0
    """Messages that were taken and are not yet settled."""
    has_begun: bool = True
    """Whether it has reached its source, so that messages it has not seen do not exist. A runner that does not know leaves it out."""
    failures: int = 0
    """Failed attempts."""
    last_error: str | None = None
    last_error_at_ms: int | None = None
    details: Mapping[str, int] = field(default_factory=dict)
    """Further counts of this kind of route, such as messages by rule."""


class RunningRoute(ABC):
    """A route that was started; it runs on a thread of its own."""

    @abstractmethod
    def pause(self) -> None:
        """Take no more messages; release those that were taken. May be repeated."""

    @abstractmethod
    def resume(self) -> None:
        """Continue after `pause`. May be repeated."""

    @abstractmethod
    def stop(self) -> None:
        """End it, within about a second even when a site does not answer. May be repeated."""

    @abstractmethod
    def statistics(self) -> RouteStatistics:
        """Return its statistics so far. Never waits."""


class RouteRunner(ABC):
    """Runs routes of one kind. Made without arguments."""

    @abstractmethod
    def check(self, request: RouteRequest) -> None:
        """Check the settings, without connecting to anything. Raises `RouteError`."""

    @abstractmethod
    def start(self, request: RouteRequest) -> RunningRoute:
        """Begin to run a route. Sites may still be unreachable. Raises `RouteError`."""


def runner_kinds() -> tuple[str, ...]:
    """Return the kinds of routes for which a runner is installed, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def find_runner(kind: str) -> RouteRunner:
    """Return the runner of a kind of route. Raises `RouteError` when none is installed, or it cannot be made."""
    for point in entry_points(group=ENTRY_POINT_GROUP, name=kind):
        where = f"the runner of routes of the kind {kind!r}"
        return make(point, RouteRunner, where, RouteError, "install what it needs")  # type: ignore[type-abstract]
    raise RouteError(f"there is no kind of route {kind!r}; there are: {', '.join(runner_kinds()) or 'none'}")
