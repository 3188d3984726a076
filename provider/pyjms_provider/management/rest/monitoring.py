"""The interface for monitoring systems: metrics in the format of Prometheus, and health checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.routing import Route

from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms_provider.management.errors import BusyError
from pyjms_provider.management.rest.answers import JSONResponse, refuse, secured
from pyjms_provider.management.rest.threads import WaitingThreads
from pyjms_provider.model import route, tree
from pyjms_provider.model.lookup import collect, names_needed
from pyjms_provider.model.managed import State
from pyjms_provider.model.operations import Statistic, StatisticKind, statistics_of
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.security.contracts import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from pyjms_provider.management.rest.identity import Identity
    from pyjms_provider.model.broker import SystemConfig
    from pyjms_provider.model.managed import ManagedObject


_Key = tuple[tuple[str, ...], str]


@dataclass(slots=True)
class _Sum:
    """One sum, and each queue's counter at the last sample."""

    look: int
    counts: Mapping[str, float]
    value: float


class SteadySums:
    """Sums of counters over the queues without series of their own, by virtual host and statistic. Any thread; the lock is taken alone.

    The set of these queues changes with each sample, and queues are deleted. Prometheus takes a counter that falls for one that
    restarted at 0, and counts all of it once more; so the increases of each queue since the last sample are added up.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._looks = 0
        self._sums: dict[_Key, _Sum] = {}

    def begin(self, hosts: Iterable[tuple[str, ...]]) -> int:
        """Return the number of a sample of these virtual hosts: called before their queues are read. Other hosts are forgotten."""
        there = set(hosts)
        with self._lock:
            self._looks += 1
            self._sums = {key: each for key, each in self._sums.items() if key[0] in there}
            return self._looks

    def sum_of(self, key: _Key, look: int, counts: Mapping[str, float], own: Collection[str]) -> float:
        """Return the sum over the queues of `counts`, except those in `own`. `look`: the result of `begin`."""
        without = set(own)
        with self._lock:
            before = self._sums.get(key)
            # The first sample counts all that the queues have counted so far, as the counter of a single queue does.
            if before is None:
                before = self._sums[key] = _Sum(0, {}, 0.0)
            if look > before.look:  # otherwise a later sample was stored first
                known = before.counts
                for name, count in counts.items():
                    if name not in without:
                        last = known.get(name, 0)
                        before.value += count - last if count >= last else count  # one that fell was reset
                before.look, before.counts = look, counts
            return before.value


OTHERS: Final = ""
"""The name for the sum of the queues without series of their own."""
_SINGLE: Final = ("broker", "port", "route", "virtual_host", "workflow_store", "workflow")
_COUNTED: Final = (
    "virtual_host_node",
    "virtual_host",
    "port",
    "route",
    "workflow_store",
    "authentication_provider",
    "access_control",
    "key_store",
)
_NUMBERS: Final = frozenset({"integer", "number", "boolean"})


class Metrics(Collector):
    """The metrics of one broker. Safe to use from any thread; reads the present values at each request, and keeps only the state of sums."""

    def __init__(self, system: SystemConfig, *, queues: int) -> None:
        """`queues`: how many queues of each virtual host have series of their own."""
        self._system = system
        self._queues = queues
        self._sums = SteadySums()
        # A registry of its own: the global one of prometheus_client would refuse the same collectors for a second port.
        self._registry = CollectorRegistry(auto_describe=False)
        for own in (ProcessCollector, PlatformCollector, GCCollector):
            own(registry=self._registry)
        self._registry.register(self)

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format 0.0.4."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the metrics are known only when they are collected."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the present metrics."""
        yield self._states()
        for category in _SINGLE:
            yield from self._of_objects(category)
        yield from self._of_queues()
        yield self._alerts()
        yield self._activities()

    def _objects(self, category: str) -> list[ManagedObject]:
        if category == "workflow":
            return list(self._workflows())
        if category == "workflow_store":
            return list(self._workflow_stores())
        return [self._system.broker] if category == "broker" else list(collect(self._system, category))

    def _workflows(self) -> Iterator[ManagedObject]:
        """Yield the definitions of all stores that are reachable."""
        for store in self._workflow_stores():
            with suppress(ProviderError):
                yield from store.children("workflow")

    def _workflow_stores(self) -> Iterator[ManagedObject]:
        """Yield those that are counted here: of those that all members of a cluster have, one member counts each."""
        for store in collect(self._system, "workflow_store"):
            membership = store.parent.membership if isinstance(store.parent, VirtualHost) else None
            if membership is None or membership.tells_of(store):
                yield store

    def _activities(self) -> Metric:
        labels = (*names_needed("route"), "activity")
        found = GaugeMetricFamily(
            "pyjms_route_activity", "What routes do now: running, paused, away, failed, stopped.", labels=labels
        )
        for each in self._objects("route"):
            if isinstance(each, route.Route):
                found.add_metric((*each.names, each.activity), 1)
        return found

    def _states(self) -> Metric:
        found = GaugeMetricFamily("pyjms_objects", "Configured objects by their state.", labels=("category", "state"))
        for category in _COUNTED:
            states = Counter(each.state.value for each in self._objects(category))
            for state, count in sorted(states.items()):
                found.add_metric((category, state), count)
        return found

    def _of_objects(self, category: str) -> Iterator[Metric]:
        objects = self._objects(category)
        # A family at a time: Prometheus requires all series of a metric to be contiguous.
        for declared in _measured(category):
            family = _family(category, declared)
            for each in objects:
                with suppress(ProviderError):  # it no longer exists, or does not run
                    _add(family, each.names or (each.name,), declared, getattr(each, declared.name))
            yield family

    def _of_queues(self) -> Iterator[Metric]:
        measured = _measured("queue")
        fields = [each.name for each in measured]
        objects = self._objects("virtual_host")
        # Before the queues are read: the number shows which of two readers saw the older counts.
        look = self._sums.begin(each.names for each in objects)
        # Of its own broker alone: what the other members of a cluster have is in their metrics.
        hosts = [(each.names, each.queues.columns(fields)) for each in objects if isinstance(each, VirtualHost)]
        # Only the deepest queues have series of their own, so that their number is limited.
        deepest = {
            names: nlargest(self._queues, columns["depth"], key=columns["depth"].__getitem__)
            for names, columns in hosts
        }
        for declared in measured:
            family = _family("queue", declared)
            for names, columns in hosts:
                column, own = columns[declared.name], deepest[names]
                for name in own:
                    _add(family, (*names, name), declared, column.get(name))
                if (
                    declared.kind is StatisticKind.COUNTER
                ):  # even if all have series of their own: they may lose them later
                    others = self._sums.sum_of((names, declared.name), look, column, own)
                else:
                    others = _sum(column) - _sum({name: column[name] for name in own if name in column})
                if len(column) > len(own):
                    _add(family, (*names, OTHERS), declared, others)
            yield family

    def _alerts(self) -> Metric:
        labels = (*names_needed("queue"), "kind")
        found = GaugeMetricFamily(
            "pyjms_queue_alert", "Alerts of queues that hold now, at most so many.", labels=labels
        )
        for host in self._objects("virtual_host"):
            if isinstance(host, VirtualHost) and host.is_running:
                holding = chain.from_iterable(host.sampler.book.holding.values())
                for each in islice(holding, self._queues):
                    found.add_metric((*host.names, each.queue, each.kind.value), 1)
        return found


