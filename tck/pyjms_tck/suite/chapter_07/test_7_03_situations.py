"""Which exception a provider raises in which situation; those of messages and selectors stand apart (7.3)."""

from __future__ import annotations

import pytest

from pyjms import (
    ConnectionFactory,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    JMSSecurityException,
    Queue,
    Session,
)
from pyjms_tck.checks import Checks
from pyjms_tck.fixtures import Connect, MakeName
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import NO_DESTINATION


@requirement("7.3-b")
def test_7_3_b_illegal_state_reports_a_call_at_the_wrong_time(
    connect: Connect, session: Session, queue: Queue, make_name: MakeName
) -> None:
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
    producer.send(temporary, session.create_text_message("while it is there"))
    temporary.delete()
    with Checks() as check:
        message = session.create_text_message("text")
        check.fails("a send to what was deleted", InvalidDestinationException, producer.send, temporary, message)
        check.fails("a consumer of what was deleted", InvalidDestinationException, session.create_consumer, temporary)
