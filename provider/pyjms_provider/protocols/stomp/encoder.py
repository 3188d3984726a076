"""Frames into bytes. The fast path looks at all headers together; what cannot be written is refused before anything is."""

from __future__ import annotations

from typing import Final

from pyjms.spi.typed_json import is_unicode
from pyjms_provider.protocols.stomp.errors import EncodingError
from pyjms_provider.protocols.stomp.escapes import UNESCAPED_COMMANDS, escape
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.header_lines import split_lines

__all__ = ["FRAME_END", "LINE_END", "encode", "encode_head", "shown_id"]

LINE_END: Final = b"\n"
"""What the broker writes to plain clients after the NUL of a frame (STOMP 1.2, "Augmented BNF", allows it): clients of other brokers wait for it."""
FRAME_END: Final = b"\0" + LINE_END
"""How a frame to a plain client ends."""

# Two separators that need no escape keep names and values apart while what needs one is replaced in all at once.
_WITHIN, _BETWEEN = "\x01", "\0"


def encode(frame: Frame, version: Version) -> bytes:
    """Return the bytes of `frame`.

    Raises `EncodingError` for a header that `version` cannot write, for a body that its content-length contradicts, and
    for one that has a NUL and no content-length.
    """
    return b"".join((encode_head(frame, version), frame.body, b"\0"))


def encode_head(frame: Frame, version: Version) -> bytes:
    """Return the bytes before the body, for who writes a large body without copying it; NUL ends the frame.

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
        if not (escaped and lines.count(_WITHIN) == count and lines.count(_BETWEEN) == count - 1 and "" not in headers):
            lines = _join_slowly(tuple(headers.items()), version if escaped else None)
        else:
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
    """Return header lines; `version` None: nothing can be escaped."""
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
    """Return the header message-id of a MESSAGE: the JMSMessageID; or `number`, where there is none, or none that a header can carry.

    Whoever kept the headers of another message may have given it a NUL or half of a surrogate pair. The header of the profile has it in any case.
    """
    if not message_id or "\0" in message_id or not is_unicode(message_id):
        return number
    return message_id
