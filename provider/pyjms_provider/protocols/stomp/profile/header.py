"""The profile header itself: ``1;k=map;i=ID%3A7;…``, split where it is long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import quote

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.header_lines import PROFILE_HEADER
from pyjms_provider.protocols.stomp.profile.names import quoted, unquoted

__all__ = ["ProfileHeader", "address_text", "join_parts", "parse", "quoted_id", "read_address", "split_parts"]

VERSION = "1"
_PART_MAX = 8 * 1024
"""Characters, all of them ASCII, of one header's value."""
_PARTS_MAX = 10_000
_plain_id = re.compile(r"ID:[A-Za-z0-9_.\-:]*").fullmatch
_LETTERS = {
    (AddressKind.QUEUE, False): "q",
    (AddressKind.TOPIC, False): "t",
    (AddressKind.QUEUE, True): "Q",
    (AddressKind.TOPIC, True): "T",
}
_ADDRESSES = {letter: kind for kind, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class ProfileHeader:
    """Its fields, percent-decoded when they are asked for."""

    fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def text(self, key: str) -> str | None:
        """Return a field, or None. Raises `ProfileError`."""
        value = self.fields.get(key)
        if value is None or "%" not in value:
            return value
        if value.count("%") == value.count("%3A"):  # message ids have colons, and nothing else
            return value.replace("%3A", ":")
        try:
            return unquoted(value)
        except ValueError as error:
            raise ProfileError(f"field {key!r} of {PROFILE_HEADER} is not percent-encoded UTF-8") from error

    def number(self, key: str, least: int, most: int) -> int | None:
        """Return a field, or None. Raises `ProfileError` for what is no number from `least` to `most`."""
        value = self.fields.get(key)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 19 and least <= int(value) <= most):
            raise ProfileError(f"field {key!r} of {PROFILE_HEADER} is no number from {least} to {most}")
        return int(value)

    def address(self, key: str) -> Address | None:
        """Return a field, or None. Raises `ProfileError`."""
        value = self.fields.get(key)
        return None if value is None else read_address(value)


def parse(text: str) -> ProfileHeader:
    """Return the header that `text` writes. Raises `ProfileError`; fields that are not known are left alone."""
    version, *pairs = text.split(";")
    if version != VERSION:
        raise ProfileError(f"version {version[:9]!r} of the pyjms profile is not known: {VERSION} is")
    try:
        return ProfileHeader(dict([pair.split("=", 1) for pair in pairs]))
    except ValueError:
        raise ProfileError(f"{PROFILE_HEADER} has a field without '='") from None


def split_parts(text: str) -> list[tuple[str, str]]:
    """Return the headers that carry `text`: one, or more where it is long."""
    if len(text) <= _PART_MAX:
        return [(PROFILE_HEADER, text)]
    parts = [text[at : at + _PART_MAX] for at in range(0, len(text), _PART_MAX)]
    return [
        (PROFILE_HEADER if number == 0 else f"{PROFILE_HEADER}_{number}", part) for number, part in enumerate(parts)
    ]


def join_parts(first: str, headers: Mapping[str, str]) -> str:
    """Return what `split_parts` was given; `first` is the value of the profile header, `headers` has the others."""
    parts = [first]
    while len(parts) < _PARTS_MAX and (part := headers.get(f"{PROFILE_HEADER}_{len(parts)}")) is not None:
        parts.append(part)
    return "".join(parts)


def quoted_id(text: str) -> str:
    """Return a JMSMessageID as `quoted` does, at a lower price for ordinary ones."""
    return text.replace(":", "%3A") if _plain_id(text) else quoted(text)


def address_text(address: Address) -> str:
    """Return for instance ``q/orders``: q and t are queues and topics, Q and T temporary ones."""
    return f"{_LETTERS[address.kind, address.temporary]}/{quote(address.name, safe='/._-$', errors='surrogatepass')}"


def read_address(text: str) -> Address:
    """Return the destination that `address_text` wrote. Raises `ProfileError`."""
    kind = _ADDRESSES.get(text[:1])
    if kind is None or text[1:2] != "/" or len(text) == 2:
        raise ProfileError(f"{text[:40]!r} is no destination of the profile: write q/NAME, t/NAME, Q/NAME or T/NAME")
    try:
        return Address(kind[0], unquoted(text[2:]), kind[1])
    except ValueError as error:
        raise ProfileError("the name of a destination is not percent-encoded UTF-8") from error
