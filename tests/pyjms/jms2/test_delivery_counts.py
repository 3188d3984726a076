"""JMSXDeliveryCount is on every received message (JMS 2.0 §3.5.11)."""

from __future__ import annotations

import pytest

from pyjms import Session
from tests.pyjms.jms2.conftest import Connect
from tests.pyjms.runtime.helpers import delivery_count, send_texts, take

COUNT = "JMSXDeliveryCount"


def test_it_is_one_at_first_and_grows(connect: Connect, name: str) -> None:
    connection = connect()
    session = connection.create_session(Session.SESSION_TRANSACTED)
    queue = session.create_queue(name)
    consumer = session.create_consumer(queue)
    send_texts(connection.create_session(), queue, "again and again")
    for count in (1, 2, 3):
        message = take(consumer)
        assert (delivery_count(message), message.jms_redelivered) == (count, count > 1)
        assert message.property_exists(COUNT)
        assert COUNT in list(message.property_names)
        assert message.get_object_property(COUNT) == message.get_long_property(COUNT) == count
        assert message.get_string_property(COUNT) == str(count)
        session.rollback()


@pytest.mark.parametrize("mode", [Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE])
def test_it_is_there_in_every_mode(connect: Connect, name: str, mode: int) -> None:
    session = connect().create_session(mode)
    for destination in (session.create_queue(name), session.create_topic(name)):
        consumer = session.create_consumer(destination)
        send_texts(session, destination, "first")
        message = take(consumer)
        assert (delivery_count(message), message.jms_redelivered) == (1, False)
        message.acknowledge()


def test_a_recovered_message_counts_again(connect: Connect, name: str) -> None:
    session = connect().create_session(Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue(name)
    consumer = session.create_consumer(queue)
    send_texts(session, queue, "again")
    assert delivery_count(take(consumer)) == 1
    session.recover()
    message = take(consumer)
    assert delivery_count(message) >= 2
    assert message.jms_redelivered


def test_the_connection_says_that_it_has_it(connect: Connect) -> None:
    assert COUNT in list(connect().meta_data.jmsx_property_names)


def test_the_versions(connect: Connect) -> None:
    data = connect().meta_data
    assert (data.jms_version, data.jms_major_version, data.jms_minor_version) == ("2.0", 2, 0)
