"""Which objects serve many threads, and what else a session allows another thread (JMS 1.1 §2.8, §4.4.6)."""

from __future__ import annotations

from threading import Barrier

import pytest

from pyjms import IllegalStateException, Session
from pyjms.runtime.connection import JmsConnection
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import PATIENCE_S, Call, WatchedClock, drain, send_texts, take_texts, text_of


@pytest.mark.realises("BOIL-CONC-1")
def test_a_destination_is_shared(connection: JmsConnection) -> None:
    queue = connection.create_session().create_queue("orders")
    together = Barrier(6, timeout=PATIENCE_S)

    def work(number: int) -> None:
        session = connection.create_session()
        together.wait()
        send_texts(session, queue, *(f"{number}-{turn}" for turn in range(50)))

    for call in [Call(work, number) for number in range(6)]:
        call.result()
    assert len(drain(connection.create_session().create_consumer(queue))) == 300


@pytest.mark.realises("BOIL-CONC-2")
def test_a_session_passes_from_thread_to_thread(session: Session) -> None:
    """One at a time is all that is asked; which one does not matter."""
    queue = session.create_queue("orders")
    consumer = session.create_consumer(queue)
    for number in range(5):
        Call(send_texts, session, queue, str(number)).result()
        assert Call(take_texts, consumer, 1).result() == [str(number)]


@pytest.mark.realises("BOIL-CONC-3", "BOIL-SESS-6", "BOIL-SESS-7")
def test_closing_is_for_every_thread(virtual_clock: WatchedClock, connection: JmsConnection) -> None:
    session = connection.create_session()
    waiting = Call(session.create_consumer(session.create_queue("orders")).receive)
    virtual_clock.await_blocked(waiting)
    closers = [Call(session.close) for _ in range(4)]
    for closer in closers:
        closer.result()
    assert waiting.result() is None
    with pytest.raises(IllegalStateException):
        session.create_message()


@pytest.mark.realises("BOIL-CONC-2")
def test_another_thread_may_send_while_one_waits(
    virtual_clock: WatchedClock, connection: JmsConnection, connect: Connect
) -> None:
    """More than JMS asks for: ported programs do it."""
    session = connection.create_session()
    orders, bills = session.create_queue("orders"), session.create_queue("bills")
    waiting = Call(session.create_consumer(orders).receive)
    virtual_clock.await_blocked(waiting)
    send_texts(session, bills, "bill")
    other = connect().create_session()
    assert take_texts(other.create_consumer(bills), 1) == ["bill"]
    send_texts(other, orders, "espresso")
    assert text_of(waiting.result()) == "espresso"


@pytest.mark.realises("BOIL-CONC-2")
def test_a_session_closes_at_any_moment_of_anothers_work(connect: Connect) -> None:
    """Whatever another thread does in it ends by an IllegalStateException, never by anything else."""
    for turn in range(30):
        connection = connect()
        session = connection.create_session(turn % 2 == 1, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue(f"orders-{turn}")
        begun = Barrier(2, timeout=PATIENCE_S)

        def work(session: Session = session, queue: object = queue, begun: Barrier = begun) -> int:
            done = 0
            producer, consumer = session.create_producer(queue), session.create_consumer(queue)  # type: ignore[arg-type]
            begun.wait()
            try:
                while True:
                    producer.send(session.create_text_message("espresso"))
                    if session.transacted:
                        session.commit()
                    message = consumer.receive(1000)
                    if message is not None and not session.transacted:
                        message.acknowledge()
                    done += 1
            except IllegalStateException:
                return done

        working = Call(work)
        begun.wait()
        closing = Call((connection if turn % 3 else session).close)
        closing.result()
        assert working.result() >= 0
