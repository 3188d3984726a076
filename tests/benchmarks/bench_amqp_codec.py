"""The codec of AMQP against that of STOMP, for one message with ten properties, and what a broker's hop costs: microseconds of processor time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parent))
from measure import ENVELOPE, compare, report

from pyjms.spi.envelope import Envelope
from pyjms_provider.amqp import jms, performatives
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import ACCEPTED, Attach, Disposition, Open, Source, Target, Transfer
from pyjms_provider.protocols.amqp.connection import Connection, ConnectionOpened, ConnectionSettings, SaslServer
from pyjms_provider.protocols.amqp.frames import write_frame
from pyjms_provider.protocols.amqp.link import (
    DeliveryReceived,
    IncomingDelivery,
    LinkRequested,
    OutgoingDelivery,
    OutgoingUpdated,
    Receiver,
    Sender,
)
from pyjms_provider.protocols.amqp.session import Session
from pyjms_provider.protocols.stomp import codec as stomp
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.messages import expanded, from_frame, to_frame

MESSAGES = 4_000
AT_ONCE = 50
"""Frames of one read from the socket."""

DATA = jms.write_message(ENVELOPE, now_ms=0)
STOMP_FRAME = expanded(to_frame(ENVELOPE, PYJMS, command="MESSAGE"))
STOMP_DATA = stomp.encode(STOMP_FRAME, Version.V1_2)


def _per_message(begin: float) -> float:
    return (process_time() - begin) / MESSAGES * 1e6


# ----------------------------------------------------------------------------------------------------------- the codecs


def encoding() -> float:
    """Return microseconds for an envelope to become sections."""
    begin = process_time()
    for _ in range(MESSAGES):
        jms.write_message(ENVELOPE, now_ms=0)
    return _per_message(begin)


def encoding_stomp() -> float:
    """Return microseconds for an envelope to become a frame of STOMP."""
    begin = process_time()
    for _ in range(MESSAGES):
        stomp.encode(to_frame(ENVELOPE, PYJMS), Version.V1_2)
    return _per_message(begin)


def decoding() -> float:
    """Return microseconds for sections to become an envelope whose properties and body are used."""
    begin = process_time()
    for _ in range(MESSAGES):
        _use(jms.read_message(Message(DATA), now_ms=0, destination=ENVELOPE.destination))
    return _per_message(begin)


def decoding_stomp() -> float:
    """Return microseconds for a frame of STOMP to become an envelope whose properties and body are used."""
    decoder, data = stomp.FrameDecoder(version=Version.V1_2, lazy=True), STOMP_DATA * AT_ONCE
    begin = process_time()
    for _ in range(MESSAGES // AT_ONCE):
        for frame in decoder.feed(data):
            assert isinstance(frame, Frame)
            _use(from_frame(frame, PYJMS))
    return _per_message(begin)


def encoding_stomp_strings() -> float:
    """Return microseconds for STOMP's codec alone: headers that are strings already become a frame."""
    headers, body = STOMP_FRAME.headers, STOMP_FRAME.body
    begin = process_time()
    for _ in range(MESSAGES):
        stomp.encode(Frame("MESSAGE", dict(headers), body), Version.V1_2)
    return _per_message(begin)


