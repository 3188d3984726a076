"""A child process: a broker with a store in PostgreSQL, whose process is stopped and goes on later (SIGSTOP, SIGCONT).

When it has all ready it says so, and after a line on its standard input it hands out what it can. The thread that looks whether the
store is still held comes last, as it may: it waits until that has been done.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Event, Lock, Thread, current_thread
from urllib.parse import quote

from pyjms import Connection, ConnectionFactory, JMSException, Message, MessageConsumer, Session, TextMessage
from pyjms.spi.clock import Signal, SystemClock
from tests.system.network.served import port_of, stored_broker

EACH = 10
"""So many messages are sent to each queue, of which the first is received and acknowledged: its delivery mark covers the others."""
QUEUES = ("pulled", "waited", "listened", "browsed")
_LONG_S = 30


class LateLooks(SystemClock):
    """Has the thread that looks wait until it may."""

    def __init__(self) -> None:
        self.may_look = Event()
        self.may_look.set()

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        came = super().wait(signal, until_ms)
        if current_thread().name.startswith("pyjms holder"):
            self.may_look.wait(_LONG_S)
        return came


_saying = Lock()


def say(line: str) -> None:
    with _saying:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def got(message: Message) -> None:
    assert isinstance(message, TextMessage)
    say(f"got {message.text}")


def stock(connection: Connection) -> None:
    """Fill the queues."""
    session = connection.create_session()
    for name in QUEUES:
        queue = session.create_queue(name)
        producer = session.create_producer(queue)
        for number in range(EACH):
            producer.send(session.create_text_message(f"{name} {number}"))
        with session.create_consumer(queue) as consumer:
            assert consumer.receive(_LONG_S * 1000) is not None


def receive_all(consumer: MessageConsumer, timeout_ms: int) -> None:
    with suppress(JMSException):
        while (message := consumer.receive(timeout_ms)) is not None:
            got(message)


def embedded(url: str) -> None:
    """Clients in this process: one that waits, one that listens, one that browses, one that asks."""
    clock = LateLooks()
    factory = ConnectionFactory(f"vm://holder?store={quote(url, safe='')}", clock=clock)
    with factory.create_connection() as connection, factory.create_connection() as stopped:
        connection.start()
        stock(connection)
        was_told = Event()
        stopped.exception_listener = lambda _: was_told.set()
        consumers = {}
        for name in QUEUES[:3]:
            session = (connection if name == "pulled" else stopped).create_session(False, Session.CLIENT_ACKNOWLEDGE)
            consumers[name] = session.create_consumer(session.create_queue(name))
        browsing = connection.create_session()
        browser = browsing.create_browser(browsing.create_queue("browsed"))
        consumers["listened"].message_listener = got
        waiting = Thread(target=receive_all, args=(consumers["waited"], 60_000))
        waiting.start()
        clock.may_look.clear()
        say("ready")
        sys.stdin.readline()
        with suppress(JMSException):
            stopped.start()
        receive_all(consumers["pulled"], -1)
        with suppress(JMSException):
            for message in browser:
                got(message)
        clock.may_look.set()
        assert was_told.wait(_LONG_S), "it was not told that the broker has lost its store"
        waiting.join(_LONG_S)
        say("done")


def served(url: str) -> None:
    """Clients elsewhere; they say themselves what they are sent."""
    clock = LateLooks()
    with stored_broker(url, clock) as broker:
        port = port_of(broker)
        with ConnectionFactory(f"stomp://127.0.0.1:{port}").create_connection() as connection:
            connection.start()
            stock(connection)
        clock.may_look.clear()
        say(f"ready {port}")
        sys.stdin.readline()
        clock.may_look.set()
        sys.stdin.readline()


if __name__ == "__main__":
    {"embedded": embedded, "served": served}[sys.argv[1]](sys.argv[2])
