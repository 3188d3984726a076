"""What the connection's own thread does, though there is a disk: what writes nothing, and what is written in a moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.commands import delivery_ids
from pyjms_provider.protocols.stomp.command_frames import command_frame
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.messages import to_frame
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.settings import read_url
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.server.bench import Bench
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ids, ready


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(broker=read_url(ProviderUrl.parse(f"vm://x?store=sqlite:///{tmp_path}/x.db"))[1])
    yield bench
    bench.close()


def jobs_of(client: PyjmsClient) -> list[bool]:
    """Return which of the jobs that were given since the last look are brief."""
    transport = client.client.transport
    found, transport.briefs = transport.briefs, []
    return found


def a_client_with(bench: Bench, *, persistent: bool, count: int = 3, transacted: bool = False) -> PyjmsClient:
    sender = PyjmsClient(bench)
    sender.session()
    for number in range(count):
        sender.send(make_envelope(str(number), persistent=persistent))
    client = ready(bench, transacted=transacted)
    client.client.settle()
    jobs_of(client)
    return client


def test_a_send_that_waits_for_the_disk_alone_is_brief(stored: Bench) -> None:
    client = PyjmsClient(stored)
    client.session()
    client.send(make_envelope("the first one makes the queue", persistent=True))
    jobs_of(client)
    client.send(make_envelope("x", persistent=True))
    assert jobs_of(client) == [True]
    client.send(make_envelope("x", persistent=True, destination=Address(AddressKind.TOPIC, "news")))
    assert jobs_of(client) == [True]


def test_a_send_that_may_wait_for_room_is_not(stored: Bench) -> None:
    QueueManager.of(stored.broker.name).create("orders", QueuePolicy(max_messages=9, overflow=Overflow.BLOCK))
    client = PyjmsClient(stored)
    client.session()
    jobs_of(client)
    client.send(make_envelope("x", persistent=True))
    assert jobs_of(client) == [False]


def test_many_sends_that_come_together_are_not(stored: Bench) -> None:
    client = a_client_with(stored, persistent=True, count=1)
    frames = [to_frame(make_envelope("x", persistent=True), PYJMS) for _ in range(3)]
    for frame in frames:
        frame.headers["session"] = "a"
    client.together(*frames[:2])
    client.client.settle()
    client.together(*frames)
    client.client.settle()
    assert jobs_of(client) == [True, False]


def test_messages_that_no_disk_has_are_acknowledged_at_once(stored: Bench) -> None:
    client = a_client_with(stored, persistent=False)
    client.do(commands.Acknowledge(session="a", ids=ids(*client.messages())))
    assert jobs_of(client) == []
    client.do(commands.CloseSession(session="a"))
    assert ready(stored).texts() == []


def test_a_transaction_acknowledges_at_once_and_its_commit_is_brief(stored: Bench) -> None:
    client = a_client_with(stored, persistent=True, transacted=True)
    client.do(commands.Acknowledge(session="a", ids=ids(*client.messages())))
    assert jobs_of(client) == []
    client.do(commands.CommitTransaction(session="a"))
    assert jobs_of(client) == [True]


def test_a_large_commit_is_not_brief(stored: Bench) -> None:
    client = PyjmsClient(stored)
    client.session(transacted=True)
    for _ in range(257):
        client.tell_sent("x")
    client.client.settle()
    jobs_of(client)
    client.do(commands.CommitTransaction(session="a"))
    assert jobs_of(client) == [False]
    client.tell_sent("x")
    client.client.settle()
    jobs_of(client)
    client.do(commands.CommitTransaction(session="a"))
    assert jobs_of(client) == [True]


def test_acknowledgements_that_come_together_are_one_write(stored: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    client = a_client_with(stored, persistent=True)
    storage = stored.broker.virtual_host.storage
    assert storage is not None
    writes: list[int] = []
    write = storage.journal.write

    def write_counted(changes: Changes, *, force: bool) -> None:
        writes.append(len(changes.removals))
        write(changes, force=force)

    monkeypatch.setattr(storage.journal, "write", write_counted)
    one, two, three = (int(frame.headers["ack"]) for frame in client.messages())
    client.tell(commands.Acknowledge(session="a", ids=delivery_ids([one])))
    client.client.settle()
    client.together(
        commands.Acknowledge(session="a", ids=delivery_ids([two])),
        commands.Acknowledge(session="a", ids=delivery_ids([three])),
    )
    client.client.settle()
    assert [count for count in writes if count] == [1, 2]
    client.do(commands.CloseSession(session="a"))
    assert ready(stored).texts() == []


def test_an_acknowledgement_that_is_waited_for_is_answered_by_itself(stored: Bench) -> None:
    client = a_client_with(stored, persistent=True, count=2)
    one, two = client.messages()
    client.together(
        command_frame(commands.Acknowledge(session="a", ids=ids(one)), "1"),
        command_frame(commands.Acknowledge(session="a", ids=ids(two)), "2"),
    )
    client.client.settle()
    assert [frame.headers["receipt-id"] for frame in client.client.frames] == ["1", "2"]


XID = Xid(1, b"g", b"b")


@pytest.mark.parametrize(
    "ends",
    [
        [commands.StageTransaction(session="a", sink="s", epoch=1, partition=0, attempt="x", keep_s=60)],
        [commands.EndBranch(session="a", xid=XID), commands.RollbackBranch(session="a", xid=XID)],
    ],
    ids=["staged", "a branch"],
)
def test_a_commit_is_brief_again_after_much_work_that_something_else_has_ended(
    stored: Bench, ends: list[commands.Command]
) -> None:
    client = PyjmsClient(stored)
    client.session(transacted=True)
    if len(ends) > 1:
        client.do(commands.BeginBranch(session="a", xid=XID))
    for number in range(300):
        client.send(make_envelope(str(number)))
    for end in ends:
        client.do(end)
    client.send(make_envelope("a little more", persistent=True))
    jobs_of(client)
    client.do(commands.CommitTransaction(session="a"))
    assert jobs_of(client) == [True]


def test_a_commit_of_few_large_messages_is_not(stored: Bench) -> None:
    client = PyjmsClient(stored)
    client.session(transacted=True)
    for number in range(5):
        client.send(make_envelope(f"{number}{'x' * 1_000_000}", persistent=True))
    jobs_of(client)
    client.do(commands.CommitTransaction(session="a"))
    assert jobs_of(client) == [False]
