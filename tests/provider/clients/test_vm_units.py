"""Transactions, dead letters, adoption and expiry of ``vm://``."""

from __future__ import annotations

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    CapabilityError,
    ClosedError,
    RolledBackError,
)
from tests.provider.clients.world import World, consume, drain, poll
from tests.provider.helpers import ORDERS, HandClock, make_envelope, text_of

# Transactions


@pytest.mark.realises("BOIL-TX-1", "BOIL-TX-3")
def test_commit_sends_the_output_and_acknowledges_the_input(world: World) -> None:
    connection = world.connect()
    session, observer = connection.open_session(transacted=True), connection.open_session(transacted=False)
    observer.send(make_envelope("in"))
    consumer = consume(session)
    for text in ["out", "again"]:
        delivery = poll(consumer)
        session.acknowledge([delivery])
        session.send(make_envelope(text))
        assert not list(observer.browse(ORDERS, None))
        session.commit()
        assert [text_of(seen) for seen in observer.browse(ORDERS, None)] == [text]


@pytest.mark.realises("BOIL-TX-2", "BOIL-ACK-9")
def test_rollback_destroys_the_output_and_recover_returns_the_input(world: World) -> None:
    connection = world.connect()
    session, observer = connection.open_session(transacted=True), connection.open_session(transacted=False)
    observer.send(make_envelope("in"))
    consumer = consume(session)
    delivery = poll(consumer)
    session.acknowledge([delivery])
    session.send(make_envelope("out"))
    session.rollback()
    assert consumer.poll() is None, "deliveries stay with the client until recover"
    session.recover([delivery])
    again = poll(consumer)
    assert (text_of(again), again.count) == ("in", 2)
    session.acknowledge([again])
    session.commit()
    assert len(connection.broker.virtual_host.store) == 0


@pytest.mark.realises("BOIL-CONN-13", "BOIL-CONN-12")
@pytest.mark.parametrize("how", ["session", "connection"])
def test_closing_rolls_back(world: World, how: str) -> None:
    connection, observer = world.connect(), world.connect().open_session(transacted=False)
    session = connection.open_session(transacted=True)
    observer.send(make_envelope("in"))
    session.acknowledge([poll(consume(session))])
    session.send(make_envelope("out"))
    (session if how == "session" else connection).close()
    (seen,) = observer.browse(ORDERS, None)
    assert text_of(seen) == "in"
    assert seen.redelivered


def test_commit_and_rollback_of_nothing_are_allowed_in_transacted_sessions_only(world: World) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=True)
    session.commit()
    session.rollback()
    plain = connection.open_session(transacted=False)
    for call in (plain.commit, plain.rollback):
        with pytest.raises(CapabilityError, match="not transacted"):
            call()


def test_a_message_that_expires_before_the_commit_rolls_the_transaction_back(world: World) -> None:
    clock = HandClock()
    session = world.connect(clock=clock).open_session(transacted=True)
    session.send(make_envelope("short", expiration_ms=clock.now_ms + 10))
    session.send(make_envelope("long"))
    clock.now_ms += 10
    with pytest.raises(RolledBackError, match="expired before the commit"):
        session.commit()
    session.send(make_envelope("next"))
    session.commit()
    assert [text_of(seen) for seen in session.browse(ORDERS, None)] == ["next"]


def test_or_is_left_out_when_the_url_says_so(world: World) -> None:
    clock = HandClock()
    session = world.connect("?expired_in_transaction=discard", clock=clock).open_session(transacted=True)
    session.send(make_envelope("short", expiration_ms=clock.now_ms + 10))
    session.send(make_envelope("long"))
    clock.now_ms += 10
    session.commit()
    assert [text_of(seen) for seen in session.browse(ORDERS, None)] == ["long"]


# Dead letters, adoption


