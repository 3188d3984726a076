"""The values of a message that rules check: each is read at its first use, and once. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import BodyKind, Envelope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

ABSENT: Final = object()
"""The message has no such value."""
_KINDS: Final = tuple(kind.name.lower() for kind in BodyKind)
"""By `BodyKind`, which counts from 0."""
DEPTH_MAX: Final = 200
"""More deeply nested XML is not worth routing; and a path with `//` would visit each element once a level."""
_BLANKS: Final = "\ufeff \t\r\n"
_decode: Final = json.JSONDecoder().decode  # `json.loads` checks its options at each call


class Facts:
    """One message, for rules."""

    __slots__ = ("_body_bytes_max", "_json", "_sender", "_sender_properties", "_xml", "envelope")

    def __init__(self, envelope: Envelope, sender_properties: Sequence[str], body_bytes_max: int) -> None:
        self.envelope = envelope
        self._sender_properties = sender_properties
        self._body_bytes_max = body_bytes_max
        self._sender: Any = ABSENT
        # None means not read yet: JSON's null is no object or array, so no body is None.
        self._json: Any = None
        self._xml: Any = None

    @property
    def sender(self) -> str | None:
        """The sender; None if the message does not say."""
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
        """The body as JSON; `ABSENT` if it is no JSON object or array, or too large."""
        if self._json is None:
            self._json = self._read_json()
        return self._json

    @property
    def xml(self) -> Element | None:
        """The root of the body as XML; None if it is no XML, has a document type, or is too large."""
        if self._xml is None:
            text = self._text("<")
            if text is None:
                self._xml = ABSENT
            else:
                found = _parse_xml(text)
                self._xml = ABSENT if found is None else found
        return None if self._xml is ABSENT else self._xml

    def _read_json(self) -> Any:
        text = self._text("{[")
        if text is None:
            return ABSENT
        try:
            return _decode(text)
        # Deep nesting raises RecursionError, which would end the route; such a body is none for rules.
        except (ValueError, RecursionError):
            return ABSENT

    def _text(self, beginnings: str) -> str | None:
        """Return the text of the body if it begins with one of `beginnings`."""
        body = self.envelope.body
        if isinstance(body, bytes):
            # Checked before decoding: one large body must not stop the route for all others.
            if len(body) > self._body_bytes_max:
                return None
            try:
                body = body.decode()
            except UnicodeDecodeError:
                return None
        # A character is at least a byte, so this refuses nothing that the limit allows.
        if not isinstance(body, str) or len(body) > self._body_bytes_max:
            return None
        first = body[:1]
        # Most bodies begin with their bracket; only others are copied to strip blanks and a byte order mark.
        if first and first in _BLANKS:
            body = body.lstrip(_BLANKS)
            first = body[:1]
        return body if first and first in beginnings else None


def _parse_xml(text: str) -> Element | None:
    """Return the root of a document; None if it is not well formed, nested too deeply, or has a document type."""
    # Imported late: only rules that look into XML bodies need the extra `routing`.
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        # A document type may define entities that expand to gigabytes.
        root: Element = fromstring(text, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, UnicodeError):
        return None
    level, depth = [root], 1
    # Level by level and not recursively, as a deep document would reach Python's limit.
    while level := [child for each in level for child in each]:
        depth += 1
        if depth > DEPTH_MAX:
            return None
    return root


def read_pointer(text: str) -> tuple[str, ...]:
    """Return the steps of a JSON Pointer. Raises ValueError with the correct notation."""
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON Pointer: it begins with a slash, as /customer/country does")
    steps = text.split("/")[1:]
    for step in steps:
        if any(not part.startswith(("0", "1")) for part in step.split("~")[1:]):
            raise ValueError(f"{text!r} is no JSON Pointer: write ~0 for ~, and ~1 for / in a name")
    # In this order, or ~01 would become a slash (RFC 6901 §4).
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)
