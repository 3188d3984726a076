"""Log-ins in the audit log, written so that who tries at speed neither fills the disk nor pushes out what others did.

Of log-ins that are alike (the same user and result, from the same network) one a minute is written; it says how many there were since
the one before. Of those that are refused, a hundred are written in a row, whatever names they offer, and then one a second.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import Final

from pyjms.spi.clock import Clock
from pyjms_provider.security.audit import AuditAction, AuditLog, AuditRecord, AuditResult
from pyjms_provider.security.throttle import network_of

__all__ = ["LoginAudit"]

_QUIET_MS: Final = 60_000
_REFUSED_BURST: Final = 100
_REFUSED_INTERVAL_MS: Final = 1_000
_REMEMBERED: Final = 1_000
_LONGEST_NAME: Final = 256
_Key = tuple[str, str, AuditResult]


class LoginAudit:
    """Safe to use from any thread. Never raises."""

    def __init__(self, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._lock = Lock()
        self._alike: OrderedDict[_Key, tuple[float, int]] = OrderedDict()
        """When the next one is written, and how many have not been."""
        self._refused = 0.0
        """How many of the burst are used up."""
        self._refused_ms = 0.0
        self._left_out = 0
        """Refused ones that no record has told of, and nothing else remembers."""

    def note(self, record: AuditRecord) -> None:
        """Write a record of a log-in, or count it."""
        record = replace(record, target=record.target[:_LONGEST_NAME])
        name = record.target if record.who is None else f"{record.who.name} of {record.who.provider}"
        with self._lock:
            left_out = self._admit((network_of(record.peer), name, record.result))
        if left_out is not None:
            self._audit.write(_with_count(record, left_out))

    def close(self) -> None:
        """Write how many were refused that no record has told of."""
        with self._lock:
            left_out = self._left_out + sum(
                count for (_, _, result), (_, count) in self._alike.items() if result is AuditResult.REFUSED
            )
            self._alike.clear()
            self._left_out = 0
        if left_out:
            record = AuditRecord(action=AuditAction.LOG_IN, who=None, target="", result=AuditResult.REFUSED)
            self._audit.write(_with_count(record, left_out))

    def _admit(self, key: _Key) -> int | None:
        """Return how many have been left out before this one; None: leave it out, too. The lock is held."""
        now_ms = self._clock.monotonic_ms()
        until_ms, count = self._alike.get(key, (now_ms, 0))
        if now_ms < until_ms:
            self._alike[key] = until_ms, count + 1
            return None
        if key[2] is AuditResult.REFUSED:
            if not self._takes_refusal(now_ms):
                self._left_out += 1
                return None
            count, self._left_out = count + self._left_out, 0
        self._alike[key] = now_ms + _QUIET_MS, 0
        self._alike.move_to_end(key)
        if len(self._alike) > _REMEMBERED:
            (_, _, result), (_, forgotten) = self._alike.popitem(last=False)
            self._left_out += forgotten if result is AuditResult.REFUSED else 0
        return count

    def _takes_refusal(self, now_ms: float) -> bool:
        drained = (now_ms - self._refused_ms) / _REFUSED_INTERVAL_MS
        self._refused, self._refused_ms = max(0.0, self._refused - drained), now_ms
        if self._refused > _REFUSED_BURST - 1:
            return False
        self._refused += 1
        return True


def _with_count(record: AuditRecord, left_out: int) -> AuditRecord:
    return replace(record, after={**record.after, "more": left_out}) if left_out else record
