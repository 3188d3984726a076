"""Rules that JMS 2.0 changed (20.6)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import Connection, IllegalStateException, Queue, Session
from pyjms_tck.environment import Waits
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.exchange import Holding, send_texts, take


@requirement("20.6-a")
def test_20_6_a_each_message_has_a_delivery_count(connection: Connection, queue: Queue, waits: Waits) -> None:
    session = connection.create_session(Session.CLIENT_ACKNOWLEDGE)
    send_texts(session, queue, "text")
    consumer = session.create_consumer(queue)
    message = take(consumer, waits)
    assert message.get_int_property("JMSXDeliveryCount") == 1
    session.recover()
    message = take(consumer, waits)
    assert message.jms_redelivered
    assert message.getIntProperty("JMSXDeliveryCount") >= 2
    message.acknowledge()


def _refused(connection: Connection, session: Session, queue: Queue, waits: Waits, call: Any) -> None:
    consumer = session.create_consumer(queue)
    with Holding(waits, lambda _: call()) as holding:
        consumer.message_listener = holding
        send_texts(connection.create_session(), queue, "text")
        holding.wait_until_entered()
        holding.release()
        waits.until(holding.returned.is_set, "the listener had returned")
    assert type(holding.error) is IllegalStateException


@requirement("20.6-b")
@pytest.mark.parametrize("method", ["close", "stop"])
def test_20_6_b_a_listener_must_not_close_or_stop_its_connection(
    connection: Connection, session: Session, queue: Queue, waits: Waits, method: str
) -> None:
    _refused(connection, session, queue, waits, getattr(connection, method))


@requirement("20.6-c")
def test_20_6_c_a_listener_must_not_close_its_session(
    connection: Connection, session: Session, queue: Queue, waits: Waits
) -> None:
    _refused(connection, session, queue, waits, session.close)
