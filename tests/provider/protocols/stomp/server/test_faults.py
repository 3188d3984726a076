"""What once went wrong, or could: frames and threads that meet at a bad moment."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ClosedError, ProviderError, ResourceError, RolledBackError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import Drained
from pyjms_provider.protocols.stomp.codec import encode
from pyjms_provider.protocols.stomp.command_frames import command_frame
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.messages import to_frame
from pyjms_provider.protocols.stomp.server.contracts import FrameTask
from pyjms_provider.protocols.stomp.server.engine import StompServerEngine
from pyjms_provider.protocols.stomp.server.service import StompService
from pyjms_provider.protocols.stomp.server.settings import StompSettings
from pyjms_provider.protocols.stomp.server.standard import AckMode, StandardSubscription
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.security.contracts import Operation
from pyjms_provider.settings import read_url
from tests.provider.helpers import ORDERS, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ready


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Bench]:
    """Return a bench whose broker writes, so that most commands are for other threads."""
    url = ProviderUrl.parse(f"vm://x?store=sqlite:///{tmp_path}/x.db")
    bench = Bench(broker=read_url(url)[1])
    yield bench
    bench.close()


def blocking(bench: Bench, most: int = 1, name: str = "orders") -> None:
    QueueManager.of(bench.broker.name).create(name, QueuePolicy(max_messages=most, overflow=Overflow.BLOCK))


def sent_by(session: str, text: str) -> Frame:
    frame = to_frame(make_envelope(text), PYJMS)
    frame.headers["session"] = session
    return frame


# Order


def test_disconnect_waits_for_what_other_sessions_have_to_do(bench: Bench) -> None:
    blocking(bench, 10)
    client = PyjmsClient(bench)
    client.session()
    client.tell(sent_by("a", "last words"))
    client.tell(Frame("DISCONNECT", {"receipt": "bye"}))
    client.client.settle()
    assert [frame.headers.get("receipt-id") for frame in client.client.frames] == ["bye"]
    assert client.client.engine.is_over
    assert ready(bench).texts() == ["last words"]


def test_nothing_after_disconnect_is_done(bench: Bench) -> None:
    client = bench.connect()
    client.feed(
        encode(Frame("DISCONNECT", {"receipt": "bye"}), Version.V1_2)
        + encode(Frame("SEND", {"destination": "/queue/orders"}, b"x"), Version.V1_2)
    )
    assert [frame.command for frame in client.all()] == ["RECEIPT"]
    assert ready(bench).texts() == []


@pytest.mark.parametrize("ack", ["auto", "client"])
@pytest.mark.parametrize("transaction", [{}, {"transaction": "t"}])
def test_a_plain_client_never_waits_for_room_that_it_makes_itself(
    bench: Bench, ack: str, transaction: dict[str, str]
) -> None:
    blocking(bench)
    other = PyjmsClient(bench)
    other.session()
    other.send(make_envelope("the queue is full"))
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", ack=ack, prefetch_count="1")
    if transaction:
        client.send("BEGIN", **transaction)
    client.send("SEND", b"x", destination="/queue/orders", receipt="r", **transaction)
    frames = client.all()
    (error,) = [frame for frame in frames if frame.command == "ERROR"]
    assert error.headers["receipt-id"] == "r"
    assert b"acknowledge before you send, or read the queue with another connection" in bytes(error.body)
    assert client.engine.is_over


def settle_when_somebody_reads(bench: Bench, client: Client, queue: str) -> None:
    """Have a client do what it was sent, which waits for room in this queue until another client reads from there."""
    waiting = Thread(target=client.settle, daemon=True)
    waiting.start()
    reader = bench.connect()
    reader.send("SUBSCRIBE", id="s", destination=f"/queue/{queue}", ack="auto")
    reader.settle()
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_plain_client_waits_for_room_that_others_make(bench: Bench) -> None:
    blocking(bench)
    sender = bench.connect()
    sender.send("SUBSCRIBE", id="s", destination="/queue/answers", ack="client")
    sender.send("SEND", b"1", destination="/queue/orders")
    sender.settle()
    sender.send("SEND", b"2", destination="/queue/orders", receipt="r")
    settle_when_somebody_reads(bench, sender, "orders")
    assert [frame.headers["receipt-id"] for frame in sender.all()] == ["r"]


def test_a_transaction_that_sends_to_a_queue_of_its_own_connection_waits_for_room_in_others(bench: Bench) -> None:
    blocking(bench, 2)
    blocking(bench, 1, "other")
    filler = bench.connect()
    filler.send("SEND", b"full", destination="/queue/other")
    filler.settle()
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")
    client.send("BEGIN", transaction="t")
    client.send("SEND", b"1", destination="/queue/orders", transaction="t", receipt="1")
    client.settle()
    client.send("SEND", b"2", destination="/queue/other", transaction="t", receipt="2")
    settle_when_somebody_reads(bench, client, "other")
    assert [(frame.command, frame.headers["receipt-id"]) for frame in client.all()] == [
        ("RECEIPT", "1"),
        ("RECEIPT", "2"),
    ]


@pytest.mark.parametrize("headers", [{}, {"pyjms-profile": "1"}])
def test_a_client_logs_in_once(bench: Bench, headers: dict[str, str]) -> None:
    client = Client(bench)
    client.log_in(**headers)
    answer = client.ask("CONNECT", accept_version="1.2", host="")
    assert answer.command == "ERROR"
    assert "must not come now" in answer.headers["message"]
    assert client.engine.is_over


def test_a_peer_is_known_from_the_log_in_on(bench: Bench) -> None:
    """Before, what comes of a large WebSocket frame is not kept for it."""
    client = Client(bench)
    assert not client.engine.knows_peer
    client.send("CONNECT", accept_version="1.2", host="")
    assert not client.engine.knows_peer
    assert client.next().command == "CONNECTED"
    assert client.engine.knows_peer


def test_who_took_too_long_to_log_in_is_not_greeted_afterwards(bench: Bench) -> None:
    client = Client(bench)
    client.send("CONNECT", accept_version="1.2", host="", client_id="c")
    bench.clock.now_ms += StompSettings().login_timeout_ms + 1
    client.engine.tick()
    assert [frame.command for frame in client.all()] == ["ERROR"]
    bench.connect(client_id="c")  # what the late login had made has ended


def test_strangers_do_not_fill_the_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def come_badly() -> None:
        Client(bench).feed(b"\x16\x03\x01\x02")
        guesser, sleeper = Client(bench), Client(bench)
        guesser.log_in(login="a", passcode="guessed")
        bench.clock.now_ms += StompSettings().login_timeout_ms + 1
        sleeper.engine.tick()
        bench.clock.now_ms -= StompSettings().login_timeout_ms + 1

    caplog.set_level("INFO", "pyjms_provider.protocols.stomp")
    for _ in range(4):
        come_badly()
    assert sorted(record.getMessage()[:13] for record in caplog.records) == [
        "PYJMS-STOMP-1",
        "PYJMS-STOMP-2",
        "PYJMS-STOMP-6",
    ]
    caplog.clear()
    bench.clock.now_ms += 20_000
    come_badly()
    assert [record.getMessage().partition(" (")[2] for record in caplog.records] == [
        "and 3 more since the last such line)"
    ] * 3


# Threads


def test_a_connection_ends_at_the_broker_as_soon_as_a_thread_comes_free(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = bench.connect(client_id="c")
    refused: list[Any] = []
    work = client.transport.work
    monkeypatch.setattr(client.transport, "work", lambda job, done, **_: refused.append(done))
    client.engine.closed(None)
    monkeypatch.setattr(client.transport, "work", work)
    refused.pop()(None, ResourceError("the broker has 256 requests that wait"))  # as the transport does after a while
    client.settle_jobs()
    bench.connect(client_id="c")


def test_what_had_come_of_a_frame_goes_with_its_connection(bench: Bench) -> None:
    """Engine and handler know each other, and Python looks for such circles now and then: clients who hung up in mid-frame filled the memory."""
    size = 4_000_000
    client = bench.connect()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        client.feed(b"SEND\ndestination:/queue/orders\ncontent-length:%d\n\n" % (2 * size) + bytes(size))
        assert tracemalloc.get_traced_memory()[0] > size
        client.hang_up()
        assert tracemalloc.get_traced_memory()[0] < size / 2
    finally:
        tracemalloc.stop()
        gc.enable()


def test_a_send_in_a_transaction_that_would_wait_for_room_is_for_another_thread(bench: Bench) -> None:
    blocking(bench)
    client = bench.connect()
    client.send("SEND", b"first", destination="/queue/orders")
    client.send("BEGIN", transaction="t")
    client.settle()
    client.send("SEND", b"second", destination="/queue/orders", transaction="t")
    assert len(client.transport.jobs) == 1


def test_what_had_to_queue_is_for_another_thread_since_it_may_wait_by_now(bench: Bench) -> None:
    blocking(bench)
    client = bench.connect()
    client.send("SEND", b"first", destination="/queue/orders")  # a job
    client.send("SEND", b"second", destination="/queue/other")
    client.transport.jobs.pop(0)()
    assert [bytes(client.engine.pull(1000))] == [b""]
    assert len(client.transport.jobs) == 1


def test_a_failure_to_pull_is_told_to_the_client(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    client = bench.connect()

    def pull(size: int, parts: list[bytes]) -> int:
        raise ClosedError("the virtual host has stopped")

    monkeypatch.setattr(client.engine.handler, "scheduler", SimpleNamespace(pull=pull, scheduled=[client]))
    (error,) = client.all()
    assert (error.command, error.headers["code"]) == ("ERROR", "PYJMS-CLOSED")
    assert client.engine.is_over


def test_a_message_that_is_taken_while_its_subscription_ends_goes_back() -> None:
    delivery = Delivery(make_envelope("x"), 1, False, None)
    closing: list[Thread] = []
    left: list[dict[str, Delivery]] = []
    begun = Event()

    class Consumer:
        def poll_at_once(self) -> Delivery:
            def close() -> None:
                begun.set()
                left.append(subscription.close())

            closing.append(Thread(target=close))
            closing[0].start()
            assert begun.wait(10)
            return delivery

        def close(self) -> None: ...

    class ProtocolHandler:
        session = None
        engine = SimpleNamespace(fail=None)

        class consumers:  # noqa: N801 - as the handler calls it
            schedule = staticmethod(lambda who: None)

        def hold(self, subscription: StandardSubscription, delivery: Delivery) -> str:
            subscription.unsettled["1"] = delivery
            return "1"

        def write_message(self, subscription: StandardSubscription, delivery: Delivery, number: str) -> Iterable[bytes]:
            return [b"MESSAGE"]

    handler: Any = ProtocolHandler()
    consumer: Any = Consumer()
    subscription = StandardSubscription(
        handler,
        name="s",
        destinations=[ORDERS],
        shown_destination="",
        mode=AckMode.CLIENT,
        window=10,
        durable_name=None,
    )
    subscription.begin(consumer)
    assert subscription.pull() == [b"MESSAGE"]
    closing[0].join(10)
    assert left == [{"1": delivery}]
    assert subscription.pull() is None


def test_a_blocked_send_ends_with_its_connection(bench: Bench) -> None:
    blocking(bench)
    client = bench.connect()
    client.send("SEND", b"first", destination="/queue/orders")
    client.settle()
    client.send("SEND", b"second", destination="/queue/orders")
    (job,) = client.transport.jobs
    client.engine.closed(None)
    job()  # returns: the wait for room is over
    assert ready(bench).texts() == ["first"]


# Transactions


def test_a_send_that_is_no_message_spoils_its_transaction(bench: Bench) -> None:
    client = PyjmsClient(bench)
    client.session("t", transacted=True)
    client.tell(Frame("SEND", {"session": "t", "destination": "nowhere"}, b"x"))
    with pytest.raises(RolledBackError):
        client.do(commands.CommitTransaction(session="t"))


def test_a_cumulative_ack_covers_what_an_aborted_transaction_gave_back(bench: Bench) -> None:
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")
    for body in (b"1", b"2"):
        client.send("SEND", body, destination="/queue/orders")
    first, second = client.all()
    client.send("BEGIN", transaction="t")
    client.send("ACK", id=first.headers["ack"], transaction="t")
    client.send("ABORT", transaction="t")
    client.send("ACK", id=second.headers["ack"])
    client.settle()
    client.hang_up()
    assert ready(bench).texts() == []


def test_what_a_transaction_gives_back_to_a_subscription_that_has_ended_goes_to_its_queue(bench: Bench) -> None:
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")
    client.send("SEND", b"1", destination="/queue/orders")
    (message,) = client.all()
    client.send("BEGIN", transaction="t")
    client.send("ACK", id=message.headers["ack"], transaction="t")
    client.send("UNSUBSCRIBE", id="s")
    client.send("ABORT", transaction="t", receipt="r")
    client.settle()
    assert ready(bench).texts() == ["1"]


# Credit


def test_a_drain_of_a_consumer_that_is_refused_is_answered(stored: Bench) -> None:
    stored.rules.denied.add((Operation.READ, "orders"))
    client = PyjmsClient(stored)
    client.session()
    client.tell(command_frame(commands.Subscribe(session="a", id="c", address=ORDERS), "s"))
    client.tell(command_frame(commands.Credit(subscription="c", credit=1, drain=True), "d"))
    client.client.settle()
    assert {frame.headers["receipt-id"]: frame.command for frame in client.client.frames} == {
        "s": "ERROR",
        "d": "RECEIPT",
    }


def test_credit_that_two_drains_take_away_is_counted_once(bench: Bench) -> None:
    client = ready(bench, credit=0)
    client.tell(command_frame(commands.Credit(subscription="c", credit=2, drain=True), "d1"))
    client.tell(command_frame(commands.Credit(subscription="c", credit=3, drain=True), "d2"))
    client.client.settle()
    assert sum(Drained.read(frame.headers).left for frame in client.client.frames) == 5


# Memory


def test_headers_that_wait_are_counted() -> None:
    frame = Frame("SEND", {"destination": "/queue/orders", "x": "x" * 100_000}, b"", tail="y:" + "y" * 100_000)
    assert FrameTask(frame, lambda: None, may_wait=True).size > 200_000


def test_a_client_that_makes_temporary_destinations_without_end_is_stopped() -> None:
    bench = Bench(StompSettings(temporaries_max=2))
    try:
        plain = bench.connect()
        for number in range(3):
            plain.send("SEND", b"x", destination="/queue/orders", reply_to=f"/temp-queue/{number}")
        (error,) = plain.all()
        assert "may have 2 temporary destinations" in error.headers["message"]
        client = PyjmsClient(bench)
        for _ in range(2):
            client.do(commands.CreateTemporary(kind=AddressKind.QUEUE))
        with pytest.raises(ProviderError, match="may have 2"):
            client.do(commands.CreateTemporary(kind=AddressKind.QUEUE))
    finally:
        bench.close()


def test_a_temporary_queue_of_another_user_cannot_be_read(bench: Bench) -> None:
    owner, stranger = PyjmsClient(bench), PyjmsClient(bench)
    made = owner.do(commands.CreateTemporary(kind=AddressKind.QUEUE)).headers["destination"]
    address = Address(AddressKind.QUEUE, made.removeprefix("/temp-queue/"), temporary=True)
    stranger.session()
    with pytest.raises(ProviderError):
        stranger.do(commands.Subscribe(session="a", id="c", address=address))


# The end of a virtual host


@pytest.mark.parametrize("is_told", [True, False])
def test_a_login_that_meets_the_end_of_its_virtual_host_is_told_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_told: bool
) -> None:
    """It was hung up on, and the log had a traceback: the host had gone when CONNECTED was to say what it can do."""
    real = StompService.make_handler

    def begin(service: StompService, engine: StompServerEngine, *arguments: Any) -> Any:
        handler = real(service, engine, *arguments)
        if not is_told:
            monkeypatch.setattr(engine, "on_exception", lambda _: None)  # as it is a moment later
        bench.broker.stop()
        return handler

    monkeypatch.setattr(StompService, "make_handler", begin)
    client = Client(bench)
    answer = client.log_in(pyjms_profile="1")
    assert answer.command == "ERROR"
    assert ("was stopped" if is_told else "is closed") in answer.headers["message"]
    assert client.engine.is_over
    client.hang_up()
