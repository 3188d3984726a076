"""Who looks over a virtual host's queues every ten seconds: for the last hour, and for alerts.

The host's housekeeper calls it, so no message waits for it. A look counts every queue once; what costs more (bytes, ages,
sizes) is asked of those queues alone that have a past of their own, or a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest
from math import nan
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.core.queue.measuring import about_bytes, is_there, largest_message, oldest_timestamp_ms
from pyjms_provider.core.queue.observing import counts_of
from pyjms_provider.model.alert_telling import AlertTeller
from pyjms_provider.watching.alerts import AlertBook, AlertKind, AlertLimits, AlertNews
from pyjms_provider.watching.series import STEP_MS, History, Past

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.core.channel.channel_state import Counts
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.model.virtual_host import VirtualHost

__all__ = ["HostWatch"]

_QUEUE_COLUMNS: Final = ("depth", "arrival_rate", "delivery_rate", "departure_rate", "bytes", "consumers")
_HOST_COLUMNS: Final = (*_QUEUE_COLUMNS, "connections", "messages")
_WHOLE: Final = ""
_FADING: Final = 0.98  # of a queue's traffic with each step: what was half an hour ago counts little
_IDLE: Final = 0.01
_STILL: Final = (0.0, 0.0, 0.0)
_UNKNOWN: Final = (nan, nan, nan)
_SAMPLE: Final = 32
_STAYING: Final = 1.5  # by so much another queue must be busier to take the place of one that has a past


class HostWatch:
    """Implements `HasTimes`, from `start` to `close`. Looks are made by one thread; any thread reads."""

    def __init__(self, host: VirtualHost, broker: EmbeddedBroker) -> None:
        self._host = host
        self._broker = broker
        self._closed = False
        self._book = AlertBook()
        self._teller = AlertTeller(host, broker)
        self._queues = History(_QUEUE_COLUMNS)
        self._whole = History(_HOST_COLUMNS)
        self._looked_ms: float | None = None
        """When it looked last, by the monotonic clock."""
        self._before: dict[str, tuple[int, int, int]] = {}
        self._traffic: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._largest: dict[str, tuple[QueueEntry, int]] = {}

    def start(self) -> None:
        """Have the housekeeper call each step from now on."""
        self._broker.tend(self, self._broker.clock.time_ms() + STEP_MS)

    def close(self) -> None:
        """Look no more. May be repeated."""
        self._closed = True

    def do_what_is_due(self, now_ms: int) -> int | None:
        """Look, and say when to come again."""
        if self._closed:
            return None
        self._broker.tend(self, now_ms + STEP_MS)  # first, so that a fault in one look does not end all
        self.look(now_ms)
        return None

    # Any thread

    @property
    def book(self) -> AlertBook:
        """The alerts."""
        return self._book

    def past_of(self, queue: str, since_ms: int) -> Past | None:
        """Return the last hour of a queue; None: it is not among the busiest."""
        return self._queues.read(queue, since_ms)

    def past(self, since_ms: int) -> Past:
        """Return the last hour of the host."""
        found = self._whole.read(_WHOLE, since_ms)
        return Past(times_ms=(), columns=dict.fromkeys(_HOST_COLUMNS, ())) if found is None else found

    # The thread of the housekeeper

    def look(self, now_ms: int) -> None:
        """Note what is there now, and tell what is too much."""
        counted = [(name, queue, counts_of(queue)) for name, queue in self._broker.virtual_host.queues()]
        before = self._before
        self._note(counted, before, now_ms)
        self._teller.tell(self._judge(counted, now_ms))
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
        """Return how many messages a second came to each queue since the last look, were delivered, and left; none at the first look."""
        looked_ms, self._looked_ms = self._looked_ms, self._broker.clock.monotonic_ms()
        seconds = 0.0 if looked_ms is None else (self._looked_ms - looked_ms) / 1000
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
                came, delivered, left = counters  # it was made anew
            traffic[name] = traffic.get(name, 0.0) + came + left
            rates[name] = came / seconds, delivered / seconds, left / seconds
        self._traffic = traffic
        return {} if is_first else rates

    def _busiest(self, depths: dict[str, int]) -> set[str]:
        """Return the queues that have a past from now on."""
        most = self._host.history_queues
        if len(depths) <= most:
            return set(depths)
        known, traffic = self._queues.names, self._traffic

        def weight(name: str) -> tuple[float, int, bool]:
            is_known = name in known
            return traffic.get(name, 0.0) * (_STAYING if is_known else 1.0), depths[name], is_known

        return set(nlargest(most, depths, key=weight))

    # Alerts

    def _judge(self, counted: Sequence[tuple[str, Queue, Counts]], now_ms: int) -> list[AlertNews]:
        source, holding = self._host.queues, self._book.holding
        watched = source.watched_for_alerts()
        news: list[AlertNews] = []
        for name, queue, counts in counted:
            if name in holding or (counts.depth and (watched is None or name in watched)):
                limits = source.alert_limits(name)
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
