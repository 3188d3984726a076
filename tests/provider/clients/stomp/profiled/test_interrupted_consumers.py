"""The main thread is interrupted at each place of a poll, or of a close, at the pyjms broker: nothing is left that nobody has."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.provider.clients.stomp.profiled.peer import Peer, consumer_of, linked
from tests.provider.clients.stomp.world import Told, poll_twice
from tests.provider.helpers import text_of
from tests.provider.interruptions import Interruption, each_interruption

FILES = tuple(f"clients/stomp/{name}.py" for name in ("epoch", "profiled/connection", "profiled/consumer", "wire"))


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
