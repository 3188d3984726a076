r"""The codec of STOMP frames: size limits, escaping, a parser of heads, an encoder, and a decoder of streams.

Header names and values are not escaped at all in STOMP 1.0, by ``\\ \n \c`` in 1.1, and by ``\r`` too in 1.2 (STOMP 1.2, "Value
Encoding"): CONNECT and CONNECTED are never escaped, and undefined sequences are a fatal error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Final

from pyjms.spi.typed_values import is_unicode
from pyjms_provider.protocols.stomp.errors import EncodingError, FrameError, FrameLimitError, StompError
from pyjms_provider.protocols.stomp.frames import HEARTBEAT, Frame, Heartbeat, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a decoder, above which it raises `FrameLimitError`. The first two are ActiveMQ Classic's."""

    header_line_max: int = 10 * 1024
    """Bytes of one header line, without its end."""
    header_count_max: int = 1000
    """Header lines of one frame."""
    header_size_max: int = 256 * 1024
    """Bytes of a frame's command and headers together."""
    body_max: int = 100 * 1024 * 1024
    """Bytes of one body."""


DEFAULT_LIMITS = Limits()
BEFORE_LOGIN = Limits(header_count_max=100, header_size_max=32 * 1024, body_max=4 * 1024)
"""Enough for CONNECT, with a short body that some clients write, and too little for an unknown client to fill memory."""


UNESCAPED_COMMANDS = frozenset({"CONNECT", "CONNECTED", "STOMP"})

_MEANINGS: Mapping[Version, Mapping[str, str]] = {
    Version.V1_1: {"\\\\": "\\", "\\n": "\n", "\\c": ":"},
    Version.V1_2: {"\\\\": "\\", "\\n": "\n", "\\c": ":", "\\r": "\r"},
}
_TABLES = {
    version: str.maketrans({meaning: sequence for sequence, meaning in meanings.items()})
    for version, meanings in _MEANINGS.items()
}
# A backslash at the very end is an undefined sequence, too.
_SEQUENCE = re.compile(r"\\(?:.|\Z)", re.DOTALL)


def escape(text: str, version: Version) -> str:
    """Return `text` escaped for a header of `version`, 1.1 or 1.2."""
    return text.translate(_TABLES[version])


def unescape(text: str, version: Version) -> str:
    """Return `text` unescaped as in `version`, 1.1 or 1.2. Raises `FrameError` for an undefined sequence."""
    if text.count("\\") == text.count("\\c"):
        return text.replace("\\c", ":")  # message ids have colons, and most texts no other escape
    meanings = _MEANINGS[version]
    try:
        return _SEQUENCE.sub(lambda found: meanings[found[0]], text)
    except KeyError as error:
        raise FrameError(
            f"a header has the escape sequence {error.args[0]!r}, which STOMP {version.value} does not define: "
            f"write one of {' '.join(meanings)}"
        ) from None


PROFILE_HEADER = "JMS_pyjms"
"""The header for everything of a message that plain STOMP cannot express; its properties come after it."""

_BEFORE_TAIL = f"\n{PROFILE_HEADER}:"
_COMMAND_LENGTH_MAX = 40
# Possessive quantifiers (`*+`) give nothing back: a hostile head of megabytes costs linear time.
_named_lines = re.compile(r"(?:[^:\n]+:.*\n)*+").fullmatch
# The same, with escapes of STOMP 1.2 only.
_escaped_lines = re.compile(
    r"(?:(?!:)[^:\n\\]*+(?:\\[rnc\\][^:\n\\]*+)*+:[^\n\\]*+(?:\\[rnc\\][^\n\\]*+)*+\n)*+"
).fullmatch


