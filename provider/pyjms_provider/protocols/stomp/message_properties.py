"""Tells properties of the application from headers of STOMP, of a broker and of this project; and encodes properties as lines.

Received properties stay lines until one is accessed: a broker that only passes a message on never parses them (`WireProperties`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any
from urllib.parse import quote, unquote

from pyjms.spi.typed_values import LETTERS, READERS, base64_of_text, double_text, float_text
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored
from pyjms_provider.protocols.stomp.codec import PROFILE_HEADER, split_lines
from pyjms_provider.protocols.stomp.errors import FrameError, ProfileError
from pyjms_provider.protocols.stomp.frames import Version

ALIAS_PREFIX = f"{PROFILE_HEADER}_x_"
"""The prefix of the header of a property that cannot travel under its own name."""

RESERVED = frozenset(
    # STOMP itself
    "accept-version ack content-length content-type destination heart-beat host id login message message-id passcode "
    "receipt receipt-id selector server session subscription transaction version "
    # JMS's header fields
    "correlation-id expires persistent priority redelivered reply-to timestamp type "
    # ActiveMQ Classic
    "amq-msg-type browser client-id retain scheduledJobId transformation transformation-custom transformation-error "
    # ActiveMQ Artemis
    "amqMessageId consumer-window-size destination-type durable-subscription-name durable-subscriber-name "
    "filter no-local routing-type subscription-type "
    # RabbitMQ
    "amqp-message-id app-id auto-delete cluster-id content-encoding durable exclusive expiration nowait "
    "prefetch-count requeue user-id "
    # this project
    f"delivery-count {PROFILE_HEADER}".split()
)
_OF_FRAMES = "ack browser content-length destination message-id receipt redelivered subscription transaction"
_OF_HEADER_FIELDS = "correlation-id expires persistent priority reply-to timestamp type"
SET_BY_PROTOCOL = frozenset(_OF_FRAMES.split() + _OF_HEADER_FIELDS.split())
"""The headers of SEND and MESSAGE that our broker sets or interprets. All others of a standard client are passed on unchanged."""

_RESERVED_BEGINNINGS = re.compile(rf"x-|activemq\.|_+AMQ_|{PROFILE_HEADER}_(?:x_|\d+\Z)").match
_plain_name = re.compile(r"[A-Za-z0-9_$.]+").fullmatch
_UNQUOTED = "$_.-"


def is_reserved(name: str) -> bool:
    """Return whether a header `name` is not a property of an application."""
    return name in RESERVED or _RESERVED_BEGINNINGS(name) is not None


_of_profile = re.compile(rf"{PROFILE_HEADER}(?:_(?:x_.*|\d+))?", re.DOTALL).fullmatch


def is_of_profile(name: str) -> bool:
    """Return whether a header `name` is the profile header, a part of it, or an alias of a property."""
    return name.startswith(PROFILE_HEADER) and _of_profile(name) is not None


def alias_of(name: str) -> str | None:
    """Return the header under which the property `name` must travel; None: under its own name."""
    if not is_reserved(name) and (_plain_name(name) or (name.isprintable() and _travels(name))):
        return None
    return ALIAS_PREFIX + quoted(name)


def _travels(name: str) -> bool:
    return bool(name) and not any(character in ":\\ " for character in name)


def name_of_alias(header: str) -> str:
    """Return the property that travels as `header`, which begins with `ALIAS_PREFIX`."""
    return unquoted(header[len(ALIAS_PREFIX) :])


def quoted(text: str) -> str:
    """Return `text` percent-encoded, without any character that is special in STOMP or in the profile header."""
    return text if _plain_name(text) else quote(text, safe=_UNQUOTED, errors="surrogatepass")


def unquoted(text: str) -> str:
    """Return the decoded text of `quoted`. Raises `ValueError` if it is not UTF-8."""
    return unquote(text, errors="surrogatepass") if "%" in text else text


_log = logging.getLogger(__name__)

TEXTS: Mapping[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    Byte: int.__repr__,
    Short: int.__repr__,
    int: int.__repr__,
    Int: int.__repr__,
    Long: int.__repr__,
    Float: float_text,
    float: double_text,
    Double: double_text,
}
_READERS = {letter: read for letter, read in READERS.items() if letter != "X"}
"""No property is bytes (JMS 1.1 §3.5.4): one that an untrusted client lists as such could be neither stored nor sent on."""
_unsafe = {
    # 1.0 has no escapes and is trimmed; \r has no escape in 1.1. NUL and surrogates can never be carried.
    Version.V1_0: re.compile("[\0\n\r\ud800-\udfff]|^[ \t]|[ \t]$").search,
    Version.V1_1: re.compile("[\0\r\ud800-\udfff]").search,
    Version.V1_2: re.compile("[\0\ud800-\udfff]").search,
}
_headers: dict[str, tuple[str, str]] = {}
_HEADERS_MAX = 4096
_NAME_LENGTH_MAX = 128
"""The caches of names are bounded in number and length, as untrusted clients choose the names."""


def _header_of(name: str) -> tuple[str, str]:
    """Return the header under which property `name` travels, and its name in the list of types."""
    known = _headers.get(name)
    if known is None:
        known = alias_of(name) or name, quoted(name)
        if len(_headers) >= _HEADERS_MAX:
            _headers.clear()
        if len(name) <= _NAME_LENGTH_MAX:
            _headers[name] = known
    return known


def write_properties(properties: Mapping[str, Stored], version: Version) -> tuple[list[tuple[str, str]], str]:
    """Return names and values of the headers that carry `properties`, and the list of their types.

    Raises `ProfileError` for a value that no message may have.
    """
    headers: list[tuple[str, str]] = []
    types: list[str] = []
    unsafe = _unsafe[version]
    for name, value in properties.items():
        header, listed = _headers.get(name) or _header_of(name)
        kind = type(value)
        if kind is str:
            if unsafe(value):  # type: ignore[arg-type]
                headers.append((header, base64_of_text(value)))  # type: ignore[arg-type]
                types.append(listed + "/U")
                continue
            headers.append((header, value))  # type: ignore[arg-type]
            if header != name:
                types.append(listed + "/T")
            continue
        letter = LETTERS.get(kind)
        to_text = TEXTS.get(kind)
        if to_text is not None:
            headers.append((header, to_text(value)))
        elif kind is Char:
            if unsafe(value):  # type: ignore[arg-type]
                letter, value = "K", str(ord(value))  # type: ignore[arg-type]  # noqa: PLW2901
            headers.append((header, str(value)))
        elif value is not None:
            raise ProfileError(f"property {name!r} is a {kind.__name__}, which no property can be")
        types.append(f"{listed}/{letter}")
    return headers, ",".join(types)


def travels(text: str, version: Version) -> bool:
    """Return whether a header of `version` can carry `text` unchanged."""
    return _unsafe[version](text) is None


def plain_properties(properties: Mapping[str, Stored], version: Version) -> dict[str, str]:
    """Return the properties for clients that do not know the profile: as text, without those that plain headers cannot carry."""
    headers = {}
    unsafe, names = _unsafe[version], _plain_headers[version]
    for name, value in properties.items():
        is_plain = names.get(name)
        if is_plain is None:
            is_plain = _is_plain_header(name, version)
        if not is_plain or value is None:
            continue
        text: str = value if type(value) is str else TEXTS.get(type(value), str)(value)
        if unsafe(text) is None:
            headers[name] = text
    return headers


_plain_headers: dict[Version, dict[str, bool]] = {version: {} for version in Version}


def _is_plain_header(name: str, version: Version) -> bool:
    """Return whether `name` can be a header of a standard client's MESSAGE beside those that the broker sets; results are cached."""
    can_stand = bool(name) and travels(name, version) and not (version is Version.V1_0 and ":" in name)
    is_plain = can_stand and name not in SET_BY_PROTOCOL and not is_of_profile(name)
    known = _plain_headers[version]
    if len(known) >= _HEADERS_MAX:
        known.clear()
    if len(name) <= _NAME_LENGTH_MAX:
        known[name] = is_plain
    return is_plain


