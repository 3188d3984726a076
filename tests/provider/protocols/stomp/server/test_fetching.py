"""Messages that are not in memory are read on other threads; what cannot be read keeps nobody from the rest."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.protocols.profile import commands
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client, bench_on
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ready


@pytest.fixture
def reopened(tmp_path: Path) -> Iterator[Bench]:
    """Return a broker with three messages, none of which is in memory."""
    first = bench_on(tmp_path)
    sender = PyjmsClient(first)
    sender.session()
    for text in "abc":
        sender.send(make_envelope(text, persistent=True))
    first.close()
    bench = bench_on(tmp_path)
    yield bench
    bench.close()


def subscribed(bench: Bench, **headers: str) -> Client:
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", **{"ack": "client", **headers})
    while client.transport.jobs:  # SUBSCRIBE
        client.transport.jobs.pop(0)()
    return client


def test_the_connections_thread_reads_no_disk(reopened: Bench) -> None:
    plain = subscribed(reopened)
    assert not plain.pull()
    assert not plain.pull(), "nothing overtakes it"
    assert len(plain.transport.jobs) == 1
    assert plain.transport.briefs[-1] is False
    plain.settle()
    assert [bytes(frame.body) for frame in plain.frames] == [b"a", b"b", b"c"]


def test_a_pyjms_client_gets_all_in_order_and_no_more_than_it_has_credit_for(reopened: Bench) -> None:
    client = ready(reopened, credit=2)
    assert client.texts() == ["a", "b"]
    answer = client.do(commands.Credit(subscription="c", credit=1, drain=True))
    assert answer.headers["left"] == "0"
    assert client.texts() == ["c"]
    assert client.do(commands.Credit(subscription="c", credit=1, drain=True)).headers["left"] == "1"


def damage(directory: Path, number: int) -> None:
    with closing(sqlite3.connect(directory / "x.db")) as database, database:
        (row,) = database.execute("SELECT id FROM pyjms_message ORDER BY id LIMIT 1 OFFSET ?", (number,)).fetchone()
        database.execute("UPDATE pyjms_message SET payload = x'0102' WHERE id = ?", (row,))


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_message_is_passed_over_and_the_others_come(
    reopened: Bench, tmp_path: Path, number: int, is_plain: bool
) -> None:
    damage(tmp_path, number)
    rest = [text for index, text in enumerate("abc") if index != number]
    if is_plain:
        plain = subscribed(reopened)
        plain.settle()
        assert [bytes(frame.body).decode() for frame in plain.frames] == rest
        assert not plain.engine.is_over
    else:
        client = ready(reopened, credit=2)
        assert client.texts() == rest
        assert client.do(commands.Credit(subscription="c", credit=1, drain=True)).headers["left"] == "1"


def read_later(client: Client) -> Callable[[], None]:
    """Have the first message asked for, and return what reads it."""
    client.pull()
    (job,) = client.transport.jobs
    client.transport.jobs.clear()
    return job


@pytest.mark.parametrize("is_read", [True, False])
def test_what_nobody_wants_any_more_goes_back_unmarked(reopened: Bench, is_read: bool) -> None:
    client = PyjmsClient(reopened)
    client.session()
    client.do(commands.Subscribe(session="a", id="c", address=make_envelope("x").destination))
    client.tell(commands.Credit(subscription="c", credit=1))
    read = read_later(client.client)
    if is_read:
        read()
    client.do(commands.Credit(subscription="c", revoke=True))
    if not is_read:
        read()
    assert client.texts() == []
    other = ready(reopened)
    frames = other.messages()
    assert [bytes(frame.body) for frame in frames] == [b"a", b"b", b"c"]
    assert {frame.headers["redelivered"] for frame in frames} == {"false"}


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("is_damaged", [True, False])
def test_nothing_comes_while_the_connection_is_stopped_and_all_afterwards(
    reopened: Bench, tmp_path: Path, is_read: bool, is_damaged: bool
) -> None:
    if is_damaged:
        damage(tmp_path, 0)
    client = ready(reopened, credit=0)
    client.tell(commands.Credit(subscription="c", credit=2))
    read = read_later(client.client)
    if is_read:
        read()
    client.do(commands.Stop())
    if not is_read:
        read()
    assert client.texts() == []
    client.do(commands.Start())
    frames = client.messages()
    rest = b"bc" if is_damaged else b"ab"
    assert b"".join([bytes(frame.body) for frame in frames]) == rest
    assert {frame.headers["redelivered"] for frame in frames} == {"false"}


@pytest.mark.parametrize("is_read", [True, False])
def test_what_an_ended_subscription_was_to_get_goes_back(reopened: Bench, is_read: bool) -> None:
    client = subscribed(reopened)
    read = read_later(client)
    if is_read:
        read()
    client.send("UNSUBSCRIBE", id="s")
    client.settle_jobs()
    if not is_read:
        read()
    client.settle()
    assert client.frames == []
    frames = ready(reopened).messages()
    assert [bytes(frame.body) for frame in frames] == [b"a", b"b", b"c"]
    assert {frame.headers["redelivered"] for frame in frames} == {"false"}


def test_a_connection_that_ends_meanwhile_loses_nothing(reopened: Bench) -> None:
    client = subscribed(reopened)
    read = read_later(client)
    client.hang_up()
    read()
    client.settle_jobs()
    assert ready(reopened).texts() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("fault", "said"), [(ResourceError("the disk is gone"), b"the disk is gone"), (KeyError(), b"")]
)
def test_a_disk_that_fails_is_told(
    reopened: Bench, monkeypatch: pytest.MonkeyPatch, fault: Exception, said: bytes
) -> None:
    storage = reopened.broker.virtual_host.storage
    assert storage is not None

    def fail(_: object) -> None:
        raise fault

    client = subscribed(reopened)
    client.pull()
    monkeypatch.setattr(storage.journal, "read", fail)
    (error,) = client.all()
    assert error.command == "ERROR"
    assert said in bytes(error.body)
    assert client.engine.is_over
    monkeypatch.undo()
