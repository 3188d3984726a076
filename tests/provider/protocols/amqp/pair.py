"""Two ends of a connection, joined in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pyjms_provider.amqp.performatives import Attach, Open, Source, Target
from pyjms_provider.protocols.amqp.connection import (
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    ConnectionSettings,
    Event,
    LoginOffered,
    SaslServer,
)
from pyjms_provider.protocols.amqp.link import LinkAttached, LinkDetached, LinkRequested, Receiver, Sender
from pyjms_provider.protocols.amqp.sasl import Anonymous, ClientMechanism
from pyjms_provider.protocols.amqp.session import Session, SessionEnded

_E = TypeVar("_E", bound=Event)
ANONYMOUS = SaslServer(("ANONYMOUS",))


class Pair:
    """A client and a server. The server accepts what it is asked for; `cut` bytes are handed over at a time."""

    def __init__(
        self,
        *,
        client: ConnectionSettings | None = None,
        server: ConnectionSettings | None = None,
        mechanisms: Sequence[ClientMechanism] = (Anonymous(),),
        sasl: SaslServer = ANONYMOUS,
        cut: int = 1 << 20,
        accepts: bool = True,
    ) -> None:
        self.client = Connection(client or ConnectionSettings(), mechanisms, hostname="host")
        self.server = Connection(server or ConnectionSettings(), sasl)
        self.cut = cut
        self.accepts = accepts
        self.client_events: list[Event] = []
        self.server_events: list[Event] = []

    def run(self) -> None:
        """Hand bytes over until nobody has any."""
        while (out := self.client.take()) or (back := self.server.take()):
            if out:
                self._feed(self.server, out, self.server_events)
            else:
                self._feed(self.client, back, self.client_events)

    def _feed(self, end: Connection, data: bytes, events: list[Event]) -> None:
        for at in range(0, len(data), self.cut):
            found = end.receive(data[at : at + self.cut])
            while found:
                events += found
                for event in found if self.accepts else ():
                    self._accept(end, event)
                found = end.receive(b"")  # what came behind a login or an open

    def _accept(self, end: Connection, event: Event) -> None:
        if isinstance(event, LoginOffered):
            end.accept_login()
        elif isinstance(event, ConnectionOpened) and not end.is_client:
            end.open(Open("server"))
        elif isinstance(event, LinkRequested):
            remote = event.link.remote
            assert remote is not None
            event.link.attach(
                Attach("", 0, False, source=remote.source, target=remote.target, max_message_size=100_000)
            )
        elif isinstance(event, LinkDetached) and event.failure is None:
            event.link.detach(is_closed=event.is_closed)
        elif isinstance(event, ConnectionClosed) and not end.is_client:
            end.close()
        elif isinstance(event, SessionEnded) and not event.is_answer and not end.is_client:
            event.session.end()

    def open(self) -> Session:
        """Open the connection, and return a session of the client's."""
        self.client.start()
        self.client.open(Open("client")) if not self.client._is_in_sasl else None
        self.run()
        if not self.client.is_open:
            self.client.open(Open("client"))
            self.run()
        assert self.client.is_open
        assert self.server.is_open
        session = self.client.begin()
        self.run()
        assert session.is_open
        return session

    def to_server(self, session: Session, credit: int = 10, name: str = "out") -> tuple[Sender, Receiver]:
        """Attach a link on which the client sends, and return its two ends."""
        sender = session.sender(name)
        sender.attach(Attach("", 0, False, source=Source(), target=Target("q")))
        self.run()
        receiver = last(self.server_events, LinkRequested).link
        assert isinstance(receiver, Receiver)
        if credit:
            receiver.give_credit(credit)
            self.run()
        return sender, receiver

    def to_client(self, session: Session, credit: int = 10, name: str = "in") -> tuple[Sender, Receiver]:
        """Attach a link on which the server sends, and return its two ends."""
        receiver = session.receiver(name)
        receiver.attach(Attach("", 0, True, source=Source("q"), target=Target()))
        self.run()
        assert last(self.client_events, LinkAttached).link is receiver
        if credit:
            receiver.give_credit(credit)
            self.run()
        sender = last(self.server_events, LinkRequested).link
        assert isinstance(sender, Sender)
        return sender, receiver

    def failures(self) -> list[str]:
        """Return the conditions for which either end has closed the connection."""
        return [
            each.error.condition
            for each in self.client_events + self.server_events
            if isinstance(each, ConnectionFailed)
        ]


def answered(server: Connection, data: bytes) -> list[Event]:
    """Have a server take bytes, accept logins and opens, and return all events."""
    events = found = server.receive(data)
    while found:
        for event in found:
            if isinstance(event, LoginOffered):
                server.accept_login()
            elif isinstance(event, ConnectionOpened):
                server.open(Open("server"))
        found = server.receive(b"")
        events = events + found
    return events


def last(events: Sequence[Event], kind: type[_E]) -> _E:
    """Return the last event of a kind."""
    return next(each for each in reversed(events) if isinstance(each, kind))


def all_of(events: Sequence[Event], kind: type[_E]) -> list[_E]:
    """Return the events of a kind."""
    return [each for each in events if isinstance(each, kind)]


def bodies(events: Sequence[Any]) -> list[bytes]:
    """Return the messages that have come."""
    from pyjms_provider.protocols.amqp.link import DeliveryReceived

    return [each.delivery.data for each in events if isinstance(each, DeliveryReceived)]