@pytest.mark.realises("BOIL-LSN-5")
def test_a_rejected_message_is_kept_with_the_reason(world: World) -> None:
    clock = HandClock()
    connection = world.connect(clock=clock)
    session = connection.open_session(transacted=False)
    consumer = consume(session)
    sent = make_envelope("poison", properties={"n": 1}, expiration_ms=clock.now_ms + 5, priority=7)
    session.send(sent)
    session.recover([poll(consumer)])
    session.reject(poll(consumer), "cannot be parsed")
    assert consumer.poll() is None
    clock.now_ms += 1_000
    letters = consume(session, Address(AddressKind.QUEUE, "DLQ"))
    letter = poll(letters)
    assert letter.envelope.message_id == sent.message_id
    assert (letter.envelope.body, letter.envelope.priority) == ("poison", 7)
    properties = dict(letter.envelope.properties)
    assert str(properties.pop("JMS_pyjms_deadConsumer")).startswith(world.name)
    assert properties == {
        "n": 1,
        "JMS_pyjms_deadKind": "rejected",
        "JMS_pyjms_deadReason": "cannot be parsed",
        "JMS_pyjms_deadDestination": "queue://orders",
        "JMS_pyjms_deadCount": 2,
        "JMS_pyjms_deadTime": 1_000,
    }
    session.reject(letter, "still not")
    again = poll(letters)
    assert again.envelope.properties["JMS_pyjms_deadReason"] == "still not"
    assert again.envelope.properties["JMS_pyjms_deadDestination"] == "queue://orders"


def test_a_delivery_that_is_no_longer_the_sessions_cannot_be_rejected(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    session.send(make_envelope("a"))
    delivery = poll(consume(session))
    session.acknowledge([delivery])
    session.reject(delivery, "too late")
    assert consume(session, Address(AddressKind.QUEUE, "DLQ")).poll() is None


def test_a_rejected_message_of_a_transacted_session_does_not_come_back(world: World) -> None:
    session = world.connect().open_session(transacted=True)
    session.send(make_envelope("a"))
    session.commit()
    consumer = consume(session)
    delivery = poll(consumer)
    session.acknowledge([delivery])
    session.rollback()
    session.reject(delivery, "fails always")
    session.recover([delivery])
    assert consumer.poll() is None
    assert text_of(consume(session, Address(AddressKind.QUEUE, "DLQ")).poll()) == "a"


def test_an_adopted_delivery_is_settled_by_its_new_session(world: World) -> None:
    connection = world.connect()
    receiving, working = connection.open_session(transacted=False), connection.open_session(transacted=False)
    for text in "abc":
        receiving.send(make_envelope(text))
    consumer = consume(receiving)
    a, b, c = poll(consumer), poll(consumer), poll(consumer)
    working.adopt([a, b])
    receiving.acknowledge([a])  # no longer its own
    working.acknowledge([a])
    working.close()  # gives b back
    receiving.acknowledge([c])
    assert drain(receiving, consumer) == ["b"]
    assert len(connection.broker.virtual_host.store) == 0


def test_a_closed_session_cannot_adopt(world: World) -> None:
    connection = world.connect()
    receiving, working = connection.open_session(transacted=False), connection.open_session(transacted=False)
    receiving.send(make_envelope("a"))
    delivery = poll(consume(receiving))
    working.close()
    with pytest.raises(ClosedError):
        working.adopt([delivery])
    receiving.acknowledge([delivery])


# Expiry


@pytest.mark.realises("BOIL-HDR-10", "BOIL-HDR-11")
def test_an_expired_message_is_neither_delivered_nor_shown(world: World) -> None:
    clock = HandClock()
    connection = world.connect(clock=clock)
    session = connection.open_session(transacted=False)
    consumer = consume(session)
    session.send(make_envelope("short", expiration_ms=clock.now_ms + 10))
    session.send(make_envelope("long"))
    clock.now_ms += 10
    assert [text_of(seen) for seen in session.browse(ORDERS, None)] == ["long"]
    assert drain(session, consumer) == ["long"]
