"""Addresses of brokers in a URL, TLS, and the options of every connection over a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")

LONGEST_MS: Final = 86_400_000
"""The longest time that an option may say, in milliseconds: a day."""


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
class NetworkSettings:
    """The settings that a connection over a network has, whatever its protocol."""

    scheme: str
    endpoints: tuple[Endpoint, ...]
    path: str = "/"
    """The path of the WebSocket."""
    tls: TlsFiles | None = None
    """None: the connection is not encrypted."""
    connect_timeout_ms: int = 10_000
    timeout_ms: int = 30_000
    """How long to wait for an answer, or for a connection to come back."""
    reconnect: bool = True
    reconnect_delay_ms: int = 100
    reconnect_delay_max_ms: int = 30_000
    reconnect_attempts: int = 0
    """Rounds through the endpoints before the connection is given up; 0: no end."""
    delivery_delay: bool = False
    """Whether the broker is configured to delay messages, where it does not tell it."""


NETWORK_OPTIONS: Final[dict[str, str]] = {
    "failover": "HOST[:PORT],HOST[:PORT],…",
    "connect_timeout_ms": "milliseconds",
    "timeout_ms": "milliseconds",
    "reconnect": "yes|no",
    "reconnect_delay_ms": "milliseconds",
    "reconnect_delay_max_ms": "milliseconds",
    "reconnect_attempts": "a number, 0: no end",
    "delivery_delay": "yes|no",
    "verify": "yes|no",
    "ca_file": "a PEM file",
    "certificate_file": "a PEM file",
    "key_file": "a PEM file",
}
_TLS_ONLY: Final = ("verify", "ca_file", "certificate_file", "key_file")


def check_options(url: ProviderUrl, known: Mapping[str, str], port: int, *, with_tls: str) -> None:
    """Raise `UrlError` for an option that `url` may not have, or if it names no host.

    Args:
        url: the URL.
        known: the options of the scheme, with what their values are.
        port: the scheme's default one, for the example.
        with_tls: the scheme that has TLS: the other one has none of its options.
    """
    scheme = url.scheme
    for name in url.options:
        if name not in known:
            options = ", ".join(f"{each}={values}" for each, values in known.items())
            raise UrlError(f"{scheme}:// has no option {name!r}; its options are: {options}")
        if name in _TLS_ONLY and scheme != with_tls:
            raise UrlError(f"{name}= is about TLS, and {scheme}:// has none; write {with_tls}://{url.host}")
    if not url.host:
        raise UrlError(f"the URL does not name a host; write for instance {scheme}://127.0.0.1:{port}")


def network_settings(url: ProviderUrl, read: OptionReader, port: int, *, with_tls: bool) -> dict[str, Any]:
    """Return the values of the fields of `NetworkSettings`. Raises `UrlError` that names the option and shows its values."""
    return {
        "scheme": url.scheme,
        "endpoints": _endpoints(url, port),
        "path": url.path or "/",
        "tls": _tls(read) if with_tls else None,
        "connect_timeout_ms": read.number("connect_timeout_ms", 10_000, 1, LONGEST_MS),
        "timeout_ms": read.number("timeout_ms", 30_000, 1, LONGEST_MS),
        "reconnect": read.choice("reconnect", YES_NO, default=True),
        "reconnect_delay_ms": read.number("reconnect_delay_ms", 100, 1, LONGEST_MS),
        "reconnect_delay_max_ms": read.number("reconnect_delay_max_ms", 30_000, 1, LONGEST_MS),
        "reconnect_attempts": read.number("reconnect_attempts", 0, 0, 10**9),
        "delivery_delay": read.choice("delivery_delay", YES_NO, default=False),
    }


YES_NO: Final = {"yes": True, "no": False}


class OptionReader:
    """Reads single options. Raises `UrlError`."""

    def __init__(self, options: Mapping[str, str], known: Mapping[str, str]) -> None:
        """`known`: the options of the scheme, with what their values are."""
        self.options = options
        self._known = known

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a number from `least` to `most`."""
        text = self.options.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,15}", text) or not least <= int(text) <= most:
            raise UrlError(f"{name}={text!r} is no number from {least} to {most}; write {name}={default}")
        return int(text)

    def choice(self, name: str, choices: Mapping[str, _Value], default: _Default) -> _Value | _Default:
        """Return the value of one of the words in `choices`."""
        text = self.options.get(name)
        if text is None:
            return default
        if text not in choices:
            raise UrlError(f"{text!r} is no value of {name}; write {name}={self._known[name]}")
        return choices[text]

    def text(self, name: str, default: str) -> str:
        """Return a text that is not empty."""
        text = self.options.get(name, default)
        if not text:
            raise UrlError(f"{name}= is empty; write {name}={self._known[name]}")
        return text


def _tls(read: OptionReader) -> TlsFiles:
    options = read.options
    for name in ("ca_file", "certificate_file", "key_file"):
        read.text(name, "default")
    if "key_file" in options and "certificate_file" not in options:
        raise UrlError("key_file= is the key of a certificate: name that too, as certificate_file=client.pem")
    return TlsFiles(
        verify=read.choice("verify", YES_NO, default=True),
        ca_file=options.get("ca_file"),
        certificate_file=options.get("certificate_file"),
        key_file=options.get("key_file"),
    )


def _endpoints(url: ProviderUrl, default: int) -> tuple[Endpoint, ...]:
    found = [Endpoint(url.host, default if url.port is None else url.port)]
    for text in url.options["failover"].split(",") if "failover" in url.options else ():
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]/@?]+))(?::([0-9]{1,5}))?", text.strip())
        port = int(match[3] or default) if match is not None else 0
        if match is None or not 0 < port < 65_536:
            raise UrlError(f"{text!r} in failover= is no HOST[:PORT]; write failover=other:{default},third")
        found.append(Endpoint(match[1] or match[2], port))
    return tuple(dict.fromkeys(found))
