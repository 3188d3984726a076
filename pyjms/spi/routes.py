"""The contract between a broker that shows and steers routes, and what runs them: forwarders and routers.

A runner is found by the entry-point group ``pyjms.route_runners``, whose name is the kind of route. A broker so manages routes
without knowing any, and whoever writes a runner knows no broker. All calls may come from any thread.
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
    """A route cannot be run as it is described; the text says what to change."""

    code = "PYJMS-ROUTE"


class RouteState(Enum):
    """Where a running route is."""

    RUNNING = "running"
    """It takes messages when there are any."""
    PAUSED = "paused"
    """Somebody has told it to wait."""
    AWAY = "away"
    """It waits for a site that is not there, or has no room; what it has taken keeps its place."""
    FAILED = "failed"
    """It has ended, as going on is in vain: `RouteStatistics.last_error` says why."""
    STOPPED = "stopped"
    """Somebody has ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """What is to be run."""

    name: str
    settings: Mapping[str, object] = field(repr=False)
    """What the kind of route asks for, as JSON has it; may hold passwords. The runner checks it."""
    here: Callable[[ConnectionEvents], ProviderConnection] | None = None
    """Connects to the broker that asks; None: all sites are named by URLs."""
    clock: Clock
    is_paused: bool = False
    """Whether the route begins paused, and takes no message before `RunningRoute.resume`."""
    on_failure: Callable[[str], None] | None = None
    """Called once, on the route's thread, when the route has ended by itself, with the reason. It may take its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStatistics:
    """What a route has done since it was started. Times are in milliseconds since 1970 UTC."""

    state: RouteState
    guarantee: str = "unknown"
    """``once only``, ``at least once``; ``unknown`` before the sites were reached."""
    forwarded: int = 0
    """Messages that left the source for good."""
    sent: int = 0
    """Messages that targets got: several for one with several targets."""
    undeliverable: int = 0
    """Messages that were set aside with a reason."""
    expired: int = 0
    waiting: int = 0
    """Messages that were taken and are not settled yet."""
    has_begun: bool = True
    """Whether it has reached its source, so that what it has not seen is not there. A runner that cannot tell leaves it out."""
    failures: int = 0
    """Attempts in vain."""
    last_error: str | None = None
    last_error_at_ms: int | None = None
    details: Mapping[str, int] = field(default_factory=dict)
    """What the kind of route counts beyond that, such as messages by rule."""


class RunningRoute(ABC):
    """A route that was started; it runs on a thread of its own."""

    @abstractmethod
    def pause(self) -> None:
        """Take no more messages; give back what was taken. May be repeated."""

    @abstractmethod
    def resume(self) -> None:
        """Go on after `pause`. May be repeated."""

    @abstractmethod
    def stop(self) -> None:
        """End it, within a second or so also when a site does not answer. May be repeated."""

    @abstractmethod
    def statistics(self) -> RouteStatistics:
        """Return what it has done so far. Never waits."""


class RouteRunner(ABC):
    """Runs routes of one kind. Made without arguments."""

    @abstractmethod
    def check(self, request: RouteRequest) -> None:
        """Look whether the settings can be used, without connecting to anything. Raises `RouteError`."""

    @abstractmethod
    def start(self, request: RouteRequest) -> RunningRoute:
        """Begin to run a route. Sites need not be there yet. Raises `RouteError`."""


def runner_kinds() -> tuple[str, ...]:
    """Return the kinds of routes for which a runner is installed, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def find_runner(kind: str) -> RouteRunner:
    """Return the runner of a kind of route. Raises `RouteError` when none is installed, or it cannot be made."""
    for point in entry_points(group=ENTRY_POINT_GROUP, name=kind):
        where = f"the runner of routes of the kind {kind!r}"
        return make(point, RouteRunner, where, RouteError, "install what it needs")  # type: ignore[type-abstract]
    raise RouteError(f"there is no kind of route {kind!r}; there are: {', '.join(runner_kinds()) or 'none'}")
