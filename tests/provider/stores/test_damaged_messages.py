"""What an application sees of a stored message that cannot be read: nothing. Its owner finds it set aside, and in the log."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import quote

import pytest

from pyjms import Connection, ConnectionFactory, Session, TextMessage, XAConnectionFactory, XAResource, Xid
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.queue_manager import QueueManager

NAME = "vm://damaged"
LEFT = ["1", "2", "4", "5"]


def stop() -> None:
    find_provider("vm").stop_broker(ProviderUrl.parse(NAME))


@pytest.fixture
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A connection to a broker whose queue has six messages, the first and the fourth with flipped bytes.

    A parameter is what was chosen for the queue.
    """
    path = tmp_path / "store.db"
    factory = ConnectionFactory(f"{NAME}?store={quote(f'sqlite:///{path}', safe='')}")
    with factory.create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        QueueManager.of("damaged").create("orders", **getattr(request, "param", {}))
        producer = session.create_producer(session.create_queue("orders"))
        for number in range(6):
            message = session.create_text_message(str(number))
            message.set_int_property("number", number)
            producer.send(message)
    stop()
    with closing(sqlite3.connect(path)) as store, store:
        ids = [row[0] for row in store.execute("SELECT id FROM pyjms_message ORDER BY id")]
        store.executemany(
            "UPDATE pyjms_message SET payload = x'01020304050607' WHERE id = ?", [(each,) for each in ids[::3]]
        )
    with factory.create_connection() as connection:
        connection.start()
        yield connection
    stop()
    with closing(sqlite3.connect(path)) as store:
        assert [row[0] for row in store.execute("SELECT id FROM pyjms_set_aside ORDER BY id")] == ids[::3]


def text_of(message: object) -> str | None:
    assert isinstance(message, TextMessage)
    return message.text


MODES = [
    (False, Session.AUTO_ACKNOWLEDGE),
    (False, Session.DUPS_OK_ACKNOWLEDGE),
    (False, Session.CLIENT_ACKNOWLEDGE),
    (True, Session.SESSION_TRANSACTED),
]


@pytest.mark.parametrize(("transacted", "mode"), MODES, ids=["auto", "dups_ok", "client", "transacted"])
def test_receive_passes_over_a_damaged_message(
    damaged: Connection, caplog: pytest.LogCaptureFixture, transacted: bool, mode: int
) -> None:
    session = damaged.create_session(transacted, mode)
    consumer = session.create_consumer(session.create_queue("orders"))
    with caplog.at_level(logging.ERROR):
        messages = [consumer.receive(10_000) for _ in LEFT]
    assert [text_of(message) for message in messages] == LEFT
    assert consumer.receive_no_wait() is None
    assert caplog.text.count("PYJMS-STORE-1") == 2
    if transacted:
        session.commit()
    elif mode == Session.CLIENT_ACKNOWLEDGE and messages[-1] is not None:
        messages[-1].acknowledge()


@pytest.mark.parametrize(("transacted", "mode"), MODES[:2], ids=["auto", "dups_ok"])
def test_a_listener_never_hears_of_a_damaged_message(
    damaged: Connection, caplog: pytest.LogCaptureFixture, transacted: bool, mode: int
) -> None:
    heard: SimpleQueue[str | None] = SimpleQueue()
    session = damaged.create_session(transacted, mode)
    with caplog.at_level(logging.INFO):
        consumer = session.create_consumer(session.create_queue("orders"))
        consumer.message_listener = lambda message: heard.put(text_of(message))
        assert [heard.get(timeout=10) for _ in LEFT] == LEFT
        session.close()
    assert "did not reach its listener" in caplog.text
    assert "after its listener ran" not in caplog.text
    assert heard.empty()


def test_a_browser_passes_over_a_damaged_message(damaged: Connection) -> None:
    session = damaged.create_session(False, Session.AUTO_ACKNOWLEDGE)
    with session.create_browser(session.create_queue("orders")) as browser:
        assert [text_of(message) for message in browser] == LEFT


def test_the_queue_manager_passes_over_a_damaged_message(damaged: Connection) -> None:
    manager = QueueManager.of("damaged")
    assert [envelope.body for envelope in manager.browse("orders")] == LEFT
    session = damaged.create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(session.create_queue("orders"))
    assert [text_of(consumer.receive(10_000)) for _ in LEFT] == LEFT


@pytest.mark.parametrize(
    "damaged",
    [
        {"type": "sorted", "key": "number"},
        {"type": "last_value", "key": "number"},
        {"groups": True},
        {"max_bytes": 10**6},
    ],
    ids=["sorted", "last value", "groups", "limited"],
    indirect=True,
)
def test_a_broker_starts_whose_queue_must_read_a_damaged_message(damaged: Connection) -> None:
    session = damaged.create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(session.create_queue("orders"))
    assert [text_of(consumer.receive(10_000)) for _ in LEFT] == LEFT
    assert consumer.receive_no_wait() is None
    assert QueueManager.of("damaged").report("orders").waiting == 0


class Branch(Xid):
    """The one branch that there is."""

    format_id = 7
    global_transaction_id = b"global"
    branch_qualifier = b"branch"


@pytest.mark.parametrize(("value", "left"), [("CAST(payload AS TEXT)", ["0", "1"]), ("CAST(x'ff' AS TEXT)", ["1"])])
def test_a_broker_starts_with_a_damaged_message_in_a_prepared_branch(
    tmp_path: Path, value: str, left: list[str]
) -> None:
    path = tmp_path / "store.db"
    factory = XAConnectionFactory(f"{NAME}?store={quote(f'sqlite:///{path}', safe='')}")
    with factory.create_xa_connection() as connection:
        session = connection.create_xa_session()
        session.xa_resource.start(Branch(), XAResource.TMNOFLAGS)
        producer = session.create_producer(session.create_queue("orders"))
        for number in range(2):
            producer.send(session.create_text_message(str(number)))
        session.xa_resource.end(Branch(), XAResource.TMSUCCESS)
        session.xa_resource.prepare(Branch())
        stop()
    with closing(sqlite3.connect(path)) as store, store:
        store.execute(f"UPDATE pyjms_message SET payload = {value} WHERE id = (SELECT min(id) FROM pyjms_message)")
    with factory.create_xa_connection() as connection:
        connection.start()
        connection.create_xa_session().xa_resource.commit(Branch(), False)
        plain = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = plain.create_consumer(plain.create_queue("orders"))
        assert [text_of(consumer.receive(10_000)) for _ in left] == left
        assert consumer.receive_no_wait() is None
        stop()
