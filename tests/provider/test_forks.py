"""Children that a process forks keep nothing of it: no port, no connection, no lock; and break nothing under it."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest

from pyjms import ConnectionFactory, Session, TextMessage
from pyjms_provider import forks
from pyjms_provider.broker import stop_broker
from pyjms_provider.serving.served_broker import ServedBroker

ROOT = Path(__file__).parents[2]
PATIENCE_S = 20.0

BROKER = """
import os, sys
from pyjms_provider.serving.http_port import HttpListeningPort
from pyjms_provider.transport.service import EventLoop, NetworkService
from pyjms_provider.transport.settings import ListenerSettings
from tests.provider.transport.world import Engines

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    await receive()
    await receive()

network = NetworkService("parent", event_loop=EventLoop(sys.argv[1]))
network.start()
listener = network.open(ListenerSettings(), Engines())
http = HttpListeningPort(network, ListenerSettings(scheme="http"), app)
print(listener.port, http.addresses[0].rpartition(":")[2], flush=True)
"""
CLIENT = """
import os, sys
from pyjms import ConnectionFactory, JMSException, Session
connection = ConnectionFactory(sys.argv[1] + "?heart_beat_ms=0&reconnect=no").create_connection()
connection.start()
session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
queue = session.create_queue("orders")
producer, consumer = session.create_producer(queue), session.create_consumer(queue)
producer.send(session.create_text_message("before"))
"""
DIES = """
sys.stdin.readline()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.close(1)
sys.stdin.read()
os._exit(0)
"""
LEAVES = """
if not os.fork():
    try:
        producer.send(session.create_text_message("the child's"))
    except JMSException as error:
        assert "forked" in str(error)
        connection.close()
        sys.exit(0)
    sys.exit(1)
assert os.wait()[1] == 0
assert consumer.receive(5000).text == "before"
producer.send(session.create_text_message("after"))
assert consumer.receive(5000).text == "after"
connection.close()
"""
SERVES = """
import os, sys
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.transport.service import NetworkService
with ServedBroker.open(name="parent") as served, NetworkService("parent") as network:
    if not os.fork():
        sys.exit(0)
    assert os.wait()[1] == 0
"""


STORE = """
import os, signal, sys
from pyjms import ConnectionFactory, Session
from pyjms_provider.broker import stop_broker
connection = ConnectionFactory(sys.argv[1]).create_connection()
session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
producer = session.create_producer(session.create_queue("orders"))
producer.send(session.create_text_message(sys.argv[2]))
"""
STOPS = """
if not os.fork():
    print("forked", flush=True)
    sys.stdin.readline()
    sys.exit(0)
stop_broker("kept")
os._exit(0)
"""


@contextmanager
def parent(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program, whose child ends with the block at the latest."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        if process.poll() is None:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def die(process: subprocess.Popen[str]) -> int:
    """Let a parent fork and die; return its child, which lives."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    child = int(said(process))
    process.wait(PATIENCE_S)
    os.kill(child, 0)
    return child


def is_over(connection: socket.socket) -> bool:
    """Return whether the other side is seen to have ended."""
    connection.settimeout(PATIENCE_S)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def can_be_had(port: int) -> bool:
    """Return whether one may listen there; the system may take a moment to let go of what a dead process had."""
    pause = Event()
    for _ in range(200):
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                other.bind(("127.0.0.1", port))
                other.listen()
                return True
        pause.wait(0.01)
    return False


@pytest.mark.parametrize("event_loop", ["uvloop", "asyncio"])
def test_a_child_of_a_broker_keeps_neither_ports_nor_connections(event_loop: str) -> None:
    """Else no broker could take the place of one that was killed, and its clients would wait for a dead one."""
    with parent(BROKER + DIES, event_loop) as process, ExitStack() as opened:
        ports = [int(port) for port in said(process).split()]
        stomp, http = (opened.enter_context(socket.create_connection(("127.0.0.1", port))) for port in ports)
        stomp.sendall(b"heard")
        assert stomp.recv(100) == b"heard"
        http.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while b"first" not in answer:
            answer += http.recv(1000)
        die(process)
        assert [is_over(stomp), is_over(http)] == [True, True]
        assert [can_be_had(port) for port in ports] == [True, True]


