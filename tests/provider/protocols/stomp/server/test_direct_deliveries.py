"""A message that is sent on the loop goes to a connection that waits for it without a turn, and all promises stay."""

from __future__ import annotations

from threading import Thread

import pytest

from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import Created
from pyjms_provider.protocols.profile.commands import delivery_ids
from pyjms_provider.protocols.stomp.codec import encode as encode_frame
from pyjms_provider.protocols.stomp.frames import Version
from pyjms_provider.protocols.stomp.packed import sends_of, unpack_deliveries
from pyjms_provider.protocols.stomp.server.native_consumers import ServedConsumer
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.security.access import RuleAccessPolicy, parse_rules
from pyjms_provider.security.contracts import Operation, Principal, Target
from pyjms_provider.serving.hosts import EmbeddedHost
from pyjms_provider.stores.codec import decode_plain, encode
from tests.provider.helpers import ORDERS, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient

OTHERS = Address(AddressKind.QUEUE, "others")


@pytest.fixture
def bench(bench_of_each_store: Bench) -> Bench:
    return bench_of_each_store


class Side:
    """A pyjms client that says and hears bytes as the real one does."""

    def __init__(self, bench: Bench, *, transacted: bool = False) -> None:
        self.client = PyjmsClient(bench, is_packed=True)
        self.client.session(transacted=transacted)
        self.transport = self.client.client.transport
        self.transport.is_alone = True

    def consume(
        self,
        address: Address = ORDERS,
        credit: int = 100,
        selector: str | None = None,
        name: str = "c",
        priority: int = 0,
    ) -> Side:
        self.client.do(commands.Subscribe(session="a", id=name, address=address, selector=selector, priority=priority))
        if credit:
            self.client.tell(commands.Credit(subscription=name, credit=credit))
        self.client.client.settle()
        self.transport.takes_pushes = True
        return self

    def send(self, text: str, *, receipt: str = "", **how: object) -> None:
        frame = sends_of("a", encode(make_envelope(text, **how)))  # type: ignore[arg-type]
        if receipt:
            frame.headers["receipt"] = receipt
        self.client.client.feed(encode_frame(frame, Version.V1_2))

    @property
    def is_handed_one(self) -> bool:
        """Whether something was pushed since the last look, without a turn."""
        return bool(self.transport.pushed)

    def arrived(self) -> list[tuple[int, Envelope]]:
        """Return what has come, with its numbers."""
        self.client.client.settle()
        found = [each for each in self.client.client.frames if each.command == "MESSAGES"]
        self.client.client.frames = [each for each in self.client.client.frames if each.command != "MESSAGES"]
        return [
            (each.number, decode_plain(each.message))
            for frame in found
            for each in unpack_deliveries(bytes(frame.body), int(frame.headers["first"]))
        ]

    def texts(self) -> list[object]:
        return [envelope.body for _, envelope in self.arrived()]

    def acknowledge(self, *numbers: int) -> None:
        for number in numbers:
            self.client.client.feed(f"ACK\nsession:a\nids:{number}-{number}\n\n\0".encode())


def left(bench: Bench, address: Address = ORDERS) -> list[object]:
    """Return what is in a queue when all others have gone."""
    side = Side(bench).consume(address, name="last")
    return side.texts()


def test_a_request_and_its_reply_need_no_turn(bench: Bench) -> None:
    server, asker = Side(bench).consume(), Side(bench)
    replies = Created.read(asker.client.do(commands.CreateTemporary(kind=AddressKind.QUEUE)).headers).address
    asker.consume(replies)
    for number in range(3):
        wakes = server.transport.wakes, asker.transport.wakes
        asker.send(f"request {number}")
        assert server.is_handed_one
        ((taken, request),) = server.arrived()
        assert request.body == f"request {number}"
        server.acknowledge(taken)
        server.send(f"reply {number}", destination=replies)
        assert asker.is_handed_one
        ((taken, reply),) = asker.arrived()
        assert (taken, reply.body) == (number + 1, f"reply {number}")
        asker.acknowledge(taken)
        assert (server.transport.wakes, asker.transport.wakes) == wakes
    server.client.do(commands.CloseSession(session="a"))
    assert left(bench) == []
    assert not len(bench.broker.virtual_host.store)


