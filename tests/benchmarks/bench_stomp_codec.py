"""The codec of STOMP frames against stomp.py's: microseconds to take apart, and to write, one message with ten properties."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))
from measure import ENVELOPE, compare, report
from stomp import utils
from stomp.transport import BaseTransport

from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.messages import expanded, from_frame, to_frame

FRAMES = 4_000
AT_ONCE = 50
"""Frames of one read from the socket."""

FRAME = expanded(to_frame(ENVELOPE, PYJMS, command="MESSAGE"))
FRAME.headers |= {"subscription": "c1", "ack": "17", "message-id": "ID:bench-1-1-1"}
DATA = encode(FRAME, Version.V1_2)


_ESCAPES = {"\r": "\\r", "\n": "\\n", ":": "\\c", "\\": "\\\\"}
_NEEDS_ESCAPE = re.compile("[\r\n:\\\\]")


class _Peer(BaseTransport):  # type: ignore[misc]  # stomp.py is not typed
    """stomp.py's own loop over what a socket read, with the read replaced."""

    def __init__(self) -> None:
        super().__init__(auto_decode=False)
        self.chunks: list[bytes] = []
        self.running = True

    def receive(self) -> bytes:
        return self.chunks.pop()

    def read_all(self, times: int) -> int:
        read = self._BaseTransport__read
        count = 0
        while count < times:
            self.chunks = [DATA * AT_ONCE]
            for data in read():
                utils.parse_frame(data)
                count += 1
        return count


def _per_frame(begin: float) -> float:
    return (perf_counter() - begin) / FRAMES * 1e6


def our_parser(*, lazy: bool = False) -> float:
    """Return microseconds a frame."""
    decoder, data = FrameDecoder(version=Version.V1_2, lazy=lazy), DATA * AT_ONCE
    begin = perf_counter()
    for _ in range(FRAMES // AT_ONCE):
        assert sum(1 for _ in decoder.feed(data)) == AT_ONCE
    return _per_frame(begin)


def their_parser() -> float:
    """Return microseconds a frame."""
    peer = _Peer()
    begin = perf_counter()
    assert peer.read_all(FRAMES) == FRAMES
    return _per_frame(begin)


def our_writer() -> float:
    """Return microseconds a frame, its headers being strings already, as stomp.py wants them."""
    headers, body = FRAME.headers, FRAME.body
    begin = perf_counter()
    for _ in range(FRAMES):
        encode(Frame("SEND", dict(headers), body), Version.V1_2)
    return _per_frame(begin)


def their_writer() -> float:
    """Return microseconds a frame: what stomp.py's `transmit` does before the socket, with escaped headers."""
    headers, body = FRAME.headers, bytes(FRAME.body)
    begin = perf_counter()
    for _ in range(FRAMES):
        escaped = {name: _escaped(value) for name, value in headers.items()}  # as its Protocol12 does
        utils.pack(utils.convert_frame(utils.Frame("SEND", escaped, body)))
    return _per_frame(begin)


def _escaped(value: str) -> str:
    return _NEEDS_ESCAPE.sub(lambda found: _ESCAPES[found[0]], value)


def passing_on() -> float:
    """Return microseconds to take a message in and pass it on, as a broker does, without a look at its properties."""
    decoder, data = (
        FrameDecoder(version=Version.V1_2, lazy=True),
        encode(to_frame(ENVELOPE, PYJMS), Version.V1_2) * AT_ONCE,
    )
    begin = perf_counter()
    for _ in range(FRAMES // AT_ONCE):
        for frame in decoder.feed(data):
            assert isinstance(frame, Frame)
            encode(to_frame(from_frame(frame, PYJMS), PYJMS, command="MESSAGE"), Version.V1_2)
    return _per_frame(begin)


def from_and_to_properties() -> float:
    """Return microseconds for a message to become a frame, and a message again whose properties are asked for."""
    decoder = FrameDecoder(version=Version.V1_2, lazy=True)
    begin = perf_counter()
    for _ in range(FRAMES):
        for frame in decoder.feed(encode(to_frame(ENVELOPE, PYJMS), Version.V1_2)):
            assert isinstance(frame, Frame)
            assert from_frame(frame, PYJMS).properties["i1"] == 1
    return _per_frame(begin)


def large_body(mebibytes: int) -> float:
    """Return microseconds a MiB of NULs that come in pieces of 16 KiB, as stomp.py reads them."""
    body = bytes(mebibytes * 1024 * 1024)
    data = memoryview(encode(Frame("MESSAGE", {"content-length": str(len(body))}, body), Version.V1_2))
    decoder, frames = FrameDecoder(version=Version.V1_2), 0
    begin = perf_counter()
    for at in range(0, len(data), 16384):
        frames += len(list(decoder.feed(data[at : at + 16384])))
    assert frames == 1
    return (perf_counter() - begin) / mebibytes * 1e6


def main() -> int:
    """Run and report."""
    parsing = compare(our_parser, their_parser)
    good = report("parse, ours / stomp.py's", parsing.ratio, most=0.6, detail=_figures(parsing.ours, parsing.theirs))
    lazily = compare(lambda: our_parser(lazy=True), our_parser)
    good &= report("parse, lazily / all headers", lazily.ratio, most=1.3, detail=_figures(lazily.ours, lazily.theirs))
    writing = compare(our_writer, their_writer)
    good &= report("write, ours / stomp.py's", writing.ratio, most=0.6, detail=_figures(writing.ours, writing.theirs))
    both = compare(passing_on, from_and_to_properties)
    good &= report("pass on / client to client", both.ratio, most=1.0, detail=_figures(both.ours, both.theirs))
    growth = compare(lambda: large_body(48), lambda: large_body(4))
    good &= report("48 MiB / 4 MiB of NULs, a MiB", growth.ratio, most=3.0, detail=_figures(growth.ours, growth.theirs))
    return 0 if good else 1


def _figures(ours: float, theirs: float) -> str:
    return f"{ours:.1f} µs and {theirs:.1f} µs a message"


if __name__ == "__main__":
    sys.exit(main())
