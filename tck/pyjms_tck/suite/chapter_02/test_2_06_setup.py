"""JMS 1.1 §2.6: how a client is set up."""

from __future__ import annotations

from typing import Any

from pyjms import InitialContext, Queue, Session
from pyjms_tck.checks import expect
from pyjms_tck.environment import Environment
from pyjms_tck.requirements import requirement


@requirement("2.6.1-a")
def test_2_6_1_a_the_usual_setup_works(environment: Environment, queue: Queue) -> None:
    profile, waits = environment.profile, environment.waits
    names = {"connectionfactory.tck/factory": environment.url, "queue.tck/queue": queue.queue_name}
    options = {
        f"property.connectionfactory.tck/factory.{name}": str(value) for name, value in profile.options.items() if value
    }
    context = InitialContext({**names, **options})
    factory: Any = context.lookup("tck/factory")
    destination: Any = context.lookup("tck/queue")
    with factory.create_connection(profile.user_name, profile.password) as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(destination)
        consumer = session.create_consumer(destination)
        connection.start()
        producer.send(session.create_text_message("hello"))
        received: Any = consumer.receive(waits.something_ms)
        assert received is not None, "the message that was sent after the usual setup: expected it, saw nothing"
        expect("its text", received.text, "hello")
