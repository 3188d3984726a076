"""What an exception says, as a reason that may travel: into a log, a dead letter's property, a frame, another exception.

Whoever raised it wrote its text: an application's class, or what somebody sent. It may be of any length, and asking for
it may fail.
"""

from __future__ import annotations

__all__ = ["REASON_MAX", "reason_of"]

REASON_MAX = 1_000
"""So many characters a reason has at most: a dead letter carries it, and a frame of STOMP must hold it."""


def reason_of(error: BaseException) -> str:
    """Return the class and the text of `error`, cut after `REASON_MAX` characters. Raises nothing.

    What UTF-8 cannot hold, and NUL, which ends a frame, are spelled out.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # an application's class: __str__ may fail in any way
        return name[:REASON_MAX]
    reason = f"{name}: {text[:REASON_MAX]}"[:REASON_MAX] if text else name[:REASON_MAX]
    return reason.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
