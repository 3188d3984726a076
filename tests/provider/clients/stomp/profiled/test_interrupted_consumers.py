"""The main thread is interrupted at each place of a poll, or of a close, at the pyjms broker: nothing is left that nobody has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import TooLateError
from pyjms_provider.clients.stomp.profiled.consumer import ProfiledConsumer
from pyjms_provider.clients.stomp.profiled.received_message import ReceivedMessage
from pyjms_provider.clients.stomp.wire import Wire
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.verbs import DeliveryIds, read_delivery_ids
from tests.provider.clients.stomp.profiled.peer import Peer, consumer_of, linked
from tests.provider.clients.stomp.world import ORDERS, Told, poll_twice
from tests.provider.helpers import make_envelope, text_of
from tests.provider.interruptions import Interruption, each_interruption

FILES = tuple(
    f"stomp/{name}.py"
    for name in (
        "delivery_ids",
        "epoch",
        "profiled/connection",
        "profiled/consumer",
        "profiled/session",
        "verb_headers",
        "verbs",
        "wire",
    )
)


@pytest.mark.parametrize("waits", [False, True])
def test_a_message_that_an_interrupted_poll_took_is_there_for_the_next_one(*, waits: bool) -> None:
    """It stayed with the session, for the broker and for nobody else, until that was closed."""
    told = Told()
    count = 0
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), told)

        def attempt(interruption: Interruption) -> None:
            nonlocal count
            count += 1
            consumer.set_interested(True)
            peer.deliver_to(consumer, count)
            told.wait(count)
            delivery = poll_twice(consumer, interruption, waits=waits)
            assert delivery is not None, interruption.where
            assert text_of(delivery) == f"m{count}", interruption.where
            assert not consumer._is_speaking, f"{interruption.where}: it would say no credit any more"

        assert each_interruption(attempt, "profiled/consumer.py", "profiled/connection.py") > 3


@pytest.mark.parametrize("waits", [False, True])
def test_one_that_has_expired_here_goes_back_once_or_is_handed_out_whenever_its_poll_is_interrupted(
    *, waits: bool
) -> None:
    told = Told()
    count = 0
    handed_out: list[str] = []
    with Peer() as peer, linked(peer) as connection:
        consumer = consumer_of(connection.open_session(transacted=False), told)

        def attempt(interruption: Interruption) -> None:
            nonlocal count
            count += 2
            consumer.set_interested(True)
            peer.deliver_to(consumer, count - 1, make_envelope(f"m{count - 1}", expiration_ms=1))
            peer.deliver_to(consumer, count)
            told.wait(count)
            delivery = poll_twice(consumer, interruption, waits=waits)
            while delivery is not None:
                handed_out.append(text_of(delivery))
                delivery = consumer.poll()
            assert handed_out[-1] == f"m{count}", interruption.where

        def catching_up(interruption: Interruption) -> None:
            nonlocal count
            count += 1
            consumer.set_interested(True)
            peer.deliver_to(consumer, count)
            told.wait(count)
            with suppress(KeyboardInterrupt), interruption():
                consumer.catch_up()
            handed_out.append(text_of(consumer.poll()))
            assert consumer.poll() is None, interruption.where

        assert each_interruption(attempt, "profiled/consumer.py") > 3
        assert each_interruption(catching_up, "profiled/consumer.py") > 1
        assert not consumer._to_say
        consumer.close()
        ids = [read_delivery_ids(frame.headers["ids"]) for frame in peer.of("RETURN")]
    returned = [f"m{number}" for ranges in ids for numbers in ranges for number in numbers]
    assert sorted(handed_out + returned) == sorted(f"m{number}" for number in range(1, count + 1))


def test_a_consumer_whose_close_was_interrupted_is_ended_by_the_next_one() -> None:
    def attempt(interruption: Interruption) -> None:
        with Peer() as peer, linked(peer) as connection:
            session = connection.open_session(transacted=False)
            consumer, epoch = consumer_of(session), connection.link.current()
            with suppress(KeyboardInterrupt), interruption():
                consumer.close()
            consumer.close()
            assert session.consumers() == [], interruption.where
            if connection.link.current() is epoch:  # else it ended with the connection
                assert peer.of("UNSUBSCRIBE"), interruption.where

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("wants", [True, False])
def test_credit_is_said_though_an_interest_was_interrupted_as_it_began_or_ended(*, wants: bool) -> None:
    """It was counted as said, and so was a revocation: the broker never heard of either, and no message came any more."""

    def attempt(interruption: Interruption) -> None:
        with Peer() as peer, linked(peer) as connection:
            session = connection.open_session(transacted=False)
            consumer, epoch = consumer_of(session, wants=not wants), connection.link.current()
            with suppress(KeyboardInterrupt), interruption():
                consumer.set_interested(wants)
            consumer.set_interested(wants)
            connection.create_temporary(ORDERS.kind)  # with its answer all has come that was answered before
            consumer.set_interested(True)
            connection.create_temporary(ORDERS.kind)
            if connection.link.current() is epoch:  # else all is said anew
                said = [frame.headers.get("credit", "revoke") for frame in peer.of("CREDIT")]
                assert said == (["10"] if wants else ["10", "revoke", "10"]), interruption.where

    assert each_interruption(attempt, *FILES) > 10


def prefetch(peer: Peer, consumer: ProfiledConsumer, told: Told, count: int) -> None:
    """Have so many messages come that nobody takes."""
    for number in range(1, count + 1):
        peer.deliver_to(consumer, number)
    told.wait(count)


@pytest.mark.parametrize("end", [ProfiledConsumer.close, lambda consumer: consumer.set_interested(False)])
def test_what_was_not_handed_out_goes_back_though_that_was_interrupted(end: Callable[[ProfiledConsumer], None]) -> None:
    """It stayed with the session until that was closed."""

    def attempt(interruption: Interruption) -> None:
        told = Told()
        with Peer() as peer, linked(peer) as connection:
            session = connection.open_session(transacted=False)
            consumer, epoch = consumer_of(session, told), connection.link.current()
            prefetch(peer, consumer, told, 3)
            with suppress(KeyboardInterrupt), interruption():
                end(consumer)
            end(consumer)
            connection.create_temporary(ORDERS.kind)
            if connection.link.current() is epoch:  # else it is the broker's again
                assert "1-3" in {frame.headers["ids"] for frame in peer.of("RETURN")}, interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_what_was_not_handed_out_goes_back_though_nobody_closes_again() -> None:
    """It stayed with the session until that was closed."""

    def attempt(interruption: Interruption) -> None:
        told = Told()
        with Peer() as peer, linked(peer) as connection:
            session = connection.open_session(transacted=False)
            consumer, epoch = consumer_of(session, told), connection.link.current()
            prefetch(peer, consumer, told, 3)
            with suppress(KeyboardInterrupt), interruption():
                consumer.close()
            for _ in range(2):  # with each answer all has come that was answered before
                connection.create_temporary(ORDERS.kind)
            if consumer.is_open:  # it was interrupted before it began
                return
            assert not connection._receivers, interruption.where
            assert not session._consumers, interruption.where
            if connection.link.current() is epoch:  # else it is the broker's again
                assert "1-3" in {frame.headers["ids"] for frame in peer.of("RETURN")}, interruption.where

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("is_made_again", [True, False])
def test_nothing_is_withdrawn_for_good_by_an_interrupted_recover(*, is_made_again: bool) -> None:
    """What two consumers had prefetched stayed with the session; where something else was done next, they were sent nothing any more."""

    def attempt(interruption: Interruption) -> None:
        told = Told()
        with Peer() as peer, linked(peer) as connection:
            session, epoch = connection.open_session(transacted=False), connection.link.current()
            consumers = [consumer_of(session, told) for _ in range(2)]
            for number in range(1, 6):
                peer.deliver_to(consumers[number % 2], number)
            told.wait(5)
            delivery = consumers[1].poll()
            assert delivery is not None
            with suppress(KeyboardInterrupt), interruption():
                session.recover([delivery])
            with suppress(TooLateError):  # the connection has ended
                (session.recover if is_made_again else session.acknowledge)([delivery])
            connection.create_temporary(ORDERS.kind)  # with its answer all has come that was answered before
            if connection.link.current() is not epoch:
                return  # all is the broker's again
            polled = [number for each in consumers for number in numbers_of(iter(each.poll, None))]
            connection.create_temporary(ORDERS.kind)
            returned = [number for frame in peer.of("RETURN") for ids in read_ids(frame) for number in ids]
            assert {2, 3, 4, 5} <= {*polled, *returned}, interruption.where
            assert not {*polled} & {*returned}, interruption.where
            for consumer in consumers:
                credit = [frame for frame in peer.of("CREDIT") if frame.headers["subscription"] == consumer.name]
                assert "revoke" not in credit[-1].headers, interruption.where
                assert not consumer._revocations, interruption.where
                assert len(consumer._arrived) + consumer._credit > 0, interruption.where

    assert each_interruption(attempt, *FILES) > 10


def numbers_of(deliveries: Iterator[Delivery]) -> list[int]:
    return [each.tag.number for each in deliveries if isinstance(each.tag, ReceivedMessage)]


def read_ids(frame: Frame) -> DeliveryIds:
    return read_delivery_ids(frame.headers["ids"])


def test_what_is_about_to_go_back_is_handed_out_to_nobody() -> None:
    """Else a client has what comes to another one, too."""
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        prefetch(peer, consumer, told, 2)
        delivery = consumer.poll()
        assert delivery is not None
        polled: list[Delivery | None] = []

        def poll(_: int, frame: Frame) -> None:
            if frame.headers.get("unseen"):
                polled.append(consumer.poll())

        peer.before_answer = poll
        session.recover([delivery])
        assert polled == [None]
        assert [frame.headers["ids"] for frame in peer.of("RETURN")] == ["2", "1"]


def test_what_comes_when_nobody_waits_goes_back_after_an_interrupted_look_too() -> None:
    """It stayed with the consumer, as if somebody still looked."""

    def attempt(interruption: Interruption) -> None:
        with Peer() as peer, linked(peer) as connection:
            session, epoch = connection.open_session(transacted=False), connection.link.current()
            consumer = consumer_of(session, wants=False)
            with suppress(KeyboardInterrupt), interruption():
                consumer.catch_up()
            consumer.set_interested(True)
            consumer.set_interested(False)
            if connection.link.current() is not epoch:
                return
            peer.deliver_to(consumer, 1)
            connection.create_temporary(ORDERS.kind)  # with its answer the message has come
            connection.create_temporary(ORDERS.kind)  # with its answer the broker has heard what was said then
            assert [frame.headers["ids"] for frame in peer.of("RETURN")] == ["1"], interruption.where

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("ended", ["consumer", "session"])
def test_what_is_on_its_way_while_a_close_is_interrupted_goes_back(ended: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It found no consumer any more, and stayed with the session until that was closed."""
    with Peer(unanswered={"UNSUBSCRIBE"}) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session)

        def be_interrupted(*_: object) -> None:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(Wire, "wait", be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.close()
        assert session.consumers() == []
        peer.deliver_to(consumer, 1)
        peer.wait_for("UNSUBSCRIBE", 2)
        peer.unanswered.discard("UNSUBSCRIBE")
        for frame in peer.of("UNSUBSCRIBE"):
            peer.push(Frame("RECEIPT", {"receipt-id": frame.headers["receipt"]}))
        (consumer if ended == "consumer" else session).close()
        assert peer.wait_for("RETURN").headers["ids"] == "1"
        assert not connection._receivers
