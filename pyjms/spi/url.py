"""Provider URLs: `SCHEME://HOST[:PORT][/PATH][?OPTION=VALUE&…]`, parsed once; the users of the parts check them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import parse_qsl, unquote, urlsplit

from pyjms.spi.errors import UrlError

__all__ = ["ProviderUrl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderUrl:
    """One URL in parts. `options` are those of the query, percent-decoded; a repeated option is an error. A blank is ``%20``, and no ``+``."""

    scheme: str
    host: str
    port: int | None
    path: str
    user_name: str | None
    password: str | None
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> ProviderUrl:
        """Parse `text`. Raises `UrlError` that explains the problem and shows a URL that works."""
        example = "a working example is vm://shop or stomp://127.0.0.1:61613"
        try:
            parts = urlsplit(text)
            # The property raises ValueError for an invalid port, so it is read within the `try`.
            port = parts.port
            host = _host_as_written(parts.netloc)
        except ValueError as error:
            if set("[]") & set(text.partition("://")[2].partition("?")[0].partition("/")[0]):
                raise UrlError(
                    f"{_shown(text)!r} is no URL: [ and ] are for IPv6 addresses, as in stomp://[::1]:61613; a name has neither"
                ) from None
            if "@" in str(error):  # it shows the credentials
                raise UrlError(f"{_shown(text)!r} is no URL: its host is malformed; {example}") from None
            raise UrlError(f"{_shown(text)!r} is no URL: {error}; {example}") from error
        if not parts.scheme or not text[len(parts.scheme) :].startswith("://"):
            raise UrlError(f"{_shown(text)!r} is no provider URL: it lacks SCHEME://; {example}")
        options: dict[str, str] = {}
        try:
            query = parts.query.replace("+", "%2B")  # a + is itself in a URL (RFC 3986), and a blank only in forms
            pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError:  # it shows a value, which may be a secret
            raise UrlError(f"the options of {_shown(text)!r} are not NAME=VALUE pairs joined by '&'") from None
        for name, value in pairs:
            if name in options:
                raise UrlError(f"option {name!r} stands twice in {_shown(text)!r}")
            options[name] = value
        return cls(
            scheme=parts.scheme,
            host=host,
            port=port,
            path=unquote(parts.path),
            user_name=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
            options=MappingProxyType(options),
        )

    def __repr__(self) -> str:
        """Show the URL without its password and option values, which may be secrets."""
        names = "&".join(f"{name}=…" for name in self.options)
        return f"<ProviderUrl {self.scheme}://{self.host}{self.path}{'?' if names else ''}{names}>"


def _shown(text: str) -> str:
    """Return `text` for an error message: without credentials and without the values of options, which may be secret."""
    place, _, options = text.partition("?")
    head, slashes, rest = place.partition("://" if "://" in place else ":")
    authority, slash, path = rest.partition("/") if slashes == "://" else (rest, "", "")
    if "@" in authority:
        authority = "…@" + authority.rpartition("@")[2]
    names = "&".join(pair.partition("=")[0] + "=…" for pair in options.split("&")) if options else ""
    return f"{head}{slashes}{authority}{slash}{path}{'?' if options else ''}{names}"


def _host_as_written(netloc: str) -> str:
    """Return the host part with its case kept: `vm://` names brokers by it. Raises ValueError for a lone bracket."""
    host = netloc.rpartition("@")[2]
    if host.startswith("["):
        address, bracket, _ = host[1:].partition("]")
        if not bracket:
            raise ValueError("the IPv6 address lacks its closing bracket")
        return address
    return unquote(host.partition(":")[0])
