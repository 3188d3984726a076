"""The frame of an ordinary message between pyjms and its own broker, made in one piece.

It says what the frame of `to_frame` says, with the headers in another order, at a third of the price; what is out of the ordinary (a name or a value
that needs an escape, a profile header of several parts, an id of somebody else's making) is left to those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pyjms.spi.envelope import Address, BodyKind, Envelope
from pyjms.types import Byte, Double, Float, Int, Long, Short, Stored
from pyjms_provider.protocols.stomp.destinations import EXACT_PATHS
from pyjms_provider.protocols.stomp.escapes import escape
from pyjms_provider.protocols.stomp.frames import Version
from pyjms_provider.protocols.stomp.header_lines import PROFILE_HEADER
from pyjms_provider.protocols.stomp.profile.bodies import (
    BYTES_TYPE,
    MAP_TYPE,
    OBJECT_TYPE,
    STREAM_TYPE,
    TEXT_TYPE,
    write_body,
)
from pyjms_provider.protocols.stomp.profile.header import VERSION
from pyjms_provider.protocols.stomp.profile.properties import TEXTS, WireProperties, write_properties

__all__ = ["QuickFrame", "quick_frame"]

_PERSISTENT: Final = 2
_PLAIN_MAX: Final = 4096
_KNOWN_MAX: Final = 1024
_SHAPE_MAX: Final = 64
_plain_id = re.compile(r"ID:[A-Za-z0-9_.\-:]*").fullmatch
_plain_header = re.compile(r"[A-Za-z0-9_$.\-]{1,128}").fullmatch
_needs_care = re.compile("[\0\n\r:\\\\\ud800-\udfff]").search
_BETWEEN: Final = "\x01"

_MARKED: Final = "amq-msg-type:text\n"
_CONTENT_TYPES: Final[Mapping[str | None, str]] = {
    None: "",
    **{each: f"content-type:{each}\n" for each in (TEXT_TYPE, BYTES_TYPE, MAP_TYPE, STREAM_TYPE, OBJECT_TYPE)},
}

_Write = Callable[[Any], str]
_Shape = tuple[str, tuple[_Write, ...], str]

_destinations: dict[Address, str] = {}
_answers: dict[Address, str] = {}
_shapes: dict[tuple[object, ...], _Shape] = {}
_writers: Mapping[type, _Write] = {
    str: str,
    **{kind: TEXTS[kind] for kind in (bool, Byte, Short, int, Int, Long, Float, float, Double)},
}


class QuickFrame(NamedTuple):
    """A frame in parts, between which other header lines may stand, escaped and each with its line end."""

    common: str
    """The command, and what many messages have in common: the parser knows such a block by heart."""
    own: str
    """What is this message's own."""
    tail: str
    """The profile header and the properties, with the blank line."""
    body: bytes


def quick_frame(command: str, envelope: Envelope) -> QuickFrame | None:
    """Return the frame of a message; None: it is out of the ordinary. Raises as `to_frame`."""
    message_id, properties = envelope.message_id, envelope.properties
    if message_id is None or not _plain_id(message_id):
        return None
    if type(properties) is WireProperties:
        lines, types = properties.lines, properties.types
    else:
        found = _property_lines(properties)
        if found is None:
            return None
        lines, types = found
    optional = _optional(envelope)
    if optional is None or len(types) > _PLAIN_MAX or len(message_id) > _PLAIN_MAX:
        return None
    body = write_body(envelope.body_kind, envelope.body)
    typed = f";p={types}" if types else ""
    is_text = envelope.body_kind is BodyKind.TEXT and body.content_type != BYTES_TYPE
    return QuickFrame(
        f"{command}\n{_destinations.get(envelope.destination) or _known_line(_destinations, 'destination', envelope.destination)}"
        f"persistent:{'true' if envelope.delivery_mode == _PERSISTENT else 'false'}\npriority:{envelope.priority}\n"
        f"{_CONTENT_TYPES[body.content_type]}{_MARKED if is_text else ''}",
        f"expires:{envelope.expiration_ms}\n{optional}content-length:{len(body.data)}\n",
        f"{PROFILE_HEADER}:{VERSION};k={body.kind};i={message_id.replace(':', '%3A')}{typed}\n{lines}\n",
        body.data,
    )


def _optional(envelope: Envelope) -> str | None:
    """Return the lines that not every message has; None: they are out of the ordinary."""
    lines = f"timestamp:{envelope.timestamp_ms}\n" if envelope.timestamp_ms else ""
    correlation_id, jms_type = envelope.correlation_id, envelope.jms_type
    if correlation_id is not None:
        if type(correlation_id) is not str:
            return None
        if _needs_care(correlation_id):  # most are the ids of other messages, with colons
            correlation_id = correlation_id.replace(":", "\\c")
            if "\\" in envelope.correlation_id or _needs_care(correlation_id.replace("\\c", "")):  # type: ignore[operator]  # str
                return None
        lines += f"correlation-id:{correlation_id}\n"
    if envelope.reply_to is not None:
        lines += _answers.get(envelope.reply_to) or _known_line(_answers, "reply-to", envelope.reply_to)
    if jms_type is not None:
        if _needs_care(jms_type):
            return None
        lines += f"type:{jms_type}\n"
    return lines


def _known_line(known: dict[Address, str], header: str, address: Address) -> str:
    line = f"{header}:{escape(EXACT_PATHS.write_reply_to(address), Version.V1_2)}\n"
    if len(known) >= _KNOWN_MAX:
        known.clear()
    known[address] = line
    return line


def _property_lines(properties: Mapping[str, Stored]) -> tuple[str, str] | None:
    """Return the lines of properties and the list of their types; None: there is one that is out of the ordinary.

    Messages of one kind have properties of the same names and types, for which all but the values is known.
    """
    if not properties:
        return "", ""
    values = properties.values()
    key = (*properties, *map(type, values))
    shape = _shapes.get(key)
    if shape is None:
        shape = _new_shape(key, properties)
        if shape is None:
            return None
    pattern, writers, types = shape
    texts = [write(value) for write, value in zip(writers, values, strict=True)]
    if _needs_care(_BETWEEN.join(texts)):
        return None
    return pattern % tuple(texts), types


def _new_shape(key: tuple[object, ...], properties: Mapping[str, Stored]) -> _Shape | None:
    writers = tuple([_writers.get(type(value)) for value in properties.values()])
    names = list(properties)
    if len(names) > _SHAPE_MAX or None in writers or not all(_plain_header(name) for name in names):
        return None
    pairs, types = write_properties(properties, Version.V1_2)
    if [name for name, _ in pairs] != names or any(_needs_care(text) for _, text in pairs):
        return None  # one of them travels under another name, or in another form
    shape: _Shape = ("".join([f"{name}:%s\n" for name in names]), writers, types)  # type: ignore[assignment]
    if len(_shapes) >= _KNOWN_MAX:
        _shapes.clear()
    _shapes[key] = shape
    return shape
