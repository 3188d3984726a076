"""A process in which many threads send and receive at once, until it is killed; each of them writes down what it was told.

``python -m tests.provider.kill.crowd URL FILE LIFE [refused]``. With ``refused`` who hears of an error begins again. A line of FILE for each answer: ``sent TEXT``, ``got TEXT FLAG`` (the flag is
JMSRedelivered) and ``done TEXT…``, which were acknowledged. A line is there whole once the call that writes it has returned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import Event, Thread
from threading import enumerate as all_threads

from pyjms import Connection, ConnectionFactory, JMSException, Session, TextMessage

SENDERS = CONSUMERS = 8
AT_ONCE = 20
QUEUE = "crowd"


def send(connection: Connection, file: int, name: str) -> None:
    """Send PERSISTENT messages one by one."""
    session = connection.create_session()
    producer = session.create_producer(session.create_queue(QUEUE))
    for number in count():
        text = f"{name}-{number}"
        producer.send(session.create_text_message(text))
        os.write(file, f"sent {text}\n".encode())


def take(connection: Connection, file: int, _: str) -> None:
    """Receive messages, and acknowledge some at once."""
    session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    consumer = session.create_consumer(session.create_queue(QUEUE))
    texts: list[str] = []
    while True:
        message = consumer.receive(1000)
        if message is None:
            continue
        assert isinstance(message, TextMessage)
        texts.append(message.text or "")
        os.write(file, f"got {message.text} {int(message.jms_redelivered)}\n".encode())
        if len(texts) == AT_ONCE:
            message.acknowledge()
            os.write(file, f"done {' '.join(texts)}\n".encode())
            texts.clear()


def has_committing_thread() -> bool:
    """Whether a thread of the journal commits for the others."""
    return any(thread.name.startswith("pyjms commits") for thread in all_threads())


def begin_again(work: Callable[[Connection, int, str], None], connection: Connection, file: int, name: str) -> None:
    """Work, and do so under another name once an error is told."""
    for attempt in count():
        with suppress(JMSException):
            work(connection, file, f"{name}.{attempt}")


def connect(url: str, attempts: int) -> Connection:
    """Connect; so often it may fail."""
    for _ in range(attempts):
        with suppress(JMSException):
            return ConnectionFactory(url).create_connection()
    return ConnectionFactory(url).create_connection()


def main(url: str, path: str, life: str, refused: str = "") -> None:
    """Work until the end comes."""
    sys.setswitchinterval(1e-5)  # threads change hands all the time
    connection = connect(url, 50 if refused else 0)
    connection.start()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(SENDERS + CONSUMERS):
        work = send if number < SENDERS else take
        arguments = connection, file, f"{life}-{number}"
        if refused:
            Thread(target=begin_again, args=(work, *arguments), daemon=True).start()
        else:
            Thread(target=work, args=arguments, daemon=True).start()
    for _ in range(1000):
        if has_committing_thread():
            sys.stdout.write("working\n")
            sys.stdout.flush()
            Event().wait()
        Event().wait(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
