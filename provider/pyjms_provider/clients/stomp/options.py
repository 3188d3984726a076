"""Read and check ``stomp://`` URLs: addresses of brokers, TLS, and the options of the connection.

The table of the options is in docs/how-to/stomp.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.network.endpoints import (
    LONGEST_MS,
    NETWORK_OPTIONS,
    YES_NO,
    NetworkSettings,
    OptionReader,
    check_options,
    network_settings,
)
from pyjms_provider.protocols.stomp.dialects import DIALECTS

_PORTS: Final = {"stomp": 61613, "stomps": 61614, "stomp+ws": 61619}


@dataclass(frozen=True, slots=True, kw_only=True)
class StompSettings(NetworkSettings):
    """All settings of a connection."""

    dialect: str | None = None
    """None: recognized by CONNECTED."""
    virtual_host: str | None = None
    """The header `host`; None: it is left out, which brokers take for their default one."""
    prefetch_messages: int = 10
    """How many messages of a queue a broker pushes before they are settled."""
    # ActiveMQ's own default for topics, Short.MAX_VALUE - 1.
    prefetch_topic_messages: int = 32_766
    """The same for topics."""
    heart_beat_ms: int = 10_000
    grace_ms: int = 100
    """How long `receive_no_wait` and browsers wait for a broker that cannot say that it has no message."""
    confirm_acknowledge: bool = True
    """Whether an acknowledgement returns only when the broker has it."""
    best_effort_transactions: bool = False
    dead_letter_queue: str = "DLQ"
    frame_bytes_max: int = 256 * 1024 * 1024


OPTIONS: Final[Mapping[str, str]] = NETWORK_OPTIONS | {
    "dialect": "|".join(DIALECTS),
    "virtual_host": "the header host",
    "prefetch_messages": "messages, 1 or more",
    "prefetch_topic_messages": "messages, 1 or more",
    "heart_beat_ms": "milliseconds, 0: none",
    "grace_ms": "milliseconds",
    "confirm_acknowledge": "yes|no",
    "transactions": "atomic|best-effort",
    "dead_letter_queue": "the name of a queue",
    "frame_bytes_max": "bytes",
}


def read_url(url: ProviderUrl) -> StompSettings:
    """Return the settings in `url`. Raises `UrlError` that names the option and shows its values."""
    scheme, options = url.scheme, url.options
    check_options(url, OPTIONS, _PORTS[scheme], with_tls="stomps")
    if scheme != "stomp+ws" and url.path not in {"", "/"}:
        raise UrlError(f"{scheme}:// has no path; name a virtual host as {scheme}://{url.host}?virtual_host=NAME")
    read = OptionReader(options, OPTIONS)
    return StompSettings(
        **network_settings(url, read, _PORTS[scheme], with_tls=scheme == "stomps"),
        dialect=read.choice("dialect", dict(zip(DIALECTS, DIALECTS, strict=True)), None),
        virtual_host=options.get("virtual_host"),
        prefetch_messages=read.number("prefetch_messages", 10, 1, 65_535),
        prefetch_topic_messages=read.number("prefetch_topic_messages", 32_766, 1, 65_535),
        heart_beat_ms=read.number("heart_beat_ms", 10_000, 0, LONGEST_MS),
        grace_ms=read.number("grace_ms", 100, 0, 60_000),
        confirm_acknowledge=read.choice("confirm_acknowledge", YES_NO, default=True),
        best_effort_transactions=read.choice("transactions", {"atomic": False, "best-effort": True}, default=False),
        dead_letter_queue=read.text("dead_letter_queue", "DLQ"),
        frame_bytes_max=read.number("frame_bytes_max", 256 * 1024 * 1024, 1024, 2**40),
    )
