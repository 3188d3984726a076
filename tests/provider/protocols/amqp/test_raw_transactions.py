"""Part 4, frame by frame, against a broker: transactions by the coordinator."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.amqp.codec import write_value
from pyjms_provider.amqp.errors import Condition
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    RELEASED,
    Close,
    Coordinator,
    Declare,
    Declared,
    Detach,
    Discharge,
    Disposition,
    End,
    Properties,
    Rejected,
    Source,
    Target,
    TransactionalState,
    write,
)
from pyjms_provider.clients.vm import VmSession
from tests.provider.protocols.amqp.raw import RawPeer, text
from tests.provider.protocols.amqp.raw_broker import QUEUE, RawBroker, bare, closing, drained, fresh

CONTROL = 9
"""The handle of the coordinator's link."""
REJECTABLE = Source(outcomes=("amqp:accepted:list", "amqp:rejected:list"))


def value(record: object) -> bytes:
    """Return a message with a record as its value."""
    return b"\x00\x53\x77" + write(record)


def controlled(broker: RawBroker, source: Source = REJECTABLE) -> RawPeer:
    """Return a connection with a link to the coordinator."""
    peer = broker.in_session()
    peer.attach_sender(Coordinator(("amqp:local-transactions",)), name="control", handle=CONTROL, source=source)
    return peer


def declare(peer: RawPeer) -> bytes:
    """Begin a transaction, and return its id."""
    state = peer.outcome(value(Declare()), handle=CONTROL)
    assert isinstance(state, Declared)
    return state.txn_id


def discharge(peer: RawPeer, txn: bytes, *, fail: bool = False) -> Any:
    """End a transaction, and return the outcome."""
    return peer.outcome(value(Discharge(txn, fail)), handle=CONTROL)


@pytest.mark.amqp_rule("4.1-a")
def test_the_coordinator_says_what_it_can(broker: RawBroker) -> None:
    with closing(broker.in_session()) as peer:
        answer = peer.attach_sender(Coordinator(("amqp:local-transactions",)), name="control", handle=CONTROL)
        assert isinstance(answer.target, Coordinator)
        assert "amqp:local-transactions" in answer.target.capabilities


@pytest.mark.amqp_rule("4.2-a", "4.2-b", "4.3-a", "4.3-b")
def test_transactions_of_a_session_are_told_apart(broker: RawBroker) -> None:
    name = fresh()
    with closing(controlled(broker)) as peer:
        peer.attach_sender(Target(name, capabilities=QUEUE))
        first, second = declare(peer), declare(peer)
        assert first != second
        for txn, words in ((first, "undone"), (second, "done")):
            state = peer.outcome(text(words), state=TransactionalState(txn))
            assert state == TransactionalState(txn, ACCEPTED)
        assert discharge(peer, second) == ACCEPTED
        assert discharge(peer, first, fail=True) == ACCEPTED
    assert broker.left(name) == [text("done")]


@pytest.mark.amqp_rule("4.2-c")
def test_a_global_transaction_is_not_implemented(broker: RawBroker) -> None:
    peer = controlled(broker)
    state = peer.outcome(value(Declare("a global id")), handle=CONTROL)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == Condition.NOT_IMPLEMENTED
    peer.close()


@pytest.mark.amqp_rule("4.3-c")
def test_an_unknown_transaction_is_rejected(broker: RawBroker) -> None:
    with closing(controlled(broker)) as peer:
        declare(peer)
        state = discharge(peer, b"nobody's")
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == Condition.UNKNOWN_TRANSACTION
        txn = declare(peer)
        assert discharge(peer, txn) == ACCEPTED
        state = discharge(peer, txn)
        assert isinstance(state, Rejected)


@pytest.mark.amqp_rule("4.3-d")
def test_without_rejected_a_discharge_that_fails_closes_the_link(broker: RawBroker) -> None:
    peer = controlled(broker, Source(outcomes=("amqp:accepted:list",)))
    declare(peer)
    peer.transfer(value(Discharge(b"nobody's")), handle=CONTROL)
    error = peer.expect(Detach).error
    assert error is not None
    assert error.condition == Condition.UNKNOWN_TRANSACTION


@pytest.mark.amqp_rule("4.3-e")
@pytest.mark.parametrize("ends", ["link", "session", "connection", "socket"])
def test_a_transaction_ends_with_its_link(broker: RawBroker, ends: str) -> None:
    name = fresh()
    broker.put(name, text("taken"))
    peer = controlled(broker)
    peer.attach_sender(Target(name, capabilities=QUEUE))
    peer.attach_receiver(Source(name, capabilities=QUEUE), credit=1)
    number = peer.receive()[0].delivery_id
    assert number is not None
    txn = declare(peer)
    peer.outcome(text("posted"), state=TransactionalState(txn))
    peer.settle(number, TransactionalState(txn, ACCEPTED))
    if ends == "link":
        peer.send(Detach(CONTROL, closed=True))
        peer.expect(Detach)
        peer.close()
    elif ends == "session":
        peer.send(End())
        peer.expect(End)
    elif ends == "connection":
        peer.close()
    else:
        peer.wire.close()
    with closing(broker.receiver(name, credit=5)) as other:
        transfer, data = other.receive()
        assert bare(data) == text("taken")
        assert transfer.delivery_id is not None
        other.settle(transfer.delivery_id, ACCEPTED)
        assert other.received_by_now() == []


