"""A signal that comes while the main thread is in a call of pyjms: what waits ends, and the handler runs at the end of the call."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyjms import Connection, ConnectionFactory, Message, Session, defer_signals
from pyjms.spi.interrupts import DEFAULT_SIGNALS, deferred
from pyjms_provider.broker import stop_broker
from pyjms_provider.queue_manager import QueueManager
from tests.provider.commands.served import BrokerProcess

NAME = "deferring"


class InterruptError(Exception):
    """What the handler of the tests raises."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Have SIGUSR1 raise; and all be deferred as it is for a program that chooses nothing."""
    before = signal.signal(signal.SIGUSR1, _raise)
    numbers = deferred.numbers
    defer_signals(*DEFAULT_SIGNALS)
    yield
    defer_signals(*numbers)
    signal.signal(signal.SIGUSR1, before)


def _raise(number: int, _: object) -> None:
    raise InterruptError(number)


@pytest.fixture(params=["vm", "stomp", "amqp"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    broker: BrokerProcess | None = None
    url = f"vm://{NAME}"
    if request.param != "vm":
        broker = BrokerProcess(tmp_path, "--listen", f"{request.param}://127.0.0.1:0", "--anonymous")
        url = broker.announced(request.param)[0]
    with ConnectionFactory(url).create_connection() as made:
        made.start()
        yield made
    if broker is None:
        stop_broker(NAME)
    else:
        broker.end()


@contextmanager
def signalled_while_it_waits(number: signal.Signals = signal.SIGUSR1) -> Iterator[None]:
    """Send a signal to this process when the main thread is in a call of pyjms that waits."""
    is_over = threading.Event()

    def send() -> None:
        while not is_over.wait(0.001):
            if deferred.wake is not None:
                os.kill(os.getpid(), number)
                return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("timeout", [0, 100_000])
def test_a_receive_that_waits_ends(connection: Connection, timeout: int) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("empty")
    consumer = session.create_consumer(queue)
    with pytest.raises(InterruptError), signalled_while_it_waits():
        consumer.receive(timeout)
    session.create_producer(queue).send(session.create_text_message("later"))
    assert consumer.receive(10_000) is not None


def test_a_close_that_waits_for_a_listener_ends_and_may_be_made_again(connection: Connection) -> None:
    session, sending = (connection.create_session(False, Session.AUTO_ACKNOWLEDGE) for _ in range(2))
    queue = session.create_queue("listened-to")
    is_called, goes_on = threading.Event(), threading.Event()

    def listener(_: Message) -> None:
        is_called.set()
        goes_on.wait(60)

    session.create_consumer(queue).message_listener = listener
    sending.create_producer(queue).send(sending.create_text_message("long work"))
    assert is_called.wait(60)
    with pytest.raises(InterruptError), signalled_while_it_waits():
        session.close()
    goes_on.set()
    session.close()


def test_a_send_that_waits_for_room_ends() -> None:
    with ConnectionFactory(f"vm://{NAME}").create_connection() as connection:
        QueueManager.of(NAME).create("full", max_messages=1, overflow="block")
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("full"))
        producer.send(session.create_text_message("one"))
        with pytest.raises(InterruptError), signalled_while_it_waits():
            producer.send(session.create_text_message("two"))
        assert QueueManager.of(NAME).report("full").waiting == 1
    stop_broker(NAME)


def test_a_handler_that_was_set_after_the_first_call_is_deferred(connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(session.create_queue("empty"))
    heard: list[int] = []

    def other(number: int, _: object) -> None:
        heard.append(number)
        raise InterruptError(number)

    signal.signal(signal.SIGUSR1, other)
    with pytest.raises(InterruptError), signalled_while_it_waits():
        consumer.receive()
    assert heard == [signal.SIGUSR1]


def test_a_handler_that_raises_nothing_ends_no_call(connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("quiet")
    consumer = session.create_consumer(queue)
    other = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    producer = other.create_producer(queue)

    def send_one(_: int, __: object) -> None:
        producer.send(other.create_text_message("sent by a handler"))

    signal.signal(signal.SIGUSR1, send_one)
    with signalled_while_it_waits():
        first = consumer.receive(100_000)
    assert (first or consumer.receive(10_000)) is not None


def test_signals_that_are_not_chosen_are_not_deferred(connection: Connection) -> None:
    defer_signals()
    assert signal.getsignal(signal.SIGUSR1) is _raise
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    assert signal.getsignal(signal.SIGUSR1) is _raise
    session.close()


@pytest.mark.parametrize("number", ["SIGINT", 9999, -1])
def test_what_is_no_signal_is_refused_and_changes_nothing(number: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        defer_signals(signal.SIGINT, number)
    assert deferred.numbers == DEFAULT_SIGNALS


def test_only_the_main_thread_chooses() -> None:
    found: list[str] = []

    def choose() -> None:
        try:
            defer_signals(signal.SIGINT)
        except ValueError as error:
            found.append(str(error))

    thread = threading.Thread(target=choose)
    thread.start()
    thread.join()
    assert "main thread" in found[0]


def test_ctrl_c_cancels_the_main_task_of_asyncio_after_calls_of_pyjms(connection: Connection) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    connection.create_session(False, Session.AUTO_ACKNOWLEDGE).close()
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    was_cancelled: list[bool] = []

    async def wait_for_ctrl_c() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.append(True)
            raise

    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(wait_for_ctrl_c())
    finally:
        signal.signal(signal.SIGINT, before)
    assert was_cancelled == [True]


def test_a_second_signal_ends_a_call_that_is_stuck(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, "--listen", "stomp://127.0.0.1:0", "--anonymous")
    [url] = broker.announced("stomp")
    connection = ConnectionFactory(f"{url}?reconnect=no").create_connection()
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    session.create_producer(session.create_queue("stuck")).send(session.create_text_message("never committed"))
    broker.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, broker.process.pid, os.WSTOPPED | os.WNOWAIT)
    is_over = threading.Event()

    def send_twice() -> None:
        for _ in range(2):
            while not deferred.depth and not is_over.is_set():
                is_over.wait(0.001)
            # The second one comes to a call that has been stuck for longer than STUCK_AFTER_S.
            if not is_over.wait(0.2):
                os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=send_twice)
    thread.start()
    try:
        with pytest.raises(InterruptError):
            session.commit()
    finally:
        is_over.set()
        thread.join()
        broker.process.send_signal(signal.SIGCONT)
        connection.close()
        broker.end()
