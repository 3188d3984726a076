"""JMS 1.1 §3.5.1 to §3.5.3 and §3.5.5 to §3.5.8: properties are set, sent, read, enumerated and cleared."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from pyjms import (
    IllegalArgumentException,
    Message,
    MessageFormatException,
    MessageNotWriteableException,
    Session,
)
from pyjms_tck.checks import Checks, expect
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_03.carriers import PROPERTIES, check_null
from pyjms_tck.vectors import PROPERTY_TYPES, TYPES

RoundTrip = Callable[[Any], Any]


def _full(session: Session) -> Message:
    """Return a message that has a property of each type, named after it, and one that is null."""
    message = session.create_text_message("the body")
    for type in PROPERTY_TYPES:
        getattr(message, f"set{type.word}Property")(type.word, type.values[0])
    message.set_string_property("Nothing", None)
    return message


def _names(message: Message) -> set[str]:
    """Return the names of the properties but for those that the provider sets."""
    return {name for name in message.property_names if not name.startswith("JMS")}


def _class(value: object) -> str:
    return type(value).__name__


def _setters(message: Message) -> list[tuple[str, Callable[..., None], Any]]:
    """Return name and function of each setter, with a value that it takes."""
    found = [(f"set{type.word}Property", type.values[0]) for type in PROPERTY_TYPES]
    return [(name, getattr(message, name), value) for name, value in [*found, ("setObjectProperty", "text")]]


@requirement("3.5.1-b")
def test_3_5_1_b_a_property_needs_a_name(session: Session) -> None:
    with Checks() as check:
        for name in ("", None):
            message = session.create_message()
            for title, setter, value in _setters(message):
                check.fails(f"{title} with the name {name!r}", IllegalArgumentException, setter, name, value)


# ------------------------------------------------------------------------------------------------------ 3.5.2 types


def _travels(session: Session, roundtrip: RoundTrip, name: str) -> None:
    type = TYPES[name]
    message = session.create_message()
    for number, value in enumerate(type.values):
        PROPERTIES.put(message, number, name, value)
    received = roundtrip(message)
    with Checks() as check:
        for number, value in enumerate(type.values):
            what = f"{name} property {value!r}"
            check.gives(f"{what}, as set", value, PROPERTIES.get, message, number, name)
            check.gives(f"{what}, as received", value, PROPERTIES.get, received, number, name)


@requirement("3.5.2-a")
def test_3_5_2_a_a_boolean_property_arrives(session: Session, roundtrip: RoundTrip) -> None:
    _travels(session, roundtrip, "boolean")


@requirement("3.5.2-b")
def test_3_5_2_b_a_byte_property_arrives(session: Session, roundtrip: RoundTrip) -> None:
    _travels(session, roundtrip, "byte")


@requirement("3.5.2-c")
def test_3_5_2_c_a_short_property_arrives(session: Session, roundtrip: RoundTrip) -> None:
    _travels(session, roundtrip, "short")


@requirement("3.5.2-d")
def test_3_5_2_d_an_int_property_arrives(session: Session, roundtrip: RoundTrip) -> None:
    _travels(session, roundtrip, "int")


@requirement("3.5.2-e")
def test_3_5_2_e_a_long_property_arrives(session: Session, roundtrip: RoundTrip) -> None:
    _travels(session, roundtrip, "long")


@requirement("3.5.2-f")
def test_3_5_2_f_a_float_property_arrives(session: Session, roundtrip: RoundTrip) -> None:
    _travels(session, roundtrip, "float")


@requirement("3.5.2-g")
def test_3_5_2_g_a_double_property_arrives(session: Session, roundtrip: RoundTrip) -> None:
    _travels(session, roundtrip, "double")


@requirement("3.5.2-h")
def test_3_5_2_h_a_string_property_arrives(session: Session, roundtrip: RoundTrip) -> None:
    _travels(session, roundtrip, "String")
    message = session.create_message()
    message.setStringProperty("nothing", None)
    expect("a String property that is null, as received", roundtrip(message).getStringProperty("nothing"), None)


# ------------------------------------------------------------------------------------------------- 3.5.3 setting them


@requirement("3.5.3-a")
def test_3_5_3_a_all_properties_travel_with_the_message(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    for number in range(200):
        message.set_int_property(f"number_{number}", number)
    received = roundtrip(message)
    with Checks() as check:
        check.same("the number of properties received", len(_names(received)), 200)
        for number in range(200):
            name = f"number_{number}"
            check.gives(f"property {name}", number, received.get_int_property, name)


@requirement("3.5.3-b")
def test_3_5_3_b_received_properties_are_read_only(session: Session, roundtrip: RoundTrip) -> None:
    received = roundtrip(_full(session))
    with Checks() as check:
        for name in ("Int", "new"):
            for title, setter, value in _setters(received):
                what = f"{title}({name!r}) of a received message"
                check.fails(what, MessageNotWriteableException, setter, name, value)
    expect("the property Int afterwards", received.get_int_property("Int"), TYPES["int"].values[0])


@requirement("3.5.3-c")
def test_3_5_3_c_property_exists_tells_whether_a_property_is_there(session: Session, roundtrip: RoundTrip) -> None:
    message = _full(session)
    with Checks() as check:
        for state, seen in (("sent", message), ("received", roundtrip(message))):
            for type in PROPERTY_TYPES:
                check.same(f"propertyExists({type.word}), {state}", seen.propertyExists(type.word), True)
            check.same(f"property_exists of a null property, {state}", seen.property_exists("Nothing"), True)
            check.same(f"property_exists of no property, {state}", seen.property_exists("nowhere"), False)
            check.same(f"property_exists of a header field, {state}", seen.property_exists("JMSMessageID"), False)


# ----------------------------------------------------------------------------------------------- 3.5.5 and 3.5.8


@requirement("3.5.5-a")
def test_3_5_5_a_object_properties_have_eight_types(session: Session) -> None:
    message = session.create_message()
    with Checks() as check:
        for type in PROPERTY_TYPES:
            for value in type.values:
                message.setObjectProperty("it", type.kind(value))
                what = f"a property set as an object of type {type.name}, {value!r}"
                check.gives(what, value, getattr(message, f"get{type.word}Property"), "it")
        message.set_object_property("it", None)
        check.same("a property set as an object that is null", message.get_object_property("it"), None)
        wrong: tuple[Any, ...] = (b"bytes", bytearray(b"b"), ["list"], {"a": 1}, (1,), object(), timedelta(1), 1j)
        for value in wrong:
            what = f"setObjectProperty of a {_class(value)}"
            check.fails(what, MessageFormatException, message.set_object_property, "it", value)


@requirement("3.5.5-b")
def test_3_5_5_b_an_object_property_keeps_its_type(session: Session, roundtrip: RoundTrip) -> None:
    message = _full(session)
    received = roundtrip(message)
    with Checks() as check:
        for state, seen in (("sent", message), ("received", received)):
            for type in PROPERTY_TYPES:
                value = seen.getObjectProperty(type.word)
                check.same(f"getObjectProperty of a {type.name} property, {state}", value, type.values[0])
                check.same(f"its class, {state}", _class(value), type.kind.__name__)
            check.same(f"getObjectProperty of a null property, {state}", seen.get_object_property("Nothing"), None)


@requirement("3.5.5-c")
def test_3_5_5_c_an_object_property_that_was_never_set_is_null(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    expect("getObjectProperty of a name that was never set", message.getObjectProperty("nowhere"), None)
    expect("the same, as received", roundtrip(message).get_object_property("nowhere"), None)


@requirement("3.5.8-a")
def test_3_5_8_a_a_property_that_does_not_exist_reads_as_null(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    types = [type.name for type in PROPERTY_TYPES]
    with Checks() as check:
        for state, seen in (("received", roundtrip(message)), ("sent", message)):
            what = f"a property that was never set ({state} message)"
            check_null(check, what, partial(PROPERTIES.get, seen, 0), types)


# ----------------------------------------------------------------------------------------------- 3.5.6 and 3.5.7


@requirement("3.5.6-a")
def test_3_5_6_a_all_property_names_are_enumerated(session: Session, roundtrip: RoundTrip) -> None:
    message = _full(session)
    message.jms_type, message.jms_correlation_id = "car", "order-7"
    wanted = {*(type.word for type in PROPERTY_TYPES), "Nothing"}
    with Checks() as check:
        for state, seen in (("sent", message), ("received", roundtrip(message))):
            check.same(f"the property names, {state}", sorted(_names(seen)), sorted(wanted))
            fields = [name for name in seen.property_names if name.startswith("JMS") and not name.startswith("JMSX")]
            check.same(f"header fields among the property names, {state}", fields, [])
            names, listed = seen.getPropertyNames(), []
            while names.hasMoreElements():
                listed.append(names.nextElement())
            check.same(f"how often Int is enumerated, {state}", listed.count("Int"), 1)
            for name in wanted:
                wanted_value = None if name == "Nothing" else str(message.get_string_property(name))
                check.same(f"enumerated property {name}, {state}", seen.get_string_property(name), wanted_value)
    expect("the property names of a new message", list(session.create_message().property_names), [])


@requirement("3.5.7-a")
def test_3_5_7_a_cleared_properties_can_be_set_anew(session: Session, roundtrip: RoundTrip) -> None:
    message = _full(session)
    with Checks() as check:
        for state, seen in (("received", roundtrip(message)), ("sent", message)):
            seen.clearProperties()
            check.same(f"property names after clearProperties, {state}", list(seen.property_names), [])
            check.same(f"an old property after clearProperties, {state}", seen.property_exists("Int"), False)
            check.gives(f"setting a property then, {state}", None, seen.set_int_property, "new", 7)
            check.gives(f"reading it, {state}", 7, seen.get_int_property, "new")


@requirement("3.5.7-b")
def test_3_5_7_b_clearing_properties_leaves_the_rest(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_text_message("the body")
    message.set_int_property("Int", 1)
    message.jms_type, message.jms_correlation_id = "car", "order-7"
    with Checks() as check:
        for state, seen in (("received", roundtrip(message)), ("sent", message)):
            id = seen.jms_message_id
            seen.clear_properties()
            check.same(f"the body after clear_properties, {state}", seen.text, "the body")
            check.same(f"JMSType, {state}", seen.jms_type, "car")
            check.same(f"JMSCorrelationID, {state}", seen.jms_correlation_id, "order-7")
            check.same(f"JMSMessageID, {state}", seen.jms_message_id, id)
