from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import MessageNotWriteableException
from pyjms.messages.base import JmsMessage
from pyjms.messages.bodies import JmsBytesMessage, JmsMapMessage, JmsObjectMessage, JmsStreamMessage, JmsTextMessage
from pyjms.messages.destinations import JmsQueue, JmsTemporaryTopic, JmsTopic
from pyjms.messages.freeze import freeze, thaw
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Int, Stored
from tests.pyjms.messages.support import BODY_VALUES, NAMES, ORDERS, PROPERTY_VALUES, Context

DESTINATIONS = st.one_of(
    st.text(min_size=1).map(JmsQueue),
    st.text(min_size=1).map(JmsTopic),
    st.text(min_size=1).map(lambda name: JmsTemporaryTopic(Address(AddressKind.TOPIC, name, temporary=True))),
)


def text(value: str | None) -> JmsMessage:
    return JmsTextMessage(value)


def data(value: bytes) -> JmsMessage:
    message = JmsBytesMessage()
    message.write_bytes(value)
    return message


def map_(values: dict[str, Any]) -> JmsMessage:
    message = JmsMapMessage()
    for name, value in values.items():
        message.set_object(name, value)
    return message


def stream(values: list[Any]) -> JmsMessage:
    message = JmsStreamMessage()
    for value in values:
        message.write_object(value)
    return message


BODIES = st.one_of(
    st.builds(JmsMessage),
    st.builds(text, st.none() | st.text()),
    st.builds(data, st.binary()),
    st.builds(map_, st.dictionaries(st.text(min_size=1), BODY_VALUES, max_size=5)),
    st.builds(stream, st.lists(BODY_VALUES, max_size=5)),
    st.builds(JmsObjectMessage, st.none() | st.lists(st.integers())),
)


@st.composite
def messages(draw: st.DrawFn) -> JmsMessage:
    """Draw any message that a client may make."""
    message: JmsMessage = draw(BODIES)
    for name, value in draw(st.dictionaries(NAMES, PROPERTY_VALUES, max_size=4)).items():
        message.set_object_property(name, value)
    message.jms_type = draw(st.none() | st.text())
    if draw(st.booleans()):
        message.jms_correlation_id = draw(st.none() | st.text())
    else:
        message.jms_correlation_id_as_bytes = draw(st.binary())
    message.jms_reply_to = draw(st.none() | DESTINATIONS)
    return message


def facts(envelope: Envelope) -> str:
    """Return all that an envelope says, with the classes of its values; a NaN is a NaN."""
    values: list[Any] = [*envelope.properties.items(), envelope.reply_to, envelope.correlation_id, envelope.jms_type]
    body: Any = envelope.body
    values += [
        envelope.body_kind,
        *(body.items() if isinstance(body, dict) else body if isinstance(body, tuple) else [body]),
    ]
    return repr(
        [(value, [type(part) for part in value] if isinstance(value, tuple) else type(value)) for value in values]
    )


@pytest.mark.realises("BOIL-BODY-1", "BOIL-BODY-4", "BOIL-MSG-1", "BOIL-PROP-1")
@given(messages(), st.integers(1, 1000), st.booleans())
def test_any_message_arrives_and_can_be_sent_on_as_it_is(message: JmsMessage, count: int, redelivered: bool) -> None:
    envelope = freeze(message, ORDERS, MessageId("ID:1"), 5, 6, 1, 7)
    arrived = thaw(Delivery(envelope, count, redelivered, None), Context())
    assert type(arrived) is type(message)
    assert (arrived.jms_message_id, arrived.jms_timestamp, arrived.jms_expiration) == ("ID:1", 5, 6)
    assert (arrived.jms_delivery_mode, arrived.jms_priority, arrived.jms_redelivered) == (1, 7, redelivered)
    assert arrived.jms_destination == JmsQueue("orders")
    assert arrived.jms_reply_to == message.jms_reply_to
    assert arrived.jms_correlation_id_as_bytes == message.jms_correlation_id_as_bytes
    assert arrived.get_int_property("JMSXDeliveryCount") == count
    again = freeze(arrived, ORDERS, MessageId("ID:2"), 8, 9, 2, 4)
    assert facts(again) == facts(envelope)
    assert again.properties is envelope.properties
    assert again.body is envelope.body