class HeaderParser:
    """Parses heads by the rules of `version`; None means 1.2."""

    def __init__(self, limits: Limits, version: Version | None, *, lazy: bool) -> None:
        self.limits = limits
        self.version = version
        self.lazy = lazy

    def parse(self, head: bytes) -> Frame:
        """Return the frame that begins with `head`, which lacks the line end before the blank line. Raises `FrameError`."""
        self._check_sizes(head)
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            raise FrameError(f"command and headers are not UTF-8, from byte {error.start} of the frame") from None
        if "\0" in text:
            raise FrameError("a NUL stands before the blank line that ends the headers")
        if "\r" in text:
            text = self._without_returns(text)
        command, _, lines = text.partition("\n")
        if not (command.isascii() and command.isalpha() and len(command) <= _COMMAND_LENGTH_MAX):
            raise FrameError("a frame begins with what is no command of STOMP")
        if not lines:
            return Frame(command, {})
        # Lazy only where both sides speak the profile: otherwise properties are ordinary headers.
        if self.lazy:
            return self._parse_lazily(command, lines)
        return self._parse_lines(command, lines)

    def _check_sizes(self, head: bytes) -> None:
        limits, size = self.limits, len(head)
        # A head with fewer bytes than the allowed number of lines breaks no limit: this skips further checks for most.
        if size <= limits.header_line_max and size <= limits.header_count_max:
            return
        if size > limits.header_size_max:
            raise FrameLimitError("what begins a frame, its command and headers,", limits.header_size_max, "bytes")
        if head.count(b"\n") > limits.header_count_max:
            raise FrameLimitError("a frame", limits.header_count_max, "headers")
        if size > limits.header_line_max and max(map(len, head.split(b"\n"))) > limits.header_line_max:
            raise FrameLimitError("a header line", limits.header_line_max, "bytes")

    def _without_returns(self, text: str) -> str:
        if self.version in (Version.V1_0, Version.V1_1):  # here a line ends with LF alone, and a value may contain CR
            command, line_end, lines = text.partition("\n")
            return command.removesuffix("\r") + line_end + lines
        text = text.replace("\r\n", "\n").removesuffix("\r")
        if "\r" in text:
            raise FrameError(r"a header holds a carriage return; write it as \r")
        return text

    def _parse_lazily(self, command: str, lines: str) -> Frame:
        at = lines.find(_BEFORE_TAIL)
        # The tail is kept as text that is escaped as in STOMP 1.2, so other versions have none.
        if at < 0 or self.version is not Version.V1_2:
            return self._parse_lines(command, lines)
        tail = lines[at + 1 :] + "\n"
        is_sound = _escaped_lines if "\\" in tail else _named_lines
        if not is_sound(tail):
            # A fault is found now, on the sender's connection, and not by a receiver later.
            split_lines(tail, Version.V1_2)
        frame = self._parse_lines(command, lines[:at])
        frame.tail = tail
        return frame

    def _parse_lines(self, command: str, lines: str) -> Frame:
        split = lines.split("\n")
        version = None if command in UNESCAPED_COMMANDS else self.version or Version.V1_2
        if version is Version.V1_0:
            pairs = _split_slowly(split, version)
            headers = dict(pairs)
        else:
            pairs = ()
            try:
                headers = dict([line.split(":", 1) for line in split])
            except ValueError:
                raise _no_colon(split) from None
            if version is not None and "\\" in lines:
                # Two names that differ may be equal when unescaped: then each line is parsed separately.
                if len(headers) == len(split) and "\\" not in "".join(headers):
                    _unescape_values(headers, version)
                else:
                    pairs = _split_slowly(split, version)
                    headers = dict(pairs)
        if "" in headers:
            raise FrameError("a header has no name")
        if len(headers) == len(split):
            return Frame(command, headers)
        # STOMP 1.2, "Repeated Header Entries": the first one counts, and all of them are kept.
        pairs = pairs or _split_slowly(split, None)
        return Frame(command, dict(reversed(pairs)), repeated=pairs)


def _unescape_values(headers: dict[str, str], version: Version) -> None:
    escaped = [(name, value) for name, value in headers.items() if "\\" in value]
    for name, value in escaped:
        headers[name] = unescape(value, version)


def split_lines(lines: str, version: Version) -> tuple[tuple[str, str], ...]:
    """Return names and values of `lines`, each of which ends with a line end. Raises `FrameError`."""
    if not lines:
        return ()
    split = lines.removesuffix("\n").split("\n")
    if "\\" in lines or version is Version.V1_0:
        pairs = _split_slowly(split, version)
    elif _named_lines(lines):
        pairs = tuple([(name, value) for name, _, value in [line.partition(":") for line in split]])
    else:
        pairs = _split_slowly(split, None)  # which raises the error
    if any(not name for name, _ in pairs):
        raise FrameError("a header has no name")
    return pairs


def _split_slowly(lines: list[str], version: Version | None) -> tuple[tuple[str, str], ...]:
    """Return names and values; `version` None: without unescaping."""
    pairs = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise _no_colon(lines)
        if version is Version.V1_0:  # 1.0 permits trimming, as brokers did; 1.1 forbids it
            name, value = name.strip(" \t"), value.strip(" \t")
        elif version is not None and "\\" in line:
            name, value = unescape(name, version), unescape(value, version)
        pairs.append((name, value))
    return tuple(pairs)


