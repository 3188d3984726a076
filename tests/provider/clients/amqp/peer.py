"""A small broker on the engine of AMQP, in this process: it keeps messages in memory, and does odd things when a test says so."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from operator import attrgetter
from threading import Condition, Thread
from typing import Any, Self

from pyjms.spi.capability import Capability
from pyjms_provider.amqp.capabilities import COMMANDS, GREETING
from pyjms_provider.amqp.errors import AmqpError, LinkFault
from pyjms_provider.amqp.message import VALUE, Message, write_section
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Accepted,
    Answered,
    Attach,
    Begin,
    Coordinator,
    Declare,
    Declared,
    Modified,
    Open,
    Rejected,
    Source,
    Target,
    TransactionalState,
    read,
    write,
)
from pyjms_provider.protocols.amqp.connection import (
    Connection,
    ConnectionClosed,
    ConnectionOpened,
    ConnectionSettings,
    LoginOffered,
    SaslServer,
)
from pyjms_provider.protocols.amqp.link import (
    CreditChanged,
    DeliveryReceived,
    IncomingDelivery,
    Link,
    LinkDetached,
    LinkRequested,
    OutgoingDelivery,
    OutgoingUpdated,
    Receiver,
    Sender,
)
from pyjms_provider.protocols.amqp.sasl import AnonymousLogin, PasswordLogin
from pyjms_provider.protocols.amqp.session import Session, SessionBegun, SessionEnded
from pyjms_provider.protocols.profile.answers import Greeting

PATIENCE_S = 20.0


@dataclass
class Kept:
    """A message in a queue."""

    data: bytes
    failed: int = 0
    serial: int = field(default_factory=count().__next__)
    """Its place in the queue."""


@dataclass
class Script:
    """What the broker does; a test changes it."""

    open: Open = field(default_factory=lambda: Open("peer", properties={"product": "peer", "version": "1.0"}))
    refuse_open: AmqpError | None = None
    """Why it closes a connection behind its open."""
    refuse: Callable[[Link], LinkFault | None] = lambda link: None
    """Why it refuses a link."""
    outcome: Callable[[str, bytes], Any] = lambda address, data: ACCEPTED
    """The outcome of a message that is sent to it; None: it says nothing."""
    discharge: Callable[[bool], Any] = lambda fail: ACCEPTED
    """The outcome of the end of a transaction; None: it says nothing."""
    command: Callable[[str, dict[str, str]], Any] = lambda name, headers: Answered({})
    """The answer to a command of the pyjms profile; None: it says nothing, and `Peer.answer` may do so later."""
    credit: int = 100
    cut_at: str = ""
    """It drops the connection when this comes next: open, begin, attach, transfer, disposition, declare, discharge, or the name of a
    command.
    """
    echoes_filters: bool = True
    users: dict[str, str] = field(default_factory=dict)
    """Passwords by user; none: anybody comes in."""
    settings: ConnectionSettings = field(default_factory=ConnectionSettings)


@dataclass
class Asked:
    """A command that has come."""

    name: str
    headers: dict[str, str]
    channel: int
    """Of the session that it came on."""
    delivery: IncomingDelivery


def pyjms_open() -> Open:
    """Return the open of a broker that takes the commands of pyjms clients."""
    greeting = Greeting(
        capabilities=Capability.XA | Capability.REPLAY | Capability.STAGE | Capability.PERSISTENT_SESSIONS,
        resource_manager="books",
        transaction_timeout_s=30,
    )
    return Open(
        "peer",
        offered_capabilities=(COMMANDS,),
        properties={"product": "pyjms", "version": "1.0", GREETING: greeting.headers()},
    )


class Peer:
    """The broker. A context manager."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script or Script()
        self.changed = Condition()
        self.queues: dict[str, deque[Kept]] = {}
        self.subscriptions: dict[str, Source] = {}
        self.attaches: list[Attach] = []
        self.opens: list[Open] = []
        self.begins: list[Begin] = []
        self.outcomes: list[Any] = []
        """What clients said of deliveries."""
        self.commands: list[Asked] = []
        """What clients asked for by commands."""
        self.connections: list[PeerConnection] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.names = 0
        self._thread = Thread(target=self._accept, name="peer", daemon=True)

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def stop_listening(self) -> None:
        """Refuse further connections. May be repeated."""
        # `shutdown` wakes the thread that accepts.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __exit__(self, *_: object) -> None:
        self.stop_listening()
        # First: it may have just accepted a connection, which must be cut, too.
        self._thread.join(PATIENCE_S)
        for connection in self.connections:
            connection.cut()
        for connection in self.connections:
            connection.thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            connection = PeerConnection(self, made)
            self.connections.append(connection)
            connection.thread.start()

    def queue(self, address: str) -> deque[Kept]:
        return self.queues.setdefault(address, deque())

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S), "the client did not do that"

    def asked(self, name: str, number: int = 1) -> list[Asked]:
        """Wait until a command has come so many times, and return each of them."""

        def found() -> list[Asked]:
            return [each for each in self.commands if each.name == name]

        self.wait_for(lambda: len(found()) >= number)
        return found()

    def answer(self, asked: Asked, outcome: Any) -> None:
        """Answer a command that has waited."""
        self.do(lambda _: asked.delivery.link.session.update_incoming((asked.delivery,), outcome))

    def cut(self) -> None:
        """Drop all connections, as a broken network does."""
        for connection in self.connections:
            connection.cut()

    def do(self, act: Callable[[PeerConnection], None]) -> None:
        """Do something on the newest connection."""
        with self.changed:
            connection = self.connections[-1]
            act(connection)
            connection.flush()


