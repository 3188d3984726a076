"""A broker without a store is bounded in memory: the rest waits in a temporary file, which ends with the broker however that ends."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    JMSException,
    MessageConsumer,
    ResourceAllocationException,
    Session,
)
from pyjms_provider.broker import running_broker, stop_broker
from pyjms_provider.core.store import PagingMessageStore
from pyjms_provider.queue_manager import QueueManager
from tests.system.network import served

_numbers = count(1)
LIMIT = 100_000
BODY = "x" * 1000
NON_PERSISTENT, PERSISTENT = DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT


@contextmanager
def opened(options: str) -> Iterator[tuple[str, Connection]]:
    name = f"temporary-{next(_numbers)}"
    try:
        with ConnectionFactory(f"vm://{name}?{options}").create_connection() as connection:
            connection.start()
            yield name, connection
    finally:
        stop_broker(name)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[str, Connection]]:
    with opened(f"memory={LIMIT}&paging_directory={tmp_path}") as found:
        yield found


def store_of(name: str) -> PagingMessageStore:
    broker = running_broker(name)
    assert broker is not None
    store = broker.virtual_host.store
    assert isinstance(store, PagingMessageStore)
    return store


def send(session: Session, number: int, *, to: str = "orders", mode: int = NON_PERSISTENT) -> list[str]:
    texts = [f"{index:04} {BODY}" for index in range(number)]
    with session.create_producer(session.create_queue(to)) as producer:
        for index, each in enumerate(texts):
            message = session.create_text_message(each)
            message.set_int_property("index", index)
            producer.send(message, delivery_mode=mode)
    return texts


def texts_of(consumer: MessageConsumer) -> list[str]:
    found: list[str] = []
    while (message := consumer.receive_no_wait()) is not None:
        found.append(message.text)  # type: ignore[attr-defined]
    return found


def open_files(directory: Path) -> list[Path]:
    """Return the open files of this process that are, or were, in a directory."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if str(link.readlink()).startswith(str(directory))]


@pytest.mark.realises("BJ-MSG-5")
@pytest.mark.parametrize("mode", [NON_PERSISTENT, PERSISTENT])
def test_memory_is_bounded_and_all_comes_back_in_order(small: tuple[str, Connection], mode: int) -> None:
    name, connection = small
    session = connection.create_session()
    texts = send(session, 1000, mode=mode)
    store = store_of(name)
    # One message may come after the last relief, and another one of the sender.
    assert store.bytes_in_memory <= LIMIT + 5_000
    assert len(store) == 1000
    assert texts_of(session.create_consumer(session.create_queue("orders"))) == texts
    assert (len(store), store.bytes_in_memory) == (0, 0)


@pytest.mark.realises("BJ-MSG-5")
def test_selectors_browsers_and_what_is_given_back_find_it(small: tuple[str, Connection]) -> None:
    _, connection = small
    session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    texts = send(session, 500)
    assert [each.text for each in session.create_browser(queue)] == texts  # type: ignore[attr-defined]
    with session.create_consumer(queue, "index >= 490") as consumer:
        assert texts_of(consumer) == texts[490:]
    session.recover()
    with session.create_consumer(queue) as consumer:
        assert texts_of(consumer) == texts


@pytest.mark.realises("BJ-MSG-5")
def test_a_transaction_and_the_subscriptions_of_a_topic_may_be_larger_than_memory(
    small: tuple[str, Connection],
) -> None:
    name, connection = small
    receiving = connection.create_session()
    topic = receiving.create_topic("news")
    consumers = [receiving.create_consumer(topic) for _ in range(3)]
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    producer = session.create_producer(topic)
    texts = [f"{index:04} {BODY}" for index in range(500)]
    for each in texts:
        producer.send(session.create_text_message(each), delivery_mode=NON_PERSISTENT)
    assert store_of(name).bytes_in_memory <= LIMIT + 5_000
    session.commit()
    for consumer in consumers:
        assert texts_of(consumer) == texts
    assert len(store_of(name)) == 0


