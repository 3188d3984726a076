"""What a client has received and not settled: its deliveries do not keep large messages in the broker's memory."""

from __future__ import annotations

import gc

import pytest

from pyjms.spi.delivery import Delivery
from pyjms_provider.core.stored_delivery import LARGE, StoredDelivery
from pyjms_provider.protocols.stomp import verbs
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.packed import unpack_deliveries
from pyjms_provider.protocols.stomp.profile import from_frame
from pyjms_provider.stores.codec import decode_plain
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient

MARK = "not settled: "
TEXTS = [f"{MARK}{number}{body}" for number, body in enumerate(("", "x" * LARGE, "", "y" * LARGE))]


@pytest.fixture
def bench(bench_of_each_store: Bench) -> Bench:
    return bench_of_each_store


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
        client.do(verbs.Acknowledge(session="a", ids=tuple(range(each, each + 1) for each in first)))
        assert held() == 0
        client.do(verbs.AbortTransaction(session="a"))
    client.do(verbs.GiveBack(session="a", ids=tuple(range(each, each + 1) for each in first)))
    again = received(client)
    assert list(again.values()) == TEXTS
    client.do(verbs.Acknowledge(session="a", ids=tuple(range(each, each + 1) for each in again)))
    if transacted:
        client.do(verbs.CommitTransaction(session="a"))
    client.do(verbs.CloseSession(session="a"))
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
