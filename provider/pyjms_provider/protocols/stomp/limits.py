"""How large frames may be."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BEFORE_LOGIN", "DEFAULT_LIMITS", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a decoder takes; more is a `FrameLimitError`. The first two are ActiveMQ Classic's."""

    header_line_max: int = 10 * 1024
    """Bytes of one header line, without its end."""
    header_count_max: int = 1000
    """Header lines of one frame."""
    header_size_max: int = 256 * 1024
    """Bytes of a frame's command and headers together."""
    body_max: int = 100 * 1024 * 1024
    """Bytes of one body."""


DEFAULT_LIMITS = Limits()
BEFORE_LOGIN = Limits(header_count_max=100, header_size_max=32 * 1024, body_max=4 * 1024)
"""Enough for CONNECT, with a short body that some clients write, and nothing that a stranger could fill memory with."""
