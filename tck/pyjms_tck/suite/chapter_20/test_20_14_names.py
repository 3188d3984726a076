"""The names of JMS 2.0 on a provider's objects (20.14)."""

from __future__ import annotations

from pyjms import ConnectionFactory, Queue, Session, XAConnectionFactory
from pyjms_tck.fixtures import Connect, MakeFactory
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_20.conftest import MakeContext
from pyjms_tck.suite.chapter_20.listening import Completions
from pyjms_tck.suite.members import check_objects

ADDED = "api-2"


@requirement("20.14-a")
def test_20_14_a_the_classic_types_have_what_was_added(
    connect: Connect, factory: ConnectionFactory, queue: Queue
) -> None:
    connection = connect()
    session: Session = connection.create_session()
    check_objects(
        ADDED,
        Connection=connection,
        ConnectionFactory=factory,
        Session=session,
        MessageProducer=session.create_producer(queue),
        Message=session.create_message(),
        CompletionListener=Completions(),
    )


@requirement("20.14-a")
def test_20_14_a_the_simplified_types_have_their_members(make_context: MakeContext, queue: Queue) -> None:
    context = make_context()
    check_objects(
        ADDED, JMSContext=context, JMSProducer=context.create_producer(), JMSConsumer=context.create_consumer(queue)
    )


@requirement("20.14-a")
@needs("XA")
def test_20_14_a_the_types_of_xa_have_their_members(make_factory: MakeFactory) -> None:
    factory = make_factory(XAConnectionFactory)
    with factory.create_xa_context() as context:
        check_objects(ADDED, XAConnectionFactory=factory, XAJMSContext=context)
