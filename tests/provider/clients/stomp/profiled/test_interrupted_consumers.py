"""The main thread is interrupted at each place of a poll, or of a close, at the pyjms broker: nothing is left that nobody has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pyjms_provider.clients.stomp.profiled.consumer import ProfiledConsumer
from tests.provider.clients.stomp.profiled.peer import Peer, consumer_of, linked
from tests.provider.clients.stomp.world import ORDERS, Told, poll_twice
from tests.provider.helpers import text_of
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
