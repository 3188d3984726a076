"""What a program may do with a message that came through a broker: conversions, and what is read-only (JMS 1.1 §3.5.4, §3.10, §3.11.3)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyjms import BytesMessage, MapMessage, Message, MessageFormatException, MessageNotWriteableException, Session
from pyjms.runtime.connection import JmsConnection
from tests.pyjms.messages.support import conversions
from tests.pyjms.messages.test_conversion import CLASSES, WORDS, WRITTEN
from tests.pyjms.runtime.helpers import take


def arrived(session: Session, message: Message) -> Any:
    """Return the message as a consumer gets it."""
    queue = session.create_queue("orders")
    with session.create_producer(queue) as producer, session.create_consumer(queue) as consumer:
        producer.send(message)
        return take(consumer)


@pytest.mark.realises("BOIL-PROP-1", "BOIL-PROP-2", "BOIL-PROP-3", "BOIL-PROP-5", "BOIL-PROP-7")
def test_properties_are_read_as_the_table_of_the_specification_says(session: Session) -> None:
    table: dict[str, dict[str, str]] = conversions()["property_table"]
    message = session.create_message()
    for written in table:
        getattr(message, f"set_{WORDS.get(written, written)}_property")(f"was_{written}", WRITTEN[written])
    found = arrived(session, message)
    assert {name for name in found.property_names if name.startswith("was_")} == {f"was_{each}" for each in table}
    for written, row in table.items():
        for read, outcome in row.items():
            getter = getattr(found, f"get_{WORDS.get(read, read)}_property")
            check(lambda get=getter, name=f"was_{written}": get(name), written, read, outcome)
    assert found.get_object_property("never_set") is None


@pytest.mark.realises("BOIL-BODY-1", "BOIL-BODY-4", "BOIL-CONV-1", "BOIL-CONV-2")
def test_the_entries_of_a_map_are_read_as_the_table_of_the_specification_says(session: Session) -> None:
    table: dict[str, dict[str, str]] = conversions()["map_message_table"]
    message = session.create_map_message()
    for written in table:
        getattr(message, f"set_{WORDS.get(written, written)}")(f"was {written}", WRITTEN[written])
    found = arrived(session, message)
    assert isinstance(found, MapMessage)
    assert set(found.map_names) == {f"was {each}" for each in table}
    for written, row in table.items():
        for read, outcome in row.items():
            getter = getattr(found, f"get_{WORDS.get(read, read)}")
            check(lambda get=getter, name=f"was {written}": get(name), written, read, outcome)


def check(get: Any, written: str, read: str, outcome: str) -> None:
    """Read a value that was written as one type as another one, which is refused or has that type."""
    if outcome == "MessageFormatException":
        with pytest.raises(MessageFormatException):
            get()
    else:
        assert type(get()) is CLASSES[written if read == "Object" else read], (written, read)


@pytest.mark.realises("BOIL-CONV-5")
def test_a_value_that_could_not_be_read_as_one_type_is_read_again_as_another(session: Session) -> None:
    stream = session.create_stream_message()
    stream.write_boolean(True)
    stream.write_string("no number")
    found = arrived(session, stream)
    with pytest.raises(MessageFormatException):
        found.read_int()
    assert found.read_boolean() is True
    with pytest.raises(ValueError, match="no number"):
        found.read_int()
    assert found.read_string() == "no number"


@pytest.mark.realises("BOIL-PROP-4", "BOIL-PROP-8", "BOIL-BODY-2", "BOIL-BODY-3", "BOIL-HDR-16", "BOIL-EXC-10")
def test_body_and_properties_are_read_only_until_each_is_cleared(session: Session) -> None:
    sent = session.create_text_message("one")
    sent.set_int_property("cups", 1)
    found = arrived(session, sent)
    found.jms_type = "changed"
    with pytest.raises(MessageNotWriteableException):
        found.text = "two"
    with pytest.raises(MessageNotWriteableException):
        found.set_int_property("cups", 2)
    found.clear_body()
    assert (found.text, found.get_int_property("cups")) == (None, 1)
    found.text = "two"
    with pytest.raises(MessageNotWriteableException):
        found.set_int_property("cups", 2)
    found.clear_properties()
    assert not found.property_exists("cups")
    found.set_int_property("pots", 3)
    again = arrived(session, found)
    assert (again.text, again.jms_type, again.get_int_property("pots")) == ("two", "changed", 3)
    assert not again.property_exists("cups")


@pytest.mark.realises("BOIL-BODY-7", "BOIL-BODY-8")
def test_what_is_written_and_read_is_a_copy(session: Session) -> None:
    data = bytearray(b"espresso")
    sent = session.create_map_message()
    sent.set_bytes("raw", data)
    sent.set_bytes("nothing", None)
    data[:] = b"changed!"
    found = cast("MapMessage", arrived(session, sent))
    assert (found.get_bytes("raw"), found.get_bytes("nothing")) == (b"espresso", None)
    stream = session.create_bytes_message()
    stream.write_bytes(bytearray(b"tea"))
    read = cast("BytesMessage", arrived(session, stream))
    buffer = bytearray(3)
    assert read.read_bytes(buffer) == 3
    buffer[:] = b"new"
    read.reset()
    assert read.read_byte() == ord("t")


@pytest.mark.realises("BOIL-PROP-9", "BOIL-PROP-10", "BOIL-PROP-11", "BOIL-PROP-12", "BOIL-CONN-16")
def test_reserved_names_are_the_providers(connection: JmsConnection, session: Session) -> None:
    names = list(connection.meta_data.jmsx_property_names)
    assert {"JMSXGroupID", "JMSXGroupSeq", "JMSXDeliveryCount"} <= set(names)
    message = session.create_message()
    for name in (*(set(names) - {"JMSXGroupID", "JMSXGroupSeq"}), "JMSXOther", "JMS_pyjms_mine", "JMSPriority"):
        with pytest.raises(MessageFormatException):
            message.set_string_property(name, "x")
    message.set_string_property("JMSXGroupID", "a")
    message.set_int_property("JMSXGroupSeq", 1)
    found = arrived(session, message)
    assert (found.get_string_property("JMSXGroupID"), found.get_int_property("JMSXGroupSeq")) == ("a", 1)
    assert found.get_int_property("JMSXDeliveryCount") == 1