def test_credit_is_kept_to_the_message(bench: Bench) -> None:
    server, asker = Side(bench).consume(credit=2), Side(bench)
    for number in range(4):
        asker.send(str(number))
        server.client.client.settle()
    assert server.texts() == ["0", "1"]
    asker.send("4")
    assert not server.is_handed_one
    server.client.tell(commands.Credit(subscription="c", credit=1))
    assert server.texts() == ["2"]
    server.client.tell(commands.Credit(subscription="c", credit=9))
    assert server.texts() == ["3", "4"]
    asker.send("5")
    assert server.is_handed_one


def test_who_has_no_credit_left_is_in_nobodys_way(bench: Bench) -> None:
    first, second, asker = Side(bench).consume(credit=1), Side(bench).consume(), Side(bench)
    for number in range(4):
        asker.send(str(number))
        assert first.is_handed_one == (number == 0)
        assert first.texts() == (["0"] if number == 0 else [])
        assert second.texts() == ([str(number)] if number else [])


def test_consumers_are_served_in_turn(bench: Bench) -> None:
    sides = [Side(bench).consume() for _ in range(3)]
    asker = Side(bench)
    for number in range(9):
        asker.send(str(number))
        for side in sides:
            side.client.client.pull()
    assert [side.texts() for side in sides] == [["0", "3", "6"], ["1", "4", "7"], ["2", "5", "8"]]


def test_nothing_overtakes_what_waits_for_a_turn(bench: Bench) -> None:
    server, asker = Side(bench).consume(), Side(bench)
    for number in range(5):
        asker.send(str(number))
    assert len(server.transport.pushed) == 1, "the wire is not empty before the next turn"
    assert server.texts() == ["0", "1", "2", "3", "4"]


def test_a_connection_that_does_not_read_gets_nothing_and_others_do(bench: Bench) -> None:
    slow, quick, asker = Side(bench).consume(), Side(bench).consume(), Side(bench)
    slow.transport.takes_pushes = False
    asker.send("0")
    asker.send("1")
    assert not slow.is_handed_one
    assert quick.texts() == ["0", "1"], "the quick one takes what waits for the slow one"


def test_selectors_are_asked(bench: Bench) -> None:
    picky, asker = Side(bench).consume(selector="colour = 'red'"), Side(bench)
    asker.send("blue", properties={"colour": "blue"})
    asker.send("red", properties={"colour": "red"})
    assert picky.texts() == ["red"]
    anybody = Side(bench).consume()
    assert anybody.texts() == ["blue"]
    asker.send("red too", properties={"colour": "red"})
    asker.send("blue too", properties={"colour": "blue"})
    assert (picky.texts(), anybody.texts()) == (["red too"], ["blue too"])


def test_priorities_of_consumers_are_kept(bench: Bench) -> None:
    low, high, asker = Side(bench).consume(), Side(bench).consume(priority=5), Side(bench)
    for number in range(3):
        asker.send(str(number))
        assert (low.texts(), high.texts()) == ([], [str(number)])


@pytest.mark.parametrize("policy", [QueuePolicy(groups=True), QueuePolicy(exclusive=True)])
def test_groups_and_exclusive_queues_stay_with_their_consumer(bench: Bench, policy: QueuePolicy) -> None:
    QueueManager.of(bench.broker.name).create("orders", policy)
    sides = [Side(bench).consume() for _ in range(2)]
    asker = Side(bench)
    for number in range(4):
        asker.send(str(number), properties={"JMSXGroupID": "g"})
        for side in sides:
            side.client.client.settle()
    assert sorted(map(len, [side.arrived() for side in sides])) == [0, 4]


@pytest.mark.parametrize("end", ["unsubscribe", "end session", "hang up", "stop"])
def test_who_has_gone_takes_nothing(bench: Bench, end: str) -> None:
    server, asker = Side(bench).consume(), Side(bench)
    asker.send("0")
    ((number, _),) = server.arrived()
    server.acknowledge(number)
    if end == "hang up":
        server.client.client.hang_up()
    else:
        command = {
            "unsubscribe": commands.Unsubscribe(id="c"),
            "end session": commands.CloseSession(session="a"),
            "stop": commands.Stop(),
        }[end]
        server.client.do(command)
    asker.send("1")
    assert not server.is_handed_one
    if end == "stop":
        server.client.do(commands.Start())
        assert server.texts() == ["1"]
    else:
        assert left(bench) == ["1"]


