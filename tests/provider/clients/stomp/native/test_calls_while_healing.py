"""What a client asks for while its connection is made anew is done as soon as there is one, and once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S
from tests.provider.clients.stomp.native.peer import NO_BEATS, Peer, linked
from tests.provider.clients.stomp.world import ORDERS, Events, hasten


@contextmanager
def healing(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Peer, NativeConnection]]:
    """Give a connection that has been lost; the broker answers CONNECT again as soon as somebody waits for a connection."""
    is_awaited, events = Event(), Events()
    with Peer() as peer, linked(peer, events) as connection:
        answer, current = peer.on_frame, connection.link.current

        def answer_late(number: int, frame: Frame) -> None:
            if frame.command == "CONNECT":
                is_awaited.wait(PATIENCE_S)
            answer(number, frame)

        def await_connection() -> object:
            is_awaited.set()
            try:
                return current()
            finally:
                is_awaited.clear()  # so that the next loss lasts until somebody waits, too

        peer.on_frame = answer_late
        monkeypatch.setattr(connection.link, "current", await_connection)
        yield peer, connection
        is_awaited.set()


def lose(peer: Peer, connection: NativeConnection) -> None:
    physical = connection.link.newest
    peer.cut()
    physical.join(PATIENCE_S)
    assert connection.state == "reconnecting"


def test_a_session_that_is_opened_while_all_is_made_anew_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with healing(monkeypatch) as (peer, connection):
        lose(peer, connection)
        session = connection.open_session(transacted=False)
        assert [frame.headers["session"] for frame in peer.of("SESSION")] == [session.name]


def test_who_starts_and_stops_does_not_wait_for_the_next_connection_which_hears_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with healing(monkeypatch) as (peer, connection):
        connection.stop()
        lose(peer, connection)
        connection.start()
        connection.stop()
        connection.start()
        assert connection.state == "reconnecting"
        connection.link.current()
        assert len(peer.numbers_on(1, "START")) == 1
        lose(peer, connection)
        connection.stop()
        connection.link.current()
        assert len(peer.numbers_on(2, "START")) == 0


def test_who_stops_in_the_moment_in_which_the_start_is_made_anew_is_heard_last() -> None:
    events = Events()
    with Peer() as peer, linked(peer, events) as connection:

        def stop(number: int, frame: Frame) -> None:
            if number == 1 and frame.command == "START":
                connection.is_started = False  # by a call on another thread, whose STOP came before this START

        peer.before_answer = stop
        peer.cut()
        events.wait_for(1)
        connection.link.current()
        assert [frame.command for number, frame in peer.frames if number == 1][-2:] == ["START", "STOP"]


def test_a_start_that_is_not_answered_has_had_no_effect() -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        connection.stop()
        hasten(connection.link, timeout_ms=50)
        peer.unanswered |= {"START"}
        with pytest.raises(ResourceError, match="not answered START for 50 ms"):
            connection.start()
        assert not connection.is_started
        peer.wait_for("STOP", 2)


def test_a_stop_that_is_not_answered_stops_all_the_same() -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        hasten(connection.link, timeout_ms=50)
        peer.unanswered |= {"STOP"}
        connection.stop()
        assert not connection.is_started


def test_a_temporary_destination_is_deleted_under_the_name_that_it_has_on_the_new_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with healing(monkeypatch) as (peer, connection):
        address = connection.create_temporary(ORDERS.kind)
        lose(peer, connection)
        connection.delete_temporary(address)
        assert peer.wait_for("DELETE").headers["destination"] == "/temp-queue/t1"
        assert not connection.owns(address)


def test_a_temporary_destination_whose_deletion_is_cut_off_is_deleted_on_the_next_connection() -> None:
    with Peer(cut_before=("DELETE", 1)) as peer, linked(peer) as connection:
        address = connection.create_temporary(ORDERS.kind)
        connection.delete_temporary(address)
        assert [frame.headers["destination"] for frame in peer.of("DELETE")] == ["/temp-queue/t0", "/temp-queue/t1"]
        assert not connection.owns(address)


def test_a_temporary_destination_that_is_deleted_while_it_is_made_anew_does_not_stay_at_the_broker() -> None:
    with Peer() as peer, linked(peer) as connection:
        address = connection.create_temporary(ORDERS.kind)

        def delete(number: int, frame: Frame) -> None:
            if number == 1 and frame.command == "CREATE":  # the last answer of the connection before has come only now
                connection._here.pop(connection._at_broker.pop(address))

        peer.before_answer = delete
        peer.cut()
        assert peer.wait_for("DELETE").headers["destination"] == "/temp-queue/t1"
        assert not connection.owns(address)
