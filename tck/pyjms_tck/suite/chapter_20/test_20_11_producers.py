"""JMSProducer (20.11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms import (
    BytesMessage,
    DeliveryMode,
    IllegalArgumentException,
    InvalidDestinationRuntimeException,
    JMSContext,
    JMSRuntimeException,
    MapMessage,
    Message,
    MessageFormatException,
    MessageFormatRuntimeException,
    MessageNotWriteableRuntimeException,
    NumberFormatException,
    ObjectMessage,
    Queue,
    StreamMessage,
    TextMessage,
    UnsupportedOperationException,
)
from pyjms.spi.clock import SystemClock
from pyjms.types import Byte, Double, Float, Int, Long, Short
from pyjms_tck.checks import Checks
from pyjms_tck.environment import Waits
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_20.listening import Completions
from pyjms_tck.suite.exchange import NO_DESTINATION

CLOCK = SystemClock()
HOUR_MS = 3_600_000
OBJECT = [1, "two"]


@pytest.fixture
def take(context: JMSContext, queue: Queue, waits: Waits) -> Callable[[], Message]:
    """Receive the next message of the queue."""
    consumer = context.create_consumer(queue)

    def take() -> Message:
        message = consumer.receive(waits.something_ms)
        assert message is not None, "a message came"
        return message

    return take


Take = Callable[[], Message]


@requirement("20.11-a")
def test_20_11_a_a_producer_begins_with_the_defaults(context: JMSContext) -> None:
    changed = context.create_producer()
    changed.set_priority(7).set_delivery_mode(DeliveryMode.NON_PERSISTENT).set_property("name", "value")
    producer = context.createProducer()
    facts = (
        producer.priority,
        producer.delivery_mode,
        producer.time_to_live,
        producer.delivery_delay,
        producer.disable_message_id,
        producer.disable_message_timestamp,
        producer.jms_type,
        producer.jms_correlation_id,
        producer.jms_reply_to,
        producer.async_,
        set(producer.property_names),
    )
    assert facts == (4, DeliveryMode.PERSISTENT, 0, 0, False, False, None, None, None, None, set())


@requirement("20.11-b")
def test_20_11_b_a_producer_sends_messages(context: JMSContext, queue: Queue, take: Take) -> None:
    producer = context.create_producer()
    assert producer.send(queue, context.create_text_message("text")) is producer
    assert take().get_body(str) == "text"


BODIES: list[Any] = [
    pytest.param("text", TextMessage, "text", str, id="text", marks=requirement("20.11-c")),
    pytest.param({"a": 1, "b": "c"}, MapMessage, {"a": 1, "b": "c"}, dict, id="map", marks=requirement("20.11-d")),
    pytest.param(b"bytes", BytesMessage, b"bytes", bytes, id="bytes", marks=requirement("20.11-e")),
    pytest.param(OBJECT, ObjectMessage, OBJECT, list, id="object", marks=requirement("20.11-f")),
]


@pytest.mark.parametrize(("body", "kind", "wanted", "type_"), BODIES)
def test_20_11_a_body_makes_a_message_of_its_type(
    context: JMSContext, queue: Queue, take: Take, body: Any, kind: type[Any], wanted: Any, type_: Any
) -> None:
    producer = context.create_producer()
    assert producer.send(queue, body) is producer
    message = take()
    assert isinstance(message, kind)
    assert message.get_body(type_) == wanted


@requirement("20.11-g")
@pytest.mark.parametrize("body", ["message", "text", {"a": 1}, b"bytes", OBJECT], ids=lambda body: type(body).__name__)
def test_20_11_g_a_send_needs_a_destination(context: JMSContext, body: Any) -> None:
    sent = context.create_message() if body == "message" else body
    with pytest.raises(InvalidDestinationRuntimeException):
        context.create_producer().send(NO_DESTINATION, sent)


@requirement("20.11-h")
def test_20_11_h_a_mapping_has_entries_that_a_map_message_takes(context: JMSContext, queue: Queue) -> None:
    for mapping in ({"name": object()}, {"name": [1]}):
        with pytest.raises(MessageFormatRuntimeException):
            context.create_producer().send(queue, mapping)
    with pytest.raises((MessageFormatRuntimeException, IllegalArgumentException)):
        context.create_producer().send(queue, {"": 1})


@requirement("20.11-h")
def test_20_11_h_an_object_can_be_serialized(context: JMSContext, queue: Queue) -> None:
    with pytest.raises(MessageFormatRuntimeException):
        context.create_producer().send(queue, lambda: None)


@requirement("20.11-i")
def test_20_11_i_properties_cannot_be_set_on_a_received_message(context: JMSContext, queue: Queue, take: Take) -> None:
    producer = context.create_producer()
    producer.send(queue, "text")
    received = take()
    with pytest.raises(MessageNotWriteableRuntimeException):
        producer.set_property("name", "value").send(queue, received)


@requirement("20.11-j")
def test_20_11_j_a_send_of_a_closed_context_fails(context: JMSContext, queue: Queue) -> None:
    producer = context.create_producer()
    message = context.create_message()
    context.close()
    with pytest.raises(JMSRuntimeException):
        producer.send(queue, message)


PROPERTIES: list[tuple[str, Any, str]] = [
    ("boolean", True, "get_boolean_property"),
    ("byte", Byte(1), "get_byte_property"),
    ("short", Short(2), "get_short_property"),
    ("int", Int(3), "get_int_property"),
    ("long", Long(4), "get_long_property"),
    ("float", Float(5.5), "get_float_property"),
    ("double", Double(6.5), "get_double_property"),
    ("string", "seven", "get_string_property"),
]


@requirement("20.11-k")
def test_20_11_k_properties_are_set_on_each_message(context: JMSContext, queue: Queue, take: Take) -> None:
    producer = context.create_producer()
    for name, value, _ in PROPERTIES:
        assert producer.setProperty(name, value) is producer
    message = context.create_text_message("text")
    message.set_string_property("string", "of the message")
    message.set_string_property("own", "kept")
    for sent in (message, "text", b"bytes"):
        producer.send(queue, sent)
        received = take()
        with Checks() as check:
            for name, value, getter in PROPERTIES:
                check.gives(f"the property {name}", value, getattr(received, getter), name)
    assert message.get_string_property("own") == "kept"


@requirement("20.11-l")
@pytest.mark.parametrize("name", ["", None])
@pytest.mark.parametrize("value", [value for _, value, _ in PROPERTIES], ids=[name for name, _, _ in PROPERTIES])
def test_20_11_l_a_property_needs_a_name(context: JMSContext, name: Any, value: Any) -> None:
    with pytest.raises(IllegalArgumentException):
        context.create_producer().set_property(name, value)


@requirement("20.11-m")
def test_20_11_m_a_property_has_a_value_of_a_property(context: JMSContext) -> None:
    value: Any = object()
    with pytest.raises(MessageFormatRuntimeException):
        context.create_producer().set_property("name", value)


GETTERS = ["boolean", "byte", "short", "int", "long", "float", "double", "string"]


@requirement("20.11-n", "20.11-o")
@pytest.mark.parametrize("getter", GETTERS)
def test_20_11_n_properties_are_converted_as_those_of_messages(context: JMSContext, getter: str) -> None:
    values: list[Any] = [value for _, value, _ in PROPERTIES] + ["12", "true", "1.5", "no number"]
    method = f"get_{getter}_property"
    with Checks() as check:
        for value in values:
            producer, message = context.create_producer(), context.create_message()
            producer.set_property("name", value)
            message.set_object_property("name", value)
            what = f"{method} of {value!r}"
            try:
                wanted = getattr(message, method)("name")
            except MessageFormatException:
                check.fails(what, MessageFormatRuntimeException, getattr(producer, method), "name")
            except NumberFormatException:
                check.fails(what, NumberFormatException, getattr(producer, method), "name")
            else:
                check.gives(what, wanted, getattr(producer, method), "name")
            check.gives(f"the object of {value!r}", value, producer.get_object_property, "name")


@requirement("20.11-p")
def test_20_11_p_properties_are_told_and_cleared(context: JMSContext, queue: Queue, take: Take) -> None:
    producer = context.create_producer().set_property("one", 1).set_property("two", 2)
    assert set(producer.getPropertyNames()) == {"one", "two"}
    assert (producer.propertyExists("one"), producer.property_exists("three")) == (True, False)
    with pytest.raises((AttributeError, TypeError, UnsupportedOperationException)):
        producer.property_names.add("three")  # type: ignore[attr-defined]
    assert producer.clearProperties() is producer
    assert set(producer.property_names) == set()
    producer.send(queue, "text")
    assert take().property_exists("one") is False


HEADERS: list[tuple[str, Any]] = [("JMSCorrelationID", "correlation"), ("JMSType", "type")]


@requirement("20.11-q")
@pytest.mark.parametrize(("name", "value"), HEADERS)
def test_20_11_q_header_fields_are_set_on_each_message(
    context: JMSContext, queue: Queue, take: Take, name: str, value: str
) -> None:
    producer = context.create_producer()
    assert getattr(producer, f"set{name}")(value) is producer
    assert getattr(producer, f"get{name}")() == value
    message = context.create_text_message("text")
    getattr(message, f"set{name}")("of the message")
    producer.send(queue, message)
    assert getattr(take(), f"get{name}")() == value


@requirement("20.11-q")
def test_20_11_q_the_destination_of_replies_is_set_on_each_message(
    context: JMSContext, queue: Queue, take: Take
) -> None:
    producer = context.create_producer()
    assert producer.setJMSReplyTo(queue) is producer
    assert producer.getJMSReplyTo() == queue
    producer.send(queue, "text")
    assert take().jms_reply_to == queue


@requirement("20.11-r")
def test_20_11_r_a_correlation_id_may_be_bytes(context: JMSContext, queue: Queue, take: Take) -> None:
    producer = context.create_producer()
    assert producer.setJMSCorrelationIDAsBytes(b"bytes") is producer
    assert producer.getJMSCorrelationIDAsBytes() == b"bytes"
    producer.send(queue, "text")
    assert take().jms_correlation_id_as_bytes == b"bytes"


@requirement("20.11-s")
def test_20_11_s_sends_use_the_settings(context: JMSContext, queue: Queue, take: Take) -> None:
    producer = context.create_producer()
    assert producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT).setPriority(7).setTimeToLive(HOUR_MS) is producer
    assert (producer.getDeliveryMode(), producer.getPriority(), producer.getTimeToLive()) == (
        DeliveryMode.NON_PERSISTENT,
        7,
        HOUR_MS,
    )
    producer.send(queue, "text")
    received = take()
    facts = (received.jms_delivery_mode, received.jms_priority, received.jms_expiration - received.jms_timestamp)
    assert facts == (DeliveryMode.NON_PERSISTENT, 7, HOUR_MS)


@requirement("20.11-t")
@pytest.mark.parametrize(("method", "values"), [("setDeliveryMode", (-1, 0, 3)), ("setPriority", (-1, 10))])
def test_20_11_t_settings_have_valid_values(context: JMSContext, method: str, values: tuple[int, ...]) -> None:
    producer = context.create_producer()
    for value in values:
        with pytest.raises(JMSRuntimeException):
            getattr(producer, method)(value)


@requirement("20.11-u")
@pytest.mark.parametrize("name", ["DisableMessageID", "DisableMessageTimestamp"])
def test_20_11_u_hints_are_kept(context: JMSContext, name: str) -> None:
    producer = context.create_producer()
    assert getattr(producer, f"set{name}")(True) is producer
    assert getattr(producer, f"get{name}")() is True


@requirement("20.11-v")
def test_20_11_v_a_producer_has_a_delivery_delay(context: JMSContext) -> None:
    producer = context.create_producer()
    assert producer.getDeliveryDelay() == 0
    assert producer.setDeliveryDelay(250) is producer
    assert producer.delivery_delay == 250


@requirement("20.11-w")
def test_20_11_w_delayed_messages_come_later(context: JMSContext, queue: Queue, take: Take) -> None:
    producer = context.create_producer().set_delivery_delay(400)
    producer.send(queue, "delayed")
    producer.set_delivery_delay(0).send(queue, "at once")
    assert take().get_body(str) == "at once"
    delayed = take()
    assert delayed.get_body(str) == "delayed"
    assert CLOCK.time_ms() >= delayed.jms_delivery_time


@requirement("20.11-x")
def test_20_11_x_sends_are_asynchronous_with_a_listener(
    context: JMSContext, queue: Queue, take: Take, waits: Waits
) -> None:
    told = Completions()
    producer = context.create_producer()
    assert producer.setAsync(told) is producer
    assert producer.getAsync() is told
    producer.send(queue, "asynchronous")
    assert [message.get_body(str) for message in told.wait_for(1, waits)] == ["asynchronous"]
    assert producer.set_async(None).async_ is None
    producer.send(queue, "synchronous")
    assert [take().get_body(str) for _ in range(2)] == ["asynchronous", "synchronous"]
    assert len(told.completed) == 1


@requirement("20.11-y")
def test_20_11_y_a_received_message_can_be_sent_with_other_headers(
    context: JMSContext, queue: Queue, take: Take
) -> None:
    context.create_producer().set_property("name", "kept").set_jms_type("first").send(queue, "text")
    received = take()
    context.create_producer().set_jms_type("second").set_priority(7).send(queue, received)
    again = take()
    facts = (again.get_body(str), again.get_string_property("name"), again.jms_type, again.jms_priority)
    assert facts == ("text", "kept", "second", 7)


@requirement("20.11-z")
def test_20_11_z_none_is_no_body(context: JMSContext, queue: Queue, take: Take) -> None:
    context.create_producer().send(queue, None)
    message = take()
    assert not isinstance(message, (TextMessage, MapMessage, BytesMessage, ObjectMessage, StreamMessage))
    assert message.get_body(str) is None