@pytest.fixture
def url() -> Iterator[str]:
    with ServedBroker.open(name="broker") as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        top.create_child("virtual_host_node", {"name": "broker", "type": "memory"}).create_child(
            "virtual_host", {"name": "broker"}
        )
        port = {
            "name": "p",
            "type": "stomp",
            "port": 0,
            "authentication_providers": ["anonymous"],
            "access_control": "access",
        }
        top.create_child("port", port)
        yield served.addresses()[0]


def test_a_child_of_a_client_does_not_keep_what_that_had_received(url: str) -> None:
    with parent(CLIENT + "consumer.receive(5000)\nprint('received', flush=True)\n" + DIES, url) as process:
        assert said(process) == "received\n"
        die(process)
        with ConnectionFactory(url).create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            message = session.create_consumer(session.create_queue("orders")).receive(int(PATIENCE_S * 1000))
            assert isinstance(message, TextMessage)
            assert (message.text, message.jms_redelivered) == ("before", True)


def test_a_child_of_a_client_neither_speaks_for_it_nor_ends_its_connection(url: str) -> None:
    subprocess.run([sys.executable, "-c", CLIENT + LEAVES, url], cwd=ROOT, timeout=PATIENCE_S, check=True)


def test_a_child_that_leaves_a_broker_of_its_parent_waits_for_nobody() -> None:
    subprocess.run([sys.executable, "-c", SERVES], cwd=ROOT, timeout=PATIENCE_S, check=True)


def test_a_child_that_ends_deletes_no_log_of_who_has_the_store_by_then(tmp_path: Path) -> None:
    """SQLite would, as it closes the child's connections, whose locks were the parent's."""
    url = f"vm://kept?store=sqlite:///{tmp_path / 'store.db'}"
    with parent(STORE + STOPS, url, "first") as process:
        assert said(process) == "forked\n"
        process.wait(PATIENCE_S)
        killed = STORE + "os.kill(os.getpid(), signal.SIGKILL)"
        subprocess.run([sys.executable, "-c", killed, url, "second"], cwd=ROOT, timeout=PATIENCE_S, check=False)
        assert (tmp_path / "store.db-wal").exists()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert said(process) == "", "the child has ended"
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        with session.create_browser(session.create_queue("orders")) as browser:
            assert [message.text for message in browser if isinstance(message, TextMessage)] == ["first", "second"]
    stop_broker("kept")


