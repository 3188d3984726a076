"""Turns within one connection: its sessions, the consumers of each, and the queues of one consumer, over several passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from threading import Barrier, Thread

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.scheduling import DeliveryScheduler, SessionScheduler
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.packed import unpack_deliveries
from pyjms_provider.queue_manager import QueueManager
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client, bench_on
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient

_ONE_TURN = 32  # messages at most
_PASS_BYTES = 2_000
_PATIENCE_S = 20.0


def queue(name: str) -> Address:
    return Address(AddressKind.QUEUE, name)


def fill(bench: Bench, messages: int, names: Iterable[str]) -> None:
    sender = bench.connect()
    for name in names:
        for _ in range(messages):
            sender.send("SEND", b"x" * 500, destination=f"/queue/{name}")
    sender.settle()
    sender.hang_up()


def one_pass(client: PyjmsClient) -> list[str]:
    """Pull once, as much as a wire that is nearly full takes; return the consumers of the messages in their order."""
    client.client.pull(_PASS_BYTES)
    frames, client.client.frames = client.client.frames, []
    return [name for frame in frames for name in _consumers_of(frame)]


def _consumers_of(frame: Frame) -> list[str]:
    if frame.command == "MESSAGES":
        packed = unpack_deliveries(frame.body, int(frame.headers["first"]))  # type: ignore[arg-type]  # as decoded
        return [frame.headers["subscription"]] * len(packed)
    return [frame.headers["subscription"]] if frame.command == "MESSAGE" else []


def two_sessions(
    bench: Bench, messages: int, *, is_packed: bool, consumers: int = 9, credit: int = 1_000
) -> PyjmsClient:
    """Return a client with so many consumers in session `a`, and one in session `b`, each with a full queue of its own."""
    client = PyjmsClient(bench, started=False, is_packed=is_packed)
    names = {"a": [f"a{number}" for number in range(consumers)], "b": ["b0"]}
    for session, own in names.items():
        fill(bench, messages, own)
        client.session(session)
        for name in own:
            client.consume(queue(name), session, name, credit=credit)
    client.client.settle()
    client.tell(commands.Start())
    client.client.settle_jobs()
    return client


@pytest.mark.realises("BJ-PE-7", "QCM-19")
@pytest.mark.parametrize("is_packed", [True, False])
def test_a_session_with_nine_consumers_gets_no_more_than_one_with_one(bench: Bench, *, is_packed: bool) -> None:
    client = two_sessions(bench, 100, is_packed=is_packed)
    sent = Counter[str]()
    while sent["b"] < 100:
        sent.update(name[0] for name in one_pass(client))
        assert abs(sent["a"] - sent["b"]) <= _ONE_TURN
    while found := one_pass(client):
        sent.update(name[0] for name in found)
    assert sent == {"a": 900, "b": 100}


@pytest.mark.realises("BJ-PE-7", "QCM-19", "QCM-20")
@pytest.mark.parametrize("is_packed", [True, False])
def test_sessions_and_their_consumers_go_on_in_the_next_pass_where_they_stopped(
    bench: Bench, *, is_packed: bool
) -> None:
    client = two_sessions(bench, 200, is_packed=is_packed, consumers=3)
    turns = [name for _ in range(12) for name, _ in groupby(one_pass(client))]
    assert turns == ["a0", "b0", "a1", "b0", "a2", "b0"] * 2


@pytest.mark.realises("BJ-PE-7")
def test_a_session_that_has_more_work_meanwhile_comes_after_those_that_wait(bench: Bench) -> None:
    client = two_sessions(bench, 20, is_packed=False, credit=4)
    first = one_pass(client)
    assert set(first) == {"a0"}, "the wire was full after its turn"
    fill(bench, 20, ["a0"])
    client.tell(commands.Credit(subscription="a0", credit=100))
    assert set(one_pass(client)) == {"b0"}
    assert set(one_pass(client)) == {"a1"}
    for credit in (3, 5):
        while one_pass(client):
            pass  # all but a0 have used up their credit
        client.tell(commands.Credit(subscription="a3", credit=credit))
        client.tell(commands.Credit(subscription="b0", credit=credit))
        served = Counter(one_pass(client) + one_pass(client) + one_pass(client) + one_pass(client))
        assert served == {"a3": credit, "b0": credit}


@pytest.mark.realises("BJ-PE-7", "QCM-20")
def test_the_subscriptions_of_a_standard_client_have_their_turns_over_several_passes(bench: Bench) -> None:
    names = ["p", "q", "r"]
    fill(bench, 60, names)
    client = bench.connect()
    for name in names:
        client.send("SUBSCRIBE", id=name, destination=f"/queue/{name}", ack="client-individual")
    client.settle_jobs()
    turns: list[str] = []
    while client.pull(_PASS_BYTES):
        turns += [name for name, _ in groupby(frame.headers["subscription"] for frame in client.frames)]
        client.frames.clear()
    assert turns[: len(turns) - 3] == [names[place % 3] for place in range(len(turns) - 3)]


@pytest.mark.realises("QCM-1", "QCM-21")
def test_the_queues_of_one_subscription_have_their_turns_over_several_passes(bench: Bench) -> None:
    fill(bench, 60, "pqr")
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination="/queue/p,/queue/q,/queue/r", ack="client-individual")
    client.settle_jobs()
    origins: list[str] = []
    while client.pull(_PASS_BYTES):
        origins += [frame.headers["destination"][-1] for frame in client.frames if frame.command == "MESSAGE"]
        client.frames.clear()
    assert origins == list("pqr") * 60


class Source:
    """A consumer that always has more."""

    pulls_per_turn = 1
    may_have_more = True

    def __init__(self, name: bytes) -> None:
        self.name = name

    def pull(self) -> Iterable[bytes]:
        return (self.name,)


@pytest.mark.realises("BJ-PE-7")
def test_a_consumer_that_many_threads_announce_at_once_has_one_turn(bench: Bench) -> None:
    connection = DeliveryScheduler(lambda: None)
    sessions = [SessionScheduler(connection) for _ in range(2)]
    sources = [Source(b"a"), Source(b"b")]
    for _ in range(50):
        barrier = Barrier(4)

        def announce(barrier: Barrier = barrier) -> None:
            barrier.wait(_PATIENCE_S)
            for session, source in zip(sessions, sources, strict=True):
                session.schedule(source)

        threads = [Thread(target=announce) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE_S)
        parts: list[bytes] = []
        assert connection.pull(10, parts) == 10
        assert Counter(parts) == {b"a": 5, b"b": 5}


# One subscription to several destinations


def subscribed(bench: Bench, destination: str = "/queue/p,/queue/q", **headers: str) -> Client:
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination=destination, **{"ack": "client-individual", **headers})
    client.settle()
    return client


def send(bench: Bench, *messages: tuple[str, bytes], **headers: str) -> None:
    sender = bench.connect()
    for destination, body in messages:
        sender.send("SEND", body, destination=destination, **headers)
    sender.settle()
    sender.hang_up()


def seen(frames: list[Frame]) -> list[tuple[str, bytes]]:
    return [(frame.headers["destination"], bytes(frame.body)) for frame in frames if frame.command == "MESSAGE"]


@pytest.mark.realises("QCM-1")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_subscription_to_several_queues_is_woken_by_each_and_settles_in_each(
    bench_of_each_store: Bench, version: str
) -> None:
    bench = bench_of_each_store
    client = bench.connect(version)
    client.send("SUBSCRIBE", id="s", destination="/queue/p, /queue/q", ack="client-individual")
    client.settle()
    for name, body in (("q", b"1"), ("p", b"2"), ("q", b"3")):
        send(bench, (f"/queue/{name}", body), persistent="true")
        (frame,) = client.all()
        assert (frame.headers["destination"], frame.body) == (f"/queue/{name}", body)
        if body != b"2":
            header = "ack" if version == "1.2" else "message-id"
            client.send(
                "ACK", **{"id" if version == "1.2" else "message_id": frame.headers[header], "subscription": "s"}
            )
    client.settle()
    client.hang_up()
    (left,) = subscribed(bench).all()
    assert (left.headers["destination"], left.body, left.headers["redelivered"]) == ("/queue/p", b"2", "true")


@pytest.mark.realises("QCM-1", "QCM-25")
def test_a_subscription_whose_window_is_full_is_woken_by_none_of_its_queues(bench: Bench) -> None:
    full = subscribed(bench, prefetch_count="1")
    send(bench, ("/queue/p", b"1"))
    (first,) = full.all()
    others = [subscribed(bench, f"/queue/{name}", ack="auto") for name in "pq"]
    send(bench, ("/queue/p", b"2"), ("/queue/q", b"3"))
    assert [seen(each.all()) for each in others] == [[("/queue/p", b"2")], [("/queue/q", b"3")]]
    for each in others:
        each.hang_up()
    send(bench, ("/queue/q", b"4"), ("/queue/p", b"5"))
    assert full.all() == []
    full.send("ACK", id=first.headers["ack"])
    (second,) = full.all()
    assert second.body == b"4", "its other queue has its turn"


@pytest.mark.realises("QCM-1")
def test_queues_topics_and_temporary_queues_are_named_as_the_client_knows_them(bench: Bench) -> None:
    client = subscribed(bench, "/temp-queue/mine,/topic/t,/queue/q,/queue/q", ack="auto", selector="cups = 2")
    client.send("SEND", b"a", destination="/temp-queue/mine", cups="2")
    client.settle()
    send(bench, ("/topic/t", b"b"), ("/queue/q", b"c"), cups="2")
    send(bench, ("/topic/t", b"d"), ("/queue/q", b"e"), cups="3")
    assert sorted(seen(client.all())) == [("/queue/q", b"c"), ("/temp-queue/mine", b"a"), ("/topic/t", b"b")]
    client.send("UNSUBSCRIBE", id="s")
    client.settle()
    send(bench, ("/topic/t", b"f"), ("/queue/q", b"g"), cups="2")
    assert client.all() == []


def test_messages_on_the_disk_come_from_all_queues_of_a_subscription(tmp_path: Path) -> None:
    before = bench_on(tmp_path)
    send(before, *((f"/queue/{name}", body) for name in "pq" for body in (b"1", b"2")), persistent="true")
    before.close()
    bench = bench_on(tmp_path)  # with no message in memory
    client = subscribed(bench)
    assert client.transport.briefs.count(False) >= 4, "each was read on another thread"
    assert seen(client.all()) == [(f"/queue/{name}", body) for body in (b"1", b"2") for name in "pq"]
    bench.close()


def test_a_comma_that_joins_nothing_belongs_to_the_name(bench: Bench) -> None:
    client = subscribed(bench, "/queue/a,b")
    sender = PyjmsClient(bench)
    sender.session()
    sender.send(make_envelope("x", destination=queue("a,b")))
    assert seen(client.all()) == [("/queue/a,b", b"x")]


def test_a_full_queue_that_a_subscription_reads_among_others_refuses_the_connections_own_sends(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("q", QueuePolicy(max_messages=1, overflow=Overflow.BLOCK))
    client = subscribed(bench)
    client.send("SEND", b"1", destination="/queue/q")
    client.settle()
    client.send("SEND", b"2", destination="/queue/q")
    client.settle()
    assert "this connection reads it" in client.frames[-1].headers["message"]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"browser": "true"}, "a browser has one queue"),
        ({"durable_subscription_name": "d"}, "a durable subscription has one destination"),
        ({"destination": "/queue/p,/queue/"}, "no destination"),
    ],
)
def test_what_has_one_destination_is_not_given_several(bench: Bench, headers: dict[str, str], reason: str) -> None:
    client = bench.connect(client_id="c")
    answer = client.ask("SUBSCRIBE", id="s", **{"destination": "/topic/p,/topic/q", **headers})
    assert answer.command == "ERROR"
    assert reason in answer.headers["message"]
