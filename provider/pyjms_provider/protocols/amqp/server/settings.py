"""The settings of an AMQP port."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpSettings:
    """Limits and times of the connections of one port. Times in milliseconds."""

    container_id: str = "pyjms"
    """The container id of the broker's open."""
    version: str = "0"
    """The version that the broker's open tells."""
    default_host: str = ""
    """The virtual host of a client whose open names none that is here; empty: the only one there is."""
    login_timeout_ms: int = 10_000
    """How long a connection may take until its open has come."""
    idle_timeout_ms: int = 60_000
    """How long a client may be silent; half of it is told in the broker's open. 0: for ever."""
    frame_bytes_max: int = 128 * 1024
    """The largest frame that is taken."""
    message_bytes_max: int = 100 * 1024 * 1024
    """The largest message that a link takes."""
    sessions_max: int = 1_000
    """Sessions of one connection."""
    links_max: int = 1_000
    """Links of one session."""
    temporaries_max: int = 10_000
    """Dynamic nodes of one connection."""
    transactions_max: int = 1_000
    """Open transactions of one connection."""
    incoming_window: int = 2_048
    """Transfers of a session that may be under way to the broker."""
    credit: int = 1_000
    """Messages that a link may send before the broker has taken any of them."""
    blocking_credit: int = 16
    """The same where a full queue keeps its senders waiting."""
    unsettled_max: int = 10_000
    """Messages that a client may have from one link without settling them, whatever credit it gives."""
    waiting_bytes_max: int = 4 * 1024 * 1024
    """How many bytes of a client's messages may wait for earlier ones before the broker stops reading."""
