"""Destinations and connection factories, used by several threads (4.2)."""

from __future__ import annotations

from functools import partial

from pyjms import Connection, ConnectionFactory, Queue, Session
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, RunBackground
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.exchange import send_texts, take_texts

THREADS = 4
MESSAGES = 5


@requirement("4.2.1-a")
def test_4_2_1_a_several_threads_send_to_one_queue_object(
    queue: Queue, connect: Connect, session: Session, background: RunBackground, waits: Waits
) -> None:
    texts = [[f"thread {thread}, message {number}" for number in range(MESSAGES)] for thread in range(THREADS)]

    def send(mine: list[str], connection: Connection) -> str:
        send_texts(connection.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, *mine)
        return queue.queue_name

    connections = [connect() for _ in range(THREADS)]
    sending = [background(partial(send, mine, connection)) for mine, connection in zip(texts, connections, strict=True)]
    names = {task.result() for task in sending}
    received = take_texts(session.create_consumer(queue), waits, THREADS * MESSAGES)
    assert names == {queue.queue_name}, "each thread reads the same name from the queue"
    assert sorted(map(str, received)) == sorted(text for mine in texts for text in mine), "all messages arrive"


@requirement("4.2.2-a")
def test_4_2_2_a_several_threads_make_connections_with_one_factory(
    factory: ConnectionFactory, queue: Queue, session: Session, background: RunBackground, waits: Waits
) -> None:
    def send(text: str) -> None:
        with factory.create_connection() as connection:
            send_texts(connection.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, text)

    texts = [f"thread {number}" for number in range(THREADS)]
    for task in [background(partial(send, text)) for text in texts]:
        task.result()
    received = take_texts(session.create_consumer(queue), waits, THREADS)
    assert sorted(map(str, received)) == texts, "the message of each thread's connection arrives"
