"""What a client has received and not settled: its deliveries do not keep large messages in the broker's memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import InDoubtError, ResourceError, TooLateError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.queue.pager import LARGE, StoredDelivery
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame
from pyjms_provider.protocols.stomp.packed import unpack_deliveries
from pyjms_provider.stores.codec import decode_plain
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client, bench_on
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ids, ready

MARK = "not settled: "
TEXTS = [f"{MARK}{number}{body}" for number, body in enumerate(("", "x" * LARGE, "", "y" * LARGE))]


@pytest.fixture
def bench(bench_of_each_store: Bench) -> Bench:
    return bench_of_each_store


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Bench]:
    bench = bench_on(tmp_path)
    yield bench
    bench.close()


def held() -> int:
    """Return how many deliveries hold a large message of these tests."""
    gc.collect()
    found = [each for each in gc.get_objects() if isinstance(each, Delivery)]
    envelopes = [each._fetched if isinstance(each, StoredDelivery) else each.envelope for each in found]
    bodies = [each.body for each in envelopes if each is not None]
    return sum(isinstance(body, str) and body.startswith(MARK) and len(body) > LARGE for body in bodies)


def send_all(bench: Bench) -> None:
    sender = PyjmsClient(bench)
    sender.session()
    for each in TEXTS:
        sender.send(make_envelope(each, persistent=True))


def received(client: PyjmsClient) -> dict[int, object]:
    """Return the bodies of what has come, by its numbers."""
    client.client.settle()
    found = dict(pair for frame in client.client.frames for pair in _deliveries(frame))
    client.client.frames = [frame for frame in client.client.frames if not frame.command.startswith("MESSAGE")]
    return found


def _deliveries(frame: Frame) -> list[tuple[int, object]]:
    if frame.command == "MESSAGE":
        return [(int(frame.headers["ack"]), from_frame(frame, PYJMS).body)]
    if frame.command != "MESSAGES":
        return []
    arrived = unpack_deliveries(bytes(frame.body), int(frame.headers["first"]))
    return [(each.number, decode_plain(each.message).body) for each in arrived]


@pytest.mark.parametrize("is_packed", [True, False], ids=["packed", "in frames"])
@pytest.mark.parametrize("transacted", [True, False])
def test_they_come_again_and_are_acknowledged_as_any_other(bench: Bench, is_packed: bool, transacted: bool) -> None:
    send_all(bench)
    client = PyjmsClient(bench, is_packed=is_packed)
    client.session(transacted=transacted)
    client.consume()
    first = received(client)
    assert list(first.values()) == TEXTS
    assert held() == 0
    if transacted:
        client.do(commands.Acknowledge(session="a", ids=tuple(range(each, each + 1) for each in first)))
        assert held() == 0
        client.do(commands.AbortTransaction(session="a"))
    client.do(commands.GiveBack(session="a", ids=tuple(range(each, each + 1) for each in first)))
    again = received(client)
    assert list(again.values()) == TEXTS
    client.do(commands.Acknowledge(session="a", ids=tuple(range(each, each + 1) for each in again)))
    if transacted:
        client.do(commands.CommitTransaction(session="a"))
    client.do(commands.CloseSession(session="a"))
    client.session("b")
    client.consume(session="b", name="d")
    assert received(client) == {}


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_those_of_other_clients_are_held_so_too(bench: Bench, mode: str) -> None:
    send_all(bench)
    client = Client(bench)
    client.log_in()
    client.feed(f"SUBSCRIBE\nid:1\ndestination:/queue/orders\nack:{mode}\n\n\0".encode())
    client.settle()
    frames = [frame for frame in client.frames if frame.command == "MESSAGE"]
    assert [bytes(frame.body).decode() for frame in frames] == TEXTS
    assert held() == 0
    client.frames.clear()
    client.feed(b"BEGIN\ntransaction:t\n\n\0")
    for frame in frames:
        client.feed(f"ACK\nid:{frame.headers['ack']}\ntransaction:t\n\n\0".encode())
    client.settle()
    assert held() == 0
    client.feed(b"COMMIT\ntransaction:t\nreceipt:1\n\n\0")
    client.settle()
    assert [frame.command for frame in client.frames] == ["RECEIPT"]
    reader = PyjmsClient(bench)
    reader.session()
    reader.consume()
    assert received(reader) == {}


def lose_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_made: bool) -> None:
    """Have nobody answer a removal: the first one is made or not, and no more come to the store."""
    storage = bench.broker.virtual_host.storage
    assert storage is not None
    write: Callable[..., None] = storage.journal.write
    lost: list[Changes] = []

    def lose(changes: Changes, *, force: bool) -> None:
        if lost:
            raise ResourceError("nobody answers")
        lost.append(changes)
        if is_made:
            write(changes, force=force)
        raise InDoubtError("the connection to the database broke during the commit")

    monkeypatch.setattr(storage.journal, "write", lose)


@pytest.mark.parametrize("is_made", [True, False], ids=["made", "not made"])
@pytest.mark.parametrize("number", [1, 3])
def test_an_acknowledgement_in_doubt_that_is_asked_for_again_is_in_doubt_until_it_is_made(
    stored: Bench, number: int, *, is_made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one was answered as if it had settled them, and they came again."""
    client = ready(stored)
    for each in range(number):
        client.send(make_envelope(str(each), persistent=True))
    came = client.messages()
    assert len(came) == number
    acknowledge = commands.Acknowledge(session="a", ids=ids(*came))
    with monkeypatch.context() as patched:
        lose_answers(stored, patched, is_made=is_made)
        for _ in range(3):
            with pytest.raises(InDoubtError) as told:
                client.do(acknowledge)
            assert not isinstance(told.value, TooLateError)
    client.do(acknowledge)
    client.do(acknowledge)
    client.do(commands.CloseSession(session="a"))
    assert ready(stored).texts() == []


def test_what_comes_again_is_not_said_to_be_settled(stored: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    client = ready(stored)
    client.send(make_envelope("it comes again", persistent=True))
    (came,) = client.messages()
    acknowledge = commands.Acknowledge(session="a", ids=ids(came))
    storage = stored.broker.virtual_host.storage
    assert storage is not None

    write: Callable[..., None] = storage.journal.write

    def refuse(changes: Changes, *, force: bool) -> None:
        if changes.removals:
            raise ResourceError("the disk is full")
        write(changes, force=force)

    with monkeypatch.context() as patched:
        patched.setattr(storage.journal, "write", refuse)
        with pytest.raises(ResourceError, match="the disk is full"):
            client.do(acknowledge)
    with pytest.raises(TooLateError):
        client.do(acknowledge)
    assert client.texts() == ["it comes again"]
