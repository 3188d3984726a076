"""Rates of counters, from what was seen of them before: nothing is counted that nobody asks for."""

from __future__ import annotations

from collections import OrderedDict, deque
from threading import Lock
from typing import Final

__all__ = ["Rates"]

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
                seen.clear()  # the thing was made anew
            if not seen or now_ms - seen[-1][0] >= self._step_ms:
                seen.append((now_ms, counters))
            first_ms, first = seen[0]
        if now_ms <= first_ms:
            return (None,) * len(counters)
        return tuple((now - before) * 1000 / (now_ms - first_ms) for now, before in zip(counters, first, strict=True))
