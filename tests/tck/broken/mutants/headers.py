"""Header fields: what send sets, what the client sets, and what arrives."""

from __future__ import annotations

from collections.abc import Iterator

from tests.tck.broken.mutation import Mutant, body, edit, mutant

__all__ = ["MUTANTS"]

_SEND = "pyjms.runtime.producer:JmsMessageProducer._send"
_THAW = "pyjms.messages.freeze:thaw"
_FREEZE = "pyjms.messages.freeze:freeze"
_FIELDS = "pyjms.messages.base:HeaderFields."
_SENT = _FIELDS + "mark_sent"


def _setters() -> Iterator[Mutant]:
    fields = (
        ("3.4.1-b", "jms_destination"),
        ("3.4.2-b", "jms_delivery_mode"),
        ("3.4.3-d", "jms_message_id"),
        ("3.4.4-c", "jms_timestamp"),
        ("3.4.7-c", "jms_redelivered"),
        ("3.4.9-e", "jms_expiration"),
        ("3.4.10-c", "jms_priority"),
        ("3.4.5-a", "jms_correlation_id"),
        ("3.4.5-b", "jms_correlation_id_as_bytes"),
        ("3.4.6-a", "jms_reply_to"),
        ("3.4.8-a", "jms_type"),
    )
    for id, field in fields:
        # Its getter forgets; to change a setter in place, both halves of the property would need a name.
        yield mutant(id, f"{field} reads as None", body(f"{_FIELDS}{field}", "return None"))
    for id, field in fields[:7]:
        yield mutant(
            f"{id} 3.10-a",
            f"{field} of a received message is fixed",
            edit(f"{_FIELDS}{field}.fset", "self._", "if self._context is not None: return\n    self._"),
        )


