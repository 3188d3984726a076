"""What was begun on one connection to the pyjms broker is never ended on the next one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread, current_thread
from typing import Any

import pytest

from pyjms.spi.errors import (
    BranchError,
    ClosedError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
    TooLateError,
)
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.network.calls import ConnectionLostInCallError
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.native.peer import NO_BEATS, Peer, consumer_of, link_to, linked
from tests.provider.clients.stomp.world import ORDERS, Events, Told, hasten
from tests.provider.helpers import make_envelope, text_of


def test_a_message_of_a_lost_connection_is_not_settled_on_the_next_whose_numbers_mean_others() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        peer.deliver_to(consumer, 1)
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        peer.cut()
        peer.wait_for("SUBSCRIBE", 2)
        connection.link.current()
        with pytest.raises(TooLateError, match="come again"):
            session.acknowledge([delivery])
        session.recover([delivery])
        session.retry(delivery, "x")
        session.reject(delivery, "x")
        connection.create_temporary(ORDERS.kind)  # whatever was posted has come before this
        assert not {frame.command for _, frame in peer.frames} & {"ACK", "RETURN", "RETRY", "REJECT"}


def test_what_is_settled_together_with_a_message_of_a_lost_connection_comes_again_too() -> None:
    """A client that is told so takes back what it did because of each of them."""
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        deliveries = []
        for number in (1, 2):
            peer.deliver_to(consumer, 6 + number, make_envelope(f"of connection {number}", persistent=True))
            told.wait(number)
            delivery = consumer.poll()
            assert text_of(delivery) == f"of connection {number}"
            assert delivery is not None
            deliveries.append(delivery)
            if number == 1:
                peer.cut()
                peer.wait_for("CREDIT", 2)
                connection.link.current()
        with pytest.raises(TooLateError, match="come again"):
            session.acknowledge(deliveries)
        (returned,) = peer.of("RETURN")
        assert returned.headers["ids"] == "8"
        assert peer.of("ACK") == []


@pytest.mark.parametrize("command", ["ACK", "RETURN"])
def test_settling_that_is_cut_off_is_not_repeated_elsewhere(command: str) -> None:
    told = Told()
    with Peer(cut_before=(command, 1)) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        peer.deliver_to(consumer, 1, make_envelope("x", persistent=True))
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        if command == "ACK":
            with pytest.raises(TooLateError):
                session.acknowledge([delivery])
        else:
            session.recover([delivery])
        peer.wait_for("SUBSCRIBE", 2)
        connection.create_temporary(ORDERS.kind)
        assert len(peer.of(command)) == 1


def test_no_half_of_a_lost_transaction_is_sent_on_the_next_connection() -> None:
    events = Events()
    with Peer() as peer, linked(peer, events) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("first half"))
        peer.wait_for("SEND")
        peer.cut()
        peer.wait_for("SESSION", 2)
        connection.link.current()
        session.send(make_envelope("second half"))
        with pytest.raises(RolledBackError, match="lost in it"):
            session.commit()
        session.send(make_envelope("anew"))
        session.commit()
        assert len(peer.numbers_on(1, "SEND")) == 1
        assert len(peer.of("COMMIT")) == 1


def test_a_message_of_the_new_connection_is_not_settled_in_the_transaction_that_was_lost() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        consumer = consumer_of(session, told)
        session.send(make_envelope("first half"))
        peer.wait_for("SEND")
        peer.cut()
        peer.wait_for("CREDIT", 2)
        connection.link.current()
        peer.deliver_to(consumer, 1)
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        session.acknowledge([delivery])
        with pytest.raises(RolledBackError):
            session.commit()
        assert peer.of("ACK") == []


def test_what_was_sent_because_of_a_message_that_comes_again_is_not_committed() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        consumer = consumer_of(session, told)
        peer.deliver_to(consumer, 1)
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        peer.cut()
        peer.wait_for("CREDIT", 2)
        connection.link.current()
        session.send(make_envelope("because of it"))
        session.acknowledge([delivery])  # as the first step of a commit
        with pytest.raises(RolledBackError):
            session.commit()
        session.commit()
        assert len(peer.of("ABORT")) == 1
        assert peer.of("COMMIT") == []


def test_a_commit_that_is_cut_off_is_in_doubt_and_not_repeated() -> None:
    with Peer(cut_before=("COMMIT", 1)) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("x"))
        with pytest.raises(InDoubtError):
            session.commit()
        peer.wait_for("SESSION", 2)
        session.commit()  # there is nothing in it
        assert len(peer.of("COMMIT")) == 1


def test_work_for_a_branch_is_not_done_outside_of_it_after_a_loss() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        session.xa_start(Xid(1, b"g", b"b"))
        peer.cut()
        peer.wait_for("SESSION", 2)
        connection.link.current()
        session.send(make_envelope("x"))
        with pytest.raises(BranchError) as raised:
            session.xa_end(Xid(1, b"g", b"b"))
        assert raised.value.failure is BranchFailure.ROLLED_BACK
        assert peer.of("SEND") == []


@pytest.mark.parametrize("command", ["SESSION", "SUBSCRIBE", "START", "CREATE"])
def test_what_is_cut_off_while_it_is_made_is_made_on_the_next_connection(command: str) -> None:
    told = Told()
    with Peer(cut_before=(command, 1)) as peer:
        connection = link_to(peer)
        try:
            session = connection.open_session(transacted=False)
            address = connection.create_temporary(ORDERS.kind)
            consumer = consumer_of(session, told, address)
            peer.wait_for("CREDIT")
            peer.deliver_to(consumer, 1)
            told.wait()
            assert text_of(consumer.poll()) == "m1"
        finally:
            connection.close()


def test_a_temporary_destination_has_its_new_name_in_what_is_sent_after_a_loss() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        address = connection.create_temporary(ORDERS.kind)
        peer.cut()
        peer.wait_for("SESSION", 2)
        session.send(make_envelope("x", destination=address))
        assert peer.wait_for("SEND").headers["destination"] == "/temp-queue/t1"
        connection.delete_temporary(address)
        assert peer.wait_for("DELETE").headers["destination"] == "/temp-queue/t1"


def test_a_consumer_that_is_refused_anew_is_told_and_keeps_nobody_else_from_healing() -> None:
    events, told = Events(), Told()
    with Peer() as peer, linked(peer, events) as connection:
        session = connection.open_session(transacted=False)
        refused = consumer_of(session)
        other = consumer_of(session, told)
        peer.denied.add(refused.name)
        peer.cut()
        assert "could not be made anew" in events.wait_for(2)[1].reason
        connection.link.current()
        peer.wait_for("CREDIT", 3)
        peer.deliver_to(other, 1)
        told.wait()
        assert text_of(other.poll()) == "m1"


def test_all_can_be_closed_at_once_while_there_is_no_connection() -> None:
    events = Events()
    peer = Peer()
    with peer:
        connection = link_to(peer, events, "reconnect_delay_ms=50&reconnect_delay_max_ms=60&timeout_ms=600000")
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session)
        peer.stop()
        events.wait_for(1)
        consumer.close()
        session.close()
        connection.close()
        assert connection.state == "closed"


def test_what_is_closed_while_all_is_made_anew_does_not_stay_at_the_broker() -> None:
    closing = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session)

        def close(number: int, frame: object) -> None:
            if number == 1 and not consumer.is_open:
                return
            if number == 1 and getattr(frame, "command", "") == "SUBSCRIBE":
                consumer._is_closed = True  # `close` has begun on another thread, which has not asked yet
                closing()

        peer.before_answer = close
        peer.cut()
        closing.wait()
        assert peer.wait_for("UNSUBSCRIBE").headers["id"] == consumer.name


def test_a_browser_whose_connection_is_lost_says_so() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        messages = session.browse(ORDERS, None)
        peer.before_answer = lambda _, frame: peer.cut() if frame.command == "CREDIT" else None
        with pytest.raises(ResourceError, match="browse"):
            next(messages)


def test_a_browser_whose_session_is_closed_in_another_thread_says_so_at_once() -> None:
    ended: list[BaseException] = []
    with Peer() as peer, linked(peer, options="timeout_ms=60000") as connection:
        session = connection.open_session(transacted=False)

        def browse() -> None:
            try:
                next(session.browse(ORDERS, None))
            except ProviderError as error:
                ended.append(error)

        browsing = Thread(target=browse)
        browsing.start()
        peer.wait_for("CREDIT")
        session.close()
        browsing.join(PATIENCE_S)
        assert [type(error) for error in ended] == [ClosedError]


def test_a_broker_that_says_why_it_ends_the_connection_is_one_loss_with_that_reason() -> None:
    events = Events()
    farewell = {"code": "PYJMS-STOMP", "closing": "true", "message": "nothing was heard for 1000 ms"}
    with Peer() as peer, linked(peer, events) as connection:
        peer.push(Frame("ERROR", farewell))
        peer.cut()
        connection.open_session(transacted=False)  # on the next connection
        assert [error.code for error in events.wait_for(1)] == ["PYJMS-INTERRUPTED"]
        assert "nothing was heard for 1000 ms" in events.errors[0].reason


def test_a_commit_that_is_not_answered_in_time_is_in_doubt_and_not_said_to_be_rolled_back() -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        hasten(connection.link, timeout_ms=50)
        peer.unanswered |= {"COMMIT"}
        session.send(make_envelope("x"))
        with pytest.raises(InDoubtError, match="not answered COMMIT for 50 ms"):
            session.commit()


def test_a_branch_whose_end_is_not_answered_in_time_is_not_known_to_have_ended() -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        hasten(connection.link, timeout_ms=50)
        peer.unanswered |= {"COMMIT"}
        with pytest.raises(BranchError, match="not answered COMMIT for 50 ms") as raised:
            session.xa_commit(Xid(1, b"g", b"b"))
        assert raised.value.failure is BranchFailure.UNREACHABLE


def test_a_message_whose_receipt_does_not_come_in_time_is_in_doubt() -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=False)
        hasten(connection.link, timeout_ms=50)
        peer.unanswered |= {"SEND"}
        with pytest.raises(InDoubtError, match="not answered SEND for 50 ms"):
            session.send(make_envelope("x", persistent=True))


class PausingLock:
    """A lock of a physical connection in which one call waits: it holds up any other thread that lets go of it when what is waited for has come."""

    def __init__(self, physical: PhysicalConnection) -> None:
        self.found, self.go_on = Event(), Event()
        self._physical = physical
        self._asker = current_thread()
        self._real = Lock()

    def __enter__(self) -> None:
        self._real.acquire()

    def __exit__(self, *_: object) -> None:
        is_found = all(answer.is_there for answer in self._physical._answers.values())
        self._real.release()
        if is_found and current_thread() is not self._asker:
            self.found.set()
            assert self.go_on.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("come", "heard"),
    [
        (lambda peer, receipt: peer.push(Frame("RECEIPT", {"receipt-id": receipt, "x": "done"})), "done"),
        (lambda peer, receipt: peer.push(Frame("ERROR", {"receipt-id": receipt, "message": "refused"})), "refused"),
        (lambda peer, receipt: peer.cut(), "closed"),
    ],
    ids=["answer", "refusal", "end"],
)
def test_what_comes_as_the_wait_is_given_up_is_what_the_call_is_told(
    monkeypatch: pytest.MonkeyPatch, come: Callable[[Peer, str], None], heard: str
) -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        physical = connection.link.current()
        lock = PausingLock(physical)

        def give_up(*_: object) -> bool:
            monkeypatch.undo()
            monkeypatch.setattr(physical, "_lock", lock)
            come(peer, peer.wait_for("IDENTIFY").headers["receipt"])
            return not lock.found.wait(PATIENCE_S)

        peer.unanswered.add("IDENTIFY")
        monkeypatch.setattr(physical, "wait", give_up)
        try:
            told = physical.request(Frame("IDENTIFY", {})).headers["x"]
        except (ProviderError, ConnectionLostInCallError) as error:
            told = str(error)
        finally:
            lock.go_on.set()
        assert heard in told


def test_acknowledging_nothing_does_nothing() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        session.acknowledge([])
        connection.create_temporary(ORDERS.kind)  # whatever was posted has come before this
        assert not peer.of("ACK")


def test_messages_whose_acknowledgement_is_not_answered_in_time_are_settled_perhaps() -> None:
    told = Told()
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        peer.deliver_to(consumer, 1, make_envelope("x", persistent=True))
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        hasten(connection.link, timeout_ms=50)
        peer.unanswered |= {"ACK"}
        with pytest.raises(TooLateError, match="not answered ACK for 50 ms"):
            session.acknowledge([delivery])


def test_a_session_that_is_closed_twice_says_nothing_more_to_the_broker() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        for _ in range(2):
            session.end_waits()
            session.close()
        connection.create_temporary(ORDERS.kind)  # whatever was posted has come before this
        assert len(peer.of("INTERRUPT")) == len(peer.of("ENDSESSION")) == 1


def count_waits(monkeypatch: pytest.MonkeyPatch, connection: NativeConnection) -> list[object]:
    """Note each wait for an answer from now on."""
    waits, wire = list[object](), connection.link.newest
    wait = wire.wait

    def noted(*arguments: Any) -> bool:
        waits.append(arguments)
        return wait(*arguments)

    monkeypatch.setattr(wire, "wait", noted)
    return waits


def test_a_broker_that_stands_still_is_waited_for_once_however_much_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        sessions = [connection.open_session(transacted=False) for _ in range(3)]
        consumers = [consumer_of(session) for session in sessions for _ in range(2)]
        hasten(connection.link, timeout_ms=50)
        waits = count_waits(monkeypatch, connection)
        peer.unanswered |= {"UNSUBSCRIBE", "ENDSESSION", "DISCONNECT"}
        sessions[0].close()
        with pytest.raises(ResourceError, match="not waited for"):
            consumers[2].close()
        connection.close()
        assert len(waits) == 1
        peer.wait_for("UNSUBSCRIBE", len(consumers))
        peer.wait_for("ENDSESSION", len(sessions))


def test_a_broker_that_has_said_something_again_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        sessions = [connection.open_session(transacted=False) for _ in range(2)]
        consumer = consumer_of(connection.open_session(transacted=False), told)
        hasten(connection.link, timeout_ms=50)
        waits = count_waits(monkeypatch, connection)
        peer.unanswered |= {"ENDSESSION"}
        sessions[0].close()
        peer.deliver_to(consumer, 1)
        told.wait()
        sessions[1].close()
        assert len(waits) == 2


def test_waits_end_though_the_broker_does_not_read_and_much_waits_to_be_sent() -> None:
    release = Event()
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=False)
        envelope = make_envelope("x" * 500_000)
        session.send(envelope)  # from now on it needs no answer
        hasten(connection.link, timeout_ms=50)

        def stand_still(number: int, frame: Frame) -> None:
            release.wait(PATIENCE_S)

        peer.before_answer = stand_still
        try:
            with pytest.raises(ResourceError, match="has not read"):
                for _ in range(100):
                    session.send(envelope)
            connection.link.newest._buffer.put(b"\n" * 1_000_000, needs_room=False)  # so there is none for a byte
            session.end_waits()
        finally:
            release.set()
        peer.wait_for("INTERRUPT")


def test_a_broker_whose_greeting_is_not_understood_is_left() -> None:
    def greet(number: int, frame: Frame) -> None:
        if frame.command == "CONNECT":
            broker.push(Frame("CONNECTED", {"version": "1.2", "server": "pyjms/9", "pyjms-profile": "1"}))

    with FakeBroker(unanswered={"CONNECT"}, on_frame=greet) as broker:
        with pytest.raises(ProviderError, match=r"lacks the number transaction-timeout.*one version of pyjms"):
            link_to(broker)
        serving = broker._threads[-1]
        serving.join(PATIENCE_S)
        assert not serving.is_alive()
