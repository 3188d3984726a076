"""A consumer gets what it asked for: its selector, and no messages of its own connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyjms.history.events import Event
from pyjms.history.facts import Facts
from pyjms.history.findings import Finding, finding
from pyjms.history.notes import note_of
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.selector import compile_selector
from pyjms.types import Float, Stored

_NOWHERE = Address(AddressKind.QUEUE, "")


def check_filters(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries that the consumer had asked to be spared."""
    for event in facts.deliveries:
        begun = facts.subscribes.get(event.consumer or "")
        sent = facts.sent(event.mid)
        if begun is not None and note_of(begun).get("no_local") and sent is not None and sent.conn == event.conn:
            yield finding("no-local", [begun, sent, event], mid=event.mid, dest=event.dest)
        selector = missed_selector(event)
        if selector is not None:
            yield finding("selector", [event], mid=event.mid, dest=event.dest, selector=selector)


def missed_selector(event: Event) -> str | None:
    """Return the consumer's selector if the message that was delivered does not match it."""
    note = note_of(event)
    selector, read = note.get("selector"), _as_read(event, note)
    if isinstance(selector, str) and read is not None and not compile_selector(selector).matches(read):
        return selector
    return None


def _as_read(event: Event, note: Mapping[str, object]) -> Envelope | None:
    """Return the message as far as the selector read it; None where that was not recorded."""
    headers, properties = note.get("headers"), note.get("properties")
    if not isinstance(headers, dict) or not isinstance(properties, dict):
        return None
    return Envelope(
        destination=_NOWHERE,
        message_id=None if event.mid is None else MessageId(event.mid),
        timestamp_ms=headers.get("JMSTimestamp", 0),
        expiration_ms=event.exp or 0,
        delivery_mode=event.mode or 0,
        priority=event.prio or 0,
        correlation_id=headers.get("JMSCorrelationID"),
        reply_to=None,
        jms_type=headers.get("JMSType"),
        properties={name: _value(value) for name, value in properties.items()},
        body_kind=BodyKind.NONE,
        body=None,
    )


def _value(written: object) -> Stored:
    if not isinstance(written, list):
        return written  # type: ignore[return-value]  # text, or nothing
    kind, text = written
    if kind == "bool":
        return bool(text == "True")
    if kind in {"float", "Double"}:
        return float(text)
    return Float(float(text)) if kind == "Float" else int(text)
