"""The interfaces between the parts of one AMQP connection at the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pyjms_provider.protocols.logins import LoginService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyjms.spi.clock import Clock
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.provider import ProviderConnection, ProviderSession
    from pyjms_provider.protocols.amqp.connection import Connection
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, Link
    from pyjms_provider.protocols.amqp.server.reply_nodes import ReplyNodes
    from pyjms_provider.protocols.amqp.server.settings import AmqpSettings
    from pyjms_provider.protocols.amqp.server.transactions import Transactions
    from pyjms_provider.protocols.amqp.server.work import Work
    from pyjms_provider.protocols.amqp.session import Session
    from pyjms_provider.protocols.engine import RareLines, TransportContext
    from pyjms_provider.protocols.hosts import Guard
    from pyjms_provider.protocols.profile.unit import ServedUnit
    from pyjms_provider.protocols.scheduling import (
        Backlog,
        DeliveryScheduler,
        DirectDeliveries,
        SerialExecutor,
        SessionScheduler,
    )


class Service(Protocol):
    """The service of one port, shared by its connections."""

    @property
    def clock(self) -> Clock:
        """The clock."""
        ...

    @property
    def settings(self) -> AmqpSettings:
        """The limits of a connection."""
        ...

    @property
    def direct_deliveries(self) -> DirectDeliveries:
        """Of messages that are sent on the thread of its connections (decision 0610)."""
        ...

    @property
    def rare_lines(self) -> RareLines:
        """Limits the log lines that untrusted peers can cause."""
        ...


class PortService(Service, LoginService, Protocol):
    """The service of one port, with what a login needs."""


class Engine(Protocol):
    """What sessions and links use of the engine of their connection."""

    transport: TransportContext
    machine: Connection
    scheduler: DeliveryScheduler
    backlog: Backlog
    transactions: Transactions
    replies: ReplyNodes

    @property
    def service(self) -> Service:
        """The port's service."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended, or ends when all is written."""
        ...

    @property
    def is_free(self) -> bool:
        """Whether `push` may write now, as nothing is pending before it. The connection's thread."""
        ...

    def push(self) -> None:
        """Have what the machine has to say written at once, while the connection `is_free`."""
        ...

    @property
    def connection(self) -> ProviderConnection:
        """The connection to the virtual host."""
        ...

    @property
    def guard(self) -> Guard:
        """The rights of the connection's user."""
        ...

    @property
    def client_id(self) -> str | None:
        """The container id that is the connection's client identifier; None: another connection has it."""
        ...

    @property
    def container_id(self) -> str:
        """The container id of the client."""
        ...

    def perform(self, work: Work) -> None:
        """Do a piece of work, and have the rest done on the connection's thread. Any thread."""
        ...

    @property
    def lets_in_everybody(self) -> bool:
        """Whether the port checks no login. Any thread."""
        ...

    def takes_token(self, token: str) -> bool:
        """Return whether an authentication provider of the port is for tokens. Any thread."""
        ...

    def show_token(self, token: str) -> None:
        """Check a token that the client shows after its login: it must be one of the connection's user. Any thread; may wait.

        Raises:
            AccessDeniedError: it is not.
        """
        ...

    def session_on(self, channel: int) -> LinkSession | None:
        """Return the session that the client has on a channel; None: it has none. The connection's thread."""
        ...

    def forget(self, session: Any) -> None:
        """Give up a session whose work has been done. The connection's thread."""
        ...

    def steal(self, link: Link) -> None:
        """End the links of other sessions that have the name of one which is being attached. The connection's thread."""
        ...

    def fail(self, error: BaseException) -> None:
        """End the connection because of an error in the broker. The connection's thread."""
        ...


class LinkSession(Protocol):
    """What links use of their session. The connection's thread."""

    session: Session
    receiving: ProviderSession
    """The session of the virtual host that has its consumers, and its sends outside of transactions."""
    executor: SerialExecutor[Work]
    consumers: SessionScheduler
    """The links that may have messages for the client; any thread may call `schedule`."""
    waits: bool
    """Whether settling and committing may wait for a disk."""
    asks_others: bool
    """Whether most calls may wait for another process, also those in a transaction or branch."""
    unit: ServedUnit
    """The open transaction or branch; a session that is not transacted has none open."""
    returning: int
    """Work by which messages go back to their places, and which has not had its turn."""
    patient: int
    """Sends that may be waiting for room."""
    held_up: list[Callable[[], None]]
    """What goes on when `may_send` holds again."""
    behind_transfers: list[Callable[[], None]]
    """What goes on when no frame of a message waits for the client's window."""
    written: list[Delivery]
    """Messages of links whose transfers are settled, which are acknowledged when they are on the wire."""

    @property
    def engine(self) -> Engine:
        """The engine of its connection."""
        ...

    @property
    def may_send(self) -> bool:
        """Whether messages may go to the client: its window is open, and what it has given back is in its place."""
        ...

    def add(self, work: Work) -> None:
        """Do work now, or in its turn."""
        ...

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        """Accept deliveries of other sessions in the open transaction or branch. Any thread; raises `ProviderError`."""
        ...

    def answer(self, delivery: IncomingDelivery, state: Any) -> bool:
        """Tell the client the outcome of its message; most are told together. Return whether the client has to settle it yet."""
        ...

    def refuse(self, link: Link, error: Exception) -> None:
        """Refuse a link that waits for its answer."""
        ...

    def end_link(self, link: Link, error: Exception) -> None:
        """End a link for a reason of the broker's."""
        ...

    def end_consumers(self, links: Iterable[Link], error: Exception) -> None:
        """End the links of consumers, which cannot go on: with the whole connection, unless the reason is their own."""
        ...


class ServedLink(Protocol):
    """A link at the broker. The connection's thread."""

    def credit_changed(self) -> None:
        """Go on, as the client has given credit, or asks to drain."""
        ...

    def received(self, delivery: IncomingDelivery) -> None:
        """Take a message."""
        ...

    def settled_by_client(self, count: int) -> None:
        """Go on, as the client has settled so many messages of which it was told the outcome (rcv-settle-mode second)."""
        ...

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it; None: there is none. `is_lost`: the client has not detached it."""
        ...