def test_a_consumer_that_closes_while_it_takes_leaves_the_message_with_its_session(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, asker = Side(bench).consume(), Side(bench)
    handler = server.client.client.engine.handler
    assert handler is not None
    push = server.transport.push

    def close_first(data: bytes) -> None:
        server.client.tell(commands.Unsubscribe(id="c"))
        push(data)

    monkeypatch.setattr(server.transport, "push", close_first)
    asker.send("0")
    assert server.texts() == ["0"]
    server.client.do(commands.CloseSession(session="a"))
    assert left(bench) == ["0"]


def test_rights_that_are_withdrawn_meanwhile_hold_at_once(bench: Bench) -> None:
    server, asker = Side(bench).consume(), Side(bench)
    asker.send("0")
    assert server.texts() == ["0"]
    bench.rules.denied.add((Operation.WRITE, "orders"))
    asker.send("1", receipt="r")
    assert not server.is_handed_one
    (answer,) = asker.client.client.all()
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "r")
    bench.rules.denied.clear()
    asker.send("2")
    assert server.texts() == ["2"]


def test_a_queue_that_was_deleted_meanwhile_is_made_anew_by_who_may(bench: Bench) -> None:
    asker = Side(bench)
    asker.send("0")
    asker.client.client.settle()
    QueueManager.of(bench.broker.name).destroy("orders")
    bench.rules.denied.add((Operation.CREATE, "orders"))
    asker.send("1", receipt="r")
    asker.client.client.settle()
    assert [each.command for each in asker.client.client.frames] == ["ERROR"]


@pytest.mark.parametrize("persistent", [False, True])
def test_what_is_not_acknowledged_comes_again(bench: Bench, persistent: bool) -> None:
    server, asker = Side(bench).consume(), Side(bench)
    for number in range(3):
        asker.send(str(number), persistent=persistent)
    found = server.arrived()
    assert [envelope.body for _, envelope in found] == ["0", "1", "2"]
    server.acknowledge(found[1][0])
    server.client.client.settle()
    server.client.client.hang_up()
    assert left(bench) == ["0", "2"]


def test_a_transaction_hands_nothing_over_before_it_commits_and_takes_what_it_is_handed_back(bench: Bench) -> None:
    server, asker = Side(bench, transacted=True).consume(), Side(bench, transacted=True)
    asker.send("0")
    assert not server.is_handed_one
    asker.client.do(commands.CommitTransaction(session="a"))
    ((number, _),) = server.arrived()
    server.acknowledge(number)
    server.client.do(commands.AbortTransaction(session="a"))
    server.client.do(commands.GiveBack(session="a", ids=delivery_ids([number])))
    ((again, envelope),) = server.arrived()
    assert (again, envelope.body) == (number + 1, "0")
    server.acknowledge(again)
    server.client.do(commands.CommitTransaction(session="a"))
    server.client.do(commands.CloseSession(session="a"))
    assert left(bench) == []


def test_subscribers_of_a_topic_are_each_handed_their_copy(bench: Bench) -> None:
    news = Address(AddressKind.TOPIC, "news")
    sides = [Side(bench).consume(news) for _ in range(3)]
    asker = Side(bench)
    asker.send("0", destination=news)
    assert [side.is_handed_one for side in sides] == [True] * 3
    assert [side.texts() for side in sides] == [["0"]] * 3


def test_who_sends_to_itself_hears_it_too(bench: Bench) -> None:
    side = Side(bench).consume()
    for number in range(3):
        side.send(str(number), receipt=f"r{number}")
    side.client.client.settle()
    assert sorted(
        each.headers.get("receipt-id", "") for each in side.client.client.frames if each.command == "RECEIPT"
    ) == [
        "r0",
        "r1",
        "r2",
    ]
    assert side.texts() == ["0", "1", "2"]


def test_nobody_takes_anything_on_another_thread(bench: Bench) -> None:
    server, asker = Side(bench).consume(), Side(bench)
    direct_deliveries = bench.service.direct_deliveries
    direct_deliveries.open()
    asker_session = bench.host.connect(
        asker.client.client.engine, principal=Principal(name="other"), address=""
    ).open_session(transacted=False)
    thread = Thread(target=asker_session.send, args=(make_envelope("0"),))
    thread.start()
    thread.join()
    direct_deliveries.close()
    assert not server.is_handed_one
    assert server.texts() == ["0"]


