"""Peers that keep no rules: whatever comes, the engine raises nothing, keeps little, and ends with a reason."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    SaslInit,
    Source,
    Target,
    Transfer,
    write,
)
from pyjms_provider.protocols.amqp.connection import Connection, ConnectionFailed, ConnectionSettings, SaslServer
from pyjms_provider.protocols.amqp.frames import FrameType, ProtocolHeader, ProtocolId, write_frame
from pyjms_provider.protocols.amqp.link import DeliveryReceived, Drained, Receiver, Sender
from pyjms_provider.protocols.amqp.session import Session
from tests.provider.protocols.amqp.pair import Pair, bodies
from tests.provider.protocols.amqp.raw import EngineWire, text
from tests.provider.protocols.amqp.records import RECORDS

SETTINGS = ConnectionSettings(frame_size_max=4096, channel_max=7, handle_max=7, incoming_window=16)
SOURCE, TARGET = Source("q"), Target("q")


def conversation() -> list[bytes]:
    """Return what a peer that keeps the rules sends, frame by frame."""
    frames: list[bytes] = [
        bytes(ProtocolHeader(ProtocolId.SASL)),
        write_frame(0, write(SaslInit("ANONYMOUS", b"")), kind=FrameType.SASL),
        bytes(ProtocolHeader(ProtocolId.AMQP)),
    ]
    records: list[tuple[Any, bytes]] = [
        (Open("peer", max_frame_size=4096), b""),
        (Begin(None, 0, 100, 100), b""),
        (Attach("out", 0, False, source=SOURCE, target=TARGET, initial_delivery_count=0), b""),
        (Attach("in", 1, True, source=SOURCE, target=TARGET), b""),
        (Transfer(0, 0, b"a"), text("one")),
        (Transfer(0, 1, b"b", more=True), text("two")[:5]),
        (Transfer(0), text("two")[5:]),
        (Flow(0, 100, 3, 100, handle=1, delivery_count=0, link_credit=5, drain=True), b""),
        (Disposition(role=True, first=0, last=3, settled=True, state=Modified(delivery_failed=True)), b""),
        (None, b""),
        (Detach(0, closed=True), b""),
        (End(), b""),
        (Close(), b""),
    ]
    return frames + [write_frame(0, b"" if record is None else write(record), payload) for record, payload in records]


WHOLE = conversation()


def hear(data: bytes, cut: int, *, is_required: bool = False) -> EngineWire:
    """Hand bytes to an engine, in pieces, and see that it has not kept more than it may."""
    wire = EngineWire(SETTINGS, SaslServer(("ANONYMOUS", "PLAIN"), is_required=is_required))
    for at in range(0, len(data), cut):
        wire.write(data[at : at + cut])
        if wire.connection.is_over:
            break
    for event in wire.events:
        if isinstance(event, ConnectionFailed):
            assert event.error.condition.startswith("amqp:")
            assert event.error.description
            assert wire.connection.is_over
    return wire


@given(st.binary(max_size=400), st.integers(1, 50), st.booleans())
def test_rubbish_ends_the_connection_or_waits_for_more(data: bytes, cut: int, is_required: bool) -> None:
    hear(data, cut, is_required=is_required)


@settings(max_examples=300)
@given(st.data(), st.integers(1, 300))
def test_a_conversation_with_changed_bytes_harms_nothing(data: st.DataObject, cut: int) -> None:
    stream = bytearray(b"".join(WHOLE))
    for _ in range(data.draw(st.integers(1, 4))):
        if not stream:
            break
        at = data.draw(st.integers(0, len(stream) - 1))
        what = data.draw(st.sampled_from(["change", "remove", "insert", "truncate"]))
        if what == "change":
            stream[at] = data.draw(st.integers(0, 255))
        elif what == "remove":
            del stream[at : at + data.draw(st.integers(1, 8))]
        elif what == "insert":
            stream[at:at] = data.draw(st.binary(min_size=1, max_size=8))
        else:
            del stream[at + 1 :]
    hear(bytes(stream), cut)


@settings(max_examples=100)
@given(st.permutations(WHOLE[3:]), st.integers(1, 300))
def test_no_order_of_frames_harms(frames: list[bytes], cut: int) -> None:
    hear(b"".join(WHOLE[:3] + frames), cut)


@given(st.lists(st.sampled_from(WHOLE), max_size=40), st.integers(1, 300))
def test_no_choice_of_frames_harms(frames: list[bytes], cut: int) -> None:
    hear(b"".join(frames), cut)


@given(st.integers(1, 500))
def test_a_conversation_may_be_cut_anywhere(cut: int) -> None:
    wire = hear(b"".join(WHOLE), cut)
    assert [each.delivery.data for each in wire.events if isinstance(each, DeliveryReceived)] == [
        text("one"),
        text("two"),
    ]
    assert wire.connection.is_over
    assert not [each for each in wire.events if isinstance(each, ConnectionFailed)]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), RECORDS, st.binary(max_size=30)), max_size=30))
def test_no_performatives_of_a_peer_that_is_open_harm(sent: list[tuple[int, Any, bytes]]) -> None:
    stream = (
        b"".join(WHOLE[:7])
        + write_frame(1, write(Begin(None, 0, 100, 100, handle_max=0)))
        + b"".join(write_frame(channel, write(record), payload) for channel, record, payload in sent)
    )
    wire = hear(stream, 1 << 20)
    connection: Connection = wire.connection
    assert connection.out_size < 200 * (len(sent) + 20), "what is answered is bounded by what was sent"


class LinkMachine(RuleBasedStateMachine):
    """Both ends of links in any order of calls: windows and credit hold, and each message comes once and in order."""

    pair: Pair
    session: Session
    ends: list[tuple[Sender, Receiver]]

    @initialize(window=st.integers(1, 5), cut=st.integers(1, 700), frame=st.sampled_from([512, 600, 4096]))
    def begin(self, window: int, cut: int, frame: int) -> None:
        narrow = ConnectionSettings(frame_size_max=frame, incoming_window=window)
        self.pair = Pair(client=narrow, server=narrow, cut=cut)
        self.session = self.pair.open()
        self.ends = [self.pair.to_server(self.session, 0), self.pair.to_client(self.session, 0)]
        self.sent: list[list[bytes]] = [[], []]
        self.granted = [0, 0]

    @rule(which=st.integers(0, 1), credit=st.integers(0, 4), drain=st.booleans())
    def give_credit(self, which: int, credit: int, drain: bool) -> None:
        receiver = self.ends[which][1]
        receiver.give_credit(credit, drain=drain)

    @rule(which=st.integers(0, 1), size=st.integers(0, 1500), settled=st.booleans())
    def send(self, which: int, size: int, settled: bool) -> None:
        sender = self.ends[which][0]
        if sender.credit > 0:
            number = len(self.sent[which])
            message = number.to_bytes(2) + b"m" * size
            sender.send(message, number.to_bytes(2), is_settled=settled)
            self.sent[which].append(message)

    @rule(which=st.integers(0, 1), count=st.integers(1, 4), is_settled=st.booleans())
    def settle(self, which: int, count: int, is_settled: bool) -> None:
        session = self.ends[which][1].session
        session.update_incoming(list(session.incoming.values())[:count], ACCEPTED, is_settled=is_settled)

    @rule(which=st.integers(0, 1))
    def drain(self, which: int) -> None:
        sender = self.ends[which][0]
        if sender.is_draining:
            sender.drained()

    @rule()
    def run(self) -> None:
        self.pair.run()

    @rule()
    def echo(self) -> None:
        self.session.write_flow(echo=True)

    @precondition(lambda self: hasattr(self, "ends"))
    @invariant()
    def nobody_breaks_a_rule(self) -> None:
        assert self.pair.failures() == []
        for sender, receiver in self.ends:
            assert sender.is_attached
            assert receiver.is_attached
            assert sender.credit >= 0
            assert receiver.credit >= 0

    def teardown(self) -> None:
        if not hasattr(self, "ends"):
            return
        self.pair.run()
        for which, events in enumerate((self.pair.server_events, self.pair.client_events)):
            assert bodies(events) == self.sent[which]
            sender, receiver = self.ends[which]
            receiver.session.update_incoming(tuple(receiver.session.incoming.values()), ACCEPTED)
            if sender.is_draining:
                sender.drained()
            self.pair.run()
            assert not sender.session.outgoing
            assert (sender.credit, sender.delivery_count) == (receiver.credit, receiver.delivery_count)
            drained = [each for each in events if isinstance(each, Drained)]
            assert all(each.link is receiver for each in drained)


TestLinks = LinkMachine.TestCase
TestLinks.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
