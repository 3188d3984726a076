"""Clients that mean harm, and speak SENDS: what they say wrongly is told to them, and the others are served in between."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from threading import Event, Thread
from typing import Self

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.stomp.packed import FRAME_MESSAGES_MAX, LENGTH
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.helpers import make_envelope
from tests.system.network.raw import Raw, packed_body, sends
from tests.system.network.served import anonymous_broker, port_of

NOBODY = Address(AddressKind.TOPIC, "nobody")
_READ = 64 * 1024  # of the broker's, at once
_REFUSED_MAX = 64 * 1024 * 1024


@pytest.fixture
def broker() -> Iterator[ServedBroker]:
    with anonymous_broker() as broker:
        yield broker


def opened(broker: ServedBroker) -> Raw:
    raw = Raw(port_of(broker), packed=True)
    raw.do(commands.OpenSession(session="a"))
    return raw


def sends_confirmed(raw: Raw) -> None:
    raw.socket.sendall(sends(packed_body(make_envelope("x")), receipt="r"))
    assert raw.answer("r").command == "RECEIPT"


class Flood:
    """Frames of so many messages as a frame may have, sent as fast as the broker reads them, for a topic without readers."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._frame = sends(packed_body(*[make_envelope("x", destination=NOBODY)] * FRAME_MESSAGES_MAX))
        self._is_over = Event()
        self._thread = Thread(target=self._run)
        self._flowing = Event()
        self.sent = 0

    def __enter__(self) -> Self:
        self._raw.socket.settimeout(0.05)
        self._thread.start()
        assert self._flowing.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        at, view = 0, memoryview(self._frame)
        while not self._is_over.is_set():
            try:
                size = self._raw.socket.send(view[at:])
            except TimeoutError:
                continue
            self.sent += size
            at = (at + size) % len(view)
            if self.sent > 32 * len(view):  # what the system takes by itself is full
                self._flowing.set()


def test_who_sends_packed_messages_without_end_is_read_in_turn_with_the_others(broker: ServedBroker) -> None:
    with opened(broker) as hostile, opened(broker) as other, Flood(hostile) as flood:
        read_meanwhile = []
        for _ in range(7):
            before = flood.sent
            sends_confirmed(other)
            read_meanwhile.append(flood.sent - before)
    assert median(read_meanwhile) <= 6 * _READ, "of the flood so much was read while another one waited for an answer"


def test_who_is_refused_a_thousand_times_a_frame_and_reads_no_answer_is_read_no_more(broker: ServedBroker) -> None:
    gone = Address(AddressKind.QUEUE, "gone", temporary=True)
    frame = sends(packed_body(*[make_envelope("x", destination=gone)] * FRAME_MESSAGES_MAX))
    with opened(broker) as hostile, opened(broker) as other:
        hostile.socket.settimeout(0.3)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < _REFUSED_MAX:
                sent += hostile.socket.send(frame)
        sends_confirmed(other)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0",
        LENGTH.pack(0),
        LENGTH.pack(0xFFFF_FFFF),
        LENGTH.pack(1000) + b"x" * 999,
        packed_body(make_envelope("x"))[:-1],
        packed_body(make_envelope("x")) + b"\0",
        packed_body(*[make_envelope("x")] * (FRAME_MESSAGES_MAX + 1)),
        packed_body(make_envelope("x", properties={f"p{number}": "x" for number in range(20_001)})),
        LENGTH.pack(200_000) + b"\x01\0\0\0\0" + b"\x91" * 199_995,
        LENGTH.pack(10) + b"\x01\0\0\0\0\xdd\xff\xff\xff\xff",
        LENGTH.pack(10) + b"\x01\0\0\0\0\xdf\xff\xff\xff\xff",
        LENGTH.pack(10) + b"\x01\0\0\0\0\xc9\xff\xff\xff\xff",
    ],
    ids=lambda body: f"{len(body)} bytes",
)
def test_what_is_no_message_is_told_and_the_connection_goes_on(body: bytes, hostile: Raw) -> None:
    hostile.socket.sendall(sends(body, receipt="bad"))
    answer = hostile.answer("bad")
    assert answer.command == "ERROR"
    assert b"SENDS" in bytes(answer.body) or "SENDS" in answer.headers["message"]
    sends_confirmed(hostile)


@pytest.fixture(scope="module")
def hostile() -> Iterator[Raw]:
    with anonymous_broker() as broker, opened(broker) as raw:
        yield raw