@pytest.mark.parametrize("ends", ["link", "session"])
def test_a_transaction_that_cannot_be_rolled_back_keeps_no_other_one_open(
    broker: RawBroker, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rolled_back: list[VmSession] = []
    closed: list[VmSession] = []
    close = VmSession.close

    def fail(session: VmSession) -> NoReturn:
        rolled_back.append(session)
        raise ResourceError(f"no room for the rollback {len(rolled_back)}")

    def note(session: VmSession) -> None:
        closed.append(session)
        close(session)

    peer = controlled(broker)
    for _ in range(3):
        declare(peer)
    monkeypatch.setattr(VmSession, "rollback", fail)
    monkeypatch.setattr(VmSession, "close", note)
    peer.send(Detach(CONTROL, closed=True) if ends == "link" else End())
    told: Detach | End = peer.expect(Detach) if ends == "link" else peer.expect(End)
    error = told.error
    assert error is not None
    assert "no room for the rollback 1" in (error.description or "")
    assert len(rolled_back) == 3
    assert set(rolled_back) <= set(closed)
    # The session of the client's own is closed as well.
    assert len(set(closed)) == (4 if ends == "session" else 3)
    monkeypatch.undo()
    peer.close()


@pytest.mark.amqp_rule("4.3-f")
def test_the_coordinator_takes_no_other_message(broker: RawBroker) -> None:
    peer = controlled(broker)
    peer.transfer(b"\x00\x53\x77" + write_value("declare"), handle=CONTROL)
    told = peer.expect(Disposition | Detach | End | Close)  # type: ignore[arg-type]
    error = told.state.error if isinstance(told, Disposition) else told.error
    assert error is not None


@pytest.mark.amqp_rule("4.4.1-a", "4.4.4-a", "4.4.4-b")
def test_what_is_posted_comes_with_the_commit(broker: RawBroker) -> None:
    name = fresh()
    with closing(controlled(broker)) as peer, closing(broker.receiver(name, credit=5)) as other:
        peer.attach_sender(Target(name, capabilities=QUEUE))
        txn = declare(peer)
        for words in ("one", "two"):
            state = peer.outcome(text(words), state=TransactionalState(txn))
            assert state == TransactionalState(txn, ACCEPTED)
        assert other.received_by_now() == []
        assert peer.outcome(text("outside")) == ACCEPTED
        seen = [other.receive()]
        assert discharge(peer, txn) == ACCEPTED
        seen += [other.receive(), other.receive()]
        assert [bare(data) for _, data in seen] == [text("outside"), text("one"), text("two")]
        for transfer, _ in seen:
            assert transfer.delivery_id is not None
            other.settle(transfer.delivery_id, ACCEPTED)


@pytest.mark.amqp_rule("4.4.1-a")
def test_settled_messages_are_posted_too(broker: RawBroker) -> None:
    name = fresh()
    with closing(controlled(broker)) as peer:
        peer.attach_sender(Target(name, capabilities=QUEUE))
        for fail in (True, False):
            txn = declare(peer)
            peer.transfer(text(f"fail: {fail}"), state=TransactionalState(txn), settled=True)
            assert discharge(peer, txn, fail=fail) == ACCEPTED
    assert broker.left(name) == [text("fail: False")]


@pytest.mark.amqp_rule("4.4.1-b")
def test_a_message_of_an_unknown_transaction_is_not_taken(broker: RawBroker) -> None:
    name = fresh()
    peer = controlled(broker)
    peer.attach_sender(Target(name, capabilities=QUEUE))
    peer.transfer(text("x"), state=TransactionalState(b"nobody's"))
    told = peer.expect(Disposition | Detach | End | Close)  # type: ignore[arg-type]
    error = told.state.error if isinstance(told, Disposition) else told.error
    assert error is not None
    assert error.condition == Condition.UNKNOWN_TRANSACTION
    assert broker.left(name) == []


@pytest.mark.amqp_rule("4.4.1-c")
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_commit_comes_after_the_end_of_the_link(broker: RawBroker, is_closed: bool) -> None:
    name = fresh()
    with closing(controlled(broker)) as peer:
        peer.attach_sender(Target(name, capabilities=QUEUE))
        txn = declare(peer)
        peer.outcome(text("x"), state=TransactionalState(txn))
        peer.send(Detach(0, closed=is_closed))
        peer.expect(Detach)
        assert discharge(peer, txn) == ACCEPTED
    assert broker.left(name) == [text("x")]


@pytest.mark.amqp_rule("4.4.2-a", "4.4.2-b", "4.4.4-b")
@pytest.mark.parametrize("fail", [True, False])
def test_outcomes_come_with_the_commit(broker: RawBroker, fail: bool) -> None:
    name = fresh()
    broker.put(name, text("one"), text("two"), text("outside"))
    with closing(controlled(broker)) as peer:
        peer.attach_receiver(Source(name, capabilities=QUEUE), credit=3)
        numbers = [peer.receive()[0].delivery_id or 0 for _ in range(3)]
        txn = declare(peer)
        peer.settle(numbers[0], TransactionalState(txn, ACCEPTED), last=numbers[1])
        peer.settle(numbers[2], ACCEPTED)
        assert peer.received_by_now() == []
        assert discharge(peer, txn, fail=fail) == ACCEPTED
    assert broker.left(name) == ([text("one"), text("two")] if fail else [])


@pytest.mark.amqp_rule("4.4.2-c")
def test_an_outcome_of_an_unknown_transaction_changes_nothing(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("stays"))
    peer = controlled(broker)
    peer.attach_receiver(Source(name, capabilities=QUEUE), credit=1)
    number = peer.receive()[0].delivery_id
    assert number is not None
    peer.settle(number, TransactionalState(b"nobody's", ACCEPTED))
    error = peer.expect(Detach | End | Close).error  # type: ignore[arg-type]
    assert error is not None
    assert error.condition == Condition.UNKNOWN_TRANSACTION
    peer.wire.close()
    with closing(broker.receiver(name, credit=1)) as other:
        transfer, data = other.receive()
        assert bare(data) == text("stays")
        assert transfer.delivery_id is not None
        other.settle(transfer.delivery_id, ACCEPTED)


@pytest.mark.amqp_rule("4.4.3-a")
@pytest.mark.parametrize("fail", [True, False])
def test_what_a_transaction_acquires_is_given_back_with_it(broker: RawBroker, fail: bool) -> None:
    name = fresh()
    broker.put(name, text("one"), text("two"))
    peer = controlled(broker)
    peer.attach_receiver(Source(name, capabilities=QUEUE))
    txn = declare(peer)
    peer.give_credit(2, properties={"txn-id": txn})
    (first, _), (second, _) = peer.receive(), peer.receive()
    assert first.state == second.state == TransactionalState(txn)
    assert first.delivery_id is not None
    assert second.delivery_id is not None
    peer.settle(first.delivery_id, TransactionalState(txn, ACCEPTED))
    peer.transfer(value(Discharge(txn, fail)), handle=CONTROL)
    told = [peer.expect(Disposition) for _ in range(2 if fail else 1)]
    states = {each.role: (each.settled, each.state) for each in told}
    assert states.pop(True) == (True, ACCEPTED)
    assert states == ({False: (True, RELEASED)} if fail else {})
    with closing(broker.receiver(name)) as other:
        seen = [bare(data) for _, data in drained(other)]
    assert seen == ([text("one"), text("two")] if fail else [])
    peer.wire.close()


@pytest.mark.amqp_rule("4.4.3-b")
def test_an_unknown_transaction_acquires_nothing(broker: RawBroker) -> None:
    name = fresh()
    broker.put(name, text("stays"))
    peer = controlled(broker)
    peer.attach_receiver(Source(name, capabilities=QUEUE))
    peer.give_credit(1, properties={"txn-id": b"nobody's"})
    error = peer.expect(Detach).error
    assert error is not None
    assert error.condition == Condition.UNKNOWN_TRANSACTION
    assert broker.left(name) == [text("stays")]


@pytest.mark.amqp_rule("4.3-g", "4.3-d")
@pytest.mark.parametrize("is_rejectable", [True, False])
def test_a_transaction_of_which_a_settled_message_failed_is_rolled_back(broker: RawBroker, is_rejectable: bool) -> None:
    name = fresh()
    peer = controlled(broker, REJECTABLE if is_rejectable else Source(outcomes=("amqp:accepted:list",)))
    peer.attach_sender(Target(None))
    txn = declare(peer)
    for to in (name, "temp-queue://not-there"):
        message = write(Properties(to=to)) + text("x")
        peer.transfer(message, state=TransactionalState(txn), settled=True)
    peer.transfer(value(Discharge(txn)), handle=CONTROL)
    told = peer.expect(Disposition | Detach)  # type: ignore[arg-type]
    assert isinstance(told, Disposition) is is_rejectable
    error = told.state.error if isinstance(told, Disposition) else told.error
    assert error is not None
    assert error.condition == Condition.TRANSACTION_ROLLBACK
    assert broker.left(name) == []


@pytest.mark.amqp_rule("relay-2.2.2-b", "4.3-g")
def test_a_message_of_a_transaction_that_cannot_be_rejected_closes_its_link(broker: RawBroker) -> None:
    peer = controlled(broker)
    peer.attach_sender(Target(None), source=Source(outcomes=("amqp:accepted:list",)))
    txn = declare(peer)
    message = write(Properties(to="temp-queue://not-there")) + text("x")
    peer.transfer(message, delivery_tag=b"tag", state=TransactionalState(txn))
    error = peer.expect(Detach).error
    assert error is not None
    info = dict(error.info or {})
    assert info.get("code", "PYJMS-DESTINATION") == "PYJMS-DESTINATION"  # only ours has a code
    assert (error.condition, info["delivery-tag"]) == (Condition.NOT_FOUND, b"tag")
    state = discharge(peer, txn)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == Condition.TRANSACTION_ROLLBACK
