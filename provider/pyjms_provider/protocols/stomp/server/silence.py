"""Time on one connection: the login's, and heart-beats (STOMP 1.2, "Heart-beating"; Broker-J's idle tickers). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyjms_provider.protocols.stomp.server.settings import StompSettings

__all__ = ["Silence"]

_SEND_AFTER: Final = 0.8  # of the period that was promised: the wire takes time, too


class Silence:
    """When something must be said, and when nothing was heard for too long. Times are of the monotonic clock, in ms."""

    def __init__(self, now_ms: float, settings: StompSettings) -> None:
        self._settings = settings
        self._login_until_ms: float | None = now_ms + settings.login_timeout_ms
        self._out_ms = 0.0
        self._in_ms = 0.0
        self._said_ms = now_ms
        self._stuck_ms = 0.0
        self.beat_is_due = False
        """Whether `takes_beat` says so; until something is said, there is no other time to look for."""

    @property
    def is_awaited(self) -> bool:
        """Whether there is any time to look after."""
        return bool(self._out_ms or self._in_ms or self._login_until_ms is not None)

    def begin(self, out_ms: int, in_ms: int, *, takes_lines: bool) -> None:
        """Hear that the login is done, and what both sides promised; 0: nothing. `takes_lines`: the version of STOMP has empty lines between frames."""
        self._login_until_ms = None
        if takes_lines and not out_ms:
            self._stuck_ms = self._settings.probe_ms * _SEND_AFTER if self._settings.heart_beat_ms else 0.0
        self._out_ms = out_ms * _SEND_AFTER
        self._in_ms = in_ms * self._settings.heart_beat_tolerance

    @property
    def follows_reading(self) -> bool:
        """Whether it wants to `note_reading`."""
        return self._stuck_ms > 0

    def note_reading(self, now_ms: float, *, is_reading: bool) -> None:
        """Hear whether the client is read from. As long as it is not, nothing tells that it has gone but the failure to write to it: so it
        is sent empty lines then though it did not ask for any (STOMP 1.2, "Augmented BNF": they may follow each frame).
        """
        if is_reading:
            self._out_ms = 0.0
        elif not self._out_ms:
            self._out_ms = self._stuck_ms
            self._said_ms = now_ms

    def said(self, now_ms: float) -> None:
        """Whatever is written tells the client that the broker is alive."""
        self._said_ms = now_ms
        self.beat_is_due = False

    def takes_beat(self) -> bool:
        """Say, once, whether an empty line is due."""
        is_due, self.beat_is_due = self.beat_is_due, False
        return is_due

    def next_ms(self, heard_ms: float) -> int | None:
        """Return when `look` should be called. `heard_ms`: when the client was last heard; any byte counts."""
        times = [self._login_until_ms] if self._login_until_ms is not None else []
        if self._out_ms and not self.beat_is_due:
            times.append(self._said_ms + self._out_ms)
        if self._in_ms:
            times.append(heard_ms + self._in_ms)
        return int(min(times)) + 1 if times else None

    def look(self, now_ms: float, heard_ms: float) -> str | None:
        """Return why the connection must end, if it must."""
        if self._login_until_ms is not None and now_ms >= self._login_until_ms:
            return f"nobody logged in within {self._settings.login_timeout_ms} ms"
        if self._in_ms and now_ms >= heard_ms + self._in_ms:
            return f"nothing was heard for {now_ms - heard_ms:.0f} ms, and heart-beats were promised"
        if self._out_ms and now_ms >= self._said_ms + self._out_ms:
            self.beat_is_due = True
        return None