MUTANTS = (
    *_setters(),
    mutant("3.4.1-a", "send leaves JMSDestination alone", edit(_SENT, "self._destination = destination", "pass")),
    mutant("3.4.1-a", "JMSDestination does not arrive", edit(_THAW, "envelope.destination", "None")),
    mutant(
        "3.4.2-a",
        "send takes the delivery mode from the message",
        edit(_SEND, "expiration, mode, pri", "expiration, own._delivery_mode, pri"),
    ),
    mutant("3.4.2-a", "the receiver always sees PERSISTENT", edit(_THAW, "envelope.delivery_mode", "2")),
    mutant(
        "3.4.3-a",
        "message ids do not begin with ID:",
        edit("pyjms.runtime.session:JmsSession.next_message_id", "self._id_prefix", "self._id_prefix[3:]"),
    ),
    mutant(
        "3.4.3-b",
        "all messages of a session have the same id",
        edit("pyjms.runtime.session:JmsSession.next_message_id", "str(next(self._numbers))", "'1'"),
    ),
    mutant(
        "3.4.3-c",
        "send keeps a message id that the client has set",
        edit(_SEND, "session.next_message_id()", "(own._message_id or session.next_message_id())"),
    ),
    mutant(
        "3.4.3-e",
        "without message ids the id is the text none",
        edit(_SEND, "None if self._disable_message_id", "'none' if self._disable_message_id"),
    ),
    mutant("3.4.4-a", "JMSTimestamp is in seconds", edit(_SEND, "else now_ms\n", "else now_ms // 1000\n")),
    mutant(
        "3.4.4-b",
        "send keeps a timestamp that the client has set",
        edit(_SEND, "else now_ms\n", "else own._timestamp or now_ms\n"),
    ),
    mutant("3.4.4-d", "without timestamps the timestamp is -1", edit(_SEND, "timestamp = 0 if", "timestamp = -1 if")),
    mutant("3.4.5-a", "JMSCorrelationID does not travel", edit(_THAW, "envelope.correlation_id", "None")),
    mutant(
        "3.4.5-a",
        "JMSCorrelationID arrives in lower case",
        edit(_THAW, "envelope.correlation_id", "(envelope.correlation_id and envelope.correlation_id.lower())"),
    ),
    mutant(
        "3.4.5-b",
        "JMSCorrelationID as bytes is not copied",
        edit(
            _FIELDS + "jms_correlation_id_as_bytes.fset",
            'copy_bytes(correlation_id, "header field", "JMSCorrelationID")',
            "correlation_id",
        ),
    ),
    mutant(
        "3.4.6-a",
        "JMSReplyTo does not travel",
        edit(_THAW, "message._reply_to = envelope.reply_to", "message._reply_to = None"),
    ),
    mutant("3.4.7-a 3.4.7-b", "JMSRedelivered is always true", edit(_THAW, "delivery.redelivered", "True")),
    mutant("3.4.7-a 4.4.11-b", "JMSRedelivered is never set", edit(_THAW, "delivery.redelivered", "False")),
    mutant(
        "3.4.7-b",
        "JMSRedelivered travels with the message",
        edit(
            _FREEZE,
            "message._settable = NO_NAMES",
            "message._settable = NO_NAMES\n    message._correlation_id = 'REDELIVERED' if message._redelivered else message._correlation_id",
        ),
        edit(_THAW, "delivery.redelivered", "delivery.redelivered or envelope.correlation_id == 'REDELIVERED'"),
    ),
    mutant(
        "3.4.8-a", "JMSType does not travel", edit(_THAW, "message._type = envelope.jms_type", "message._type = None")
    ),
    mutant(
        "3.4.8-a",
        "a JMSType of None becomes the empty text",
        edit(_THAW, "message._type = envelope.jms_type", "message._type = envelope.jms_type or ''"),
    ),
    mutant("3.4.9-a", "send does not show JMSExpiration", edit(_SENT, "self._expiration = expiration_ms", "pass")),
    mutant(
        "3.4.9-b",
        "the receiver sees a time-to-live for JMSExpiration",
        edit(_THAW, "envelope.expiration_ms", "max(0, envelope.expiration_ms - envelope.timestamp_ms)"),
    ),
    mutant(
        "3.4.9-c",
        "a message without time-to-live expires after a day",
        edit(_SEND, "if time_to_live else 0", "if time_to_live else now_ms + 86400000"),
    ),
    mutant(
        "3.4.9-d",
        "send keeps a JMSExpiration that the client has set",
        edit(_SEND, "if time_to_live else 0", "if time_to_live else own._expiration"),
    ),
    mutant(
        "3.4.9-f 3.4.9-g",
        "messages do not expire",
        body("pyjms_provider.core.queue.scheduled_messages:is_expired", "return False"),
        body("pyjms_provider.core.queue.scheduled_messages:ExpiryIndex.take_expired", "return []"),
    ),
    mutant(
        "3.4.10-a",
        "send takes the priority from the message",
        edit(
            _SEND,
            "expiration, mode, priority, deliver_at)\n    if",
            "expiration, mode, own._priority, deliver_at)\n    if",
        ),
    ),
    mutant("3.4.10-a", "the receiver does not see the priority", edit(_THAW, "envelope.priority", "4")),
    mutant("3.4.10-b", "priority 9 is refused", edit("pyjms.runtime.producer:check_priority", "<= 9", "<= 8")),
    mutant("3.4.10-b", "priorities above 4 become 4", edit(_THAW, "envelope.priority", "min(4, envelope.priority)")),
    mutant(
        "3.10-a",
        "JMSType of a received message is fixed",
        edit(_FIELDS + "jms_type.fset", "self._type", "if self._context is not None: return\n    self._type"),
    ),
    mutant(
        "3.10-b",
        "clear_body lets properties be written too",
        edit(
            "pyjms.messages.base:JmsMessage.clear_body",
            "self._body_read_only = False",
            "self._body_read_only = False\n    self._properties_read_only = False",
        ),
    ),
    mutant(
        "3.10-b",
        "clear_properties lets the body be written too",
        edit(
            "pyjms.messages.base:Properties.clear_properties",
            "self._properties_read_only = False",
            "self._properties_read_only = False\n    self._body_read_only = False",
        ),
    ),
    mutant(
        "3.10-c",
        "a delivery that is repeated shows the client's changes",
        edit("pyjms.messages.base:Properties.clear_properties", "self._properties = {}", "self._properties.clear()"),
    ),
    mutant(
        "3.4.10-d",
        "urgent messages come last",
        edit(
            "pyjms_provider.core.message.reference:MessageReference.__init__",
            "self.priority = priority",
            "self.priority = 9 - priority",
        ),
    ),
)