def read_properties(headers: Iterable[tuple[str, str]], types: str) -> dict[str, Stored]:
    """Return the properties that `headers` carry; reserved headers are left out.

    Raises `ProfileError` when a value does not have the type that `types` lists for it.
    """
    values: dict[str, Stored] = {}
    for header, text in headers:
        name = _names[header] if header in _names else _name_of(header)
        # The first one counts, as with all repeated headers.
        if name is not None and name not in values:
            values[name] = text
    for name, letter in _known_types.get(types) or _types_of(types):
        try:
            values[name] = None if letter == "N" else _READERS[letter](values[name])  # type: ignore[arg-type]
        except (KeyError, ValueError, TypeError) as error:
            raise ProfileError(f"property {name[:60]!r} is not of its type {letter[:9]!r}") from error
    return values


_names: dict[str, str | None] = {}
_known_types: dict[str, tuple[tuple[str, str], ...]] = {}
_TYPES_MAX = 512
_TYPES_LENGTH_MAX = 1024


def _name_of(header: str) -> str | None:
    """Return the property that `header` carries, or None."""
    if header.startswith(ALIAS_PREFIX):
        name: str | None = _unquoted(header, name_of_alias)
    else:
        name = None if is_reserved(header) else header
    if len(_names) >= _HEADERS_MAX:
        _names.clear()
    if len(header) <= _NAME_LENGTH_MAX:
        _names[header] = name
    return name


def _types_of(types: str) -> tuple[tuple[str, str], ...]:
    """Return the names and letters of a list of types. Raises `ProfileError`."""
    pairs = []
    for entry in types.split(",") if types else ():
        listed, _, letter = entry.rpartition("/")
        pairs.append((_unquoted(listed, unquoted), letter))
    if len({name for name, _ in pairs}) < len(pairs):
        raise ProfileError("a property has two types")
    if len(types) <= _TYPES_LENGTH_MAX:
        if len(_known_types) >= _TYPES_MAX:
            _known_types.clear()
        _known_types[types] = tuple(pairs)
    return tuple(pairs)


