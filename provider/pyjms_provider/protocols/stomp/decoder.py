"""Bytes into frames, however they are cut: `FrameDecoder`, the one parser of client and server.

Every byte is looked at once and copied at most once, wherever the stream is cut, and what is kept of an unfinished
frame never exceeds the limits. A frame's body of which only a part has come grows in one buffer.

A line end in a body is part of the body; between frames it is a heart-beat, and so is a NUL, which some clients write there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO

from pyjms_provider.protocols.stomp.errors import FrameError, FrameLimitError, StompError
from pyjms_provider.protocols.stomp.frames import HEARTBEAT, Frame, Heartbeat, Version
from pyjms_provider.protocols.stomp.header_lines import HeaderParser
from pyjms_provider.protocols.stomp.limits import DEFAULT_LIMITS, Limits

__all__ = ["FrameDecoder"]

# STOMP 1.2: "EOL = [CR] LF"; the blank line ends the headers.
_end_of_headers = re.compile(rb"\n\r?\n").search
# NULs are none, but some clients write one too many.
_between_frames = re.compile(rb"(?:\r?\n|\0)+").match
_LF, _CR, _NUL = b"\n\r\0"
_LENGTH_DIGITS_MAX = 18
_UNTIL_NUL = -1
_NEAR = 2048
_PLAIN_MAX = 1024
_COMMAND_MAX = 40
# What nothing is escaped in, and what is ASCII.
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.,-:\n"


class FrameDecoder:
    """Takes a stream apart. One thread at a time.

    `version` is None until it is negotiated: then the rules of 1.2 hold, which CONNECT and CONNECTED follow anyway. It
    may be set, as `limits` and `lazy` may, between two events; what has been fed already is then read by the new rules.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, version: Version | None = None, *, lazy: bool = False) -> None:
        self._parser = HeaderParser(limits, version, lazy=lazy)
        self._is_quick = False
        self._choose_way()
        self._data = b""
        self._at = 0
        self._head = bytearray()
        self._frame: Frame | None = None
        self._body = BytesIO()
        self._missing = 0
        self._error: StompError | None = None

    @property
    def limits(self) -> Limits:
        """How large frames may be from now on."""
        return self._parser.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._parser.limits = limits

    @property
    def version(self) -> Version | None:
        """The version whose rules hold from now on."""
        return self._parser.version

    @version.setter
    def version(self, version: Version | None) -> None:
        self._parser.version = version
        self._choose_way()

    @property
    def lazy(self) -> bool:
        """Whether the profile header and what follows it stay in `Frame.tail`; in STOMP 1.2 only."""
        return self._parser.lazy

    @lazy.setter
    def lazy(self, lazy: bool) -> None:
        self._parser.lazy = lazy
        self._choose_way()

    def _choose_way(self) -> None:
        self._is_quick = self._parser.lazy and self._parser.version is Version.V1_2

    @property
    def is_between_frames(self) -> bool:
        """Whether nothing of an unfinished frame is held: the stream may end here."""
        return self._frame is None and not self._head and self._at == len(self._data)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Frame | Heartbeat]:
        """Take `data`, which may be changed as soon as this returns, and return what is complete with it.

        Whoever stops iterating finds the rest in `events`, or with the next `feed`. The iterator raises `FrameError`,
        `FrameLimitError` after the events before the fault; from then on the decoder raises nothing else.
        """
        self.put(data)
        return self.events()

    def put(self, data: bytes | bytearray | memoryview) -> None:
        """Take `data` as `feed` does; `next_event` returns what is complete with it."""
        if self._at < len(self._data):
            data = self._data[self._at :] + data
        elif self._frame is not None and self._missing > 0:
            data = self._take_body(data)
        self._data = bytes(data)
        self._at = 0

    def events(self) -> Iterator[Frame | Heartbeat]:
        """Return what is complete and has not been returned yet. Raises as `feed`."""
        while (event := self.next_event()) is not None:
            yield event

    def next_event(self) -> Frame | Heartbeat | None:
        """Return the next complete event, or None: feed more. Raises as `feed`."""
        if self._is_quick and self._frame is None and (frame := self._plain_frame()) is not None:
            return frame
        if self._error is not None:
            raise self._error
        if self._at == len(self._data):
            return None
        try:
            return self._begin_frame() if self._frame is None else self._go_on_with_body(self._frame)
        except StompError as error:
            self._error = error
            self._data, self._at, self._frame = b"", 0, None
            self._head.clear()
            self._body = BytesIO()
            raise

    def _plain_frame(self) -> Frame | None:
        """Return the next frame if all of it is here, with a short head that needs no second look; else leave it to the others."""
        data, at = self._data, self._at
        end = data.find(b"\n\n", at, at + _PLAIN_MAX)
        if end < 0 or self._head or data[at:end].translate(None, _PLAIN):
            return None
        command, *lines = data[at:end].decode().split("\n")
        at = end + 2
        try:
            headers = dict([line.split(":", 1) for line in lines])
        except ValueError:
            return None
        length = headers.get("content-length")
        if length is None:
            end = data.find(b"\0", at)
        elif length.isdigit():
            end = at + int(length)
        else:
            return None
        is_sound = (
            len(headers) == len(lines) and "" not in headers and command.isalpha() and len(command) <= _COMMAND_MAX
        )
        if not is_sound or not at <= end < len(data) or data[end] or end - at > self._parser.limits.body_max:
            return None
        self._at = end + 1
        return Frame(command, headers, data[at:end])

    def _begin_frame(self) -> Frame | Heartbeat | None:
        if self._head == b"\r" and self._at < len(self._data):  # half of a heart-beat
            self._data, self._at = b"\r" + self._data[self._at :], 0
            self._head.clear()
        data, at = self._data, self._at
        if self._head:
            scanned = len(self._head) - 2
            self._head += data[at:]
            end = _end_of_headers(self._head, max(0, scanned))
            if end is None:
                self._keep_head(b"")
                return None
            data = self._data = bytes(self._head)
            at = 0
            self._head.clear()
        elif at == len(data):
            return None
        else:
            if data[at] in (_LF, _CR, _NUL) and (beats := _between_frames(data, at)):
                self._at = beats.end()
                return HEARTBEAT
            plain_end = data.find(b"\n\n", at, at + _NEAR)
            if plain_end >= 0 and data.find(b"\r", at, plain_end) < 0:  # what pyjms and most others write
                frame = self._parser.parse(data[at:plain_end])
                self._at = plain_end + 2
                return self._with_body(frame)
            end = _end_of_headers(data, at)
            if end is None:
                self._keep_head(data[at:])
                return None
        frame = self._parser.parse(data[at : end.start()])
        self._at = end.end()
        return self._with_body(frame)

    def _keep_head(self, more: bytes) -> None:
        """Keep the beginning of a frame whose headers have not ended."""
        self._head += more
        self._data, self._at = b"", 0
        limit = self._parser.limits.header_size_max
        if len(self._head) > limit + 2:  # CR LF of the blank line may be among them
            raise FrameLimitError("what begins a frame, its command and headers,", limit, "bytes")

    def _with_body(self, frame: Frame) -> Frame | None:
        data, at = self._data, self._at
        if (length := frame.headers.get("content-length")) is None:
            end = data.find(b"\0", at)
            self._check_body((end if end >= 0 else len(data)) - at, frame)
            self._missing = _UNTIL_NUL
        else:
            self._missing = self._length(length, frame)
            end = at + self._missing
        if 0 <= end < len(data):
            if data[end]:
                raise _not_ended(frame)
            frame.body = data[at:end]
            self._at = end + 1
            return frame
        self._frame = frame
        self._body.write(memoryview(data)[at:])
        if self._missing > 0:
            self._missing -= len(data) - at
        self._data, self._at = b"", 0
        return None

    def _length(self, text: str, frame: Frame) -> int:
        """Return the length of the body. Raises `FrameError` for what is no number, and for more than is taken."""
        if not (text.isascii() and text.isdigit()):
            raise FrameError("content-length is no number of bytes", receipt=frame.headers.get("receipt"))
        length = int(text) if len(text) <= _LENGTH_DIGITS_MAX else 10**_LENGTH_DIGITS_MAX
        self._check_body(length, frame)
        return length

    def _check_body(self, length: int, frame: Frame) -> None:
        limit = self._parser.limits.body_max
        if length > limit:
            raise FrameLimitError(f"the body of {frame.command}", limit, "bytes", receipt=frame.headers.get("receipt"))

    def _take_body(self, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """Take what belongs to a body of known length; return the rest."""
        view = memoryview(data)[: self._missing]
        self._missing -= len(view)
        self._body.write(view)
        return memoryview(data)[len(view) :]

    def _go_on_with_body(self, frame: Frame) -> Frame | None:
        if self._missing > 0:
            rest = memoryview(self._data)[self._at :]
            self._at += len(rest) - len(self._take_body(rest))
        data, at = self._data, self._at
        if self._missing > 0 or at == len(data):
            return None
        if self._missing == 0:
            if data[at]:
                raise _not_ended(frame)
            end = at
        else:
            end = data.find(b"\0", at)
            view = memoryview(data)[at : end if end >= 0 else None]
            self._check_body(self._body.tell() + len(view), frame)
            self._body.write(view)
            if end < 0:
                self._at = len(data)
                return None
        self._at = end + 1
        frame.body = self._body.getvalue()
        self._frame, self._body = None, BytesIO()
        return frame


def _not_ended(frame: Frame) -> FrameError:
    return FrameError(
        f"the body of {frame.command} is not followed by NUL: its content-length is wrong",
        receipt=frame.headers.get("receipt"),
    )
