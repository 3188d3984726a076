"""A program that ends while its listeners wait is told so, and one that may well mean it is not."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.server_pool import Pool

BEGIN = """
import os, signal, sys, threading
from pyjms import ConnectionFactory, Session

factory = ConnectionFactory("vm://leaving")
connection = factory.createConnection()
session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
queue = session.createQueue("orders")
consumer = session.createConsumer(queue)


def listen():
    consumer.setMessageListener(print)
    connection.start()
    return 0
"""

TOLD = {
    "the main function returns": "listen()",
    "its result is the exit code": "sys.exit(listen())",
    "in a child that was forked": """
        connection.close()
        if os.fork():
            os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
        connection = ConnectionFactory("vm://child").createConnection()
        session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.createConsumer(queue)
        listen()
    """,
}
NOT_TOLD = {
    "a thread that keeps the program alive closes": """
        listen()
        main = threading.main_thread()
        threading.Thread(target=lambda: (main.join(), connection.close())).start()
    """,
    "the child that was forked has no listeners": """
        listen()
        if os.fork():
            assert os.wait()[1] == 0
            connection.close()
    """,
}
BROKEN_OFF = {
    "an exception": "listen(); raise ValueError",
    "Ctrl-C": "listen(); signal.raise_signal(signal.SIGINT)",
}


def stderr_of(program: str, *options: str) -> str:
    """Run `program` after `BEGIN`; return what it wrote to stderr."""
    command = [sys.executable, *options, "-c", BEGIN + dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120)
    return done.stderr


@pytest.mark.parametrize("program", TOLD.values(), ids=TOLD)
def test_who_comes_to_the_end_while_listeners_wait_is_told_once_what_to_do(program: str) -> None:
    told = stderr_of(program).splitlines()
    assert [line.partition(" ")[0] for line in told] == ["PYJMS-ENDED"], told
    assert "while 1 connection(s) with listeners are open" in told[0]
    assert "threading.Event().wait()" in told[0]


def test_connections_are_counted() -> None:
    second = """
        listen()
        connection = factory.createConnection()
        session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.createConsumer(queue)
        listen()
    """
    assert "PYJMS-ENDED the program ends while 2 connection(s)" in stderr_of(second)


@pytest.mark.parametrize("program", NOT_TOLD.values(), ids=NOT_TOLD)
def test_who_has_closed_or_never_listened_is_not(program: str) -> None:
    told = stderr_of(program)
    assert "PYJMS-ENDED" not in told
    assert "Traceback" not in told


@pytest.mark.parametrize("program", BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_a_program_that_an_exception_ends_says_that_alone(program: str) -> None:
    told = stderr_of(program)
    assert "PYJMS-ENDED" not in told
    assert "Traceback" in told


def test_at_a_prompt_nobody_is_told() -> None:
    assert "PYJMS-ENDED" not in stderr_of("listen()", "-i")


def test_a_connection_listens_while_it_is_started_and_a_consumer_has_a_listener(connect: Connect) -> None:
    connection = connect(started=False)
    session = connection.create_session()
    consumer = session.create_consumer(session.create_queue("orders"))
    consumer.message_listener = print
    seen = [connection.is_listening]
    for step in (connection.start, connection.stop, connection.start):
        step()
        seen.append(connection.is_listening)
    consumer.message_listener = None
    seen.append(connection.is_listening)
    assert seen == [False, True, False, True, False]


@pytest.mark.parametrize("end", ["consumer", "session", "connection"])
def test_what_is_closed_does_not_listen(end: str, connect: Connect) -> None:
    connection = connect(started=True)
    session = connection.create_session()
    consumer = session.create_consumer(session.create_queue("orders"))
    consumer.message_listener = print
    assert connection.is_listening
    {"consumer": consumer, "session": session, "connection": connection}[end].close()
    assert not connection.is_listening


def test_a_connection_consumer_listens(connect: Connect) -> None:
    connection = connect(started=True)
    queue = connection.create_session().create_queue("orders")
    consumer = connection.create_connection_consumer(queue, None, Pool(connection, print), 1)
    assert connection.is_listening
    consumer.close()
    assert not connection.is_listening
