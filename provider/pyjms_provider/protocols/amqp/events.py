"""What has happened on a connection: what `Connection.receive` returns, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyjms.spi.envelope import fact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyjms_provider.protocols.amqp.errors import AmqpError
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, Link, OutgoingDelivery, Receiver, Sender
    from pyjms_provider.protocols.amqp.performatives import Error, Open
    from pyjms_provider.protocols.amqp.sasl import Login
    from pyjms_provider.protocols.amqp.session import Session


@fact
class LoginOffered:
    """The client has said who it is: `Connection.accept_login` or `refuse_login` answers."""

    login: Login


@fact
class LoginEnded:
    """The server has accepted the login: `Connection.open` may be called, and could be before."""


@fact
class ConnectionOpened:
    """The peer's open has come."""

    open: Open


@fact
class ConnectionClosed:
    """The peer has closed the connection, or answered a close of this side; nothing comes any more."""

    error: Error | None


@fact
class ConnectionFailed:
    """This side closes the connection, as the peer broke a rule; nothing comes any more."""

    error: AmqpError


@fact
class SessionBegun:
    """A session is there: the peer has begun it, or answered this side's begin."""

    session: Session


@fact
class SessionEnded:
    """The session has ended, by the peer or, with `failure`, by this side as the peer broke a rule. Its links are gone."""

    session: Session
    error: Error | None
    failure: AmqpError | None = None


@fact
class LinkRequested:
    """The peer has attached a link: `link.attach` or `link.refuse` answers."""

    link: Link


@fact
class LinkAttached:
    """The peer has answered this side's attach. A null terminus means that it refuses the link: its detach follows."""

    link: Link


@fact
class LinkDetached:
    """The peer has detached the link, or, with `failure`, this side has as the peer broke a rule; `link.detach` answers."""

    link: Link
    is_closed: bool
    error: Error | None
    failure: AmqpError | None = None


@fact
class CreditChanged:
    """The receiver has given credit, or asked the sender to drain."""

    link: Sender


@fact
class Drained:
    """The sender has used up the credit, or given it up as there is nothing."""

    link: Receiver


@fact
class DeliveryReceived:
    """A message has come whole."""

    delivery: IncomingDelivery


@fact
class OutgoingUpdated:
    """The receiver has told the state of what this side sent; what it has settled is settled here as well."""

    deliveries: Sequence[OutgoingDelivery]
    state: Any
    is_settled: bool


@fact
class IncomingUpdated:
    """The sender has told the state of what this side received."""

    deliveries: Sequence[IncomingDelivery]
    state: Any
    is_settled: bool


Event = (
    LoginOffered
    | LoginEnded
    | ConnectionOpened
    | ConnectionClosed
    | ConnectionFailed
    | SessionBegun
    | SessionEnded
    | LinkRequested
    | LinkAttached
    | LinkDetached
    | CreditChanged
    | Drained
    | DeliveryReceived
    | OutgoingUpdated
    | IncomingUpdated
)
