"""The head of a frame, complete and in one piece, taken apart: command, header names and values."""

from __future__ import annotations

import re

from pyjms_provider.protocols.stomp.errors import FrameError, FrameLimitError
from pyjms_provider.protocols.stomp.escapes import UNESCAPED_COMMANDS, unescape
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.limits import Limits

__all__ = ["PROFILE_HEADER", "HeaderParser", "split_lines"]

PROFILE_HEADER = "JMS_pyjms"
"""The header that carries what plain STOMP cannot say of a message; its properties come after it."""

_BEFORE_TAIL = f"\n{PROFILE_HEADER}:"
_COMMAND_LENGTH_MAX = 40
_named_lines = re.compile(r"(?:[^:\n]+:.*\n)*+").fullmatch
# The same with nothing escaped but as STOMP 1.2 has it.
_escaped_lines = re.compile(
    r"(?:(?!:)[^:\n\\]*+(?:\\[rnc\\][^:\n\\]*+)*+:[^\n\\]*+(?:\\[rnc\\][^\n\\]*+)*+\n)*+"
).fullmatch


class HeaderParser:
    """Takes heads apart by the rules of `version`; None stands for 1.2."""

    def __init__(self, limits: Limits, version: Version | None, *, lazy: bool) -> None:
        self.limits = limits
        self.version = version
        self.lazy = lazy

    def parse(self, head: bytes) -> Frame:
        """Return the frame that `head` begins, without the line end before the blank line. Raises `FrameError`."""
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
        if self.lazy:
            return self._parse_lazily(command, lines)
        return self._parse_lines(command, lines)

    def _check_sizes(self, head: bytes) -> None:
        limits, size = self.limits, len(head)
        if size <= limits.header_line_max and size <= limits.header_count_max:
            return
        if size > limits.header_size_max:
            raise FrameLimitError("what begins a frame, its command and headers,", limits.header_size_max, "bytes")
        if head.count(b"\n") > limits.header_count_max:
            raise FrameLimitError("a frame", limits.header_count_max, "headers")
        if size > limits.header_line_max and max(map(len, head.split(b"\n"))) > limits.header_line_max:
            raise FrameLimitError("a header line", limits.header_line_max, "bytes")

    def _without_returns(self, text: str) -> str:
        if self.version in (Version.V1_0, Version.V1_1):  # there a line ends with LF alone, and CR may be in a value
            command, line_end, lines = text.partition("\n")
            return command.removesuffix("\r") + line_end + lines
        text = text.replace("\r\n", "\n").removesuffix("\r")
        if "\r" in text:
            raise FrameError(r"a header holds a carriage return; write it as \r")
        return text

    def _parse_lazily(self, command: str, lines: str) -> Frame:
        at = lines.find(_BEFORE_TAIL)
        if at < 0 or self.version is not Version.V1_2:
            return self._parse_lines(command, lines)
        tail = lines[at + 1 :] + "\n"
        is_sound = _escaped_lines if "\\" in tail else _named_lines
        if not is_sound(tail):
            split_lines(tail, Version.V1_2)  # what is wrong with it is found here, not by who gets it later
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
                if len(headers) == len(split) and "\\" not in "".join(headers):
                    _unescape_values(headers, version)
                else:
                    pairs = _split_slowly(split, version)
                    headers = dict(pairs)
        if "" in headers:
            raise FrameError("a header has no name")
        if len(headers) == len(split):
            return Frame(command, headers)
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
        pairs = _split_slowly(split, None)  # which says what is wrong
    if any(not name for name, _ in pairs):
        raise FrameError("a header has no name")
    return pairs


def _split_slowly(lines: list[str], version: Version | None) -> tuple[tuple[str, str], ...]:
    """Return names and values; `version` None: nothing is escaped in them."""
    pairs = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise _no_colon(lines)
        if version is Version.V1_0:  # 1.1 forbids what 1.0 leaves open, and brokers did: to trim
            name, value = name.strip(" \t"), value.strip(" \t")
        elif version is not None and "\\" in line:
            name, value = unescape(name, version), unescape(value, version)
        pairs.append((name, value))
    return tuple(pairs)


def _no_colon(lines: list[str]) -> FrameError:
    number = next(number for number, line in enumerate(lines, 1) if ":" not in line)
    return FrameError(f"header line {number} has no colon: write NAME:VALUE")
