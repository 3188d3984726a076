"""kombu's transport: a URL of pyjms, the connection that it stands for, and the wait for its messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import quote

from kombu.exceptions import ChannelError, ConnectionError
from kombu.transport import base, virtual
from kombu.transport.virtual import BrokerState

from pyjms.kombu.channel import Channel
from pyjms.kombu.link import Link
from pyjms.kombu.sources import Source
from pyjms.spi.errors import ClosedError, ConnectionLostError, InDoubtError, ProviderError, ResourceError
from pyjms.spi.interrupts import defers_signals
from pyjms.spi.url import ProviderUrl
from pyjms.spi.version import installed_version

_states: Final[dict[str, BrokerState]] = {}
"""By URL, what this process has declared, whichever connection did so."""


class Transport(virtual.Transport):  # type: ignore[misc]  # kombu is not typed
    """For kombu's connections ``pyjms+URL``, such as ``pyjms+stomp://HOST:PORT`` or ``pyjms+vm://NAME``."""

    Channel = Channel
    can_parse_url = True
    driver_type = "jms"
    driver_name = "pyjms"
    implements = base.Transport.implements.extend(
        asynchronous=False,  # a thread waits: a provider's messages do not come by a file descriptor of ours
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,  # those of the provider need nobody's help
    )
    connection_errors = (ConnectionLostError, ClosedError, InDoubtError, ResourceError, ConnectionError)
    channel_errors = (ProviderError, ChannelError)
    recoverable_connection_errors: ClassVar[tuple[type[BaseException], ...]] = connection_errors
    recoverable_channel_errors: ClassVar[tuple[type[BaseException], ...]] = ()

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        _take_credentials(client)
        self.state = _states.setdefault(str(client.hostname), BrokerState())
        self.bound: dict[str, dict[tuple[str, str], Source]] = {}
        """The queues that end with the connection, and what they are bound to."""
        self._link: Link | None = None
        self._turn = 0

    # Connecting

    @defers_signals()
    def establish_connection(self) -> Transport:
        """Connect. Raises `ProviderError`."""
        if self._link is not None:
            self._link.close()
        client = self.client
        url = ProviderUrl.parse(str(client.hostname))
        defaults = {"prefetch_messages": "1"}  # else a provider fetches ahead what kombu has not asked for
        if client.connect_timeout:
            defaults["connect_timeout_ms"] = str(max(int(client.connect_timeout * 1000), 1))
        self.bound = {}
        self._link = Link(url, client.userid or None, client.password or None, defaults)
        return self

    def link_now(self) -> Link:
        """Return the connection. Raises `ClosedError`."""
        if self._link is None:
            raise ClosedError("kombu's connection is closed")
        return self._link

    def verify_connection(self, connection: object) -> bool:
        """Say whether the connection may be used.

        After a loss only once a call has raised that: otherwise kombu would connect again by itself, and consumers would wait for ever.
        """
        return self._link is not None and self._link.is_open

    @defers_signals()
    def close_connection(self, connection: object) -> None:
        """End the connection: all that is not acknowledged comes again."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        for channel in list(self.channels):
            channel.close()

    def qos_semantics_matches_spec(self, connection: object) -> bool:
        """Say that a prefetch count holds for the whole channel, and at once for consumers that are there: Celery changes it for them."""
        return False

    def driver_version(self) -> str:
        """Return the version of pyjms."""
        return installed_version()

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Return the URL for people to see: without the password, and without the values of options, which may be secrets, too."""
        scheme, _, place = uri.partition("://")
        place, mark, options = place.partition("?")
        if options and not include_password:
            options = "&".join(f"{option.partition('=')[0]}={mask}" for option in options.split("&"))
        user = quote(self.client.userid or "", safe="")
        if self.client.password:
            user += ":" + (quote(str(self.client.password), safe="") if include_password else mask)
        return f"pyjms+{scheme}://{user}{'@' if user else ''}{place}{mark}{options}"

    # Receiving

    def drain_events(self, connection: object, timeout: float | None = None, **options: Any) -> None:
        """Hand one message over. Raises `TimeoutError` when none has come after so many seconds; `ConnectionLostError`."""
        link = self.link_now()
        until_ms = None if timeout is None else link.clock.monotonic_ms() + timeout * 1000
        try:
            if timeout is not None and timeout <= 0:
                for channel in list(self.channels):
                    channel.catch_up()
            hand_over = self._next_delivery(link)
            while hand_over is None:
                if not link.wait(until_ms):
                    raise TimeoutError("no message has come in time")
                hand_over = self._next_delivery(link)
                if hand_over is None and until_ms is not None and link.clock.monotonic_ms() >= until_ms:
                    raise TimeoutError("no message has come in time")
        finally:
            link.end_interest()  # what the consumer does now may take long
        hand_over()

    @defers_signals(undo=lambda hand_over: _give_back(hand_over))  # noqa: PLW0108 - it is defined below
    def _next_delivery(self, link: Link) -> Callable[[], Any] | None:
        """Take a message of one of the channels, which take turns."""
        link.check()
        if link is not self._link:
            raise ClosedError("kombu's connection was closed")
        channels = list(self.channels)
        for channel in channels:
            if channel.link is not link:
                channel.close()
                raise ConnectionLostError("the connection was made anew: so must be channels and consumers")
        for index in range(len(channels)):
            hand_over: Callable[[], Any] | None = channels[(self._turn + index) % len(channels)].next_delivery()
            if hand_over is not None:
                self._turn += index + 1
                return hand_over
        return None


def _give_back(hand_over: Callable[[], Any] | None) -> None:
    """Have the message come again that nobody gets, as a signal's handler has raised."""
    if isinstance(hand_over, partial):
        [message] = hand_over.args
        if not message.acknowledged:
            with suppress(ProviderError):  # then its connection is lost, and it comes again
                message.requeue()


def _take_credentials(client: Any) -> None:
    """Have a connection of kombu's know user and password by themselves: what it tells of its place goes into logs, and to others."""
    scheme, mark, place = str(client.hostname).partition("://")
    authority, rest = re.split(r"(?=[/?])|$", place, maxsplit=1)
    _, at, host = authority.rpartition("@")
    if at:
        url = ProviderUrl.parse(f"{scheme}{mark}{authority}")
        client.hostname = f"{scheme}{mark}{host}{rest}"
        client.userid = client.userid or url.user_name
        client.password = client.password or url.password
