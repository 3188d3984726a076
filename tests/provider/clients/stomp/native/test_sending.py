"""Which messages wait for the broker's answer: in a transaction the first one to each destination, and what may have gone since."""

from __future__ import annotations

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import AccessDeniedError, InDoubtError
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S
from tests.provider.clients.stomp.native.peer import NO_BEATS, Peer, linked
from tests.provider.clients.stomp.world import ORDERS, Events, hasten
from tests.provider.helpers import NEWS, make_envelope

GONE = Address(AddressKind.QUEUE, "others-1", temporary=True)


def asked(peer: Peer) -> list[bool]:
    """Return of each SEND whether it was to be answered."""
    return ["receipt" in frame.headers for frame in peer.of("SEND")]


@pytest.mark.parametrize("persistent", [False, True])
def test_the_first_one_to_each_destination_is_answered_and_the_rest_wait_for_the_commit(persistent: bool) -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        for _ in range(2):
            for destination in (ORDERS, ORDERS, NEWS, ORDERS, NEWS):
                session.send(make_envelope("x", destination=destination, persistent=persistent))
            session.commit()
        assert asked(peer) == [True, False, True, False, False, *[False] * 5]


def test_each_one_is_answered_where_the_broker_writes_them_all() -> None:
    for writes_all in (True, False):
        with Peer(persists_all=writes_all) as peer, linked(peer) as connection:
            session = connection.open_session(transacted=False)
            for persistent in (False, False, True):
                session.send(make_envelope("x", persistent=persistent))
            assert asked(peer) == [True, writes_all, True]


def test_a_temporary_destination_of_others_is_asked_for_each_persistent_message() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        for persistent in (False, False, True, True, False):
            session.send(make_envelope("x", destination=GONE, persistent=persistent))
        session.commit()
        assert asked(peer) == [True, False, True, True, False]


def test_one_of_its_own_is_asked_for_each_time() -> None:
    with Peer() as peer, linked(peer) as connection:
        session, own = connection.open_session(transacted=True), connection.create_temporary(AddressKind.QUEUE)
        for persistent in (False, True, False):
            session.send(make_envelope("x", destination=own, persistent=persistent))
        session.commit()
        assert asked(peer) == [True, True, True]


@pytest.mark.parametrize("transacted", [False, True])
def test_after_a_refusal_that_nobody_waited_for_each_destination_is_asked_for_again(transacted: bool) -> None:
    events = Events()
    with Peer() as peer, linked(peer, events) as connection:
        session = connection.open_session(transacted=transacted)
        message = make_envelope("x", persistent=False)
        session.send(message)
        session.send(message)
        peer.push(Frame("ERROR", {"code": "PYJMS-ACCESS", "message": "not any more"}))
        assert isinstance(events.wait_for(1)[0], AccessDeniedError)
        session.send(message)
        session.send(message)
        if transacted:
            session.commit()
        else:
            peer.wait_for("SEND", 4)
        assert asked(peer) == [True, False, True, False]


def test_one_that_is_refused_is_no_part_of_the_transaction_and_the_rest_is_committed() -> None:
    with Peer() as peer, linked(peer) as connection:

        def refuse(_: int, frame: Frame) -> None:
            if frame.command == "SEND" and frame.body == b"no":
                receipt = frame.headers.pop("receipt")
                peer.push(Frame("ERROR", {"receipt-id": receipt, "code": "PYJMS-ACCESS", "message": "not yours"}))

        peer.before_answer = refuse
        session = connection.open_session(transacted=True)
        session.send(make_envelope("yes"))
        for _ in range(2):  # not only the first time
            with pytest.raises(AccessDeniedError, match="not yours"):
                session.send(make_envelope("no", destination=NEWS))
        session.commit()
        assert (len(peer.of("COMMIT")), peer.of("ABORT")) == (1, [])


def test_one_that_is_not_answered_in_time_is_in_doubt() -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        hasten(connection.link, timeout_ms=50)
        peer.unanswered.add("SEND")
        with pytest.raises(InDoubtError, match="has not answered SEND"):
            session.send(make_envelope("x"))
        hasten(connection.link, timeout_ms=int(PATIENCE_S * 1000))
        session.rollback()
