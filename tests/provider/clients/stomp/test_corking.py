"""What may wait goes out with what comes after it: fewer writes, the same order, and never late by much."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ConnectionLostError, ProviderError, ResourceError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.network.failover import ConnectionInterruptedError
from pyjms_provider.clients.network.io_thread import WritingEndedError
from pyjms_provider.clients.network.polling import SocketReader
from pyjms_provider.clients.stomp.failover import StompFailoverConnection
from pyjms_provider.clients.stomp.options import read_url
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.clients.stomp.transport import WriteBuffer
from pyjms_provider.protocols.stomp.codec import FrameDecoder
from pyjms_provider.protocols.stomp.codec import encode as encode_frame
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.packed import FRAME_MESSAGES_MAX, LENGTH, read_sends
from pyjms_provider.stores.codec import encode
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker, Silent
from tests.provider.helpers import make_envelope


class Socket:
    """Takes what is written, up to `room` bytes at a time."""

    def __init__(self, room: int = 10**9) -> None:
        self.room = room
        self.written: list[bytes] = []
        self.wakes = 0

    def write(self, data: bytes) -> int:
        self.written.append(data[: self.room])
        return min(len(data), self.room)

    def wake(self) -> None:
        self.wakes += 1


def test_what_is_corked_is_written_together_and_in_order() -> None:
    socket = Socket()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    for data in (b"a", b"b"):
        outbox.put(data, corked=True)
    assert socket.written == []
    outbox.put(b"c")
    assert socket.written == [b"abc"]
    outbox.put(b"d", corked=True)
    outbox.uncork()
    outbox.uncork()
    assert socket.written == [b"abc", b"d"]


def test_what_is_much_is_written_at_once() -> None:
    socket = Socket()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    outbox.put(b"x" * 20_000, corked=True)
    assert socket.written == []
    outbox.put(b"y" * 20_000, corked=True)
    assert [len(each) for each in socket.written] == [40_000]


@pytest.mark.parametrize("shared", [True, False])
def test_what_the_socket_does_not_take_is_left_to_the_thread_of_the_connection(shared: bool) -> None:
    socket = Socket(room=1)
    outbox = WriteBuffer(10**6, socket.wake, socket.write if shared else None)
    outbox.put(b"ab", corked=True)
    outbox.uncork()
    assert (outbox.has_rest, socket.wakes) == (True, 1)
    socket.room = 9
    outbox.flush(socket.write)
    assert b"".join(socket.written) == b"ab"
    assert not outbox.has_rest


def test_nothing_is_corked_any_more_when_it_is_closed() -> None:
    socket = Socket()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    outbox.put(b"a", corked=True)
    outbox.close()
    outbox.uncork()
    assert socket.written == []
    with pytest.raises(WritingEndedError):
        outbox.put(b"b", corked=True)


ONE, TWO = b"ACK\nsession:s1\nids:", b"ACK\nsession:s2\nids:"


def test_acknowledgements_are_one_frame_until_something_else_comes_or_they_are_written() -> None:
    socket = Socket()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    assert outbox.acknowledge(ONE, 1, 1)
    assert not outbox.acknowledge(ONE, 2, 4)
    assert not outbox.acknowledge(ONE, 6, 6)
    assert not outbox.acknowledge(TWO, 7, 7)
    outbox.put(b"-other-", corked=True)
    outbox.acknowledge(TWO, 8, 8)
    outbox.uncork()
    assert outbox.acknowledge(TWO, 9, 9)
    outbox.uncork()
    assert [each.decode() for each in b"".join(socket.written).split(b"\0")] == [
        "ACK\nsession:s1\nids:1-4\n\n",
        "ACK\nsession:s1\nids:6-6\n\n",
        "ACK\nsession:s2\nids:7-7\n\n",
        "-other-ACK\nsession:s2\nids:8-8\n\n",
        "ACK\nsession:s2\nids:9-9\n\n",
        "",
    ]
    outbox.uncork()
    assert not outbox.has_rest


def test_acknowledgements_of_messages_one_after_the_other_are_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SocketReader, "keep_polling", lambda _: None)
    with FakeBroker() as broker:
        settings = read_url(ProviderUrl.parse(broker.url))
        clock = SystemClock()
        link = StompFailoverConnection(settings, dict, clock, _Owner())
        physical = link.current()
        for numbers in ((1, 1), (2, 3), (5, 5)):
            physical.acknowledge_soon(ONE, *numbers)
        physical.post(Frame("CREDIT", {}))
        physical.acknowledge_soon(ONE, 6, 6)
        assert not link.wait(Signal(), clock.monotonic_ms() + 1)
        broker.wait_for("ACK", 3)
        assert [frame.headers["ids"] for frame in broker.of("ACK")] == ["1-3", "5-5", "6-6"]
        link.close(None)


class _Owner:
    def on_message(self, physical: PhysicalConnection, frame: Frame) -> None:
        return

    def on_broker_error(self, error: ProviderError) -> None:
        return

    def on_interrupted(self, error: ConnectionInterruptedError) -> None:
        return

    def is_only_waiter(self) -> bool:
        return True

    def restore(self, physical: PhysicalConnection) -> None:
        return

    def on_lost(self, error: ConnectionLostError) -> None:
        return


def numbered(number: int) -> Frame:
    return Frame("SEND", {"n": str(number)})


@pytest.mark.parametrize("waits", [True, False])
def test_frames_that_may_wait_arrive_soon_though_nothing_follows(waits: bool) -> None:
    with FakeBroker() as broker:
        settings = read_url(ProviderUrl.parse(broker.url))
        wire = PhysicalConnection(1, settings.endpoints[0], settings, SystemClock(), Silent())
        wire.open({})
        for number in range(5):
            wire.post_soon(numbered(number), waits=waits)
        broker.wait_for("SEND", 5)
        assert [frame.headers["n"] for frame in broker.of("SEND")] == list("01234")
        wire.close()
        wire.join(PATIENCE_S)


def test_who_waits_has_all_written_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SocketReader, "keep_polling", lambda _: None)  # nobody else writes it
    with FakeBroker() as broker:
        settings = read_url(ProviderUrl.parse(broker.url))
        wire = PhysicalConnection(1, settings.endpoints[0], settings, SystemClock(), Silent())
        wire.open({})
        for number in range(3):
            wire.post_soon(numbered(number), waits=True)
        clock = SystemClock()
        assert not wire.wait(Signal(), clock.monotonic_ms() + 1)
        broker.wait_for("SEND", 3)
        wire.close()
        wire.join(PATIENCE_S)


def test_the_first_frames_after_a_pause_go_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SocketReader, "keep_polling", lambda _: None)
    with FakeBroker() as broker:
        settings = read_url(ProviderUrl.parse(broker.url))
        wire = PhysicalConnection(1, settings.endpoints[0], settings, SystemClock(), Silent())
        wire.open({})
        for number in range(3):
            wire.post_soon(numbered(number), waits=False)
        broker.wait_for("SEND", 2)
        wire.post(Frame("BEGIN", {"transaction": "t"}))
        broker.wait_for("BEGIN")
        assert [frame.headers["n"] for frame in broker.of("SEND")] == list("012")
        wire.close()
        wire.join(PATIENCE_S)


def frames_in(data: bytes) -> list[tuple[str, list[str]]]:
    """Return of each frame its session, and the texts of its messages; of another frame its command."""
    found = []
    for frame in FrameDecoder(version=Version.V1_2).feed(data):
        assert isinstance(frame, Frame)
        if frame.command == "SENDS":
            found.append((frame.headers["session"], [str(each.body) for each in read_sends(bytes(frame.body))]))
        else:
            found.append((frame.command, []))
    return found


def test_messages_of_one_session_that_may_wait_are_one_frame() -> None:
    socket = Socket()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    assert outbox.gather("s1", encode(make_envelope("a")))
    assert not outbox.gather("s1", encode(make_envelope("b")))
    assert not outbox.gather("s2", encode(make_envelope("c")))
    outbox.gather("s1", encode(make_envelope("d")))
    assert socket.written == []
    outbox.put(b"COMMIT\n\n\0")
    assert frames_in(b"".join(socket.written)) == [("s1", ["a", "b"]), ("s2", ["c"]), ("s1", ["d"]), ("COMMIT", [])]
    assert len(socket.written) == 1
    assert outbox.gather("s1", encode(make_envelope("e")))
    outbox.uncork()
    assert frames_in(socket.written[-1]) == [("s1", ["e"])]


def test_a_frame_is_written_when_there_is_much_in_it() -> None:
    socket = Socket()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    for _ in range(3):
        outbox.gather("s1", encode(make_envelope("x" * 20_000)))
    assert [len(texts) for _, texts in frames_in(b"".join(socket.written))] == [2]


def test_a_frame_has_no_more_messages_than_a_broker_takes_however_many_come_while_somebody_writes() -> None:
    begun, may_end = Event(), Event()

    class Slow(Socket):
        def write(self, data: bytes) -> int:
            begun.set()
            assert may_end.wait(PATIENCE_S)
            return super().write(data)

    socket = Slow()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    writing = Thread(target=outbox.put, args=(encode_frame(Frame("BEGIN", {}), Version.V1_2),))
    writing.start()
    assert begun.wait(PATIENCE_S)
    for _ in range(1200):
        outbox.gather("s1", b"")  # the least there can be, so that a frame is not full before
    may_end.set()
    writing.join(PATIENCE_S)
    outbox.uncork()
    _, *frames = FrameDecoder(version=Version.V1_2).feed(b"".join(socket.written))
    numbers = [len(frame.body) // LENGTH.size for frame in frames if isinstance(frame, Frame)]
    assert max(numbers) <= FRAME_MESSAGES_MAX
    assert sum(numbers) == 1200


def test_a_large_message_has_a_frame_to_itself() -> None:
    socket = Socket()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    for text in ("a", "b" * 40_000, "c"):
        outbox.gather("s1", encode(make_envelope(text)))
    outbox.uncork()
    assert [len(texts) for _, texts in frames_in(b"".join(socket.written))] == [1, 1, 1]


def test_messages_and_acknowledgements_of_one_session_keep_their_order() -> None:
    socket = Socket()
    outbox = WriteBuffer(10**6, socket.wake, socket.write)
    outbox.gather("s1", encode(make_envelope("a")))
    outbox.acknowledge(ONE, 1, 1)
    outbox.gather("s1", encode(make_envelope("b")))
    outbox.gather("s1", encode(make_envelope("c")))
    outbox.acknowledge(ONE, 2, 2)
    outbox.uncork()
    assert frames_in(b"".join(socket.written)) == [("s1", ["a"]), ("ACK", []), ("s1", ["b", "c"]), ("ACK", [])]


def test_nothing_is_acknowledged_after_the_end_nor_without_room() -> None:
    socket = Socket()
    outbox = WriteBuffer(1000, socket.wake, None)
    outbox.put(b"x" * 950)
    with pytest.raises(ResourceError, match="has not read"):
        outbox.acknowledge(ONE, 1, 1)
    outbox.close()
    with pytest.raises(WritingEndedError):
        outbox.acknowledge(ONE, 1, 1)


def test_who_gathers_finds_no_room_either_and_nothing_after_the_end() -> None:
    socket = Socket()
    outbox = WriteBuffer(1000, socket.wake, None)
    outbox.gather("s1", encode(make_envelope("x" * 600)))
    with pytest.raises(ResourceError, match="has not read"):
        outbox.gather("s1", encode(make_envelope("x" * 600)))
    outbox.close()
    with pytest.raises(WritingEndedError):
        outbox.gather("s1", encode(make_envelope("x")))


def test_what_needs_no_room_gets_in_and_whoever_may_not_wait_needs_none() -> None:
    socket = Socket(room=0)
    outbox = WriteBuffer(1000, socket.wake, socket.write, timeout_s=lambda: None)
    message = encode(make_envelope("a"))
    outbox.put(b"x" * 990)
    outbox.put(b"-credit-" * 2)
    outbox.acknowledge(ONE, 1, 1)
    outbox.gather("s1", message)
    impatient = WriteBuffer(1000, socket.wake, socket.write)
    impatient.put(b"x" * 990)
    impatient.put(b"-credit-" * 2, needs_room=False)
    with pytest.raises(ResourceError, match="has not read"):
        impatient.put(b"-message-" * 2)
    socket.room = 10**9
    socket.written.clear()
    for full in (outbox, impatient):
        full.flush(socket.write)
        full.close()
    with pytest.raises(WritingEndedError):
        outbox.put(b"-credit-" * 2)
    with pytest.raises(WritingEndedError):
        impatient.put(b"-credit-" * 2, needs_room=False)
    written = b"".join(socket.written)
    assert written.count(b"-credit-" * 2) == 2
    assert b"ids:1-1" in written
    assert message in written
    assert b"-message-" not in written


def test_acknowledgements_with_gaps_wait_for_room_as_all_else() -> None:
    """Each is a frame of its own, so nothing but the outbox's limit bounds them while the broker does not read."""
    outbox = WriteBuffer(1000, lambda: None, None, timeout_s=lambda: 0.0001)
    head = b"ACK\nids:"
    with pytest.raises(ResourceError, match="has not read"):
        for number in range(0, 2000, 2):
            outbox.acknowledge(head, number, number)
    waiting = Socket()
    outbox.flush(waiting.write)
    assert 0 < len(b"".join(waiting.written)) <= 1000
    outbox = WriteBuffer(1000, lambda: None, None, timeout_s=lambda: 0.0001)
    for number in range(1000):
        outbox.acknowledge(head, number, number)  # one range, which is one frame
