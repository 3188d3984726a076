"""JMS 1.1 §3.5: properties are set, sent, read as other types, enumerated and cleared; the names that begin with JMSX."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pyjms import (
    Connection,
    IllegalArgumentException,
    JMSException,
    Message,
    MessageFormatException,
    MessageNotWriteableException,
    Queue,
    Session,
)
from pyjms_tck.checks import Checks, Raised, attempt, expect
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeSession, Record
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_03.carriers import PROPERTIES, check_null, check_parsing, check_row, table_rows
from pyjms_tck.vectors import PROPERTY_TYPES, TYPES, JavaType

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
    # A provider may set JMSX properties of its own on receive (§3.5.9).
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


@pytest.mark.parametrize(
    "type",
    [
        pytest.param(type, marks=requirement(f"3.5.2-{letter}"), id=type.name)
        for letter, type in zip("abcdefgh", PROPERTY_TYPES, strict=True)
    ],
)
def test_3_5_2_a_property_of_each_type_arrives(session: Session, roundtrip: RoundTrip, type: JavaType) -> None:
    values = (*type.values, None) if type.name == "String" else type.values
    message = session.create_message()
    for number, value in enumerate(values):
        PROPERTIES.put(message, number, type.name, value)
    received = roundtrip(message)
    with Checks() as check:
        for number, value in enumerate(values):
            what = f"{type.name} property {value!r}"
            check.gives(f"{what}, as set", value, PROPERTIES.get, message, number, type.name)
            check.gives(f"{what}, as received", value, PROPERTIES.get, received, number, type.name)


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
        # One that is there and one that is not: both must be refused.
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


@requirement("3.5.5-a")
def test_3_5_5_a_object_properties_have_eight_types(session: Session) -> None:
    message = session.create_message()
    with Checks() as check:
        for type in PROPERTY_TYPES:
            for value in type.values:
                # As an object of the type's own class: a plain int does not say which of the four whole types is meant.
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
                # The class as well: a Byte that comes back as an Int is equal to it.
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


@requirement("3.5.6-a")
def test_3_5_6_a_all_property_names_are_enumerated(session: Session, roundtrip: RoundTrip) -> None:
    message = _full(session)
    # Header fields with values: they must not appear among the properties.
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
        # The received one is made first: the message must be sent before its properties are cleared.
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


@pytest.mark.parametrize(
    ("type", "converts"),
    table_rows("3.5.4", "abcdefghijklmno", ("boolean", "byte", "short", "int", "long", "float", "double", "String")),
)
def test_3_5_4_a_property_is_read_as_what_the_table_allows_and_as_nothing_else(
    session: Session, roundtrip: RoundTrip, type: str, converts: bool
) -> None:
    check_row(session, roundtrip, type, [PROPERTIES], converts=converts)


@requirement("3.5.4-p")
def test_3_5_4_p_a_text_is_parsed_as_java_does(session: Session, roundtrip: RoundTrip) -> None:
    check_parsing(session, roundtrip, [PROPERTIES])


@requirement("3.5.4-q")
def test_3_5_4_q_a_null_property_reads_as_value_of_null(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.set_string_property("p0", None)
    with Checks() as check:
        for state, seen in (("received", roundtrip(message)), ("sent", message)):
            check_null(
                check,
                f"a null property ({state} message)",
                partial(PROPERTIES.get, seen, 0),
                ("boolean", "byte", "short", "int", "long", "float", "double", "String"),
            )


_SET_BY_PROVIDERS: dict[str, Any] = {
    "JMSXUserID": "someone",
    "JMSXAppID": "something",
    "JMSXDeliveryCount": 7,
    "JMSXProducerTXID": "1",
    "JMSXConsumerTXID": "2",
    "JMSXRcvTimestamp": 3,
    "JMSXState": 2,
}


@requirement("3.5.9-a")
def test_3_5_9_a_the_metadata_lists_jmsx_properties(connection: Connection) -> None:
    names = list(connection.meta_data.jmsx_property_names)
    with Checks() as check:
        check.same("JMSX names that are listed twice", sorted({name for name in names if names.count(name) > 1}), [])
        check.same("names that are none of JMSX", [name for name in names if not name.startswith("JMSX")], [])
        enumeration = connection.getMetaData().getJMSXPropertyNames()
        check.same("hasMoreElements of the enumeration", enumeration.hasMoreElements(), bool(names))


@requirement("3.5.9-b")
def test_3_5_9_b_groups_are_supported(connection: Connection) -> None:
    names = set(connection.meta_data.jmsx_property_names)
    missing = sorted({"JMSXGroupID", "JMSXGroupSeq"} - names)
    expect("what is missing among the JMSX properties of the metadata", missing, [])


@requirement("3.5.9-c")
def test_3_5_9_c_the_group_id_arrives(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.set_string_property("JMSXGroupID", "group-1")
    received = roundtrip(message)
    expect("JMSXGroupID, as received", received.getStringProperty("JMSXGroupID"), "group-1")
    expect("JMSXGroupID among the property names", "JMSXGroupID" in set(received.property_names), True)


@requirement("3.5.9-d")
def test_3_5_9_d_the_group_sequence_number_arrives(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.set_string_property("JMSXGroupID", "group-1")
    message.set_int_property("JMSXGroupSeq", 3)
    received = roundtrip(message)
    expect("JMSXGroupSeq, as received", received.get_int_property("JMSXGroupSeq"), 3)
    expect("the class of JMSXGroupSeq", type(received.get_object_property("JMSXGroupSeq")).__name__, "Int")


@requirement("3.5.9-e")
def test_3_5_9_e_the_delivery_count_counts(make_session: MakeSession, queue: Queue, waits: Waits) -> None:
    session = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    session.create_producer(queue).send(session.create_message())
    consumer = session.create_consumer(queue)
    with Checks() as check:
        for count in (1, 2, 3):
            message = consumer.receive(waits.something_ms)
            assert message is not None, f"delivery {count} of a message that was not acknowledged did not come"
            seen = message.get_object_property("JMSXDeliveryCount")
            check.same(f"JMSXDeliveryCount at delivery {count}", seen, count)
            check.same("its class", type(seen).__name__, "Int")
            check.same("whether it exists", message.property_exists("JMSXDeliveryCount"), True)
            check.same("how often it is enumerated", list(message.property_names).count("JMSXDeliveryCount"), 1)
            # Not acknowledged, so it is delivered again, and counted.
            session.recover()


@requirement("3.5.9-f")
def test_3_5_9_f_a_client_that_sets_properties_of_the_provider(session: Session, record: Record) -> None:
    refused = []
    with Checks() as check:
        for name, value in _SET_BY_PROVIDERS.items():
            outcome = attempt(session.create_message().set_object_property, name, value)
            if isinstance(outcome, Raised):
                refused.append(f"{name} ({type(outcome.error).__name__})")
                # Refused or not, both are right (§3.5.9); but the refusal must be an
                # error that a program of JMS expects.
                is_meant = isinstance(outcome.error, JMSException | IllegalArgumentException)
                check.same(f"whether the error for {name} is one of JMS ({outcome})", is_meant, True)
            else:
                check.same(f"what setting {name} returns", outcome, None)
    record(f"a client that sets properties of the provider is refused for: {', '.join(refused) or 'none of them'}")
