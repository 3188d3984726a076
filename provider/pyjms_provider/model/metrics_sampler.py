"""Metrics and alerts of a virtual host: its queues are sampled every ten seconds, for the last hour and for alerts (Broker-J, "Queue Alerts").

The host's timer thread takes the samples, so no message waits for them. A sample counts every queue once; what costs more (bytes,
ages, sizes) is read of those queues alone that have a time series of their own, or a limit.

An alert is active as long as the value is at its limit or above. It is sent when it begins, again after each gap, and when it ends,
but not more often than the gap allows. Alerts go to the log, with stable codes, and as messages to the topic ``$alerts`` of the virtual
host while the topic exists, which is as long as it has a subscriber.
"""

from __future__ import annotations

import json
import logging
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import nlargest
from itertools import repeat
from math import isnan, nan
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Final, Protocol
from uuid import uuid4

from pydantic import BaseModel, Field

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import ProviderError
from pyjms.spi.words import counted
from pyjms_provider.core.queue.statistics import about_bytes, counts_of, is_there, largest_message, oldest_timestamp_ms

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.queue.channel_state import Counts
    from pyjms_provider.core.queue.queue import Queue


class AlertKind(Enum):
    """The measure that is too high."""

    MESSAGES = "messages"
    BYTES = "bytes"
    AGE = "age"
    MESSAGE_BYTES = "message_bytes"

    __hash__ = object.__hash__


class Telling(Enum):
    """The reason why an alert is sent."""

    RAISED = "raised"
    REPEATED = "repeated"
    CLEARED = "cleared"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLimits:
    """The limits from which on there is an alert; 0: never."""

    messages: int = 0
    bytes: int = 0
    age_ms: int = 0
    message_bytes: int = 0
    repeat_gap_ms: int = 0
    """The time after which an active alert is sent again; 0: never."""

    def of(self, kind: AlertKind) -> int:
        """Return the limit of one kind."""
        return int(getattr(self, _FIELDS[kind]))

    @property
    def is_any(self) -> bool:
        """Whether any limit is set."""
        return bool(self.messages or self.bytes or self.age_ms or self.message_bytes)


