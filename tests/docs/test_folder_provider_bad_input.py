"""The provider of the authors' guide under bad input: wrong URLs, odd names, damaged files, a folder that goes."""

from __future__ import annotations

import json
import threading
from threading import Event
from typing import TYPE_CHECKING

import pytest

from pyjms import (
    ConnectionFactory,
    InvalidClientIDException,
    InvalidDestinationException,
    JMSException,
    ResourceAllocationException,
    Session,
)
from pyjms.spi.registry import register_provider
from pyjms.testing import VirtualClock
from pyjms_tck.spi.environment import PATIENCE_S
from tests.pyjms.spi.folder import FolderProvider, Problems, folder_provider, send, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyjms import Connection, Queue


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    register_provider("folder", FolderProvider())
    yield tmp_path / "messages"
    register_provider("folder", None)


@pytest.fixture
def url(home: Path) -> str:
    return f"folder://{home}?poll_ms=5"


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def session(connection: Connection) -> Session:
    return connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


@pytest.fixture
def queue(session: Session) -> Queue:
    return session.create_queue("orders")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("folder://{home}?poll_ms=0", "poll_ms"),
        ("folder://{home}?poll_ms=often", "poll_ms"),
        ("folder://{home}?interval=5", "poll_ms"),
        ("folder://elsewhere{home}", "this machine"),
        ("folder:///", "names a folder"),
        ("folder://", "names a folder"),
    ],
)
def test_a_wrong_url_is_refused_with_what_is_right(home: Path, url: str, reason: str) -> None:
    with pytest.raises(JMSException, match=reason) as caught:
        ConnectionFactory(url.format(home=home)).create_connection()
    assert caught.value.error_code == "PYJMS-URL"


def test_a_folder_that_cannot_be_made_is_refused(home: Path) -> None:
    with pytest.raises(ResourceAllocationException, match=r"there is no .*/not to hold it; make that first"):
        ConnectionFactory(f"folder://{home}/not/there").create_connection()
    home.write_text("a file", "utf-8")
    with pytest.raises(ResourceAllocationException, match="cannot be used"):
        ConnectionFactory(f"folder://{home}").create_connection()


def test_a_client_id_belongs_to_one_connection(url: str) -> None:
    factory = ConnectionFactory(url, client_id="../clerk")
    with factory.create_connection(), pytest.raises(InvalidClientIDException, match="clerk"):
        factory.create_connection()
    with factory.create_connection() as connection:
        assert connection.client_id == "../clerk"


def test_names_lead_nowhere_else(connection: Connection, session: Session, home: Path) -> None:
    for name in ("../../escaped", "/etc/passwd", "..", "a\0b", "C:\\x"):
        send(session, session.create_queue(name), name)
    assert sorted(path.name for path in home.parent.iterdir()) == ["messages"]
    assert len(list((home / "queues").iterdir())) == 5
    with pytest.raises(InvalidDestinationException, match="200"):
        send(session, session.create_queue("ß" * 67), "too long")