class PeerConnection:
    """One client's connection."""

    def __init__(self, peer: Peer, made: socket.socket) -> None:
        self.peer = peer
        self.socket = made
        users = peer.script.users
        self.engine = Connection(peer.script.settings, SaslServer(("PLAIN",) if users else ("ANONYMOUS",)))
        self.links: list[Link] = []
        self.transactions: dict[bytes, list[Callable[[bool], None]]] = {}
        self._tags = 0
        self.thread = Thread(target=self._run, name="peer-connection", daemon=True)

    def cut(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def flush(self) -> None:
        data = self.engine.take()
        if data:
            with suppress(OSError):
                self.socket.sendall(data)

    def _run(self) -> None:
        while True:
            try:
                data = self.socket.recv(65536)
            except OSError:
                data = b""
            with self.peer.changed:
                if not data:
                    self._gone()
                    return
                events = self.engine.receive(data)
                while events:
                    if not all(self._handle(event) for event in events):
                        self.flush()
                        self.cut()
                        self._gone()
                        return
                    events = self.engine.receive(b"")  # it reads no further than what has to be answered first
                self.flush()
                self.peer.changed.notify_all()
            if self.engine.is_over:
                self.cut()

    def _gone(self) -> None:
        links, self.links = self.links, []
        for link in links:
            self._release(link)
        self.peer.changed.notify_all()

    def _release(self, link: Link) -> None:
        """Put back what was sent on a link and not settled."""
        if isinstance(link, Sender):
            unsettled = list(link.context["sent"].values())
            link.context["sent"].clear()
            self.put_back(link.context["address"], unsettled)

    def put_back(self, address: str, messages: list[Kept]) -> None:
        """Put messages back to their places."""
        queue = self.peer.queue(address)
        queue.extend(messages)
        self.peer.queues[address] = deque(sorted(queue, key=attrgetter("serial")))
        self.deliver_all(address)

    def _is_cut(self, what: str) -> bool:
        script = self.peer.script
        if script.cut_at != what:
            return False
        script.cut_at = ""
        return True

    def _handle(self, event: Any) -> bool:
        """Handle an event; return False if the connection is to be dropped."""
        peer, script = self.peer, self.peer.script
        match event:
            case LoginOffered(login=PasswordLogin(user=user, password=password)):
                if script.users.get(user) == password:
                    self.engine.accept_login()
                else:
                    self.engine.refuse_login()
            case LoginOffered(login=AnonymousLogin()):
                self.engine.accept_login()
            case ConnectionOpened(open=opened):
                peer.opens.append(opened)
                if self._is_cut("open"):
                    return False
                self.engine.open(script.open)
                if script.refuse_open is not None:
                    self.engine.close(script.refuse_open)
            case SessionBegun(session=session):
                assert session.remote is not None
                peer.begins.append(session.remote)
                return not self._is_cut("begin")
            case LinkRequested(link=link):
                if self._is_cut("attach"):
                    return False
                self._attach(link)
            case LinkDetached(link=link, is_closed=is_closed):
                if link in self.links:
                    self.links.remove(link)
                    self._release(link)
                if is_closed and link.context:
                    peer.subscriptions.pop(link.context.get("durable", ""), None)
                link.detach(is_closed=is_closed)
            case DeliveryReceived(delivery=delivery):
                return self._received(delivery)
            case CreditChanged(link=link):
                self.deliver(link)
            case OutgoingUpdated(deliveries=deliveries, state=state, is_settled=is_settled):
                if self._is_cut("disposition"):
                    return False
                for each in deliveries:
                    self._settled(each, state, is_settled=is_settled)
            case SessionEnded(session=session):
                session.end()
            case ConnectionClosed():
                self.engine.close()
        return True

    def _attach(self, link: Link) -> None:
        peer, script, remote = self.peer, self.peer.script, link.remote
        assert remote is not None
        peer.attaches.append(remote)
        fault = script.refuse(link)
        if fault is not None:
            link.refuse(fault)
            return
        if isinstance(link, Receiver):
            target = remote.target
            if isinstance(target, Target) and target.dynamic:
                peer.names += 1
                target = replace(target, address=f"temp-{peer.names}")
            link.context = {"address": getattr(target, "address", None)}
            link.attach(Attach("", 0, True, source=remote.source, target=target))
            link.give_credit(script.credit)
        else:
            source = remote.source
            if source is None:
                source = peer.subscriptions.get(link.name)
                if source is None:
                    link.refuse(LinkFault("amqp:not-found", "there is no such subscription"))
                    return
            if not script.echoes_filters:
                source = replace(source, filter=None)
            link.context = {
                "address": source.address,
                "sent": {},
                "is_copy": source.distribution_mode == "copy" and not source.durable,
            }
            if source.durable:
                link.context["durable"] = link.name
                peer.subscriptions[link.name] = source
            link.attach(
                Attach("", 0, False, source=source, target=remote.target, rcv_settle_mode=remote.rcv_settle_mode)
            )
        self.links.append(link)

    def deliver(self, link: Sender) -> None:
        """Send what there is for a link's credit."""
        if link.context is None:
            return
        address = link.context["address"]
        queue = self.peer.queue(address)
        is_copy = link.context["is_copy"]
        at = link.context.setdefault("at", 0)
        while link.credit > 0 and link.is_attached and (at < len(queue) if is_copy else queue):
            self._tags += 1
            if is_copy:
                link.send(queue[at].data, b"%d" % self._tags, is_settled=True)
                at = link.context["at"] = at + 1
                continue
            kept = queue.popleft()
            data = kept.data
            if kept.failed:
                header = Message(data).header
                size = len(write(header)) if data.startswith(b"\x00\x53\x70") else 0
                data = write(replace(header, delivery_count=kept.failed)) + data[size:]
            delivery = link.send(data, b"%d" % self._tags)
            link.context["sent"][delivery.id] = kept
        if link.is_draining:
            link.drained()

    def _received(self, delivery: IncomingDelivery) -> bool:
        peer, script = self.peer, self.peer.script
        link = delivery.link
        target = link.remote.target if link.remote else None
        if isinstance(target, Coordinator):
            return self._controlled(delivery)
        if self._is_cut("transfer"):
            return False
        address = link.context["address"]
        outcome = script.outcome(address, delivery.data)
        state = delivery.state
        link.give_credit(script.credit)
        if outcome is None:
            return True

        def put(is_committed: bool) -> None:
            if is_committed and isinstance(outcome, Accepted):
                peer.queue(address).append(Kept(delivery.data))
                self.deliver_all(address)

        if isinstance(state, TransactionalState):
            self.transactions[state.txn_id].append(put)
            link.session.update_incoming((delivery,), TransactionalState(state.txn_id, outcome))
        else:
            link.session.update_incoming((delivery,), outcome)
            put(True)
        return True

    def deliver_all(self, address: str) -> None:
        """Send what is new at an address, to all that have credit for it."""
        for connection in self.peer.connections:
            for link in connection.links:
                if isinstance(link, Sender) and link.context["address"] == address:
                    connection.deliver(link)
            if connection is not self:
                connection.flush()

    def _controlled(self, delivery: IncomingDelivery) -> bool:
        link, script = delivery.link, self.peer.script
        remote: Any = link.remote
        if remote.target.capabilities == (COMMANDS,):
            return self._commanded(delivery)
        body, _ = read(Message(delivery.data).data, delivery.data.index(b"\x00\x53\x77") + 3)
        link.give_credit(script.credit)
        if isinstance(body, Declare):
            if self._is_cut("declare"):
                return False
            self.peer.names += 1
            name = b"txn-%d" % self.peer.names
            self.transactions[name] = []
            link.session.update_incoming((delivery,), Declared(name))
            return True
        if self._is_cut("discharge"):
            return False
        outcome = script.discharge(bool(body.fail))
        if outcome is None:
            return True
        for act in self.transactions.pop(body.txn_id):
            act(not body.fail and isinstance(outcome, Accepted))
        link.session.update_incoming((delivery,), outcome)
        return True

    def _commanded(self, delivery: IncomingDelivery) -> bool:
        message, session = Message(delivery.data), delivery.link.session
        assert isinstance(session, Session)
        name, headers = str(message.properties.subject), dict(message.application_properties)
        delivery.link.give_credit(self.peer.script.credit)
        channel = session.remote_channel
        assert channel is not None
        self.peer.commands.append(Asked(name, headers, channel, delivery))
        if self._is_cut(name):
            return False
        outcome = self.peer.script.command(name, headers)
        for part in outcome if isinstance(outcome, list) else [outcome]:
            if part is not None:
                is_last = not getattr(part, "more", False)
                session.update_incoming((delivery,), part, is_settled=is_last)
        return True

    def _settled(self, delivery: OutgoingDelivery, state: Any, *, is_settled: bool) -> None:
        link = delivery.link
        kept = link.context["sent"].pop(delivery.id, None)
        outcome = getattr(state, "outcome", state)
        self.peer.outcomes.append(state)
        if kept is None:
            return

        def settle(is_committed: bool) -> None:
            if not is_committed or not isinstance(outcome, Accepted | Rejected):
                kept.failed += isinstance(outcome, Modified) and bool(outcome.delivery_failed)
                self.put_back(link.context["address"], [kept])

        if isinstance(state, TransactionalState) and not state.txn_id.startswith(b"pyjms:"):
            self.transactions[state.txn_id].append(settle)
        else:
            settle(True)
        if not is_settled:
            session: Any = link.session
            session.settle_outgoing(delivery, state)


def text_of(data: bytes) -> Any:
    """Return the body of a message."""
    return Message(data).body


def message_of(text: str) -> bytes:
    """Return a message of a client that knows no JMS."""
    return write_section(VALUE, b"\xa1" + bytes((len(text.encode()),)) + text.encode())
