"""What is asked of a branch, and not answered in time or interrupted, is done once when it is asked again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import BranchError, InDoubtError, ProviderError, RolledBackError, StageError
from pyjms.spi.replay import StageName
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.stomp.epoch import Epoch
from pyjms_provider.clients.stomp.profiled.connection import ProfiledConnection
from pyjms_provider.clients.stomp.profiled.received_message import ReceivedMessage
from pyjms_provider.clients.stomp.profiled.session import ProfiledSession
from pyjms_provider.protocols.stomp.answers import Counted, Prepared
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.profiled.peer import NO_BEATS, Peer, linked
from tests.provider.clients.stomp.test_interrupted import when_read
from tests.provider.clients.stomp.test_reading import come_back
from tests.provider.clients.stomp.world import Events, hasten
from tests.provider.helpers import make_envelope
from tests.provider.interruptions import Interruption, each_interruption

XID, OTHER = Xid(1, b"g", b"b"), Xid(1, b"g", b"c")
UNIT, SECOND = StageName("sink", 0, 0, "a"), StageName("sink", 0, 0, "b")
FILES = (
    "clients/stomp/profiled/branch_questions.py",
    "clients/stomp/profiled/session.py",
    "clients/stomp/epoch.py",
    "clients/stomp/wire.py",
    "clients/stomp/outbox.py",
)
CALLS: dict[str, Callable[[ProfiledSession], object]] = {
    "END": lambda session: session.xa_end(XID),
    "PREPARE": lambda session: session.xa_prepare(XID),
    "COMMIT": lambda session: session.xa_commit(XID),
    "ABORT": lambda session: session.xa_rollback(XID),
    "FORGET": lambda session: session.xa_forget(XID),
}
ASK_OTHER: dict[str, Callable[[ProfiledSession], object]] = {
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


@pytest.mark.parametrize("command", ["END", "PREPARE"])
def test_what_is_interrupted_is_not_asked_twice(command: str) -> None:
    def attempt(interruption: Interruption) -> None:
        with Peer(unanswered={"PREPARE"}) as peer, linked(peer) as connection:
            peer.before_answer = lambda _, frame: answer(peer, frame) if frame.command == "PREPARE" else None
            session = connection.open_session(transacted=True)
            session.xa_start(XID)
            epoch = connection.link.current()
            with suppress(KeyboardInterrupt), interruption():
                CALLS[command](session)
            with suppress(BranchError):
                CALLS[command](session)
            if connection.link.current() is epoch:
                assert len(peer.of(command)) == 1 or interruption.where is None, interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_an_answer_that_was_there_when_the_call_was_interrupted_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Peer() as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        session.xa_start(XID)
        epoch = connection.link.current()

        def interrupted(*_: object) -> Frame:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(epoch, "_heard", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.xa_end(XID)
        monkeypatch.setattr(epoch.wire, "wait", lambda *_: pytest.fail("it waits for what is there"))
        session.xa_end(XID)
        monkeypatch.undo()
        assert len(peer.of("END")) == 1


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
        lost = ReceivedMessage(1, object(), True)  # type: ignore[arg-type]  # of no epoch of this connection
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


def interrupted(connection: ProfiledConnection, interruption: Interruption, end: str) -> tuple[ProfiledSession, Epoch]:
    """Return a session that has sent a message in a transaction whose end was interrupted, and where it did."""
    session = connection.open_session(transacted=True)
    session.send(make_envelope("a"))
    epoch = connection.link.current()
    with suppress(KeyboardInterrupt), interruption():
        getattr(session, end)()
    return session, epoch


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_whose_end_was_interrupted_is_ended_by_the_next_call(end: str) -> None:
    def attempt(interruption: Interruption) -> None:
        with Peer() as peer, linked(peer) as connection:
            session, epoch = interrupted(connection, interruption, end)
            try:
                session.acknowledge(())  # as the runtime does before each commit
                getattr(session, end)()
            except (RolledBackError, InDoubtError):
                assert connection.link.current() is not epoch, interruption.where
            if connection.link.current() is epoch:
                said = peer.of("COMMIT" if end == "commit" else "ABORT")
                assert len(said) == 1 or (said and end == "rollback"), interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_what_is_sent_after_an_interrupted_commit_is_committed_by_the_next_one() -> None:
    def attempt(interruption: Interruption) -> None:
        with Peer() as peer, linked(peer) as connection:
            session, epoch = interrupted(connection, interruption, "commit")
            with suppress(RolledBackError):  # the connection ended with the interrupt
                session.send(make_envelope("b"))
                session.commit()
            if connection.link.current() is epoch:
                assert peer.frames[-1][1].command == "COMMIT", interruption.where
                assert len(peer.of("COMMIT")) in {1, 2}, interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_a_commit_that_was_said_and_lost_its_connection_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(unanswered={"COMMIT"}) as peer, linked(peer, options=NO_BEATS) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        epoch = connection.link.current()

        def interrupted(*_: object) -> Frame:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(epoch.wire, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.commit()
        peer.wait_for("COMMIT")
        peer.cut()
        session.acknowledge(())  # as the runtime does before each commit
        with pytest.raises(InDoubtError):
            session.commit()
        session.commit()


@pytest.mark.parametrize(
    "end", [ProfiledSession.commit, lambda session: session.stage(UNIT, keep_s=60)], ids=["commit", "stage"]
)
def test_an_end_in_doubt_is_told_by_the_next_call_if_the_telling_was_interrupted(
    end: Callable[[ProfiledSession], object],
) -> None:
    """It returned, as if nothing had been open."""

    def attempt(interruption: Interruption) -> None:
        with Peer(unanswered={"COMMIT", "STAGE"}) as peer, linked(peer, options=NO_BEATS) as connection:
            peer.before_answer = lambda _, frame: answer_stage(peer, frame) if len(peer.of("STAGE")) > 1 else None
            session = connection.open_session(transacted=True)
            session.send(make_envelope("a"))
            hasten(connection.link, timeout_ms=30)
            try:
                with suppress(InDoubtError, RolledBackError), interruption():
                    end(session)
            except KeyboardInterrupt:
                assert told_by(lambda: end(session)), interruption.where
            session.commit()  # of nothing: it was told

    assert each_interruption(attempt, *FILES[:2]) > 10


def told_by(act: Callable[[], object]) -> str:
    """Return what a call raises; nothing, if it returns."""
    try:
        act()
    except ProviderError as error:
        return error.reason
    return ""


@pytest.mark.parametrize("refuses", [False, True], ids=["committed", "refused"])
def test_an_answer_is_not_waited_for_that_an_interrupted_thread_was_reading(*, refuses: bool) -> None:
    """It is known, or lost with the connection."""

    def attempt(interruption: Interruption) -> None:
        is_over = Event()

        def reply(_: int, frame: Frame) -> None:
            if frame.command == "COMMIT":
                when_read(epoch.wire, is_over, int)
                headers = {"receipt-id": frame.headers["receipt"], "message": "the disk is full"}
                with suppress(OSError):  # the connection has ended, as it may
                    peer.push(Frame("ERROR" if refuses else "RECEIPT", headers))

        with Peer(unanswered={"COMMIT"}) as peer, linked(peer, options=NO_BEATS) as connection:
            session = connection.open_session(transacted=True)
            session.send(make_envelope("a"))
            epoch = connection.link.current()
            peer.before_answer = reply
            come_back(epoch.wire)
            with suppress(KeyboardInterrupt, ProviderError), interruption():
                session.commit()
            is_over.set()
            hasten(connection.link, timeout_ms=5_000)
            session.acknowledge(())  # as the runtime does before each commit
            assert "has not answered" not in told_by(session.commit), interruption.where

    assert each_interruption(attempt, "clients/stomp/epoch.py") > 10


def test_a_refusal_of_a_commit_that_is_not_asked_for_again_is_told_to_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = Events()
    with Peer(unanswered={"COMMIT"}) as peer, linked(peer, events) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(connection.link.current().wire, "wait", interrupt)
            session.commit()
        receipt = peer.wait_for("COMMIT").headers["receipt"]
        session.send(make_envelope("b"))
        peer.push(Frame("ERROR", {"receipt-id": receipt, "message": "the disk is full"}))
        events.wait_for(1)
        assert "the disk is full" in str(events.errors[0])


def interrupt(*_: object) -> bool:
    raise KeyboardInterrupt


def answer_stage(peer: Peer, frame: Frame) -> None:
    if frame.command == "STAGE":
        peer.push(Frame("RECEIPT", {"receipt-id": frame.headers["receipt"], **Counted(1).headers()}))


@pytest.mark.parametrize(
    ("again", "told"),
    [
        (lambda session: session.stage(UNIT, keep_s=60), ""),
        (lambda session: session.stage(SECOND, keep_s=60), "being committed, or staged"),
        (lambda session: session.commit(), "being committed, or staged"),
        (lambda session: session.rollback(), ""),
    ],
    ids=["staged", "staged under another name", "committed", "rolled back"],
)
def test_a_transaction_whose_staging_was_interrupted_is_not_taken_for_an_empty_one(
    again: Callable[[ProfiledSession], object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(unanswered={"STAGE"}) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(connection.link.current().wire, "wait", interrupt)
            session.stage(UNIT, keep_s=60)
        answer_stage(peer, peer.wait_for("STAGE"))
        peer.before_answer = lambda _, frame: answer_stage(peer, frame)
        assert told in told_by(lambda: again(session))
        assert [len(peer.of(command)) for command in ("STAGE", "COMMIT", "ABORT")] == [1, 0, 0]
        assert session.stage(SECOND, keep_s=60) == 1, "of the next transaction"


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