def _no_colon(lines: list[str]) -> FrameError:
    number = next(number for number, line in enumerate(lines, 1) if ":" not in line)
    return FrameError(f"header line {number} has no colon: write NAME:VALUE")


LINE_END: Final = b"\n"
"""The broker writes it to standard clients after the NUL of a frame (STOMP 1.2, "Augmented BNF", allows it): clients of other brokers wait
for it.
"""
FRAME_END: Final = b"\0" + LINE_END
"""The end of a frame to a standard client."""

# Two separators that need no escape keep names and values apart while all are escaped in one go.
_WITHIN, _BETWEEN = "\x01", "\0"


def encode(frame: Frame, version: Version) -> bytes:
    """Return the bytes of `frame`.

    Raises `EncodingError` for a header that `version` cannot write, for a body that its content-length contradicts, and
    for one that has a NUL and no content-length.
    """
    return b"".join((encode_head(frame, version), frame.body, b"\0"))


def encode_head(frame: Frame, version: Version) -> bytes:
    """Return the bytes before the body, for a caller that writes a large body without copying it; NUL ends the frame.

    Raises as `encode`.
    """
    body, headers = frame.body, frame.headers
    if body:
        _check_body(frame)
    escaped = version is not Version.V1_0 and frame.command not in UNESCAPED_COMMANDS
    if not headers:
        lines = ""
    elif frame.repeated:
        lines = _join_slowly(frame.repeated, version if escaped else None)
    else:
        lines = _BETWEEN.join(map(_WITHIN.join, headers.items()))
        count = len(headers)
        # A separator that is also in a name or a value shows in the counts: such headers are joined one by one.
        if not (escaped and lines.count(_WITHIN) == count and lines.count(_BETWEEN) == count - 1 and "" not in headers):
            lines = _join_slowly(tuple(headers.items()), version if escaped else None)
        else:
            # The backslash first, or the backslashes of the other escapes would be escaped again.
            if "\\" in lines:
                lines = lines.replace("\\", "\\\\")
            if "\n" in lines:
                lines = lines.replace("\n", "\\n")
            if ":" in lines:
                lines = lines.replace(":", "\\c")
            if version is Version.V1_2 and "\r" in lines:
                lines = lines.replace("\r", "\\r")
            lines = lines.replace(_WITHIN, ":").replace(_BETWEEN, "\n") + "\n"
    tail = frame.tail
    # The tail is escaped as in STOMP 1.2.
    if tail and version is not Version.V1_2:
        tail = _join_slowly(split_lines(tail, Version.V1_2), version if escaped else None)
    try:
        return f"{frame.command}\n{lines}{tail}\n".encode()
    except UnicodeEncodeError:
        raise EncodingError("a header holds half of a surrogate pair, which is no UTF-8") from None


def _check_body(frame: Frame) -> None:
    length = frame.headers.get("content-length")
    if length is None:
        if b"\0" in bytes(frame.body):
            raise EncodingError(f"the body of {frame.command} has a NUL: give its content-length")
    elif length != str(len(frame.body)):
        raise EncodingError(f"the body of {frame.command} has {len(frame.body)} bytes, not {length}")


def _join_slowly(pairs: tuple[tuple[str, str], ...], version: Version | None) -> str:
    """Return header lines; `version` None: without escapes."""
    lines = []
    for name, value in pairs:
        if not name or "\0" in name or "\0" in value:
            raise EncodingError(f"no header can carry the name {name!r}, or a NUL in its value")
        if version is not None:
            lines.append(f"{escape(name, version)}:{escape(value, version)}\n")
            continue
        if ":" in name or "\n" in name or "\n" in value:
            raise EncodingError(f"STOMP cannot write the header {name!r} in this frame: nothing is escaped in it")
        lines.append(f"{name}:{value}\n")
    return "".join(lines)


def shown_id(message_id: str | None, number: str) -> str:
    """Return the header message-id of a MESSAGE: the JMSMessageID, or `number` if there is none that a header can carry.

    A sender that copied another message's headers may have put a NUL or half of a surrogate pair into it. The profile header has it in any
    case.
    """
    if not message_id or "\0" in message_id or not is_unicode(message_id):
        return number
    return message_id


