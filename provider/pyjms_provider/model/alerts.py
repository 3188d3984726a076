"""Alerts: a queue has grown beyond what its owner wants to be told of (Broker-J, "Queue Alerts").

An alert holds as long as the value is at its limit or above. It is told once when it begins, again after each gap, and when it is
over. One that comes and goes is told as often as the gap allows, and no oftener.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class AlertKind(Enum):
    """What is too much."""

    MESSAGES = "messages"
    BYTES = "bytes"
    AGE = "age"
    MESSAGE_BYTES = "message_bytes"

    __hash__ = object.__hash__


class Telling(Enum):
    """Why an alert is told."""

    RAISED = "raised"
    REPEATED = "repeated"
    CLEARED = "cleared"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLimits:
    """From where on there is an alert; 0: never."""

    messages: int = 0
    bytes: int = 0
    age_ms: int = 0
    message_bytes: int = 0
    repeat_gap_ms: int = 0
    """After which an alert that holds is told again; 0: it is not."""

    def of(self, kind: AlertKind) -> int:
        """Return the limit of one kind."""
        return int(getattr(self, _FIELDS[kind]))

    @property
    def is_any(self) -> bool:
        """Whether there can be an alert."""
        return bool(self.messages or self.bytes or self.age_ms or self.message_bytes)


_FIELDS: Final[Mapping[AlertKind, str]] = {kind: kind.value for kind in AlertKind} | {AlertKind.AGE: "age_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One that holds."""

    queue: str
    kind: AlertKind
    value: int
    """When it was last looked at: messages, bytes, or milliseconds."""
    limit: int
    since_ms: int
    """When it was first seen, in milliseconds since 1970 UTC."""
    is_told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertNews:
    """Something to tell."""

    telling: Telling
    alert: Alert
    at_ms: int


class AlertBook:
    """The alerts of one virtual host. One thread judges; any thread reads `holding`."""

    def __init__(self) -> None:
        self._holding: dict[str, dict[AlertKind, Alert]] = {}
        self._told: dict[tuple[str, AlertKind], tuple[int, int]] = {}
        """When one was told last, and the time from which on it may be told again."""
        self.holding: Mapping[str, tuple[Alert, ...]] = {}
        """The alerts that hold, by the queue; replaced by `end_round`, never changed."""

    def judge(self, queue: str, limits: AlertLimits, measured: Mapping[AlertKind, int], now_ms: int) -> list[AlertNews]:
        """Compare what was measured of a queue with its limits; return what is to be told. What is not measured is 0."""
        before = self._holding.get(queue, {})
        after: dict[AlertKind, Alert] = {}
        news: list[AlertNews] = []
        for kind in AlertKind:
            value, limit, old = measured.get(kind, 0), limits.of(kind), before.get(kind)
            if not limit or value < limit:
                if old is not None and old.is_told:
                    ended = Alert(queue=queue, kind=kind, value=value, limit=limit or old.limit, since_ms=old.since_ms)
                    news.append(AlertNews(telling=Telling.CLEARED, alert=ended, at_ms=now_ms))
                continue
            telling = self._telling((queue, kind), old, limits.repeat_gap_ms, now_ms)
            if telling is None and old is not None and (old.value, old.limit) == (value, limit):
                after[kind] = old
                continue
            after[kind] = alert = Alert(
                queue=queue,
                kind=kind,
                value=value,
                limit=limit,
                since_ms=now_ms if old is None else old.since_ms,
                is_told=telling is not None or (old is not None and old.is_told),
            )
            if telling is not None:
                news.append(AlertNews(telling=telling, alert=alert, at_ms=now_ms))
        if after:
            self._holding[queue] = after
        else:
            self._holding.pop(queue, None)
        return news

    def _telling(self, key: tuple[str, AlertKind], old: Alert | None, gap_ms: int, now_ms: int) -> Telling | None:
        """Return whether, and as what, an alert that holds is told now."""
        told_ms, again_ms = self._told.get(key, (0, 0))
        if told_ms > now_ms:  # the clock was put back; the gap begins anew, and does not wait until it has caught up
            told_ms, again_ms = self._told[key] = now_ms, now_ms + gap_ms
        is_new = old is None or not old.is_told
        if not (now_ms >= again_ms if is_new else gap_ms and now_ms >= told_ms + gap_ms):
            return None
        self._told[key] = now_ms, now_ms + gap_ms
        return Telling.RAISED if is_new else Telling.REPEATED

    def end_round(self, now_ms: int, queues: Collection[str]) -> None:
        """Forget queues that are not among `queues`, and show others what holds now."""
        self._holding = {name: alerts for name, alerts in self._holding.items() if name in queues}
        self._told = {
            key: times
            for key, times in self._told.items()
            if now_ms < times[1] or key[1] in self._holding.get(key[0], ())
        }
        self.holding = {name: tuple(alerts.values()) for name, alerts in self._holding.items()}
