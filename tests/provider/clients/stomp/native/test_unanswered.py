"""What a call asked for that was not answered in time is taken back: nobody has it, and it would be in the
way of a second try."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, get_ident
from typing import Any

import pytest

from pyjms.spi.errors import AccessDeniedError, BranchError, ResourceError
from pyjms.spi.xid import Xid
from pyjms_provider.clients.stomp.failover import StompFailoverConnection
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.protocols.profile.commands import Start
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S
from tests.provider.clients.stomp.native.peer import NO_BEATS, Peer, consumer_of, linked
from tests.provider.clients.stomp.world import ORDERS, hasten

MADE = {"session": ("SESSION", "ENDSESSION", "session"), "consumer": ("SUBSCRIBE", "UNSUBSCRIBE", "id")}
"""By what a call makes: the commands that make and end it, and the header that names it."""


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture
def connection(peer: Peer) -> Iterator[NativeConnection]:
    with linked(peer, options=NO_BEATS) as connection:
        yield connection


def give_up_soon(connection: NativeConnection) -> None:
    hasten(connection.link, timeout_ms=50)


def hold_up(peer: Peer, command: str, *, of_connection: int = 0) -> Event:
    """Have the broker answer such a frame when the event is set."""
    given_up = Event()

    def wait(number: int, frame: Frame) -> None:
        if (number, frame.command) == (of_connection, command):
            assert given_up.wait(PATIENCE_S)

    peer.before_answer = wait
    return given_up


def test_a_consumer_is_ended_in_the_order_of_its_session(peer: Peer, connection: NativeConnection) -> None:
    session = connection.open_session(transacted=False)
    give_up_soon(connection)
    peer.unanswered |= {"SUBSCRIBE"}
    with pytest.raises(ResourceError, match="not answered SUBSCRIBE for 50 ms"):
        consumer_of(session)
    ended = peer.wait_for("UNSUBSCRIBE").headers
    assert ended["id"] == peer.of("SUBSCRIBE")[0].headers["id"]
    assert ended["session"] == session.name


def test_a_session_is_ended(peer: Peer, connection: NativeConnection) -> None:
    give_up_soon(connection)
    peer.unanswered |= {"SESSION"}
    with pytest.raises(ResourceError, match="not answered SESSION for 50 ms"):
        connection.open_session(transacted=False)
    assert peer.wait_for("ENDSESSION").headers["session"] == peer.of("SESSION")[0].headers["session"]


def test_what_is_refused_is_not_taken_back(peer: Peer, connection: NativeConnection) -> None:
    session = connection.open_session(transacted=False)
    peer.denied.add(f"{session.name}.1")
    with pytest.raises(AccessDeniedError):
        consumer_of(session)
    session.close()  # after all that was said before
    assert peer.of("UNSUBSCRIBE") == []


def test_a_temporary_destination_is_deleted_when_its_name_comes(peer: Peer, connection: NativeConnection) -> None:
    given_up = hold_up(peer, "CREATE")
    give_up_soon(connection)
    with pytest.raises(ResourceError, match="not answered CREATE for 50 ms"):
        connection.create_temporary(ORDERS.kind)
    given_up.set()
    assert peer.wait_for("DELETE").headers["destination"] == "/temp-queue/t0"


@pytest.mark.parametrize("what", MADE)
def test_what_is_given_up_while_all_is_made_anew_is_not_left_behind(
    peer: Peer, connection: NativeConnection, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Who makes all anew has it on his list, and comes to it after the call has failed."""
    make, end, header = MADE[what]
    session = connection.open_session(transacted=False)
    if what == "consumer":
        consumer_of(session)
    given_up = hold_up(peer, make, of_connection=1)
    real, main = StompFailoverConnection.current, get_ident()

    def current(link: StompFailoverConnection, *arguments: Any) -> PhysicalConnection:
        if get_ident() == main and len(peer.of(make)) >= 2:
            peer.wait_for(make, 3)  # that of the first, which waits for its answer
            raise ResourceError("no connection")
        return real(link, *arguments)

    monkeypatch.setattr(StompFailoverConnection, "current", current)
    peer.cut_before = (make, 2)
    with pytest.raises(ResourceError, match="no connection"):
        _ = connection.open_session(transacted=False) if what == "session" else consumer_of(session)
    monkeypatch.undo()
    given_up.set()
    lost = peer.of(make)[1].headers[header]
    connection.request_until_answered(Start())  # after all that was said before
    said = [frame.command for at, frame in peer.frames if at == 1 and frame.headers.get(header) == lost]
    assert make in said
    assert said[-1] == end


@pytest.mark.parametrize(
    ("start", "ends"),
    [
        ({}, ["fail", "ABORT"]),
        ({"join": True}, ["success"]),
        ({"resume": True}, ["suspend"]),
    ],
)
def test_a_branch_is_left_as_it_was(
    peer: Peer, connection: NativeConnection, start: dict[str, bool], ends: list[str]
) -> None:
    session, xid = connection.open_session(transacted=True), Xid(1, b"g", b"b")
    given_up = hold_up(peer, "BEGIN")
    give_up_soon(connection)
    with pytest.raises(BranchError, match="not answered BEGIN for 50 ms"):
        session.xa_start(xid, **start)
    hasten(connection.link, timeout_ms=int(PATIENCE_S * 1000))  # for what is asked of a broker that answers again
    given_up.set()
    peer.wait_for("END")
    if not start:
        peer.wait_for("ABORT")
    session.close()  # after all that was said before
    said = [frame for _, frame in peer.frames if frame.command in {"END", "ABORT"}]
    left = {"END": "success", "ABORT": "ABORT"}  # success is not written
    assert [frame.headers.get("mode", left[frame.command]) for frame in said] == ends
    assert len({frame.headers["xid"] for frame in said}) == 1
