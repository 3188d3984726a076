"""Read and check ``amqp://`` URLs: addresses of brokers, TLS, and the options of the connection.

The table of the options is in docs/how-to/amqp.md.
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

PORTS: Final = {"amqp": 5672, "amqps": 5671, "amqp+ws": 80, "amqp+wss": 443}
_TLS_OF: Final = {"amqp": "amqps", "amqps": "amqps", "amqp+ws": "amqp+wss", "amqp+wss": "amqp+wss"}
_MECHANISMS: Final = ("SCRAM-SHA-256", "PLAIN", "EXTERNAL", "ANONYMOUS", "XOAUTH2")


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpSettings(NetworkSettings):
    """All settings of a connection."""

    virtual_host: str | None = None
    """The field `hostname` of `open`; None: the host of the URL."""
    mechanism: str | None = None
    """The one mechanism of SASL to log in by; None: the best one that fits the credentials."""
    prefetch_messages: int = 100
    """How many messages of a consumer a broker sends before they are received."""
    idle_timeout_ms: int = 60_000
    """How long the broker may be silent; 0: for ever."""
    confirm_acknowledge: bool = True
    """Whether the acknowledgement of a PERSISTENT message returns only when the broker has done it, where the broker can tell."""
    redirects: bool = True
    """Whether to go to the other brokers that a broker names."""
    frame_bytes_max: int = 128 * 1024
    """The largest frame that is taken."""
    message_bytes_max: int = 256 * 1024 * 1024
    """The largest message that is taken."""


OPTIONS: Final[Mapping[str, str]] = NETWORK_OPTIONS | {
    "virtual_host": "the hostname of open",
    "mechanism": "|".join(_MECHANISMS),
    "prefetch_messages": "messages, 1 or more",
    "idle_timeout_ms": "milliseconds, 0: none",
    "confirm_acknowledge": "yes|no",
    "redirects": "yes|no",
    "frame_bytes_max": "bytes, 512 or more",
    "message_bytes_max": "bytes",
}


def read_url(url: ProviderUrl) -> AmqpSettings:
    """Return the settings in `url`. Raises `UrlError` that names the option and shows its values."""
    scheme, options = url.scheme, url.options
    check_options(url, OPTIONS, PORTS[scheme], with_tls=_TLS_OF[scheme])
    if "+ws" not in scheme and url.path not in {"", "/"}:
        raise UrlError(f"{scheme}:// has no path; name a virtual host as {scheme}://{url.host}?virtual_host=NAME")
    read = OptionReader(options, OPTIONS)
    return AmqpSettings(
        **network_settings(url, read, PORTS[scheme], with_tls=_TLS_OF[scheme] == scheme),
        virtual_host=options.get("virtual_host"),
        mechanism=read.choice("mechanism", dict(zip(_MECHANISMS, _MECHANISMS, strict=True)), None),
        prefetch_messages=read.number("prefetch_messages", 100, 1, 65_535),
        idle_timeout_ms=read.number("idle_timeout_ms", 60_000, 0, LONGEST_MS),
        confirm_acknowledge=read.choice("confirm_acknowledge", YES_NO, default=True),
        redirects=read.choice("redirects", YES_NO, default=True),
        frame_bytes_max=read.number("frame_bytes_max", 128 * 1024, 512, 2**30),
        message_bytes_max=read.number("message_bytes_max", 256 * 1024 * 1024, 1024, 2**40),
    )
