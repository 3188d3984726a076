"""Rows of SQLite's small tables that a flipped bit has changed: the broker starts, tells of them, and loses no message."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from pyjms import ConnectionFactory, DeliveryMode, Session, TextMessage
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.queue_manager import QueueManager

NAME = "vm://flipped"


class Site:
    """A broker on a SQLite file that is stopped, damaged and started."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._factory = ConnectionFactory(f"{NAME}?store={quote(f'sqlite:///{path}', safe='')}")

    def stop(self) -> None:
        find_provider("vm").stop_broker(ProviderUrl.parse(NAME))

    def send(self, queue: str, *texts: str) -> None:
        with self._factory.create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            producer = session.create_producer(session.create_queue(queue))
            for text in texts:
                producer.send(session.create_text_message(text))

    def receive(self, queue: str) -> list[str]:
        with self._factory.create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            consumer = session.create_consumer(session.create_queue(queue))
            found: list[str] = []
            while (message := consumer.receive_no_wait()) is not None:
                assert isinstance(message, TextMessage)
                found.append(message.text or "")
            return found

    def damage(self, *statements: str) -> None:
        self.stop()
        with closing(sqlite3.connect(self.path)) as store, store:
            for statement in statements:
                store.execute(statement)

    @property
    def manager(self) -> QueueManager:
        return QueueManager.of("flipped")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path / "a.db")
    site.send("orders", "one", "two")
    site.send("bills", "three")
    yield site
    site.stop()


@pytest.mark.parametrize(
    "damage",
    ["name = CAST(x'6fff64657273' AS TEXT)", "kind = 7", "kind = 2", "policy = CAST(x'ff' AS TEXT)", "no_local = 'x'"],
)
def test_a_damaged_queue_has_another_name_and_its_messages(
    site: Site, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.damage(f"UPDATE pyjms_queue SET {damage} WHERE name = 'orders'")
    with caplog.at_level(logging.ERROR):
        assert site.receive("bills") == ["three"]
    assert "PYJMS-STORE-10 a row of pyjms_queue" in caplog.text
    assert "its messages are in a queue of the name 'damaged queue 1'" in caplog.text
    site.stop()
    site.send("orders", "four")
    assert site.manager.move("damaged queue 1", "orders") == 2
    site.manager.destroy("damaged queue 1")
    caplog.clear()
    site.stop()
    assert site.receive("orders") == ["four", "one", "two"]
    assert "PYJMS-STORE-10" not in caplog.text


def test_of_two_queues_of_one_name_both_keep_their_messages(site: Site) -> None:
    """The newer one has the name: an older one that is whole was destroyed, and its messages must not come back."""
    site.damage("UPDATE pyjms_queue SET name = 'orders' WHERE name = 'bills'")
    assert site.receive("orders") == ["three"]
    assert site.receive("damaged queue 1") == ["one", "two"]


def test_a_damaged_queue_does_not_take_the_name_of_another_one(site: Site) -> None:
    site.send("damaged queue 1", "four")
    site.damage("UPDATE pyjms_queue SET kind = 7 WHERE name = 'orders'")
    assert site.receive("damaged queue 1") == ["four"]
    assert site.receive("damaged queue 1, too") == ["one", "two"]


@pytest.mark.parametrize("column", ["client_id", "subscription", "selector"])
def test_a_damaged_subscription_is_a_queue(site: Site, column: str) -> None:
    with site._factory.create_connection() as connection:
        connection.client_id = "me"
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        topic = session.create_topic("news")
        session.create_durable_subscriber(topic, "all", "a IS NULL", False)
        session.create_producer(topic).send(session.create_text_message("flash"), delivery_mode=DeliveryMode.PERSISTENT)
    site.damage(f"UPDATE pyjms_queue SET {column} = CAST(x'ff' AS TEXT) WHERE subscription IS NOT NULL")
    assert site.receive("damaged queue 3") == ["flash"]
    assert site.receive("orders") == ["one", "two"]


_TEXT = "CAST(x'ff' AS TEXT)"


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("pyjms_branch (number, format_id, global_id, qualifier, prepared_ms)", f"7, 1, {_TEXT}, x'00', 1"),
        ("pyjms_branch (number, format_id, global_id, qualifier, prepared_ms)", "7, 'x', x'00', x'00', 'x'"),
        ("pyjms_branch (number, format_id, global_id, qualifier, prepared_ms)", "7, 1, zeroblob(99), x'00', 1"),
        ("pyjms_removal (branch, message, queue)", f"{_TEXT}, 1, 1"),
        ("pyjms_heuristic (format_id, global_id, qualifier, committed)", f"1, {_TEXT}, x'00', 1"),
        ("pyjms_heuristic (format_id, global_id, qualifier, committed)", "1, x'00', x'00', 'x'"),
        ("pyjms_mark (queue, priority, message)", f"1, 4, {_TEXT}"),
        ("pyjms_duplicate (kind, name, temporary, serial, duplicate_id, until_ms)", f"1, 'orders', 0, 1, {_TEXT}, 1"),
        ("pyjms_duplicate (kind, name, temporary, serial, duplicate_id, until_ms)", "9, 'orders', 0, 2, 'x', 1"),
        (
            "pyjms_duplicate (kind, name, temporary, serial, duplicate_id, until_ms)",
            "1, 'orders', 0, 9223372036854775807, 'x', 1",
        ),
        (
            "pyjms_group (number, name, queue, selector, generation, low, fence, opened_ms)",
            f"1, {_TEXT}, 1, NULL, 'g', 1, 1, 1",
        ),
        ("pyjms_reserved (group_number, number, message, deliveries)", f"1, 1, {_TEXT}, 1"),
        (
            'pyjms_stage (number, sink, epoch, "partition", attempt, messages, staged_ms, discard_ms)',
            f"9, {_TEXT}, 1, 1, 'a', 1, 1, 1",
        ),
        ("pyjms_stage_marker (sink, epoch)", f"{_TEXT}, 1"),
        ("pyjms_entry (message, queue, deliveries)", f"{_TEXT}, 1, 0"),
        ("pyjms_entry (message, queue, deliveries)", f"1, {_TEXT}, 0"),
    ],
)
def test_a_damaged_row_of_any_small_table_keeps_nothing_from_starting(site: Site, table: str, row: str) -> None:
    site.damage(f"INSERT INTO {table} VALUES ({row})")
    assert site.receive("orders") == ["one", "two"]
    assert site.receive("bills") == ["three"]


def test_a_group_of_a_damaged_ones_number_begins_with_nothing(site: Site) -> None:
    site.damage(
        "INSERT INTO pyjms_group (number, name, queue, selector, generation, low, fence, opened_ms) "
        f"VALUES (1, {_TEXT}, 1, NULL, 'g', 1, 1, 1)",
        "INSERT INTO pyjms_reserved (group_number, number, message, deliveries) VALUES (1, 1, 1, 1)",
    )
    assert site.receive("orders") == ["one", "two"]
    site.stop()
    with closing(sqlite3.connect(site.path)) as store:
        assert list(store.execute("SELECT count(*) FROM pyjms_group")) == [(0,)]
        assert list(store.execute("SELECT count(*) FROM pyjms_reserved")) == [(0,)]
