"""SENDS and MESSAGES: several messages in one frame mean what as many frames mean."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, Envelope, MessageId
from pyjms.spi.errors import AccessDeniedError, ClosedError, DestinationError, ProviderError, RolledBackError
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.commands import delivery_ids
from pyjms_provider.protocols.stomp.codec import encode as encode_frame
from pyjms_provider.protocols.stomp.command_frames import error_of, is_closing
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.messages import from_frame
from pyjms_provider.protocols.stomp.packed import LENGTH, PACKED_HEADER, PACKED_VERSION, Arrived, unpack_deliveries
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.security.contracts import Operation
from pyjms_provider.stores.codec import decode_plain, encode
from tests.provider.helpers import ORDERS, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ready

OTHERS = Address(AddressKind.QUEUE, "others")


@pytest.fixture
def bench(bench_of_each_store: Bench) -> Bench:
    return bench_of_each_store


def sends(*envelopes: Envelope, session: str = "a", **headers: str) -> Frame:
    body = b"".join([LENGTH.pack(len(data)) + data for data in map(encode, envelopes)])
    return Frame("SENDS", {"session": session, "content-length": str(len(body)), **headers}, body)


def message(text: str, *, to: Address = ORDERS, persistent: bool = True) -> Envelope:
    return make_envelope(text, destination=to, persistent=persistent)


def packed(bench: Bench, *, transacted: bool = False) -> PyjmsClient:
    client = PyjmsClient(bench, is_packed=True)
    client.session(transacted=transacted)
    return client


def arrived(client: PyjmsClient) -> list[Arrived]:
    client.client.settle()
    found = [each for each in client.client.frames if each.command == "MESSAGES"]
    client.client.frames = [each for each in client.client.frames if each.command != "MESSAGES"]
    return [each for frame in found for each in unpack_deliveries(bytes(frame.body), int(frame.headers["first"]))]


def texts(found: list[Arrived]) -> list[object]:
    return [decode_plain(each.message).body for each in found]


def errors(client: PyjmsClient) -> list[ProviderError]:
    client.client.settle()
    found = [each for each in client.client.frames if each.command == "ERROR"]
    assert not any(map(is_closing, found))
    client.client.frames = [each for each in client.client.frames if each.command != "ERROR"]
    return [error_of(each) for each in found]


def test_the_broker_says_that_it_knows_packed_messages_to_who_asks(bench: Bench) -> None:
    assert PyjmsClient(bench, is_packed=True).connected.headers[PACKED_HEADER] == PACKED_VERSION
    assert PACKED_HEADER not in PyjmsClient(bench).connected.headers


@pytest.mark.parametrize("version", ["0", "2", "x"])
def test_who_asks_for_another_version_gets_frames_as_ever(bench: Bench, version: str) -> None:
    client = Client(bench)
    connected = client.log_in(**{"pyjms-profile": "1", PACKED_HEADER: version})
    assert connected.headers["pyjms-profile"] == "1"
    assert PACKED_HEADER not in connected.headers


def test_who_has_not_asked_may_not_say_sends(bench: Bench) -> None:
    client = PyjmsClient(bench)
    client.session()
    with pytest.raises(ProviderError, match="SENDS"):
        client.do(sends(message("x")))
    assert ready(bench).texts() == []


@pytest.mark.parametrize("persistent", [False, True])
def test_messages_of_one_frame_arrive_in_their_order(bench: Bench, persistent: bool) -> None:
    client = packed(bench)
    client.tell(sends(*[message(str(number), persistent=persistent) for number in range(100)]))
    client.consume()
    found = arrived(client)
    assert texts(found) == [str(number) for number in range(100)]
    assert [each.number for each in found] == list(range(1, 101))
    assert {(each.times, each.redelivered) for each in found} == {(1, False)}
    client.do(commands.GiveBack(session="a", ids=delivery_ids(range(1, 51))))
    client.tell(commands.Credit(subscription="c", credit=100))
    assert {(each.times, each.redelivered) for each in arrived(client)} == {(2, True)}


@pytest.mark.parametrize("count", [2, 3])
def test_what_may_wait_for_room_says_so_as_those_who_make_room_need_threads_too(bench: Bench, count: int) -> None:
    policy = QueuePolicy(max_messages=1, overflow=Overflow.BLOCK)
    QueueManager.of(bench.broker.name).create(ORDERS.name, policy)
    client = packed(bench)
    client.tell(sends(message("first")))
    client.client.settle()
    client.client.transport.patient.clear()
    client.tell(sends(*[message("x")] * (count - 1)))
    assert client.client.transport.patient == [True]
    client.client.hang_up()  # nothing more is waited for


def test_a_client_of_frames_and_a_plain_one_get_them_too(bench: Bench) -> None:
    client = packed(bench)
    client.tell(sends(message("a"), message("b")))
    client.client.settle()
    assert ready(bench, credit=1).texts() == ["a"]
    plain = bench.connect()
    plain.send("SUBSCRIBE", id="1", destination="/queue/orders")
    assert [bytes(each.body) for each in plain.all() if each.command == "MESSAGE"] == [b"b"]


def test_no_more_is_pushed_than_there_is_credit_for(bench: Bench) -> None:
    client = packed(bench)
    client.tell(sends(*[message(str(number)) for number in range(10)]))
    client.consume(credit=3)
    assert texts(arrived(client)) == ["0", "1", "2"]
    left = client.do(commands.Credit(subscription="c", credit=20, drain=True)).headers["left"]
    assert (left, texts(arrived(client))) == ("13", [str(number) for number in range(3, 10)])


def test_consumers_of_one_connection_take_turns(bench: Bench) -> None:
    client = packed(bench)
    client.tell(sends(*[message("x") for _ in range(200)], *[message("y", to=OTHERS) for _ in range(200)]))
    client.client.settle()
    client.consume(credit=0, name="c")
    client.consume(OTHERS, credit=0, name="d")
    client.together(commands.Credit(subscription="c", credit=200), commands.Credit(subscription="d", credit=200))
    client.client.settle()
    order = [each.headers["subscription"] for each in client.client.frames if each.command == "MESSAGES"]
    assert len(order) < 40
    assert "d" in order[: len(order) // 2]


def test_a_large_message_has_a_frame_to_itself(bench: Bench) -> None:
    client = packed(bench)
    client.tell(sends(message("a"), message("b"), message("c" * 40_000), message("d")))
    client.consume()
    client.client.settle()
    frames = [each for each in client.client.frames if each.command == "MESSAGES"]
    assert [each.headers["first"] for each in frames] == ["1", "3", "4"]
    assert [each.number for each in arrived(client)] == [1, 2, 3, 4]


def test_a_frame_may_be_as_large_as_head_and_body_of_a_message(bench: Bench) -> None:
    for is_packed, text in ((True, "113246208"), (False, "104857600")):
        client = PyjmsClient(bench, is_packed=is_packed).client
        client.feed(f"SENDS\nsession:a\ncontent-length:{int(text)}\n\n".encode())
        assert client.all() == []
        other = PyjmsClient(bench, is_packed=is_packed).client
        other.feed(f"SENDS\nsession:a\ncontent-length:{int(text) + 1}\n\n".encode())
        assert text in other.next().headers["message"]


def test_one_that_may_not_be_sent_is_told_and_the_others_arrive(bench: Bench) -> None:
    client = packed(bench)
    bench.rules.denied.add((Operation.WRITE, "others"))
    client.tell(sends(message("a"), message("b", to=OTHERS), message("c"), message("d", to=OTHERS)))
    assert [type(each) for each in errors(client)] == [AccessDeniedError] * 2
    client.consume()
    assert texts(arrived(client)) == ["a", "c"]


def test_a_forged_dead_letter_is_told_and_the_others_arrive(bench: Bench) -> None:
    client = packed(bench)
    bench.rules.denied.add((Operation.WRITE, "others"))
    forged = replace(message("b"), properties={"JMS_pyjms_deadDestination": "queue://others"})
    client.tell(sends(message("a"), forged, message("c")))
    assert [type(each) for each in errors(client)] == [AccessDeniedError]
    client.tell(sends(forged))
    assert [type(each) for each in errors(client)] == [AccessDeniedError]
    client.consume()
    assert texts(arrived(client)) == ["a", "c"]


def test_what_a_full_queue_refuses_is_told_and_the_others_arrive(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("others", QueuePolicy(max_messages=1, overflow=Overflow.REJECT))
    client = packed(bench)
    client.tell(sends(message("a"), *[message("b", to=OTHERS)] * 2, message("c")))
    assert ["full" in each.reason for each in errors(client)] == [True]
    client.consume()
    assert texts(arrived(client)) == ["a", "c"]


def test_the_transaction_of_one_that_was_refused_can_only_be_rolled_back(bench: Bench) -> None:
    client = packed(bench, transacted=True)
    bench.rules.denied.add((Operation.WRITE, "others"))
    client.tell(sends(message("a"), message("b", to=OTHERS), message("c")))
    assert [type(each) for each in errors(client)] == [AccessDeniedError]
    with pytest.raises(RolledBackError):
        client.do(commands.CommitTransaction(session="a"))
    client.tell(sends(message("d"), message("e")))
    client.do(commands.CommitTransaction(session="a"))
    assert ready(bench).texts() == ["d", "e"]


@pytest.mark.parametrize("has_others", [False, True])
def test_a_transaction_goes_on_without_what_nobody_can_receive_any_more(bench: Bench, has_others: bool) -> None:
    client = packed(bench, transacted=True)
    gone = Address(AddressKind.QUEUE, "somebody-1", temporary=True)
    texts_sent = ["a", "b"] if has_others else []
    client.tell(
        sends(*[message(text) for text in texts_sent[:1]], message("x", to=gone), *map(message, texts_sent[1:]))
    )
    assert [type(each) for each in errors(client)] == [DestinationError]
    client.do(commands.CommitTransaction(session="a"))
    assert ready(bench).texts() == texts_sent


def test_nothing_of_a_transaction_is_there_before_its_commit(bench: Bench) -> None:
    client = packed(bench, transacted=True)
    client.tell(sends(message("a"), message("b")))
    client.client.settle()
    other = ready(bench)
    assert other.texts() == []
    client.do(commands.CommitTransaction(session="a"))
    assert other.texts() == ["a", "b"]


@pytest.mark.parametrize("unfit", ["ID:\0", "ID:\ud800"])
def test_a_message_comes_to_all_though_no_header_can_carry_its_id(bench: Bench, unfit: str) -> None:
    sender = packed(bench)
    sender.tell(sends(replace(message("a"), message_id=MessageId(unfit))))
    sender.client.settle()
    looking = PyjmsClient(bench)
    looking.session()
    looking.tell(commands.Browse(session="a", id="b", address=ORDERS))
    looking.tell(commands.Credit(subscription="b", credit=9))
    seen, end = looking.messages()
    assert (from_frame(seen, PYJMS).message_id, end.headers["browser"]) == (unfit, "end")
    plain = bench.connect()
    plain.send("SUBSCRIBE", id="s", destination="/queue/orders", browser="true")
    seen, end = plain.all()
    assert (bytes(seen.body), end.headers["browser"]) == (b"a", "end")
    assert seen.headers["message-id"] == seen.headers["ack"]
    (came,) = ready(bench).messages()
    assert from_frame(came, PYJMS).message_id == unfit


@pytest.mark.parametrize("transacted", [False, True])
def test_a_frame_that_cannot_be_read_sends_nothing(bench: Bench, transacted: bool) -> None:
    client = packed(bench, transacted=transacted)
    frame = sends(message("a"), message("b"))
    frame.body = bytes(frame.body)[:-1] + b"?"  # the checksum of the second one is wrong
    client.tell(frame)
    (error,) = errors(client)
    assert "message 2 of SENDS cannot be taken" in str(error)
    if transacted:
        with pytest.raises(RolledBackError):
            client.do(commands.CommitTransaction(session="a"))
    client.consume()
    assert arrived(client) == []


def test_one_receipt_answers_one_message(bench: Bench) -> None:
    client = packed(bench)
    with pytest.raises(ProviderError, match="one receipt"):
        client.do(sends(message("a"), message("b")))
    client.do(sends(message("c")))
    bench.rules.denied.add((Operation.WRITE, "orders"))
    with pytest.raises(AccessDeniedError):
        client.do(sends(message("d")))
    bench.rules.denied.clear()
    client.consume()
    assert texts(arrived(client)) == ["c"]


def test_who_is_alone_is_answered_without_a_job(bench: Bench) -> None:
    client = packed(bench)
    client.do(sends(message("the first one makes the queue")))
    client.client.transport.is_alone = True
    for denied in (False, True):
        if denied:
            bench.rules.denied.add((Operation.WRITE, "orders"))
        client.tell(sends(message("x"), receipt="r"))
        assert client.client.transport.jobs == []
        assert client.client.next().command == ("ERROR" if denied else "RECEIPT")
    bench.rules.denied.clear()
    client.consume()
    assert texts(arrived(client))[1:] == ["x"]


def test_a_session_that_is_closed_takes_none(bench: Bench) -> None:
    client = packed(bench)
    with pytest.raises(ClosedError):
        client.do(sends(message("a"), session="b"))
    with pytest.raises(ProviderError, match="session"):
        client.do(Frame("SENDS", {"content-length": "0"}))


def test_who_waits_for_room_in_the_middle_of_a_frame_goes_on_behind_it(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("others", QueuePolicy(max_messages=1, overflow=Overflow.BLOCK))
    client = packed(bench)
    client.tell(sends(message("a"), message("x", to=OTHERS), message("b")))
    client.tell(sends(message("c")))
    assert len(client.client.transport.jobs) == 1, "the loop did not wait"
    client.consume()  # does the jobs; there was room for one
    assert texts(arrived(client)) == ["a", "b", "c"]
    client.tell(sends(message("d"), message("y", to=OTHERS), message("e")))
    client.tell(sends(message("f")))
    assert len(client.client.transport.jobs) == 1
    client.tell(commands.Interrupt(session="a"))
    assert isinstance(errors(client)[0], ClosedError)
    assert texts(arrived(client))[0] == "d"


def test_frames_that_wait_count_by_their_messages(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("orders", QueuePolicy(max_messages=1, overflow=Overflow.BLOCK))
    client = packed(bench)
    assert client.client.engine.handler is not None
    client.tell(sends(*[message("x")] * 500))
    assert client.client.engine.handler.backlog.waiting_bytes > 500 * 512
    client.client.transport.jobs.clear()


@settings(max_examples=60)
@given(st.lists(st.one_of(st.binary(max_size=60), st.just(None)), max_size=4), st.integers(1, 50), st.booleans())
def test_any_bytes_in_any_split_are_told_and_hurt_nobody(
    bodies: list[bytes | None], step: int, is_prefixed: bool
) -> None:
    bench = Bench()
    try:
        client = packed(bench)
        data = b""
        for body in bodies:
            frame = sends(message("x"))
            if body is not None:
                frame.body = LENGTH.pack(len(body)) + body if is_prefixed else body
                frame.headers["content-length"] = str(len(frame.body))
            data += encode_frame(frame, Version.V1_2)
        for at in range(0, len(data), step):
            client.client.feed(data[at : at + step])
        good = bodies.count(None)
        assert len(errors(client)) == len(bodies) - good
        client.consume()
        assert texts(arrived(client)) == ["x"] * good
    finally:
        bench.close()


def test_a_connection_that_is_cut_within_a_frame_has_sent_nothing_of_it(bench: Bench) -> None:
    client = packed(bench)
    client.client.feed(encode_frame(sends(message("a"), message("b")), Version.V1_2)[:-3])
    client.client.hang_up()
    assert ready(bench).texts() == []
