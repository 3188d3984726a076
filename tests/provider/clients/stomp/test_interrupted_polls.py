"""The main thread is interrupted at each place of a poll at a broker that knows nothing of the profile: the next poll has the message."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pyjms.spi.envelope import Address, AddressKind
from tests.provider.clients.stomp.fake_broker import FakeBroker
from tests.provider.clients.stomp.world import QUICKLY, Told, connected, consume, poll_twice
from tests.provider.interruptions import Interruption, each_interruption

FILES = ("stomp/subscription.py", "stomp/session.py", "stomp/held_message.py")


@pytest.mark.parametrize("waits", [False, True])
def test_a_message_that_an_interrupted_poll_took_is_there_for_the_next_one(*, waits: bool) -> None:
    """It stayed with the session until that was closed."""
    told, count = Told(), 0
    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)

        def attempt(interruption: Interruption) -> None:
            nonlocal count
            count += 1
            consumer.set_interested(True)
            broker.deliver(consumer.id, f"a{count}")
            told.wait(count)
            delivery = poll_twice(consumer, interruption, waits=waits)
            assert delivery is not None, interruption.where
            assert delivery.count == 1, interruption.where
            session.acknowledge([delivery])
            assert session._held == {}, interruption.where
            assert consumer._unsettled == 0, interruption.where

        assert each_interruption(attempt, *FILES) > 3


def test_a_message_that_has_expired_is_counted_off_when_its_poll_is_interrupted() -> None:
    """Else a consumer that is closed stays subscribed at the broker, as if a client still had it."""
    told, count = Told(), 0
    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)

        def attempt(interruption: Interruption) -> None:
            nonlocal count
            count += 1
            consumer.set_interested(True)
            broker.deliver(consumer.id, f"a{count}", expires="1000")
            told.wait(count)
            assert poll_twice(consumer, interruption, waits=False) is None, interruption.where
            assert consumer._unsettled == 0, interruption.where

        assert each_interruption(attempt, *FILES) > 10
        broker.wait_for("ACK", count)
        assert len(broker.of("ACK")) == count


def test_a_message_that_the_selector_refuses_is_not_delivered_after_an_interrupt() -> None:
    """By its true type: the broker compared texts. It is the judgement that was interrupted."""
    told, count = Told(), 0
    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, Address(AddressKind.TOPIC, "news"), told, selector="colour = 5")

        def attempt(interruption: Interruption) -> None:
            nonlocal count
            count += 1
            consumer.set_interested(True)
            broker.deliver(consumer.id, f"a{count}", colour="red")
            told.wait(count)
            assert poll_twice(consumer, interruption, waits=True) is None, interruption.where

        assert each_interruption(attempt, *FILES) > 10
        broker.wait_for("ACK", count)
        assert len(broker.of("ACK")) == count


def test_a_client_that_holds_all_that_may_be_pushed_gets_more_though_its_poll_was_interrupted() -> None:
    """It got nothing more before it settled some: what had not been said to the broker was taken for said."""

    def attempt(interruption: Interruption) -> None:
        told = Told()
        with FakeBroker() as broker, connected(broker, f"{QUICKLY}&prefetch_messages=1") as connection:
            consumer = consume(connection.open_session(transacted=False), told=told)
            epoch = connection.link.current()
            broker.deliver(consumer.id, "1")
            told.wait()
            assert consumer.poll() is not None
            with suppress(KeyboardInterrupt), interruption():
                consumer.poll()
            consumer.poll()
            if connection.link.current() is not epoch:
                return  # all of it is made anew
            connection.flush()
            made = [each.headers["id"] for each in broker.of("SUBSCRIBE")]
            assert len(made) == 2, interruption.where
            assert list(consumer.ids) == made, interruption.where
            assert list(connection._subscriptions) == made, interruption.where

    names = ("subscription", "connection", "epoch", "wire", "outbox")
    assert each_interruption(attempt, *(f"clients/stomp/{name}.py" for name in names)) > 10
