"""Routes below a virtual host: forwarders and routers, run by others (`pyjms.spi.routes`), watched and controlled by operators.

A route connects to its own host within the process. While it runs, its statistics show its work; one that cannot
continue is ERRORED with the reason, and `start` tries again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ProviderError
from pyjms.spi.routes import RouteError, RouteRequest, RouteState, RouteStatistics, RunningRoute, find_runner
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.model.attributes import Attributes, ImmutableModel, Reached, Secret, attribute, has_password
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.errors import InvalidAttributesError, Problem
from pyjms_provider.model.host_views import connect_within
from pyjms_provider.model.managed import State
from pyjms_provider.model.metrics_sampler import Rates
from pyjms_provider.model.operations import StatisticKind, operation, statistic
from pyjms_provider.security.contracts import Operation, TargetKind

if TYPE_CHECKING:
    from pyjms_provider.model.contracts import ManagedHost
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.stores.configuration_contract import ObjectRecord


class RouteTarget(ImmutableModel):
    """A destination at a site."""

    url: str | None = None
    """None: this host."""
    queue: str | None = None
    """None, and no topic: the queue of the same name."""
    topic: str | None = None
    duplicate_property: str | None = None


class RouteAttributes(Attributes):
    """The attributes of all routes. A change takes effect at once: the route restarts, without loss; it does not restart when
    it is only paused or resumed.
    """

    paused: bool = attribute("Whether it takes no messages until it is resumed.", default=False)
    source: str = attribute("The queue that messages are taken from.", min_length=1)
    user: str | None = attribute("Who logs in at other sites; none: as their URLs say.", default=None)
    password: Secret | None = attribute("The password there.", default=None, secure=True)
    selector: str | None = attribute("Which messages are taken; none: all.", default=None)
    batch: int = attribute("Messages of one transaction at most.", default=100, ge=1, le=10_000)
    linger_ms: int = attribute("How long a batch waits to be full.", default=0, ge=0, le=86_400_000, unit="ms")
    back_off_ms: int = attribute(
        "The wait before a site that is away is tried again; it doubles.", default=100, ge=1, le=86_400_000, unit="ms"
    )
    back_off_max_ms: int = attribute("The longest such wait.", default=30_000, ge=1, le=86_400_000, unit="ms")
    hops_max: int = attribute("Through how many routes a message may come.", default=16, ge=1, le=1_000)
    undeliverable: str | None = attribute(
        "The queue of messages that a target refuses; empty: they block the route; none: SOURCE.undeliverable.",
        default=None,
    )
    require: Literal["at least once", "once only"] = attribute(
        "What the route must promise; one that cannot is refused.", default="at least once"
    )

    def urls(self) -> Iterator[tuple[str, str]]:
        """Yield the URLs of other sites, each with the place where it stands."""
        yield from ()

    def places(self) -> Iterator[str]:
        for _, url in self.urls():
            yield url

    def reaches(self) -> Iterator[Reached]:
        yield Operation.READ, TargetKind.QUEUE, self.source
        if self.undeliverable:
            yield Operation.WRITE, TargetKind.QUEUE, self.undeliverable


class ForwardAttributes(RouteAttributes):
    """The attributes of a forwarder."""

    targets: list[RouteTarget] = attribute("Where each message goes.", min_length=1)

    def urls(self) -> Iterator[tuple[str, str]]:
        for number, each in enumerate(self.targets):
            if each.url is not None:
                yield f"targets.{number}.url", each.url

    def reaches(self) -> Iterator[Reached]:
        yield from super().reaches()
        for each in self.targets:
            if each.url is None and each.topic is not None:
                yield Operation.WRITE, TargetKind.TOPIC, each.topic
            elif each.url is None:
                yield Operation.WRITE, TargetKind.QUEUE, each.queue or self.source


class RulesAttributes(RouteAttributes):
    """The attributes of a router."""

    rules: dict[str, Any] | None = attribute("The rules, as in a file of rules.", default=None)
    rules_file: str | None = attribute(
        "A file of rules, read again when it is altered; none: `rules` has them.", default=None
    )

    def urls(self) -> Iterator[tuple[str, str]]:
        targets = (self.rules or {}).get("targets")
        for name, each in targets.items() if isinstance(targets, Mapping) else ():
            if isinstance(each, Mapping) and isinstance(each.get("url"), str):
                yield f"rules.targets.{name}.url", each["url"]

    def places(self) -> Iterator[str]:
        yield from super().places()
        if self.rules_file is not None:
            yield self.rules_file  # which may name any destination

    def files(self) -> Iterator[str]:
        """Yield the attributes' places, in rules without a file, that name files of the broker's machine."""
        targets = (self.rules or {}).get("targets")
        for name, each in targets.items() if isinstance(targets, Mapping) else ():
            if isinstance(each, Mapping) and "password_file" in each:
                yield f"rules.targets.{name}.password_file"

    def reaches(self) -> Iterator[Reached]:
        yield from super().reaches()
        targets = (self.rules or {}).get("targets")
        for each in targets.values() if isinstance(targets, Mapping) else ():
            if isinstance(each, Mapping) and each.get("url") is None:
                for kind in (TargetKind.QUEUE, TargetKind.TOPIC):
                    if isinstance(each.get(kind.value), str):
                        yield Operation.WRITE, kind, each[kind.value]
        for text in _texts(self.rules):
            word, colon, name = text.partition(":")
            if colon and word in {"queue", "topic"}:
                yield Operation.WRITE, TargetKind(word), name


def _queue(name: str) -> Address:
    return Address(AddressKind.QUEUE, name)


def _texts(document: Any) -> Iterator[str]:
    """Yield all texts of a document: wherever rules name a target, it may be a destination of this host."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        # Only values: the keys are names that rules give themselves.
        for each in document.values():
            yield from _texts(each)
    elif isinstance(document, list):
        for each in document:
            yield from _texts(each)


