"""Errors in bytes or frames: one class for each fault that a caller can tell apart.

The texts are sent to the other side, too, in ERROR frames. They quote at most a little of the input, and never a header value.
"""

from __future__ import annotations


class StompError(Exception):
    """Root of the errors of this package; `reason` says what to do."""

    def __init__(self, reason: str, *, receipt: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.receipt = receipt
        """The `receipt` header of the faulty frame, if it could be read: an ERROR answers it."""


class FrameError(StompError):
    """The bytes break the grammar of frames (STOMP 1.2, "Augmented BNF"); the connection cannot go on."""


class FrameLimitError(FrameError):
    """A frame is larger than this side allows; the connection cannot go on."""

    def __init__(self, what: str, limit: int, unit: str, *, receipt: str | None = None) -> None:
        super().__init__(f"{what} has more than the {limit} {unit} that are taken here", receipt=receipt)
        self.limit = limit


class EncodingError(StompError):
    """A frame cannot be written in this version of STOMP: nothing was written."""


class SequenceError(StompError):
    """A frame is not allowed at this time."""


class VersionError(StompError):
    """The two sides have no version of STOMP in common."""


class ProfileError(StompError):
    """A frame breaks the pyjms profile, or a command of it lacks a header."""