@given(messages(), messages())
def test_an_envelope_never_changes(message: JmsMessage, other: JmsMessage) -> None:
    envelope = freeze(message, ORDERS, None, 0, 0, 2, 4)
    before = facts(envelope)
    arrived = thaw(Delivery(envelope, 1, False, None), Context())
    for each in (message, arrived):
        each.clear_properties()
        each.set_string_property("other", "x")
        change(each)
        each.jms_type = "other"
        assert facts(envelope) == before
        each.clear_body()
        assert facts(envelope) == before
        change(each)
        assert facts(envelope) == before


def change(message: JmsMessage) -> None:
    """Write into the body, if it may be written."""
    with suppress(MessageNotWriteableException):
        if isinstance(message, JmsTextMessage):
            message.text = "other"
        elif isinstance(message, JmsMapMessage):
            message.set_int("other", 1)
        elif isinstance(message, (JmsBytesMessage, JmsStreamMessage)):
            message.write_int(1)
        elif isinstance(message, JmsObjectMessage):
            message.object = "other"


@pytest.mark.realises("BOIL-BODY-5")
@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (BodyKind.NONE, None, JmsMessage),
        (BodyKind.TEXT, "x", JmsTextMessage),
        (BodyKind.BYTES, b"x", JmsBytesMessage),
        (BodyKind.MAP, {"x": 1}, JmsMapMessage),
        (BodyKind.STREAM, (1, "x"), JmsStreamMessage),
        (BodyKind.OBJECT, ObjectBody(b"N.", local=False), JmsObjectMessage),
        (1, "x", JmsTextMessage),
    ],
)
def test_an_envelope_of_any_origin_becomes_the_message_of_its_kind(
    kind: Any, body: Any, expected: type[JmsMessage]
) -> None:
    envelope = Envelope(ORDERS, None, 0, 0, 2, 4, None, None, None, {"x": Int(5)}, kind, body)
    message = thaw(Delivery(envelope, 1, False, None), Context())
    assert type(message) is expected
    assert message.get_long_property("x") == 5  # boxed by its provider: read as if it were plain


class Uncopied(dict[str, Stored]):
    """Tells what is in it, and fails who wants all of it at once."""

    def keys(self) -> Any:
        raise AssertionError("it is copied")

    __iter__ = items = values = copy = __copy__ = keys


def test_nothing_is_copied_for_a_receiver() -> None:
    properties, body = Uncopied(x=1), Uncopied(y=2)
    with pytest.raises(AssertionError, match="it is copied"):
        dict(body)
    envelope = Envelope(ORDERS, None, 0, 0, 2, 4, None, None, None, properties, BodyKind.MAP, body)
    arrivals = [thaw(Delivery(envelope, 1, False, None), Context()) for _ in range(3)]
    for each in arrivals:
        assert isinstance(each, JmsMapMessage)
        assert (each.get_int_property("x"), each.get_int("y")) == (1, 2)


def test_addresses_become_destinations_when_asked_for() -> None:
    class Counting(Context):
        asked = 0

        def destination_of(self, address: Address) -> Any:
            self.asked += 1
            return super().destination_of(address)

    context = Counting()
    reply_to = Address(AddressKind.QUEUE, "replies", temporary=True)
    envelope = Envelope(ORDERS, None, 0, 0, 2, 4, None, reply_to, None, {}, BodyKind.NONE, None)
    message = thaw(Delivery(envelope, 1, False, None), context)
    assert freeze(message, ORDERS, None, 0, 0, 2, 4).reply_to == reply_to
    assert context.asked == 0
    assert message.jms_reply_to is message.jms_reply_to
    assert message.jms_destination == JmsQueue("orders")
    assert context.asked == 2
    message.jms_reply_to = None
    assert freeze(message, ORDERS, None, 0, 0, 2, 4).reply_to is None
