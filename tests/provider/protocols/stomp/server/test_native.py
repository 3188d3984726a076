"""pyjms clients at the broker: every command of the profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import BranchError, ClosedError, ProviderError, ResourceError
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import Created, Drained, Greeting, Prepared, Recovered, Sent
from pyjms_provider.protocols.profile.commands import DeliveryIds
from pyjms_provider.protocols.stomp.command_frames import PROFILE_LIMITS, command_frame, error_of
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame, to_frame
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.security.contracts import Operation
from pyjms_provider.settings import read_url
from tests.provider.giving_back import counted_steps
from tests.provider.helpers import NEWS, ORDERS, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, bench_on
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ids, ready

XID = Xid(1, b"g", b"b")


def test_the_greeting_tells_what_the_connection_can_do(bench: Bench) -> None:
    client = PyjmsClient(bench)
    greeting = Greeting.read(client.connected.headers)
    assert greeting.resource_manager
    assert "JMSXDeliveryCount" in greeting.jmsx_property_names
    assert any("store" in text for text in greeting.advice.values())
    assert greeting.body_max == PROFILE_LIMITS.body_max


def test_a_message_keeps_all_that_it_is(bench: Bench) -> None:
    client = ready(bench)
    sent = make_envelope("hello", properties={"a:b\n": "c\\", "type": "reserved", "n": True})
    assert Sent.read(client.send(sent).headers).message_id == sent.message_id
    (frame,) = client.messages()
    received = from_frame(frame, PYJMS)
    assert dict(received.properties) == sent.properties
    assert (received.body, received.message_id, received.destination) == ("hello", sent.message_id, ORDERS)
    assert frame.headers["delivery-count"] == "1"
    assert frame.headers["redelivered"] == "false"


def test_a_message_without_the_profile_gets_an_id(bench: Bench) -> None:
    client = ready(bench)
    answer = client.do(Frame("SEND", {"destination": "/queue/orders", "session": "a"}, b"x"))
    (frame,) = client.messages()
    assert Sent.read(answer.headers).message_id == frame.headers["message-id"]


def test_nothing_comes_before_start_and_after_stop(bench: Bench) -> None:
    client = PyjmsClient(bench, started=False)
    client.session()
    client.consume()
    client.send(make_envelope("x"))
    assert client.messages() == []
    client.do(commands.Start())
    assert client.texts() == ["x"]
    client.do(commands.Stop())
    client.send(make_envelope("y"))
    assert client.messages() == []
    assert Drained.read(client.do(commands.Credit(subscription="c", drain=True)).headers).left == 99


def test_no_more_comes_than_there_is_credit_for(bench: Bench) -> None:
    client = ready(bench, credit=2)
    for text in "abc":
        client.send(make_envelope(text))
    assert client.texts() == ["a", "b"]
    client.tell(commands.Credit(subscription="c", credit=1))
    assert client.texts() == ["c"]


def test_a_drain_says_exactly_what_is_there_now(bench: Bench) -> None:
    client = ready(bench, credit=0)
    for text in "ab":
        client.send(make_envelope(text))
    lefts = [
        Drained.read(client.do(commands.Credit(subscription="c", credit=1, drain=True)).headers).left for _ in range(3)
    ]
    assert lefts == [0, 0, 1]
    assert client.texts() == ["a", "b"]
    client.send(make_envelope("later"))
    assert client.messages() == []  # the credit was taken back


def test_a_message_stands_before_the_receipt_of_its_drain(bench: Bench) -> None:
    client = ready(bench, credit=0)
    client.send(make_envelope("a"))
    client.tell(command_frame(commands.Credit(subscription="c", credit=5, drain=True), "d"))
    client.client.settle()
    assert [frame.command for frame in client.client.frames] == ["MESSAGE", "RECEIPT"]


def test_revoked_credit_is_given_back_and_others_are_served(bench: Bench) -> None:
    one, two = ready(bench, credit=5), ready(bench, credit=0)
    assert Drained.read(one.do(commands.Credit(subscription="c", revoke=True)).headers).left == 5
    two.tell(commands.Credit(subscription="c", credit=1))
    two.send(make_envelope("x"))
    assert (one.texts(), two.texts()) == ([], ["x"])


def test_acknowledged_messages_are_gone_and_others_come_back(bench: Bench) -> None:
    client = ready(bench)
    for text in "abc":
        client.send(make_envelope(text))
    a, b, c = client.messages()
    client.do(commands.Acknowledge(session="a", ids=ids(b)))
    client.do(commands.GiveBack(session="a", ids=ids(c, a)))
    again = client.messages()
    assert [from_frame(frame, PYJMS).body for frame in again] == ["a", "c"]
    assert {(frame.headers["redelivered"], frame.headers["delivery-count"]) for frame in again} == {("true", "2")}


def test_what_nobody_has_seen_goes_back_unmarked(bench: Bench) -> None:
    client = ready(bench)
    client.send(make_envelope("a"))
    client.do(commands.GiveBack(session="a", ids=ids(*client.messages()), unseen=True))
    (again,) = client.messages()
    assert (again.headers["redelivered"], again.headers["delivery-count"]) == ("false", "1")


def test_ids_that_are_not_open_are_passed_over(bench: Bench) -> None:
    client = ready(bench)
    client.send(make_envelope("a"))
    client.messages()
    client.do(commands.Acknowledge(session="a", ids=(range(1, 10**12),)))
    client.do(commands.Acknowledge(session="a", ids=(range(1, 10**12),)))
    client.do(commands.CloseSession(session="a"))
    assert ready(bench).texts() == []


def test_retry_counts_and_reject_sets_aside(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("orders", QueuePolicy(max_deliveries=2))
    client = ready(bench)
    client.send(make_envelope("a"))
    for _ in range(2):
        client.do(commands.Retry(session="a", ids=ids(*client.messages()), reason="it failed"))
    assert client.messages() == []
    client.send(make_envelope("b"))
    client.do(commands.Reject(session="a", ids=ids(*client.messages()), reason="it is wrong"))
    assert QueueManager.of(bench.broker.name).report("DLQ").waiting == 2


def test_a_transaction_is_one_fact(bench: Bench) -> None:
    client, other = ready(bench, transacted=True), ready(bench, credit=0)
    other.send(make_envelope("in"))
    (received,) = client.messages()
    client.send(make_envelope("out", destination=NEWS))
    client.do(commands.Acknowledge(session="a", ids=ids(received)))
    client.do(commands.AbortTransaction(session="a"))
    client.do(commands.GiveBack(session="a", ids=ids(received)))  # ABORT left it open
    (again,) = client.messages()
    client.do(commands.Acknowledge(session="a", ids=ids(again)))
    client.do(commands.CommitTransaction(session="a"))
    client.do(commands.CloseSession(session="a"))
    other.tell(commands.Credit(subscription="c", credit=1))
    assert other.texts() == []


def test_a_send_that_fails_unasked_spoils_its_transaction(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("full", QueuePolicy(max_messages=1, overflow=Overflow.REJECT))
    full = Address(AddressKind.QUEUE, "full")
    client = PyjmsClient(bench)
    client.session()
    client.send(make_envelope("x", destination=full))
    client.session("t", transacted=True)
    frame = to_frame(make_envelope("y", destination=full), PYJMS)
    frame.headers["session"] = "t"
    client.tell(frame)
    with pytest.raises(ProviderError) as raised:
        client.do(commands.CommitTransaction(session="t"))
    assert raised.value.code == "PYJMS-ROLLED-BACK"
    assert "full is full" in raised.value.reason
    assert isinstance(raised.value.__cause__, ResourceError)


def test_who_waits_for_room_holds_up_his_own_session_only(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("orders", QueuePolicy(max_messages=1, overflow=Overflow.BLOCK))
    client = ready(bench, credit=0)
    client.send(make_envelope("first"))
    client.session("b")
    frame = to_frame(make_envelope("second"), PYJMS)
    frame.headers |= {"session": "b", "receipt": "late"}
    client.tell(frame)
    assert len(client.client.transport.jobs) == 1  # it would wait, so it is for another thread
    job = client.client.transport.jobs.pop()
    client.tell(commands.Credit(subscription="c", credit=1))
    (message,) = client.messages()
    client.do(commands.Acknowledge(session="a", ids=ids(message)))
    job()
    client.client.settle()
    assert "late" in {frame.headers.get("receipt-id") for frame in client.client.frames}


def test_what_may_wait_for_other_clients_says_so_and_what_those_do_does_not(tmp_path: Path) -> None:
    bench = bench_on(tmp_path)
    try:
        policy = QueuePolicy(max_messages=1, overflow=Overflow.BLOCK)
        QueueManager.of(bench.broker.name).create("orders", policy)
        client, plain = ready(bench), bench.connect()
        client.send(make_envelope("first", persistent=True))
        (first,) = client.messages()
        client.session("b")
        client.client.transport.patient.clear()
        client.tell_sent("second", session="b")
        client.tell(command_frame(commands.Acknowledge(session="a", ids=ids(first)), "r"))
        assert client.client.transport.patient == [True, False]
        plain.transport.patient.clear()
        plain.send("SEND", b"third", destination="/queue/orders", persistent="true")
        assert plain.transport.patient == [True]
        for each in (client.client, plain):
            each.hang_up()  # nothing more is waited for
    finally:
        bench.close()


@pytest.mark.parametrize(
    "command",
    [
        commands.Subscribe(session="a", id="d", address=ORDERS, selector="n > 1"),
        commands.Browse(session="a", id="d", address=ORDERS, selector="n > 1"),
        commands.OpenReaderGroup(group="g", address=ORDERS, selector="n > 1"),
    ],
    ids=lambda command: command.COMMAND,
)
def test_a_selector_is_read_where_it_holds_up_nobody(bench: Bench, command: commands.Command) -> None:
    client, plain = ready(bench), bench.connect()
    client.tell(command)
    assert len(client.client.transport.jobs) == 1
    plain.send("SUBSCRIBE", id="1", destination="/queue/orders", selector="n > 1")
    assert len(plain.transport.jobs) == 1
    client.client.settle_jobs()


def test_interrupt_ends_the_waits_of_its_session(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("orders", QueuePolicy(max_messages=1, overflow=Overflow.BLOCK))
    client = ready(bench, credit=0)
    client.send(make_envelope("first"))
    frame = to_frame(make_envelope("second"), PYJMS)
    frame.headers |= {"session": "a", "receipt": "late"}
    client.tell(frame)
    client.do(commands.Interrupt(session="a"))
    (error,) = [frame for frame in client.client.frames if frame.command == "ERROR"]
    assert error.headers["receipt-id"] == "late"
    assert isinstance(error_of(error), ClosedError)


def test_a_browser_sees_all_and_then_its_end(bench: Bench) -> None:
    client = ready(bench, credit=0)
    for text in "ab":
        client.send(make_envelope(text))
    client.do(commands.Browse(session="a", id="b", address=ORDERS))
    client.tell(commands.Credit(subscription="b", credit=2))
    frames = client.messages()
    assert [frame.headers.get("browser") for frame in frames] == [None, None, "end"]
    assert "ack" not in frames[0].headers


def test_a_browser_of_nothing_ends_without_credit(bench: Bench) -> None:
    client = ready(bench, credit=0)
    client.do(commands.Browse(session="a", id="b", address=ORDERS))
    assert [frame.headers["browser"] for frame in client.messages()] == ["end"]


def test_credit_that_comes_after_the_end_is_nothing_to_complain_of_unless_an_answer_is_asked_for(bench: Bench) -> None:
    client = ready(bench, credit=0)
    client.do(commands.Browse(session="a", id="b", address=ORDERS))
    client.tell(commands.Credit(subscription="b", credit=2))
    client.client.settle()
    assert [frame for frame in client.client.frames if frame.command == "ERROR"] == []
    with pytest.raises(ClosedError):
        client.do(commands.Credit(subscription="b", credit=2))


def test_temporary_destinations_come_and_go(bench: Bench) -> None:
    client, other = PyjmsClient(bench), PyjmsClient(bench)
    address = Created.read(client.do(commands.CreateTemporary(kind=AddressKind.QUEUE)).headers).address
    assert address.temporary
    other.session()
    other.send(make_envelope("x", destination=address))
    with pytest.raises(ProviderError) as raised:
        other.consume(address)
    assert raised.value.code == "PYJMS-DESTINATION"
    client.session()
    client.consume(address)
    assert client.texts() == ["x"]
    with pytest.raises(ProviderError) as raised:
        client.do(commands.DeleteTemporary(address=address))
    assert raised.value.code == "PYJMS-DESTINATION-IN-USE"
    client.do(commands.Unsubscribe(id="c"))
    client.do(commands.DeleteTemporary(address=address))


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "a\x9bb", "\x7f", "x" * 256])
@pytest.mark.parametrize("kind", [AddressKind.QUEUE, AddressKind.TOPIC])
def test_no_new_destination_has_a_name_that_nobody_can_write_or_read(
    bench: Bench, name: str, kind: AddressKind
) -> None:
    client = PyjmsClient(bench)
    client.session()
    with pytest.raises(ProviderError, match="the name of a new destination has at most 255 characters") as raised:
        client.consume(Address(kind, name))
    assert raised.value.code == "PYJMS-DESTINATION"
    client.consume(Address(kind, "ö" * 255))


def test_durable_subscriptions_live_until_they_are_deleted(bench: Bench) -> None:
    client = PyjmsClient(bench)
    client.do(commands.Identify(client_id="me"))
    client.session()
    client.do(commands.Subscribe(session="a", id="c", address=NEWS, durable_name="mine"))
    with pytest.raises(ProviderError) as raised:
        client.do(commands.DeleteSubscription(session="a", durable_name="mine"))
    assert raised.value.code == "PYJMS-SUBSCRIPTION-IN-USE"
    client.do(commands.Unsubscribe(id="c"))
    client.do(commands.DeleteSubscription(session="a", durable_name="mine"))
    with pytest.raises(ProviderError) as raised:
        client.do(commands.DeleteSubscription(session="a", durable_name="mine"))
    assert raised.value.code == "PYJMS-SUBSCRIPTION"


def test_another_session_settles_what_it_adopted(bench: Bench) -> None:
    client = ready(bench)
    client.send(make_envelope("x"))
    (message,) = client.messages()
    client.session("b")
    client.do(commands.Adopt(session="b", ids=ids(message)))
    client.do(commands.CloseSession(session="a"))
    client.do(commands.Acknowledge(session="b", ids=ids(message)))
    assert ready(bench).texts() == []
    with pytest.raises(ClosedError):
        client.do(commands.Adopt(session="b", ids=ids(message)))


@pytest.mark.parametrize("ids", [(range(1, 2**63),), (range(2, 2**63), range(1, 2**63))], ids=["one", "overlapping"])
def test_a_range_of_all_numbers_costs_what_is_open(bench: Bench, ids: DeliveryIds) -> None:
    client = ready(bench)
    for text in "ab":
        client.send(make_envelope(text))
    assert client.texts() == ["a", "b"]
    client.session("b")
    with pytest.raises(ClosedError):
        client.do(commands.Adopt(session="b", ids=ids))  # it holds up the loop for ever, if it walks the range
    again = client.messages()
    assert [frame.headers["ack"] for frame in again] == ["3", "4"]
    client.do(commands.Acknowledge(session="a", ids=ids))
    client.do(commands.CloseSession(session="a"))
    assert ready(bench).texts() == []


def test_retry_of_several_gives_them_back_in_one_step(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = counted_steps(monkeypatch)
    client = ready(bench)
    for text in "abc":
        client.send(make_envelope(text))
    assert client.texts() == ["a", "b", "c"]
    client.do(commands.Retry(session="a", ids=(range(1, 4),), reason="it failed"))
    assert steps == [3]


def test_several_deliveries_of_several_sessions_are_adopted_in_the_order_of_their_ids(bench: Bench) -> None:
    client = ready(bench, credit=1)
    client.session("b")
    client.consume(session="b", name="d", credit=1)
    for text in "xy":
        client.send(make_envelope(text))
    assert sorted(map(str, client.texts())) == ["x", "y"]
    client.session("heir")
    client.do(commands.Adopt(session="heir", ids=(range(2, 3), range(1, 2))))
    client.do(commands.CloseSession(session="a"))
    client.do(commands.CloseSession(session="b"))
    assert client.messages() == []
    client.do(commands.Retry(session="heir", ids=(range(1, 3),), reason="it failed"))
    assert len(ready(bench).texts()) == 2


@pytest.mark.parametrize("is_transacted", [False, True])
def test_a_delivery_that_is_named_twice_is_settled_once(bench: Bench, *, is_transacted: bool) -> None:
    client = ready(bench, transacted=is_transacted)
    for text in "abc":
        client.send(make_envelope(text))
    if is_transacted:
        client.do(commands.CommitTransaction(session="a"))
    assert client.texts() == ["a", "b", "c"]
    client.do(commands.Acknowledge(session="a", ids=(range(1, 2), range(1, 2))))
    client.do(commands.Acknowledge(session="a", ids=(range(1, 10**9), range(2, 3))))
    if is_transacted:
        client.do(commands.CommitTransaction(session="a"))
    client.do(commands.CloseSession(session="a"))
    assert ready(bench).texts() == []


def test_branches_are_worked_in_and_settled(tmp_path: Path) -> None:
    url = ProviderUrl.parse(f"vm://x?store=sqlite:///{tmp_path}/x.db")
    bench = Bench(broker=read_url(url)[1])
    try:
        client = ready(bench, transacted=True, credit=0)
        client.do(commands.BeginBranch(session="a", xid=XID))
        client.send(make_envelope("x", persistent=True))
        client.do(commands.EndBranch(session="a", xid=XID))
        assert Prepared.read(client.do(commands.PrepareBranch(session="a", xid=XID)).headers).needs_commit
        assert Recovered.read(client.do(commands.RecoverBranches(session="a")).headers).xids == (XID,)
        client.tell(commands.Credit(subscription="c", credit=1))
        assert client.messages() == []
        client.do(commands.CommitBranch(session="a", xid=XID))
        assert client.texts() == ["x"]
        with pytest.raises(BranchError) as raised:
            client.do(commands.CommitBranch(session="a", xid=XID))
        assert raised.value.failure is BranchFailure.UNKNOWN
    finally:
        bench.close()


def test_a_session_that_is_not_transacted_begins_no_branch(bench: Bench) -> None:
    client = ready(bench)
    with pytest.raises(BranchError) as raised:
        client.do(commands.BeginBranch(session="a", xid=XID))
    assert raised.value.failure is BranchFailure.PROTOCOL


def test_errors_are_those_of_the_broker_and_the_connection_goes_on(bench: Bench) -> None:
    client = ready(bench)
    with pytest.raises(ProviderError) as raised:
        client.do(commands.Subscribe(session="a", id="d", address=ORDERS, selector="x ="))
    assert raised.value.code == "PYJMS-SELECTOR"
    with pytest.raises(ClosedError):
        client.do(commands.CommitTransaction(session="nobody"))
    bench.rules.denied.add((Operation.WRITE, "orders"))
    with pytest.raises(ProviderError) as raised:
        client.send(make_envelope("x"))
    assert raised.value.code == "PYJMS-ACCESS"
    assert not client.client.engine.is_over


def test_a_frame_that_makes_no_sense_is_told(bench: Bench) -> None:
    client = ready(bench)
    with pytest.raises(ProviderError, match="ids"):
        client.do(Frame("ACK", {"session": "a"}))
    assert not client.client.engine.is_over


def test_disconnect_closes_sessions_and_is_answered_last(bench: Bench) -> None:
    client = ready(bench)
    client.send(make_envelope("x"))
    client.messages()
    client.do(Frame("DISCONNECT", {}))
    assert client.client.engine.is_over
    (again,) = ready(bench).messages()
    assert again.headers["redelivered"] == "true"


def test_an_interrupt_that_nobody_waits_for_may_come_after_the_end_of_its_session(bench: Bench) -> None:
    client = ready(bench)
    client.do(commands.CloseSession(session="a"))
    client.tell(commands.Interrupt(session="a"))
    client.do(commands.Stop())
    assert client.client.frames == []
    with pytest.raises(ClosedError, match="was closed"):
        client.do(commands.Interrupt(session="a"))


def test_a_revocation_that_comes_after_the_end_of_its_consumer_is_answered(bench: Bench) -> None:
    client = ready(bench)
    client.do(commands.Unsubscribe(id="c"))
    for credit in (
        commands.Credit(subscription="c", revoke=True),
        commands.Credit(subscription="c", credit=1, drain=True),
    ):
        assert Drained.read(client.do(credit).headers).left == 0
    client.send(make_envelope("after"))
    client.consume(name="d")
    assert client.texts() == ["after"]
