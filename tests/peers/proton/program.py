"""``program.py URL ACTION …``: what a user of Qpid Proton does; prints a line of JSON for each message.

The actions, which the programs of `rhea` and `go_amqp` have, too; ADDRESS is ``queue:NAME``, ``topic:NAME``, or a NAME without a capability:

- ``send ADDRESS COUNT``: sends the bodies "0", "1", … with a property ``number``, and waits for each outcome.
- ``receive ADDRESS COUNT OUTCOME``: receives, and settles each as accepted, rejected, released, failed or undeliverable (the two of modified).
- ``hold ADDRESS COUNT``: receives, and settles nothing until it is killed.
- ``drain ADDRESS``: receives all that is there, and accepts it; a drained link ends it.
- ``select ADDRESS COUNT SELECTOR``: receives by a selector of JMS.
- ``transact FROM TO COUNT END``: moves messages in one transaction; END is commit, rollback, or hold: it is open until the program is killed.
- ``types ADDRESS``: sends a message with all fields, and properties of all types.
- ``show ADDRESS``: receives a message, and prints all of it.
- ``request ADDRESS BODY``: sends a request with a dynamic node to reply to, and prints the reply.
- ``serve ADDRESS COUNT``: replies to requests by an anonymous relay.
- ``flood ADDRESS``: sends until it is killed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

from proton import (
    Condition,
    Data,
    Delivery,
    Message,
    byte,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, LinkOption, Selector

PROPERTIES: dict[str, Any] = {
    "truth": True,
    "byte": byte(-128),
    "short": short(-32768),
    "int": int32(-(2**31)),
    "long": -(2**63),
    "float": float32(0.5),
    "double": 1e300,
    "text": "grün",
    "nothing": None,
    "ubyte": ubyte(255),
    "ushort": ushort(65535),
    "uint": uint(2**32 - 1),
    "ulong": ulong(2**64 - 1),
    "when": timestamp(1_700_000_000_000),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "symbol": symbol("sign"),
    "bytes": b"\x00\xff",
}
KINDS = {
    bool: "boolean",
    byte: "byte",
    short: "short",
    int32: "int",
    int: "long",
    float32: "float",
    float: "double",
    str: "string",
    type(None): "null",
    ubyte: "ubyte",
    ushort: "ushort",
    uint: "uint",
    ulong: "ulong",
    timestamp: "timestamp",
    UUID: "uuid",
    symbol: "symbol",
    bytes: "binary",
    memoryview: "binary",
}

OUTCOMES = {
    Delivery.ACCEPTED: "accepted",
    Delivery.REJECTED: "rejected",
    Delivery.RELEASED: "released",
    Delivery.MODIFIED: "modified",
}


def say(**line: Any) -> None:
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Capability(LinkOption):  # type: ignore[misc]  # proton has no types
    """The capability of the terminus at the broker."""

    def __init__(self, name: str) -> None:
        self._name = name

    def apply(self, link: Any) -> None:
        if self._name:
            data = (link.target if link.is_sender else link.source).capabilities
            data.put_array(False, Data.SYMBOL)
            data.enter()
            data.put_symbol(self._name)
            data.exit()


def node(address: str) -> tuple[str, Capability]:
    """Return the name and the capability of an address of the command line."""
    kind, colon, name = address.partition(":")
    return (name, Capability(kind)) if colon else (address, Capability(""))


def numbered(number: int) -> Message:
    """Return the message of a number."""
    return Message(body=str(number), durable=True, properties={"number": int32(number)})


class Program(MessagingHandler):  # type: ignore[misc]  # proton has no types
    """What all actions share: one connection, and an end."""

    def __init__(self, url: str) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=True)
        self.url = url
        self.connection: Any = None

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self.url, reconnect=False, allowed_mechs="ANONYMOUS")
        self.begin(event.container)

    def begin(self, container: Any) -> None:
        """Open links."""
        raise NotImplementedError

    def on_link_error(self, event: Any) -> None:
        say(error=event.link.remote_condition.name, description=event.link.remote_condition.description)
        self.connection.close()

    def on_connection_error(self, event: Any) -> None:
        say(error=event.connection.remote_condition.name, description=event.connection.remote_condition.description)

    def on_transport_error(self, event: Any) -> None:
        say(error=event.transport.condition.name, description=event.transport.condition.description)
        event.container.stop()

    def sender(self, container: Any, address: str | None) -> Any:
        name, capability = (None, Capability("")) if address is None else node(address)
        return container.create_sender(self.connection, name, options=[capability])

    def receiver(self, container: Any, address: str, *options: LinkOption) -> Any:
        name, capability = node(address)
        return container.create_receiver(self.connection, name, options=[capability, *options])


class Send(Program):
    """Sends one message after the other."""

    def __init__(self, url: str, address: str, messages: Any) -> None:
        super().__init__(url)
        self.address, self.messages = address, iter(messages)
        self.link: Any = None
        self.waits = False
        self.body: Any = None

    def begin(self, container: Any) -> None:
        self.link = self.sender(container, self.address)

    def on_sendable(self, event: Any) -> None:
        self.next()

    def next(self) -> None:
        if self.waits or not self.link.credit:
            return
        message = next(self.messages, None)
        if message is None:
            self.connection.close()
            return
        self.waits, self.body = True, message.body
        self.link.send(message)

    def on_settled(self, event: Any) -> None:
        why = event.delivery.remote.condition
        told = {} if why is None else {"why": f"{why.name}: {why.description}"}
        say(sent=self.body, outcome=OUTCOMES[event.delivery.remote_state], **told)
        self.waits = False
        self.next()


class Receive(Program):
    """Receives, and settles each message."""

    def __init__(self, url: str, address: str, count: int, outcome: str, *options: LinkOption) -> None:
        super().__init__(url)
        self.address, self.count, self.outcome, self.options = address, count, outcome, options

    def begin(self, container: Any) -> None:
        self.receiver(container, self.address, *self.options)

    def on_link_opened(self, event: Any) -> None:
        event.link.flow(self.count)

    def on_message(self, event: Any) -> None:
        message = event.message
        say(body=message.body, count=message.delivery_count, number=(message.properties or {}).get("number"))
        settle(event.delivery, self.outcome)
        self.count -= 1
        if not self.count and self.outcome != "held":
            self.connection.close()


def settle(delivery: Any, outcome: str) -> None:
    """Settle a delivery, or hold it."""
    if outcome == "held":
        return
    if outcome == "rejected":
        delivery.local.condition = Condition("amqp:not-allowed", "no order")
    elif outcome in {"failed", "undeliverable"}:
        delivery.local.failed, delivery.local.undeliverable = True, outcome == "undeliverable"
    states = {"accepted": Delivery.ACCEPTED, "rejected": Delivery.REJECTED, "released": Delivery.RELEASED}
    delivery.update(states.get(outcome, Delivery.MODIFIED))
    delivery.settle()


class Drain(Receive):
    """Receives what is there."""

    def on_link_opened(self, event: Any) -> None:
        event.link.drain(100_000)

    def on_message(self, event: Any) -> None:
        message = event.message
        body = bytes(message.body).decode() if isinstance(message.body, bytes | memoryview) else message.body
        say(body=body, count=message.delivery_count, number=message.properties.get("number"))
        settle(event.delivery, "accepted")

    def on_link_flow(self, event: Any) -> None:
        if event.link.is_receiver and event.link.drain_mode and not event.link.credit:
            event.link.drained()
            self.connection.close()


class Transact(Program, TransactionHandler):  # type: ignore[misc]
    """Moves messages in a transaction."""

    def __init__(self, url: str, source: str, target: str, count: int, end: str) -> None:
        super().__init__(url)
        self.source, self.target, self.count, self.end = source, target, count, end
        self.link: Any = None
        self.input: Any = None
        self.transaction: Any = None
        self.moved = 0

    def begin(self, container: Any) -> None:
        self.link = self.sender(container, self.target)
        self.input = self.receiver(container, self.source)
        container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.input.flow(self.count)

    def on_message(self, event: Any) -> None:
        say(body=event.message.body, count=event.message.delivery_count)
        self.transaction.accept(event.delivery)
        self.transaction.send(self.link, event.message)
        self.moved += 1
        if self.moved == self.count and self.end != "hold":
            self.transaction.commit() if self.end == "commit" else self.transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self._ended("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._ended("rolled back")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._ended("refused")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self._ended("not declared")

    def _ended(self, how: str) -> None:
        say(transaction=how)
        self.connection.close()


class Show(Receive):
    """Prints all of a message."""

    def on_message(self, event: Any) -> None:
        message = event.message
        say(
            body=message.body,
            durable=message.durable,
            priority=message.priority,
            ttl=round(message.ttl * 1000),
            id=message.id,
            user=message.user_id.decode(),
            subject=message.subject,
            reply_to=message.reply_to,
            correlation=message.correlation_id,
            content_type=message.content_type,
            created=round(message.creation_time * 1000),
            group=message.group_id,
            sequence=message.group_sequence,
            reply_group=message.reply_to_group_id,
            properties={name: shown(value) for name, value in message.properties.items()},
        )
        settle(event.delivery, "accepted")
        self.connection.close()


def shown(value: Any) -> list[Any]:
    """Return the type and the value of a property."""
    kind = KINDS[type(value)]
    if kind == "binary":
        return [kind, bytes(value).hex()]
    return [kind, str(value) if kind == "uuid" else value]


def complete() -> Message:
    """Return a message with all fields."""
    return Message(
        body="grün",
        durable=True,
        priority=7,
        ttl=3600.0,
        id="ID:one",
        user_id=b"anonymous",
        subject="order",
        reply_to="answers",
        correlation_id="first",
        content_type="text/plain",
        creation_time=1_700_000_000.0,
        group_id="group",
        group_sequence=7,
        reply_to_group_id="answers-group",
        properties=PROPERTIES,
    )


class Request(Program):
    """Sends a request, and waits for the reply."""

    def __init__(self, url: str, address: str, body: str) -> None:
        super().__init__(url)
        self.address, self.body = address, body
        self.link: Any = None
        self.answers: Any = None

    def begin(self, container: Any) -> None:
        self.answers = container.create_receiver(
            self.connection, None, dynamic=True, options=[Capability("temporary-queue")]
        )
        self.link = self.sender(container, self.address)

    def on_link_opened(self, event: Any) -> None:
        if event.link == self.answers:
            event.link.flow(1)
        self._ask()

    def on_sendable(self, event: Any) -> None:
        self._ask()

    def _ask(self) -> None:
        address = self.answers.remote_source.address
        if address and self.link.credit and self.body:
            self.link.send(Message(body=self.body, reply_to=address, correlation_id="asked"))
            self.body = ""

    def on_message(self, event: Any) -> None:
        say(reply=event.message.body, correlation=event.message.correlation_id)
        settle(event.delivery, "accepted")
        self.connection.close()


class Serve(Receive):
    """Replies to requests."""

    def begin(self, container: Any) -> None:
        self.link = self.sender(container, None)
        super().begin(container)

    def on_link_opened(self, event: Any) -> None:
        if event.link.is_receiver:
            say(serving=self.address)
            event.link.flow(self.count)

    def on_message(self, event: Any) -> None:
        asked = event.message
        self.link.send(Message(address=asked.reply_to, body=f"re: {asked.body}", correlation_id=asked.correlation_id))
        settle(event.delivery, "accepted")

    def on_accepted(self, event: Any) -> None:
        self.count -= 1
        say(replied=True)
        if not self.count:
            self.connection.close()


ACTIONS: dict[str, Callable[..., Program]] = {
    "send": lambda url, address, number: Send(url, address, map(numbered, range(int(number)))),
    "receive": lambda url, address, number, outcome: Receive(url, address, int(number), outcome),
    "hold": lambda url, address, number: Receive(url, address, int(number), "held"),
    "drain": lambda url, address: Drain(url, address, 0, "accepted"),
    "select": lambda url, address, number, text: Receive(url, address, int(number), "accepted", Selector(text)),
    "transact": lambda url, source, target, number, end: Transact(url, source, target, int(number), end),
    "types": lambda url, address: Send(url, address, [complete()]),
    "show": lambda url, address: Show(url, address, 1, "accepted"),
    "request": Request,
    "serve": lambda url, address, number: Serve(url, address, int(number), "accepted"),
    "flood": lambda url, address: Send(url, address, map(numbered, count())),
}


if __name__ == "__main__":
    Container(ACTIONS[sys.argv[2]](sys.argv[1], *sys.argv[3:])).run()
