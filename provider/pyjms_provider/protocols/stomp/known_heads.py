"""Heads of messages as pyjms itself writes them, taken apart by one look at what is their own.

Messages of one producer, or to one consumer, begin with the same lines: command, destination, delivery mode, session. Such a block is
taken apart once and then known by heart. What follows it stands in one order, which one regular expression reads. A head
that is otherwise in any way is left to `HeaderParser`, which says what is wrong with it, or understands it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from pyjms_provider.protocols.stomp.errors import FrameError
from pyjms_provider.protocols.stomp.escapes import unescape
from pyjms_provider.protocols.stomp.frames import Frame, Version

__all__ = ["OWN_NAMES", "Block", "KnownFrame", "KnownHeads"]

_BLOCK_MAX: Final = 1024
_BLOCKS_MAX: Final = 256
_MESSAGE: Final = "MESSAGE\n"
_COMMANDS: Final = frozenset({"MESSAGE", "SEND"})

OWN_NAMES: Final = (
    *("ack", "message-id", "expires", "timestamp", "correlation-id", "reply-to", "type", "content-length", "receipt"),
)
"""Headers that a message has for itself, in their order."""

# Values may be escaped, as STOMP 1.2 says; without possessive quantifiers a hostile head would be looked at again and again.
_VALUE = r"([^\n\\]*+(?:\\[rnc\\][^\n\\]*+)*+)\n"
_own = re.compile(
    rf"(?:\nack:([0-9]{{1,18}}+)\nmessage-id:{_VALUE[:-2]})?\nexpires:([0-9]{{1,18}}+)\n"
    rf"(?:timestamp:([0-9]{{1,18}}+)\n)?(?:correlation-id:{_VALUE})?(?:reply-to:{_VALUE})?(?:type:{_VALUE})?"
    rf"content-length:([0-9]{{1,9}}+)\n(?:receipt:{_VALUE})?"
    r"JMS_pyjms:1;k=([a-z0]++);i=((?:[^%;\n\\]++|%3A)*+)(?:;p=([^;\n]*+))?(?!\nJMS_pyjms_1:)((?:\n[^:\n]++:.*)*+)\Z"
).match


class Block:
    """What many heads begin with."""

    __slots__ = ("command", "headers", "lines", "meaning")

    def __init__(self, command: str, lines: str, headers: dict[str, str]) -> None:
        self.command = command
        self.lines = lines
        """Without the command."""
        self.headers = headers
        """Not to be changed."""
        self.meaning: object = None
        """What a reader has made of it."""


class KnownFrame(Frame):
    """A frame that begins with a known block. Its headers are put together when somebody asks for them."""

    __slots__ = ("_headers", "block", "own")

    def __init__(self, block: Block, own: re.Match[str]) -> None:
        """`own`: the groups are the values of `OWN_NAMES`, then the profile's `k`, `i` and `p`, then all property lines."""
        self.command = block.command
        self.body = b""
        self.repeated = ()
        self.block = block
        self.own = own
        self._headers: dict[str, str] | None = None

    @property
    def headers(self) -> dict[str, str]:  # type: ignore[override]  # made when it is asked for, and then as ever
        found = self._headers
        if found is None:
            found = self._headers = dict(self.block.headers)
            for name, value in zip(OWN_NAMES, self.own.groups(), strict=False):
                if value is not None:
                    found[name] = unescape(value, Version.V1_2) if "\\" in value else value
        return found

    @property
    def tail(self) -> str:  # type: ignore[override]  # as above
        own = self.own
        return own.string[own.start(10) - len("JMS_pyjms:1;k=") :] + "\n"

    @property
    def first_headers(self) -> Mapping[str, str]:
        return self.block.headers

    @property
    def ack(self) -> str | None:
        return self.own[1]

    @property
    def receipt(self) -> str | None:
        if self._headers is not None:  # somebody may have changed it
            return self._headers.get("receipt")
        text: str | None = self.own[9]
        return unescape(text, Version.V1_2) if text is not None and "\\" in text else text

    @property
    def head_bytes(self) -> int:
        return len(self.own.string)

    def __eq__(self, other: object) -> bool:
        return _fields(self) == _fields(other) if isinstance(other, Frame) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as that of a frame


def _fields(frame: Frame) -> tuple[object, ...]:
    return frame.command, frame.headers, frame.body, frame.repeated, frame.tail


class KnownHeads:
    """The blocks of one connection."""

    __slots__ = ("_blocks", "_check_lines", "_parse")

    def __init__(self, parse: Callable[[str, str], Frame], check_lines: Callable[[str], object]) -> None:
        """`parse` takes lines apart that are not known; `check_lines` looks at lines that have escapes. Both raise `FrameError`."""
        self._parse = parse
        self._check_lines = check_lines
        self._blocks: dict[str, Block] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def read(self, head: str) -> KnownFrame | None:
        """Return the frame; None: it is out of the ordinary. Raises `FrameError` for property lines that are wrong."""
        at = head.find("\nack:" if head.startswith(_MESSAGE) else "\nexpires:")
        if not 0 < at <= _BLOCK_MAX:
            return None
        own = _own(head, at)
        if own is None:
            return None
        block = self._blocks.get(head[:at]) or self._learn(head[:at])
        if block is None:
            return None
        if "\\" in own[13]:
            self._check_lines(own[13][1:] + "\n")
        return KnownFrame(block, own)

    def _learn(self, text: str) -> Block | None:
        command, _, lines = text.partition("\n")
        if command not in _COMMANDS:
            return None
        try:
            frame = self._parse(command, lines)
        except FrameError:  # is said of the whole
            return None
        if frame.repeated or not frame.headers.keys().isdisjoint(OWN_NAMES):
            return None
        if len(self._blocks) >= _BLOCKS_MAX:
            self._blocks.clear()
        block = self._blocks[text] = Block(command, lines, frame.headers)
        return block
