"""What rules ask of one message: read when first asked for, and once. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import BodyKind, Envelope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

ABSENT: Final = object()
"""There is no such value."""
_KINDS: Final = tuple(kind.name.lower() for kind in BodyKind)
"""By `BodyKind`, which counts from 0."""
_BLANKS: Final = "\ufeff \t\r\n"
_decode: Final = json.JSONDecoder().decode  # `json.loads` looks at its options each time


class Facts:
    """One message, as rules see it."""

    __slots__ = ("_body_bytes_max", "_json", "_sender", "_sender_properties", "_xml", "envelope")

    def __init__(self, envelope: Envelope, sender_properties: Sequence[str], body_bytes_max: int) -> None:
        self.envelope = envelope
        self._sender_properties = sender_properties
        self._body_bytes_max = body_bytes_max
        self._sender: Any = ABSENT
        self._json: Any = None
        self._xml: Any = None

    @property
    def sender(self) -> str | None:
        """Who sent it; None: it does not say."""
        if self._sender is ABSENT:
            properties = self.envelope.properties
            self._sender = None
            for name in self._sender_properties:
                found = properties.get(name)
                if found is not None:
                    self._sender = str(found)
                    break
        sender: str | None = self._sender
        return sender

    @property
    def kind(self) -> str:
        """The kind of its body."""
        return _KINDS[self.envelope.body_kind]

    @property
    def json(self) -> Any:
        """The body as JSON has it; `ABSENT` if it is no JSON object or array, or too large."""
        if self._json is None:
            self._json = self._read_json()
        return self._json

    @property
    def xml(self) -> Element | None:
        """The root of the body as XML; None if it is none, has a document type, or is too large."""
        if self._xml is None:
            text = self._text("<")
            if text is None:
                self._xml = ABSENT
            else:
                from pyjms.routing.xml_body import parse_xml

                found = parse_xml(text)
                self._xml = ABSENT if found is None else found
        return None if self._xml is ABSENT else self._xml

    def _read_json(self) -> Any:
        text = self._text("{[")
        if text is None:
            return ABSENT
        try:
            return _decode(text)
        except (ValueError, RecursionError):
            return ABSENT

    def _text(self, beginnings: str) -> str | None:
        """Return the text of the body if it begins like what is wanted."""
        body = self.envelope.body
        if isinstance(body, bytes):
            if len(body) > self._body_bytes_max:
                return None
            try:
                body = body.decode()
            except UnicodeDecodeError:
                return None
        # A character is a byte at least, so this refuses nothing that the limit allows.
        if not isinstance(body, str) or len(body) > self._body_bytes_max:
            return None
        first = body[:1]
        if first and first in _BLANKS:
            body = body.lstrip(_BLANKS)
            first = body[:1]
        return body if first and first in beginnings else None
