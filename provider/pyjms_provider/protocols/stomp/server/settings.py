"""The settings of a STOMP port."""

from __future__ import annotations

from dataclasses import dataclass

from pyjms_provider.protocols.stomp.codec import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class StompSettings:
    """Limits and times of the connections of one port. Times in milliseconds."""

    server_name: str = "pyjms/0"
    """The header `server` of CONNECTED."""
    default_host: str = ""
    """The virtual host of a client that names none; empty: the only one there is."""
    limits: Limits = DEFAULT_LIMITS
    """The limits of frames, after login."""
    login_timeout_ms: int = 10_000
    """How long a connection may take to log in."""
    heart_beat_ms: int = 1_000
    """The shortest heart-beat period, either way, also for a client that asks for less; 0: no heart-beats."""
    heart_beat_tolerance: float = 2.0
    """After how many silent periods the client is considered dead."""
    probe_ms: int = 10_000
    """How often a client that asked for no heart-beats is sent an empty line while it is not read from."""
    subscriptions_max: int = 10_000
    """The most subscriptions of one connection."""
    sessions_max: int = 1_000
    """The most sessions of one connection; a standard STOMP client's transactions are sessions."""
    temporaries_max: int = 10_000
    """Temporary destinations of one connection."""
    prefetch: int = 1_000
    """How many unacknowledged messages a standard client is sent, unless it asks for a number itself."""
    waiting_bytes_max: int = 1024 * 1024
    """How many bytes of a client's frames may wait for earlier frames before the broker stops reading."""