def _unquoted(text: str, read: Callable[[str], str]) -> str:
    try:
        return read(text)
    except ValueError as error:
        raise ProfileError("the name of a property is not percent-encoded UTF-8") from error


_plain_names: set[object] = set()


def _is_plain(name: object) -> bool:
    """Return whether a name needs no escape; some such names are cached."""
    is_plain = isinstance(name, str) and name.isidentifier() and name.isascii()
    if is_plain and len(_plain_names) < _TYPES_MAX:
        _plain_names.add(name)
    return is_plain


_Shape = tuple[tuple[str, Callable[[str], Any]], ...]
_shapes: dict[tuple[str, ...], _Shape | None] = {}
"""By the names of properties and the list of their types: the properties to convert; None: they need the long way."""


def _read_by_shape(lines: str, types: str) -> dict[str, Stored] | None:
    """Return the properties of lines that have one colon each; None: they must be parsed one by one."""
    flat = lines[:-1].replace("\n", ":").split(":")
    values: dict[str, Any] = dict(zip(flat[::2], flat[1::2], strict=False))
    if 2 * len(values) != len(flat):
        return None  # a name is repeated, or there are no lines
    key = (*values, types)
    shape = _shapes[key] if key in _shapes else _new_shape(key)
    if shape is None:
        return None
    try:
        for name, read in shape:
            values[name] = read(values[name])
    except (ValueError, TypeError):
        # Parsing them one by one finds the wrong one.
        return None
    return values


def _new_shape(key: tuple[str, ...]) -> _Shape | None:
    names = key[:-1]
    try:
        pairs = _types_of(key[-1])
    except ProfileError:
        # A wrong list of types takes the long way: parsing one by one finds the error.
        pairs = (("", ""),)
    is_ordinary = all(_name_of(name) == name for name in names) and all(
        name in names and letter in _READERS and letter != "N" for name, letter in pairs
    )
    shape = tuple([(name, _READERS[letter]) for name, letter in pairs]) if is_ordinary else None
    # Bounded in number and in length, as untrusted clients choose the names.
    if sum(map(len, key)) <= _TYPES_LENGTH_MAX:
        if len(_shapes) >= _TYPES_MAX:
            _shapes.clear()
        _shapes[key] = shape
    return shape


class WireProperties(Mapping[str, Stored]):
    """Properties as received: lines, escaped as in STOMP 1.2, and the list of their types.

    They are parsed on the first access. An error is logged, and they are then strings, as foreign properties are. Safe to use from any
    thread.
    """

    __slots__ = ("_at", "_text", "_values", "types")

    def __init__(self, lines: str, types: str, at: int = 0) -> None:
        """`lines` has them from index `at` on; the last one may lack its line end."""
        self._text = lines
        self._at = at
        self.types = types
        self._values: dict[str, Stored] | None = None

    @property
    def lines(self) -> str:
        """The lines alone, each with its line end."""
        lines = self._text[self._at :]
        return lines if not lines or lines[-1] == "\n" else lines + "\n"

    @property
    def values_by_name(self) -> dict[str, Stored]:
        """The properties; not to be changed."""
        values = self._values
        # Without a lock: two threads that parse at once get equal results, and either is kept.
        if values is None:
            values = self._values = self._read()
        return values

    def _read(self) -> dict[str, Stored]:
        lines = self.lines
        if "\\" not in lines and lines.count(":") == lines.count("\n"):
            # nothing is escaped, and each line has one colon
            found = _read_by_shape(lines, self.types)
            if found is not None:
                return found
        try:
            pairs = split_lines(lines, Version.V1_2)
        except FrameError as error:
            _log.warning("the properties of a message are lost: %s", error.reason)
            return {}
        try:
            return read_properties(pairs, self.types)
        except ProfileError as error:
            _log.warning("the properties of a message are taken as strings: %s", error.reason)
            # Reversed, so that the first of repeated headers counts.
            return {name: value for name, value in reversed(pairs) if not is_reserved(name)}

    def keys(self) -> KeysView[str]:
        return self.values_by_name.keys()

    def values(self) -> ValuesView[Stored]:
        return self.values_by_name.values()

    def items(self) -> ItemsView[str, Stored]:
        return self.values_by_name.items()

    def __getitem__(self, name: str) -> Stored:
        return self.values_by_name[name]

    def __contains__(self, name: object) -> bool:
        # Mostly a text search is enough: a broker checks every message for names that few have. Such a name needs no escape, so
        # it would be in the text.
        if (
            self._values is None
            and (name in _plain_names or _is_plain(name))
            and name not in self._text  # type: ignore[operator]  # plain names are strings
            and name not in self.types  # type: ignore[operator]
        ):
            return False
        return name in self.values_by_name

    def mentions(self, text: str) -> bool:
        """Return whether `text`, which needs no escape, may be in a name; it may also be in a value only."""
        return text in self._text or text in self.types

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def get(self, name: str, default: Any = None) -> Any:
        return self.values_by_name.get(name, default)

    def __repr__(self) -> str:
        return f"WireProperties({self.values_by_name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return WireProperties, (self.lines, self.types)
