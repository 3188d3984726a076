"""Messages for tests of rules, and rules from texts."""

from __future__ import annotations

import tomllib
from typing import Any

from pyjms.routing.reading import read_rules
from pyjms.routing.rules import RuleSet
from pyjms.spi import Address, AddressKind, Body, BodyKind, Envelope, MessageId


def message(body: Body = None, *, type: str | None = None, **properties: Any) -> Envelope:
    """Return a message; the kind of its body is that of `body`."""
    kinds: dict[Any, BodyKind] = {str: BodyKind.TEXT, bytes: BodyKind.BYTES, dict: BodyKind.MAP, tuple: BodyKind.STREAM}
    return Envelope(
        destination=Address(AddressKind.QUEUE, "in"),
        message_id=MessageId("ID:1"),
        timestamp_ms=1_700_000_000_000,
        expiration_ms=0,
        delivery_mode=2,
        priority=4,
        correlation_id=None,
        reply_to=None,
        jms_type=type,
        properties=properties,
        body_kind=kinds.get(body.__class__, BodyKind.NONE),
        body=body,
    )


def rules(text: str) -> RuleSet:
    """Return the rules of a TOML text."""
    return read_rules(tomllib.loads(text), text)
