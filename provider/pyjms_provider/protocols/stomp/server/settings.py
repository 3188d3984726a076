"""What the owner of a STOMP port may choose."""

from __future__ import annotations

from dataclasses import dataclass

from pyjms_provider.protocols.stomp.codec import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class StompSettings:
    """Limits and times of the connections of one port. Times in milliseconds."""

    server_name: str = "pyjms/0"
    """What CONNECTED says in `server`."""
    default_host: str = ""
    """The virtual host of who names none; empty: the only one there is."""
    limits: Limits = DEFAULT_LIMITS
    """Of frames, after login."""
    login_timeout_ms: int = 10_000
    """How long a connection may take to log in."""
    heart_beat_ms: int = 1_000
    """The shortest period of heart-beats that is agreed on, either way: that of a client that asks for less; 0: there are none."""
    heart_beat_tolerance: float = 2.0
    """After how many periods of idle_monitor the client is taken for dead."""
    probe_ms: int = 10_000
    """How often a client that asked for no heart-beats is sent an empty line while it is not read from."""
    subscriptions_max: int = 10_000
    """Of one connection."""
    sessions_max: int = 1_000
    """Of one connection; transactions of a plain STOMP client are sessions."""
    temporaries_max: int = 10_000
    """Temporary destinations of one connection."""
    prefetch: int = 1_000
    """Messages that a plain client is sent before it acknowledges, unless it says itself."""
    waiting_bytes_max: int = 1024 * 1024
    """So much of what a client has sent may wait for earlier frames before the broker stops reading."""
