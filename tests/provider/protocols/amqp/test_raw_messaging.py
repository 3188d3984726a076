"""Part 3, frame by frame, against a broker: messages, outcomes, sources and targets."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pyjms.types import Byte
from pyjms_provider.amqp.codec import Described, Symbol, UInt, ULong, write_map, write_value
from pyjms_provider.amqp.errors import Condition
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    RELEASED,
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Header,
    Modified,
    Open,
    Properties,
    Received,
    Rejected,
    Source,
    Target,
    write,
)
from tests.provider.protocols.amqp.raw import RawPeer, data_of, text
from tests.provider.protocols.amqp.raw_broker import QUEUE, TOPIC, RawBroker, bare, closing, drained, fresh

SELECTOR = Described(ULong(0x0000468C00000004), "colour = 'red'")
DELETE_ON_CLOSE = {"lifetime-policy": Described(ULong(0x2B), [])}


def coloured(colour: str, words: str) -> bytes:
    """Return a message with a property."""
    return b"\x00\x53\x74" + write_map({"colour": colour}) + text(words)


def refused(peer: RawPeer, attach: Attach, *conditions: str) -> None:
    """See that a link is refused: an attach without its terminus, and a detach with the reason."""
    peer.send(attach)
    answer = peer.expect(Attach)
    assert (answer.source if attach.role else answer.target) is None
    detach = peer.expect(Detach)
    assert detach.closed
    assert detach.error is not None
    assert detach.error.condition in conditions
    peer.send(Detach(attach.handle, closed=True))


# Connections and links of a broker


@pytest.mark.amqp_rule("2.7.1-e")
def test_the_broker_says_what_it_is(broker: RawBroker) -> None:
    peer = broker.connect()
    peer.log_in("", "")
    answer = peer.open(fresh("raw"), desired_capabilities=("ANONYMOUS-RELAY", "SHARED-SUBS"))
    assert {"ANONYMOUS-RELAY", "SHARED-SUBS"} <= set(answer.offered_capabilities)
    assert answer.properties is not None
    assert {"product", "version"} <= answer.properties.keys()
    peer.close()


@pytest.mark.amqp_rule("2.6.3-c")
def test_a_link_to_nothing_is_refused(broker: RawBroker) -> None:
    with closing(broker.in_session()) as peer:
        refused(
            peer, Attach("in", 1, True, source=Source("temp-queue://not-there"), target=Target()), Condition.NOT_FOUND
        )


@pytest.mark.amqp_rule("2.6.3-d")
def test_a_link_without_a_terminus_is_refused(broker: RawBroker) -> None:
    with closing(broker.in_session()) as peer:
        refused(
            peer,
            Attach("in", 1, True, source=None, target=Target()),
            Condition.INVALID_FIELD,
            Condition.NOT_FOUND,
        )


@pytest.mark.amqp_rule("3.5.3-a", "3.5.4-a", "2.7.3-d")
def test_the_answer_to_an_attach_says_what_the_terminus_is(broker: RawBroker) -> None:
    name = fresh()
    with closing(broker.in_session()) as peer:
        sender = peer.attach_sender(Target(name, capabilities=QUEUE))
        assert sender.target.address == name
        assert sender.source is not None
        receiver = peer.attach_receiver(Source(name, capabilities=QUEUE))
        assert receiver.source.address == name
        assert (receiver.initial_delivery_count, receiver.snd_settle_mode, receiver.rcv_settle_mode) in [
            (0, 0, 0),
            (0, 2, 0),
        ]


@pytest.mark.amqp_rule("2.6.1-c")
def test_a_link_that_is_attached_in_another_session_is_stolen(broker: RawBroker) -> None:
    name = fresh()
    peer = broker.in_session()
    first = peer.attach_sender(Target(name, capabilities=QUEUE))
    peer.begin(channel=1)
    peer.send(
        Attach("out", 0, False, source=Source(), target=Target(name, capabilities=QUEUE), initial_delivery_count=0),
        channel=1,
    )
    detach = peer.expect(Detach, passing=(Attach, Flow))
    assert (detach.handle, detach.closed) == (first.handle, True)
    assert detach.error is not None
    assert detach.error.condition == Condition.STOLEN
    peer.send(Detach(0, closed=True))
    peer.transfer(text("by the second"), channel=1)
    assert peer.expect(Disposition, passing=(Attach, Flow)).state == ACCEPTED


@pytest.mark.amqp_rule("2.6.1-c")
def test_a_durable_subscription_has_one_link_at_a_time(broker: RawBroker) -> None:
    source = Source(fresh("topic"), 2, "never", capabilities=TOPIC, distribution_mode="copy")
    peer = broker.in_session()
    peer.attach_receiver(source, name="sub")
    peer.begin(channel=1)
    peer.send(Attach("sub", 1, True, source=source, target=Target()), channel=1)
    assert peer.expect(Attach).source is None
    error = peer.expect(Detach).error
    assert error is not None
    assert error.condition == Condition.RESOURCE_LOCKED


@pytest.mark.amqp_rule("2.6.4-b", "3.5.5-a", "3.5.6-b")
def test_a_durable_source_keeps_messages_while_it_is_detached(broker: RawBroker) -> None:
    name, container = fresh("topic"), fresh("raw")
    source = Source(name, 2, "never", capabilities=TOPIC, distribution_mode="copy")
    peer = broker.in_session(container)
    peer.attach_receiver(source, name="sub")
    peer.send(Detach(1))
    assert not peer.expect(Detach).closed
    broker.put(name, text("while detached"), capabilities=TOPIC)
    peer.attach_receiver(source, name="sub")
    found = drained(peer)
    assert [bare(data) for _, data in found] == [text("while detached")]
    assert found[0][0].delivery_id is not None
    peer.settle(found[0][0].delivery_id, ACCEPTED)
    peer.send(Detach(1, closed=True))
    assert peer.expect(Detach).closed
    broker.put(name, text("while closed"), capabilities=TOPIC)
    peer.attach_receiver(source, name="sub")
    assert drained(peer) == []
    peer.send(Detach(1, closed=True))
    peer.expect(Detach)
    peer.close()


@pytest.mark.amqp_rule("3.5.6-a")
def test_a_source_that_ends_with_its_link_keeps_nothing(broker: RawBroker) -> None:
    name = fresh("topic")
    source = Source(name, expiry_policy="link-detach", capabilities=TOPIC)
    peer = broker.in_session()
    peer.attach_receiver(source, name="sub")
    peer.send(Detach(1))
    peer.expect(Detach)
    broker.put(name, text("while detached"), capabilities=TOPIC)
    peer.attach_receiver(source, name="sub")
    assert drained(peer) == []
    peer.close()


@pytest.mark.amqp_rule("2.6.13-b")
def test_unsettled_deliveries_are_not_resumed(broker: RawBroker) -> None:
    name = fresh()
    with closing(broker.in_session()) as peer:
        answer = peer.attach_sender(Target(name, capabilities=QUEUE), unsettled={b"tag": None})
        assert not answer.unsettled
        assert peer.outcome(text("again")) == ACCEPTED
    assert broker.left(name) == [text("again")]


# Credit


@pytest.mark.amqp_rule("2.6.7-e", "2.6.8-a", "2.6.9-a", "3.3-b")
def test_each_credit_is_one_message(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, *(text(str(number)) for number in range(5)))
    with closing(broker.receiver(name)) as peer:
        assert peer.received_by_now() == []
        for number in range(3):
            peer.give_credit(1, count=number)
            transfer, data = peer.receive()
            assert bare(data) == text(str(number))
            assert transfer.delivery_id is not None
            peer.settle(transfer.delivery_id, ACCEPTED)
            assert peer.received_by_now() == []
        peer.give_credit(1, count=3)
        transfer, _ = peer.receive()
        assert transfer.delivery_id is not None
        peer.give_credit(2, count=3)  # before the message is settled
        peer.receive()
        peer.settle(transfer.delivery_id, ACCEPTED, last=transfer.delivery_id + 1)
    assert broker.left(name) == []


@pytest.mark.amqp_rule("2.6.8-a")
def test_a_credit_waits_for_a_message(broker: RawBroker) -> None:
    name = fresh()
    with closing(broker.receiver(name, credit=1)) as peer:
        broker.put(name, text("late"))
        transfer, data = peer.receive()
        assert bare(data) == text("late")
        assert transfer.delivery_id is not None
        peer.settle(transfer.delivery_id, ACCEPTED)


@pytest.mark.amqp_rule("2.6.7-f", "2.6.7-d")
def test_draining_brings_what_there_is(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("one"))
    with closing(broker.in_session()) as peer:
        answer = peer.attach_receiver(Source(name, capabilities=QUEUE))
        peer.give_credit(10, drain=True)
        transfer, _ = peer.receive()
        flow = peer.expect(Flow)
        assert (flow.handle, flow.delivery_count, flow.link_credit, flow.drain) == (answer.handle, 10, 0, True)
        assert transfer.delivery_id is not None
        peer.settle(transfer.delivery_id, ACCEPTED)
    with closing(broker.receiver(name)) as peer:
        assert drained(peer) == []


@pytest.mark.amqp_rule("2.6.10-a")
def test_credit_that_is_taken_back_stops_messages(broker: RawBroker) -> None:
    name = fresh()
    with closing(broker.receiver(name, credit=5)) as peer:
        peer.give_credit(0, count=0, echo=True)
        assert peer.expect(Flow).link_credit == 0
        broker.put(name, text("stays"))
        assert peer.received_by_now() == []
    assert broker.left(name) == [text("stays")]


# Transfers


@pytest.mark.amqp_rule("2.6.12-a", "2.6.12-e")
def test_messages_are_answered_in_order(broker: RawBroker) -> None:
    name = fresh()
    with closing(broker.sender(name)) as peer:
        for number in range(4):
            peer.transfer(text(str(number)))
        settled: list[int] = []
        while len(settled) < 4:
            told = peer.expect(Disposition)
            assert (told.role, told.settled, told.state) == (True, True, ACCEPTED)
            settled += range(told.first, (told.first if told.last is None else told.last) + 1)
        assert settled == [0, 1, 2, 3]
    assert broker.left(name) == [text(str(number)) for number in range(4)]


@pytest.mark.amqp_rule("2.6.12-c", "2.6.12-d")
def test_a_tag_is_free_on_another_link_and_after_its_settlement(broker: RawBroker) -> None:
    name = fresh()
    with closing(broker.in_session()) as peer:
        target = Target(name, capabilities=QUEUE)
        peer.attach_sender(target, name="a", handle=0)
        peer.attach_sender(target, name="b", handle=1)
        peer.transfer(text("1"), handle=0, delivery_tag=b"same")
        peer.transfer(text("2"), handle=1, delivery_tag=b"same")
        settled = 0
        while settled < 2:
            told = peer.expect(Disposition)
            settled += (told.first if told.last is None else told.last) - told.first + 1
        assert peer.outcome(text("3"), handle=0, delivery_tag=b"same") == ACCEPTED
    assert sorted(broker.left(name)) == [text("1"), text("2"), text("3")]


@pytest.mark.amqp_rule("2.6.14-a", "2.6.14-b", "2.6.14-d", "2.6.14-e")
def test_messages_of_several_transfers(broker: RawBroker) -> None:
    name = fresh()
    one, two = text("the first message"), text("the second message")
    with closing(broker.in_session()) as peer:
        target = Target(name, capabilities=QUEUE)
        peer.attach_sender(target, name="a", handle=0)
        peer.attach_sender(target, name="b", handle=1)
        peer.transfer(text("nobody sees this")[:7], more=True)
        peer.transfer_more(aborted=True)
        peer.transfer(one[:5], more=True)
        peer.transfer(two[:6], handle=1, more=True)
        peer.transfer_more(one[5:], more=True)
        peer.transfer_more(two[6:], handle=1)
        assert peer.expect(Disposition).state == ACCEPTED
        peer.transfer_more()
        assert peer.expect(Disposition).state == ACCEPTED
    assert sorted(broker.left(name)) == [one, two]


@pytest.mark.amqp_rule("2.6.14-f")
def test_a_large_message_comes_in_several_transfers(broker: RawBroker) -> None:
    name = fresh()
    message = data_of(b"x" * 5000)
    broker.put(name, message)
    peer = broker.opened(max_frame_size=1024)
    peer.begin()
    peer.attach_receiver(Source(name, capabilities=QUEUE), credit=1)
    transfer, data = peer.receive()
    assert transfer.more
    assert bare(data) == message
    assert transfer.delivery_id is not None
    peer.settle(transfer.delivery_id, ACCEPTED)
    peer.close()


@pytest.mark.amqp_rule("2.7.3-c")
def test_a_receiver_of_settled_messages_gets_them_settled(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("settled"))
    with closing(broker.receiver(name, credit=1, snd_settle_mode=1)) as peer:
        transfer, _ = peer.receive()
        assert transfer.settled
    assert broker.left(name) == []


@pytest.mark.amqp_rule("2.7.6-c", "2.7.6-d")
def test_messages_that_the_sender_does_not_settle_take_its_credit(broker: RawBroker) -> None:
    name = fresh()
    peer = broker.in_session()
    answer = peer.attach_sender(Target(name, capabilities=QUEUE), rcv_settle_mode=1)
    assert answer.rcv_settle_mode == 1
    peer.send(Flow(0, 10, 0, 10, handle=0, echo=True))
    credit = peer.expect(Flow, passing=()).link_credit
    assert credit
    for _ in range(credit):
        peer.transfer(text("x"))
    told: list[int] = []
    while len(told) < credit:  # one disposition may be about several
        each = peer.expect(Disposition)
        assert (each.settled, each.state) == (False, ACCEPTED)
        told += range(each.first, (each.first if each.last is None else each.last) + 1)
    assert told == list(range(credit))
    peer.send(Flow(0, 10, credit, 10, handle=0, echo=True))
    assert peer.expect(Flow, passing=()).link_credit == 0
    peer.send(Disposition(role=False, first=0, last=credit - 1, settled=True, state=ACCEPTED))
    assert (peer.expect(Flow, passing=()).link_credit or 0) >= credit
    assert broker.left(name)[:1] == [text("x")]


# The format of messages


@pytest.mark.amqp_rule("3.2-a", "3.2-c")
@pytest.mark.parametrize(
    "message",
    [
        write(Header()) + write_value("between") + text("x"),
        text("x") + write(Header()),
        text("x") + data_of(b"y"),
        text("x")[:-1],
        b"",
    ],
    ids=["between", "order", "two bodies", "cut", "nothing"],
)
def test_what_is_no_message_is_not_taken(broker: RawBroker, message: bytes) -> None:
    name = fresh()
    peer = broker.sender(name)
    peer.transfer(message)
    told = peer.expect(Disposition | Detach | End | Close)  # type: ignore[arg-type]
    error = told.state.error if isinstance(told, Disposition) else told.error
    assert error is not None
    assert error.condition in (Condition.DECODE_ERROR, Condition.INVALID_FIELD, Condition.NOT_IMPLEMENTED)
    broker.put(name, text("after it"))
    assert broker.left(name) == [text("after it")]


ANNOTATIONS = b"\x00\x53\x72" + write_map({Symbol("x-opt-mine"): "kept", Symbol("x-opt-number"): UInt(5)})
PROPERTIES = write(
    Properties(
        b"id-\x00\xff",
        b"anonymous",
        "to-me",
        "subject",
        "back",
        ULong(7),
        "text/x-mine",
        "gzip",
        2**45,
        1000,
        "g",
        3,
        "h",
    )
)
APPLICATION = b"\x00\x53\x74" + write_map({"byte": Byte(3), "int": UInt(4), "text": "words", "none": None})


@pytest.mark.amqp_rule("3.2-b", "3.2.4-a", "3.2.5-a", "3.2.6-a", "3.2.7-a", "3.2.8-a", "3.2.3-a", "3.2.9-a")
@pytest.mark.parametrize(
    "body",
    [
        text("a text"),
        data_of(b"one") + data_of(b"") + data_of(b"three"),
        b"\x00\x53\x76" + write_value([1, "two"]) + b"\x00\x53\x76" + write_value([3]),
        b"\x00\x53\x77\x40",
        b"\x00\x53\x77" + write_map({"a": UInt(1), Symbol("b"): [b"c"]}),
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x77\xb1\x00\x00\x00\x01x",
    ],
    ids=["text", "data", "sequences", "null", "map", "long forms"],
)
def test_the_bare_message_stays_as_it_was_sent(broker: RawBroker, body: bytes) -> None:
    name = fresh()
    message = PROPERTIES + APPLICATION + body
    footer = b"\x00\x53\x78" + write_map({Symbol("sum"): b"123"})
    broker.put(name, write(Header(True, 7)) + ANNOTATIONS + message + footer)
    with closing(broker.receiver(name, credit=1)) as peer:
        transfer, data = peer.receive()
        found = Message(data)
        assert found.bare == message
        assert data.endswith(footer)
        assert found.message_annotations["x-opt-mine"] == "kept"
        assert found.message_annotations["x-opt-number"] == 5
        assert transfer.delivery_id is not None
        peer.settle(transfer.delivery_id, ACCEPTED)


@pytest.mark.amqp_rule("3.2.4-a")
@pytest.mark.parametrize("name_of_message", ["a text", ULong(2**60), b"\x00\xff", None])
def test_message_ids_of_each_type_stay(broker: RawBroker, name_of_message: Any) -> None:
    name = fresh()
    message = write(Properties(name_of_message, correlation_id=name_of_message)) + text("x")
    broker.put(name, message)
    assert broker.left(name) == [message]


@pytest.mark.amqp_rule("3.2.1-a", "3.2.1-e", "3.2.1-d", "3.2.2-a")
@pytest.mark.parametrize("header", [Header(), Header(durable=True, priority=9), Header(priority=0)])
def test_the_header_says_what_was_sent(broker: RawBroker, header: Header) -> None:
    name = fresh()
    annotations = b"\x00\x53\x71" + write_map({Symbol("x-opt-for-the-broker"): 1})
    broker.put(name, (b"" if header == Header() else write(header)) + annotations + text("x"))
    with closing(broker.receiver(name, credit=1)) as peer:
        transfer, data = peer.receive()
        found = Message(data)
        assert (found.header.durable, found.header.priority) == (header.durable, header.priority)
        assert found.header.delivery_count == 0
        assert "x-opt-for-the-broker" not in found.delivery_annotations
        assert transfer.delivery_id is not None
        peer.settle(transfer.delivery_id, ACCEPTED)


@pytest.mark.amqp_rule("3.2.1-b")
def test_a_higher_priority_comes_first(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, *(write(Header(priority=number)) + text(str(number)) for number in (1, 9, 4)))
    assert broker.left(name) == [text("9"), text("4"), text("1")]


@pytest.mark.amqp_rule("3.2.1-c", "3.2.4-b")
def test_what_has_expired_is_not_delivered(broker: RawBroker) -> None:
    name = fresh()
    past = int(time.time() * 1000) - 60_000
    broker.put(
        name,
        write(Properties(absolute_expiry_time=past)) + text("old"),
        write(Header(ttl=1)) + text("short"),
        write(Header(ttl=600_000)) + text("good"),
    )
    with closing(broker.receiver(name)) as peer:
        bodies = [bare(data) for _, data in drained(peer)]
        assert bodies[-1].endswith(text("good")[2:])
        assert len(bodies) <= 2, "a millisecond may not have passed"


# Outcomes


def counted(peer: RawPeer, count: int) -> tuple[int, bytes, int]:
    """Read a message; return its delivery-id, its body, and how often it has failed."""
    peer.give_credit(1, count=count)
    transfer, data = peer.receive()
    assert transfer.delivery_id is not None
    found = Message(data)
    return transfer.delivery_id, found.bare, found.header.delivery_count


@pytest.mark.amqp_rule("3.4.4-a", "3.4.5-a", "3.4.5-c", "3.2.1-d")
@pytest.mark.parametrize(
    ("state", "failed"), [(RELEASED, 0), (Modified(), 0), (Modified(delivery_failed=True), 1)], ids=str
)
def test_what_is_given_back_comes_again(broker: RawBroker, state: object, failed: int) -> None:
    name = fresh()
    broker.put(name, text("one"), text("two"))
    with closing(broker.receiver(name)) as peer:
        number, body, count = counted(peer, 0)
        assert (body, count) == (text("one"), 0)
        peer.settle(number, state)
        number, body, count = counted(peer, 1)
        assert (body, count) == (text("one"), failed)
        peer.settle(number, ACCEPTED)
    assert broker.left(name) == [text("two")]


@pytest.mark.amqp_rule("3.4.2-a")
def test_an_accepted_message_is_gone(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("one"))
    with closing(broker.receiver(name)) as peer:
        number, _, _ = counted(peer, 0)
        peer.settle(number, ACCEPTED)
    assert broker.left(name) == []


@pytest.mark.amqp_rule("3.4.3-a")
def test_a_rejected_message_does_not_come_again(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("bad"), text("good"))
    with closing(broker.receiver(name)) as peer:
        number, _, _ = counted(peer, 0)
        peer.settle(number, Rejected())
        number, body, _ = counted(peer, 1)
        assert body == text("good")
        peer.settle(number, ACCEPTED)
    assert broker.left(name) == []


@pytest.mark.amqp_rule("3.4.5-b")
def test_what_cannot_be_delivered_here_does_not_come_here_again(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("one"), text("two"))
    with closing(broker.receiver(name)) as peer:
        number, body, _ = counted(peer, 0)
        peer.settle(number, Modified(undeliverable_here=True))
        number, body, _ = counted(peer, 1)
        assert body == text("two")
        peer.settle(number, ACCEPTED)
        assert drained(peer, count=2) == []


@pytest.mark.amqp_rule("3.4.1-a")
def test_a_state_that_is_no_outcome_settles_nothing(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("one"))
    with closing(broker.receiver(name)) as peer:
        number, _, _ = counted(peer, 0)
        peer.settle(number, Received(0, 1), settled=False)
        with closing(broker.receiver(name)) as other:
            assert drained(other) == []
        peer.settle(number, ACCEPTED)
    assert broker.left(name) == []


@pytest.mark.amqp_rule("3.5.3-c")
def test_a_delivery_that_is_settled_without_a_state_has_the_default_outcome(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("one"))
    source = Source(
        name,
        capabilities=QUEUE,
        default_outcome=Modified(delivery_failed=True),
        outcomes=("amqp:accepted:list", "amqp:modified:list"),
    )
    with closing(broker.receiver(name, source=source)) as peer:
        number, _, _ = counted(peer, 0)
        peer.settle(number, None)
        number, _, count = counted(peer, 1)
        assert count == 1
        peer.settle(number, ACCEPTED)


@pytest.mark.amqp_rule("3.5.3-d")
def test_a_source_that_knows_accepted_alone_gets_it(broker: RawBroker) -> None:
    name = fresh()
    peer = broker.sender(name, source=Source(outcomes=("amqp:accepted:list",)))
    assert peer.outcome(text("x")) == ACCEPTED
    peer.close()
    assert broker.left(name) == [text("x")]


@pytest.mark.amqp_rule("3.3-a", "3.3.1-a", "3.3.1-b")
@pytest.mark.parametrize("ends", ["link", "session", "connection", "socket"])
def test_a_message_is_for_one_receiver_until_it_comes_back(broker: RawBroker, ends: str) -> None:
    name = fresh()
    broker.put(name, text("one"), text("two"))
    first = broker.receiver(name)
    _, body, _ = counted(first, 0)
    assert body == text("one")
    with closing(broker.receiver(name)) as second:
        number, body, _ = counted(second, 0)
        assert body == text("two")
        second.settle(number, ACCEPTED)
        second.give_credit(1, count=1)
        assert second.received_by_now() == []
        if ends == "link":
            first.send(Detach(1, closed=True))
        elif ends == "session":
            first.send(End())
        elif ends == "connection":
            first.send(Close())
        else:
            first.wire.close()
        transfer, data = second.receive()
        assert bare(data) == text("one")
        assert transfer.delivery_id is not None
        second.settle(transfer.delivery_id, ACCEPTED)


# Sources and targets


@pytest.mark.amqp_rule("3.5.1-a", "3.5.1-b")
def test_a_selector_lets_the_others_stay(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, coloured("blue", "1"), coloured("red", "2"))
    peer = broker.in_session()
    answer = peer.attach_receiver(Source(name, capabilities=QUEUE, filter={"jms-selector": SELECTOR}), credit=5)
    assert list(answer.source.filter) == ["jms-selector"]
    transfer, data = peer.receive()
    assert bare(data) == coloured("red", "2")
    assert transfer.delivery_id is not None
    peer.settle(transfer.delivery_id, ACCEPTED)
    assert peer.received_by_now() == []
    peer.close()
    assert broker.left(name) == [coloured("blue", "1")]


@pytest.mark.amqp_rule("3.5.1-b")
def test_an_unknown_filter_is_not_said_back(broker: RawBroker) -> None:
    name = fresh()
    peer = broker.in_session()
    unknown = Described(Symbol("mine:filter"), "x")
    answer = peer.attach_receiver(Source(name, capabilities=QUEUE, filter={"jms-selector": SELECTOR, "mine": unknown}))
    if answer.source is None:
        error = peer.expect(Detach).error
        assert error is not None
        assert error.condition == Condition.NOT_IMPLEMENTED
    else:
        assert "mine" not in (answer.source.filter or {})


@pytest.mark.amqp_rule("3.5.1-c")
def test_a_wrong_selector_is_refused(broker: RawBroker) -> None:
    wrong = Described(ULong(0x0000468C00000004), "colour = = 'red'")
    with closing(broker.in_session()) as peer:
        source = Source(fresh(), capabilities=QUEUE, filter={"jms-selector": wrong})
        refused(peer, Attach("in", 1, True, source=source, target=Target()), Condition.INVALID_FIELD)


@pytest.mark.amqp_rule("3.5.2-a", "3.5.2-b")
def test_a_browser_leaves_what_it_sees(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("one"), text("two"))
    source = Source(name, capabilities=QUEUE, distribution_mode="copy")
    with closing(broker.receiver(name, source=source)) as peer:
        assert [bare(data) for _, data in drained(peer)] == [text("one"), text("two")]
    assert broker.left(name) == [text("one"), text("two")]
    assert broker.left(name) == []


@pytest.mark.amqp_rule("3.5.3-b", "3.5.4-b", "3.5.10-a", "3.5.10-b")
def test_a_dynamic_node_lives_as_long_as_its_link(broker: RawBroker) -> None:
    owner = broker.in_session()
    target = Target(
        None,
        expiry_policy="link-detach",
        dynamic=True,
        dynamic_node_properties=DELETE_ON_CLOSE,
        capabilities=("temporary-queue",),
    )
    name = owner.attach_sender(target).target.address
    assert name
    source = Source(name, capabilities=("temporary-queue",))
    owner.attach_receiver(source, credit=1)
    broker.put(name, text("to the owner"), capabilities=("temporary-queue",))
    assert bare(owner.receive()[1]) == text("to the owner")
    with closing(broker.in_session()) as other:
        refused(
            other,
            Attach("in", 1, True, source=source, target=Target()),
            Condition.RESOURCE_LOCKED,
            Condition.UNAUTHORIZED_ACCESS,
            Condition.NOT_ALLOWED,
        )
    owner.close()
    with closing(broker.in_session()) as other:
        refused(other, Attach("in", 1, True, source=source, target=Target()), Condition.NOT_FOUND)


@pytest.mark.amqp_rule("3.5.3-b", "3.5.10-a")
def test_a_dynamic_source_has_an_address(broker: RawBroker) -> None:
    peer = broker.in_session()
    source = Source(
        None,
        expiry_policy="link-detach",
        dynamic=True,
        dynamic_node_properties=DELETE_ON_CLOSE,
        capabilities=("temporary-queue",),
    )
    name = peer.attach_receiver(source, credit=1).source.address
    broker.put(name, text("x"), capabilities=("temporary-queue",))
    assert bare(peer.receive()[1]) == text("x")
    peer.close()


@pytest.mark.amqp_rule("3.5.9-a")
def test_a_lifetime_policy_is_a_policy(broker: RawBroker) -> None:
    with closing(broker.in_session()) as peer:
        source = Source(None, dynamic=True, dynamic_node_properties={"lifetime-policy": UInt(5)})
        refused(
            peer,
            Attach("in", 1, True, source=source, target=Target()),
            Condition.INVALID_FIELD,
            Condition.DECODE_ERROR,
            Condition.NOT_IMPLEMENTED,
        )


# The anonymous terminus, sole connections


def to(address: str, words: str) -> bytes:
    """Return a message with an address of its own."""
    return write(Properties(to=address)) + text(words)


@pytest.mark.amqp_rule("relay-2.2-a")
def test_a_message_without_a_target_goes_where_it_says(broker: RawBroker) -> None:
    name = fresh()
    assert broker.left(name) == []
    with closing(broker.in_session()) as peer:
        peer.attach_sender(Target(None))
        assert peer.outcome(to(name, "x")) == ACCEPTED
    assert broker.left(name) == [to(name, "x")]


@pytest.mark.amqp_rule("relay-2.2.2-a", "relay-2.2.2-b")
@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("outcomes", [("amqp:accepted:list", "amqp:rejected:list"), ("amqp:accepted:list",)])
def test_a_message_that_leads_nowhere_is_told(broker: RawBroker, outcomes: tuple[str, ...], is_settled: bool) -> None:
    peer = broker.in_session()
    peer.attach_sender(Target(None), source=Source(outcomes=outcomes))
    peer.transfer(to("temp-queue://not-there", "x"), delivery_tag=b"tag", settled=is_settled)
    told = peer.expect(Disposition | Detach)  # type: ignore[arg-type]
    assert isinstance(told, Detach) is (is_settled or len(outcomes) == 1)
    error = told.error if isinstance(told, Detach) else told.state.error
    assert error is not None
    assert error.condition in (Condition.NOT_FOUND, Condition.NOT_ALLOWED)
    assert error.info is not None
    assert error.info["delivery-tag"] == b"tag"


@pytest.mark.amqp_rule("sole-2-a")
def test_a_container_may_have_one_connection(broker: RawBroker) -> None:
    container = fresh("container")
    first = broker.opened(container, desired_capabilities=("sole-connection-for-container",))
    second = broker.connect()
    second.log_in("", "")
    second.header()
    second.expect_header()
    second.send(Open(container, desired_capabilities=("sole-connection-for-container",)))
    assert second.expect(Open).properties is not None
    error = second.expect(Close).error
    assert error is not None
    assert (error.condition, dict(error.info or {})) == (Condition.INVALID_FIELD, {"invalid-field": "container-id"})
    first.close()


@pytest.mark.amqp_rule("2.7.1-d")
def test_an_unknown_host_is_the_only_one(broker: RawBroker) -> None:
    peer = broker.opened(hostname="the-name-of-a-machine")
    peer.begin()
    peer.close()


# Messages for consumers that wait


def test_consumers_that_wait_get_messages_in_turn_as_far_as_their_credit_goes(broker: RawBroker) -> None:
    name = fresh()
    first, second = broker.receiver(name, credit=2), broker.receiver(name, credit=1)
    for peer in (first, second):  # the answer to an echo: the broker has seen the credit
        peer.send(Flow(0, 2**31 - 1, 0, 2**31 - 1, echo=True))
        peer.expect(Flow, passing=())
    sender = broker.sender(name)
    bodies = [text(str(number)) for number in range(4)]
    for body in bodies:
        assert sender.outcome(body) == ACCEPTED
    got = [[bare(peer.receive()[1]) for _ in range(count)] for peer, count in ((first, 2), (second, 1))]
    assert sorted(got[0] + got[1]) == sorted(bodies[:3])
    assert got[0] == sorted(got[0])
    second.give_credit(1, count=1)
    assert bare(second.receive()[1]) == bodies[3]


def test_messages_come_once_and_in_order_to_a_consumer_that_drains_between_them(broker: RawBroker) -> None:
    name = fresh()
    peer = broker.receiver(name, credit=1)
    sender = broker.sender(name)
    seen = 0
    for number in range(20):
        assert sender.outcome(text(str(number))) == ACCEPTED
        transfer, data = peer.receive()
        assert bare(data) == text(str(number))
        assert transfer.delivery_id is not None
        peer.settle(transfer.delivery_id, ACCEPTED)
        seen += 1
        if number % 2 == 1:
            peer.give_credit(1, count=seen, drain=True)
            while peer.expect(Flow, passing=()).link_credit != 0:
                pass
            seen += 1  # a drain uses the credit up
        peer.give_credit(1, count=seen)
    peer.close()
    assert broker.left(name) == []


@pytest.mark.parametrize("outcome", [None, ACCEPTED])
def test_what_a_waiting_consumer_got_is_as_unsettled_as_any_other(broker: RawBroker, outcome: Any) -> None:
    name = fresh()
    peer = broker.receiver(name, credit=10)
    sender = broker.sender(name)
    assert sender.outcome(text("x")) == ACCEPTED
    transfer, data = peer.receive()
    assert bare(data) == text("x")
    assert transfer.delivery_id is not None
    if outcome is ACCEPTED:
        peer.settle(transfer.delivery_id, outcome)
    peer.send(Detach(1, closed=True))
    peer.expect(Detach)
    peer.close()
    assert broker.left(name) == ([] if outcome is ACCEPTED else [text("x")])
