"""JMS 1.1 §7.1 to §7.3: how exceptions are made, and which one a provider raises in which situation."""

from __future__ import annotations

from typing import Any

import pytest

import pyjms
from pyjms import (
    ConnectionFactory,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    JMSSecurityException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    NumberFormatException,
    Queue,
    Session,
)
from pyjms_tck.checks import Checks, expect, expect_error
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeName
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import NO_DESTINATION
from pyjms_tck.vectors import load

_STANDARD = (
    "IllegalStateException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "JMSSecurityException",
    "MessageEOFException",
    "MessageFormatException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "ResourceAllocationException",
    "TransactionInProgressException",
    "TransactionRolledBackException",
)


def _check_construction(kind: Any) -> None:
    name = kind.__name__
    with Checks() as check:
        for how, error, code in (
            (f"{name}('the reason')", kind("the reason"), None),
            (f"{name}('the reason', 'E1')", kind("the reason", "E1"), "E1"),
            (f"{name}(reason=..., error_code=...)", kind(reason="the reason", error_code="E1"), "E1"),
        ):
            check.same(f"getMessage of {how}", error.getMessage(), "the reason")
            check.same(f"the text of {how}", str(error), "the reason")
            check.same(f"getErrorCode of {how}", error.getErrorCode(), code)
            check.same(f"error_code of {how}", error.error_code, code)
            check.same(f"getLinkedException of {how}", error.getLinkedException(), None)


@requirement("7.2-a")
def test_7_2_a_a_jms_exception_is_made_with_reason_and_code() -> None:
    _check_construction(JMSException)
    expect("the reason of one made with null", JMSException(None).getMessage(), None)


@requirement("7.2-b")
def test_7_2_b_the_error_code_is_returned() -> None:
    for code in ("E1", "", None):
        error = JMSException("the reason", code)
        expect(f"getErrorCode of an error made with {code!r}", error.getErrorCode(), code)
        expect(f"error_code of an error made with {code!r}", error.error_code, code)


@requirement("7.2-c")
def test_7_2_c_the_cause_is_stored() -> None:
    error, cause = JMSException("the reason"), ValueError("the cause")
    expect("getLinkedException by default", error.getLinkedException(), None)
    error.setLinkedException(cause)
    expect("getLinkedException after it was set", error.getLinkedException(), cause)
    error.linked_exception = None
    expect("linked_exception after it was set to null", error.linked_exception, None)


@requirement("7.3-a")
@pytest.mark.parametrize("name", _STANDARD)
def test_7_3_a_standard_exceptions_are_made_with_reason_and_code(name: str) -> None:
    _check_construction(getattr(pyjms, name))


@requirement("7.3-b")
def test_7_3_b_illegal_state_reports_a_call_at_the_wrong_time(
    connect: Connect, session: Session, queue: Queue, make_name: MakeName
) -> None:
    # `used` is started: after any use of the connection its identifier comes too late (§4.3.2).
    consumer, used, ended = session.create_consumer(queue), connect(started=True), connect()
    consumer.close()
    ended.close()
    with Checks() as check:
        check.fails("commit without transaction", IllegalStateException, session.commit)
        check.fails("rollback without transaction", IllegalStateException, session.rollback)
        check.fails("receive of a closed consumer", IllegalStateException, consumer.receive_no_wait)
        check.fails("start of a closed connection", IllegalStateException, ended.start)
        check.fails("a late client identifier", IllegalStateException, used.setClientID, make_name("client"))


@requirement("7.3-c")
def test_7_3_c_security_reports_refused_credentials(
    wrong_credentials: tuple[str, str], factory: ConnectionFactory
) -> None:
    with Checks() as check:
        # Each way to connect has credentials of its own, and each must be refused.
        for create in (factory.create_connection, factory.create_queue_connection, factory.create_topic_connection):
            check.fails(create.__name__, JMSSecurityException, create, *wrong_credentials)


@requirement("7.3-d")
def test_7_3_d_invalid_client_id_reports_an_identifier_that_is_in_use(connect: Connect, make_name: MakeName) -> None:
    name = make_name("client")
    connect(client_id=name)
    with pytest.raises(InvalidClientIDException):
        connect().client_id = name


@requirement("7.3-e")
def test_7_3_e_invalid_destination_reports_what_is_no_destination(session: Session) -> None:
    with Checks() as check:
        message = session.create_text_message("text")
        check.fails("a consumer of null", InvalidDestinationException, session.create_consumer, NO_DESTINATION)
        check.fails(
            "a send to null", InvalidDestinationException, session.create_producer(None).send, NO_DESTINATION, message
        )


@requirement("7.3-e")
@needs("TEMPORARY_DESTINATIONS")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_7_3_e_invalid_destination_reports_what_no_longer_exists(session: Session, kind: str) -> None:
    temporary = session.create_temporary_queue() if kind == "queue" else session.create_temporary_topic()
    producer = session.create_producer(None)
    # A send before the deletion: a provider that caches the destination has it in its cache from here on.
    producer.send(temporary, session.create_text_message("while it is there"))
    temporary.delete()
    with Checks() as check:
        message = session.create_text_message("text")
        check.fails("a send to what was deleted", InvalidDestinationException, producer.send, temporary, message)
        check.fails("a consumer of what was deleted", InvalidDestinationException, session.create_consumer, temporary)


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