# STOMP 1.2: "EOL = [CR] LF"; the blank line ends the headers.
_end_of_headers = re.compile(rb"\n\r?\n").search
# A NUL is no line end, but some clients write one too many.
_between_frames = re.compile(rb"(?:\r?\n|\0)+").match
_LF, _CR, _NUL = b"\n\r\0"
_LENGTH_DIGITS_MAX = 18
_UNTIL_NUL = -1
_NEAR = 2048
_PLAIN_MAX = 1024
_COMMAND_MAX = 40
# ASCII characters that need no escape.
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.,-:\n"


class FrameDecoder:
    """Decodes a stream of frames. One thread at a time.

    `version` is None until it is negotiated: then the rules of 1.2 hold, which CONNECT and CONNECTED follow anyway. It may be set, as
    `limits` and `lazy` may, between two events; bytes that were fed already are then decoded by the new rules.
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
        """The limits from now on."""
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
        """Whether the profile header and the lines after it stay in `Frame.tail`; in STOMP 1.2 only."""
        return self._parser.lazy

    @lazy.setter
    def lazy(self, lazy: bool) -> None:
        self._parser.lazy = lazy
        self._choose_way()

    def _choose_way(self) -> None:
        self._is_quick = self._parser.lazy and self._parser.version is Version.V1_2

    @property
    def is_between_frames(self) -> bool:
        """Whether no part of an unfinished frame is held: the stream may end here."""
        return self._frame is None and not self._head and self._at == len(self._data)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Frame | Heartbeat]:
        """Take `data`, which may be changed as soon as this returns, and iterate over the events that are now complete.

        After an unfinished iteration, `events` or the next `feed` has the rest. The iterator raises `FrameError`, `FrameLimitError` after
        the events before the fault; from then on the decoder only raises that again.
        """
        self.put(data)
        return self.events()

    def put(self, data: bytes | bytearray | memoryview) -> None:
        """Take `data` as `feed` does; `next_event` returns the events that are now complete."""
        if self._at < len(self._data):
            data = self._data[self._at :] + data
        elif self._frame is not None and self._missing > 0:
            # A body of known length goes straight to its buffer: it need not be searched.
            data = self._take_body(data)
        # Copied, as the caller may reuse its buffer at once.
        self._data = bytes(data)
        self._at = 0

    def events(self) -> Iterator[Frame | Heartbeat]:
        """Iterate over complete events that have not been returned yet. Raises as `feed`."""
        while (event := self.next_event()) is not None:
            yield event

    def next_event(self) -> Frame | Heartbeat | None:
        """Return the next complete event, or None if more bytes are needed. Raises as `feed`."""
        if self._is_quick and self._frame is None and (frame := self._plain_frame()) is not None:
            return frame
        if self._error is not None:
            raise self._error
        if self._at == len(self._data):
            return None
        try:
            return self._begin_frame() if self._frame is None else self._go_on_with_body(self._frame)
        except StompError as error:
            # After a fault the next frame cannot be found: the rest of the stream is dropped, and its memory freed.
            self._error = error
            self._data, self._at, self._frame = b"", 0, None
            self._head.clear()
            self._body = BytesIO()
            raise

    def _plain_frame(self) -> Frame | None:
        """Return the next frame if it is complete, with a short head without special cases; else None: the other methods parse it."""
        data, at = self._data, self._at
        end = data.find(b"\n\n", at, at + _PLAIN_MAX)
        # `translate` deletes the harmless bytes, in C: a head with any other byte takes the long way.
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
            # Two bytes of the blank line may be in the kept part; all bytes before them were searched already.
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
            # Several in a row are one event: any byte is a sign of life.
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
            # Also before the NUL has arrived, as such a body must not grow without a limit.
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
        """Return the length of the body. Raises `FrameError` if it is not a number, or too large."""
        if not (text.isascii() and text.isdigit()):
            raise FrameError("content-length is no number of bytes", receipt=frame.headers.get("receipt"))
        # A longer number is too large in any case, and `int` takes quadratic time for it (CVE-2020-10735).
        length = int(text) if len(text) <= _LENGTH_DIGITS_MAX else 10**_LENGTH_DIGITS_MAX
        self._check_body(length, frame)
        return length

    def _check_body(self, length: int, frame: Frame) -> None:
        limit = self._parser.limits.body_max
        if length > limit:
            raise FrameLimitError(f"the body of {frame.command}", limit, "bytes", receipt=frame.headers.get("receipt"))

    def _take_body(self, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """Take the bytes that belong to a body of known length; return the rest."""
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