def _measured(category: str) -> list[Statistic[Any]]:
    found: dict[str, Statistic[Any]] = {}
    for name in tree.types_of(category):
        found |= statistics_of(tree.class_of(category, name)[1])
    return [
        each
        for each in found.values()
        if each.schema.get("type") in _NUMBERS and not each.is_costly and each.kind is not StatisticKind.RATE
    ]


def _family(category: str, declared: Statistic[Any]) -> GaugeMetricFamily | CounterMetricFamily:
    labels = ("broker",) if category == "broker" else names_needed(category)
    kind = CounterMetricFamily if declared.kind is StatisticKind.COUNTER else GaugeMetricFamily
    name = f"{declared.name.removesuffix('_ms')}_seconds" if declared.unit == "ms" else declared.name
    return kind(f"pyjms_{category}_{name}", declared.description, labels=labels)


def _add(
    family: GaugeMetricFamily | CounterMetricFamily,
    labels: tuple[str, ...],
    declared: Statistic[Any],
    value: Any,
) -> None:
    if isinstance(value, (bool, int, float)):
        family.add_metric(labels, value / 1000 if declared.unit == "ms" else float(value))


def _sum(column: Mapping[str, Any]) -> float:
    return sum(value for value in column.values() if isinstance(value, (int, float)))


