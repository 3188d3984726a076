"""Read and check ``stomp://`` URLs: addresses of brokers, TLS, and the options of the connection.

The table of the options is in docs/how-to/stomp.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.protocols.stomp.dialects import DIALECTS

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")

_PORTS: Final = {"stomp": 61613, "stomps": 61614, "stomp+ws": 61619}
_LONGEST_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of the broker."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return ``HOST:PORT``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """How the two sides authenticate each other."""

    verify: bool = True
    """Whether the broker's certificate and host name are checked."""
    ca_file: str | None = None
    """Certificates to trust, PEM; None: the system's."""
    certificate_file: str | None = None
    """The client's own certificate, PEM; None: it shows none."""
    key_file: str | None = None
    """Its key; None: it is in `certificate_file`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StompSettings:
    """All settings of a connection."""

    scheme: str
    endpoints: tuple[Endpoint, ...]
    path: str = "/"
    """The path of the WebSocket."""
    tls: TlsFiles | None = None
    """None: the connection is not encrypted."""
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
    connect_timeout_ms: int = 10_000
    timeout_ms: int = 30_000
    """How long to wait for an answer, or for a connection to come back."""
    reconnect: bool = True
    reconnect_delay_ms: int = 100
    reconnect_delay_max_ms: int = 30_000
    reconnect_attempts: int = 0
    """Rounds through the endpoints before the connection is given up; 0: no end."""
    grace_ms: int = 100
    """How long `receive_no_wait` and browsers wait for a broker that cannot say that it has no message."""
    confirm_acknowledge: bool = True
    """Whether an acknowledgement returns only when the broker has it."""
    best_effort_transactions: bool = False
    dead_letter_queue: str = "DLQ"
    frame_bytes_max: int = 256 * 1024 * 1024


OPTIONS: Final[Mapping[str, str]] = {
    "failover": "HOST[:PORT],HOST[:PORT],…",
    "dialect": "|".join(DIALECTS),
    "virtual_host": "the header host",
    "prefetch_messages": "messages, 1 or more",
    "prefetch_topic_messages": "messages, 1 or more",
    "heart_beat_ms": "milliseconds, 0: none",
    "connect_timeout_ms": "milliseconds",
    "timeout_ms": "milliseconds",
    "reconnect": "yes|no",
    "reconnect_delay_ms": "milliseconds",
    "reconnect_delay_max_ms": "milliseconds",
    "reconnect_attempts": "a number, 0: no end",
    "grace_ms": "milliseconds",
    "confirm_acknowledge": "yes|no",
    "transactions": "atomic|best-effort",
    "dead_letter_queue": "the name of a queue",
    "frame_bytes_max": "bytes",
    "verify": "yes|no",
    "ca_file": "a PEM file",
    "certificate_file": "a PEM file",
    "key_file": "a PEM file",
}
_TLS_ONLY: Final = ("verify", "ca_file", "certificate_file", "key_file")


def read_url(url: ProviderUrl) -> StompSettings:
    """Return the settings in `url`. Raises `UrlError` that names the option and shows its values."""
    scheme, options = url.scheme, url.options
    for name in options:
        if name not in OPTIONS:
            known = ", ".join(f"{known}={values}" for known, values in OPTIONS.items())
            raise UrlError(f"{scheme}:// has no option {name!r}; its options are: {known}")
        if name in _TLS_ONLY and scheme != "stomps":
            raise UrlError(f"{name}= is about TLS, and {scheme}:// has none; write stomps://{url.host}")
    if not url.host:
        raise UrlError(f"the URL does not name a host; write for instance {scheme}://127.0.0.1:{_PORTS[scheme]}")
    if scheme != "stomp+ws" and url.path not in {"", "/"}:
        raise UrlError(f"{scheme}:// has no path; name a virtual host as {scheme}://{url.host}?virtual_host=NAME")
    read = _Reader(options)
    return StompSettings(
        scheme=scheme,
        endpoints=_endpoints(url),
        path=url.path or "/",
        tls=_tls(read) if scheme == "stomps" else None,
        dialect=read.choice("dialect", dict(zip(DIALECTS, DIALECTS, strict=True)), None),
        virtual_host=options.get("virtual_host"),
        prefetch_messages=read.number("prefetch_messages", 10, 1, 65_535),
        prefetch_topic_messages=read.number("prefetch_topic_messages", 32_766, 1, 65_535),
        heart_beat_ms=read.number("heart_beat_ms", 10_000, 0, _LONGEST_MS),
        connect_timeout_ms=read.number("connect_timeout_ms", 10_000, 1, _LONGEST_MS),
        timeout_ms=read.number("timeout_ms", 30_000, 1, _LONGEST_MS),
        reconnect=read.choice("reconnect", _YES_NO, default=True),
        reconnect_delay_ms=read.number("reconnect_delay_ms", 100, 1, _LONGEST_MS),
        reconnect_delay_max_ms=read.number("reconnect_delay_max_ms", 30_000, 1, _LONGEST_MS),
        reconnect_attempts=read.number("reconnect_attempts", 0, 0, 10**9),
        grace_ms=read.number("grace_ms", 100, 0, 60_000),
        confirm_acknowledge=read.choice("confirm_acknowledge", _YES_NO, default=True),
        best_effort_transactions=read.choice("transactions", {"atomic": False, "best-effort": True}, default=False),
        dead_letter_queue=read.text("dead_letter_queue", "DLQ"),
        frame_bytes_max=read.number("frame_bytes_max", 256 * 1024 * 1024, 1024, 2**40),
    )


_YES_NO: Final = {"yes": True, "no": False}


class _Reader:
    """Reads single options. Raises `UrlError`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.options.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,15}", text) or not least <= int(text) <= most:
            raise UrlError(f"{name}={text!r} is no number from {least} to {most}; write {name}={default}")
        return int(text)

    def choice(self, name: str, choices: Mapping[str, _Value], default: _Default) -> _Value | _Default:
        text = self.options.get(name)
        if text is None:
            return default
        if text not in choices:
            raise UrlError(f"{text!r} is no value of {name}; write {name}={OPTIONS[name]}")
        return choices[text]

    def text(self, name: str, default: str) -> str:
        text = self.options.get(name, default)
        if not text:
            raise UrlError(f"{name}= is empty; write {name}={OPTIONS[name]}")
        return text


def _tls(read: _Reader) -> TlsFiles:
    options = read.options
    for name in ("ca_file", "certificate_file", "key_file"):
        read.text(name, "default")
    if "key_file" in options and "certificate_file" not in options:
        raise UrlError("key_file= is the key of a certificate: name that too, as certificate_file=client.pem")
    return TlsFiles(
        verify=read.choice("verify", _YES_NO, default=True),
        ca_file=options.get("ca_file"),
        certificate_file=options.get("certificate_file"),
        key_file=options.get("key_file"),
    )


def _endpoints(url: ProviderUrl) -> tuple[Endpoint, ...]:
    default = _PORTS[url.scheme]
    found = [Endpoint(url.host, default if url.port is None else url.port)]
    for text in url.options["failover"].split(",") if "failover" in url.options else ():
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]/@?]+))(?::([0-9]{1,5}))?", text.strip())
        port = int(match[3] or default) if match is not None else 0
        if match is None or not 0 < port < 65_536:
            raise UrlError(f"{text!r} in failover= is no HOST[:PORT]; write failover=other:{default},third")
        found.append(Endpoint(match[1] or match[2], port))
    return tuple(dict.fromkeys(found))
