"""When to send a heart-beat, and when silence means that the other side is gone (STOMP 1.2, "Heart-beating").

A pure machine: it is told the time. Any byte, of whatever frame, is a sign of life, and a silence of two periods and a
second is borne: brokers round periods, and machines are slow.
"""

from __future__ import annotations

__all__ = ["HeartBeat"]

_TOLERANCE = 2
_GRACE_MS = 1000


class HeartBeat:
    """The heart-beats of one connection. One thread at a time."""

    def __init__(self, offer_ms: int, answer: str, now_ms: float) -> None:
        """`offer_ms`: the period that this side offered for both ways; `answer`: the broker's header, "" for none."""
        sends_ms, wants_ms = _parse(answer)
        self.send_every_ms = max(offer_ms, wants_ms) if offer_ms and wants_ms else 0
        """At least so often something must be sent; 0: never."""
        self.expect_every_ms = max(offer_ms, sends_ms) if offer_ms and sends_ms else 0
        """So often the broker sends something; 0: it need not."""
        self._sent_ms = self._received_ms = now_ms

    def sent(self, now_ms: float) -> None:
        """Note that bytes were written."""
        self._sent_ms = now_ms

    def received(self, now_ms: float) -> None:
        """Note that bytes came, whatever they are."""
        self._received_ms = now_ms

    def is_due(self, now_ms: float) -> bool:
        """Say whether a heart-beat is to be sent now: after half of the period, so that a slow network has the rest."""
        return self.send_every_ms > 0 and now_ms - self._sent_ms >= self.send_every_ms / 2

    def is_dead(self, now_ms: float) -> bool:
        """Say whether the broker has been silent for too long."""
        return self.expect_every_ms > 0 and now_ms - self._received_ms > self.patience_ms

    @property
    def patience_ms(self) -> int:
        """The silence, in milliseconds, that is borne."""
        return self.expect_every_ms * _TOLERANCE + _GRACE_MS

    def wait_ms(self, now_ms: float) -> float | None:
        """Return how long nothing needs to be done; None: for ever."""
        waits = []
        if self.send_every_ms:
            waits.append(self._sent_ms + self.send_every_ms / 2 - now_ms)
        if self.expect_every_ms:
            waits.append(self._received_ms + self.patience_ms - now_ms + 1)
        return max(0.0, min(waits)) if waits else None


def _parse(answer: str) -> tuple[int, int]:
    """Return what the broker sends and wants; a header that is no pair of numbers stands for none."""
    sends, comma, wants = (part.strip() for part in answer.partition(","))
    if not (comma and sends.isdecimal() and wants.isdecimal() and sends.isascii() and wants.isascii()):
        return 0, 0
    return int(sends), int(wants)
