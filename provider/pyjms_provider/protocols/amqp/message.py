"""The sections of a message (part 3, 3.2): where they are in its bytes, and their contents when somebody asks.

A broker changes the header and adds annotations; properties, application properties and body are the bare message, which reaches the
receiver as the bytes that the sender wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyjms_provider.protocols.amqp import codec, performatives
from pyjms_provider.protocols.amqp.codec import NESTING_MAX, READERS, Symbol, as_decode_error, skip_value
from pyjms_provider.protocols.amqp.errors import DecodeError
from pyjms_provider.protocols.amqp.performatives import Header, Properties

_HEADER: Final = 0x70
_DELIVERY_ANNOTATIONS: Final = 0x71
_MESSAGE_ANNOTATIONS: Final = 0x72
_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
_FOOTER: Final = 0x78
_NAMES: Final[Mapping[str, int]] = {
    "amqp:header:list": _HEADER,
    "amqp:delivery-annotations:map": _DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": _MESSAGE_ANNOTATIONS,
    "amqp:properties:list": _PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": _FOOTER,
}
_BODIES: Final = (DATA, SEQUENCE, VALUE)
SECTIONS_MAX: Final = 65_536
"""Sections of one message: the body may have any number of data or sequence sections."""


@dataclass(frozen=True, slots=True)
class _Section:
    code: int
    start: int
    """Where its descriptor is."""
    value: int
    """Where its content is."""
    end: int


class Message:
    """A message as it came. What is asked for is decoded then, and once.

    Args:
        data: all its sections.

    Raises:
        DecodeError: the sections are not those of a message, or not in their order (part 3, 3.2).
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._sections: dict[int, _Section] = {}
        self._body: list[_Section] = []
        self._bare_start = self._bare_end = len(data)
        self._find_sections()

    def _find_sections(self) -> None:
        data, at, last, size = self.data, 0, _HEADER - 1, len(self.data)
        bare_start = bare_end = None
        while at < size:
            start = at
            # Nearly every section has its descriptor in the short form.
            if data[at : at + 2] == b"\x00\x53" and at + 3 < size:
                code, value = data[at + 2], at + 3
            else:
                code, value = self._descriptor(at)
            at = skip_value(data, value)
            is_next_body = code == last and code in (DATA, SEQUENCE)
            if (
                not _HEADER <= code <= _FOOTER
                or (code <= last and not is_next_body)
                or (code in _BODIES and last in _BODIES and code != last)
            ):
                raise DecodeError(f"a message has a section {code:#04x} where none may be")
            section = _Section(code, start, value, at)
            if code in _BODIES:
                if len(self._body) >= SECTIONS_MAX:
                    raise DecodeError(f"a message has more than {SECTIONS_MAX} sections")
                self._body.append(section)
            else:
                self._sections[code] = section
            if _PROPERTIES <= code <= VALUE:
                bare_start = start if bare_start is None else bare_start
                bare_end = at
            last = code
        if bare_start is not None and bare_end is not None:
            self._bare_start, self._bare_end = bare_start, bare_end

    def _descriptor(self, at: int) -> tuple[int, int]:
        data = self.data
        if data[at] != 0 or at + 1 >= len(data):
            raise DecodeError("a message has something that is no section")
        descriptor, value = codec.read_value(data, at + 1)
        code = (
            _NAMES.get(descriptor, 0)
            if type(descriptor) is Symbol
            else descriptor
            if isinstance(descriptor, int)
            else 0
        )
        return int(code), value

    @property
    def bare(self) -> bytes:
        """The bare message: properties, application properties and body, as they came."""
        return self.data[self._bare_start : self._bare_end]

    @cached_property
    def header(self) -> Header:
        """The header; without one, its defaults."""
        return self._record(_HEADER) or Header()

    @cached_property
    def delivery_annotations(self) -> Mapping[str, Any]:
        """The delivery annotations, which are for the next hop alone."""
        return self._map(_DELIVERY_ANNOTATIONS)

    @cached_property
    def message_annotations(self) -> Mapping[str, Any]:
        """The message annotations."""
        return self._map(_MESSAGE_ANNOTATIONS)

    @cached_property
    def properties(self) -> Properties:
        """The properties; without the section, none of them is set."""
        return self._record(_PROPERTIES) or Properties()

    @cached_property
    def application_properties(self) -> Mapping[str, Any]:
        """The application properties."""
        return self._map(_APPLICATION_PROPERTIES)

    @property
    def body_kind(self) -> int | None:
        """`DATA`, `SEQUENCE` or `VALUE`; None: the message has no body."""
        return self._body[0].code if self._body else None

    @cached_property
    def body(self) -> Any:
        """The body: bytes of all data sections, a list of all sequences' items, or the value."""
        kind = self.body_kind
        if kind is None:
            return None
        values = [self._value(section) for section in self._body]
        if kind == VALUE:
            return values[0]
        if not all(isinstance(each, bytes if kind == DATA else list) for each in values):
            raise DecodeError("the body of a message is not what its section says")
        if kind == DATA:
            return values[0] if len(values) == 1 else b"".join(values)
        return [item for each in values for item in each]

    def _value(self, section: _Section) -> Any:
        try:
            return READERS[self.data[section.value]](self.data, section.value + 1, NESTING_MAX)[0]
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise as_decode_error(error) from None

    def _record(self, code: int) -> Any:
        section = self._sections.get(code)
        return None if section is None else performatives.read(self.data, section.start)[0]

    def _map(self, code: int) -> Mapping[str, Any]:
        section = self._sections.get(code)
        value = {} if section is None else self._value(section)
        if not isinstance(value, dict):
            raise DecodeError("a section of annotations or properties is no map")
        return value


def write_section(code: int, value: bytes) -> bytes:
    """Return a section; `value` is its content, as it is written."""
    return b"\x00\x53" + bytes((code,)) + value


def write_annotations(annotations: Mapping[str, Any]) -> bytes:
    """Return the section of message annotations."""
    return write_section(
        _MESSAGE_ANNOTATIONS, codec.write_map({Symbol(key): value for key, value in annotations.items()})
    )


def write_application_properties(properties: Mapping[str, Any]) -> bytes:
    """Return the section of application properties."""
    return write_section(_APPLICATION_PROPERTIES, codec.write_map(properties))
