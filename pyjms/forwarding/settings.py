"""Settings of a route (sites, targets, pace), the size of its batches, and its counters."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from pyjms.spi.clock import BackOff, Clock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ConnectionEvents, ProviderConnection
from pyjms.spi.registry import find_provider
from pyjms.spi.routes import RouteError, RouteRequest, RouteState, RouteStatistics
from pyjms.spi.selector import compile_selector
from pyjms.spi.url import ProviderUrl


class Guarantee(Enum):
    """The delivery guarantee of a route, whatever crashes."""

    ONCE_ONLY = "once only"
    """Each message reaches each of its targets exactly once."""
    AT_LEAST_ONCE = "at least once"
    """No message is lost; those of one batch may reach a target twice after a crash between two commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A message system that a route connects to: by its URL, or by a function of the route's owner."""

    url: str
    """The URL without a password; also its name in messages."""
    user_name: str | None = None
    # Kept out of the representation, which may go into logs.
    password: str | None = field(default=None, repr=False)
    uses_account: bool = False
    """Whether a connection without credentials takes those of the account: not in a broker, whose operators do not own its account."""
    opens: Callable[[ConnectionEvents], ProviderConnection] | None = field(default=None, repr=False)
    """Connects instead of the URL's provider: for the local broker, for which its own route needs no URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One destination at one site."""

    site: Site
    address: Address
    duplicate_property: str | None = None
    """The property by which the site recognizes duplicates; None: the known one of its provider."""

    def __str__(self) -> str:
        return f"{self.address.name} at {self.site.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """The settings of a route. Times are in milliseconds."""

    name: str
    """Part of every duplicate id: two routes with the same name between the same queues count as one."""
    source: Target
    selector: str | None = None
    """Take only messages that match; None: all."""
    batch: int = 100
    """The maximum number of messages in one transaction."""
    linger_ms: int = 0
    """How long an incomplete batch waits for more messages; 0: it is sent as soon as the source is empty."""
    back_off: BackOff = field(default_factory=BackOff)
    hops_max: int = 16
    """The maximum number of routes that a message may pass: ends circles."""
    undeliverable: str | None = None
    """The queue at the source's site for messages that a target refuses; None: they block the route, and keep their
    place.
    """
    require: Guarantee = Guarantee.AT_LEAST_ONCE
    """A route with a weaker guarantee is refused."""
    attempts: int = 5
    """How often a message that was rolled back alone is tried before it counts as refused."""


HERE: Final = "here"
"""Replaces the URL of the broker that runs the route."""

COMMON: Final = (
    "url",
    "source",
    "user",
    "password",
    "selector",
    "batch",
    "linger_ms",
    "back_off_ms",
    "back_off_max_ms",
    "hops_max",
    "undeliverable",
    "require",
    "attempts",
)
"""The settings common to all kinds of routes."""

_LONGEST_MS: Final = 86_400_000


class Described:
    """Reads one request; collects problems, which `finish` raises."""

    def __init__(self, request: RouteRequest, own: tuple[str, ...]) -> None:
        """`own`: the settings of this kind of route."""
        self._request = request
        self._settings = {name: value for name, value in request.settings.items() if value is not None}
        self.problems: list[str] = []
        for name in self._settings:
            if name not in (*COMMON, *own):
                close = difflib.get_close_matches(name, (*COMMON, *own), 1)
                self.problems.append(
                    f"{name}: there is no such setting" + (f"; did you mean {close[0]}?" if close else "")
                )
        self._user = self.text("user")
        self._password = self.text("password")

    def finish(self) -> None:
        """Raise `RouteError` with all problems, if there are any."""
        if self.problems:
            raise RouteError(f"the route {self._request.name!r} cannot be run: {'; '.join(self.problems)}")

    def text(self, name: str) -> str | None:
        """Return a text; None if it is absent."""
        value = self._settings.get(name)
        if value is None or (isinstance(value, str) and value):
            return value
        self.problems.append(f"{name}: write a text that is not empty")
        return None

    def _number(self, name: str, default: int, least: int, most: int) -> int:
        value = self._settings.get(name, default)
        # A bool is an int in Python, but true in the settings is no number.
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.problems.append(f"{name}: write a number from {least} to {most}")
        return default

    def site(self, url: str | None, place: str = "url", user: str | None = None, password: str | None = None) -> Site:
        """Return the site of a URL (None: the broker that runs the route); the provider must be installed and accept
        the URL.
        """
        if url is None or url == HERE:
            if self._request.here is None:
                self.problems.append(f"{place}: name the broker, as in stomp://127.0.0.1:61613")
            return Site(url=HERE, opens=self._request.here)
        try:
            parsed = ProviderUrl.parse(url)
            # An unknown option is reported here, when the route is created, and not only when it connects.
            find_provider(parsed.scheme).check_url(parsed)
        except ProviderError as error:
            self.problems.append(f"{place}: {error.reason}")
        return Site(
            url=url,
            user_name=user or self._user,
            password=password or self._password,
            uses_account=self._request.here is None,
        )

    def targets(self) -> list[Target]:
        """Return the setting ``targets`` of a forwarder: tables with url, queue or topic, user, password."""
        given = self._settings.get("targets")
        if not isinstance(given, list) or not given:
            self.problems.append('targets: name one at least, as in [{"url": "stomp://HOST:PORT", "queue": "orders"}]')
            return []
        found = [self._target(f"targets.{number}", each) for number, each in enumerate(given)]
        if len(set(found)) < len(found):
            self.problems.append("targets: one stands there twice")
        return found

    def _target(self, place: str, table: object) -> Target:
        given: Mapping[str, Any] = table if isinstance(table, Mapping) else {}
        values = {name: value for name, value in given.items() if value is not None}
        wrong = sorted(set(values) - {"url", "queue", "topic", "user", "password", "duplicate_property"})
        texts = {name: value for name, value in values.items() if isinstance(value, str) and value}
        if wrong or len(texts) < len(values) or ("queue" in texts and "topic" in texts):
            self.problems.append(f"{place}: write texts for url, queue or topic, user, password, duplicate_property")
        kind = AddressKind.TOPIC if "topic" in texts else AddressKind.QUEUE
        name = texts.get("topic") or texts.get("queue") or self.text("source") or "?"
        return Target(
            site=self.site(texts.get("url"), f"{place}.url", texts.get("user"), texts.get("password")),
            address=Address(kind, name),
            duplicate_property=texts.get("duplicate_property"),
        )

    def route(self) -> RouteSettings:
        """Return the settings common to all kinds of routes."""
        settings = self._settings
        source = self.text("source")
        if source is None:
            self.problems.append("source: name the queue that messages are taken from")
            source = "?"
        selector = self.text("selector")
        self.attempt("selector", lambda: compile_selector(selector or ""))
        require = settings.get("require", Guarantee.AT_LEAST_ONCE.value)
        known = {each.value: each for each in Guarantee}
        if require not in known:
            self.problems.append(f"require: write one of {', '.join(map(repr, known))}")
        undeliverable = settings.get("undeliverable", f"{source}.undeliverable")
        if not isinstance(undeliverable, str):
            self.problems.append("undeliverable: write the name of a queue, or an empty text for none")
        return RouteSettings(
            name=self._request.name,
            source=Target(site=self.site(self.text("url")), address=Address(AddressKind.QUEUE, source)),
            selector=selector,
            batch=self._number("batch", 100, 1, 10_000),
            linger_ms=self._number("linger_ms", 0, 0, _LONGEST_MS),
            back_off=BackOff(
                first_ms=self._number("back_off_ms", 100, 1, _LONGEST_MS),
                most_ms=self._number("back_off_max_ms", 30_000, 1, _LONGEST_MS),
            ),
            hops_max=self._number("hops_max", 16, 1, 1_000),
            undeliverable=str(undeliverable) or None,
            require=known.get(str(require), Guarantee.AT_LEAST_ONCE),
            attempts=self._number("attempts", 5, 1, 1_000),
        )

    def attempt(self, place: str, look: Callable[[], object]) -> None:
        """Record the error that `look` raises, if any."""
        try:
            look()
        except ProviderError as error:
            self.problems.append(f"{place}: {error.reason}")


# No limit in practice, but a bound: each success doubles the size.
_ALL: Final = 1 << 30


class AdaptiveBatchSize:
    """Halved by each failure, down to one message, and doubled by each success. For one thread."""

    def __init__(self) -> None:
        self.most = _ALL
        """The present maximum number of messages in one transaction."""

    def succeeded(self) -> None:
        """Record a successful transaction."""
        self.most = min(self.most * 2, _ALL)

    def failed(self, tried: int) -> bool:
        """Record a failure with `tried` messages; return whether a smaller transaction can be tried."""
        # Half of the failed number, as the present size may be far above it.
        self.most = max(tried // 2, 1)
        return tried > 1


class RouteCounters:
    """Counts since the start. Each number is written by one thread, so reads need no lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.state = RouteState.RUNNING
        self.guarantee: Guarantee | None = None
        """None: not all sites have been reached yet."""
        self.has_begun = False
        """Whether the route has been able to receive messages; until then an empty source is not certain."""
        self.waiting = 0
        self.details: Mapping[str, int] = {}
        self._forwarded = self._sent = self._undeliverable = self._expired = self._failures = 0
        self._last_error: tuple[str, int] | None = None

    def settled(self, forwarded: int, sent: int, undeliverable: int, expired: int) -> None:
        """Count one batch."""
        self._forwarded += forwarded
        self._sent += sent
        self._undeliverable += undeliverable
        self._expired += expired

    def attempt_failed(self, reason: str) -> None:
        """Record a failed attempt that will be repeated."""
        self._failures += 1
        self._last_error = (reason, self._clock.time_ms())
        # The next message that is forwarded sets it to RUNNING again.
        self.state = RouteState.AWAY

    def failed(self, reason: str) -> None:
        """Record that an error has ended the route."""
        self._last_error = (reason, self._clock.time_ms())
        self.state = RouteState.FAILED

    def statistics(self) -> RouteStatistics:
        """Return all counters."""
        reason, at_ms = self._last_error or (None, None)
        return RouteStatistics(
            state=self.state,
            guarantee="unknown" if self.guarantee is None else self.guarantee.value,
            forwarded=self._forwarded,
            sent=self._sent,
            undeliverable=self._undeliverable,
            expired=self._expired,
            waiting=self.waiting,
            has_begun=self.has_begun,
            failures=self._failures,
            last_error=reason,
            last_error_at_ms=at_ms,
            details=self.details,
        )
