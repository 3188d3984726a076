"""Consumers at the pyjms broker: credit, what goes back, and the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.clients.stomp.native.consumer import NativeBrowser, NativeConsumer
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.clients.stomp.transport import WriteBuffer
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S
from tests.provider.clients.stomp.native.peer import Peer, consumer_of, linked
from tests.provider.clients.stomp.world import ORDERS, Told
from tests.provider.helpers import make_envelope, text_of


def test_a_message_that_is_pushed_while_its_consumer_closes_goes_back_unseen() -> None:
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False))

        def push(_: int, frame: Frame) -> None:
            if frame.command == "UNSUBSCRIBE":
                peer.deliver_to(consumer, 7)

        peer.before_answer = push
        consumer.close()
        returned = peer.wait_for("RETURN").headers
        assert (returned["ids"], returned["unseen"]) == ("7", "true")


def test_several_that_could_not_be_processed_go_back_in_one_frame() -> None:
    with Peer() as peer, linked(peer) as connection:
        told = Told()
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        for number in (1, 2, 3):
            peer.deliver_to(consumer, number)
        told.wait(3)
        deliveries = [consumer.poll() for _ in range(3)]
        session.retry_all([each for each in deliveries if each is not None], "the disk is full")
        (frame,) = peer.of("RETRY")
        assert (frame.headers["ids"], frame.headers["reason"]) == ("1-3", "the disk is full")


def test_a_message_that_comes_after_interest_has_ended_goes_back_unseen() -> None:
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False))
        consumer.set_interested(False)
        assert peer.wait_for("CREDIT", 2).headers["revoke"] == "true"
        peer.deliver_to(consumer, 3)
        assert peer.wait_for("RETURN").headers["ids"] == "3"
        assert consumer.poll() is None


def test_a_full_window_goes_back_when_interest_ends() -> None:
    told = Told()
    with Peer() as peer, linked(peer, options="prefetch_messages=2&timeout_ms=10000") as connection:
        consumer = consumer_of(connection.open_session(transacted=False), told)
        peer.deliver_to(consumer, 1)
        peer.deliver_to(consumer, 2)
        told.wait(2)
        consumer.set_interested(False)
        assert peer.wait_for("RETURN").headers["ids"] == "1-2"


def test_what_has_expired_here_goes_back_and_the_next_one_is_handed_out() -> None:
    """Whoever worked for an hour on one message then got the others that had been pushed, however long they were over."""
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), told)
        over = make_envelope("over", expiration_ms=1)
        peer.deliver_to(consumer, 1, over)
        peer.deliver_to(consumer, 2, make_envelope("in time", expiration_ms=2**62))
        told.wait(2)
        assert text_of(consumer.poll()) == "in time"
        returned = peer.wait_for("RETURN").headers
        assert (returned["ids"], returned["unseen"]) == ("1", "true")
        peer.deliver_to(consumer, 3, over)  # by the broker's clock it is not
        told.wait(3)
        assert text_of(consumer.poll()) == "over"
        assert len(peer.of("RETURN")) == 1


def test_catching_up_asks_if_all_that_had_come_has_expired() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), told)
        peer.deliver_to(consumer, 1, make_envelope("over", expiration_ms=1))
        told.wait(1)

        def push(_: int, frame: Frame) -> None:
            if frame.headers.get("drain") == "true":
                peer.deliver_to(consumer, 2)

        peer.before_answer = push
        consumer.catch_up()
        consumer.catch_up()  # asks no more, and lets it stay the next one
        assert text_of(consumer.poll()) == "m2"
        assert [frame.headers["ids"] for frame in peer.of("RETURN")] == ["1"]


def test_poll_never_asks_and_catching_up_does() -> None:
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), wants=False)
        assert consumer.poll() is None
        assert peer.of("CREDIT") == []

        def push(_: int, frame: Frame) -> None:
            if frame.headers.get("drain") == "true":
                peer.deliver_to(consumer, 1)

        peer.before_answer = push
        consumer.catch_up()
        assert text_of(consumer.poll()) == "m1"
        assert peer.of("RETURN") == []


def test_what_a_drain_brings_beyond_its_one_message_goes_back() -> None:
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), wants=False)

        def push(_: int, frame: Frame) -> None:
            if frame.headers.get("drain") == "true":
                peer.deliver_to(consumer, 1)
                peer.deliver_to(consumer, 2)

        peer.before_answer = push
        consumer.catch_up()
        assert peer.wait_for("RETURN").headers["ids"] == "2"
        assert text_of(consumer.poll()) == "m1"


def test_credit_is_said_in_the_order_in_which_it_was_decided() -> None:
    posted: list[str] = []
    answers: list[Callable[[], None]] = []
    entered, go_on = Event(), Event()

    class SlowPhysical:
        def expect(self, receipt: str, done: Callable[[], None]) -> None:
            answers.append(done)

        def post(self, frame: Frame, *, needs_room: bool) -> None:
            if not posted:
                entered.set()
                assert go_on.wait(PATIENCE_S)
            posted.append("revoke" if "revoke" in frame.headers else "grant")

    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = NativeConsumer(
            session,
            "c",
            SubscribeRequest(address=ORDERS, selector=None, no_local=False, durable_name=None),
            lambda: None,
            10,
        )
        physical: Any = SlowPhysical()
        consumer.begin(physical)
        slow = Thread(target=consumer.set_interested, args=(True,))
        slow.start()
        assert entered.wait(PATIENCE_S)
        consumer.set_interested(False)  # does not wait for the other thread, nor overtakes it
        consumer.set_interested(True)
        go_on.set()
        slow.join(PATIENCE_S)
        assert posted == ["grant", "revoke"]
        answers.pop()()
        assert posted == ["grant", "revoke", "grant"]


def test_nothing_overtakes_what_went_back_while_interest_paused() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), told)
        peer.deliver_to(consumer, 1)
        told.wait(1)

        def push(_: int, frame: Frame) -> None:
            if "revoke" in frame.headers:
                peer.deliver_to(consumer, 2)  # it was on its way

        peer.before_answer = push
        consumer.set_interested(False)
        consumer.set_interested(True)
        assert peer.wait_for("RETURN", 2).headers["ids"] == "2"
        assert peer.wait_for("CREDIT", 3).headers["credit"] == "10"
        said = [
            frame.headers.get("ids") or frame.headers.get("credit", "revoke")
            for _, frame in peer.frames
            if frame.command in {"RETURN", "CREDIT"}
        ]
        assert said == ["10", "revoke", "1", "2", "10"], "new credit comes after all that went back"


def test_nothing_is_asked_for_until_the_broker_has_put_back_what_went_back() -> None:
    told = Told()
    with Peer(unanswered={"RETURN"}) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        peer.deliver_to(consumer, 1)
        told.wait(1)
        consumer.set_interested(False)
        consumer.set_interested(True)
        receipt = peer.wait_for("RETURN").headers["receipt"]
        session.send(make_envelope("x", persistent=True))  # with its answer, that of the revocation has come
        assert [frame.headers.get("credit", "revoke") for frame in peer.of("CREDIT")] == ["10", "revoke"]
        peer.push(Frame("RECEIPT", {"receipt-id": receipt}))
        assert peer.wait_for("CREDIT", 3).headers["credit"] == "10"


def test_what_went_back_on_a_lost_connection_is_not_named_on_the_next_one() -> None:
    """The broker counts anew there: it took back a message that the application had, and another consumer got it as well."""
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), told)
        peer.deliver_to(consumer, 1)
        told.wait(1)
        consumer.set_interested(False)
        assert peer.wait_for("RETURN").headers["ids"] == "1"
        peer.cut()
        peer.wait_for("SUBSCRIBE", 2)
        consumer.set_interested(True)
        peer.wait_for("CREDIT", 3)
        peer.deliver_to(consumer, 1)
        told.wait(2)
        assert text_of(consumer.poll()) == "m1"

        def keep_answer(_: int, frame: Frame) -> None:
            if frame.headers.get("receipt", "").startswith("v"):
                frame.headers.pop("receipt")  # the answer to the revocation is on its way

        peer.before_answer = keep_answer
        consumer.set_interested(False)
        consumer.catch_up()
        assert len(peer.of("RETURN")) == 1


def test_a_consumer_has_closed_when_the_broker_has_put_back_what_it_was_sent() -> None:
    told = Told()
    with Peer(unanswered={"RETURN"}) as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), told)
        peer.deliver_to(consumer, 1)
        told.wait(1)
        closing = Thread(target=consumer.close)
        closing.start()
        again = peer.wait_for("RETURN", 2)  # is answered after the first
        assert again.headers["ids"] == "1"
        assert closing.is_alive()
        peer.push(Frame("RECEIPT", {"receipt-id": again.headers["receipt"]}))
        closing.join(PATIENCE_S)
        assert not closing.is_alive()


def test_a_browser_shows_a_message_that_comes_between_two_looks_and_right_before_the_end() -> None:
    class LateDeque(deque[Frame]):
        """The message and the end come right after it was found empty."""

        is_late = True

        def __len__(self) -> int:
            found = super().__len__()
            if self.is_late and not found:
                self.is_late = False
                browser.arrived(physical, Frame("MESSAGE", {"subscription": "b"}))
                browser.arrived(physical, Frame("MESSAGE", {"subscription": "b", "browser": "end"}))
            return found

    with Peer() as peer, linked(peer) as connection:
        browser = NativeBrowser(connection.open_session(transacted=False), "b", ORDERS, None)
        physical = connection.link.current()
        browser._arrived = LateDeque()
        assert len(list(browser._frames())) == 1


@contextmanager
def flooded(monkeypatch: pytest.MonkeyPatch, peer: Peer, connection: NativeConnection) -> Iterator[None]:
    """Send until there is no room for anything, as the broker does not read; it reads again after the block."""
    full, stalled, reads = Event(), Event(), Event()
    wait_for_room = WriteBuffer._wait_for_room

    def wait(outbox: WriteBuffer, size: int) -> None:
        full.set()
        wait_for_room(outbox, size)

    monkeypatch.setattr(WriteBuffer, "_wait_for_room", wait)
    session = connection.open_session(transacted=True)
    session.send(make_envelope("x"))  # the first one to a destination waits for its answer

    def flood() -> None:
        session.send(make_envelope("x"))
        assert stalled.wait(PATIENCE_S)
        session.send(
            make_envelope("x" * 32_000_000)
        )  # more than the system takes and the outbox, which takes one of any size
        session.send(make_envelope("x"))

    def stall(_: int, frame: Frame) -> None:
        if frame.command == "SEND":
            stalled.set()
            reads.wait(PATIENCE_S)

    peer.before_answer = stall
    sender = Thread(target=flood, daemon=True)
    sender.start()
    try:
        assert full.wait(PATIENCE_S)
        yield
    finally:
        reads.set()
        sender.join(PATIENCE_S)


def test_credit_that_comes_due_while_much_waits_to_be_sent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Event()
    revoked = NativeConsumer._revoked

    def hear(consumer: NativeConsumer, physical: PhysicalConnection) -> None:
        try:
            revoked(consumer, physical)
        finally:
            heard.set()

    monkeypatch.setattr(NativeConsumer, "_revoked", hear)
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False))
        peer.unanswered.add("CREDIT")
        consumer.set_interested(False)
        receipt = peer.wait_for("CREDIT", 2).headers["receipt"]
        consumer.set_interested(True)  # credit is due when the revocation is answered
        with flooded(monkeypatch, peer, connection):
            peer.push(Frame("RECEIPT", {"receipt-id": receipt}))
            assert heard.wait(PATIENCE_S)
        assert peer.wait_for("CREDIT", 3).headers["credit"] == "10"


def test_who_begins_to_receive_or_gives_up_does_not_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), wants=False)
        with flooded(monkeypatch, peer, connection):
            for wants in (True, False):
                says = Thread(target=consumer.set_interested, args=(wants,))
                says.start()
                says.join(PATIENCE_S / 2)  # of the time that a sender waits
                assert not says.is_alive()
        assert peer.wait_for("CREDIT", 2).headers["revoke"] == "true"
