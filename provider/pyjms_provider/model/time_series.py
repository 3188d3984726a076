"""The last hour of a queue or a host in ring buffers, what operators see of it, and rates between two readings."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import isnan, nan
from threading import Lock
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pyjms_provider.model.alerts import Alert, AlertKind

STEP_MS: Final = 10_000
POINTS: Final = 360
"""An hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
    """What was noted of one thing, the oldest first."""

    times_ms: Sequence[int]
    """In milliseconds since 1970 UTC."""
    columns: Mapping[str, Sequence[float | None]]
    """By their names, as many values each as there are times; None: nobody knows."""


class _Series:
    """The arrays of one thing."""

    __slots__ = ("columns",)

    def __init__(self, width: int) -> None:
        self.columns = tuple(array("d", [nan]) * POINTS for _ in range(width))

    def put(self, at: int, values: Iterable[float]) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column[at] = value


class History:
    """Of several things, by their names. One thread notes, any thread reads."""

    def __init__(self, columns: Sequence[str]) -> None:
        """`columns`: what is noted of each thing."""
        self._names = tuple(columns)
        self._lock = Lock()
        self._times = array("q", [0]) * POINTS
        self._step = -1
        self._series: dict[str, _Series] = {}

    @property
    def names(self) -> frozenset[str]:
        """The things that have a past here."""
        with self._lock:
            return frozenset(self._series)

    def note(self, now_ms: int, values: Mapping[str, Sequence[float]]) -> None:
        """Note values of all things that are to have a past from now on: a number for each column, NaN for what is not known.

        Things that are not named have none any more.
        """
        with self._lock:
            if self._step >= 0 and self._times[self._step % POINTS] >= now_ms:
                self._forget_from(now_ms)
            self._step += 1
            at = self._step % POINTS
            self._times[at] = now_ms
            for name in self._series.keys() - values.keys():
                del self._series[name]
            for name, row in values.items():
                series = self._series.get(name)
                if series is None:
                    series = self._series[name] = _Series(len(self._names))
                series.put(at, row)

    def _forget_from(self, now_ms: int) -> None:
        """Forget what has times that are still to come, as the clock was put back. The lock is held."""
        for at in (at for at in range(POINTS) if self._times[at] >= now_ms):
            for series in self._series.values():
                series.put(at, repeat(nan, len(self._names)))

    def read(self, name: str, since_ms: int = 0) -> TimeSeries | None:
        """Return what was noted after `since_ms`, in milliseconds since 1970 UTC; None: nothing is noted of that thing."""
        with self._lock:
            series = self._series.get(name)
            if series is None:
                return None
            order = [step % POINTS for step in range(max(0, self._step + 1 - POINTS), self._step + 1)]
            order = [at for at in order if self._times[at] > since_ms]
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
    """One alert that holds."""

    kind: AlertKind
    value: int
    limit: int
    since_ms: int


class PastView(BaseModel):
    """What was noted, the oldest first."""

    step_ms: int
    is_kept: bool
    """False: it is not among the busiest queues, so nothing is noted of it."""
    times_ms: list[int]
    columns: dict[str, list[float | None]]
    """By what was noted, as many values each as there are times; None: nobody knows."""


def alert_views(alerts: tuple[Alert, ...]) -> list[AlertView]:
    """Return alerts as they are shown."""
    return [AlertView(kind=each.kind, value=each.value, limit=each.limit, since_ms=each.since_ms) for each in alerts]


def past_view(past: TimeSeries | None) -> PastView:
    """Return a past as it is shown; None: nothing is noted."""
    if past is None:
        return PastView(step_ms=STEP_MS, is_kept=False, times_ms=[], columns={})
    columns = {
        name: [None if value is None else round(value, _DIGITS) for value in values]
        for name, values in past.columns.items()
    }
    return PastView(step_ms=STEP_MS, is_kept=True, times_ms=list(past.times_ms), columns=columns)


_WINDOW_MS: Final = 10_000
_STEP_MS: Final = 500
_MOST: Final = 2_000


class Rates:
    """Of several counters each of many things, by name. Any thread. The first look at a thing tells no rate yet."""

    def __init__(self, *, window_ms: int = _WINDOW_MS, step_ms: int = _STEP_MS, most: int = _MOST) -> None:
        """`window_ms`: over which a rate is taken; `step_ms`: looks that are closer together count as one; `most`: things."""
        self._window_ms = window_ms
        self._step_ms = step_ms
        self._most = most
        self._lock = Lock()
        self._seen: OrderedDict[str, deque[tuple[float, tuple[int, ...]]]] = OrderedDict()

    def look(self, name: str, counters: tuple[int, ...], now_ms: float) -> tuple[float | None, ...]:
        """Note counters as they are now; return how many a second came to each lately. None: nobody knows yet.

        `now_ms`: by the monotonic clock.
        """
        with self._lock:
            seen = self._seen.setdefault(name, deque())
            self._seen.move_to_end(name)
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)
            while len(seen) > 1 and seen[1][0] <= now_ms - self._window_ms:
                seen.popleft()
            if seen and any(now < before for now, before in zip(counters, seen[-1][1], strict=True)):
                seen.clear()  # the object was made again
            if not seen or now_ms - seen[-1][0] >= self._step_ms:
                seen.append((now_ms, counters))
            first_ms, first = seen[0]
        if now_ms <= first_ms:
            return (None,) * len(counters)
        return tuple((now - before) * 1000 / (now_ms - first_ms) for now, before in zip(counters, first, strict=True))
