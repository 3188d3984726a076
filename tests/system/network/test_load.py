"""Many connections, many subscriptions, a large message, one who does not read: nothing is lost, and nobody waits for him.

``PYJMS_LOAD=full``: 1,000 connections, 10,000 subscriptions and 1,000,000 messages; else a fiftieth of that.
"""

from __future__ import annotations

import logging
import os
import resource
import socket
from collections.abc import Iterator
from statistics import quantiles

import pytest

from pyjms import BytesMessage, ConnectionFactory, DeliveryMode, Session, TextMessage
from pyjms.spi.clock import SystemClock
from pyjms_provider.protocols.stomp.codec import FrameDecoder
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.serving.served_broker import ServedBroker
from tests.system.network.served import anonymous_broker, port_of

IS_FULL = os.environ.get("PYJMS_LOAD") == "full"
CONNECTIONS = 1_000 if IS_FULL else 50
SUBSCRIPTIONS = 10_000 if IS_FULL else 200
MESSAGES = 1_000_000 if IS_FULL else 5_000
LARGE = (64 if IS_FULL else 8) * 1024 * 1024
PATIENCE_S = 30.0

_log = logging.getLogger(__name__)
pytestmark = pytest.mark.timeout(7200 if IS_FULL else 300)


@pytest.fixture
def broker() -> Iterator[ServedBroker]:
    with anonymous_broker() as broker:
        yield broker


def report(text: str) -> None:
    """Tell the figures to who runs the soak with ``--log-cli-level=INFO``."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    _log.info("%s; %d MB at most so far", text, used)


class Raw:
    """A plain connection."""

    def __init__(self, broker: ServedBroker) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port_of(broker)), timeout=PATIENCE_S)
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []
        self.say("CONNECT\naccept-version:1.2\nhost:x\n\n")
        assert self.next().command == "CONNECTED"

    def say(self, text: str) -> None:
        self._socket.sendall(text.encode() + b"\0")

    def next(self) -> Frame:
        while not self._frames:
            data = self._socket.recv(65536)
            assert data, "the broker hung up"
            self._frames += [each for each in self._decoder.feed(data) if isinstance(each, Frame)]
        return self._frames.pop(0)

    def close(self) -> None:
        self._socket.close()


def test_many_connections_with_many_subscriptions_each_get_their_own(broker: ServedBroker) -> None:
    crowd = [Raw(broker) for _ in range(CONNECTIONS)]
    each = SUBSCRIPTIONS // CONNECTIONS
    for number, raw in enumerate(crowd):
        for index in range(each):
            raw.say(f"SUBSCRIBE\nid:{index}\ndestination:/queue/q{number}.{index}\nreceipt:{index}\n\n")
        assert {raw.next().headers["receipt-id"] for _ in range(each)} == {str(index) for index in range(each)}
    sender, clock, times = Raw(broker), SystemClock(), []
    for number, raw in enumerate(crowd):
        began_ms = clock.monotonic_ms()
        for index in range(each):
            sender.say(f"SEND\ndestination:/queue/q{number}.{index}\n\n{number}.{index}")
        got = {bytes(raw.next().body).decode() for _ in range(each)}
        times.append(clock.monotonic_ms() - began_ms)
        assert got == {f"{number}.{index}" for index in range(each)}
    for raw in (*crowd, sender):
        raw.close()
    report(f"{CONNECTIONS} connections, {each} messages each: p50 {quantiles(times)[1]:.1f} ms")


def test_nobody_waits_for_one_who_does_not_read(broker: ServedBroker) -> None:
    slow, fast, sender = Raw(broker), Raw(broker), Raw(broker)
    slow.say("SUBSCRIBE\nid:s\ndestination:/topic/t\n\n")
    fast.say("SUBSCRIBE\nid:f\ndestination:/topic/t\nreceipt:r\n\n")
    assert fast.next().command == "RECEIPT"
    body = "x" * 10_000
    for number in range(MESSAGES // 5):
        sender.say(f"SEND\ndestination:/topic/t\nnumber:{number}\n\n{body}")
        if number % 50 == 49:
            assert [fast.next().headers["number"] for _ in range(50)] == [
                str(n) for n in range(number - 49, number + 1)
            ]
    assert slow.next().headers["number"] == "0"  # it has lost nothing either
    for raw in (slow, fast, sender):
        raw.close()
    report("one slow consumer beside a fast one")


def test_a_large_message_comes_as_it_was_sent(broker: ServedBroker) -> None:
    with ConnectionFactory(f"stomp://127.0.0.1:{port_of(broker)}").create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("large")
        sent = session.create_bytes_message()
        data = bytes(range(256)) * (LARGE // 256)
        sent.write_bytes(data)
        session.create_producer(queue).send(sent)
        received = session.create_consumer(queue).receive(int(PATIENCE_S * 1000))
        assert isinstance(received, BytesMessage)
        buffer = bytearray(LARGE)
        assert received.read_bytes(buffer) == LARGE
        assert bytes(buffer) == data
    report(f"one message of {LARGE >> 20} MiB")


def test_many_small_messages_come_in_their_order(broker: ServedBroker) -> None:
    clock = SystemClock()
    with ConnectionFactory(
        f"stomp://127.0.0.1:{port_of(broker)}?prefetch_messages=1000"
    ).create_connection() as connection:
        connection.start()
        sending = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        receiving = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = sending.create_queue("small")
        producer, consumer = sending.create_producer(queue), receiving.create_consumer(queue)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        began_ms, next_number = clock.monotonic_ms(), 0
        for number in range(MESSAGES):
            producer.send(sending.create_text_message(str(number)))
            if number % 1_000 == 999:
                for _ in range(1_000):
                    message = consumer.receive(int(PATIENCE_S * 1000))
                    assert isinstance(message, TextMessage)
                    assert message.text == str(next_number)
                    next_number += 1
        seconds = (clock.monotonic_ms() - began_ms) / 1000
        assert consumer.receive(50) is None
    report(f"{MESSAGES} small messages, sent and received: {MESSAGES / seconds:.0f} a second")