class Route(Stoppable):
    """A route, which takes messages from a queue of its host and sends them elsewhere while it is ACTIVE."""

    category = "route"
    attributes_class = RouteAttributes

    _running: RunningRoute | None = None

    def __init__(self, parent: ManagedObject | None, record: ObjectRecord) -> None:
        super().__init__(parent, record)
        self._rates = Rates()

    # The hooks

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, RouteAttributes)
        text = "holds a password, which would be seen; give it as password, with user"
        seen = tuple(Problem(name=place, text=text) for place, url in new.urls() if has_password(url))
        if isinstance(new, RulesAttributes):
            # A line of any file that the broker reads could be sent to any site.
            unread = "is for a file of rules; give the route a password, and other sites another route"
            seen += tuple(Problem(name=place, text=unread) for place in new.files())
        if seen:
            raise InvalidAttributesError(self.path, seen)
        try:
            # The runner knows the rules and what it can promise; the model knows only the attributes.
            find_runner(self.type).check(self._request(new))
        except RouteError as error:
            raise self._wrong("", error.reason) from error

    def _on_open(self) -> None:
        self._run_at_leader(self.attributes)

    def _run_at_leader(self, attributes: Attributes) -> None:
        """Run, unless another member of a cluster leads the shard of its source: the route of that name runs there."""
        assert isinstance(attributes, RouteAttributes)
        if self._is_led_here(attributes):
            self._running = find_runner(self.type).start(self._request(attributes))

    def _is_led_here(self, attributes: Attributes) -> bool:
        assert isinstance(attributes, RouteAttributes)
        return self._host.broker_with(_queue(attributes.source)) is not None

    def follow_leaders(self) -> None:
        if self.state is not State.ACTIVE:
            return
        is_led_here = self._is_led_here(self.attributes)
        if self._running is not None and not is_led_here:
            self._on_stop()
        elif self._running is None and is_led_here:
            try:
                self._run_at_leader(self.attributes)
            except (ProviderError, OSError) as error:
                self._fail(error, "could not be taken over")

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        assert isinstance(new, RouteAttributes)
        running = self._running
        # Only the pause differs: a restart would connect to all sites again.
        if running is not None and old.model_copy(update={"paused": new.paused}) == new:
            if new.paused:
                running.pause()
            else:
                running.resume()
            return
        try:
            # The old run ends first: two runs of one route would compete for the messages of its source.
            self._on_stop()
            self._run_at_leader(new)
        except Exception:
            self._restart_unchanged()
            raise

    def _restart_unchanged(self) -> None:
        """Run with the old attributes, since a change cannot be applied; become ERRORED if that fails too."""
        try:
            # The attributes are still the old ones: a change is published only after it was obeyed.
            self._on_open()
        except (ProviderError, OSError) as error:
            self._fail(error, "could not be started again after a change that was refused")

    def _on_stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _request(self, attributes: Attributes) -> RouteRequest:
        assert isinstance(attributes, RouteAttributes)
        # Without what every object has: the runner takes only settings of routes.
        given = attributes.model_dump(exclude={*Attributes.model_fields, "paused"}, exclude_none=True)
        secret = attributes.password
        if secret is not None:
            given["password"] = secret.get_secret_value()
        return RouteRequest(
            name=self.name,
            settings=given,
            here=lambda events: connect_within(self._host, events, f"route {self.name}", _queue(attributes.source)),
            clock=self.clock,
            is_paused=attributes.paused,
            on_failure=self._on_failure,
        )

    @property
    def _host(self) -> ManagedHost:
        return cast("ManagedHost", self.parent)  # routes stand below virtual hosts

    def _on_failure(self, reason: str) -> None:
        """Handle, on the route's thread, that the route cannot continue."""
        # Submitted and not called: the configuration thread may be waiting for this very thread to end.
        self.configuration_thread.submit(lambda: self._fail_running(reason))

    def _fail_running(self, reason: str) -> None:
        # It may have been stopped, or started again, in the meantime.
        if self.state is State.ACTIVE and self._seen.state is RouteState.FAILED:
            self._fail(RouteError(reason))

    # Operations

    @operation(
        "Take no more messages until it is resumed, also when the broker starts again; what was taken goes back to its place."
    )
    def pause(self, *, by: str = "") -> None:
        self.set_attributes({"paused": True}, by=by)

    @operation("Go on after a pause.")
    def resume(self, *, by: str = "") -> None:
        self.set_attributes({"paused": False}, by=by)

    # Statistics

    @property
    def _seen(self) -> RouteStatistics:
        running = self._running
        return RouteStatistics(state=RouteState.STOPPED) if running is None else running.statistics()

    @statistic(
        "What it does now: running, paused, away (a site is not there), failed, stopped; elsewhere: at the member of its cluster that leads its source."
    )
    def activity(self) -> str:
        if self._running is None and self.state is State.ACTIVE:
            return "elsewhere"
        return self._seen.state.value

    @statistic("What it promises: once only, or at least once; unknown before it has reached the sites.")
    def guarantee(self) -> str:
        return self._seen.guarantee

    @statistic("Messages that wait in its source, with those that it holds.", unit="messages")
    def backlog(self) -> int:
        """Messages that wait in its source, selected or not, and those that targets have not received yet."""
        host, attributes = self._host, self.attributes
        assert isinstance(attributes, RouteAttributes)
        broker = host.broker_with(_queue(attributes.source))
        queue = None if broker is None else broker.virtual_host.find_queue(attributes.source)
        return self._seen.waiting + (0 if queue is None else queue.count(MessageState.NEW))

    def _lately(self) -> tuple[float | None, ...]:
        seen = self._seen
        return self._rates.sample("", (seen.forwarded, seen.sent), self.clock.monotonic_ms())

    @statistic("Messages that leave its source for good, lately.", unit="messages/s", kind=StatisticKind.RATE)
    def forward_rate(self) -> float | None:
        """The messages that leave its source per second; None: not sampled before."""
        return self._lately()[0]

    @statistic("Messages that targets get, lately.", unit="messages/s", kind=StatisticKind.RATE)
    def send_rate(self) -> float | None:
        """The messages that targets receive per second; None: not sampled before."""
        return self._lately()[1]

    @statistic("Messages that have left the source for good.", unit="messages", kind=StatisticKind.COUNTER)
    def forwarded(self) -> int:
        return self._seen.forwarded

    @statistic("Messages that targets got.", unit="messages", kind=StatisticKind.COUNTER)
    def sent(self) -> int:
        return self._seen.sent

    @statistic("Messages that were set aside with a reason.", unit="messages", kind=StatisticKind.COUNTER)
    def failed(self) -> int:
        return self._seen.undeliverable

    @statistic("Messages that expired on their way.", unit="messages", kind=StatisticKind.COUNTER)
    def expired(self) -> int:
        return self._seen.expired

    @statistic("Messages that it holds, and that targets do not have yet.", unit="messages")
    def waiting(self) -> int:
        return self._seen.waiting

    @statistic("Failed attempts.", unit="attempts", kind=StatisticKind.COUNTER)
    def failures(self) -> int:
        return self._seen.failures

    @statistic("What went wrong last; none: nothing did.")
    def last_error(self) -> str | None:
        return self._seen.last_error

    @statistic("When it went wrong, in milliseconds since 1970 UTC.", unit="ms")
    def last_error_at_ms(self) -> int | None:
        return self._seen.last_error_at_ms


class ForwardRoute(Route):
    """A forwarder: sends each message to each target."""

    attributes_class = ForwardAttributes


class RulesRoute(Route):
    """A router: sends each message to the targets that its rules choose."""

    attributes_class = RulesAttributes

    @statistic("How many messages each rule wanted.", unit="messages")
    def by_rule(self) -> dict[str, int]:
        return dict(self._seen.details)
