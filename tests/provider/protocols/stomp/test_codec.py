"""Frames and bytes: what is written is read, however the stream is cut, and what is wrong is refused by name."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyjms_provider.protocols.stomp.codec import BEFORE_LOGIN, FrameDecoder, Limits, encode
from pyjms_provider.protocols.stomp.errors import EncodingError, FrameError, FrameLimitError, StompError
from pyjms_provider.protocols.stomp.frames import HEARTBEAT, Frame, Heartbeat, Version
from tests.provider.protocols.stomp.strategies import VERSIONS, frames

V1_0, V1_1, V1_2 = Version


def decode(data: bytes, version: Version | None = V1_2, *, lazy: bool = False) -> list[Frame | Heartbeat]:
    return list(FrameDecoder(version=version, lazy=lazy).feed(data))


def decode_in_pieces(data: bytes, cuts: list[int], version: Version) -> list[Frame | Heartbeat]:
    decoder = FrameDecoder(version=version)
    places = sorted({0, len(data), *cuts})
    return [event for begin, end in pairwise(places) for event in decoder.feed(data[begin:end])]


# What is written is read


@given(st.data(), VERSIONS)
def test_a_frame_equals_itself_after_the_wire(data: st.DataObject, version: Version) -> None:
    frame = data.draw(frames(version))
    assert decode(encode(frame, version), version) == [frame]


@given(st.data(), VERSIONS)
def test_a_stream_may_be_cut_anywhere(data: st.DataObject, version: Version) -> None:
    sent = data.draw(st.lists(frames(version), max_size=4))
    stream = b"".join(encode(frame, version) for frame in sent)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert decode_in_pieces(stream, cuts, version) == sent


@given(st.data())
def test_byte_by_byte_is_no_other_stream(data: st.DataObject) -> None:
    sent = data.draw(st.lists(frames(V1_2), min_size=1, max_size=3))
    stream = b"\n\r\n".join(encode(frame, V1_2) for frame in sent)
    decoder = FrameDecoder(version=V1_2)
    events = [event for at in range(len(stream)) for event in decoder.feed(stream[at : at + 1])]
    assert [event for event in events if event is not HEARTBEAT] == sent
    assert decoder.is_between_frames


@given(st.data(), st.sampled_from([bytearray, memoryview]))
def test_the_buffer_that_was_fed_may_be_used_again(data: st.DataObject, kind: type) -> None:
    sent = data.draw(st.lists(frames(V1_2), min_size=1, max_size=3))
    stream = b"".join(encode(frame, V1_2) for frame in sent)
    cut = data.draw(st.integers(0, len(stream)))
    decoder = FrameDecoder(version=V1_2)
    events: list[Frame | Heartbeat] = []
    for part in (stream[:cut], stream[cut:]):
        buffer = bytearray(part)
        fed = decoder.feed(kind(buffer))
        buffer[:] = b"\xff" * len(buffer)
        events += fed
    assert events == sent


def test_what_was_not_taken_comes_with_the_next_piece() -> None:
    one, two, three = (Frame("SEND", {"n": str(number)}, b"x") for number in range(3))
    decoder = FrameDecoder(version=V1_2)
    stream = b"".join(encode(frame, V1_2) for frame in (one, two, three))
    assert next(decoder.feed(stream[:-1])) == one
    assert list(decoder.feed(stream[-1:])) == [two, three]


def test_the_version_may_change_between_two_frames_of_one_piece() -> None:
    decoder = FrameDecoder()
    events = decoder.feed(b"CONNECT\npasscode:a\\b\n\n\0SEND\nv:a\\rb\n\n\0")
    assert next(events) == Frame("CONNECT", {"passcode": "a\\b"})
    decoder.version = V1_1
    with pytest.raises(FrameError, match=r"1\.1 does not define"):
        next(events)


# Examples of the specification


def test_the_frame_of_the_specification() -> None:
    stream = b"SEND\ndestination:/queue/a\ncontent-type:text/plain\n\nhello queue a\n\0"
    headers = {"destination": "/queue/a", "content-type": "text/plain"}
    assert decode(stream) == [Frame("SEND", headers, b"hello queue a\n")]


def test_of_a_repeated_header_the_first_counts_and_all_are_kept() -> None:
    (frame,) = decode(b"MESSAGE\nfoo:World\nbar:1\nfoo:Hello\n\n\0")
    assert isinstance(frame, Frame)
    assert frame.headers == {"foo": "World", "bar": "1"}
    assert frame.pairs == (("foo", "World"), ("bar", "1"), ("foo", "Hello"))
    assert encode(frame, V1_2) == b"MESSAGE\nfoo:World\nbar:1\nfoo:Hello\n\n\0"


@pytest.mark.parametrize(
    ("version", "written"),
    [(V1_0, None), (V1_1, b"SEND\nk\\cl:\\\\a\\nb\r\\c\n\n\0"), (V1_2, b"SEND\nk\\cl:\\\\a\\nb\\r\\c\n\n\0")],
)
def test_each_version_escapes_what_it_defines(version: Version, written: bytes | None) -> None:
    frame = Frame("SEND", {"k:l": "\\a\nb\r:"})
    if written is None:
        with pytest.raises(EncodingError, match="'k:l'"):
            encode(frame, version)
    else:
        assert encode(frame, version) == written
        assert decode(written, version) == [frame]


def test_version_1_0_takes_backslashes_as_they_are_and_trims() -> None:
    assert decode(b"SEND\ndestination: /queue/a\\n \n\n\0", V1_0) == [Frame("SEND", {"destination": "/queue/a\\n"})]


@pytest.mark.parametrize("command", ["CONNECT", "CONNECTED", "STOMP"])
def test_nothing_is_escaped_when_connecting(command: str) -> None:
    frame = Frame(command, {"passcode": "a\\b:c"})
    assert encode(frame, V1_2) == f"{command}\npasscode:a\\b:c\n\n\0".encode()
    assert decode(encode(frame, V1_2)) == [frame]


@pytest.mark.parametrize("sequence", ["\\t", "\\", "\\x"])
def test_an_undefined_escape_is_refused(sequence: str) -> None:
    with pytest.raises(FrameError, match="escape sequence"):
        decode(f"SEND\na:{sequence}\n\n\0".encode())


@pytest.mark.parametrize("version", [None, V1_2])
def test_lines_may_end_with_cr_lf_in_1_2(version: Version | None) -> None:
    assert decode(b"SEND\r\na:b\r\nc:d\n\r\nbody\r\n\0\r\n", version) == [
        Frame("SEND", {"a": "b", "c": "d"}, b"body\r\n"),
        HEARTBEAT,
    ]


def test_a_carriage_return_belongs_to_the_value_in_1_1() -> None:
    assert decode(b"SEND\na:b\r\n\n\0", V1_1) == [Frame("SEND", {"a": "b\r"})]


# D3: a newline in a body is a newline in a body


@pytest.mark.parametrize("cut", range(40))
def test_line_ends_in_a_body_are_no_heart_beats(cut: int) -> None:
    stream = b"\nSEND\na:b\n\n\n\n\r\nx\n\0\n\n"
    events = decode_in_pieces(stream, [min(cut, len(stream))], V1_2)
    assert [event for event in events if event is not HEARTBEAT] == [Frame("SEND", {"a": "b"}, b"\n\n\r\nx\n")]


def test_a_run_of_line_ends_is_one_event() -> None:
    assert decode(b"\n\r\n\n" * 1000) == [HEARTBEAT]


# Sizes

SMALL = Limits(header_line_max=50, header_count_max=4, header_size_max=120, body_max=100)


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"SEND\n" + b"a" * 51 + b":\n\n\0", "a header line has more than the 50 bytes"),
        (b"SEND\na:\nb:\nc:\nd:\ne:\n\n\0", "more than the 4 headers"),
        (b"SEND\n" + (b"a" * 39 + b":\n") * 3 + b"\n\0", "more than the 120 bytes"),
        (b"SEND\n" + b"a" * 1000, "more than the 120 bytes"),
        (b"SEND\nreceipt:7\ncontent-length:101\n\n", "the body of SEND has more than the 100 bytes"),
        (b"SEND\nreceipt:7\ncontent-length:" + b"9" * 30 + b"\n\n", "the body of SEND has more than the 100 bytes"),
        (b"SEND\n\n" + b"a" * 101, "the body of SEND has more than the 100 bytes"),
        (b"SEND\n\n" + b"a" * 101 + b"\0", "the body of SEND has more than the 100 bytes"),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_what_is_too_large_is_refused_with_its_limit(stream: bytes, text: str, step: int) -> None:
    decoder = FrameDecoder(SMALL, V1_2)
    with pytest.raises(FrameLimitError, match=text):
        for at in range(0, len(stream), step):
            list(decoder.feed(stream[at : at + step]))


def test_what_is_just_small_enough_is_taken() -> None:
    stream = b"SEND\n" + b"a" * 49 + b":\ncontent-length:100\n\n" + b"x" * 100 + b"\0"
    assert len(list(FrameDecoder(SMALL, V1_2).feed(stream))) == 1


def test_the_error_knows_the_receipt_that_was_asked_for() -> None:
    with pytest.raises(FrameLimitError) as caught:
        list(FrameDecoder(SMALL, V1_2).feed(b"SEND\nreceipt:7\ncontent-length:101\n\n"))
    assert (caught.value.receipt, caught.value.limit) == ("7", 100)


def test_strangers_may_send_no_body() -> None:
    with pytest.raises(FrameLimitError):
        list(FrameDecoder(BEFORE_LOGIN).feed(b"CONNECT\ncontent-length:1000000\n\n"))


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"SEND\na:b\nc\n\n\0", "header line 2 has no colon"),
        (b"SEND\n:b\n\n\0", "has no name"),
        (b"SEND\na:\xff\n\n\0", "not UTF-8, from byte 7"),
        (b"SEND\0SEND\n\n\0", "NUL stands before the blank line"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "no command"),
        (b"\rSEND\n\n\0", "carriage return"),
        (b"SEND\na:b\rc\n\n\0", "carriage return"),
        (b"SEND\ncontent-length:2\n\nabc\0", "content-length is wrong"),
        (b"SEND\ncontent-length:-2\n\nabc\0", "no number of bytes"),
        (b"SEND\ncontent-length:1_0\n\nabc\0", "no number of bytes"),
        (b"SEND\ncontent-length:\xc2\xb2\n\nabc\0", "no number of bytes"),
    ],
)
def test_what_is_no_frame_is_refused(stream: bytes, text: str) -> None:
    for cut in range(len(stream)):
        with pytest.raises(FrameError, match=text):
            decode_in_pieces(stream, [cut], V1_2)


def test_frames_before_a_fault_are_delivered_and_nothing_after_it() -> None:
    decoder = FrameDecoder(version=V1_2)
    events = decoder.feed(b"SEND\na:b\n\n\0SEND\na\n\n\0SEND\na:b\n\n\0")
    assert next(events) == Frame("SEND", {"a": "b"})
    for attempt in (events, decoder.feed(b"SEND\na:b\n\n\0")):
        with pytest.raises(FrameError):
            next(attempt)


@given(
    st.lists(
        st.binary(max_size=40) | st.sampled_from([b"SEND\n", b"\n\n", b"content-length:5\n", b"\nJMS_pyjms:1\n", b"\0"])
    ),
    VERSIONS,
    st.booleans(),
)
def test_any_bytes_give_events_or_a_named_error(pieces: list[bytes], version: Version, lazy: bool) -> None:
    decoder = FrameDecoder(SMALL, version, lazy=lazy)
    held = SMALL.header_size_max + SMALL.body_max
    try:
        for piece in pieces:
            for event in decoder.feed(piece):
                assert isinstance(event, Frame | Heartbeat)
                held_now = len(event.body) if isinstance(event, Frame) else 0
                assert held_now <= held
    except FrameError as error:
        assert error.reason  # noqa: PT017 - frames may come, or the error


# Large bodies: one copy, and no second look

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize("with_length", [True, False])
def test_a_large_body_is_copied_once(with_length: bool) -> None:
    size = 16 * MEBIBYTE
    chunk = b"x" * 65536
    decoder = FrameDecoder(version=V1_2)
    head = f"SEND\ncontent-length:{size}\n\n" if with_length else "SEND\na:b\n\n"
    assert not list(decoder.feed(head.encode()))
    tracemalloc.start()
    try:
        for _ in range(size // len(chunk)):
            assert not list(decoder.feed(chunk))
        (frame,) = decoder.feed(b"\0")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(frame, Frame)
    assert len(frame.body) == size
    assert peak < size * 1.3  # the one buffer, with its room to grow


def test_an_announced_body_costs_nothing_until_it_comes() -> None:
    tracemalloc.start()
    try:
        assert not list(FrameDecoder(version=V1_2).feed(b"SEND\ncontent-length:64000000\n\n"))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


# Header lines that nobody takes apart


LINES = st.lists(
    st.sampled_from([b"SEND", b"a:b", b"a:", b":b", b"a", b"a:b:c", b"", b"receipt:r1", b"x" * 41]),
    min_size=1,
    max_size=4,
)
LENGTHS = st.sampled_from([b"", b"content-length:3", b"content-length:-0", b"content-length:03", b"content-length:9"])


@given(st.lists(st.tuples(LINES, LENGTHS, st.sampled_from([b"", b"abc", b"a\0c"])), min_size=1, max_size=3))
@example([([b"SEND", b"a:b"], b"content-length:-0", b"")])
@example([([b"SEND", b"a:b", b"a:c"], b"", b"abc"), ([b"ACK", b":b"], b"", b"")])
def test_plain_heads_mean_the_same_to_who_reads_them_in_one_look(
    heads: list[tuple[list[bytes], bytes, bytes]],
) -> None:
    stream = b"".join(
        b"\n".join([*lines, length] if length else lines) + b"\n\n" + body + b"\0" for lines, length, body in heads
    )
    assert outcome(stream, lazy=True) == outcome(stream, lazy=False)


def outcome(stream: bytes, *, lazy: bool) -> tuple[list[Frame | Heartbeat], str]:
    """Return the events, and the error after them."""
    events: list[Frame | Heartbeat] = []
    try:
        for event in FrameDecoder(version=V1_2, lazy=lazy).feed(stream):
            events.append(event)  # noqa: PERF402 - those before the error count
    except StompError as error:
        return events, str(error)
    return events, ""


def test_a_lazy_decoder_leaves_the_properties_of_a_message() -> None:
    stream = b"SEND\na:b\nJMS_pyjms:1;k=msg\nn:1\nm:a\\cb\n\nx\0"
    (frame,) = decode(stream, lazy=True)
    assert frame == Frame("SEND", {"a": "b"}, b"x", tail="JMS_pyjms:1;k=msg\nn:1\nm:a\\cb\n")
    assert encode(frame, V1_2) == stream
    assert encode(frame, V1_1) == stream
    assert encode(frame, V1_0) == stream.replace(b"\\c", b":")


@pytest.mark.parametrize("stream", [b"SEND\na:b\n\n\0", b"SEND\nJMS_pyjms:1\nc:d\n\n\0"])
def test_a_lazy_decoder_finds_nothing_to_leave_without_a_profile_header_after_others(stream: bytes) -> None:
    (frame,) = decode(stream, lazy=True)
    assert isinstance(frame, Frame)
    assert frame.tail == ""
    assert encode(frame, V1_2) == stream


@pytest.mark.parametrize("line", [b"nocolon", b":noname", b"a:\\t"])
def test_a_lazy_decoder_refuses_what_nobody_could_read_later(line: bytes) -> None:
    with pytest.raises(FrameError):
        decode(b"SEND\na:b\nJMS_pyjms:1\nok:1\n" + line + b"\n\n\0", lazy=True)


# What cannot be written


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("SEND", {"a": "b\0"}), "NUL"),
        (Frame("SEND", {"": "b"}), "name ''"),
        (Frame("SEND", {"a": "\ud800"}), "surrogate"),
        (Frame("SEND", {"content-length": "3"}, b"xx"), "2 bytes, not 3"),
        (Frame("SEND", {}, b"x\0"), "give its content-length"),
        (Frame("CONNECT", {"passcode": "a\nb"}), "nothing is escaped"),
    ],
)
def test_what_cannot_be_written_is_refused(frame: Frame, text: str) -> None:
    with pytest.raises(EncodingError, match=text):
        encode(frame, V1_2)


@pytest.mark.parametrize("separator", ["\x01", "\x01\x02"])
def test_control_characters_travel(separator: str) -> None:
    frame = Frame("SEND", {f"a{separator}": f"b{separator}:"})
    assert decode(encode(frame, V1_2)) == [frame]


def test_a_frame_shows_no_password() -> None:
    assert "secret" not in repr(Frame("CONNECT", {"login": "me", "passcode": "secret"}))