_CHALLENGE: Final = {"www-authenticate": 'Basic realm="pyjms", charset="UTF-8"'}
_TEXT: Final = {"content-type": CONTENT_TYPE_LATEST}
_NEEDED: Final = ("virtual_host_node", "virtual_host", "port")
_MOST: Final = 8
"""The most requests of a kind that are answered at once: there are only one or a few monitoring systems."""


def not_ready(system: SystemConfig) -> list[ManagedObject]:
    """Return the objects that keep the broker from being ready: ports and virtual hosts that are not ACTIVE, or whose cluster is not reached."""
    return [each for category in _NEEDED for each in collect(system, category) if not _serves(each)]


def _serves(found: ManagedObject) -> bool:
    if found.state is not State.ACTIVE:
        return False
    # Clients of this member would only wait, and another one may reach the cluster.
    return not isinstance(found, VirtualHost) or found.joined is None or found.takes_messages


def monitoring_routes(
    system: SystemConfig,
    identity: Identity,
    *,
    login: bool | None,
    queues: int,
    note_refused: Callable[[Request], None],
) -> list[Route]:
    """Return the routes.

    `login`: whether only users who may observe the broker may read metrics; None: there are no metrics. Health checks are open to everybody, as
    they are made without a password, and their answers hold no names. `queues`: as for `Metrics`; `note_refused`: audits refused
    credentials. Metrics and readiness have threads of their own each, so that neither log-ins that wait for another server nor each other block them; the liveness check needs no thread.
    """
    metrics = Metrics(system, queues=queues)

    metrics_threads, ready_threads = _threads(), _threads()

    async def show_metrics(request: Request) -> Response:
        if login:
            try:
                caller = await identity.identify(request)
            except AccessDeniedError as error:
                note_refused(request)
                return secured(refuse(error, status=401, headers=_CHALLENGE))
            except BusyError as error:
                return secured(refuse(error))
            try:
                caller.access.check(caller.principal, Operation.OBSERVE, system.broker.target())
            except AccessDeniedError as error:
                return secured(refuse(error))
        return await _answer(metrics_threads, lambda: Response(metrics.render(), headers=_TEXT))

    # On the event loop itself: its answer is the proof of liveness.
    async def show_live(_: Request) -> Response:
        return secured(JSONResponse({"status": "live"}))

    async def show_ready(_: Request) -> Response:
        return await _answer(ready_threads, lambda: _tell_ready(system))

    routes = [
        Route("/health/live", show_live, methods=["GET"]),
        Route("/health/ready", show_ready, methods=["GET"]),
    ]
    return routes if login is None else [Route("/metrics", show_metrics, methods=["GET"]), *routes]


def _tell_ready(system: SystemConfig) -> Response:
    missing = not_ready(system)
    if not missing:
        return JSONResponse({"status": "ready"})
    objects = [{"category": each.category, "state": each.state.value} for each in missing]
    return JSONResponse({"status": "not ready", "objects": objects}, 503)


def _threads() -> WaitingThreads:
    return WaitingThreads(_MOST, waits="requests for this wait already")


async def _answer(threads: WaitingThreads, show: Callable[[], Response]) -> Response:
    try:
        return secured(await threads.run(show))
    except BusyError as error:
        return secured(refuse(error))
