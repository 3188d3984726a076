"""Limits log lines that untrusted peers can cause. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

_SILENCE_MS: Final = 5_000


class RareLines:
    """Lets one line of a kind through every five seconds, and counts the others. One thread at a time."""

    def __init__(self) -> None:
        self._quiet: dict[Hashable, tuple[float, int]] = {}

    def missed(self, kind: Hashable, now_ms: float) -> str | None:
        """Return the text to append to a line that may be written now: how many were suppressed, or nothing; None: suppress this one.

        now_ms: of the monotonic clock. There are few kinds: each is kept.
        """
        until_ms, missed = self._quiet.get(kind, (now_ms, 0))
        if now_ms < until_ms:
            self._quiet[kind] = (until_ms, missed + 1)
            return None
        self._quiet[kind] = (now_ms + _SILENCE_MS, 0)
        return f" (and {missed} more since the last such line)" if missed else ""
