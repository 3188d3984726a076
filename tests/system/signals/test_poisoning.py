"""A second signal that comes to a call that does not answer: the call ends, and its connection is given up."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyjms import ConnectionFactory, JMSException, Session, TextMessage, defer_signals
from pyjms.spi.interrupts import DEFAULT_SIGNALS, deferred
from pyjms_provider.broker import stop_broker
from tests.provider.commands.served import BrokerProcess
from tests.pyjms.runtime.wrapping import Wrapped

NAME = "poisoning"
CALLS = {
    "send": "send",
    "commit": "commit",
    "acknowledge": "acknowledge",
    "recover": "recover",
    "poll": "receive",
    "subscribe": "create_consumer",
}


class InterruptError(BaseException):
    """What the handler of the tests raises."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Have SIGUSR1 raise."""
    before, numbers = signal.signal(signal.SIGUSR1, _raise), deferred.numbers
    defer_signals(*DEFAULT_SIGNALS)
    yield
    defer_signals(*numbers)
    signal.signal(signal.SIGUSR1, before)


def _raise(number: int, _: object) -> None:
    raise InterruptError(number)


@contextmanager
def two_signals() -> Iterator[None]:
    """Send two signals to this process while the main thread is in a call of pyjms; the second one finds it stuck."""
    is_over = threading.Event()

    def send() -> None:
        for _ in range(2):
            while not deferred.depth and not is_over.is_set():
                is_over.wait(0.001)
            if not is_over.wait(0.2):
                os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class Place:
    """A connection to a broker in memory through a provider whose calls can be made to wait for ever."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.wrapped = Wrapped(f"vm://{NAME}")
        self.connection = ConnectionFactory(self.wrapped.url).create_connection()
        self.told: list[Exception] = []
        self.is_told = threading.Event()
        self.connection.exception_listener = self._hear
        self.connection.start()
        self.transacted = self.connection.create_session(True, Session.SESSION_TRANSACTED)
        self.session = self.connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        self.queue = self.session.create_queue("stuck")
        producer = self.connection.create_session().create_producer(self.queue)
        producer.send(self.session.create_text_message("first"))
        self.consumer = self.session.create_consumer(self.queue)
        self.message = self.consumer.receive(10_000)
        self.producer = self.transacted.create_producer(self.queue)

    def _hear(self, error: Exception) -> None:
        self.told.append(error)
        self.is_told.set()

    def stick(self, call: str) -> None:
        """Have one call of the SPI wait for ever, and the close of the connection wait as long."""
        self.wrapped.before[call] = self.answers.wait
        self.wrapped.before["close"] = self.answers.wait

    def make(self, call: str) -> None:
        """Make a call of the API that comes to this one of the SPI."""
        if call == "send":
            self.producer.send(self.session.create_text_message("second"))
        elif call == "commit":
            self.transacted.commit()
        elif call == "acknowledge":
            assert self.message is not None
            self.message.acknowledge()
        elif call == "recover":
            self.session.recover()
        elif call == "poll":
            self.consumer.receive()
        else:
            self.session.create_consumer(self.queue)


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.answers.set()
    made.wrapped.__exit__(None, None, None)
    stop_broker(NAME)


@pytest.mark.parametrize("call", CALLS)
def test_a_connection_whose_call_is_interrupted_in_its_midst_is_given_up(place: Place, call: str) -> None:
    place.stick(call)
    with pytest.raises(InterruptError), two_signals():
        place.make(call)
    assert place.connection.state == "lost"
    began_s = time.monotonic()
    with pytest.raises(JMSException, match="a second signal interrupted"):
        place.transacted.commit()
    with pytest.raises(JMSException, match="a second signal interrupted"):
        place.connection.create_session()
    with pytest.raises(JMSException, match="a second signal interrupted"):
        place.consumer.receive(10_000)
    assert place.is_told.wait(10)
    assert "a second signal" in str(place.told[0])
    place.connection.close()
    assert time.monotonic() - began_s < 5
    place.answers.set()
    with ConnectionFactory(f"vm://{NAME}").create_connection() as other:
        other.start()
        session = other.create_session()
        again = session.create_consumer(session.create_queue("stuck")).receive(10_000)
    assert isinstance(again, TextMessage)
    assert again.text == "first"
    assert again.jms_redelivered


def test_a_handler_that_raises_nothing_leaves_the_connection_as_it_is(place: Place) -> None:
    heard: list[int] = []

    def answer(number: int, _: object) -> None:
        heard.append(number)
        if len(heard) == 2:
            place.answers.set()

    signal.signal(signal.SIGUSR1, answer)
    place.stick("commit")
    with two_signals():
        place.make("commit")
    assert place.connection.state == "connected"
    place.connection.close()


def test_a_connection_that_is_made_anew_recovers(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, "--listen", "stomp://127.0.0.1:0", "--anonymous")
    [url] = broker.announced("stomp")
    connection = ConnectionFactory(url).create_connection()
    connection.start()
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    queue = session.create_queue("stuck")
    session.create_producer(queue).send(session.create_text_message("never committed"))
    broker.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, broker.process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        with pytest.raises(InterruptError), two_signals():
            session.commit()
    finally:
        broker.process.send_signal(signal.SIGCONT)
    other = connection.create_session()
    other.create_producer(queue).send(other.create_text_message("after it"))
    texts = []
    consumer = other.create_consumer(queue)
    while isinstance(message := consumer.receive(10_000), TextMessage):
        texts.append(message.text)
        if message.text == "after it":
            break
    assert texts[-1] == "after it"
    connection.close()
    broker.end()


def test_a_close_that_waits_for_another_threads_close_ends_at_a_signal(place: Place) -> None:
    place.wrapped.before["close"] = place.answers.wait
    thread = threading.Thread(target=place.connection.close)
    thread.start()
    while "close" not in place.wrapped.calls and thread.is_alive():
        thread.join(0.001)

    def send() -> None:
        while deferred.wake is None:
            place.answers.wait(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    began_s = time.monotonic()
    with pytest.raises(InterruptError):
        place.connection.close()
    assert time.monotonic() - began_s < 5
    sender.join()
    place.answers.set()
    thread.join()
    place.connection.close()
