"""Connections, sessions and links between two ends (parts 2 and 5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms_provider.amqp.codec import Symbol
from pyjms_provider.amqp.errors import AmqpError, Condition, LinkFault, ProtocolMisuseError
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    SaslInit,
    SaslResponse,
    Source,
    Target,
    TransactionalState,
    Transfer,
    write,
)
from pyjms_provider.protocols.amqp.connection import (
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionSettings,
    LoginOffered,
    SaslServer,
)
from pyjms_provider.protocols.amqp.frames import Frame, FrameDecoder, ProtocolHeader, write_frame
from pyjms_provider.protocols.amqp.link import (
    CreditChanged,
    DeliveryReceived,
    Drained,
    IncomingUpdated,
    LinkAttached,
    LinkDetached,
    LinkEnded,
    LinkRequested,
    OutgoingUpdated,
)
from pyjms_provider.protocols.amqp.sasl import (
    Anonymous,
    AnonymousLogin,
    CertificateLogin,
    ClientMechanism,
    External,
    Login,
    PasswordLogin,
    Plain,
    ScramLogin,
    ScramSha256,
    TokenLogin,
    XOAuth2,
    scram_keys,
)
from pyjms_provider.protocols.amqp.session import SessionEnded
from tests.provider.protocols.amqp.pair import ANONYMOUS, Pair, all_of, answered, bodies, last
from tests.provider.protocols.amqp.records import RECORDS

KEYS = scram_keys("pencil", b"0123456789abcdef", 4096)
ALL = SaslServer(
    ("SCRAM-SHA-256", "PLAIN", "EXTERNAL", "XOAUTH2", "ANONYMOUS"), lambda user: KEYS if user == "user" else None
)


# Logins


@pytest.mark.amqp_rule("5.3.2-h")
@pytest.mark.parametrize(
    ("mechanism", "login"),
    [
        (Plain("user", "pencil"), PasswordLogin("user", "pencil")),
        (Anonymous(), AnonymousLogin("")),
        (External(), CertificateLogin("")),
        (XOAuth2("user", "a.b.c"), TokenLogin("user", "a.b.c")),
        (ScramSha256("user", "pencil"), ScramLogin("user")),
    ],
)
def test_a_client_logs_in(mechanism: ClientMechanism, login: Login) -> None:
    pair = Pair(mechanisms=[mechanism], sasl=ALL)
    pair.open()
    assert last(pair.server_events, LoginOffered).login == login
    assert "pencil" not in repr(login)
    assert "a.b.c" not in repr(login)


def test_a_client_may_skip_the_login_where_none_is_required() -> None:
    pair = Pair(mechanisms=(), sasl=SaslServer(("PLAIN",), is_required=False))
    assert pair.open().is_open


@pytest.mark.parametrize(
    ("mechanism", "sasl", "why"),
    [
        (ScramSha256("user", "wrong"), ALL, "refuses the login"),
        (ScramSha256("nobody", "pencil"), ALL, "refuses the login"),
        (Plain("user", "x"), ANONYMOUS, "offers ANONYMOUS"),
        (Plain("us\0er", "x"), ALL, "NUL"),
    ],
)
def test_a_login_that_fails_says_why(mechanism: ClientMechanism, sasl: SaslServer, why: str) -> None:
    pair = Pair(mechanisms=[mechanism], sasl=sasl)
    pair.client.start()
    pair.run()
    failure = last(pair.client_events, ConnectionFailed).error
    assert failure.condition == Condition.UNAUTHORIZED_ACCESS
    assert why in failure.description
    assert pair.client.is_over


def test_a_refused_login_ends_the_connection() -> None:
    pair = Pair(mechanisms=[Plain("user", "x")], sasl=ALL, accepts=False)
    pair.client.start()
    pair.run()
    pair.server.refuse_login()
    pair.run()
    assert pair.server.is_over
    assert "code 1" in last(pair.client_events, ConnectionFailed).error.description


def test_a_server_of_scram_has_to_know_the_password_too() -> None:
    other = scram_keys("pencil", KEYS.salt, 4096)
    forged = type(KEYS)(other.salt, other.iterations, other.stored_key, b"\0" * 32)
    pair = Pair(mechanisms=[ScramSha256("user", "pencil")], sasl=SaslServer(("SCRAM-SHA-256",), lambda _: forged))
    pair.client.start()
    pair.run()
    assert "has not proved" in last(pair.client_events, ConnectionFailed).error.description


def test_an_unknown_user_gets_a_salt_as_others_do() -> None:
    challenges = []
    for _ in range(2):
        server = Connection(ConnectionSettings(), ALL)
        server.receive(
            bytes(ProtocolHeader(3)) + write_frame(0, write(SaslInit("SCRAM-SHA-256", b"n,,n=nobody,r=abc")), kind=1)
        )
        challenges.append(server.take().partition(b",s=")[2])
    assert challenges[0] == challenges[1] != b""


def test_the_example_of_the_standard_is_computed_as_it_says() -> None:
    # RFC 7677, 3
    client = ScramSha256("user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert client.respond(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.finish(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.amqp_rule("5.3.3-a")
@pytest.mark.parametrize(
    "frames",
    [
        [SaslResponse(b"")],
        [SaslInit("PLAIN", b"nothing")],
        [SaslInit("PLAIN", b"other\0user\0x")],
        [SaslInit("PLAIN", b"\0user\0\xff")],
        [SaslInit("NTLM", b"")],
        [SaslInit("XOAUTH2", b"user=me")],
        [SaslInit("SCRAM-SHA-256", b"p=tls-unique,,n=user,r=a")],
        [SaslInit("SCRAM-SHA-256", b"n,,n=us=er,r=a")],
        [SaslInit("SCRAM-SHA-256", b"n,,n=user,r=abc"), SaslResponse(b"c=biws,r=abc,p=AAAA")],
        [SaslInit("PLAIN", None), *[SaslResponse(b"")] * 9],
        [Open("c")],
    ],
    ids=lambda frames: str(frames[0])[:40],
)
def test_what_is_no_login_is_refused(frames: list[object]) -> None:
    server = Connection(ConnectionSettings(), ALL)
    data = bytes(ProtocolHeader(3)) + b"".join(write_frame(0, write(each), kind=1) for each in frames)
    events = answered(server, data)
    assert isinstance(events[-1], ConnectionFailed)
    assert server.is_over


@pytest.mark.amqp_rule("2.2-b", "5.2.1-a", "5.3.2-e")
@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"AMQP\x00\x01\x00\x00"])
def test_another_header_is_answered_with_one_that_is_spoken(header: bytes) -> None:
    server = Connection(ConnectionSettings(), ALL)
    (event,) = server.receive(header)
    assert isinstance(event, ConnectionFailed)
    assert server.take() == b"AMQP\x03\x01\x00\x00"
    assert server.is_over


# Connections


def test_both_ends_know_what_the_other_takes() -> None:
    pair = Pair(client=ConnectionSettings(idle_time_out_ms=60_000, channel_max=3, frame_size_max=4096))
    pair.open()
    assert pair.server.remote is not None
    assert (pair.server.remote.container_id, pair.server.remote.idle_time_out, pair.server.remote.channel_max) == (
        "client",
        30_000,
        3,
    )
    assert pair.server.remote.max_frame_size == 4096


@pytest.mark.amqp_rule("2.4.2-a")
def test_everything_may_be_sent_before_an_answer_comes() -> None:
    server = Connection(ConnectionSettings(), SaslServer((), is_required=False))
    data = bytes(ProtocolHeader(0)) + write_frame(0, write(Open("c"))) + write_frame(0, write(Begin(None, 0, 10, 10)))
    data += write_frame(0, write(Attach("l", 0, False, source=Source(), target=Target("q"), initial_delivery_count=0)))
    names = [type(each).__name__ for each in answered(server, data)]
    assert names == ["ConnectionOpened", "SessionBegun", "LinkRequested"]


@pytest.mark.amqp_rule("2.4.3-a")
def test_a_connection_is_closed_from_either_side() -> None:
    for closes_first in ("client", "server"):
        pair = Pair()
        pair.open()
        getattr(pair, closes_first).close()
        pair.run()
        assert pair.client.is_over
        assert pair.server.is_over
        assert all_of(pair.client_events, ConnectionClosed)
        assert all_of(pair.server_events, ConnectionClosed)
        pair.client.close()


@pytest.mark.amqp_rule("2.7.9-a", "2.8.14-a")
def test_a_close_tells_its_reason() -> None:
    pair = Pair()
    pair.open()
    pair.server.close(AmqpError(Condition.CONNECTION_FORCED, "the broker stops", {"after": 5}))
    pair.run()
    error = last(pair.client_events, ConnectionClosed).error
    assert error is not None
    assert (error.condition, error.description, dict(error.info or {})) == (
        "amqp:connection:forced",
        "the broker stops",
        {"after": 5},
    )


@pytest.mark.amqp_rule("2.4.1-e")
def test_a_refusal_before_the_open_opens_and_closes() -> None:
    pair = Pair(accepts=False, mechanisms=(), sasl=SaslServer((), is_required=False))
    pair.client.start()
    pair.client.open(Open("client"))
    pair.run()
    pair.server.close(AmqpError(Condition.INVALID_FIELD, "the container id is in use"))
    pair.run()
    assert [type(each).__name__ for each in pair.client_events] == ["ConnectionOpened", "ConnectionClosed"]
    assert pair.server.is_over


@pytest.mark.amqp_rule("2.4.5-a")
def test_signs_of_life_go_out_while_there_is_nothing_else() -> None:
    pair = Pair(client=ConnectionSettings(idle_time_out_ms=6_000))
    pair.open()
    due = pair.server.next_tick_ms(0)
    assert due == 1000
    pair.server.tick(1000)  # something was written of late: the open
    assert pair.server.take() == b""
    pair.server.tick(1999)
    assert pair.server.take() == b""
    pair.server.tick(2000)
    assert pair.server.take() == write_frame(0, b"")
    assert pair.client.next_tick_ms(0) is None


@pytest.mark.parametrize(
    ("frames", "condition"),
    [
        ([(0, Begin(None, 0, 1, 1))], Condition.ILLEGAL_STATE),
        ([(0, Open("c")), (0, Open("c"))], Condition.ILLEGAL_STATE),
        ([(0, Open("c", max_frame_size=511))], Condition.FRAMING_ERROR),
        ([(1, Open("c"))], Condition.FRAMING_ERROR),
        ([(0, Open("c")), (3, End())], Condition.NOT_ALLOWED),
        ([(0, Open("c")), (300, Begin(None, 0, 1, 1))], Condition.FRAMING_ERROR),
        ([(0, Open("c")), (0, Begin(5, 0, 1, 1))], Condition.NOT_ALLOWED),
        ([(0, Open("c")), (0, Begin(None, 0, 1, 1)), (0, Begin(None, 0, 1, 1))], Condition.NOT_ALLOWED),
        ([(0, Open("c")), (0, Begin(None, 0, 1, 1)), (0, Attach("l", 5000, False))], Condition.FRAMING_ERROR),
        ([(0, Open("c")), (0, Begin(None, 0, 1, 1)), (0, SaslInit("X"))], Condition.NOT_ALLOWED),
    ],
)
def test_a_peer_that_breaks_a_rule_of_connections_is_told(
    frames: list[tuple[int, object]], condition: Condition
) -> None:
    server = Connection(ConnectionSettings(), SaslServer((), is_required=False))
    data = bytes(ProtocolHeader(0)) + b"".join(write_frame(channel, write(each)) for channel, each in frames)
    events = answered(server, data)
    assert isinstance(events[-1], ConnectionFailed)
    assert events[-1].error.condition == condition
    assert condition.encode() in server.take()
    assert server.is_over
    assert server.receive(b"more") == []


# Sessions


def test_a_client_drops_the_flow_of_a_session_that_has_ended() -> None:
    """Artemis 2.40 answers a drain so when the end of the session was faster."""
    pair = Pair()
    other = pair.open()
    session = pair.client.begin()
    pair.run()
    session.end()
    pair.run()
    pair.server.write_frame(write_frame(65535, write(Flow(1, 1, 1, 1))))
    pair.run()
    assert pair.client.is_open
    assert other.is_open
    pair.server.write_frame(write_frame(65535, write(Disposition(True, 0))))
    pair.run()
    assert not pair.client.is_open


@pytest.mark.amqp_rule("2.5.2-a", "2.5.5-a")
def test_a_session_ends_from_either_side_and_its_channel_is_free_again() -> None:
    pair = Pair(client=ConnectionSettings(channel_max=0))
    session = pair.open()
    with pytest.raises(AmqpError, match="1 sessions"):
        pair.client.begin()
    session.end()
    pair.run()
    assert last(pair.server_events, SessionEnded).error is None
    assert not last(pair.server_events, SessionEnded).is_answer
    assert last(pair.client_events, SessionEnded).is_answer
    again = pair.client.begin()
    pair.run()
    assert again.is_open


@pytest.mark.parametrize(
    ("frames", "condition"),
    [
        ([Transfer(0, 0, b"t")], Condition.UNATTACHED_HANDLE),
        ([Detach(0)], Condition.UNATTACHED_HANDLE),
        ([Flow(0, 1, 0, 1, handle=9)], Condition.UNATTACHED_HANDLE),
        (
            [Attach("a", 0, False, initial_delivery_count=0), Attach("b", 0, False, initial_delivery_count=0)],
            Condition.HANDLE_IN_USE,
        ),
        ([Attach("a", 0, True), Transfer(0, 0, b"t")], Condition.ERRANT_LINK),
        ([Disposition(role=True, first=5, last=1)], Condition.INVALID_FIELD),
    ],
)
def test_a_peer_that_breaks_a_rule_of_sessions_ends_its_session_alone(
    frames: list[object], condition: Condition
) -> None:
    server = Connection(ConnectionSettings(incoming_window=8), SaslServer((), is_required=False))
    server.receive(
        bytes(ProtocolHeader(0)) + write_frame(0, write(Open("c"))) + write_frame(0, write(Begin(None, 0, 10, 10)))
    )
    server.open(Open("server"))
    requested = False
    for frame in frames:
        for event in server.receive(write_frame(0, write(frame))):
            requested |= _attach(event)
    data = server.take()
    assert requested or not any(isinstance(frame, Attach) for frame in frames)
    assert condition.encode() in data
    assert not server.is_over


def _attach(event: object) -> bool:
    if isinstance(event, LinkRequested):
        event.link.attach(Attach("", 0, False, source=Source(), target=Target("q")))
        return True
    return False


@pytest.mark.amqp_rule("2.5.6-a")
def test_a_peer_that_sends_more_than_the_window_ends_its_session() -> None:
    pair = Pair(server=ConnectionSettings(incoming_window=0))
    session = pair.open()
    pair.to_server(session)
    session.write(Transfer(0, 0, b"t"))
    pair.run()
    error = last(pair.client_events, SessionEnded).error
    assert error is not None
    assert error.condition == Condition.WINDOW_VIOLATION
    assert not pair.client.is_over


# Links


def test_messages_go_both_ways_and_are_settled() -> None:
    pair = Pair()
    session = pair.open()
    for sender, receiver, sent_events, got_events in (
        (*pair.to_server(session), pair.client_events, pair.server_events),
        (*pair.to_client(session), pair.server_events, pair.client_events),
    ):
        outgoing = sender.send(b"hello", b"t1")
        pair.run()
        incoming = last(got_events, DeliveryReceived).delivery
        assert (incoming.data, incoming.tag, incoming.is_settled, incoming.link) == (b"hello", b"t1", False, receiver)
        receiver.session.update_incoming([incoming], ACCEPTED)
        pair.run()
        told = last(sent_events, OutgoingUpdated)
        assert (list(told.deliveries), told.state, told.is_settled) == ([outgoing], ACCEPTED, True)
        assert not sender.session.outgoing
        assert not receiver.session.incoming
        assert (sender.credit, receiver.credit) == (9, 9)


@pytest.mark.amqp_rule("2.6.12-b")
def test_a_settled_message_needs_no_answer() -> None:
    pair = Pair()
    sender, _ = pair.to_server(pair.open())
    sender.send(b"x", b"t", is_settled=True)
    pair.run()
    assert last(pair.server_events, DeliveryReceived).delivery.is_settled
    assert not sender.session.outgoing


@pytest.mark.amqp_rule("2.7.6-c")
def test_a_receiver_may_settle_second() -> None:
    pair = Pair()
    session = pair.open()
    sender, receiver = pair.to_server(session)
    outgoing = sender.send(b"x", b"t", state=TransactionalState(b"tx"))
    pair.run()
    incoming = last(pair.server_events, DeliveryReceived).delivery
    assert incoming.state == TransactionalState(b"tx")
    receiver.session.update_incoming([incoming], ACCEPTED, is_settled=False)
    pair.run()
    assert not last(pair.client_events, OutgoingUpdated).is_settled
    session.settle_outgoing(outgoing, ACCEPTED)
    pair.run()
    assert last(pair.server_events, IncomingUpdated).is_settled
    assert not receiver.session.incoming


@pytest.mark.amqp_rule("2.7.6-a")
def test_dispositions_of_numbers_in_a_row_are_one_frame() -> None:
    pair = Pair()
    sender, receiver = pair.to_server(pair.open())
    for number in range(6):
        sender.send(b"x", bytes([number]))
    pair.run()
    got = [each.delivery for each in all_of(pair.server_events, DeliveryReceived)]
    receiver.session.update_incoming(got[:3] + got[4:], Modified(delivery_failed=True))
    assert (
        pair.server.take().count(
            write(Disposition(role=True, first=0, last=2, settled=True, state=Modified(delivery_failed=True)))
        )
        == 1
    )
    assert list(receiver.session.incoming) == [3]


@pytest.mark.amqp_rule("2.7.6-a")
def test_acceptances_in_a_row_share_a_frame_until_something_else_is_sent() -> None:
    pair = Pair()
    sender, receiver = pair.to_server(pair.open())
    for number in range(6):
        sender.send(b"x", bytes([number]))
    pair.run()
    got = [each.delivery for each in all_of(pair.server_events, DeliveryReceived)]
    for each in got[:3]:
        receiver.session.update_incoming([each], ACCEPTED)
    receiver.session.update_incoming([got[4]], ACCEPTED)  # not the next one
    receiver.give_credit(10)
    receiver.session.update_incoming([got[5]], ACCEPTED)
    assert pair.server.out_size
    decoder = FrameDecoder()
    decoder.feed(bytes(ProtocolHeader(0)) + pair.server.take())
    assert decoder.next() == ProtocolHeader(0)
    told = []
    while (frame := decoder.next()) is not None:
        assert isinstance(frame, Frame)
        told.append(frame.performative)
    flow = told.pop(2)
    assert isinstance(flow, Flow)
    assert told == [
        Disposition(role=True, first=0, last=2, settled=True, state=ACCEPTED),
        Disposition(role=True, first=4, settled=True, state=ACCEPTED),
        Disposition(role=True, first=5, settled=True, state=ACCEPTED),
    ]
    assert not pair.server.out_size


@pytest.mark.amqp_rule("2.7.6-a")
def test_a_disposition_may_name_any_range() -> None:
    pair = Pair()
    session = pair.open()
    sender, _ = pair.to_server(session)
    sender.send(b"x", b"t")
    session.received(Disposition(role=True, first=0, last=2**31 - 2, settled=True, state=ACCEPTED), b"")
    assert not session.outgoing


def test_nothing_is_sent_without_credit() -> None:
    pair = Pair()
    sender, receiver = pair.to_server(pair.open(), credit=0)
    with pytest.raises(ProtocolMisuseError, match="credit of 0"):
        sender.send(b"x", b"t")
    receiver.give_credit(1)
    pair.run()
    assert last(pair.client_events, CreditChanged).link is sender
    sender.send(b"x", b"t")
    with pytest.raises(ProtocolMisuseError):
        sender.send(b"x", b"t")


@pytest.mark.amqp_rule("2.6.7-a")
def test_a_message_without_credit_detaches_the_link() -> None:
    pair = Pair()
    session = pair.open()
    sender, _ = pair.to_server(session, credit=0)
    sender.credit = 1
    sender.send(b"x", b"t")
    pair.run()
    error = last(pair.client_events, LinkDetached).error
    assert error is not None
    assert error.condition == Condition.TRANSFER_LIMIT_EXCEEDED
    assert session.is_open


@pytest.mark.amqp_rule("2.6.7-b")
def test_credit_counts_from_what_the_receiver_has_seen() -> None:
    pair = Pair()
    sender, receiver = pair.to_server(pair.open(), credit=5)
    sender.send(b"x", b"1")  # under way while the receiver gives credit anew
    receiver.give_credit(5)
    pair.run()
    assert sender.credit == receiver.credit == 4


@pytest.mark.amqp_rule("2.6.7-c")
def test_draining_gives_the_rest_of_the_credit_back() -> None:
    pair = Pair()
    sender, receiver = pair.to_client(pair.open(), credit=0)
    receiver.give_credit(5, drain=True)
    pair.run()
    assert sender.is_draining
    sender.send(b"x", b"1")
    sender.drained()
    pair.run()
    assert (receiver.credit, sender.credit, receiver.delivery_count) == (0, 0, 5)
    assert last(pair.client_events, Drained).link is receiver
    assert bodies(pair.client_events) == [b"x"]


def test_an_echo_is_answered() -> None:
    pair = Pair()
    session = pair.open()
    pair.to_server(session)
    session.write_flow(echo=True)
    pair.server.receive(pair.client.take())
    assert b"\x00\x53\x13" in pair.server.take()


@pytest.mark.amqp_rule("2.7.1-c", "2.5.6-b")
@pytest.mark.parametrize("cut", [1, 7, 100, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 400, 480, 490, 500, 1000, 10_000])
def test_a_message_is_as_many_frames_as_it_needs(size: int, cut: int) -> None:
    small = ConnectionSettings(frame_size_max=512, incoming_window=4)
    pair = Pair(client=small, server=small, cut=cut)
    sender, receiver = pair.to_server(pair.open())
    message = bytes(number % 251 for number in range(size))
    sender.send(message, b"t" * 32)
    sender.send(b"after", b"u")
    pair.run()
    assert bodies(pair.server_events) == [message, b"after"]
    assert receiver.credit == 8
    assert pair.failures() == []


@pytest.mark.amqp_rule("2.7.3-b")
def test_a_message_that_is_too_large_detaches_the_link() -> None:
    pair = Pair()
    sender, _ = pair.to_server(pair.open())
    sender.send(b"x" * 100_001, b"t")
    pair.run()
    error = last(pair.client_events, LinkDetached).error
    assert error is not None
    assert error.condition == Condition.MESSAGE_SIZE_EXCEEDED
    assert bodies(pair.server_events) == []


@pytest.mark.parametrize(
    ("transfers", "condition"),
    [
        ([Transfer(0)], Condition.INVALID_FIELD),
        ([Transfer(0, 0)], Condition.INVALID_FIELD),
        ([Transfer(0, 0, b"x" * 33)], Condition.INVALID_FIELD),
        ([Transfer(0, 0, b"t", resume=True)], Condition.NOT_IMPLEMENTED),
        ([Transfer(0, 0, b"t", more=True), Transfer(0, 1, b"u")], Condition.NOT_ALLOWED),
    ],
)
def test_a_peer_that_breaks_a_rule_of_links_loses_its_link_alone(
    transfers: list[Transfer], condition: Condition
) -> None:
    pair = Pair()
    session = pair.open()
    pair.to_server(session)
    for each in transfers:
        session.write(each)
    pair.run()
    error = last(pair.client_events, LinkDetached).error
    assert error is not None
    assert error.condition == condition
    assert session.is_open
    assert pair.failures() == []


@pytest.mark.amqp_rule("2.6.14-d")
def test_an_aborted_message_is_as_if_it_had_not_been_sent() -> None:
    pair = Pair()
    session = pair.open()
    sender, receiver = pair.to_server(session)
    session.write(Transfer(0, 0, b"t", more=True))
    session.write(Transfer(0, aborted=True))
    session.take_delivery_id()
    sender.credit -= 1
    sender.delivery_count += 1
    sender.send(b"next", b"u")
    pair.run()
    assert bodies(pair.server_events) == [b"next"]
    assert list(receiver.session.incoming) == [1]


@pytest.mark.amqp_rule("2.6.4-a", "2.6.6-a")
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_link_is_detached_and_its_name_is_free_again(is_closed: bool) -> None:
    pair = Pair()
    session = pair.open()
    sender, _ = pair.to_server(session)
    sender.send(b"x", b"t")
    sender.detach(is_closed=is_closed)
    pair.run()
    assert last(pair.server_events, LinkDetached).is_closed is is_closed
    assert last(pair.client_events, LinkEnded).link is sender
    assert not session.outgoing
    again, _ = pair.to_server(session)
    assert again.is_attached
    assert again is not sender


@pytest.mark.amqp_rule("2.6.3-b")
def test_a_link_is_refused_with_an_attach_and_a_detach() -> None:
    pair = Pair(accepts=False, mechanisms=(), sasl=SaslServer((), is_required=False))
    pair.client.start()
    pair.client.open(Open("client"))
    pair.run()
    pair.server.open(Open("server"))
    pair.run()
    session = pair.client.begin()
    for link in (session.sender("a"), session.receiver("b")):
        link.attach(Attach("", 0, False, source=Source("q"), target=Target("q")))
        pair.run()
        last(pair.server_events, LinkRequested).link.refuse(LinkFault(Condition.NOT_FOUND, "there is no q"))
        pair.run()
        attached, detached = last(pair.client_events, LinkAttached), last(pair.client_events, LinkDetached)
        assert attached.link is detached.link is link
        assert link.remote is not None
        assert (link.remote.source if link.role else link.remote.target) is None
        assert detached.error is not None
        assert detached.error.condition == Condition.NOT_FOUND
        link.detach()
        pair.run()
        assert link not in session.links


def test_handles_above_the_peers_limit_are_not_used() -> None:
    pair = Pair(server=ConnectionSettings(handle_max=1))
    session = pair.open()
    pair.to_server(session, name="a")
    pair.to_server(session, name="b")
    with pytest.raises(ProtocolMisuseError, match="at most 2 links"):
        session.sender("c")


# Any order, and any cut


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("credit"), st.integers(0, 5)),
            st.tuples(st.just("send"), st.integers(0, 1500)),
            st.tuples(st.just("settle"), st.integers(1, 5)),
            st.tuples(st.just("drain"), st.just(0)),
            st.tuples(st.just("run"), st.just(0)),
        ),
        max_size=30,
    ),
    st.integers(1, 600),
    st.integers(1, 8),
    st.booleans(),
)
def test_what_was_sent_comes_once_and_in_order(
    steps: list[tuple[str, int]], cut: int, window: int, to_server: bool
) -> None:
    narrow = ConnectionSettings(frame_size_max=512, incoming_window=window)
    pair = Pair(client=narrow, server=narrow, cut=cut)
    session = pair.open()
    sender, receiver = pair.to_server(session, 0) if to_server else pair.to_client(session, 0)
    events = pair.server_events if to_server else pair.client_events
    sent: list[bytes] = []
    for step, number in steps:
        if step == "credit":
            receiver.give_credit(number)
        elif step == "send" and sender.credit > 0:
            message = len(sent).to_bytes(2) + b"m" * number
            sender.send(message, len(sent).to_bytes(2))
            sent.append(message)
        elif step == "settle":
            waiting = list(receiver.session.incoming.values())[:number]
            receiver.session.update_incoming(waiting, ACCEPTED)
        elif step == "drain":
            receiver.give_credit(receiver.credit, drain=True)
            pair.run()
            if sender.is_draining:
                sender.drained()
        else:
            pair.run()
        assert len(sender.session.outgoing) <= len(sent)
    pair.run()
    receiver.session.update_incoming(tuple(receiver.session.incoming.values()), ACCEPTED)
    pair.run()
    assert bodies(events) == sent
    assert not sender.session.outgoing
    assert sender.credit == receiver.credit
    assert sender.delivery_count == receiver.delivery_count
    assert pair.failures() == []


@given(st.binary(max_size=300), st.booleans())
def test_rubbish_on_an_open_connection_ends_it_with_a_reason(data: bytes, framed: bool) -> None:
    pair = Pair()
    session = pair.open()
    pair.to_server(session)
    pair.server.receive(write_frame(0, b"\x00\x53" + data) if framed else data)
    told = pair.server.take()
    assert not pair.server.is_over or b"amqp:" in told or b"\x00\x53\x18" in told


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 1), RECORDS, st.binary(max_size=20)), max_size=20), st.booleans())
def test_no_order_of_performatives_is_more_than_a_peer_can_be_told(
    sent: list[tuple[int, Any, bytes]], attached: bool
) -> None:
    pair = Pair()
    session = pair.open()
    if attached:
        pair.to_server(session)
        pair.to_client(session)
    for channel, record, payload in sent:
        pair.client.write_frame(write_frame(channel, write(record), payload))
    pair.run()
    failed = pair.failures()
    assert all(failed)
    assert pair.server.is_over or not failed


def test_a_begin_is_known_with_those_of_its_properties_that_are_known_and_true() -> None:
    pair = Pair(server=ConnectionSettings(session_properties=frozenset({"known", "other"})))
    pair.open()
    for said, known in (
        ({"known": True, "unknown": True}, {"known": True}),
        ({"known": False, "other": True}, {"other": True}),
        ({"known": "true"}, None),
        (None, None),
    ):
        session = pair.client.begin({Symbol(name): value for name, value in said.items()} if said else None)
        pair.run()
        assert session.remote is not None
        assert session.remote.properties == known
