"""Sends: confirmed by the broker's outcome, as far as its credit goes, and in doubt when the connection is lost."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    ClosedError,
    DestinationError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
)
from pyjms_provider.amqp.errors import LinkFault
from pyjms_provider.amqp.performatives import ACCEPTED, RELEASED, Error, Modified, Open, Rejected
from pyjms_provider.protocols.amqp.connection import ConnectionSettings
from tests.provider.clients.amqp.peer import PATIENCE_S, Peer, text_of
from tests.provider.clients.amqp.world import NEWS, ORDERS, QUICKLY, Events, connected, consume, message, session_at
from tests.pyjms.runtime.helpers import eventually


def test_a_send_returns_when_the_broker_has_accepted(peer: Peer) -> None:
    with session_at(peer) as session:
        session.send(message("one"))
        assert [text_of(kept.data) for kept in peer.queue("orders")] == ["one"]
        session.send(message("two", NEWS))
    target = [attach.target for attach in peer.attaches]
    assert [(each.address, each.capabilities) for each in target] == [("orders", ("queue",)), ("news", ("topic",))]


def test_a_destination_has_one_link(peer: Peer) -> None:
    with session_at(peer) as session:
        for number in range(3):
            session.send(message(str(number)))
    assert len(peer.attaches) == 1


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Rejected(Error("amqp:not-found", "gone")), DestinationError),
        (Rejected(Error("amqp:resource-limit-exceeded", "full")), ResourceError),
        (RELEASED, ResourceError),
        (Modified(True), ResourceError),
    ],
)
def test_a_message_that_is_not_taken_is_an_error(peer: Peer, outcome: object, kind: type[ProviderError]) -> None:
    peer.script.outcome = lambda address, data: outcome
    with session_at(peer) as session:
        with pytest.raises(kind):
            session.send(message("one"))
        peer.script.outcome = lambda address, data: ACCEPTED
        session.send(message("two"))  # the link is still good


def test_a_link_that_is_refused_is_the_error_of_the_send(peer: Peer) -> None:
    peer.script.refuse = lambda link: LinkFault("amqp:not-found", "there is no such queue")
    with session_at(peer) as session:
        with pytest.raises(DestinationError, match="there is no such queue"):
            session.send(message("one"))
        peer.script.refuse = lambda link: None
        session.send(message("two"))
    names = [attach.name for attach in peer.attaches]
    assert len(set(names)) == len(names) == 2  # some brokers hang on the name of a refused one


def test_a_link_that_the_broker_detaches_is_asked_for_again(peer: Peer) -> None:
    with session_at(peer) as session:
        session.send(message("one"))
        peer.do(lambda connection: connection.links[0].detach(fault=LinkFault("amqp:link:detach-forced", "so")))
        # The detach may be under way while the next message is sent: then that is refused, and nothing is lost.
        sent = 1
        for number in range(2):
            try:
                session.send(message(str(number)))
                sent += 1
            except ProviderError:
                continue
        assert len(peer.queue("orders")) == sent >= 2


def test_a_send_waits_for_credit_and_goes_on(peer: Peer) -> None:
    peer.script.credit = 0
    with session_at(peer) as session:
        thread = Thread(target=session.send, args=(message("one"),))
        thread.start()
        peer.wait_for(lambda: any(connection.links for connection in peer.connections))
        assert not peer.queue("orders")
        peer.script.credit = 1
        peer.do(lambda connection: connection.links[0].give_credit(1))  # type: ignore[attr-defined]
        thread.join()
        assert len(peer.queue("orders")) == 1


def test_a_send_without_credit_ends_in_its_time_and_was_not_sent(peer: Peer) -> None:
    peer.script.credit = 0
    with session_at(peer, "timeout_ms=50") as session, pytest.raises(ResourceError, match="given no credit"):
        session.send(message("one"))


def test_the_close_of_the_session_ends_a_wait_for_credit(peer: Peer) -> None:
    peer.script.credit = 0
    errors: list[Exception] = []

    with session_at(peer) as session:

        def send() -> None:
            try:
                session.send(message("one"))
            except ProviderError as error:
                errors.append(error)

        thread = Thread(target=send)
        thread.start()
        peer.wait_for(lambda: any(connection.links for connection in peer.connections))
        while thread.is_alive() and not errors:
            session.end_waits()
            thread.join(0.01)
        assert isinstance(errors[0], ClosedError)
        session.close()


@pytest.mark.parametrize("call", ["send", "send without a wait", "subscribe", "send in a transaction", "browse"])
def test_the_end_of_a_sessions_waits_ends_its_wait_for_a_connection(peer: Peer, call: str) -> None:
    errors: list[ProviderError] = []
    with connected(peer) as connection:
        session = connection.open_session(transacted="in" in call.split())
        calls: dict[str, Callable[[], object]] = {
            "send": lambda: session.send(message("one")),
            "send without a wait": lambda: session.send_async(message("one"), lambda error: None),
            "subscribe": lambda: consume(session),
            "send in a transaction": lambda: session.send(message("one")),
            "browse": lambda: list(session.browse(ORDERS, None)),
        }
        peer.stop_listening()
        peer.cut()

        def run() -> None:
            try:
                calls[call]()
            except ProviderError as error:
                errors.append(error)

        eventually(lambda: connection.state == "reconnecting", "the loss is known")
        thread = Thread(target=run)
        thread.start()
        eventually(lambda: connection.failover._waiting, "it waits")
        session.end_waits()
        thread.join(PATIENCE_S)
        assert [type(error) for error in errors] == [ClosedError]
        with pytest.raises(ClosedError):  # a later one as well
            calls[call]()


def test_a_link_that_is_made_after_the_end_of_a_sessions_waits_waits_for_no_credit(peer: Peer) -> None:
    peer.script.credit = 0
    with session_at(peer) as session:
        session.end_waits()
        with pytest.raises(ClosedError):
            session.send(message("one"))


def test_a_large_message_goes_in_many_frames(peer: Peer) -> None:
    peer.script.settings = ConnectionSettings(frame_size_max=1024, incoming_window=4)
    text = "x" * 200_000
    with session_at(peer) as session:
        session.send(message(text))
        session.send(message("after"))
        assert [text_of(kept.data) for kept in peer.queue("orders")] == [text, "after"]


def test_a_message_that_amqp_cannot_say_is_refused_before_it_is_sent(peer: Peer) -> None:
    with session_at(peer) as session:
        with pytest.raises(ProviderError, match="cannot be sent over AMQP"):
            session.send(message("\ud800"))
        assert not peer.attaches


def test_a_send_without_an_answer_is_in_doubt(peer: Peer) -> None:
    peer.script.outcome = lambda address, data: None
    with session_at(peer, "timeout_ms=50") as session, pytest.raises(InDoubtError, match="has not answered"):
        session.send(message("one"))


def test_a_connection_that_is_lost_while_a_message_is_sent_leaves_it_in_doubt(peer: Peer) -> None:
    events = Events()
    with connected(peer, QUICKLY, events) as connection:
        session = connection.open_session(transacted=False)
        session.send(message("one"))
        peer.script.cut_at = "transfer"
        with pytest.raises(InDoubtError):
            session.send(message("two"))
        events.wait_for(1)
        session.send(message("three"))
        assert [text_of(kept.data) for kept in peer.queue("orders")] == ["one", "three"]


@pytest.mark.parametrize("step", ["begin", "attach"])
def test_a_connection_that_is_lost_before_a_message_is_sent_loses_nothing(peer: Peer, step: str) -> None:
    with connected(peer) as connection:
        if step == "begin":
            peer.script.cut_at = step
        session = connection.open_session(transacted=False)
        if step == "attach":
            peer.script.cut_at = step
        session.send(message("two"))
        assert [text_of(kept.data) for kept in peer.queue("orders")] == ["two"]


def test_links_for_sending_are_limited(peer: Peer) -> None:
    with session_at(peer) as session:
        for number in range(120):
            session.send(message("x", Address(AddressKind.QUEUE, f"queue-{number}")))
        with peer.changed:
            assert len(peer.connections[-1].links) <= 100
        session.send(message("again", Address(AddressKind.QUEUE, "queue-0")))
        assert len(peer.queue("queue-0")) == 2


# Transactions


def test_messages_of_a_transaction_are_there_with_the_commit(peer: Peer) -> None:
    with session_at(peer, transacted=True) as session:
        session.commit()
        for number in range(5):
            session.send(message(str(number)))
        assert not peer.queue("orders")
        session.commit()
        assert [text_of(kept.data) for kept in peer.queue("orders")] == list("01234")
        session.send(message("dropped"))
        session.rollback()
        session.send(message("kept"))
        session.commit()
        assert [text_of(kept.data) for kept in peer.queue("orders")] == [*"01234", "kept"]


def test_a_message_that_is_refused_in_a_transaction_rolls_it_back(peer: Peer) -> None:
    with session_at(peer, transacted=True) as session:
        session.send(message("one"))
        peer.script.outcome = lambda address, data: Rejected(Error("amqp:resource-limit-exceeded", "full"))
        session.send(message("two"))
        with pytest.raises(RolledBackError, match="full"):
            session.commit()
        peer.script.outcome = lambda address, data: ACCEPTED
        session.send(message("three"))
        session.commit()
        assert [text_of(kept.data) for kept in peer.queue("orders")] == ["three"]


def test_a_destination_that_is_refused_begins_no_transaction(peer: Peer) -> None:
    peer.script.refuse = lambda link: LinkFault("amqp:not-found", "no queue")
    with session_at(peer, transacted=True) as session:
        with pytest.raises(DestinationError):
            session.send(message("one"))
        session.commit()
    assert len(peer.attaches) == 1


def test_a_commit_that_the_broker_refuses_is_rolled_back(peer: Peer) -> None:
    with session_at(peer, transacted=True) as session:
        session.send(message("one"))
        peer.script.discharge = lambda fail: Rejected(Error("amqp:transaction:rollback", "too late"))
        with pytest.raises(RolledBackError, match="too late"):
            session.commit()
        peer.script.discharge = lambda fail: ACCEPTED
        session.send(message("two"))
        session.commit()
        assert [text_of(kept.data) for kept in peer.queue("orders")] == ["two"]


def test_a_commit_without_an_answer_is_in_doubt(peer: Peer) -> None:
    with session_at(peer, "timeout_ms=200", transacted=True) as session:
        session.send(message("one"))
        peer.script.discharge = lambda fail: None
        with pytest.raises(InDoubtError):
            session.commit()
        peer.script.discharge = lambda fail: ACCEPTED


def test_a_connection_that_is_lost_in_a_commit_leaves_it_in_doubt(peer: Peer) -> None:
    with session_at(peer, transacted=True) as session:
        session.send(message("one"))
        peer.script.cut_at = "discharge"
        with pytest.raises(InDoubtError):
            session.commit()
        session.send(message("two"))
        session.commit()
        assert [text_of(kept.data) for kept in peer.queue("orders")] == ["two"]


@pytest.mark.parametrize("step", ["declare", "transfer"])
def test_a_connection_that_is_lost_in_a_transaction_rolls_it_back(peer: Peer, step: str) -> None:
    events = Events()
    with connected(peer, QUICKLY, events) as connection:
        session = connection.open_session(transacted=True)
        peer.script.cut_at = step
        session.send(message("one"))
        events.wait_for(1)
        session.send(message("two"))
        with pytest.raises(RolledBackError):
            session.commit()
        session.send(message("three"))
        session.commit()
        assert [text_of(kept.data) for kept in peer.queue("orders")] == ["three"]


def test_a_large_transaction_does_not_wait_in_memory(peer: Peer) -> None:
    text = "x" * 1_000_000
    with session_at(peer, transacted=True) as session:
        for _ in range(10):
            session.send(message(text))
        session.commit()
        assert len(peer.queue("orders")) == 10


# NON_PERSISTENT messages to a broker that keeps them in memory


def _in_memory(peer: Peer) -> None:
    peer.script.open = Open("peer", offered_capabilities=("pyjms:non-persistent-in-memory",))


def test_after_the_first_a_message_that_may_be_lost_waits_for_no_outcome(peer: Peer) -> None:
    _in_memory(peer)
    with session_at(peer, QUICKLY.replace("timeout_ms=10000", "timeout_ms=300")) as session:
        session.send(message("0", delivery_mode=1))
        peer.script.outcome = lambda address, data: None  # it answers no more
        for number in range(1, 4):
            session.send(message(str(number), delivery_mode=1))
        with pytest.raises(InDoubtError):
            session.send(message("4"))


def test_messages_without_a_wait_come_in_order_and_before_a_later_one_with_a_wait(peer: Peer) -> None:
    _in_memory(peer)
    with session_at(peer) as session:
        for number in range(300):
            session.send(message(str(number), delivery_mode=2 if number % 100 == 99 else 1))
    assert [text_of(kept.data) for kept in peer.queue("orders")] == [str(number) for number in range(300)]


def test_a_message_without_a_wait_is_written_soon(peer: Peer) -> None:
    _in_memory(peer)
    with session_at(peer) as session:
        for number in range(4):
            session.send(message(str(number), delivery_mode=1))
        peer.wait_for(lambda: len(peer.queue("orders")) == 4)


def test_a_refusal_that_no_send_waits_for_is_told_and_the_next_send_waits(peer: Peer) -> None:
    _in_memory(peer)
    events = Events()
    with connected(peer, events=events) as connection:
        session = connection.open_session(transacted=False)
        session.send(message("0", delivery_mode=1))
        peer.script.outcome = lambda address, data: Rejected(Error("amqp:resource-limit-exceeded", "full"))
        session.send(message("1", delivery_mode=1))
        (told,) = events.wait_for(1)
        assert isinstance(told, ResourceError)
        assert "full" in told.reason
        with pytest.raises(ResourceError, match="full"):
            session.send(message("2", delivery_mode=1))
        peer.script.outcome = lambda address, data: ACCEPTED
        session.send(message("3", delivery_mode=1))
        session.send(message("4", delivery_mode=1))
        peer.wait_for(lambda: len(peer.queue("orders")) == 3)
    assert len(events.errors) == 1


def test_the_end_of_a_link_is_told_once_for_all_messages_on_their_way(peer: Peer) -> None:
    _in_memory(peer)
    events = Events()
    with connected(peer, events=events) as connection:
        session = connection.open_session(transacted=False)
        session.send(message("0", delivery_mode=1))
        peer.script.outcome = lambda address, data: None
        for number in range(1, 4):
            session.send(message(str(number), delivery_mode=1))
        link = next(iter(session._senders.values()))
        peer.wait_for(lambda: len(link._pending) == 3)
        peer.do(lambda served: served.links[0].detach(fault=LinkFault("amqp:resource-deleted", "gone")))
        (told,) = events.wait_for(1)
        assert "gone" in told.reason
        peer.script.outcome = lambda address, data: ACCEPTED
        session.send(message("5", delivery_mode=1))
    assert len(events.errors) == 1


def test_each_message_to_an_own_temporary_queue_waits(peer: Peer) -> None:
    _in_memory(peer)
    with connected(peer) as connection:
        session = connection.open_session(transacted=False)
        answers = connection.create_temporary(AddressKind.QUEUE)
        session.send(message("0", answers, delivery_mode=1))
        peer.script.outcome = lambda address, data: Rejected(Error("amqp:not-found", "gone"))
        with pytest.raises(DestinationError):
            session.send(message("1", answers, delivery_mode=1))


def test_without_that_promise_each_message_waits(peer: Peer) -> None:
    with session_at(peer) as session:
        session.send(message("0", delivery_mode=1))
        peer.script.outcome = lambda address, data: Rejected(Error("amqp:not-found", "gone"))
        with pytest.raises(DestinationError):
            session.send(message("1", delivery_mode=1))
