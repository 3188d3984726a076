"""What a broker in the command's own process warns of is shown, and what a client logs is not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pyjms import ConnectionFactory
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from tests.pyjms.demo.command_line import Run


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The URL of a store with two messages, the first of which cannot be read; its broker is stopped."""
    file, name = tmp_path / "shop.db", f"vm://{tmp_path.name}"
    url, plain = f"{name}?store=sqlite:///{file}", ProviderUrl.parse(name)
    with ConnectionFactory(url).create_connection() as connection, connection.create_session() as session:
        producer = session.create_producer(session.create_queue("orders"))
        for text in ("one", "two"):
            producer.send(session.create_text_message(text))
    find_provider("vm").stop_broker(plain)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("UPDATE pyjms_message SET payload = x'00' WHERE id = (SELECT min(id) FROM pyjms_message)")
    yield url
    find_provider("vm").stop_broker(plain)


def test_a_message_that_is_set_aside_is_told(url: str, run_pyjms: Run) -> None:
    code, out, err = run_pyjms("receive", url, "orders")
    assert (code, out) == (0, "two\n")
    assert err.startswith("PYJMS-STORE-1 message ")
    assert err.count("\n") == 1


def test_how_far_a_start_is_is_told(url: str, run_pyjms: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.broker._PROGRESS_MS", 0)
    code, _, err = run_pyjms("stats", url, "--json")
    assert code == 0
    assert (
        f"PYJMS-BROKER-2 broker {url.partition('?')[0].removeprefix('vm://')} is starting: 2 messages so far\n" in err
    )


def test_what_a_client_logs_is_not_shown(run_pyjms: Run) -> None:
    code, _, err = run_pyjms("receive", "stomp://127.0.0.1:1?reconnect=no", "orders")
    assert (code, err.count("\n")) == (1, 1)
    assert "PYJMS-" not in err
