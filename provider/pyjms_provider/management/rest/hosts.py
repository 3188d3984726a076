"""By which names an http port answers, so that no other site's name is lent to it (DNS rebinding).

The owner of a host name can point it at this machine: a browser then takes the broker for the server of that site's pages, and their
scripts ask what they like, with their reader's network and name. An address, and ``localhost``, is lent by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyjms_provider.management.errors import UnknownHostError
from pyjms_provider.management.rest.answers import refuse
from pyjms_provider.management.rest.headers import secured

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

ANY_HOST: Final = "*"
_LOOPBACK: Final = "localhost"
_SHOWN: Final = 100


def is_allowed(header: str, names: Iterable[str]) -> bool:
    """Say whether a port answers to what a ``Host`` header says: to addresses, ``localhost``, and `names`, at any port number.

    A proxy, or a forwarded port, has another number than the broker; a page that knows the right one has won nothing.
    """
    try:
        parts = urlsplit(f"//{header}")
        name = (parts.hostname or "").removesuffix(".")
        if parts.path or parts.query or parts.fragment or parts.username is not None or parts.port == 0:
            return False
        if name == _LOOPBACK or name in {each.lower().removesuffix(".") for each in names}:
            return True
        return bool(ip_address(name))
    except ValueError:
        return False


class AllowedHosts:
    """Refuses requests to other hosts before anything else looks at them. Without ``Host`` (HTTP/1.0) no browser asks."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 421, or pass the request on."""
        if scope["type"] != "http" or ANY_HOST in self._names:
            await self._app(scope, receive, send)
            return
        for name, value in scope["headers"]:
            host = value.decode("latin-1")
            if name == b"host" and not is_allowed(host, self._names):
                error = UnknownHostError(
                    f"this port does not answer as {host[:_SHOWN]!a}; if it is to, add the name, without a port number, to the "
                    "attribute allowed_hosts of this http port, and restart the port; or ask by its address"
                )
                await secured(refuse(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)
