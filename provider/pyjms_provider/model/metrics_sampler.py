"""Samples the queues of a virtual host every ten seconds: for the last hour, and for alerts.

The host's timer thread calls it, so no message waits for it. A sample counts every queue once; what costs more (bytes, ages,
sizes) is asked of those queues alone that have a time series of their own, or a limit.

Alerts go to the log, with stable codes, and as messages to the topic ``$alerts`` of the virtual host: only while there is such a topic,
which is as long as somebody has subscribed to it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from math import nan
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import ProviderError
from pyjms.spi.words import counted
from pyjms_provider.core.queue.statistics import about_bytes, counts_of, is_there, largest_message, oldest_timestamp_ms
from pyjms_provider.model.alerts import AlertBook, AlertKind, AlertLimits, AlertNews, Telling
from pyjms_provider.model.time_series import STEP_MS, History, TimeSeries

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.queue.channel_state import Counts
    from pyjms_provider.core.queue.queue import Queue

ALERTS: Final = "$alerts"
"""The topic."""
_MOST: Final = 100
_LIVES_MS: Final = 86_400_000
_UNITS: Final[Mapping[AlertKind, str]] = {
    AlertKind.MESSAGES: "messages",
    AlertKind.BYTES: "bytes",
    AlertKind.AGE: "ms",
    AlertKind.MESSAGE_BYTES: "bytes",
}
_WHAT: Final[Mapping[AlertKind, str]] = {
    AlertKind.MESSAGES: "it has {messages}",
    AlertKind.BYTES: "its messages take about {value} bytes",
    AlertKind.AGE: "its oldest message is {value} ms old",
    AlertKind.MESSAGE_BYTES: "it has a message of about {value} bytes",
}
_log = logging.getLogger(__name__)


class AlertNotifier:
    """Of one virtual host. One thread; never waits for a client."""

    def __init__(self, path: str, names: tuple[str, ...], broker: EmbeddedBroker) -> None:
        """`path` and `names` say in the log and in messages which virtual host it is."""
        self._path = path
        self._names = names
        self._broker = broker

    def notify(self, news: Sequence[AlertNews]) -> None:
        """Tell all, the first of them one by one."""
        for each in news[:_MOST]:
            self._write(each)
            self._send(each)
        if len(news) > _MOST:
            _log.warning(
                "PYJMS-ALERT-4 %s: %d more queues have alerts, or have none any more",
                self._path,
                len(news) - _MOST,
            )

    def _write(self, news: AlertNews) -> None:
        alert = news.alert
        queue = "/".join((*self._names, alert.queue))
        what = _WHAT[alert.kind].format(value=alert.value, messages=counted(alert.value, "message"))
        if news.telling is Telling.RAISED:
            _log.warning("PYJMS-ALERT-1 queue %s: %s; the limit is %d", queue, what, alert.limit)
        elif news.telling is Telling.REPEATED:
            minutes = max(0, news.at_ms - alert.since_ms) // 60_000  # the clock may have been put back
            _log.warning(
                "PYJMS-ALERT-2 queue %s: still %s; the limit is %d, for %d min", queue, what, alert.limit, minutes
            )
        else:
            _log.info(
                "PYJMS-ALERT-3 queue %s: it is below the limit of %d %s again", queue, alert.limit, _words(alert.kind)
            )

    def _send(self, news: AlertNews) -> None:
        running = self._broker.virtual_host
        if running.find_topic(ALERTS) is None:
            return
        alert = news.alert
        body = {
            "queue": [*self._names, alert.queue],
            "kind": alert.kind.value,
            "event": news.telling.value,
            "value": alert.value,
            "limit": alert.limit,
            "unit": _UNITS[alert.kind],
            "since_ms": alert.since_ms,
            "at_ms": news.at_ms,
        }
        properties = {"pyjms_queue": alert.queue, "pyjms_alert": alert.kind.value, "pyjms_event": news.telling.value}
        envelope = Envelope(
            destination=Address(AddressKind.TOPIC, ALERTS),
            message_id=MessageId(f"ID:{uuid4()}"),
            timestamp_ms=news.at_ms,
            expiration_ms=news.at_ms + _LIVES_MS,
            delivery_mode=1,
            priority=4,
            correlation_id=None,
            reply_to=None,
            jms_type="pyjms.alert",
            properties=properties,
            body_kind=BodyKind.TEXT,
            body=json.dumps(body),
        )
        try:
            running.route(envelope, None, None)
        except ProviderError as error:
            _log.warning("PYJMS-ALERT-5 %s: an alert could not be sent to %s: %s", self._path, ALERTS, error.reason)


def _words(kind: AlertKind) -> str:
    return {AlertKind.AGE: "ms", AlertKind.MESSAGE_BYTES: "bytes for a message"}.get(kind, _UNITS[kind])


_QUEUE_COLUMNS: Final = ("depth", "arrival_rate", "delivery_rate", "departure_rate", "bytes", "consumers")
_HOST_COLUMNS: Final = (*_QUEUE_COLUMNS, "connections", "messages")
_WHOLE: Final = ""
_FADING: Final = 0.98  # of a queue's traffic with each step: what was half an hour ago counts little
_IDLE: Final = 0.01
_STILL: Final = (0.0, 0.0, 0.0)
_UNKNOWN: Final = (nan, nan, nan)
_SAMPLE: Final = 32
_STAYING: Final = 1.5  # by so much another queue must be busier to take the place of one that has a past


class AlertRules(Protocol):
    """Says which queues have which limits."""

    def watched_for_alerts(self) -> frozenset[str] | None:
        """Return the queues that may have alerts; None: all."""
        ...

    def alert_limits(self, name: str) -> AlertLimits:
        """Return from where on a queue has alerts."""
        ...


class MetricsSampler:
    """Implements `Scheduled`, from `start` to `close`. One thread samples; any thread reads."""

    def __init__(
        self, broker: EmbeddedBroker, notifier: AlertNotifier, rules: AlertRules, history_queues: Callable[[], int]
    ) -> None:
        """`history_queues` returns how many queues have a time series of their own."""
        self._broker = broker
        self._rules = rules
        self._history_queues = history_queues
        self._closed = False
        self._book = AlertBook()
        self._notifier = notifier
        self._queues = History(_QUEUE_COLUMNS)
        self._whole = History(_HOST_COLUMNS)
        self._sampled_ms: float | None = None
        """When it sampled last, by the monotonic clock."""
        self._before: dict[str, tuple[int, int, int]] = {}
        self._traffic: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._largest: dict[str, tuple[QueueEntry, int]] = {}

    def start(self) -> None:
        """Have each step called from now on."""
        self._broker.schedule(self, self._broker.clock.time_ms() + STEP_MS)

    def close(self) -> None:
        """End. May be repeated."""
        self._closed = True

    def run_due(self, now_ms: int) -> int | None:
        """Sample, and return when to be called again."""
        if self._closed:
            return None
        self._broker.schedule(self, now_ms + STEP_MS)  # first, so that a fault in one sample does not end all
        self.sample(now_ms)
        return None

    # Any thread

    @property
    def book(self) -> AlertBook:
        """The alerts."""
        return self._book

    def past_of(self, queue: str, since_ms: int) -> TimeSeries | None:
        """Return the last hour of a queue; None: it is not among the busiest."""
        return self._queues.read(queue, since_ms)

    def past(self, since_ms: int) -> TimeSeries:
        """Return the last hour of the host."""
        found = self._whole.read(_WHOLE, since_ms)
        return TimeSeries(times_ms=(), columns=dict.fromkeys(_HOST_COLUMNS, ())) if found is None else found

    # The timer thread

    def sample(self, now_ms: int) -> None:
        """Note what is there now, and tell what is too much."""
        counted = [(name, queue, counts_of(queue)) for name, queue in self._broker.virtual_host.queues()]
        before = self._before
        self._note(counted, before, now_ms)
        self._notifier.notify(self._judge(counted, now_ms))
        self._book.end_round(now_ms, self._before.keys())

    def _note(
        self, counted: Sequence[tuple[str, Queue, Counts]], before: Mapping[str, tuple[int, int, int]], now_ms: int
    ) -> None:
        rates = self._rates(counted)
        depths = {name: counts.depth for name, _, counts in counted}
        chosen = self._busiest(depths)
        self._sizes = self._measured_sizes(counted, before, chosen)
        consumers = {name: queue.consumer_count for name, queue, _ in counted}
        rows = {
            name: (depths[name], *rates.get(name, _UNKNOWN), self._sizes.get(name, 0), consumers[name])
            for name in chosen
        }
        self._queues.note(now_ms, rows)
        flow = tuple(map(sum, zip(_STILL, *rates.values(), strict=True))) if rates or not counted else _UNKNOWN
        kept = len(self._broker.virtual_host.store)
        totals = sum(self._sizes.values()), sum(consumers.values()), len(self._broker.clients()), kept
        self._whole.note(now_ms, {_WHOLE: (sum(depths.values()), *flow, *totals)})

    def _measured_sizes(
        self, counted: Sequence[tuple[str, Queue, Counts]], before: Mapping[str, tuple[int, int, int]], chosen: set[str]
    ) -> dict[str, int]:
        """Return about how many bytes the messages of each queue take; what has not moved is not measured again."""
        known, found = self._sizes, {}
        for name, queue, counts in counted:
            depth = counts.depth
            if not depth:
                continue
            size = known.get(name, 0) if before.get(name) == self._before[name] else 0
            found[name] = size or about_bytes(queue, depth, _SAMPLE if name in chosen else 1)
        return found

    def _rates(self, counted: Sequence[tuple[str, Queue, Counts]]) -> dict[str, tuple[float, float, float]]:
        """Return how many messages a second came to each queue since the last sample, were delivered, and left; none at the first one."""
        sampled_ms, self._sampled_ms = self._sampled_ms, self._broker.clock.monotonic_ms()
        seconds = 0.0 if sampled_ms is None else (self._sampled_ms - sampled_ms) / 1000
        is_first = seconds <= 0
        seconds = seconds or 1.0  # rates of no time are not told, and not divided by it
        before, now = (
            self._before,
            {name: (counts.accepted, counts.delivered, counts.departed) for name, _, counts in counted},
        )
        self._before = now
        traffic = {name: value * _FADING for name, value in self._traffic.items() if name in now and value > _IDLE}
        rates = dict.fromkeys(now, _STILL)
        for name, counters in now.items():
            old = before.get(name, counters if is_first else (0, 0, 0))
            if counters == old:
                continue
            came, delivered, left = (new - past for new, past in zip(counters, old, strict=True))
            if came < 0 or delivered < 0 or left < 0:
                came, delivered, left = counters  # the queue was made again
            traffic[name] = traffic.get(name, 0.0) + came + left
            rates[name] = came / seconds, delivered / seconds, left / seconds
        self._traffic = traffic
        return {} if is_first else rates

    def _busiest(self, depths: dict[str, int]) -> set[str]:
        """Return the queues that have a past from now on."""
        most = self._history_queues()
        if len(depths) <= most:
            return set(depths)
        known, traffic = self._queues.names, self._traffic

        def weight(name: str) -> tuple[float, int, bool]:
            is_known = name in known
            return traffic.get(name, 0.0) * (_STAYING if is_known else 1.0), depths[name], is_known

        return set(nlargest(most, depths, key=weight))

    # Alerts

    def _judge(self, counted: Sequence[tuple[str, Queue, Counts]], now_ms: int) -> list[AlertNews]:
        rules, holding = self._rules, self._book.holding
        watched = rules.watched_for_alerts()
        news: list[AlertNews] = []
        for name, queue, counts in counted:
            if name in holding or (counts.depth and (watched is None or name in watched)):
                limits = rules.alert_limits(name)
                measured = self._measured(name, queue, counts.depth, limits, now_ms)
                news += self._book.judge(name, limits, measured, now_ms)
        return news

    def _measured(self, name: str, queue: Queue, depth: int, limits: AlertLimits, now_ms: int) -> dict[AlertKind, int]:
        if not depth:
            return {}
        found = {AlertKind.MESSAGES: depth}
        if limits.bytes:
            found[AlertKind.BYTES] = self._sizes.get(name, 0)
        if limits.age_ms:
            try:
                oldest_ms = oldest_timestamp_ms(queue)
            except ProviderError:
                oldest_ms = None  # the store cannot be read; it tells so itself
            found[AlertKind.AGE] = 0 if oldest_ms is None else max(0, now_ms - oldest_ms)
        if limits.message_bytes:
            found[AlertKind.MESSAGE_BYTES] = self._largest_of(name, queue)
        return found

    def _largest_of(self, name: str, queue: Queue) -> int:
        """Return the size of the largest message that was seen and is still there."""
        known = self._largest.pop(name, None)
        found = [each for each in (known, largest_message(queue)) if each is not None and is_there(each[0])]
        if not found:
            return 0
        self._largest[name] = best = max(found, key=lambda each: each[1])
        return best[1]
