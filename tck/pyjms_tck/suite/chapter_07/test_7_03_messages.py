"""JMS 1.1 §7.1 and §7.3: the exceptions of messages and selectors, each where a client meets it first."""

from __future__ import annotations

from typing import Any

import pyjms
from pyjms import (
    InvalidSelectorException,
    JMSException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    NumberFormatException,
    Queue,
    Session,
)
from pyjms_tck.checks import Checks, expect_error
from pyjms_tck.environment import Waits
from pyjms_tck.requirements import requirement
from pyjms_tck.vectors import load


@requirement("7.1-a")
def test_7_1_a_all_exceptions_are_jms_exceptions(session: Session, queue: Queue) -> None:
    with Checks() as check:
        for type in load("api"):
            if type["kind"] == "exception":
                is_one = issubclass(getattr(pyjms, type["name"]), JMSException)
                check.same(f"whether {type['name']} is a JMSException", is_one, True)
        check.fails("a wrong selector", JMSException, session.create_consumer, queue, "no selector")
        check.fails("commit without a transaction", JMSException, session.commit)
        check.fails("reading a new BytesMessage", JMSException, session.create_bytes_message().read_int)
        missing: Any = None
        check.fails("a consumer without a destination", JMSException, session.create_consumer, missing)


@requirement("7.3-f")
def test_7_3_f_a_wrong_selector_is_an_invalid_selector(session: Session, queue: Queue) -> None:
    with Checks() as check:
        for selector in ("no selector", "a =", "a = 'open", "(a = 1", "a LIKE 1", "= 1"):
            what = f"createConsumer with the selector {selector!r}"
            check.fails(what, InvalidSelectorException, session.create_consumer, queue, selector)


@requirement("7.3-g")
def test_7_3_g_a_body_that_ends_too_early_is_an_end_of_file(session: Session) -> None:
    stream, bytes = session.create_stream_message(), session.create_bytes_message()
    stream.write_int(1)
    bytes.write_byte(1)
    stream.reset()
    bytes.reset()
    stream.read_int()
    expect_error("reading a StreamMessage on at its end", MessageEOFException, stream.read_string)
    expect_error("reading an int of a BytesMessage of one byte", MessageEOFException, bytes.readInt)


@requirement("7.3-h")
def test_7_3_h_data_of_a_wrong_type_is_a_format_error(session: Session) -> None:
    message: Any = session.create_map_message()
    message.set_boolean("entry", True)
    message.set_string("text", "no number")
    message.set_double_property("property", 1.5)
    message.set_string_property("text", "no number")
    unfit = object()
    with Checks() as check:
        check.fails("a boolean entry read as int", MessageFormatException, message.get_int, "entry")
        check.fails("a double property read as int", MessageFormatException, message.get_int_property, "property")
        check.fails("an entry of an unfit class", MessageFormatException, message.set_object, "unfit", unfit)
        check.fails("a property of an unfit class", MessageFormatException, message.set_object_property, "unfit", unfit)
        check.fails("a text entry that is no number", NumberFormatException, message.get_int, "text")
        check.fails("a text property that is no number", NumberFormatException, message.get_int_property, "text")


@requirement("7.3-i")
def test_7_3_i_a_body_that_is_written_is_not_readable(session: Session) -> None:
    for message in (session.create_stream_message(), session.create_bytes_message()):
        what = f"reading a new {type(message).__name__}"
        expect_error(what, MessageNotReadableException, message.read_int)


@requirement("7.3-j")
def test_7_3_j_a_received_message_is_not_writeable(session: Session, queue: Queue, waits: Waits) -> None:
    message = session.create_text_message("text")
    message.set_int_property("number", 1)
    session.create_producer(queue).send(message)
    received: Any = session.create_consumer(queue).receive(waits.something_ms)
    assert received is not None, "a message was sent and not received"
    expect_error("setting its text", MessageNotWriteableException, received.setText, "new")
    expect_error("setting a property", MessageNotWriteableException, received.set_int_property, "number", 2)