def decoding_stomp_strings() -> float:
    """Return microseconds for STOMP's codec alone: a frame becomes headers that are strings."""
    decoder, data = stomp.FrameDecoder(version=Version.V1_2), STOMP_DATA * AT_ONCE
    begin = process_time()
    for _ in range(MESSAGES // AT_ONCE):
        assert sum(1 for _ in decoder.feed(data)) == AT_ONCE
    return _per_message(begin)


def _use(envelope: Envelope) -> None:
    assert envelope.properties["i1"] == 1
    assert envelope.body == ENVELOPE.body


# ------------------------------------------------------------------------------------------------ the parts of a hop


def finding_sections() -> float:
    """Return microseconds to find where the sections of a message are."""
    begin = process_time()
    for _ in range(MESSAGES):
        Message(DATA)
    return _per_message(begin)


def changing_header() -> float:
    """Return microseconds to give a message another header: its sections are found, and the bare message stays as it came."""
    begin = process_time()
    for _ in range(MESSAGES):
        jms.write_header(ENVELOPE, now_ms=0, delivery_count=1) + Message(DATA).bare
    return _per_message(begin)


def transfer_frame() -> float:
    """Return microseconds to write the frame of a transfer."""
    begin = process_time()
    for number in range(MESSAGES):
        write_frame(0, performatives.write(Transfer(0, number, b"%d" % number, 0)), DATA)
    return _per_message(begin)


def disposition_frame() -> float:
    """Return microseconds to write the frame of a disposition."""
    begin = process_time()
    for number in range(MESSAGES):
        write_frame(0, performatives.write(Disposition(True, number, settled=True, state=ACCEPTED)))
    return _per_message(begin)


# ---------------------------------------------------------------------------------------------------------------- a hop


class Peer:
    """A client and a broker's end that are joined in memory, with one link; `sends`: whether the client sends on it."""

    def __init__(self, *, sends: bool) -> None:
        settings = ConnectionSettings(incoming_window=2**31 - 1)
        self.client = Connection(settings, ())
        self.broker = Connection(settings, SaslServer((), is_required=False))
        self.client.start()
        self.client.open(Open("client"))
        self._exchange()
        session = self.client.begin()
        self._exchange()
        self.link: Sender | Receiver = session.sender("link") if sends else session.receiver("link")
        self.link.attach(Attach("", 0, False, source=Source("queue"), target=Target("queue")))
        self._exchange()
        receiver = self.end if sends else self.link
        assert isinstance(receiver, Receiver)
        receiver.give_credit(2**31 - 1)
        self._exchange()

    def _exchange(self) -> None:
        while (data := self.client.take()) or (back := self.broker.take()):
            if not data:
                self.client.receive(back)
                continue
            for event in self.broker.receive(data):
                if isinstance(event, ConnectionOpened):
                    self.broker.open(Open("broker"))
                elif isinstance(event, LinkRequested):
                    self.end = event.link
                    event.link.attach(Attach("", 0, False, source=Source("queue"), target=Target("queue")))


class Hop:
    """A broker's part between a client that sends and one that receives. What they say is written before."""

    def __init__(self) -> None:
        self.producer, self.consumer = Peer(sends=True), Peer(sends=False)
        self.sent: list[bytes] = []
        self.accepted: list[bytes] = []
        self.messages = 0

    def prepare(self, at_once: int) -> None:
        """Write what the two clients say of the next messages, so many at a time."""
        sender, first = self.producer.link, self.messages
        assert isinstance(sender, Sender)
        self.messages += MESSAGES
        self.sent, self.accepted = [], []
        for start in range(0, MESSAGES, at_once):
            for number in range(start, start + at_once):
                sender.send(DATA, b"%d" % number)
            self.sent.append(self.producer.client.take())
            frames = [
                write_frame(0, performatives.write(Disposition(True, number, settled=True, state=ACCEPTED)))
                for number in range(first + start, first + start + at_once)
            ]
            self.accepted.append(b"".join(frames))
        _session(sender).outgoing.clear()

    def run(self) -> float:
        """Return microseconds a message."""
        producer, consumer = self.producer.broker, self.consumer.broker
        end = self.consumer.end
        assert isinstance(end, Sender)
        session = _session(self.producer.end)
        begin = process_time()
        for sent, accepted in zip(self.sent, self.accepted, strict=True):
            for event in producer.receive(sent):
                assert type(event) is DeliveryReceived
                delivery = event.delivery
                end.send(delivery.data, delivery.tag).context = delivery
            assert consumer.take()
            done: list[IncomingDelivery] = []
            for told in consumer.receive(accepted):
                assert type(told) is OutgoingUpdated
                done += _contexts(told.deliveries)
            session.update_incoming(done, ACCEPTED)
            assert producer.take()
        return _per_message(begin)


def _session(link: object) -> Session:
    session = getattr(link, "session", None)
    assert isinstance(session, Session)
    return session


def _contexts(deliveries: Sequence[OutgoingDelivery]) -> list[IncomingDelivery]:
    return [each.context for each in deliveries]


def hop(at_once: int) -> Callable[[], float]:
    """Return what measures a hop with so many messages in a read."""
    between = Hop()

    def run() -> float:
        between.prepare(at_once)
        return between.run()

    return run


def passing_on_stomp() -> float:
    """Return microseconds for a broker to take a message in by STOMP and pass it on, without receipts and acknowledgements."""
    decoder, data = stomp.FrameDecoder(version=Version.V1_2, lazy=True), STOMP_DATA * AT_ONCE
    begin = process_time()
    for _ in range(MESSAGES // AT_ONCE):
        for frame in decoder.feed(data):
            assert isinstance(frame, Frame)
            stomp.encode(to_frame(from_frame(frame, PYJMS), PYJMS, command="MESSAGE"), Version.V1_2)
    return _per_message(begin)


def main() -> int:
    """Run and report."""
    good = _compared("encode, AMQP / STOMP", encoding, encoding_stomp, most=1.5)
    good &= _compared("decode, AMQP / STOMP", decoding, decoding_stomp, most=1.5)
    good &= _compared("encode, AMQP / strings by STOMP's codec", encoding, encoding_stomp_strings, most=2.5)
    good &= _compared("decode, AMQP / strings by STOMP's codec", decoding, decoding_stomp_strings, most=2.5)
    good &= _compared("find the sections / decode", finding_sections, decoding, most=0.5)
    good &= _compared("change the header / encode", changing_header, encoding, most=1.0)
    good &= _compared("write a transfer / encode", transfer_frame, encoding, most=1.0)
    good &= _compared("write a disposition / encode", disposition_frame, encoding, most=1.0)
    good &= _compared(f"a hop, {AT_ONCE} at a time / pass on by STOMP", hop(AT_ONCE), passing_on_stomp, most=1.0)
    good &= _compared("a hop, one at a time / pass on by STOMP", hop(1), passing_on_stomp, most=1.5)
    return 0 if good else 1


def _compared(what: str, ours: Callable[[], float], theirs: Callable[[], float], *, most: float) -> bool:
    found = compare(ours, theirs)
    return report(what, found.ratio, most=most, detail=f"{found.ours:.1f} µs and {found.theirs:.1f} µs a message")


if __name__ == "__main__":
    sys.exit(main())
