"""``--listen URL``: where a broker listens, as the attributes of a port, and of what TLS needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl

_TRANSPORTS: Final = {
    "stomp": ("stomp", "tcp"),
    "stomps": ("stomp", "tls"),
    "stomp+ws": ("stomp", "websocket"),
    "stomp+wss": ("stomp", "secure_websocket"),
    "http": ("http", "tcp"),
    "https": ("http", "tls"),
}
_SECURE: Final = frozenset({"stomps", "stomp+wss", "https"})
_FILES: Final = ("certificate", "key", "trust")
_HOSTS: Final = "allowed_hosts"
_EXAMPLE: Final = "write for instance stomp://127.0.0.1:61613, or stomp://127.0.0.1:0 for any free port"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """One port."""

    port: dict[str, Any]
    key_store: dict[str, Any] | None = field(default=None, repr=False)
    trust_store: dict[str, Any] | None = None


def read_listen_url(text: str, name: str) -> Listening:
    """Return what ``--listen`` says; `name` is that of the port. Raises `UrlError` that shows what to write."""
    url = ProviderUrl.parse(text)
    known = _TRANSPORTS.get(url.scheme)
    if known is None:
        raise UrlError(f"a broker does not listen at {url.scheme}://; it can at {', '.join(_TRANSPORTS)}; {_EXAMPLE}")
    if not url.host:
        raise UrlError(f"{text!r} names no address to listen at; {_EXAMPLE}")
    if url.user_name is not None or url.password is not None:
        raise UrlError("who may connect is said by --users or --anonymous, not in the URL")
    kind, transport = known
    port: dict[str, Any] = {"name": name, "type": kind, "host": url.host, "transports": [transport]}
    if url.port is not None:
        port["port"] = url.port
    options = dict(url.options)
    files = {each: options.pop(each) for each in _FILES if each in options}
    if kind == "http" and _HOSTS in options:
        port[_HOSTS] = options.pop(_HOSTS).split(",")
    if options:
        known_options = ", ".join((*_FILES, *((_HOSTS,) if kind == "http" else ())))
        raise UrlError(f"{url.scheme}:// has no option {next(iter(options))!r}; it has {known_options}")
    if url.scheme not in _SECURE:
        if files:
            raise UrlError(f"{next(iter(files))}= is for TLS; write stomps:// with it")
        return Listening(port=port)
    if "certificate" not in files:
        raise UrlError(f"{url.scheme}:// needs the broker's certificate: {text}?certificate=FILE.pem&key=FILE.pem")
    keys = {"name": f"{name}-key", "certificate_file": files["certificate"]}
    if "key" in files:
        keys["key_file"] = files["key"]
    port["key_store"] = keys["name"]
    trusted = None
    if "trust" in files:
        trusted = {"name": f"{name}-trust", "certificate_file": files["trust"]}
        port |= {"trust_store": trusted["name"], "client_certificates": "wanted"}
    return Listening(port=port, key_store=keys, trust_store=trusted)