_FIELDS: Final[Mapping[AlertKind, str]] = {kind: kind.value for kind in AlertKind} | {AlertKind.AGE: "age_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An active alert."""

    queue: str
    kind: AlertKind
    value: int
    """The value at the last sample: messages, bytes, or milliseconds."""
    limit: int
    since_ms: int
    """The time of its first sample, in milliseconds since 1970 UTC."""
    is_sent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertNews:
    """A notification of an alert."""

    telling: Telling
    alert: Alert
    at_ms: int


class AlertBook:
    """The alerts of one virtual host. One thread judges; any thread reads `holding`."""

    def __init__(self) -> None:
        self._holding: dict[str, dict[AlertKind, Alert]] = {}
        self._told: dict[tuple[str, AlertKind], tuple[int, int]] = {}
        """The time when each was sent last, and the time from which on it may be sent again."""
        self.holding: Mapping[str, tuple[Alert, ...]] = {}
        """The active alerts, by queue; replaced by `end_round`, never changed."""

    def judge(self, queue: str, limits: AlertLimits, measured: Mapping[AlertKind, int], now_ms: int) -> list[AlertNews]:
        """Compare the measurements of a queue with its limits; return the notifications due. A missing measurement counts as 0."""
        before = self._holding.get(queue, {})
        after: dict[AlertKind, Alert] = {}
        news: list[AlertNews] = []
        for kind in AlertKind:
            value, limit, old = measured.get(kind, 0), limits.of(kind), before.get(kind)
            if not limit or value < limit:
                # An alert whose beginning was never sent, as within a gap, has no end to report either.
                if old is not None and old.is_sent:
                    ended = Alert(queue=queue, kind=kind, value=value, limit=limit or old.limit, since_ms=old.since_ms)
                    news.append(AlertNews(telling=Telling.CLEARED, alert=ended, at_ms=now_ms))
                continue
            telling = self._telling((queue, kind), old, limits.repeat_gap_ms, now_ms)
            if telling is None and old is not None and (old.value, old.limit) == (value, limit):
                # The same object: an alert that holds for days costs nothing new at each sample.
                after[kind] = old
                continue
            after[kind] = alert = Alert(
                queue=queue,
                kind=kind,
                value=value,
                limit=limit,
                # The begin stays, even if the value changes.
                since_ms=now_ms if old is None else old.since_ms,
                is_sent=telling is not None or (old is not None and old.is_sent),
            )
            if telling is not None:
                news.append(AlertNews(telling=telling, alert=alert, at_ms=now_ms))
        if after:
            self._holding[queue] = after
        else:
            self._holding.pop(queue, None)
        return news

    def _telling(self, key: tuple[str, AlertKind], old: Alert | None, gap_ms: int, now_ms: int) -> Telling | None:
        """Return the kind of notification that is due for an active alert, None for none."""
        told_ms, again_ms = self._told.get(key, (0, 0))
        # The clock was put back: the gap starts now, and does not wait until the clock has caught up.
        if told_ms > now_ms:
            told_ms, again_ms = self._told[key] = now_ms, now_ms + gap_ms
        is_new = old is None or not old.is_sent
        if not (now_ms >= again_ms if is_new else gap_ms and now_ms >= told_ms + gap_ms):
            return None
        self._told[key] = now_ms, now_ms + gap_ms
        return Telling.RAISED if is_new else Telling.REPEATED

    def end_round(self, now_ms: int, queues: Collection[str]) -> None:
        """Forget queues that are not among `queues`, and publish the active alerts."""
        self._holding = {name: alerts for name, alerts in self._holding.items() if name in queues}
        # The times outlive the alert until the gap is over: a value that swings
        # around its limit is reported once per gap.
        self._told = {
            key: times
            for key, times in self._told.items()
            if now_ms < times[1] or key[1] in self._holding.get(key[0], ())
        }
        self.holding = {name: tuple(alerts.values()) for name, alerts in self._holding.items()}


STEP_MS: Final = 10_000
POINTS: Final = 360
"""One hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
    """The samples of one item, the oldest first."""

    times_ms: Sequence[int]
    """In milliseconds since 1970 UTC."""
    columns: Mapping[str, Sequence[float | None]]
    """By column, a value for each time; None: unknown."""


class _Series:
    """The arrays of one item."""

    __slots__ = ("columns",)

    def __init__(self, width: int) -> None:
        # Arrays of doubles take 8 bytes for a value; a list would have an object for each as well.
        self.columns = tuple(array("d", [nan]) * POINTS for _ in range(width))

    def put(self, at: int, values: Iterable[float]) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column[at] = value


class History:
    """The samples of several items, by name. One thread writes, any thread reads."""

    def __init__(self, columns: Sequence[str]) -> None:
        """`columns`: the names of the values in each sample."""
        self._names = tuple(columns)
        self._lock = Lock()
        self._times = array("q", [0]) * POINTS
        self._step = -1
        self._series: dict[str, _Series] = {}

    @property
    def names(self) -> frozenset[str]:
        """The items with samples."""
        with self._lock:
            return frozenset(self._series)

    def note(self, now_ms: int, values: Mapping[str, Sequence[float]]) -> None:
        """Add a sample of each item: a number for each column, NaN for unknown.

        Items that are not in `values` lose their samples.
        """
        with self._lock:
            # The clock was put back: times in the future would stand before the present ones.
            if self._step >= 0 and self._times[self._step % POINTS] >= now_ms:
                self._forget_from(now_ms)
            self._step += 1
            at = self._step % POINTS
            self._times[at] = now_ms
            for name in self._series.keys() - values.keys():
                # A queue that is no longer among the busiest frees its memory.
                del self._series[name]
            for name, row in values.items():
                series = self._series.get(name)
                if series is None:
                    series = self._series[name] = _Series(len(self._names))
                series.put(at, row)

    def _forget_from(self, now_ms: int) -> None:
        """Drop samples with times in the future, as the clock was put back. The lock is held."""
        for at in (at for at in range(POINTS) if self._times[at] >= now_ms):
            for series in self._series.values():
                series.put(at, repeat(nan, len(self._names)))

    def read(self, name: str, since_ms: int = 0) -> TimeSeries | None:
        """Return the samples after `since_ms`, in milliseconds since 1970 UTC; None: there are none of that item."""
        with self._lock:
            series = self._series.get(name)
            if series is None:
                return None
            order = [step % POINTS for step in range(max(0, self._step + 1 - POINTS), self._step + 1)]
            order = [at for at in order if self._times[at] > since_ms]
            # A series that began later has no values for the earlier times.
            known = [at for at in order if not all(isnan(column[at]) for column in series.columns)]
            return TimeSeries(
                times_ms=[self._times[at] for at in known],
                columns={
                    column: [None if isnan(values[at]) else values[at] for at in known]
                    for column, values in zip(self._names, series.columns, strict=True)
                },
            )


Since = Annotated[int, Field(ge=0, description="Only points after this time, in milliseconds since 1970 UTC; 0: all.")]
_DIGITS: Final = 3


class AlertView(BaseModel):
    """An active alert."""

    kind: AlertKind
    value: int
    limit: int
    since_ms: int


class PastView(BaseModel):
    """Samples, the oldest first."""

    step_ms: int
    is_kept: bool
    """False: the queue is not among the busiest, so it is not sampled."""
    times_ms: list[int]
    columns: dict[str, list[float | None]]
    """By column, a value for each time; None: unknown."""


def alert_views(alerts: tuple[Alert, ...]) -> list[AlertView]:
    """Return the views of alerts."""
    return [AlertView(kind=each.kind, value=each.value, limit=each.limit, since_ms=each.since_ms) for each in alerts]


def past_view(past: TimeSeries | None) -> PastView:
    """Return the view of a time series; None: there is none."""
    if past is None:
        return PastView(step_ms=STEP_MS, is_kept=False, times_ms=[], columns={})
    columns = {
        name: [None if value is None else round(value, _DIGITS) for value in values]
        for name, values in past.columns.items()
    }
    return PastView(step_ms=STEP_MS, is_kept=True, times_ms=list(past.times_ms), columns=columns)


_WINDOW_MS: Final = 10_000
_STEP_MS: Final = 500
_THINGS_MAX: Final = 2_000


class Rates:
    """The rates of several counters of many items, by name. Any thread. The first sample of an item has no rate yet."""

    def __init__(self, *, window_ms: int = _WINDOW_MS, step_ms: int = _STEP_MS, most: int = _THINGS_MAX) -> None:
        """`window_ms`: the time over which a rate is taken; `step_ms`: samples that are closer together count as one; `most`: items."""
        self._window_ms = window_ms
        self._step_ms = step_ms
        self._most = most
        self._lock = Lock()
        self._seen: OrderedDict[str, deque[tuple[float, tuple[int, ...]]]] = OrderedDict()

    def sample(self, name: str, counters: tuple[int, ...], now_ms: float) -> tuple[float | None, ...]:
        """Add a sample of counters; return the recent rate of each per second. None: unknown yet.

        `now_ms`: by the monotonic clock.
        """
        with self._lock:
            seen = self._seen.setdefault(name, deque())
            # When there are too many items, the least recently sampled one is dropped.
            self._seen.move_to_end(name)
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)
            # One sample before the window is kept, so that the rate is taken over the whole window.
            while len(seen) > 1 and seen[1][0] <= now_ms - self._window_ms:
                seen.popleft()
            # A counter that has fallen means that the object was created again.
            if seen and any(now < before for now, before in zip(counters, seen[-1][1], strict=True)):
                seen.clear()
            # Two consoles that look at the same time must not shorten the window for each other.
            if not seen or now_ms - seen[-1][0] >= self._step_ms:
                seen.append((now_ms, counters))
            first_ms, first = seen[0]
        if now_ms <= first_ms:
            return (None,) * len(counters)
        return tuple((now - before) * 1000 / (now_ms - first_ms) for now, before in zip(counters, first, strict=True))


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
    """Sends the alerts of one virtual host. One thread; never waits for a client."""

    def __init__(self, path: str, names: tuple[str, ...], broker: EmbeddedBroker) -> None:
        """`path` and `names` identify the virtual host in the log and in messages."""
        self._path = path
        self._names = names
        self._broker = broker

    def notify(self, news: Sequence[AlertNews]) -> None:
        """Send all notifications, the first of them one by one."""
        # A thousand queues may cross a limit at once; each one as a line would bury the rest of the log.
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
            # The clock may have been put back.
            minutes = max(0, news.at_ms - alert.since_ms) // 60_000
            _log.warning(
                "PYJMS-ALERT-2 queue %s: still %s; the limit is %d, for %d min", queue, what, alert.limit, minutes
            )
        else:
            _log.info(
                "PYJMS-ALERT-3 queue %s: it is below the limit of %d %s again", queue, alert.limit, _words(alert.kind)
            )

    def _send(self, news: AlertNews) -> None:
        running = self._broker.virtual_host
        # Without subscribers no message is made; a topic exists from its first subscriber on.
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
_FADING: Final = 0.98  # each step's factor for a queue's traffic: that of half an hour ago counts little
_IDLE: Final = 0.01
_STILL: Final = (0.0, 0.0, 0.0)
_UNKNOWN: Final = (nan, nan, nan)
_SAMPLE: Final = 32
_STAYING: Final = 1.5  # a queue must be busier by this factor to replace one with a time series


class AlertRules(Protocol):
    """The alert limits of queues."""

    def watched_for_alerts(self) -> frozenset[str] | None:
        """Return the queues that may have alerts; None: all."""
        ...

    def alert_limits(self, name: str) -> AlertLimits:
        """Return a queue's alert limits."""
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
        """The time of the last sample, by the monotonic clock."""
        self._before: dict[str, tuple[int, int, int]] = {}
        self._traffic: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._largest: dict[str, tuple[QueueEntry, int]] = {}

    def start(self) -> None:
        """Schedule the samples."""
        self._broker.schedule(self, self._broker.clock.time_ms() + STEP_MS)

    def close(self) -> None:
        """Stop sampling. May be repeated."""
        self._closed = True

    def run_due(self, now_ms: int) -> int | None:
        """Take a sample, and return the time of the next one."""
        if self._closed:
            return None
        # Scheduled first, so that a fault in one sample does not end all later ones.
        self._broker.schedule(self, now_ms + STEP_MS)
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
        """Take a sample of all queues, and send alerts."""
        counted = [(name, queue, counts_of(queue)) for name, queue in self._broker.virtual_host.queues()]
        before = self._before
        self._note(counted, before, now_ms)
        self._notifier.notify(self._judge(counted, now_ms))
        # After the judging of all queues: readers see alerts of one sample only.
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
        """Return the approximate number of bytes of each queue's messages; queues without traffic are not measured again."""
        known, found = self._sizes, {}
        for name, queue, counts in counted:
            depth = counts.depth
            if not depth:
                continue
            # A queue without traffic keeps the size that was measured before.
            size = known.get(name, 0) if before.get(name) == self._before[name] else 0
            # More messages are looked at where the value is shown in a graph.
            found[name] = size or about_bytes(queue, depth, _SAMPLE if name in chosen else 1)
        return found

    def _rates(self, counted: Sequence[tuple[str, Queue, Counts]]) -> dict[str, tuple[float, float, float]]:
        """Return each queue's arrivals, deliveries and departures a second since the last sample; none at the first one."""
        sampled_ms, self._sampled_ms = self._sampled_ms, self._broker.clock.monotonic_ms()
        seconds = 0.0 if sampled_ms is None else (self._sampled_ms - sampled_ms) / 1000
        is_first = seconds <= 0
        # No time has passed at the first sample: its rates are not shown, and must not divide by zero.
        seconds = seconds or 1.0
        before, now = (
            self._before,
            {name: (counts.accepted, counts.delivered, counts.departed) for name, _, counts in counted},
        )
        self._before = now
        traffic = {name: value * _FADING for name, value in self._traffic.items() if name in now and value > _IDLE}
        rates = dict.fromkeys(now, _STILL)
        for name, counters in now.items():
            # At the first sample all messages that were there before would seem to be new arrivals.
            old = before.get(name, counters if is_first else (0, 0, 0))
            if counters == old:
                continue
            arrived, delivered, departed = (new - past for new, past in zip(counters, old, strict=True))
            if arrived < 0 or delivered < 0 or departed < 0:
                # The queue was created again, so its counters started at 0.
                arrived, delivered, departed = counters
            traffic[name] = traffic.get(name, 0.0) + arrived + departed
            rates[name] = arrived / seconds, delivered / seconds, departed / seconds
        self._traffic = traffic
        return {} if is_first else rates

    def _busiest(self, depths: dict[str, int]) -> set[str]:
        """Return the queues that have a time series from now on."""
        most = self._history_queues()
        if len(depths) <= most:
            return set(depths)
        known, traffic = self._queues.names, self._traffic

        def weight(name: str) -> tuple[float, int, bool]:
            is_known = name in known
            # A queue that has a series is preferred: two queues of equal traffic would
            # otherwise take turns and lose their time series.
            return traffic.get(name, 0.0) * (_STAYING if is_known else 1.0), depths[name], is_known

        return set(nlargest(most, depths, key=weight))

    # Alerts

    def _judge(self, counted: Sequence[tuple[str, Queue, Counts]], now_ms: int) -> list[AlertNews]:
        rules, holding = self._rules, self._book.holding
        watched = rules.watched_for_alerts()
        news: list[AlertNews] = []
        for name, queue, counts in counted:
            # An alert that holds is looked at even when the queue is empty, as that is how it ends.
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
                # The store cannot be read, and reports that itself.
                oldest_ms = None
            found[AlertKind.AGE] = 0 if oldest_ms is None else max(0, now_ms - oldest_ms)
        if limits.message_bytes:
            found[AlertKind.MESSAGE_BYTES] = self._largest_of(name, queue)
        return found

    def _largest_of(self, name: str, queue: Queue) -> int:
        """Return the size of the largest sampled message that is still in the queue."""
        known = self._largest.pop(name, None)
        found = [each for each in (known, largest_message(queue)) if each is not None and is_there(each[0])]
        if not found:
            return 0
        self._largest[name] = best = max(found, key=lambda each: each[1])
        return best[1]