@dataclass
class Order:
    number: int


def test_an_object_that_has_never_left_the_process_needs_no_trust(small: tuple[str, Connection]) -> None:
    _, connection = small
    session = connection.create_session()
    queue = session.create_queue("orders")
    producer = session.create_producer(queue)
    send(session, 200, to="others")  # memory is full
    for number in range(50):
        producer.send(session.create_object_message(Order(number)), delivery_mode=NON_PERSISTENT)
    consumer = session.create_consumer(queue)
    assert [consumer.receive(1000).object for _ in range(50)] == [Order(each) for each in range(50)]  # type: ignore[union-attr]


@pytest.mark.realises("BJ-MSG-5")
def test_a_queue_flows_to_the_temporary_file(tmp_path: Path) -> None:
    options = f"memory=10MB&paging_directory={tmp_path}&overflow=flow_to_disk&max_messages=5"
    with opened(options) as (name, connection):
        session = connection.create_session()
        texts = send(session, 100)
        assert store_of(name).count_in_memory <= 7
        assert texts_of(session.create_consumer(session.create_queue("orders"))) == texts


def test_without_memory_a_queue_that_flows_to_disk_is_refused() -> None:
    with pytest.raises(JMSException, match="start it with store= or memory=, or choose reject, block or ring"):
        ConnectionFactory("vm://never?overflow=flow_to_disk&max_messages=5").create_connection()


@pytest.mark.realises("BJ-MSG-5")
def test_a_virtual_host_without_a_store_obeys_memory_bytes(tmp_path: Path) -> None:
    with served.stored_broker(None, memory_bytes="1MB", paging_directory=str(tmp_path)) as broker:
        connection = ConnectionFactory(f"stomp://127.0.0.1:{served.port_of(broker)}").create_connection()
        with connection:
            connection.start()
            session = connection.create_session()
            texts = send(session, 4000)
            store = served.store_of(broker)
            assert isinstance(store, PagingMessageStore)
            assert store.bytes_in_memory <= 1_100_000
            consumer = session.create_consumer(session.create_queue("orders"))
            got = [consumer.receive(10_000).text for _ in texts]  # type: ignore[union-attr]
            assert got == texts


# The file


def test_the_file_has_no_name_and_is_its_owners_alone_and_ends_with_the_broker(tmp_path: Path) -> None:
    with opened(f"memory={LIMIT}&paging_directory={tmp_path}") as (_, connection):
        assert open_files(tmp_path) == [], "it is made when it is needed"
        send(connection.create_session(), 500)
        assert list(tmp_path.iterdir()) == []
        (found,) = open_files(tmp_path)
        assert stat.S_IMODE(found.stat().st_mode) == 0o600
        assert found.stat().st_size > 250_000
    assert open_files(tmp_path) == []


def test_space_is_used_again(tmp_path: Path) -> None:
    with opened(f"memory={LIMIT}&paging_directory={tmp_path}") as (_, connection):
        session = connection.create_session()
        consumer = session.create_consumer(session.create_queue("orders"))
        sizes = []
        for _ in range(4):
            texts = send(session, 2000)
            assert texts_of(consumer) == texts
            sizes.append(open_files(tmp_path)[0].stat().st_size)
        assert sizes[-1] <= 1.5 * sizes[0]


_PROGRAM = """
import sys
from pyjms import ConnectionFactory
connection = ConnectionFactory(f"vm://a?memory=100000&paging_directory={sys.argv[1]}").create_connection()
session = connection.create_session()
producer = session.create_producer(session.create_queue("orders"))
for _ in range(500):
    producer.send(session.create_text_message("x" * 1000), delivery_mode=1)
print("sent", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"sent\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert list(tmp_path.iterdir()) == []


_GROWTH = """
import sys
from pyjms import ConnectionFactory
from pyjms_provider.model.broker import resident_bytes
connection = ConnectionFactory(f"vm://a?memory=5MB&paging_directory={sys.argv[1]}").create_connection()
session = connection.create_session()
queue = session.create_queue("orders")
producer = session.create_producer(queue)
before = most = resident_bytes()
for index in range(6000):
    producer.send(session.create_text_message("x" * 10_000), delivery_mode=1)
    most = max(most, resident_bytes()) if index % 500 == 0 else most
