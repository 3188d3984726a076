"""A client for tests that writes frame by frame and reads frame by frame: it has no state machine, so it can break each rule.

The other side is the engine in memory (`EngineWire`) or a broker behind a socket (`SocketWire`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from pyjms_provider.amqp.codec import write_binary, write_value
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Attach,
    Begin,
    Close,
    Coordinator,
    Disposition,
    Error,
    Flow,
    Open,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    Transfer,
    write,
)
from pyjms_provider.protocols.amqp.connection import (
    Connection,
    ConnectionClosed,
    ConnectionOpened,
    ConnectionSettings,
    Event,
    LoginOffered,
    SaslServer,
)
from pyjms_provider.protocols.amqp.frames import Frame, FrameDecoder, FrameType, ProtocolHeader, ProtocolId, write_frame
from pyjms_provider.protocols.amqp.link import DeliveryReceived, LinkDetached, LinkRequested, Receiver
from pyjms_provider.protocols.amqp.session import SessionEnded

_R = TypeVar("_R")
_WAIT_S: Final = 10.0
"""How long an answer may take, in seconds: tests fail then."""


class Wire(Protocol):
    """What carries the bytes."""

    def write(self, data: bytes) -> None:
        """Send bytes. The other side may have closed."""
        ...

    def read(self) -> bytes:
        """Return bytes; none: the other side has closed. Raises `TimeoutError`: nothing comes."""
        ...

    def close(self) -> None:
        """Close this side."""
        ...


class SocketWire:
    """A connection to a broker."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, _WAIT_S)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def read(self) -> bytes:
        """Return what has come."""
        try:
            return self._socket.recv(65536)
        except ConnectionResetError:
            return b""

    def end_writing(self) -> None:
        """Tell the broker that nothing follows."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class EngineWire:
    """The broker's end of the engine, in memory; it accepts what it is asked for.

    Args:
        settings: of the engine.
        sasl: of the engine; without: a login is offered, and not required.
        credit: what each of the client's senders gets.
        answer: told of each event, after it was answered.
    """

    def __init__(
        self,
        settings: ConnectionSettings | None = None,
        sasl: SaslServer | None = None,
        *,
        credit: int = 10,
        answer: Callable[[Connection, Event], None] = lambda _connection, _event: None,
    ) -> None:
        self.connection = Connection(settings or ConnectionSettings(), sasl or SaslServer((), is_required=False))
        self.events: list[Event] = []
        self._credit = credit
        self._answer = answer

    def write(self, data: bytes) -> None:
        """Hand bytes to the engine."""
        came = self.connection.receive(data)
        while came:
            for event in came:
                self.events.append(event)
                self._accept(event)
                self._answer(self.connection, event)
            came = self.connection.receive(b"")  # what waited for an answer

    def read(self) -> bytes:
        """Return what the engine has written."""
        data = self.connection.take()
        if not data and not self.connection.is_over:
            raise TimeoutError
        return data

    def close(self) -> None:
        """Do nothing: the engine holds nothing."""

    def _accept(self, event: Event) -> None:
        if isinstance(event, LoginOffered):
            self.connection.accept_login()
        elif isinstance(event, ConnectionOpened):
            self.connection.open(Open("engine"))
        elif isinstance(event, ConnectionClosed):
            self.connection.close()
        elif isinstance(event, SessionEnded) and not event.is_answer:
            event.session.end()
        elif isinstance(event, LinkRequested):
            remote = event.link.remote
            assert remote is not None
            event.link.attach(
                Attach(
                    "",
                    0,
                    False,
                    remote.snd_settle_mode,
                    remote.rcv_settle_mode,
                    source=remote.source,
                    target=remote.target,
                    max_message_size=100_000,
                )
            )
            if isinstance(event.link, Receiver):
                event.link.give_credit(self._credit)
        elif isinstance(event, LinkDetached) and event.failure is None:
            event.link.detach(is_closed=event.is_closed)
        elif isinstance(event, DeliveryReceived):
            delivery = event.delivery
            delivery.link.session.update_incoming([delivery], ACCEPTED)


class Ended(Exception):
    """The other side has closed the connection."""


class RawPeer:
    """One side of a connection, without rules."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._decoder = FrameDecoder(2**31)
        self.next_delivery = 0
        """The delivery-id of the next message."""

    # ----------------------------------------------------------------------------------------------------------- writing

    def header(self, protocol: int = ProtocolId.AMQP) -> None:
        """Send a protocol header."""
        self.wire.write(bytes(ProtocolHeader(protocol)))

    def send(self, *records: Any, channel: int = 0, payload: bytes = b"") -> None:
        """Send performatives, each in a frame of its own; None: a sign of life."""
        self.wire.write(
            b"".join(write_frame(channel, b"" if each is None else write(each), payload) for each in records)
        )

    def send_sasl(self, record: Any) -> None:
        """Send a frame of SASL."""
        self.wire.write(write_frame(0, b"" if record is None else write(record), kind=FrameType.SASL))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that may be anything."""
        self.wire.write(data)

    # ----------------------------------------------------------------------------------------------------------- reading

    def next(self) -> ProtocolHeader | Frame:
        """Return the next header or frame; signs of life are passed over.

        Raises:
            Ended: the other side has closed.
            TimeoutError: nothing comes.
        """
        while True:
            found = self._decoder.next()
            if found is None:
                data = self.wire.read()
                if not data:
                    raise Ended
                self._decoder.feed(data)
            elif isinstance(found, ProtocolHeader):
                self._decoder.kind = FrameType.SASL if found.protocol == ProtocolId.SASL else FrameType.AMQP
                return found
            elif found.performative is not None:
                if isinstance(found.performative, SaslOutcome):
                    self._decoder.expect_header()
                return found

    def expect(self, kind: type[_R], *, passing: tuple[type, ...] = (Flow,)) -> _R:
        """Return the next performative, which is one of a kind.

        Args:
            kind: its class.
            passing: the kinds that may come before it.
        """
        return self.expect_frame(kind, passing=passing).performative  # type: ignore[no-any-return]

    def expect_frame(self, kind: type, *, passing: tuple[type, ...] = (Flow,)) -> Frame:
        """Return the next frame, whose performative is one of a kind, as `expect` does."""
        while True:
            found = self.next()
            performative = found.performative if isinstance(found, Frame) else found
            if isinstance(found, Frame) and isinstance(performative, kind):
                return found
            assert isinstance(performative, passing), f"{performative} has come, and not a {kind}"

    def expect_header(self, protocol: int = ProtocolId.AMQP) -> None:
        """Read a header."""
        assert self.next() == ProtocolHeader(protocol)

    def expect_end(self) -> None:
        """See that nothing more comes, but the end."""
        try:
            found = self.next()
        except Ended:
            return
        raise AssertionError(f"{found} has come, and not the end")

    def expect_closed(self, *conditions: str) -> Error | None:
        """Read a close with one of the conditions, answer it, and see the end."""
        error = self.expect(Close, passing=(object,)).error
        assert (error.condition if error else None) in (conditions or (None,))
        self.send(Close())
        self.expect_end()
        return error

    def received_by_now(self, window: int = 2**31 - 1) -> list[Any]:
        """Return what has come, but for flows, until the other side answers a question: nothing else is under way then."""
        self.send(Flow(0, window, self.transfers, 2**31 - 1, echo=True))
        found: list[Any] = []
        while True:
            frame = self.next()
            assert isinstance(frame, Frame)
            performative = frame.performative
            if not isinstance(performative, Flow):
                found.append(performative)
            elif performative.handle is None:
                return found

    # ------------------------------------------------------------------------------------------- conversations that work

    transfers = 0
    """How many transfers this side has sent in its session."""

    def log_in(self, user: str, password: str) -> None:
        """Log in by PLAIN, or ANONYMOUS if there is no user."""
        self.header(ProtocolId.SASL)
        self.expect_header(ProtocolId.SASL)
        self.expect(SaslMechanisms)
        self.send_sasl(SaslInit("PLAIN", f"\0{user}\0{password}".encode()) if user else SaslInit("ANONYMOUS", b""))
        assert self.expect(SaslOutcome).code == SaslCode.OK

    def open(self, container: str = "raw", **fields: Any) -> Open:
        """Exchange headers and opens."""
        self.header()
        self.expect_header()
        self.send(Open(container, **fields))
        return self.expect(Open)

    def begin(self, *, channel: int = 0, window: int = 2**31 - 1, **fields: Any) -> Begin:
        """Begin a session."""
        self.send(Begin(None, 0, window, window, **fields), channel=channel)
        return self.expect(Begin)

    def attach(self, attach: Attach, *, channel: int = 0) -> Attach:
        """Attach a link, and return the answer."""
        self.send(attach, channel=channel)
        return self.expect(Attach)

    def attach_sender(
        self, target: Any, *, name: str = "out", handle: int = 0, channel: int = 0, **fields: Any
    ) -> Attach:
        """Attach a link on which this side sends, and wait for credit if it is there.

        Args:
            target: a terminus, or the address of one.
            name: of the link.
            handle: of the link.
            channel: of the session.
            fields: of the attach.
        """
        if not isinstance(target, Target | Coordinator | None):
            target = Target(target)
        fields = {"source": Source(), **fields}
        answer = self.attach(
            Attach(name, handle, False, target=target, initial_delivery_count=0, **fields), channel=channel
        )
        if answer.target is not None:
            flow = self.expect(Flow)
            while flow.handle != answer.handle or not flow.link_credit:
                flow = self.expect(Flow)
        return answer

    def attach_receiver(
        self, source: Any, *, name: str = "in", handle: int = 1, credit: int = 0, channel: int = 0, **fields: Any
    ) -> Attach:
        """Attach a link on which this side receives."""
        if not isinstance(source, Source | None):
            source = Source(source)
        fields = {"target": Target(), **fields}
        answer = self.attach(Attach(name, handle, True, source=source, **fields), channel=channel)
        if credit and answer.source is not None:
            self.give_credit(credit, handle=handle, channel=channel)
        return answer

    def give_credit(
        self, credit: int, *, handle: int = 1, count: int | None = None, channel: int = 0, **fields: Any
    ) -> None:
        """Give a link credit.

        Args:
            credit: how many messages may be under way.
            handle: of the link.
            count: the delivery-count that this side has seen; without: that of the beginning.
            channel: of the session.
            fields: of the flow.
        """
        flow = Flow(
            0, 2**31 - 1, self.transfers, 2**31 - 1, handle=handle, delivery_count=count, link_credit=credit, **fields
        )
        self.send(flow, channel=channel)

    def transfer(self, data: bytes, *, handle: int = 0, channel: int = 0, **fields: Any) -> int:
        """Send a message, or the first part of one, and return its delivery-id."""
        number = self.next_delivery
        self.next_delivery += 1
        fields = {"delivery_id": number, "delivery_tag": str(number).encode(), "message_format": 0, **fields}
        self.transfers += 1
        self.send(Transfer(handle, **fields), payload=data, channel=channel)
        return number

    def transfer_more(self, data: bytes = b"", *, handle: int = 0, **fields: Any) -> None:
        """Send a further part of a message."""
        self.transfers += 1
        self.send(Transfer(handle, **fields), payload=data)

    def outcome(self, data: bytes, **fields: Any) -> Any:
        """Send a message, and return the state that the receiver settles it with."""
        number = self.transfer(data, **fields)
        told = self.expect(Disposition)
        assert (told.role, told.first, told.settled) == (True, number, True)
        return told.state

    def settle(self, first: int, state: Any, *, last: int | None = None, settled: bool = True) -> None:
        """Tell the state of what this side has received."""
        self.send(Disposition(role=True, first=first, last=last, settled=settled, state=state))

    def receive(self, **expected: Any) -> tuple[Transfer, bytes]:
        """Read a message; return its first transfer, and its bytes."""
        frame = self.expect_frame(Transfer, **expected)
        first: Transfer = frame.performative
        data = frame.payload
        while frame.performative.more:
            frame = self.expect_frame(Transfer, **expected)
            data += frame.payload
        return first, data

    def close(self) -> None:
        """Close the connection as one should, and see that nothing unexpected has come meanwhile."""
        self.send(Close())
        error = self.expect(Close, passing=(Flow, Disposition)).error
        assert error is None, error
        self.expect_end()


def text(words: str) -> bytes:
    """Return a message with a string as its value."""
    return b"\x00\x53\x77" + write_value(words)


def data_of(words: bytes) -> bytes:
    """Return a message with bytes as its body."""
    return b"\x00\x53\x75" + write_binary(words)