def test_a_message_that_is_too_large_is_refused(
    session: Session, queue: Queue, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr(folder_provider, "FILE_BYTES_MAX", 1000)
    with pytest.raises(ResourceAllocationException, match="1000"):
        send(session, queue, "x" * 1000)
    send(session, queue, "x")
    assert len(list((home / "queues" / "orders").iterdir())) == 1


WELL_FORMED: dict[str, object] = {
    "version": 1,
    "message_id": None,
    "jms_type": None,
    "timestamp_ms": 0,
    "expiration_ms": 0,
    "delivery_mode": 1,
    "priority": 4,
    "correlation_id": None,
    "reply_to": None,
    "properties": {},
    "body_kind": "TEXT",
    "body": "fine",
}

CORRUPT = {
    "empty": b"",
    "cut off": json.dumps(WELL_FORMED).encode()[:-5],
    "binary": bytes(range(256)),
    "nested": b"[" * 100_000,
    "a list": b"[]",
    "a number": b"5",
    "no fields": b"{}",
    **{
        f"{field} = {json.dumps(value)}": json.dumps({**WELL_FORMED, field: value}).encode()
        for field, value in [
            ("version", 2),
            ("timestamp_ms", "now"),
            ("priority", True),
            ("jms_type", 5),
            ("correlation_id", 5),
            ("correlation_id", ["bytes", "!"]),
            ("reply_to", ["QUEUE"]),
            ("reply_to", ["PLACE", "x", False]),
            ("reply_to", "x"),
            ("reply_to", []),
            ("properties", []),
            ("properties", None),
            ("properties", {"a": ["byte", 128]}),
            ("properties", {"a": ["byte", "1"]}),
            ("properties", {"a": 2**31}),
            ("properties", {"a": ["pickle", "x"]}),
            ("properties", {"a": {}}),
            ("body_kind", "VIDEO"),
            ("body_kind", "OBJECT"),
            ("body", 5),
            ("body", {}),
        ]
    },
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT)
def test_a_file_that_is_no_message_is_set_aside_and_reported(
    connection: Connection, session: Session, queue: Queue, home: Path, content: bytes
) -> None:
    told = Problems()
    connection.exception_listener = told
    send(session, queue, "before", "after")
    first = min((home / "queues" / "orders").iterdir())
    first.write_bytes(content)
    consumer = session.create_consumer(queue)
    assert text_of(consumer.receive_no_wait()) == "after"
    assert consumer.receive_no_wait() is None
    told.wait()
    (aside,) = (home / "aside").glob("*.json")
    assert aside.read_bytes() == content
    assert aside.with_suffix(".reason").read_text("utf-8")
    assert len(told.reported) == 1
    assert str(aside) in str(told.reported[0])


def test_the_example_of_a_well_formed_file_is_one(session: Session, queue: Queue, home: Path) -> None:
    send(session, queue, "before")
    (path,) = (home / "queues" / "orders").iterdir()
    path.write_text(json.dumps(WELL_FORMED), "ascii")
    assert text_of(session.create_consumer(queue).receive_no_wait()) == "fine"


def test_other_files_are_left_alone(session: Session, queue: Queue, home: Path) -> None:
    send(session, queue, "message")
    folder = home / "queues" / "orders"
    (folder / "README").write_text("hands off", "utf-8")
    (folder / "4-1.json").write_text("{}", "utf-8")
    (folder / "sub").mkdir()
    assert text_of(session.create_consumer(queue).receive_no_wait()) == "message"
    assert sorted(path.name for path in folder.iterdir()) == ["4-1.json", "README", "sub"]


def test_a_large_file_is_not_read(session: Session, queue: Queue, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send(session, queue, "x" * 2000, "small")
    monkeypatch.setattr(folder_provider, "FILE_BYTES_MAX", 1000)
    assert text_of(session.create_consumer(queue).receive_no_wait()) == "small"
    (reason,) = (home / "aside").glob("*.reason")
    assert "more than 1000 bytes" in reason.read_text("utf-8")


def test_when_the_folder_goes_the_connection_says_so_once(url: str, home: Path) -> None:
    clock, told, gone = VirtualClock(), Problems(), Event()
    errors: list[JMSException] = []
    with ConnectionFactory(url, clock=clock).create_connection() as connection:
        connection.exception_listener = told
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue("orders"))

        def receive() -> None:
            with pytest.raises(JMSException, match="the folder is gone") as caught:
                consumer.receive(60_000)
            errors.append(caught.value)
            gone.set()

        thread = threading.Thread(target=receive)
        thread.start()
        clock.await_wait(60_000)
        home.rename(home.with_name("elsewhere"))
        assert gone.wait(PATIENCE_S)
        thread.join()
        told.wait()
        with pytest.raises(JMSException, match="the folder is gone"):
            connection.create_session()
    assert [error.error_code for error in [*errors, *told.reported]] == ["PYJMS-LOST"] * 2
