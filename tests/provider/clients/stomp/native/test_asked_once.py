"""What is asked of a branch, and not answered in time or interrupted, is done once when it is asked again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import BranchError, CapabilityError, InDoubtError, RolledBackError, StageError
from pyjms.spi.replay import StageName
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.clients.stomp.native.consumer import ReceivedMessage
from pyjms_provider.clients.stomp.native.session import NativeSession
from pyjms_provider.protocols.profile.answers import Prepared
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.native.peer import NO_BEATS, Peer, linked
from tests.provider.clients.stomp.world import Events, hasten
from tests.provider.helpers import make_envelope

XID, OTHER = Xid(1, b"g", b"b"), Xid(1, b"g", b"c")
UNIT, SECOND = StageName("sink", 0, 0, "a"), StageName("sink", 0, 0, "b")
CALLS: dict[str, Callable[[NativeSession], object]] = {
    "END": lambda session: session.xa_end(XID),
    "PREPARE": lambda session: session.xa_prepare(XID),
    "COMMIT": lambda session: session.xa_commit(XID),
    "ABORT": lambda session: session.xa_rollback(XID),
    "FORGET": lambda session: session.xa_forget(XID),
}
ASK_OTHER: dict[str, Callable[[NativeSession], object]] = {
    "PREPARE": lambda session: session.xa_prepare(OTHER),
    "COMMIT": lambda session: session.xa_commit(OTHER),
    "ABORT": lambda session: session.xa_rollback(OTHER),
    "FORGET": lambda session: session.xa_forget(OTHER),
}


def answer(peer: Peer, frame: Frame) -> None:
    said = Prepared(needs_commit=True).headers() if frame.command == "PREPARE" else {}
    peer.push(Frame("RECEIPT", {"receipt-id": frame.headers["receipt"], **said}))


@pytest.mark.parametrize("command", CALLS)
def test_what_is_answered_late_is_not_asked_twice(command: str) -> None:
    with Peer(unanswered={command}) as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        session.xa_start(XID)
        hasten(connection.link, timeout_ms=1)
        with pytest.raises(BranchError) as raised:
            CALLS[command](session)
        assert raised.value.failure is BranchFailure.UNREACHABLE
        hasten(connection.link, timeout_ms=10_000)
        answer(peer, peer.wait_for(command))
        CALLS[command](session)
        assert len(peer.of(command)) == 1


def test_an_error_that_came_after_the_wait_is_what_the_next_call_tells() -> None:
    events = Events()
    with Peer(unanswered={"PREPARE"}) as peer, linked(peer, events, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        hasten(connection.link, timeout_ms=1)
        with pytest.raises(BranchError):
            session.xa_prepare(XID)
        hasten(connection.link, timeout_ms=10_000)
        receipt = peer.wait_for("PREPARE").headers["receipt"]
        headers = {"receipt-id": receipt, "code": "PYJMS-XA", "failure": "rolled-back", "message": "it is over"}
        peer.push(Frame("ERROR", headers))
        with pytest.raises(BranchError, match="it is over"):
            session.xa_prepare(XID)
        assert events.errors == []
        peer.before_answer = lambda _, frame: answer(peer, frame) if frame.command == "PREPARE" else None
        assert session.xa_prepare(XID)  # which is asked for anew
        assert len(peer.of("PREPARE")) == 2


def test_another_question_is_asked() -> None:
    with Peer(unanswered={"END"}) as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        hasten(connection.link, timeout_ms=1)
        for xid in (XID, OTHER):
            with pytest.raises(BranchError):
                session.xa_end(xid)
        assert peer.wait_for("END", 2).headers["xid"] != peer.of("END")[0].headers["xid"]


@pytest.mark.parametrize("command", ["PREPARE", "COMMIT", "ABORT", "FORGET"])
def test_what_other_threads_ask_of_other_branches_makes_no_second_question_of_it(command: str) -> None:
    """The second time the branch was not known any more (XAER_NOTA), as the first one had been done."""
    with Peer(unanswered={command}) as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        hasten(connection.link, timeout_ms=1)
        for ask in (CALLS[command], lambda session: session.xa_end(XID), ASK_OTHER[command]):
            with suppress(BranchError):
                ask(session)
        hasten(connection.link, timeout_ms=10_000)
        peer.wait_for(command, 2)
        for frame in peer.of(command):
            answer(peer, frame)
        for ask in (ASK_OTHER[command], CALLS[command]):
            ask(session)
        assert len({frame.headers["xid"] for frame in peer.of(command)}) == len(peer.of(command))


def test_a_branch_of_the_same_name_is_asked_anew() -> None:
    with Peer(unanswered={"ABORT"}) as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        hasten(connection.link, timeout_ms=1)
        with pytest.raises(BranchError):
            session.xa_rollback(XID)
        hasten(connection.link, timeout_ms=10_000)
        session.xa_start(XID)
        peer.before_answer = lambda _, frame: answer(peer, frame) if frame.command == "ABORT" else None
        session.xa_rollback(XID)
        assert len(peer.of("ABORT")) == 2


def test_a_branch_that_has_acknowledged_what_comes_again_fails_also_when_its_end_is_asked_for_twice() -> None:
    with Peer(unanswered={"END"}) as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        session.xa_start(XID)
        lost = ReceivedMessage(1, object(), True)  # type: ignore[arg-type]  # of no physical of this connection
        session.acknowledge([Delivery(make_envelope("a"), 1, False, lost)])
        hasten(connection.link, timeout_ms=1)
        for _ in range(2):
            with pytest.raises(BranchError):
                session.xa_end(XID)
        assert [frame.headers["mode"] for frame in peer.of("END")] == ["fail"]


def test_the_end_of_a_branch_whose_connection_was_lost_is_a_rollback() -> None:
    """And no call at a wrong time (XAER_PROTO): the transaction manager has done nothing wrong."""
    events = Events()
    with Peer() as peer, linked(peer, events) as connection:
        session = connection.open_session(transacted=True)
        session.xa_start(XID)
        peer.cut()
        events.wait_for(1)
        for _ in range(2):
            with pytest.raises(BranchError, match="connection was lost") as raised:
                session.xa_end(XID)
            assert raised.value.failure is BranchFailure.ROLLED_BACK
        session.xa_rollback(XID)
        session.xa_start(OTHER)
        session.xa_end(OTHER)
        assert [frame.headers["xid"] for frame in peer.of("END")] == ["1:67:63"]


def test_an_end_that_was_lost_is_a_rollback_when_it_is_asked_for_again() -> None:
    with Peer(cut_before=("END", 1)) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        session.xa_start(XID)
        failures = []
        for _ in range(2):
            with pytest.raises(BranchError) as raised:
                session.xa_end(XID)
            failures.append(raised.value.failure)
        assert failures == [BranchFailure.UNREACHABLE, BranchFailure.ROLLED_BACK]
        assert len(peer.of("END")) == 1


def test_a_staging_that_is_refused_leaves_the_transaction_as_it_was() -> None:
    def refuse(_: int, frame: Frame) -> None:
        if frame.command == "STAGE":
            peer.push(Frame("ERROR", {"receipt-id": frame.headers["receipt"], "code": "PYJMS-STAGE", "message": "no"}))

    with Peer(unanswered={"STAGE"}) as peer, linked(peer) as connection:
        peer.before_answer = refuse
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        for name in (UNIT, SECOND):
            with pytest.raises(StageError, match="no"):
                session.stage(name, keep_s=60)
        session.commit()
        assert len(peer.of("COMMIT")) == 1


# The open transaction that becomes a branch


def open_frames(peer: Peer) -> list[Frame]:
    """Return what asked for the open transaction to be prepared."""
    return [frame for frame in peer.of("PREPARE") if frame.headers.get("open") == "true"]


def test_a_transaction_that_did_nothing_is_not_prepared() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        assert session.prepare(XID) is False
        assert open_frames(peer) == []


def test_a_prepare_that_is_answered_late_is_not_asked_twice_whatever_the_session_does() -> None:
    with Peer(unanswered={"PREPARE"}) as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        hasten(connection.link, timeout_ms=1)
        with pytest.raises(InDoubtError):
            session.prepare(XID)
        hasten(connection.link, timeout_ms=10_000)
        session.send(make_envelope("b"))
        answer(peer, peer.wait_for("PREPARE"))
        assert session.prepare(XID)
        assert len(open_frames(peer)) == 1
        session.commit()
        assert len(peer.of("COMMIT")) == 1, "what was sent meanwhile is another transaction"


def test_a_prepare_whose_connection_was_lost_stays_in_doubt() -> None:
    with Peer(cut_before=("PREPARE", 1)) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        for _ in range(2):
            with pytest.raises(InDoubtError, match="lost"):
                session.prepare(XID)
        assert len(open_frames(peer)) == 1
        session.xa_rollback(XID)
        assert session.prepare(XID) is False


def test_a_transaction_whose_connection_was_lost_before_is_rolled_back_by_its_prepare() -> None:
    events = Events()
    with Peer() as peer, linked(peer, events) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        peer.cut()
        events.wait_for(1)
        with pytest.raises(RolledBackError, match="connection was lost"):
            session.prepare(XID)
        assert open_frames(peer) == []
        assert session.prepare(XID) is False


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"code": "PYJMS-ROLLED-BACK"}, RolledBackError),
        ({"code": "PYJMS-XA", "failure": "DUPLICATE"}, BranchError),
        ({"code": "PYJMS-IN-DOUBT"}, InDoubtError),
    ],
    ids=["rolled back", "duplicate", "in doubt"],
)
def test_after_a_refused_prepare_a_new_transaction_begins(headers: dict[str, str], kind: type[Exception]) -> None:
    def refuse(_: int, frame: Frame) -> None:
        if frame.command == "PREPARE":
            peer.push(Frame("ERROR", {"receipt-id": frame.headers["receipt"], "message": "no", **headers}))

    with Peer(unanswered={"PREPARE"}) as peer, linked(peer) as connection:
        peer.before_answer = refuse
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        with pytest.raises(kind, match="no"):
            session.prepare(XID)
        session.commit()
        assert peer.of("COMMIT") == []


def test_a_session_in_a_branch_goes_on_in_it_after_a_prepare_at_a_wrong_time() -> None:
    def refuse(_: int, frame: Frame) -> None:
        if frame.command == "PREPARE":
            headers = {"code": "PYJMS-XA", "failure": "PROTOCOL", "message": "it works in a branch"}
            peer.push(Frame("ERROR", {"receipt-id": frame.headers["receipt"], **headers}))

    with Peer(unanswered={"PREPARE"}) as peer, linked(peer) as connection:
        peer.before_answer = refuse
        session = connection.open_session(transacted=True)
        session.xa_start(OTHER)
        with pytest.raises(BranchError, match="works in a branch"):
            session.prepare(XID)
        session.xa_end(OTHER)
        assert "mode" not in peer.of("END")[0].headers, "it has not failed"


def test_a_broker_that_does_not_say_that_it_can_prepare_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer() as peer, linked(peer) as connection:
        monkeypatch.setattr(NativeConnection, "can_prepare", False)
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        with pytest.raises(CapabilityError, match="older"):
            session.prepare(XID)
        session.commit()
        assert open_frames(peer) == []
