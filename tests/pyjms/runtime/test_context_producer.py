"""Producers of contexts: bodies, options, properties and header fields (JMS 2.0 §7.2 to §7.10)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from threading import Condition, get_ident
from types import MappingProxyType
from typing import Any

import pytest

import pyjms
from pyjms import (
    BytesMessage,
    CompletionListener,
    ConnectionFactory,
    DeliveryMode,
    IllegalArgumentException,
    IllegalStateRuntimeException,
    InvalidDestinationRuntimeException,
    JMSContext,
    JMSProducer,
    JMSRuntimeException,
    MapMessage,
    Message,
    MessageFormatRuntimeException,
    MessageNotWriteableRuntimeException,
    NumberFormatException,
    ObjectMessage,
    ResourceAllocationRuntimeException,
    TextMessage,
    UnsupportedOperationException,
)
from pyjms.testing import Fault, Faults, VirtualClock
from pyjms.types import Byte, Double, Float, Int, Long, Short
from tests.pyjms.runtime.contexts import received, received_texts
from tests.pyjms.runtime.helpers import PATIENCE_S, text_of

# ------------------------------------------------------------------------------------------------------------- bodies


def test_each_body_is_sent_as_its_type_of_message(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    producer = each_context.create_producer()
    sent = producer.send(queue, "tea").send(queue, {"cups": 2, "milk": None}).send(queue, b"abc").send(queue, [1, 2])
    assert sent is producer
    assert producer.send(queue, each_context.create_text_message("made")) is producer
    consumer = each_context.create_consumer(queue)
    text, map_, bytes_, object_, made = (received(consumer) for _ in range(5))
    assert isinstance(text, TextMessage)
    assert text.text == "tea"
    assert isinstance(map_, MapMessage)
    assert {name: map_.get_object(name) for name in map_.map_names} == {"cups": 2, "milk": None}
    assert isinstance(bytes_, BytesMessage)
    assert bytes_.get_body(bytes) == b"abc"
    assert isinstance(object_, ObjectMessage)
    assert object_.object == [1, 2]
    assert isinstance(made, TextMessage)
    assert made.text == "made"


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [
        ("", str, ""),
        (b"", bytes, b""),
        (bytearray(b"ab"), bytes, b"ab"),
        (memoryview(b"ab"), bytes, b"ab"),
        ({}, dict, {}),
        (MappingProxyType({"a": Byte(1)}), dict, {"a": 1}),
        (OrderedDict(a=b"x"), dict, {"a": b"x"}),
        (5, int, 5),
        (True, bool, True),
        ((1, "a"), tuple, (1, "a")),
    ],
)
def test_a_body_comes_as_it_was_sent(context: JMSContext, body: object, kind: type, value: object) -> None:
    queue = context.create_queue("orders")
    context.create_producer().send(queue, body)
    assert context.create_consumer(queue).receive_body(kind, 1000) == value


def test_none_is_sent_as_a_message_without_a_body(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    each_context.create_producer().set_property("cups", 2).send(queue, None)
    message = received(each_context.create_consumer(queue))
    assert not isinstance(message, (TextMessage, BytesMessage, MapMessage, ObjectMessage))
    assert message.get_int_property("cups") == 2


def test_the_arguments_have_names(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    producer: Any = context.create_producer()
    message = context.create_text_message("a")
    producer.send(destination=queue, message=message).send(queue, message=message)
    producer.send(destination=queue, body="b").send(queue, body="c").send(body="d", destination=queue)
    assert received_texts(context.create_consumer(queue), 5) == ["a", "a", "b", "c", "d"]
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ((), {}),
        ((queue,), {}),
        ((queue, "a", "b"), {}),
        ((queue, "a"), {"message": message}),
        ((queue,), {"message": message, "body": "a"}),
        ((queue, "a"), {"priority": 4}),
        ((queue, "a"), {"destination": queue}),
    ]
    for arguments, named in wrong:
        with pytest.raises(TypeError):
            producer.send(*arguments, **named)


def test_a_received_message_may_be_sent_again(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    consumer = context.create_consumer(queue)
    context.create_producer().send(queue, "tea")
    context.create_producer().set_jms_type("again").send(queue, received(consumer))
    assert received(consumer).jms_type == "again"


# -------------------------------------------------------------------------------------------------------- exceptions


@pytest.mark.parametrize("wrong", [None, "orders", 5])
def test_a_wrong_destination_is_named(each_context: Any, wrong: Any) -> None:
    producer = each_context.create_producer()
    for body in ("tea", {"a": 1}, b"x", [1], None, each_context.create_message()):
        with pytest.raises(InvalidDestinationRuntimeException):
            producer.send(wrong, body)


@pytest.mark.parametrize(
    "wrong", [{"": 1}, {None: 1}, {5: 1}, {"a": object()}, {"a": [1]}, {"a": 1 << 70}, lambda: None]
)
def test_a_body_that_no_message_can_have_is_named(context: JMSContext, wrong: Any) -> None:
    with pytest.raises(MessageFormatRuntimeException):
        context.create_producer().send(context.create_queue("orders"), wrong)


@pytest.mark.parametrize("wrong", [None, "tea", 5])
def test_what_is_no_message_is_named(context: Any, wrong: Any) -> None:
    with pytest.raises(MessageFormatRuntimeException):
        context.create_producer().send(context.create_queue("orders"), message=wrong)


def test_properties_do_not_go_on_a_read_only_message(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    producer = each_context.create_producer().set_property("cups", 1)
    consumer = each_context.create_consumer(queue)
    producer.send(queue, "tea")
    message = received(consumer)
    with pytest.raises(MessageNotWriteableRuntimeException) as caught:
        producer.set_property("cups", 2).send(queue, message)
    assert isinstance(caught.value.__cause__, pyjms.MessageNotWriteableException)
    assert consumer.receive_no_wait() is None
    message.clear_properties()
    producer.send(queue, message)
    assert received(consumer).get_int_property("cups") == 2
    # Header fields can always be set.
    producer.clear_properties().set_jms_type("order").send(queue, message)
    assert received(consumer).jms_type == "order"


def test_a_send_that_the_provider_refuses_is_a_run_time_exception(
    jms_faults: Faults, jms_connection_factory: ConnectionFactory
) -> None:
    with jms_connection_factory.create_context() as context:
        jms_faults.inject(Fault.SEND_REFUSED)
        with pytest.raises(ResourceAllocationRuntimeException) as caught:
            context.create_producer().send(context.create_queue("orders"), "tea")
        assert caught.value.error_code
        assert isinstance(caught.value.getCause(), pyjms.ResourceAllocationException)


CALLS: dict[str, Any] = {
    "send": lambda producer: producer.send(None, "tea"),
    "disable_message_id": lambda producer: producer.disable_message_id,
    "set_disable_message_id": lambda producer: producer.set_disable_message_id(True),
    "disable_message_timestamp": lambda producer: producer.disable_message_timestamp,
    "set_disable_message_timestamp": lambda producer: producer.set_disable_message_timestamp(True),
    "delivery_mode": lambda producer: producer.delivery_mode,
    "set_delivery_mode": lambda producer: producer.set_delivery_mode(1),
    "priority": lambda producer: producer.priority,
    "set_priority": lambda producer: producer.set_priority(1),
    "time_to_live": lambda producer: producer.time_to_live,
    "set_time_to_live": lambda producer: producer.set_time_to_live(1),
    "delivery_delay": lambda producer: producer.delivery_delay,
    "set_delivery_delay": lambda producer: producer.set_delivery_delay(1),
    "async_": lambda producer: producer.async_,
    "set_async": lambda producer: producer.set_async(None),
    "set_property": lambda producer: producer.set_property("cups", 1),
    "clear_properties": lambda producer: producer.clear_properties(),
    "property_exists": lambda producer: producer.property_exists("cups"),
    "get_boolean_property": lambda producer: producer.get_boolean_property("cups"),
    "get_byte_property": lambda producer: producer.get_byte_property("cups"),
    "get_short_property": lambda producer: producer.get_short_property("cups"),
    "get_int_property": lambda producer: producer.get_int_property("cups"),
    "get_long_property": lambda producer: producer.get_long_property("cups"),
    "get_float_property": lambda producer: producer.get_float_property("cups"),
    "get_double_property": lambda producer: producer.get_double_property("cups"),
    "get_string_property": lambda producer: producer.get_string_property("cups"),
    "get_object_property": lambda producer: producer.get_object_property("cups"),
    "property_names": lambda producer: producer.property_names,
    "jms_correlation_id_as_bytes": lambda producer: producer.jms_correlation_id_as_bytes,
    "set_jms_correlation_id_as_bytes": lambda producer: producer.set_jms_correlation_id_as_bytes(b"x"),
    "jms_correlation_id": lambda producer: producer.jms_correlation_id,
    "set_jms_correlation_id": lambda producer: producer.set_jms_correlation_id("x"),
    "jms_type": lambda producer: producer.jms_type,
    "set_jms_type": lambda producer: producer.set_jms_type("x"),
    "jms_reply_to": lambda producer: producer.jms_reply_to,
    "set_jms_reply_to": lambda producer: producer.set_jms_reply_to(None),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_producer_of_a_closed_context_refuses_each_call(jms_connection_factory: ConnectionFactory, call: Any) -> None:
    context = jms_connection_factory.create_context()
    producer = context.create_producer()
    context.close()
    with pytest.raises(IllegalStateRuntimeException):
        call(producer)


def test_each_member_of_a_producer_is_among_these() -> None:
    assert set(CALLS) == set(JMSProducer.java_members)


# ----------------------------------------------------------------------------------------------------------- options

OPTIONS: list[tuple[str, Any, Any]] = [
    ("disable_message_id", False, True),
    ("disable_message_timestamp", False, True),
    ("delivery_mode", DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT),
    ("priority", 4, 7),
    ("time_to_live", 0, 60_000),
    ("delivery_delay", 0, 50),
]
HEADERS: list[tuple[str, Any, Any]] = [
    ("jms_correlation_id", None, "order-7"),
    ("jms_correlation_id_as_bytes", None, b"order-7"),
    ("jms_type", None, "order"),
]


@pytest.mark.parametrize(("name", "default", "value"), [*OPTIONS, *HEADERS])
def test_a_setting_is_a_property_and_a_method_that_returns_the_producer(
    context: JMSContext, name: str, default: Any, value: Any
) -> None:
    producer: Any = context.create_producer()
    java = JMSProducer.java_members[name]
    assert getattr(producer, name) == getattr(producer, java.getter or "")() == default
    assert getattr(producer, f"set_{name}")(value) is producer
    assert getattr(producer, name) == value
    assert getattr(producer, java.setter or "")(default) is producer
    assert getattr(producer, java.getter or "")() == default
    setattr(producer, name, value)
    assert getattr(producer, name) == value
    assert getattr(context.create_producer(), name) == default  # another producer's settings are its own


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("delivery_mode", [0, 3, -1, True, "2", None]),
        ("priority", [-1, 10, True, "4", None]),
        ("time_to_live", [-1, True, 1 << 63, "1", None]),
        ("delivery_delay", [-1, True, 1 << 63, "1", None]),
    ],
)
def test_a_value_out_of_range_is_refused_when_it_is_set(context: JMSContext, name: str, values: list[Any]) -> None:
    producer = context.create_producer()
    default = getattr(producer, name)
    for value in values:
        with pytest.raises(JMSRuntimeException):
            getattr(producer, f"set_{name}")(value)
        with pytest.raises(JMSRuntimeException):
            setattr(producer, name, value)
    assert getattr(producer, name) == default


@pytest.mark.parametrize(
    ("setter", "wrong"),
    [("set_jms_type", 5), ("set_jms_correlation_id", 5), ("set_jms_correlation_id_as_bytes", "text")],
)
def test_a_header_field_of_another_type_is_refused(context: JMSContext, setter: str, wrong: Any) -> None:
    with pytest.raises(MessageFormatRuntimeException):
        getattr(context.create_producer(), setter)(wrong)


def test_a_destination_for_replies_is_one(context: Any) -> None:
    with pytest.raises(InvalidDestinationRuntimeException):
        context.create_producer().set_jms_reply_to("replies")


def test_messages_are_sent_with_the_options_of_their_producer(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context() as context:
        queue = context.create_queue("orders")
        context.auto_start = False
        consumer = context.create_consumer(queue)
        plain = context.create_producer()
        urgent = context.create_producer().set_priority(9).set_delivery_mode(DeliveryMode.NON_PERSISTENT)
        urgent.set_time_to_live(60_000).set_disable_message_timestamp(True)
        message = context.create_text_message("plain")
        plain.send(queue, message)
        assert (message.jms_priority, message.jms_delivery_mode, message.jms_expiration) == (4, 2, 0)
        urgent.send(queue, "urgent")
        plain.send(queue, "last")
        context.start()
        first, second, third = (received(consumer) for _ in range(3))
        assert (first.jms_priority, first.jms_delivery_mode) == (9, DeliveryMode.NON_PERSISTENT)
        assert first.jms_expiration > 0
        for other in (second, third):
            assert (other.jms_priority, other.jms_delivery_mode, other.jms_expiration) == (
                4,
                DeliveryMode.PERSISTENT,
                0,
            )
            assert other.jms_timestamp > 0


def test_a_change_between_two_sends_concerns_the_second(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    producer = context.create_producer()
    message = context.create_message()
    seen = []
    for priority in (4, 2, 2, 4):
        producer.set_priority(priority).send(queue, message)
        seen.append(message.jms_priority)
    assert seen == [4, 2, 2, 4]


def test_message_ids_and_time_stamps_can_be_disabled(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    message = context.create_message()
    context.create_producer().set_disable_message_id(True).set_disable_message_timestamp(True).send(queue, message)
    assert (message.jms_message_id, message.jms_timestamp) == (None, 0)
    context.create_producer().send(queue, message)
    assert message.jms_message_id
    assert message.jms_timestamp > 0


def test_a_delayed_message_waits_for_its_time(
    virtual_clock: VirtualClock, jms_connection_factory: ConnectionFactory
) -> None:
    with jms_connection_factory.create_context() as context:
        queue = context.create_queue("orders")
        consumer = context.create_consumer(queue)
        context.create_producer().set_delivery_delay(1000).send(queue, "later").set_delivery_delay(0).send(queue, "now")
        assert received_texts(consumer, 1) == ["now"]
        virtual_clock.advance(999)
        assert consumer.receive_no_wait() is None
        virtual_clock.advance(1)
        later = received(consumer)
        assert later.jms_delivery_time == later.jms_timestamp + 1000


def test_a_message_lives_as_long_as_its_producer_says(
    virtual_clock: VirtualClock, jms_connection_factory: ConnectionFactory
) -> None:
    with jms_connection_factory.create_context() as context:
        queue = context.create_queue("orders")
        context.create_producer().set_time_to_live(1000).send(queue, "brief").set_time_to_live(0).send(queue, "lasting")
        virtual_clock.advance(1001)
        assert received_texts(context.create_consumer(queue), 1) == ["lasting"]


# -------------------------------------------------------------------------------------------------------- properties


def test_properties_of_each_type_arrive_with_their_type(each_context: JMSContext) -> None:
    values: dict[str, Any] = {
        "flag": True,
        "byte": Byte(1),
        "short": Short(2),
        "int": 3,
        "long": Long(4),
        "big": 1 << 40,
        "float": Float(0.5),
        "double": 0.25,
        "text": "tea",
        "nothing": None,
    }
    producer = each_context.create_producer()
    for name, value in values.items():
        assert producer.set_property(name, value) is producer
    queue = each_context.create_queue("orders")
    producer.send(queue, "tea")
    message = received(each_context.create_consumer(queue))
    for name, value in values.items():
        assert message.get_object_property(name) == producer.get_object_property(name) == value
        assert type(message.get_object_property(name)) is type(producer.get_object_property(name))
    types = {"int": Int, "long": Long, "big": Long, "float": Float, "double": Double, "byte": Byte, "short": Short}
    assert all(type(message.get_object_property(name)) is kind for name, kind in types.items())


def test_a_property_overrides_that_of_the_message(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    message = each_context.create_text_message("tea")
    message.set_int_property("cups", 1)
    message.set_string_property("milk", "no")
    message.jms_type, message.jms_correlation_id = "mine", "mine"
    message.jms_reply_to = each_context.create_queue("mine")
    consumer = each_context.create_consumer(queue)
    each_context.create_producer().send(queue, message)
    first = received(consumer)
    assert (first.get_int_property("cups"), first.jms_type, first.jms_correlation_id) == (1, "mine", "mine")
    producer = each_context.create_producer().set_property("cups", "two").set_jms_type("yours")
    producer.set_jms_correlation_id("yours").set_jms_reply_to(each_context.create_topic("yours"))
    producer.send(queue, message)
    second = received(consumer)
    assert (second.get_object_property("cups"), second.get_string_property("milk")) == ("two", "no")
    assert (second.jms_type, second.jms_correlation_id) == ("yours", "yours")
    assert second.jms_reply_to == each_context.create_topic("yours")


def test_a_header_field_that_is_none_leaves_that_of_the_message(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    message = context.create_message()
    message.jms_type = "mine"
    producer = context.create_producer().set_jms_type("yours").set_jms_type(None).set_jms_correlation_id_as_bytes(b"x")
    producer.set_jms_correlation_id_as_bytes(None).set_jms_reply_to(queue).set_jms_reply_to(None)
    producer.send(queue, message)
    assert (message.jms_type, message.jms_correlation_id, message.jms_reply_to) == ("mine", None, None)


def test_a_correlation_identifier_may_be_bytes(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    given: Any = bytearray(b"order-7")
    producer = each_context.create_producer().set_jms_correlation_id_as_bytes(given)
    given[0] = 0
    assert producer.jms_correlation_id_as_bytes == b"order-7"
    producer.send(queue, "tea")
    assert received(each_context.create_consumer(queue)).jms_correlation_id_as_bytes == b"order-7"


@pytest.mark.parametrize("wrong", [None, "", 5])
def test_a_property_needs_a_name(context: Any, wrong: Any) -> None:
    for value in (True, Byte(1), Short(1), 1, Long(1), Float(1), 1.0, "text", None):
        with pytest.raises(IllegalArgumentException):
            context.create_producer().set_property(wrong, value)


@pytest.mark.parametrize("wrong", [object(), [1], b"bytes", {"a": 1}, 1j, 1 << 70])
def test_a_property_has_no_other_type(context: Any, wrong: Any) -> None:
    with pytest.raises(MessageFormatRuntimeException):
        context.create_producer().set_property("cups", wrong)


@pytest.mark.parametrize("wrong", ["two cups", "NULL", "JMSXUserID", "JMSType", "1st"])
def test_a_property_has_no_name_that_clients_may_not_set(context: JMSContext, wrong: str) -> None:
    producer = context.create_producer()
    try:
        producer.set_property(wrong, 1)
    except MessageFormatRuntimeException:
        pass
    else:  # a name of the provider is left out, so that a program may copy all properties of a message
        assert wrong == "JMSXUserID"
    assert not producer.property_exists(wrong)


def test_getters_convert_by_the_table(context: JMSContext) -> None:
    producer: Any = (
        context.create_producer().set_property("cups", "2").set_property("ratio", Float(0.5)).set_property("on", True)
    )
    assert producer.get_byte_property("cups") == producer.get_short_property("cups") == 2
    assert producer.get_int_property("cups") == producer.get_long_property("cups") == 2
    assert producer.get_float_property("cups") == producer.get_double_property("ratio") * 4 == 2
    assert producer.get_boolean_property("on") is True
    assert producer.get_string_property("on") == "true"
    assert producer.get_string_property("ratio") == "0.5"
    assert (producer.get_string_property("none"), producer.get_object_property("none")) == (None, None)
    assert producer.get_boolean_property("none") is False
    for name in ("byte", "short", "int", "long"):
        with pytest.raises(NumberFormatException):
            getattr(producer, f"get_{name}_property")("none")


@pytest.mark.parametrize(
    ("value", "refusing"),
    [
        (True, "byte short int long float double"),
        (Byte(1), "boolean float double"),
        (Short(1), "boolean byte float double"),
        (1, "boolean byte short float double"),
        (Long(1), "boolean byte short int float double"),
        (Float(1), "boolean byte short int long"),
        (1.0, "boolean byte short int long float"),
    ],
)
def test_other_conversions_are_refused(context: JMSContext, value: Any, refusing: str) -> None:
    producer = context.create_producer().set_property("cups", value)
    for name in refusing.split():
        with pytest.raises(MessageFormatRuntimeException):
            getattr(producer, f"get_{name}_property")("cups")
        with pytest.raises(MessageFormatRuntimeException):
            getattr(producer, f"get{name.capitalize()}Property")("cups")


def test_properties_are_cleared_and_set_again(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    consumer = context.create_consumer(queue)
    producer = context.create_producer().set_property("cups", 1).set_jms_type("order")
    assert producer.property_exists("cups")
    assert producer.clear_properties() is producer
    assert not producer.propertyExists("cups")
    producer.send(queue, "tea")
    message = received(consumer)
    assert (message.property_exists("cups"), message.jms_type) == (False, "order")
    producer.set_property("milk", None).send(queue, "tea")
    assert producer.property_exists("milk")
    assert received(consumer).property_exists("milk")


def test_the_names_are_a_read_only_set_that_follows_the_producer(context: JMSContext) -> None:
    producer = context.create_producer()
    names: Any = producer.property_names
    assert isinstance(names, AbstractSet)
    assert names == set()
    assert not names
    producer.set_property("cups", 1).set_property("milk", None)
    assert names == {"cups", "milk"} == producer.getPropertyNames()
    assert (len(names), sorted(names), "cups" in names, "tea" in names, 5 in names) == (
        2,
        ["cups", "milk"],
        True,
        False,
        False,
    )
    assert names - {"milk"} == {"cups"}
    assert names | {"tea"} == {"cups", "milk", "tea"}
    assert "cups" in repr(names)
    for change in ("add", "remove", "discard"):
        with pytest.raises(UnsupportedOperationException):
            getattr(names, change)("cups")
    for change in ("clear", "pop"):
        with pytest.raises(UnsupportedOperationException):
            getattr(names, change)()
    assert names == {"cups", "milk"}
    producer.clear_properties()
    assert list(names) == []


def test_settings_of_one_producer_never_reach_another(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    consumer = context.create_consumer(queue)
    set_one = context.create_producer().set_property("cups", 1).set_jms_type("order").set_jms_correlation_id("7")
    set_one.set_jms_reply_to(queue).set_priority(9).set_disable_message_id(True)
    plain = context.create_producer()
    message = context.create_text_message("tea")
    set_one.send(queue, "first")
    received(consumer)
    plain.send(queue, message)
    second = received(consumer)
    assert not second.property_exists("cups")
    assert (second.jms_type, second.jms_correlation_id, second.jms_reply_to) == (None, None, None)
    assert (second.jms_priority, bool(second.jms_message_id)) == (4, True)


# ------------------------------------------------------------------------------------------------ asynchronous sends


class Completions(CompletionListener):
    """Keeps what it hears, then does `action`."""

    def __init__(self, action: Callable[[], object] | None = None) -> None:
        self._action = action
        self._changed = Condition()
        self.heard: list[str | None] = []
        self.errors: list[Exception] = []
        self.raised: list[BaseException] = []
        self.threads: set[int] = set()

    def on_completion(self, message: Message) -> None:
        self._note(message)

    def on_exception(self, message: Message, exception: Exception) -> None:
        self.errors.append(exception)
        self._note(message)

    def _note(self, message: Message) -> None:
        try:
            if self._action is not None:
                self._action()
        except Exception as error:
            self.raised.append(error)
        with self._changed:
            self.threads.add(get_ident())
            self.heard.append(text_of(message))
            self._changed.notify_all()

    def wait_for(self, number: int) -> list[str | None]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= number, PATIENCE_S), self.heard
            return list(self.heard)


def test_a_listener_makes_sends_asynchronous_until_it_is_removed(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    listener = Completions()
    producer = each_context.create_producer()
    assert (producer.async_, producer.getAsync()) == (None, None)
    assert producer.set_async(listener) is producer.setAsync(listener) is producer
    assert producer.async_ is producer.getAsync() is listener
    assert producer.send(queue, "a") is producer
    producer.send(queue, each_context.create_text_message("b")).send(queue, {"c": 1})
    assert listener.wait_for(3) == ["a", "b", None]
    assert get_ident() not in listener.threads
    producer.async_ = None
    producer.send(queue, "d")
    assert each_context.create_producer().async_ is None
    consumer = each_context.create_consumer(queue)
    assert received_texts(consumer, 4) == ["a", "b", None, "d"]
    assert (len(listener.heard), listener.errors) == (3, [])


def test_a_failed_asynchronous_send_is_told_to_the_listener(
    jms_faults: Faults, jms_connection_factory: ConnectionFactory
) -> None:
    with jms_connection_factory.create_context() as context:
        listener = Completions()
        jms_faults.inject(Fault.SEND_REFUSED)
        context.create_producer().set_async(listener).send(context.create_queue("orders"), "tea")
        assert listener.wait_for(1) == ["tea"]
        assert isinstance(listener.errors[0], (pyjms.JMSException, JMSRuntimeException))


def test_wrong_arguments_of_an_asynchronous_send_are_raised_at_once(context: Any) -> None:
    listener = Completions()
    producer = context.create_producer().set_async(listener)
    with pytest.raises(InvalidDestinationRuntimeException):
        producer.send(None, "tea")
    with pytest.raises(MessageFormatRuntimeException):
        producer.send(context.create_queue("orders"), {"a": object()})
    with pytest.raises(MessageFormatRuntimeException):
        producer.send(context.create_queue("orders"), message=None)
    assert listener.heard == []


@pytest.mark.parametrize("wrong", [5, print, Completions, object()])
def test_what_is_no_completion_listener_is_refused(context: Any, wrong: Any) -> None:
    producer = context.create_producer()
    with pytest.raises(IllegalArgumentException):
        producer.set_async(wrong)
    assert producer.async_ is None


@pytest.mark.parametrize("call", ["commit", "rollback", "close"])
def test_the_end_waits_for_completions_and_is_not_for_listeners(
    jms_connection_factory: ConnectionFactory, call: str
) -> None:
    context = jms_connection_factory.create_context(JMSContext.SESSION_TRANSACTED)
    listener = Completions(getattr(context, call))
    context.create_producer().set_async(listener).send(context.create_queue("orders"), "tea")
    getattr(context, call)()
    assert listener.heard == ["tea"]
    assert [type(error) for error in listener.raised] == [IllegalStateRuntimeException]
    context.close()


def test_a_listener_may_send(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    again = each_context.create_producer()
    listener = Completions(lambda: again.send(queue, "again"))
    each_context.create_producer().set_async(listener).send(queue, "first")
    assert listener.wait_for(1) == ["first"]
    assert listener.raised == []
    assert received_texts(each_context.create_consumer(queue), 2) == ["first", "again"]
