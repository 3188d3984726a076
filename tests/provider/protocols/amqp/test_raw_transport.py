"""Part 2 and part 5, frame by frame: what the broker's side of the engine answers to a peer that keeps the rules, and to one that breaks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms_provider.amqp.errors import AmqpError, Condition
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    Transfer,
    write,
)
from pyjms_provider.protocols.amqp.connection import Connection, ConnectionSettings, Event, SaslServer
from pyjms_provider.protocols.amqp.frames import Frame, FrameType, ProtocolId, write_frame
from pyjms_provider.protocols.amqp.link import CreditChanged, DeliveryReceived, LinkDetached
from tests.provider.protocols.amqp.pair import Pair, bodies, last
from tests.provider.protocols.amqp.raw import EngineWire, RawPeer, text

PLAIN = SaslServer(("PLAIN", "ANONYMOUS"))


def opened(settings: ConnectionSettings | None = None, **of_the_wire: Any) -> RawPeer:
    """Return a peer whose connection is open."""
    peer = RawPeer(EngineWire(settings, **of_the_wire))
    peer.open()
    return peer


def in_session(settings: ConnectionSettings | None = None, **of_the_wire: Any) -> RawPeer:
    """Return a peer with a session on channel 0."""
    peer = opened(settings, **of_the_wire)
    peer.begin()
    return peer


def messages(peer: RawPeer) -> list[bytes]:
    """Return the messages that the engine has got from a peer."""
    assert isinstance(peer.wire, EngineWire)
    return [each.delivery.data for each in peer.wire.events if isinstance(each, DeliveryReceived)]


# Headers and frames


@pytest.mark.amqp_rule("2.2-a", "2.4.1-b")
def test_a_header_and_an_open_are_answered() -> None:
    peer = RawPeer(EngineWire(ConnectionSettings(frame_size_max=4096, channel_max=7)))
    answer = peer.open()
    assert (answer.container_id, answer.max_frame_size, answer.channel_max) == ("engine", 4096, 7)
    peer.close()


@pytest.mark.amqp_rule("2.3.1-d")
def test_a_frame_of_another_type_ends_the_connection() -> None:
    peer = opened()
    peer.send_bytes(write_frame(0, write(Begin(None, 0, 1, 1)), kind=FrameType.SASL))
    peer.expect_closed(Condition.FRAMING_ERROR)


@pytest.mark.amqp_rule("2.3.1-e")
def test_a_frame_that_is_too_large_ends_the_connection_at_its_header() -> None:
    peer = in_session(ConnectionSettings(frame_size_max=512))
    peer.send_bytes((513).to_bytes(4) + b"\x02\x00\x00\x00")
    peer.expect_closed(Condition.FRAMING_ERROR)


@pytest.mark.amqp_rule("2.3.2-a")
def test_bytes_behind_a_performative_are_a_payload() -> None:
    peer = in_session()
    peer.attach_sender("q")
    assert peer.outcome(text("hello")) == ACCEPTED
    assert messages(peer) == [text("hello")]


# Connections


@pytest.mark.amqp_rule("2.4.1-a")
def test_an_open_on_another_channel_is_refused() -> None:
    peer = RawPeer(EngineWire())
    peer.header()
    peer.expect_header()
    peer.send(Open("raw"), channel=1)
    peer.expect(Open)
    peer.expect_closed(Condition.FRAMING_ERROR)


@pytest.mark.amqp_rule("2.4.1-c", "2.4.1-d", "2.4.6-a")
@pytest.mark.parametrize("record", [Begin(None, 0, 1, 1), Attach("a", 0, True), Flow(None, 1, 0, 1), End()])
def test_nothing_comes_before_the_open_and_no_open_comes_twice(record: object) -> None:
    peer = RawPeer(EngineWire())
    peer.header()
    peer.expect_header()
    peer.send(record)
    peer.expect(Open)
    peer.expect_closed(Condition.ILLEGAL_STATE)
    peer = opened()
    peer.send(Open("raw"))
    peer.expect_closed(Condition.ILLEGAL_STATE)


@pytest.mark.amqp_rule("2.4.3-b")
def test_after_an_error_nothing_but_the_close_is_read() -> None:
    peer = in_session()
    peer.attach_sender("q")
    assert isinstance(peer.wire, EngineWire)
    peer.wire.connection.close(AmqpError(Condition.CONNECTION_FORCED, "the broker stops"))
    peer.transfer(text("late"))
    peer.send(Begin(None, 0, 1, 1), channel=9)
    error = peer.expect(Close).error
    assert error is not None
    peer.send(Close())
    peer.expect_end()
    assert messages(peer) == []


@pytest.mark.amqp_rule("2.4.4-a")
def test_two_closes_may_cross() -> None:
    peer = opened()
    assert isinstance(peer.wire, EngineWire)
    peer.wire.connection.close()
    peer.send(Close())
    peer.expect(Close)
    peer.expect_end()


@pytest.mark.amqp_rule("2.4.5-c")
def test_signs_of_life_come_on_any_channel() -> None:
    peer = opened()
    for channel in (0, 1, 65535):
        peer.send(None, channel=channel)
    peer.begin()
    peer.send(None)
    peer.close()


@pytest.mark.amqp_rule("2.7.1-a", "2.7.1-b", "2.7.2-a", "2.7.2-b", "2.5.1-b", "2.5.1-c")
@pytest.mark.parametrize(
    ("records", "channel", "condition"),
    [
        ([Begin(None, 0, 1, 1)], 256, Condition.FRAMING_ERROR),
        ([Begin(None, 0, 1, 1), Begin(None, 0, 1, 1)], 1, Condition.NOT_ALLOWED),
        ([Begin(7, 0, 1, 1)], 1, Condition.NOT_ALLOWED),
        ([End()], 1, Condition.NOT_ALLOWED),
        ([Begin(None, 0, 1, 1), Attach("a", 1024, True)], 1, Condition.FRAMING_ERROR),
        ([Begin(None, 0, 1, 1), SaslInit("PLAIN")], 1, Condition.NOT_ALLOWED),
    ],
)
def test_what_breaks_a_rule_of_connections_closes_it(records: list[object], channel: int, condition: Condition) -> None:
    peer = opened()
    peer.send(*records, channel=channel)
    peer.expect_closed(condition)


# Sessions


@pytest.mark.amqp_rule("2.5.1-a")
def test_a_begin_is_answered_with_its_channel() -> None:
    peer = opened()
    assert peer.begin(channel=37).remote_channel == 37
    assert peer.begin(channel=2).remote_channel == 2
    peer.send(End(), channel=37)
    peer.expect(End)
    assert peer.begin(channel=37).remote_channel == 37
    peer.close()


@pytest.mark.amqp_rule("2.5.3-a")
def test_two_ends_may_cross() -> None:
    peer = in_session()
    peer.send(Detach(5))  # the engine ends the session for it
    peer.send(End())
    error = peer.expect(End).error
    assert error is not None
    assert peer.begin().remote_channel == 0
    peer.close()


@pytest.mark.amqp_rule("2.5.4-a", "2.7.4-a", "2.7.5-e", "2.7.5-h", "2.7.6-b", "2.7.7-a", "2.6.2-a", "2.7.8-a")
@pytest.mark.parametrize(
    ("records", "condition"),
    [
        ([Transfer(9, 0, b"t")], Condition.UNATTACHED_HANDLE),
        ([Flow(0, 1, 0, 1, handle=9)], Condition.UNATTACHED_HANDLE),
        ([Detach(9)], Condition.UNATTACHED_HANDLE),
        ([Transfer(1, 0, b"t")], Condition.ERRANT_LINK),
        ([Attach("other", 0, True)], Condition.HANDLE_IN_USE),
        ([Disposition(role=False, first=3, last=1)], Condition.INVALID_FIELD),
    ],
)
def test_what_breaks_a_rule_of_sessions_ends_it_alone(records: list[object], condition: Condition) -> None:
    peer = opened()
    for channel in (0, 1):
        peer.begin(channel=channel)
        peer.attach_sender("q", channel=channel)
        peer.attach_receiver("q", channel=channel)
    peer.send(*records)
    frame = peer.expect_frame(End)
    assert frame.performative.error.condition == condition
    peer.send(Attach("late", 7, True), Flow(0, 1, 0, 1, handle=3), Transfer(0, 1, b"u"))  # passed over
    peer.send(End())
    assert peer.outcome(text("the other session goes on"), channel=1) == ACCEPTED
    peer.begin()
    peer.close()


@pytest.mark.amqp_rule("2.7.2-c")
def test_a_peer_that_asks_for_more_links_than_it_takes_ends_its_session() -> None:
    peer = opened()
    peer.begin(handle_max=0)
    peer.attach_sender("q")
    peer.send(Attach("second", 1, True, source=Source("q"), target=Target()))
    error = peer.expect(End).error
    assert error is not None
    assert error.condition == Condition.RESOURCE_LIMIT_EXCEEDED
    peer.send(End())
    peer.begin()
    peer.close()


@pytest.mark.amqp_rule("2.5.6-a", "2.5.6-c")
def test_the_window_is_renewed_for_a_peer_that_keeps_to_it() -> None:
    peer = in_session(ConnectionSettings(incoming_window=4), credit=100)
    peer.attach_sender("q")
    for _ in range(20):
        assert peer.outcome(text("x")) == ACCEPTED
    peer.close()


@pytest.mark.amqp_rule("2.5.6-b")
def test_a_message_waits_for_the_window() -> None:
    peer = opened(answer=_sends([b"one", b"two", b"three"]))
    peer.begin(window=0)
    peer.attach_receiver("q")
    peer.send(Flow(0, 0, 0, 10, handle=1, link_credit=3))
    assert peer.received_by_now(window=0) == []
    peer.send(Flow(0, 3, 0, 10))
    assert [peer.receive()[1] for _ in range(3)] == [b"one", b"two", b"three"]


def _sends(bodies: list[bytes]) -> Callable[[Connection, Event], None]:
    """Return what sends messages as soon as there is credit, and drains if that is asked."""

    def answer(_connection: Connection, event: Event) -> None:
        if isinstance(event, CreditChanged):
            while bodies and event.link.credit:
                body = bodies.pop(0)
                event.link.send(body, body)
            if event.link.is_draining:
                event.link.drained()

    return answer


# Links


@pytest.mark.amqp_rule("2.6.1-a", "2.6.3-a")
def test_a_name_may_be_that_of_two_links() -> None:
    peer = in_session()
    sender = peer.attach_sender("q", name="both", handle=0)
    receiver = peer.attach_receiver("q", name="both", handle=1)
    assert (sender.name, sender.role, receiver.name, receiver.role) == ("both", True, "both", False)
    assert sender.handle != receiver.handle
    peer.close()


@pytest.mark.amqp_rule("2.6.1-b")
def test_a_link_that_is_attached_again_takes_the_name_of_the_first() -> None:
    peer = in_session()
    first = peer.attach_sender("q", handle=0)
    peer.send(Attach("out", 1, False, source=Source(), target=Target("q"), initial_delivery_count=0))
    stolen = peer.expect(Detach)
    assert (stolen.handle, stolen.closed) == (first.handle, True)
    assert stolen.error is not None
    assert stolen.error.condition == Condition.STOLEN
    assert peer.expect(Attach).name == "out"
    peer.send(Detach(0, closed=True))
    assert peer.outcome(text("x"), handle=1) == ACCEPTED
    peer.close()


@pytest.mark.amqp_rule("2.6.2-b", "2.6.4-a", "2.6.6-a")
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_handle_is_free_when_its_link_was_detached(is_closed: bool) -> None:
    peer = in_session()
    for name in ("a", "b"):
        answer = peer.attach_sender("q", name=name, handle=0)
        peer.send(Detach(0, closed=is_closed))
        assert peer.expect(Detach) == Detach(answer.handle, is_closed)
    peer.close()


@pytest.mark.amqp_rule("2.6.4-a")
def test_a_detach_and_an_attach_of_the_same_name_need_no_answer_between() -> None:
    peer = in_session()
    peer.attach_sender("q")
    peer.send(Detach(0), Attach("out", 0, False, source=Source(), target=Target("q"), initial_delivery_count=0))
    assert peer.expect(Detach).error is None
    peer.expect(Attach)
    assert peer.outcome(text("x")) == ACCEPTED
    peer.close()


@pytest.mark.amqp_rule(
    "2.6.5-a", "2.6.7-a", "2.6.13-a", "2.6.14-c", "2.7.3-b", "2.7.5-a", "2.7.5-b", "2.7.5-c", "2.7.5-d", "2.7.5-g"
)
@pytest.mark.parametrize(
    ("transfers", "condition"),
    [
        ([Transfer(0)], Condition.INVALID_FIELD),
        ([Transfer(0, delivery_tag=b"t")], Condition.INVALID_FIELD),
        ([Transfer(0, 0)], Condition.INVALID_FIELD),
        ([Transfer(0, 0, b"x" * 33)], Condition.INVALID_FIELD),
        ([Transfer(0, 0, b"t", 0, more=True), Transfer(0, message_format=1)], Condition.INVALID_FIELD),
        ([Transfer(0, 0, b"t", rcv_settle_mode=1)], Condition.INVALID_FIELD),
        ([Transfer(0, 0, b"t", more=True), Transfer(0, 1, b"u")], Condition.NOT_ALLOWED),
        ([Transfer(0, 0, b"t", more=True), Transfer(0, delivery_tag=b"u")], Condition.NOT_ALLOWED),
        ([Transfer(0, 0, b"t", resume=True)], Condition.NOT_IMPLEMENTED),
        ([Transfer(0, number, b"t", settled=True) for number in range(4)], Condition.TRANSFER_LIMIT_EXCEEDED),
    ],
)
def test_what_breaks_a_rule_of_links_closes_it_alone(transfers: list[Transfer], condition: Condition) -> None:
    peer = in_session(credit=3)
    answer = peer.attach_sender("q")
    peer.attach_sender("q", name="other", handle=5)
    for each in transfers:
        peer.transfers += 1
        peer.send(each, payload=text("x"))
    detach = peer.expect(Detach, passing=(Flow, Disposition))
    assert (detach.handle, detach.closed) == (answer.handle, True)
    assert detach.error is not None
    assert detach.error.condition == condition
    peer.transfer_more(text("passed over"))
    peer.send(Detach(0, closed=True))
    peer.next_delivery = 100
    assert peer.outcome(text("the other link goes on"), handle=5) == ACCEPTED
    peer.close()


@pytest.mark.amqp_rule("2.7.5-g", "2.7.6-c")
def test_the_number_of_an_unsettled_message_is_not_used_again() -> None:
    pair = Pair()
    session = pair.open()
    pair.to_server(session)
    session.send(Transfer(0, 7, b"t"), b"one")
    session.send(Transfer(0, 7, b"u"), b"two")
    pair.run()
    detached = last(pair.client_events, LinkDetached)
    assert detached.error is not None
    assert detached.error.condition == Condition.INVALID_FIELD
    assert bodies(pair.server_events) == [b"one"]


@pytest.mark.amqp_rule("2.7.3-a")
def test_a_sender_tells_its_first_count() -> None:
    peer = in_session()
    peer.send(Attach("out", 0, False, source=Source(), target=Target("q")))
    assert peer.expect(Attach).target is None
    error = peer.expect(Detach).error
    assert error is not None
    assert error.condition == Condition.INVALID_FIELD


@pytest.mark.amqp_rule("2.7.5-f", "2.7.5-i", "2.6.14-e")
def test_the_parts_of_a_message_may_name_it_or_not() -> None:
    peer = in_session()
    peer.attach_sender("q")
    whole = text("in five parts, of which one is empty")
    peer.transfer(whole[:5], more=True)
    peer.transfer_more(whole[5:9], more=True, delivery_id=0)
    peer.transfer_more(whole[9:12], more=True, delivery_tag=b"0")
    peer.transfer_more(b"", more=True, message_format=0)
    peer.transfer_more(whole[12:], settled=True)
    assert peer.received_by_now() == []
    assert messages(peer) == [whole]


@pytest.mark.amqp_rule("2.6.14-d")
def test_an_aborted_message_is_discarded() -> None:
    peer = in_session()
    peer.attach_sender("q")
    peer.transfer(text("half")[:4], more=True)
    peer.transfer_more(aborted=True)
    assert peer.outcome(text("whole")) == ACCEPTED
    assert messages(peer) == [text("whole")]


@pytest.mark.amqp_rule("2.6.7-c", "2.6.7-d", "2.6.7-f")
def test_a_sender_that_drains_says_so() -> None:
    peer = in_session(answer=_sends([b"one"]))
    answer = peer.attach_receiver("q")
    peer.give_credit(5, drain=True)
    assert peer.receive()[1] == b"one"
    flow = peer.expect(Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.drain) == (answer.handle, 5, 0, True)
    peer.give_credit(1, count=5, echo=True)
    assert not peer.expect(Flow).drain


@pytest.mark.amqp_rule("2.7.4-b")
def test_an_echo_is_answered_for_the_session_or_the_link() -> None:
    peer = in_session()
    answer = peer.attach_receiver("q")
    peer.send(Flow(0, 10, 0, 10, echo=True))
    flow = peer.expect(Flow)
    assert (flow.handle, flow.echo) == (None, False)
    peer.give_credit(1, echo=True)
    flow = peer.expect(Flow)
    assert (flow.handle, flow.link_credit, flow.echo) == (answer.handle, 1, False)
    peer.close()


@pytest.mark.amqp_rule("2.8.9-a")
def test_numbers_begin_again() -> None:
    peer = opened(credit=100)
    first = 2**32 - 2
    peer.send(Begin(None, first, 100, 100))
    peer.expect(Begin)
    peer.send(Attach("out", 0, False, source=Source(), target=Target("q"), initial_delivery_count=first))
    peer.expect(Attach)
    for number in (first, first + 1, 0, 1):
        peer.send(Transfer(0, number, b"t"), payload=text("x"))
        told = peer.expect(Disposition)
        assert (told.first, told.state) == (number, ACCEPTED)
    peer.send(Flow(0, 100, 2, 100, echo=True))
    assert peer.expect(Flow, passing=()).next_incoming_id == 2


# Logins


@pytest.mark.amqp_rule("5.3.2-a", "5.3.2-b")
def test_a_login_has_two_headers() -> None:
    peer = RawPeer(EngineWire(sasl=PLAIN))
    peer.log_in("user", "secret")
    peer.open()
    peer.close()


@pytest.mark.amqp_rule("5.3.2-c", "5.3.2-d", "5.3.2-h")
@pytest.mark.parametrize(
    "init", [SaslInit("NOT-OFFERED"), SaslInit("PLAIN", b"no zeros"), SaslInit("SCRAM-SHA-256", b"n,,n=u,r=x")]
)
def test_a_login_that_cannot_be_has_an_outcome(init: SaslInit) -> None:
    peer = RawPeer(EngineWire(sasl=PLAIN))
    peer.header(ProtocolId.SASL)
    peer.expect_header(ProtocolId.SASL)
    peer.expect(SaslMechanisms)
    peer.send_sasl(init)
    assert peer.expect(SaslOutcome).code == SaslCode.AUTH
    peer.expect_end()


@pytest.mark.amqp_rule("5.3.2-h", "5.3.3-a")
def test_challenges_have_an_end() -> None:
    peer = RawPeer(EngineWire(sasl=PLAIN))
    peer.header(ProtocolId.SASL)
    peer.expect_header(ProtocolId.SASL)
    peer.expect(SaslMechanisms)
    peer.send_sasl(SaslInit("PLAIN"))
    peer.expect(SaslChallenge)
    peer.send_sasl(SaslResponse(b"\0user\0secret"))
    assert peer.expect(SaslOutcome).code == SaslCode.OK


@pytest.mark.amqp_rule("5.3.1-b", "5.3.1-c", "5.3.2-f")
@pytest.mark.parametrize(
    "frame",
    [
        write_frame(0, b"", kind=FrameType.SASL),
        write_frame(0, write(Open("raw"))),
        write_frame(0, write(SaslMechanisms(("PLAIN",))), kind=FrameType.SASL),
        write_frame(0, write(SaslChallenge(b"")), kind=FrameType.SASL),
        write_frame(0, write(SaslOutcome(SaslCode.OK)), kind=FrameType.SASL),
        write_frame(0, write(SaslResponse(b"early")), kind=FrameType.SASL),
    ],
    ids=["empty", "open", "mechanisms", "challenge", "outcome", "response"],
)
def test_what_is_no_login_ends_the_connection_without_a_word(frame: bytes) -> None:
    peer = RawPeer(EngineWire(sasl=PLAIN))
    peer.header(ProtocolId.SASL)
    peer.expect_header(ProtocolId.SASL)
    peer.expect(SaslMechanisms)
    peer.send_bytes(frame)
    peer.expect_end()


@pytest.mark.amqp_rule("5.3.1-a")
def test_a_frame_of_the_login_has_a_limited_size() -> None:
    peer = RawPeer(EngineWire(ConnectionSettings(login_frame_size_max=512), PLAIN))
    peer.header(ProtocolId.SASL)
    peer.expect_header(ProtocolId.SASL)
    peer.expect(SaslMechanisms)
    peer.send_sasl(SaslInit("PLAIN", b"\0" + b"u" * 600 + b"\0p"))
    peer.expect_end()


@pytest.mark.amqp_rule("5.3.2-g", "2.4.2-a")
def test_all_may_be_sent_at_once() -> None:
    peer = RawPeer(EngineWire(sasl=PLAIN))
    peer.send_bytes(
        b"AMQP\x03\x01\x00\x00"
        + write_frame(0, write(SaslInit("PLAIN", b"\0user\0secret")), kind=FrameType.SASL)
        + b"AMQP\x00\x01\x00\x00"
        + b"".join(
            write_frame(0, write(each))
            for each in (
                Open("raw"),
                Begin(None, 0, 10, 10),
                Close(),
            )
        )
    )
    peer.expect_header(ProtocolId.SASL)
    peer.expect(SaslMechanisms)
    assert peer.expect(SaslOutcome).code == SaslCode.OK
    peer.expect_header()
    came = []
    for kind in (Open, Begin, Close):
        frame = peer.next()
        assert isinstance(frame, Frame)
        came.append(type(frame.performative))
        assert came[-1] is kind
    peer.expect_end()


@pytest.mark.amqp_rule("5.3.2-e", "5.2.1-a", "2.2-b")
@pytest.mark.parametrize("protocol", [ProtocolId.AMQP, ProtocolId.TLS, 7])
def test_a_header_that_is_not_accepted_is_answered_with_one_that_is(protocol: int) -> None:
    peer = RawPeer(EngineWire(sasl=PLAIN))
    peer.header(protocol)
    peer.expect_header(ProtocolId.SASL)
    peer.expect_end()


@pytest.mark.amqp_rule("1.3.4-c")
@pytest.mark.parametrize("capabilities", ["a30161", "e0040 1a30161".replace(" ", ""), "40"])
def test_a_field_of_several_values_has_three_forms(capabilities: str) -> None:
    peer = RawPeer(EngineWire())
    peer.header()
    peer.expect_header()
    fields = "a10172" + "40" * 7 + capabilities
    body = bytes.fromhex("005310" + "c0" + f"{1 + len(fields) // 2:02x}" + "09" + fields)
    peer.send_bytes(write_frame(0, body))
    peer.expect(Open)
    assert isinstance(peer.wire, EngineWire)
    remote = peer.wire.connection.remote
    assert remote is not None
    assert remote.desired_capabilities == (() if capabilities == "40" else ("a",))
