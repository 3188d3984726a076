"""What a call asked for that was not answered in time is taken back: nobody has it, and it would be in the way of a second try."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from pyjms.spi.errors import BranchError, ResourceError
from pyjms.spi.xid import Xid
from pyjms_provider.clients.stomp.profiled.connection import ProfiledConnection
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S
from tests.provider.clients.stomp.profiled.peer import Peer, consumer_of, linked
from tests.provider.clients.stomp.world import ORDERS

SHORTLY = "timeout_ms=50&heart_beat_ms=0"


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture
def connection(peer: Peer) -> Iterator[ProfiledConnection]:
    with linked(peer, options=SHORTLY) as connection:
        yield connection


def hold_up(peer: Peer, command: str) -> Event:
    """Have the broker answer such a frame when the event is set."""
    given_up = Event()

    def wait(number: int, frame: Frame) -> None:
        if frame.command == command:
            assert given_up.wait(PATIENCE_S)

    peer.before_answer = wait
    return given_up


def test_a_consumer_is_ended_in_the_order_of_its_session(peer: Peer, connection: ProfiledConnection) -> None:
    session = connection.open_session(transacted=False)
    peer.unanswered |= {"SUBSCRIBE"}
    with pytest.raises(ResourceError, match="not answered SUBSCRIBE for 50 ms"):
        consumer_of(session)
    ended = peer.wait_for("UNSUBSCRIBE").headers
    assert ended["id"] == peer.of("SUBSCRIBE")[0].headers["id"]
    assert ended["session"] == session.name


def test_a_session_is_ended(peer: Peer, connection: ProfiledConnection) -> None:
    peer.unanswered |= {"SESSION"}
    with pytest.raises(ResourceError, match="not answered SESSION for 50 ms"):
        connection.open_session(transacted=False)
    assert peer.wait_for("ENDSESSION").headers["session"] == peer.of("SESSION")[0].headers["session"]


def test_a_temporary_destination_is_deleted_when_its_name_comes(peer: Peer, connection: ProfiledConnection) -> None:
    given_up = hold_up(peer, "CREATE")
    with pytest.raises(ResourceError, match="not answered CREATE for 50 ms"):
        connection.create_temporary(ORDERS.kind)
    given_up.set()
    assert peer.wait_for("DELETE").headers["destination"] == "/temp-queue/t0"


@pytest.mark.parametrize(
    ("start", "ends"),
    [
        ({}, ["fail", "ABORT"]),
        ({"join": True}, ["success"]),
        ({"resume": True}, ["suspend"]),
    ],
)
def test_a_branch_is_left_as_it_was(
    peer: Peer, connection: ProfiledConnection, start: dict[str, bool], ends: list[str]
) -> None:
    session, xid = connection.open_session(transacted=True), Xid(1, b"g", b"b")
    given_up = hold_up(peer, "BEGIN")
    with pytest.raises(BranchError, match="not answered BEGIN for 50 ms"):
        session.xa_start(xid, **start)
    given_up.set()
    peer.wait_for("END")
    if not start:
        peer.wait_for("ABORT")
    session.close()  # after all that was said before
    said = [frame for _, frame in peer.frames if frame.command in {"END", "ABORT"}]
    left = {"END": "success", "ABORT": "ABORT"}  # success is not written
    assert [frame.headers.get("mode", left[frame.command]) for frame in said] == ends
    assert len({frame.headers["xid"] for frame in said}) == 1
