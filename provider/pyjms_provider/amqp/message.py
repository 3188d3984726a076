"""The sections of a message (part 3, 3.2): where they are in its bytes, and their contents when somebody asks.

A broker changes the header and adds annotations; properties, application properties and body are the bare message, which reaches the
receiver as the bytes that the sender wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pyjms_provider.amqp import codec, performatives
from pyjms_provider.amqp.codec import NESTING_MAX, READERS, Reader, Symbol, ULong, as_decode_error, skip_value
from pyjms_provider.amqp.errors import DecodeError
from pyjms_provider.amqp.performatives import Header, Properties

_HEADER: Final = 0x70
_DELIVERY_ANNOTATIONS: Final = 0x71
_MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
_FOOTER: Final = 0x78
_NAMES: Final[Mapping[str, int]] = {
    "amqp:header:list": _HEADER,
    "amqp:delivery-annotations:map": _DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": _MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": _FOOTER,
}
_SHORT_KINDS: Final = frozenset({0xA0, 0xA1, 0xC0, 0xC1})
_LONG_KINDS: Final = frozenset({0xB0, 0xB1, 0xD0, 0xD1})
"""Format codes of what sections mostly have as their content: of a size of one byte, and of four."""
_u32 = struct.Struct(">I").unpack_from
SECTIONS_MAX: Final = 65_536
"""Sections of one message: the body may have any number of data or sequence sections."""


_KNOWN_MAX: Final = 512
_KNOWN_SIZE_MAX: Final = 128
_known: dict[bytes, Any] = {}
"""What short headers and annotations say, by their bytes: a flow of messages has few of them. Bounded, as clients choose them."""


class Message:
    """A message as it came. What is asked for is decoded then, and once.

    Args:
        data: all its sections.

    Raises:
        DecodeError: the sections are not those of a message, or not in their order (part 3, 3.2).
    """

    __slots__ = (
        "_application_properties",
        "_bare_end",
        "_bare_start",
        "_bodies",
        "_body",
        "_properties",
        "_sections",
        "body_kind",
        "data",
    )

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.body_kind: int | None = None
        """`DATA`, `SEQUENCE` or `VALUE`; None: the message has no body."""
        self._sections: dict[int, tuple[int, int, int]] = {}
        """By code, without the body: where the descriptor and the content are, and the end."""
        self._bodies: list[int] = []
        """Where the contents of the body's sections are."""
        self._bare_start = self._bare_end = len(data)
        self._properties: Properties | None = None
        self._application_properties: Mapping[str, Any] | None = None
        self._body: Any = _UNREAD
        try:
            self._find_sections()
        except (IndexError, struct.error) as error:
            raise as_decode_error(error) from None

    def _find_sections(self) -> None:
        data, sections, size = self.data, self._sections, len(self.data)
        at, last = 0, _HEADER - 1
        bare_start = None
        while at < size:
            start = at
            # Nearly every section has its descriptor in the short form.
            if data[at] == 0 and data[at + 1] == 0x53:
                code, value = data[at + 2], at + 3
            else:
                code, value = self._descriptor(at)
            kind = data[value]
            if kind in _SHORT_KINDS:
                at = value + 2 + data[value + 1]
            elif kind in _LONG_KINDS:
                at = value + 5 + _u32(data, value + 1)[0]
            else:
                at = skip_value(data, value)
            if at > size:
                raise DecodeError("the bytes end within a value")
            if code > last:
                is_wrong = code > _FOOTER or (last >= DATA and code <= VALUE)
            else:
                is_wrong = code != last or not DATA <= code <= SEQUENCE
            if is_wrong:
                raise DecodeError(f"a message has a section {code:#04x} where none may be")
            if PROPERTIES <= code <= VALUE:
                if bare_start is None:
                    self._bare_start = bare_start = start
                self._bare_end = at
            if DATA <= code <= VALUE:
                if len(self._bodies) >= SECTIONS_MAX:
                    raise DecodeError(f"a message has more than {SECTIONS_MAX} sections")
                self.body_kind = code
                self._bodies.append(value)
            else:
                sections[code] = start, value, at
            last = code

    def _descriptor(self, at: int) -> tuple[int, int]:
        data = self.data
        if data[at] != 0 or at + 1 >= len(data):
            raise DecodeError("a message has something that is no section")
        descriptor, value = codec.read_value(data, at + 1)
        code = (
            _NAMES.get(descriptor, 0) if type(descriptor) is Symbol else descriptor if type(descriptor) is ULong else 0
        )
        return int(code), value

    @property
    def bare(self) -> bytes:
        """The bare message: properties, application properties and body, as they came."""
        return self.data[self._bare_start : self._bare_end]

    @property
    def rest_start(self) -> int:
        """Where the message annotations begin, or else the bare message: what is behind it goes on to receivers as it came."""
        # The sections have one order: nothing is between the annotations and the bare message.
        annotations = self._sections.get(_MESSAGE_ANNOTATIONS)
        return self._bare_start if annotations is None else annotations[0]

    @property
    def record(self) -> Any:
        """The composite value that the body is, as those of messages to a coordinator are; None: it is none."""
        start = self._bodies[0] if self.body_kind == VALUE else None
        return None if start is None or self.data[start] != 0 else performatives.read(self.data, start)[0]

    @property
    def header(self) -> Header:
        """The header; without one, its defaults."""
        section = self._sections.get(_HEADER)
        return _NO_HEADER if section is None else self._often(section, self._read_record)

    @property
    def delivery_annotations(self) -> Mapping[str, Any]:
        """The delivery annotations, which are for the next hop alone."""
        section = self._sections.get(_DELIVERY_ANNOTATIONS)
        return _NOTHING if section is None else self._often(section, self._read_map)

    @property
    def message_annotations(self) -> Mapping[str, Any]:
        """The message annotations."""
        section = self._sections.get(_MESSAGE_ANNOTATIONS)
        return _NOTHING if section is None else self._often(section, self._read_map)

    @property
    def properties(self) -> Properties:
        """The properties; without the section, none of them is set."""
        found = self._properties
        if found is None:
            section = self._sections.get(PROPERTIES)
            found = self._properties = Properties() if section is None else self._read_record(section)
        return found

    @property
    def application_properties(self) -> Mapping[str, Any]:
        """The application properties."""
        found = self._application_properties
        if found is None:
            section = self._sections.get(_APPLICATION_PROPERTIES)
            found = self._application_properties = _NOTHING if section is None else self._read_map(section)
        return found

    def named_properties(self, readers: Mapping[int, Reader]) -> dict[str, Any] | None:
        """Return the application properties by `codec.read_named`; None: not all of them can be read so."""
        section = self._sections.get(_APPLICATION_PROPERTIES)
        return {} if section is None else codec.read_named(self.data, section[1], readers)

    @property
    def body(self) -> Any:
        """The body: bytes of all data sections, a list of all sequences' items, or the value."""
        if self._body is _UNREAD:
            self._body = self._read_body()
        return self._body

    def _read_body(self) -> Any:
        kind = self.body_kind
        if kind is None:
            return None
        if kind == VALUE:
            return self._value(self._bodies[0])
        values = [self._value(each) for each in self._bodies]
        if not all(isinstance(each, bytes if kind == DATA else list) for each in values):
            raise DecodeError("the body of a message is not what its section says")
        if kind == DATA:
            return values[0] if len(values) == 1 else b"".join(values)
        return [item for each in values for item in each]

    def _often(self, section: tuple[int, int, int], read: Callable[[tuple[int, int, int]], Any]) -> Any:
        """Return what a section says that comes again with many messages; nobody may change it."""
        data = self.data[section[0] : section[2]]
        found = _known.get(data)
        if found is None:
            found = read(section)
            if len(data) <= _KNOWN_SIZE_MAX:
                if len(_known) >= _KNOWN_MAX:
                    _known.clear()
                _known[data] = found
        return found

    def _read_record(self, section: tuple[int, int, int]) -> Any:
        return performatives.read(self.data, section[0])[0]

    def _read_map(self, section: tuple[int, int, int]) -> Mapping[str, Any]:
        value = self._value(section[1])
        if not isinstance(value, dict):
            raise DecodeError("a section of annotations or properties is no map")
        return MappingProxyType(value)

    def _value(self, at: int) -> Any:
        try:
            return READERS[self.data[at]](self.data, at + 1, NESTING_MAX)[0]
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise as_decode_error(error) from None


_UNREAD: Final = object()
_NO_HEADER: Final = Header()
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_PREFIXES: Final = tuple(b"\x00\x53" + bytes((code,)) for code in range(256))


def write_section(code: int, value: bytes) -> bytes:
    """Return a section; `value` is its content, as it is written."""
    return _PREFIXES[code] + value


def write_annotations(annotations: Mapping[str, Any]) -> bytes:
    """Return the section of message annotations."""
    return write_section(
        _MESSAGE_ANNOTATIONS, codec.write_map({Symbol(key): value for key, value in annotations.items()})
    )


def write_delivery_annotations(annotations: Mapping[str, Any]) -> bytes:
    """Return the section of delivery annotations."""
    return write_section(
        _DELIVERY_ANNOTATIONS, codec.write_map({Symbol(key): value for key, value in annotations.items()})
    )


def write_application_properties(properties: Mapping[str, Any]) -> bytes:
    """Return the section of application properties."""
    return write_section(_APPLICATION_PROPERTIES, codec.write_named(properties))
