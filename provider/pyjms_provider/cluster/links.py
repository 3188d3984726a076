"""What a member needs of the network: its link port, and connections to shards. `serving.cluster_links` implements it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.settings import LinkSettings, LinkTls


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """A link to a broker of another member."""

    broker: str
    """The name of the broker at the link port."""
    addresses: Sequence[str]
    """The link ports, as ``HOST:PORT``, in the order in which they are tried."""
    member: str
    """The name of the member that connects."""
    secret: str = field(repr=False)
    tls: LinkTls | None
    timeout_ms: int
    """How long a call waits for the link to come back."""
    attempts: int = 0
    """The rounds of attempts after which a lost link is given up; 0: no limit."""


class Link(Protocol):
    """The network side of one link. Any thread."""

    @property
    def is_over(self) -> bool:
        """Whether it is closed or lost for good."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether it is connected now; if it is not, and is not over, it is being connected again."""
        ...

    def add(self, addresses: Sequence[str]) -> None:
        """Try other link ports as well from now on."""
        ...

    def redirect(self, address: str) -> None:
        """Connect to another link port now, unless the link is connected to that already."""
        ...

    def close(self) -> None:
        """End it. May be repeated."""
        ...


class LinkPort(Protocol):
    """An open link port."""

    @property
    def port(self) -> int:
        """The number of the port at which it listens."""
        ...

    def reload_certificates(self, tls: LinkTls) -> None:
        """Use the present content of these files for new connections. Raises `ListenerSettingsError`: then nothing changes."""
        ...

    def close(self) -> None:
        """Stop listening, and end its connections. May be repeated."""
        ...


class Links(Protocol):
    """Opens link ports, and connections. Any thread."""

    def listen(
        self, settings: LinkSettings, find: Callable[[str], EmbeddedBroker | None], secret: str, clock: Clock
    ) -> LinkPort:
        """Open a link port. `find` returns the broker of a name, if this member has it now. Raises `ResourceError`."""
        ...

    def connect_here(self, broker: EmbeddedBroker, events: ConnectionEvents) -> ProviderConnection:
        """Connect to a broker of this process. Raises `ClosedError` if it has stopped."""
        ...

    def consuming(self, broker: EmbeddedBroker) -> Collection[str | None]:
        """Return the names of the members whose clients consume from a broker of this process; None: those of this member."""
        ...

    def connect(self, request: LinkRequest, clock: Clock, events: ConnectionEvents) -> tuple[ProviderConnection, Link]:
        """Open a link. Raises `ResourceError` if no link port has the broker now."""
        ...
