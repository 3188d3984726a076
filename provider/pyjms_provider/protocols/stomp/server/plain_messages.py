"""What clients may say of a message that they send: headers that are wrong are refused, and what the broker sets is not taken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyjms.spi.property_names import SET_BY_PROVIDERS
from pyjms_provider.core.host.sent_headers import DELIVER_AT
from pyjms_provider.core.queue.duplicates import DUPLICATE_ID
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import SequenceError
from pyjms_provider.protocols.stomp.header_lines import PROFILE_HEADER
from pyjms_provider.protocols.stomp.profile import WireProperties, from_frame

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms.types import Stored
    from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["read_plain_message", "without_provider_properties"]

_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1
_GROUP_SEQUENCE: Final = "JMSXGroupSeq"
_is_integer = re.compile(r"-?[0-9]{1,10}").fullmatch
_SETTABLE: Final = frozenset({DELIVER_AT, DUPLICATE_ID})


def read_plain_message(frame: Frame) -> Envelope:
    """Return the message of a plain client's SEND. Raises `SequenceError` for a header that is wrong, `DestinationError`."""
    headers = frame.headers
    if "priority" in headers:
        text = headers["priority"]
        if not (len(text) == 1 and "0" <= text <= "9"):
            raise SequenceError(f"priority is a number from 0 to 9, not {text[:40]!r}")
    if "expires" in headers:
        text = headers["expires"]
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= _LONG_MAX):
            raise SequenceError(f"expires is a time in milliseconds since 1970, or 0 for never, not {text[:40]!r}")
    envelope = from_frame(frame, PYJMS, keeps_headers=True)
    properties = envelope.properties
    if any(name[:3] == "JMS" for name in properties):
        envelope.properties = _permitted(properties)  # type: ignore[misc]  # nobody else has it yet
    return envelope


def _permitted(properties: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the properties without those that the broker sets. Raises `SequenceError`."""
    permitted: dict[str, Stored] = {}
    for name, value in properties.items():
        if name in SET_BY_PROVIDERS or (name.startswith(PROFILE_HEADER) and name not in _SETTABLE):
            continue
        permitted[name] = _group_sequence(value) if name == _GROUP_SEQUENCE and type(value) is str else value
    return permitted


def _group_sequence(text: str) -> int:
    if not _is_integer(text) or not -_INT_MAX - 1 <= int(text) <= _INT_MAX:
        raise SequenceError(f"{_GROUP_SEQUENCE} is a whole number of 32 bits, not {text[:40]!r}")
    return int(text)


def without_provider_properties(envelope: Envelope) -> Envelope:
    """Return a client's message without the properties that providers set, such as JMSXUserID."""
    properties = envelope.properties
    if type(properties) is WireProperties and not properties.mentions("JMSX"):
        return envelope
    if SET_BY_PROVIDERS.isdisjoint(properties):
        return envelope
    return replace(
        envelope, properties={name: value for name, value in properties.items() if name not in SET_BY_PROVIDERS}
    )