EMBEDDED = """
import os, sys
from threading import Event
from pyjms import ConnectionFactory, JMSException, Session
from pyjms.spi.errors import ProviderError
from pyjms.testing import VirtualClock
from pyjms_provider.queue_manager import QueueManager

clock = VirtualClock()
connection = ConnectionFactory("vm://shop", clock=clock).create_connection()
connection.start()
session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
transacted = connection.create_session(True, Session.SESSION_TRANSACTED)
listening = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
queue, topic = session.create_queue("orders"), session.create_topic("news")
producer, consumer = session.create_producer(queue), session.create_consumer(queue)
heard = []
has_heard = Event()
def hear(message):
    heard.append(message)
    has_heard.set()
listening.create_consumer(listening.create_queue("heard")).message_listener = hear
for text in ("first", "second"):
    producer.send(session.create_text_message(text))
first = consumer.receive(5000)
temporary = session.create_temporary_queue()
browser = session.create_browser(queue)
manager = QueueManager.of("shop")

def refuse(call):
    try:
        found = call()
    except (JMSException, ProviderError) as error:
        assert "forked from" in str(error) and "pyjms broker run" in str(error), error
    else:
        raise AssertionError(f"it answered {found!r}")
"""
CHILD_OF_EMBEDDED = """
child = os.fork()
if not child:
    try:
        for call in (
            lambda: producer.send(session.create_text_message("of the child")),
            lambda: consumer.receive(5000),
            lambda: consumer.receive(),
            consumer.receive_no_wait,
            first.acknowledge,
            session.recover,
            lambda: transacted.create_producer(queue).send(first),
            lambda: transacted.create_consumer(queue),
            lambda: list(browser),
            lambda: session.create_consumer(topic),
            session.create_temporary_queue,
            temporary.delete,
            lambda: connection.create_session(False, Session.AUTO_ACKNOWLEDGE),
            connection.start,
            connection.stop,
            ConnectionFactory("vm://shop").create_connection,
            ConnectionFactory("vm://shop?max_messages=5").create_connection,
            lambda: QueueManager.of("shop"),
            lambda: manager.report("orders"),
            lambda: manager.purge("orders"),
        ):
            refuse(call)
        clock.advance(1000)
        consumer.close()
        transacted.close()
        connection.close()
        with ConnectionFactory("vm://own").create_connection() as own:
            own.start()
            work = own.create_session(False, Session.AUTO_ACKNOWLEDGE)
            here = work.create_queue("orders")
            work.create_producer(here).send(work.create_text_message("own"))
            assert work.create_consumer(here).receive(5000).text == "own"
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
first.acknowledge()
assert consumer.receive(5000).text == "second"
assert consumer.receive_no_wait() is None
producer.send(session.create_text_message("after"))
assert consumer.receive(5000).text == "after"
session.create_producer(session.create_queue("heard")).send(session.create_text_message("heard"))
assert has_heard.wait(10)
connection.close()
"""
POOL = """
import multiprocessing
from pyjms import ConnectionFactory, JMSException
connection = ConnectionFactory("vm://shop").create_connection()
def work(number):
    try:
        ConnectionFactory("vm://shop").create_connection()
    except JMSException as error:
        return "forked from" in str(error)
    return False
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(work, range(4)) == [True] * 4
"""


@pytest.mark.parametrize("program", [EMBEDDED + CHILD_OF_EMBEDDED, POOL], ids=["fork", "pool"])
def test_a_child_of_a_process_with_a_broker_in_memory_is_told_that_the_broker_is_not_its_own(program: str) -> None:
    """Else it works on a copy: what it sends reaches nobody, and what it receives is received in both."""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=PATIENCE_S, check=True)


def test_a_child_gets_no_other_broker_by_the_name_of_one_with_a_store(tmp_path: Path) -> None:
    url = f"vm://kept?store=sqlite:///{tmp_path / 'store.db'}"
    connects = """
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    os._exit(0)
for call in (ConnectionFactory("vm://kept").create_connection, lambda: producer.send(session.create_text_message("x"))):
    try:
        call()
    except Exception as error:
        assert "forked from" in str(error), error
    else:
        os._exit(1)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", STORE + connects, url, "first"], cwd=ROOT, timeout=PATIENCE_S, check=True)


@pytest.mark.parametrize("many_are_open", [False, True])
def test_what_is_let_go_of_is_nothing(monkeypatch: pytest.MonkeyPatch, many_are_open: bool) -> None:
    ours, theirs = socket.socketpair()
    opened: Callable[..., int] = os.open
    with ours, theirs:

        def refuse(*arguments: object) -> int:
            raise OSError(errno.EMFILE, "too many open files")

        monkeypatch.setattr(os, "open", refuse if many_are_open else opened)
        forks.let_go(ours.fileno())
        forks.let_go(-1)
        monkeypatch.undo()
        theirs.settimeout(PATIENCE_S)
        assert theirs.recv(1) == b""
        if many_are_open:
            ours.detach()