connection.start()
consumer = session.create_consumer(queue)
for index in range(6000):
    assert len(consumer.receive(1000).text) == 10_000
    most = max(most, resident_bytes()) if index % 500 == 0 else most
print(most - before)
"""


@pytest.mark.realises("BJ-MSG-5")
def test_a_process_with_sixty_megabytes_of_messages_grows_by_a_third_of_that_at_most(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _GROWTH, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000_000


# What goes wrong


@pytest.mark.realises("BJ-MSG-5")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("paging_limit=200kB", "0.2 MB are allowed .paging_limit.: receive messages"),
        ("keep_free=8000000GiB", "are kept free .keep_free."),
    ],
    ids=["limit", "full disk"],
)
def test_a_file_that_takes_no_more_refuses_senders_and_loses_nothing(tmp_path: Path, options: str, text: str) -> None:
    with opened(f"memory={LIMIT}&paging_directory={tmp_path}&{options}") as (_, connection):
        session = connection.create_session()
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        sent: list[str] = []
        with pytest.raises(ResourceAllocationException, match=text) as raised:
            for index in range(1000):
                producer.send(session.create_text_message(f"{index:04} {BODY}"), delivery_mode=NON_PERSISTENT)
                sent.append(f"{index:04} {BODY}")
        assert raised.value.error_code == "PYJMS-PAGING-FULL"
        assert len(sent) > 30
        assert texts_of(session.create_consumer(queue)) == sent, "receivers go on"
        producer.send(session.create_text_message("room again"), delivery_mode=NON_PERSISTENT)


_FAILING_DISK = """
import resource, sys
from pyjms import ConnectionFactory, JMSException
connection = ConnectionFactory(f"vm://a?memory=100000&paging_directory={sys.argv[1]}").create_connection()
connection.start()
session = connection.create_session()
queue = session.create_queue("orders")
producer = session.create_producer(queue)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
sent = 0
try:
    while sent < 1000:
        producer.send(session.create_text_message("x" * 1000), delivery_mode=1)
        sent += 1
except JMSException as error:
    print(error.error_code)
consumer = session.create_consumer(queue)
received = 0
while consumer.receive_no_wait() is not None:
    received += 1
assert 100 < received == sent < 1000, (received, sent)
"""


def test_a_disk_that_fails_refuses_senders_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FAILING_DISK, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"PYJMS-STORE", "PYJMS-PAGING-FULL"}


def test_a_directory_that_is_not_there_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ResourceAllocationException, match="no directory in which files can be made") as raised:
        ConnectionFactory(f"vm://never?memory=1MB&paging_directory={tmp_path}/missing").create_connection()
    assert raised.value.error_code == "PYJMS-STORE-UNUSABLE"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("paging_limit=1GB", "is for the temporary file of a broker with memory="),
        ("memory=1MB&store=sqlite:///x.db&paging_directory=/tmp", "which has files of its own"),
        ("keep_free=1MB", "needs store=.*or memory="),
        ("memory=1MB&paging_limit=much", "paging_limit=bytes"),
        ("memory=1MB&paging_directory=", "paging_directory= is empty"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: str, text: str) -> None:
    with pytest.raises(JMSException, match=text):
        ConnectionFactory(f"vm://never?{options}").create_connection()


def test_deletion_by_an_operator_empties_the_file(small: tuple[str, Connection]) -> None:
    name, connection = small
    send(connection.create_session(), 500)
    manager = QueueManager.of(name)
    assert manager.move("orders", "others") == 500
    assert manager.purge("others") == 500
    assert (len(store_of(name)), store_of(name).bytes_in_memory) == (0, 0)
