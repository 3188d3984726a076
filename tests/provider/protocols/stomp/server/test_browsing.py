"""Browsers look on other threads: what they find comes in order, within their credit, and nothing comes when they have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ResourceError
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.reading_ahead import LOOK_MESSAGES
from tests.provider.helpers import ORDERS, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, bench_on
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient

COUNT = LOOK_MESSAGES + 3


@pytest.fixture
def reopened(tmp_path: Path) -> Iterator[Bench]:
    """Return a broker with more messages than one look finds, none of which is in memory."""
    first = bench_on(tmp_path)
    sender = PyjmsClient(first)
    sender.session()
    for number in range(COUNT):
        sender.send(make_envelope(str(number), persistent=True))
    first.close()
    bench = bench_on(tmp_path)
    yield bench
    bench.close()


def browsing(bench: Bench, credit: int) -> PyjmsClient:
    client = PyjmsClient(bench)
    client.session()
    client.tell(commands.Browse(session="a", id="b", address=ORDERS))
    client.tell(commands.Credit(subscription="b", credit=credit))
    return client


def looked_for(client: PyjmsClient) -> Callable[[], None]:
    """Have the browser begin to look, and return what looks."""
    client.client.pull()
    (job,) = client.client.transport.jobs
    client.client.transport.jobs.clear()
    return job


def test_all_come_in_their_order_and_then_the_end(reopened: Bench) -> None:
    plain = reopened.connect()
    plain.send("SUBSCRIBE", id="s", destination="/queue/orders", browser="true")
    frames = plain.all()
    assert [bytes(frame.body).decode() for frame in frames[:-1]] == [str(number) for number in range(COUNT)]
    assert frames[-1].headers["browser"] == "end"
    client = browsing(reopened, credit=COUNT)
    frames = client.messages()
    assert [bytes(frame.body).decode() for frame in frames[:-1]] == [str(number) for number in range(COUNT)]
    assert frames[-1].headers["browser"] == "end", "which needs no credit"


def test_no_more_come_than_there_is_credit_for(reopened: Bench) -> None:
    client = browsing(reopened, credit=2)
    assert client.texts() == ["0", "1"]
    client.tell(commands.Credit(subscription="b", credit=1))
    assert client.texts() == ["2"]


def test_nothing_is_read_on_the_connections_thread(reopened: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = reopened.broker.virtual_host.storage
    assert storage is not None
    reads: list[int] = []
    read = storage.journal.read

    def noted(ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        reads.append(len(ids))
        return read(ids)

    monkeypatch.setattr(storage.journal, "read", noted)
    client = browsing(reopened, credit=5)
    look = looked_for(client)
    assert not client.client.pull(), "nothing overtakes it"
    assert not client.client.transport.jobs, "it looks once at a time"
    assert not reads
    look()
    assert reads
    assert client.texts() == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("ends", [commands.Unsubscribe(id="b"), commands.CloseSession(session="a")])
def test_what_an_ended_browser_finds_is_for_nobody(reopened: Bench, ends: commands.Command) -> None:
    client = browsing(reopened, credit=5)
    look = looked_for(client)
    client.do(ends)
    look()
    assert client.messages() == []
    assert not client.client.engine.is_over
    client.client.hang_up()


def test_a_connection_that_ends_meanwhile_hears_nothing(reopened: Bench) -> None:
    client = browsing(reopened, credit=5)
    look = looked_for(client)
    client.client.hang_up()
    look()
    assert client.messages() == []


@pytest.mark.parametrize("fault", [ResourceError("the disk is gone"), KeyError()])
def test_a_disk_that_fails_is_told(reopened: Bench, monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    storage = reopened.broker.virtual_host.storage
    assert storage is not None

    def fail(_: object) -> None:
        raise fault

    client = browsing(reopened, credit=5)
    monkeypatch.setattr(storage.journal, "read", fail)
    frames = client.client.all()
    assert [frame.command for frame in frames] == ["ERROR"]
    assert client.client.engine.is_over
    monkeypatch.undo()