def test_a_fault_in_writing_ends_the_connection_that_takes_and_not_the_one_that_sends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, asker = Side(bench).consume(), Side(bench)

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(ServedConsumer, "_one_message", fail)
    asker.send("0", receipt="r")
    assert asker.client.client.next().command == "RECEIPT"
    assert server.client.client.next().command == "ERROR"
    assert server.client.client.engine.is_over
    server.client.client.hang_up()
    assert left(bench) == ["0"]


def test_the_desk_is_closed_however_a_send_ends(bench: Bench) -> None:
    asker = Side(bench)
    bench.rules.denied.add((Operation.WRITE, "orders"))
    asker.send("0", receipt="r")
    assert asker.client.client.next().command == "ERROR"
    assert not bench.service.direct_deliveries.thread


def test_rules_that_are_remembered_are_forgotten_with_new_ones(bench: Bench) -> None:
    policy = RuleAccessPolicy(parse_rules("allow * all *"))
    asked: list[Operation] = []
    check = policy.check

    def counted(principal: Principal, operation: Operation, target: Target, connection: str = "") -> None:
        asked.append(operation)
        check(principal, operation, target, connection)

    policy.check = counted  # type: ignore[method-assign]
    bench.host = EmbeddedHost(bench.broker, policy)
    server, asker = Side(bench).consume(), Side(bench)
    asker.send("0")
    asked.clear()
    asker.send("1")
    assert asked == [], "it was asked before, by the same rules"
    assert server.texts() == ["0", "1"]
    policy.replace(parse_rules("deny * write queue:orders\nallow * all *"))
    asker.send("2", receipt="r")
    assert asker.client.client.next().command == "ERROR"
    policy.replace(parse_rules("allow * all *"))
    asker.send("3")
    assert server.texts() == ["3"]
    policy.replace(parse_rules("deny * create queue:orders\nallow * all *"))
    server.client.do(commands.CloseSession(session="a"))
    QueueManager.of(bench.broker.name).destroy("orders")
    asker.send("4", receipt="r")
    assert asker.client.client.next().command == "ERROR", "with the queue the right to write there has gone"


@pytest.mark.parametrize("bench", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "data",
    [
        b"ACK\nsession:a\nids:1-2\n\n\0",
        b"ACK\nsession:a\nids:0\n\n\0",
        b"ACK\nsession:nobody\nids:1\n\n\0",
        b"ACK\nsession:a\nids:99999999999999999999\n\n\0",
        b"ACK\nsession:a\nids:7\n\n\0",
        b"\n\n\r\nACK\nsession:a\nids:1\n\n\0\n",
        b"ACK\r\nsession:a\r\nids:1\r\n\r\n\0",
        b"ACK\nids:1\nsession:a\nreceipt:x\n\n\0",
        b"SENDS\nsession:a\ncontent-length:3\n\nabc\0",
        b"SENDS\nsession:a\ncontent-length:0\n\n\0",
        b"SENDS\nsession:a\nreceipt:x\ncontent-length:2\n\n\0\0\0",
    ],
)
def test_frames_mean_the_same_however_they_are_cut_and_whichever_way_they_are_read(bench: Bench, data: bytes) -> None:
    found: list[list[object]] = []
    for cut in (len(data), 1):
        for is_known in (True, False):
            server, asker = Side(bench).consume(), Side(bench)
            asker.send("0")
            asker.send("1")
            texts = server.texts()
            engine = server.client.client.engine
            if not is_known:
                engine._fast_frames = None
            for at in range(0, len(data), cut):
                server.client.client.feed(data[at : at + cut])
            said = [(each.command, dict(each.headers)) for each in server.client.client.all()]
            server.client.client.hang_up()
            rest = Side(bench).consume(name="rest")
            remaining = rest.arrived()
            rest.acknowledge(*[number for number, _ in remaining])
            rest.client.do(commands.CloseSession(session="a"))
            found.append([texts, said, [envelope.body for _, envelope in remaining]])
    assert found[1:] == found[:-1]


def test_what_follows_a_sends_that_is_not_ended_is_not_believed(bench: Bench) -> None:
    server, asker = Side(bench).consume(), Side(bench)
    frame = encode_frame(sends_of("a", encode(make_envelope("0"))), Version.V1_2)
    asker.client.client.feed(frame[:-1] + b"x" + frame)
    (answer,) = asker.client.client.all()
    assert answer.command == "ERROR"
    assert asker.client.client.engine.is_over
    assert server.texts() == []
