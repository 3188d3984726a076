"""A broker, its AMQP service, and pyjms clients without sockets: machines and engines that are fed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pyjms.spi.envelope import Envelope
from pyjms.spi.url import ProviderUrl
from pyjms_provider.amqp.answered import joined
from pyjms_provider.amqp.capabilities import COMMANDS, PAGES, TRANSACTED
from pyjms_provider.amqp.codec import Symbol
from pyjms_provider.amqp.envelope import write_envelope
from pyjms_provider.amqp.message import Message, write_application_properties
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Answered,
    Attach,
    Coordinator,
    Error,
    Open,
    Properties,
    Rejected,
    Source,
    Target,
    write,
)
from pyjms_provider.broker import EmbeddedBroker, find_broker, stop_broker
from pyjms_provider.protocols.amqp.connection import Connection, ConnectionSettings, Event, LoginEnded
from pyjms_provider.protocols.amqp.link import (
    DeliveryReceived,
    IncomingDelivery,
    LinkDetached,
    OutgoingDelivery,
    OutgoingUpdated,
    Receiver,
    Sender,
)
from pyjms_provider.protocols.amqp.sasl import Plain
from pyjms_provider.protocols.amqp.server.service import AmqpService
from pyjms_provider.protocols.amqp.server.settings import AmqpSettings
from pyjms_provider.protocols.amqp.session import Session
from pyjms_provider.protocols.profile.answers import error_of
from pyjms_provider.protocols.profile.commands import Command
from pyjms_provider.serving.hosts import EmbeddedHost
from pyjms_provider.settings import BrokerSettings, read_url
from tests.provider.helpers import HandClock, make_envelope
from tests.provider.protocols.stomp.server.bench import Doors, HandConduit, Rules

_E = TypeVar("_E", bound=Event)
_numbers = count(1)


class Bench:
    """One broker and its AMQP service."""

    def __init__(self, broker: BrokerSettings | None = None, settings: AmqpSettings | None = None) -> None:
        self.clock = HandClock()
        self.broker: EmbeddedBroker = find_broker(f"amqp-test-{next(_numbers)}", self.clock, broker)
        self.rules = Rules()
        self.host = EmbeddedHost(self.broker, self.rules)
        self.service = AmqpService(
            clock=self.clock, authenticator=Doors(), hosts=self, settings=settings or AmqpSettings()
        )

    def find(self, name: str) -> EmbeddedHost | None:
        return self.host

    def close(self) -> None:
        stop_broker(self.broker.name)


def bench_on(directory: Path) -> Bench:
    """Return a bench whose broker has a store in `directory`, with what an earlier one has left there."""
    return Bench(read_url(ProviderUrl.parse(f"vm://x?store=sqlite:///{directory}/x.db"))[1])


class Client:
    """One pyjms client: its machine, and the engine of its connection at the broker."""

    def __init__(
        self,
        bench: Bench,
        *,
        container: str | None = None,
        desired: tuple[str, ...] = (COMMANDS,),
        settings: ConnectionSettings | None = None,
        user: str = "ann",
    ) -> None:
        self.bench = bench
        self.transport = HandConduit()
        self.transport.heard_ms = bench.clock.monotonic_ms()
        self.engine = bench.service.engine(self.transport)
        self.machine = Connection(settings or ConnectionSettings(), (Plain(user, "secret"),), hostname="")
        self.events: list[Event] = []
        self.machine.start()
        self.settle()
        assert self.of(LoginEnded)
        self.machine.open(Open(container or f"container-{next(_numbers)}", desired_capabilities=desired))
        self.settle()
        assert self.machine.is_open

    def settle(self) -> None:
        """Have everything done that can be: jobs, and bytes both ways."""
        while True:
            out = self.machine.take()
            if out:
                self.engine.received(out)
            while self.transport.jobs:
                self.transport.jobs.pop(0)()
            back = bytes(self.engine.pull(65_536))
            if back:
                self.events += self.machine.receive(back)
            if not (out or back or self.transport.jobs):
                return

    def of(self, kind: type[_E]) -> list[_E]:
        """Return the events of a kind that came."""
        return [each for each in self.events if isinstance(each, kind)]

    def session(self, *, transacted: bool = True) -> ClientSession:
        session = self.machine.begin({Symbol(TRANSACTED): True} if transacted else None)
        self.settle()
        return ClientSession(self, session)

    def hang_up(self) -> None:
        """Lose the connection."""
        self.engine.closed(None)
        while self.transport.jobs:
            self.transport.jobs.pop(0)()


class ClientSession:
    """One session of a client, with a link for commands where one is needed."""

    def __init__(self, client: Client, session: Session) -> None:
        self.client = client
        self.session = session
        self._commands: Sender | None = None
        self._senders: dict[str, Sender] = {}
        self._tags = count(1)

    # Commands

    @property
    def link(self) -> Sender:
        """The link for commands."""
        if self._commands is None:
            self._commands = self.command_link()
        return self._commands

    def command_link(
        self, capabilities: tuple[str, ...] = (COMMANDS,), *, name: str = "commands", source: Source | None = None
    ) -> Sender:
        link = self.session.sender(name)
        link.attach(Attach("", 0, False, source=source or Source(), target=Coordinator(capabilities)))
        self.client.settle()
        return link

    def do(self, command: Command) -> dict[str, str]:
        """Do a command, and return what its answer says. Raises the error with which it is refused."""
        headers = {name: text for name, text in command.headers().items() if name != "session"}
        return self.answer(self.say(said(command.COMMAND, headers)))

    def say(self, data: bytes, *, settled: bool = False, message_format: int = 0) -> OutgoingDelivery:
        """Send a command, and wait for no answer."""
        tag = next(self._tags).to_bytes(4, "big")
        return self.link.send(data, tag, is_settled=settled, message_format=message_format)

    def tell(self, command: Command) -> OutgoingDelivery:
        headers = {name: text for name, text in command.headers().items() if name != "session"}
        return self.say(said(command.COMMAND, headers))

    def answer(self, delivery: OutgoingDelivery) -> dict[str, str]:
        """Return what the answer to a command says. Raises the error with which it is refused."""
        self.client.settle()
        states = self.states(delivery)
        assert delivery.is_settled, states
        if isinstance(states[-1], Rejected):
            error = states[-1].error
            assert isinstance(error, Error)
            raise error_of(error.info or {}, error.description or "")
        assert all(isinstance(each, Answered) for each in states)
        assert [each.more for each in states] == [True] * (len(states) - 1) + [False]
        return joined([each.headers for each in states])

    def states(self, delivery: OutgoingDelivery) -> list[Any]:
        """Return what the broker has told of a delivery, in order."""
        return [each.state for each in self.client.of(OutgoingUpdated) if delivery in each.deliveries]

    # Messages

    def send(self, text: str, address: str = "orders", *, settled: bool = False, persistent: bool = True) -> Any:
        """Send a message, and return the outcome."""
        return self.send_envelope(make_envelope(text, persistent=persistent), address, settled=settled)

    def send_envelope(self, envelope: Envelope, address: str = "orders", *, settled: bool = False) -> Any:
        data = write_envelope(envelope, now_ms=0, delivery_count=0)
        delivery = self.send_data(data, address, settled=settled)
        self.client.settle()
        return None if settled else self.states(delivery)[-1]

    def send_data(self, data: bytes, address: str = "orders", *, settled: bool = False) -> OutgoingDelivery:
        link = self._senders.get(address)
        if link is None:
            link = self._senders[address] = self.session.sender(f"to {address}")
            link.attach(Attach("", 0, False, source=Source(), target=Target(address, capabilities=("queue",))))
            self.client.settle()
        return link.send(data, next(self._tags).to_bytes(4, "big"), is_settled=settled)

    def consume(self, address: str = "orders", *, credit: int = 100) -> Receiver:
        link = self.session.receiver(f"from {address}")
        link.attach(Attach("", 0, True, source=Source(address, capabilities=("queue",)), target=Target()))
        self.client.settle()
        link.give_credit(credit)
        self.client.settle()
        return link

    def pages(self, name: str = "p", *, credit: int = 100) -> Receiver:
        """Attach a link on which pages come."""
        link = self.session.receiver(name)
        link.attach(Attach("", 0, True, snd_settle_mode=1, source=Source(PAGES), target=Target()))
        self.client.settle()
        if credit:
            link.give_credit(credit)
        self.client.settle()
        return link

    def received(self) -> list[IncomingDelivery]:
        """Return the messages that have come to the session since the last call."""
        self.client.settle()
        found = [each for each in self.client.of(DeliveryReceived) if each.delivery.link.session is self.session]
        self.client.events = [each for each in self.client.events if each not in found]
        return [each.delivery for each in found]

    def accept(self, *deliveries: IncomingDelivery, state: Any = ACCEPTED) -> None:
        self.session.update_incoming(deliveries, state)
        self.client.settle()

    def detached(self) -> list[Error | None]:
        """Return the errors with which the broker has ended links."""
        self.client.settle()
        return [each.error for each in self.client.of(LinkDetached) if each.link.session is self.session]


def said(name: str | None, headers: Mapping[str, Any]) -> bytes:
    """Return the message of a command."""
    properties = b"" if name is None else write(Properties(subject=name))
    return properties + write_application_properties(headers) + b"\x00\x53\x77\x40"


def texts(deliveries: list[IncomingDelivery]) -> list[Any]:
    """Return the bodies of messages."""
    return [Message(each.data).body for each in deliveries]


def ready(bench: Bench, *, transacted: bool = True, **options: Any) -> ClientSession:
    """Return a session of a new client."""
    return Client(bench, **options).session(transacted=transacted)
