"""Transactions over several shards: each step fails once, and the outcome is all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import NoReturn

import pytest

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import (
    BranchError,
    CapabilityError,
    ClosedError,
    ConnectionLostError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
    StageError,
)
from pyjms.spi.provider import ProviderSession, SubscribeRequest
from pyjms.spi.replay import StageName
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.cluster.session import ClusterSession, SessionPart
from pyjms_provider.clients.vm import VmConnection, VmSession
from pyjms_provider.cluster.placement import ShardPlace
from pyjms_tck.spi.environment import envelope
from tests.provider.cluster.clients import PATIENCE_S, Client, consume, in_shard, take
from tests.provider.cluster.fake import SHARDS

NOTHING: list[list[str]] = [[], [], [], []]
ALL = [["0"], ["1"], ["2"], ["3"]]


def send_to_all(client: Client) -> ClusterSession:
    """Return a session whose open transaction has sent a message to each shard."""
    session = client.session(transacted=True)
    for number in range(SHARDS):
        client.send(str(number), session=session, to=number)
    return session


def test_a_transaction_over_all_shards_is_committed(client: Client) -> None:
    session = send_to_all(client)
    assert client.all_left() == NOTHING
    session.commit()
    assert client.all_left() == ALL
    assert (client.cluster.decisions.rows, client.cluster.in_doubt()) == ({}, 0)


def test_a_transaction_over_all_shards_is_rolled_back(client: Client) -> None:
    session = send_to_all(client)
    session.rollback()
    session.commit()
    assert client.all_left() == NOTHING


def test_messages_move_between_shards_in_one_transaction(client: Client) -> None:
    client.send("a", "b", to=0)
    client.send("c", to=1)
    session = client.session(transacted=True)
    received = [take(*consume(session, client.queues[number])) for number in (0, 1)]
    client.send("moved", session=session, to=3)
    session.acknowledge(received)
    session.commit()
    session.close()
    assert client.all_left() == [["b"], [], [], ["moved"]]


@pytest.mark.parametrize(
    ("error", "written"),
    [
        (ResourceError("the database refused it"), False),
        (InDoubtError("no answer"), False),
        (InDoubtError("no answer"), True),
    ],
    ids=["refused", "unknown", "unknown and written"],
)
def test_a_decision_that_fails(client: Client, error: ProviderError, written: bool) -> None:
    client.send("order", to=0)
    session = client.session(transacted=True)
    consumer, ready = consume(session, client.queues[0])
    delivery = take(consumer, ready)
    client.send("bill", session=session, to=1)
    session.acknowledge([delivery])
    decisions = client.cluster.decisions
    if written:
        decisions.fails_after = error
    else:
        decisions.fails_before = error
    with pytest.raises(RolledBackError if isinstance(error, ResourceError) else InDoubtError):
        session.commit()
    if isinstance(error, ResourceError):
        session.recover([delivery])
    else:
        assert client.cluster.in_doubt() == 2
        client.cluster.settle()
    assert client.cluster.in_doubt() == 0
    session.close()
    assert client.left(0) == ([] if written else [("order", True)])
    assert client.left(1) == ([("bill", False)] if written else [])


@pytest.mark.parametrize("at", [1, 2])
def test_a_prepare_that_is_refused_rolls_all_back(client: Client, at: int) -> None:
    session = send_to_all(client)
    parts = {part.shard.place: part for part in session.parts()}
    (part,) = [part for place, part in parts.items() if getattr(place, "number", None) == at]
    inner = part.session
    assert inner is not None

    def refuse(xid: Xid) -> bool:
        inner.rollback()
        raise RolledBackError("no space")

    inner.prepare = refuse  # type: ignore[method-assign]
    with pytest.raises(RolledBackError, match="no space"):
        session.commit()
    session.commit()
    client.cluster.settle()
    assert client.all_left() == NOTHING
    assert client.cluster.in_doubt() == 0


@pytest.mark.parametrize("at", [1, 2])
def test_a_prepare_without_an_answer_rolls_all_back(client: Client, at: int) -> None:
    session = send_to_all(client)
    (part,) = [part for part in session.parts() if getattr(part.shard.place, "number", None) == at]
    inner = part.session
    assert inner is not None
    prepare = inner.prepare

    def lose(xid: Xid) -> bool:
        prepare(xid)
        raise InDoubtError("no answer")

    inner.prepare = lose  # type: ignore[method-assign]
    with pytest.raises(RolledBackError, match="no answer"):
        session.commit()
    assert client.cluster.decisions.left, "the cluster is to roll back what may be prepared"
    client.cluster.settle()
    assert client.all_left() == NOTHING


@pytest.mark.parametrize("moved", [0, 1])
@pytest.mark.parametrize("commits", [True, False], ids=["after the decision", "before the decision"])
def test_a_leader_that_moves_at_the_decision_applies_it(client: Client, moved: int, commits: bool) -> None:
    session = send_to_all(client)
    decisions = client.cluster.decisions
    if commits:
        decisions.after_commit = lambda: client.cluster.move(moved)
        session.commit()
    else:
        decisions.before_commit = lambda: client.cluster.move(moved)
        decisions.fails_before = ResourceError("the database refused it")
        with pytest.raises(RolledBackError):
            session.commit()
    client.cluster.settle()
    assert client.cluster.in_doubt() == 0
    assert client.all_left() == (ALL if commits else NOTHING)


@pytest.mark.parametrize("moved", [0, 1])
def test_what_is_sent_after_a_commit_follows_it_though_a_leader_had_died(client: Client, moved: int) -> None:
    session = send_to_all(client)
    client.cluster.decisions.after_commit = lambda: client.cluster.move(moved)
    session.commit()
    client.send("later", to=moved)
    assert client.left(moved) == [(str(moved), False), ("later", False)]
    assert (client.cluster.decisions.rows, client.cluster.in_doubt()) == ({}, 0)


def test_a_part_that_its_leader_has_committed_by_the_decision_is_done(client: Client) -> None:
    session = send_to_all(client)
    client.cluster.decisions.after_commit = client.cluster.settle
    session.commit()
    assert client.cluster.decisions.rows == {}
    assert client.all_left() == ALL


def test_the_members_have_taken_the_coordinator_for_dead(client: Client) -> None:
    session = send_to_all(client)
    decisions = client.cluster.decisions
    decisions.before_commit = client.cluster.settle
    with pytest.raises(RolledBackError, match="took this one for dead"):
        session.commit()
    client.cluster.settle()
    assert client.all_left() == NOTHING


@pytest.mark.parametrize("moved", [0, 1])
def test_a_leader_that_moves_in_an_open_transaction_rolls_it_back(client: Client, moved: int) -> None:
    session = send_to_all(client)
    client.cluster.move(moved)
    with pytest.raises(RolledBackError):
        session.commit()
    client.cluster.settle()
    assert client.all_left() == NOTHING
    again = send_to_all(client)
    again.commit()
    assert client.all_left() == ALL


@pytest.mark.parametrize("moved", [0, 1])
def test_work_after_a_leader_has_moved_belongs_to_the_transaction_that_is_lost(client: Client, moved: int) -> None:
    session = client.session(transacted=True)
    client.send("before", session=session, to=moved)
    client.cluster.move(moved)
    client.send("after", session=session, to=moved)
    with pytest.raises(RolledBackError):
        session.commit()
    client.send("next", session=session, to=moved)
    session.commit()
    assert client.left(moved) == [("next", False)]


@pytest.mark.parametrize("what", ["session", "connection"])
def test_a_client_that_closes_at_the_decision_is_told_nothing_and_all_is_committed(client: Client, what: str) -> None:
    session = send_to_all(client)
    closing = session if what == "session" else client.connection
    client.cluster.decisions.after_commit = closing.close
    session.commit()
    assert client.cluster.in_doubt() == 0
    assert client.all_left() == ALL


def test_what_was_done_at_a_temporary_queue_is_rolled_back_with_the_shards(client: Client) -> None:
    reply_to = client.connection.create_temporary(AddressKind.QUEUE)
    session = client.session(transacted=True)
    client.send("0", session=session, to=0)
    client.send("1", session=session, to=1)
    session.send(envelope(reply_to, "reply"))
    client.cluster.decisions.fails_before = ResourceError("the database refused it")
    with pytest.raises(RolledBackError):
        session.commit()
    session.send(envelope(reply_to, "next"))
    session.commit()
    receiving = client.session()
    consumer, ready = consume(receiving, reply_to)
    delivery = take(consumer, ready)
    receiving.acknowledge([delivery])
    assert delivery.envelope.body == "next"
    assert consumer.poll() is None


def test_a_temporary_queue_takes_part_in_the_transaction_of_another_client(client: Client) -> None:
    other = client.connect()
    reply_to = other.create_temporary(AddressKind.QUEUE)
    consumer, ready = consume(other.open_session(transacted=False), reply_to)
    session = client.session(transacted=True)
    client.send("1", session=session, to=1)
    session.send(envelope(reply_to, "reply"))
    assert consumer.poll() is None
    session.commit()
    assert take(consumer, ready).envelope.body == "reply"
    assert client.left(1) == [("1", False)]
    other.close()


def test_a_member_that_cannot_coordinate_rolls_all_parts_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise ResourceError("it is no member at the moment")

    session = client.session(transacted=True)
    client.send("0", session=session, to=0)
    client.send("1", session=session, to=1)
    with monkeypatch.context() as context:
        context.setattr(client.cluster.decisions, "new_id", refuse)
        with pytest.raises(RolledBackError, match="it is no member at the moment"):
            session.commit()
    client.send("later", session=session, to=0)
    client.send("later", session=session, to=1)
    session.commit()
    assert client.all_left() == [["later"], ["later"], [], []]


class TestNothingIsLeft:
    """Whatever fails as a transaction ends, none of its work becomes part of the session's next one."""

    @staticmethod
    def part_at(session: ClusterSession, number: int) -> SessionPart:
        (part,) = [part for part in session.parts() if part.shard.place == ShardPlace(number)]
        return part

    @staticmethod
    def inner(session: ClusterSession, number: int) -> ProviderSession:
        found = TestNothingIsLeft.part_at(session, number).session
        assert found is not None
        return found

    @staticmethod
    def fail(error: Exception) -> Callable[..., NoReturn]:
        def fail(*_: object, **__: object) -> NoReturn:
            raise error

        return fail

    def check_next(self, client: Client, session: ClusterSession) -> None:
        """Check that the next transaction of the session has its own messages alone."""
        for number in range(SHARDS):
            client.send("next", session=session, to=number)
        session.commit()
        client.cluster.settle()
        assert client.cluster.in_doubt() == 0
        assert client.all_left() == [["next"]] * SHARDS

    @pytest.mark.parametrize("at", [0, 1, 3])
    def test_a_part_that_cannot_be_prepared_there(
        self, client: Client, at: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = send_to_all(client)
        with monkeypatch.context() as context:
            context.setattr(self.inner(session, at), "prepare", self.fail(CapabilityError("it is an older one")))
            with pytest.raises(RolledBackError, match="it is an older one"):
                session.commit()
        self.check_next(client, session)

    @pytest.mark.parametrize("at", [0, 1, 3])
    @pytest.mark.parametrize("call", ["prepare", "commit"])
    def test_an_error_that_nobody_foresees(
        self, client: Client, at: int, call: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = send_to_all(client)
        with monkeypatch.context() as context:
            if call == "prepare":
                context.setattr(self.inner(session, at), "prepare", self.fail(ZeroDivisionError("a bug")))
                with pytest.raises(ZeroDivisionError):
                    session.commit()
            else:
                context.setattr(client.cluster.decisions, "commit", self.fail(ZeroDivisionError("a bug")))
                with pytest.raises(InDoubtError, match="a bug"):
                    session.commit()
        assert client.cluster.decisions.left, "the cluster is to roll back what may be prepared"
        client.cluster.settle()
        self.check_next(client, session)

    @pytest.mark.parametrize("at", [0, 1])
    @pytest.mark.parametrize("ends", ["rolled back", "lost", "staged", "prepared"])
    def test_a_part_that_does_not_answer_as_it_is_rolled_back(
        self, client: Client, at: int, ends: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = send_to_all(client)
        with monkeypatch.context() as context:
            context.setattr(self.inner(session, at), "rollback", self.fail(ResourceError("no answer")))
            if ends == "rolled back":
                session.rollback()
            elif ends == "lost":
                client.cluster.move(2)
                with pytest.raises(RolledBackError):
                    session.commit()
            else:
                call = "stage" if ends == "staged" else "prepare"
                context.setattr(self.inner(session, 0), call, self.fail(ResourceError("no room")))
                with pytest.raises(ResourceError, match="no room"):
                    if ends == "staged":
                        session.stage(StageName("sink", 1, 0, "1"), keep_s=60)
                    else:
                        session.prepare(Xid(1, b"own", b"branch"))
        self.check_next(client, session)

    @pytest.mark.parametrize("at", [0, 1])
    @pytest.mark.parametrize("with_front", [False, True])
    def test_the_only_part_fails_and_it_is_not_known_when(
        self, client: Client, at: int, with_front: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = client.session(transacted=True)
        client.send("first", session=session, to=at)
        if with_front:
            session.send(envelope(client.connection.create_temporary(AddressKind.QUEUE), "first"))
        with monkeypatch.context() as context:
            context.setattr(self.inner(session, at), "commit", self.fail(ResourceError("it failed")))
            with pytest.raises(InDoubtError, match="it failed"):
                session.commit()
        self.check_next(client, session)

    def test_work_that_begins_as_the_session_at_the_shard_is_replaced(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = client.session(transacted=True)
        client.send("first", session=session)
        session.commit()
        part, old = self.part_at(session, 0), self.inner(session, 0)

        def replace() -> ProviderSession:
            term = part.shard.current()
            part._enter(term, term.connection.open_session(transacted=True))
            return old

        with monkeypatch.context() as context:
            context.setattr(old, "close", lambda: None)  # it is about to be
            context.setattr(part, "ready", replace)
            client.send("lost", session=session)
        with pytest.raises(RolledBackError):
            session.commit()
        old.close()
        client.send("next", session=session)
        session.commit()
        assert client.left(0) == [("first", False), ("next", False)]

    def test_a_part_that_does_not_answer_as_the_session_closes(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.send("order", to=2)
        session = client.session(transacted=True)
        client.send("first", session=session, to=1)
        session.acknowledge([take(*consume(session, client.queues[2]))])
        monkeypatch.setattr(self.inner(session, 1), "close", self.fail(ResourceError("no answer")))
        session.close()
        assert client.left(2) == [("order", True)]


class TestStaging:
    """What a session has sent stays with it until it is staged, committed or rolled back, as at a single broker."""

    UNIT = StageName("sink", 1, 0, "1")

    @pytest.mark.parametrize("at", [0, 1])
    @pytest.mark.parametrize("ends", ["committed", "staged by another name", "rolled back"])
    def test_a_unit_whose_name_is_taken_goes_on(self, client: Client, at: int, ends: str) -> None:
        other = client.session(transacted=True)
        client.send("other", session=other, to=at)
        assert other.stage(self.UNIT, keep_s=60) == 1
        session = client.session(transacted=True)
        for number in range(at, SHARDS):
            client.send(str(number), session=session, to=number)
        with pytest.raises(StageError):
            session.stage(self.UNIT, keep_s=60)
        if ends == "committed":
            session.commit()
        elif ends == "rolled back":
            session.rollback()
            session.commit()
        else:
            again = StageName("sink", 1, 0, "2")
            assert session.stage(again, keep_s=60) == SHARDS - at
            client.connection.stages().promote("sink", 1, [again])
        assert client.all_left() == (NOTHING if ends == "rolled back" else [[]] * at + ALL[at:])

    @pytest.mark.parametrize("taken", [1, 2, 3])
    def test_a_unit_whose_name_is_taken_in_a_later_shard_is_rolled_back(self, client: Client, taken: int) -> None:
        other = client.session(transacted=True)
        client.send("other", session=other, to=taken)
        assert other.stage(self.UNIT, keep_s=60) == 1
        session = send_to_all(client)
        # Not `StageError`: the client must not believe that a commit makes up for it.
        with pytest.raises(RolledBackError, match="could not be staged"):
            session.stage(self.UNIT, keep_s=60)
        session.commit()
        [unit] = client.connection.stages().units("sink")
        assert (unit.name, unit.messages) == (self.UNIT, 1)
        client.connection.stages().promote("sink", 1, [self.UNIT])
        assert client.all_left() == [["other"] if number == taken else [] for number in range(SHARDS)]


class TestReplacing:
    @pytest.mark.parametrize("lost", [0, 1])
    def test_a_connection_that_is_taken_for_lost_keeps_neither_messages_nor_the_client_id(
        self, client: Client, lost: int
    ) -> None:
        client.connection.set_client_id("clerk")
        client.send("order", to=lost)
        session = client.session()
        consumer, ready = consume(session, client.queues[lost])
        assert take(consumer, ready).envelope.body == "order"
        (part,) = session.parts()
        part.shard.lose(part.term, ConnectionLostError("it was silent"))
        assert take(consumer, ready).redelivered

    def test_a_leader_that_stops_while_a_connection_is_restored_is_not_the_end(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = client.session()
        consumer, ready = consume(session, client.queues[0])
        open_session = VmConnection.open_session
        closed: list[VmConnection] = []

        def refuse_once(connection: VmConnection, *, transacted: bool) -> VmSession:
            monkeypatch.setattr(VmConnection, "open_session", open_session)
            closed.append(connection)
            raise ClosedError("the broker has just been stopped")

        monkeypatch.setattr(VmConnection, "open_session", refuse_once)
        client.cluster.move(0)
        client.send("late", session=client.session(), to=0)
        delivery = take(consumer, ready)
        assert delivery.envelope.body == "late"
        session.acknowledge([delivery])
        [connection] = closed
        with pytest.raises(ClosedError):
            connection.open_session(transacted=False)

    def test_a_leader_that_stops_when_it_is_first_connected_is_looked_for_again(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = VmConnection.start

        def refuse_once(connection: VmConnection) -> None:
            monkeypatch.setattr(VmConnection, "start", start)
            raise ClosedError("the broker has just been stopped")

        session = client.session()
        monkeypatch.setattr(VmConnection, "start", refuse_once)
        client.send("0", session=session, to=0)
        assert client.left(0) == [("0", False)]


class TestReceiving:
    @pytest.mark.parametrize("moved", [0, 1])
    def test_a_consumer_waits_on_when_the_leader_moves(self, client: Client, moved: int) -> None:
        session = client.session()
        consumer, ready = consume(session, client.queues[moved])
        assert consumer.poll_or_wait() is None
        client.cluster.move(moved)
        client.send("late", to=moved)
        delivery = take(consumer, ready)
        assert delivery.envelope.body == "late"
        session.acknowledge([delivery])
        session.close()
        assert client.left(moved) == []

    @pytest.mark.parametrize("moved", [0, 1])
    def test_what_was_received_before_comes_again_and_is_settled_once(self, client: Client, moved: int) -> None:
        client.send("a", to=moved)
        session = client.session()
        consumer, ready = consume(session, client.queues[moved])
        first = take(consumer, ready)
        client.cluster.move(moved)
        with pytest.raises(ProviderError):
            session.acknowledge([first])
        again = take(consumer, ready)
        assert (again.envelope.body, again.redelivered) == ("a", True)
        session.acknowledge([again])
        session.close()
        assert client.left(moved) == []

    def test_one_acknowledgement_settles_messages_of_several_shards(self, client: Client) -> None:
        session = client.session()
        received = []
        for number in range(SHARDS):
            client.send(str(number), to=number)
            received.append(take(*consume(session, client.queues[number])))
        session.acknowledge(received)
        session.close()
        assert client.all_left() == NOTHING

    def test_one_recover_gives_messages_of_several_shards_back_in_order(self, client: Client) -> None:
        session = client.session()
        received = []
        for number in range(SHARDS):
            client.send("a", "b", "c", to=number)
            consumer, ready = consume(session, client.queues[number])
            received += [take(consumer, ready), take(consumer, ready)]
        session.recover(received)
        session.close()
        for number in range(SHARDS):
            assert client.left(number) == [("a", True), ("b", True), ("c", False)]

    @pytest.mark.parametrize("moved", [0, 1])
    def test_an_acknowledgement_over_shards_one_of_which_moved_loses_none_unless_it_is_in_doubt(
        self, client: Client, moved: int
    ) -> None:
        session = client.session()
        received = []
        for number in (0, 1):
            client.send("a", to=number)
            received.append(take(*consume(session, client.queues[number])))
        client.cluster.move(moved)
        with pytest.raises(ProviderError) as raised:
            session.acknowledge(received)
        session.close()
        assert client.left(moved) == [("a", True)]
        assert client.left(1 - moved) == ([] if raised.type is InDoubtError else [("a", True)])


def _end_and_commit(session: ProviderSession, xid: Xid) -> None:
    session.xa_end(xid)
    session.xa_commit(xid, one_phase=True)


def send_in_branch(client: Client, xid: Xid) -> ClusterSession:
    """Return a session that has sent a message to each shard in a branch."""
    session = client.session(transacted=True)
    session.xa_start(xid)
    for number in range(SHARDS):
        client.send(str(number), session=session, to=number)
    return session


def commit_in_one_phase(client: Client, xid: Xid) -> None:
    """Commit a branch that has sent a message to each shard."""
    _end_and_commit(send_in_branch(client, xid), xid)


class TestBranches:
    def test_a_branch_whose_part_was_lost_before_its_prepare_is_rolled_back(self, client: Client) -> None:
        for moved in range(SHARDS):
            xid = Xid(1, b"lost", str(moved).encode())
            session = client.session(transacted=True)
            session.xa_start(xid)
            for number in range(SHARDS):
                client.send(str(number), session=session, to=number)
            session.xa_end(xid)
            client.cluster.move(moved)
            other = client.connect().open_session(transacted=True)
            with pytest.raises(BranchError) as raised:
                other.xa_prepare(xid)
            assert raised.value.failure is BranchFailure.ROLLED_BACK
            assert client.all_left() == NOTHING

    def test_work_that_goes_on_in_a_branch_whose_part_was_lost_does_not_become_all_of_it(self, client: Client) -> None:
        xid = Xid(1, b"lost", b"joined")
        session = client.session(transacted=True)
        session.xa_start(xid)
        for number in range(SHARDS):
            client.send("first", session=session, to=number)
        session.xa_end(xid)
        lost = next(number for number in range(SHARDS) if number != client.cluster.placement.shard_of_branch(str(xid)))
        client.cluster.move(lost)
        other = client.session(transacted=True)
        other.xa_start(xid, join=True)
        with pytest.raises(BranchError) as raised:
            client.send("second", session=other, to=lost)
        assert raised.value.failure is BranchFailure.ROLLED_BACK
        other.xa_end(xid)
        with pytest.raises(BranchError) as raised:
            other.xa_prepare(xid)
        assert raised.value.failure is BranchFailure.ROLLED_BACK
        assert client.all_left() == NOTHING

    @pytest.mark.parametrize("moved", [0, 1])
    def test_a_message_of_a_former_leader_that_is_acknowledged_in_a_branch_rolls_it_back(
        self, client: Client, moved: int
    ) -> None:
        client.send("received", to=moved)
        session = client.session(transacted=True)
        consumer, ready = consume(session, client.queues[moved])
        xid, later = Xid(1, b"received", b"before"), Xid(1, b"received", b"after")
        session.xa_start(xid)
        delivery = take(consumer, ready)
        client.send("sent", session=session, to=2)
        client.cluster.move(moved)
        session.acknowledge([delivery])
        with pytest.raises(BranchError) as raised:  # the end of the work may tell it, or the commit
            _end_and_commit(session, xid)
        assert raised.value.failure is BranchFailure.ROLLED_BACK
        with suppress(BranchError):  # nothing may be left of it
            session.xa_rollback(xid)
        session.xa_start(later)
        delivery = take(consumer, ready)
        assert (delivery.envelope.body, delivery.redelivered) == ("received", True)
        session.acknowledge([delivery])
        _end_and_commit(session, later)
        assert client.all_left() == NOTHING

    def test_work_that_is_lost_where_a_branch_was_to_begin_rolls_it_back(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        xid = Xid(1, b"begun", b"elsewhere")
        home = client.cluster.placement.shard_of_branch(str(xid))
        at = (home + 1) % SHARDS
        session = client.session(transacted=True)
        for number in (home, at):
            client.send("before", session=session, to=number)
        session.commit()
        session.xa_start(xid)
        client.send("kept", session=session, to=home)
        with monkeypatch.context() as context:
            lose = TestNothingIsLeft.fail(ConnectionLostError("the leader has died"))
            context.setattr(TestNothingIsLeft.inner(session, at), "xa_start", lose)
            client.send("lost", session=session, to=at)
        with pytest.raises(BranchError) as raised:
            session.xa_end(xid)
        assert raised.value.failure is BranchFailure.ROLLED_BACK
        with suppress(BranchError):
            session.xa_rollback(xid)
        assert client.all_left() == [["before"] if number in (home, at) else [] for number in range(SHARDS)]

    @pytest.mark.parametrize("is_written", [True, False])
    def test_a_commit_in_one_phase_without_an_answer_is_done_everywhere_or_nowhere(
        self, client: Client, is_written: bool
    ) -> None:
        xid = Xid(1, b"one phase", str(is_written).encode())
        decisions = client.cluster.decisions
        if is_written:
            decisions.fails_after = InDoubtError("no answer")
        else:
            decisions.fails_before = InDoubtError("no answer")
        with pytest.raises(BranchError) as raised:
            commit_in_one_phase(client, xid)
        assert raised.value.failure is BranchFailure.UNREACHABLE
        other = client.connect().open_session(transacted=True)
        with pytest.raises(BranchError) as raised:
            other.xa_rollback(xid)
        assert raised.value.failure is BranchFailure.UNKNOWN
        client.cluster.settle()
        assert client.all_left() == (ALL if is_written else NOTHING)

    @pytest.mark.parametrize("at", [0, 1])
    def test_a_rollback_does_not_reach_a_shard_that_has_not_done_a_commit_in_one_phase(
        self, client: Client, at: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        xid = Xid(1, b"one phase", b"one left")
        session = send_in_branch(client, xid)
        session.xa_end(xid)
        with monkeypatch.context() as context:
            fail = TestNothingIsLeft.fail(ConnectionLostError("the leader stops"))
            context.setattr(TestNothingIsLeft.inner(session, at), "xa_commit", fail)
            session.xa_commit(xid, one_phase=True)
        with pytest.raises(BranchError) as raised:
            session.xa_rollback(xid)
        assert raised.value.failure is BranchFailure.UNKNOWN
        assert client.all_left() == ALL

    def test_a_commit_in_one_phase_that_was_decided_is_finished_without_the_coordinator(self, client: Client) -> None:
        client.cluster.decisions.fails_after = InDoubtError("no answer")
        with pytest.raises(BranchError):
            commit_in_one_phase(client, Xid(1, b"one phase", b"left"))
        client.cluster.settle()
        assert client.all_left() == ALL

    @pytest.mark.parametrize("moved", [0, 1])
    def test_a_commit_in_one_phase_is_finished_at_the_next_leader(self, client: Client, moved: int) -> None:
        client.cluster.decisions.after_commit = lambda: client.cluster.move(moved)
        commit_in_one_phase(client, Xid(1, b"one phase", b"moved"))
        assert client.cluster.decisions.rows == {}
        assert client.all_left() == ALL

    def test_a_prepared_branch_outlives_all_leaders(self, client: Client) -> None:
        xid = Xid(1, b"kept", b"b")
        session = client.session(transacted=True)
        session.xa_start(xid)
        for number in range(SHARDS):
            client.send(str(number), session=session, to=number)
        session.xa_end(xid)
        assert session.xa_prepare(xid)
        for number in range(SHARDS):
            client.cluster.move(number)
        other = client.connect().open_session(transacted=True)
        assert list(other.xa_recover()) == [xid]
        other.xa_commit(xid)
        assert client.all_left() == ALL


class TestSubscriptions:
    def test_a_durable_name_moves_to_a_topic_of_another_shard(self, client: Client) -> None:
        client.connection.set_client_id("clerk")
        topics = [in_shard(client.cluster, number, AddressKind.TOPIC) for number in (0, 1, 2)]
        session = client.session()
        for topic in topics:
            request = SubscribeRequest(address=topic, selector=None, no_local=False, durable_name="kept")
            session.subscribe(request, lambda: None).close()
        for topic in topics:
            session.send(envelope(topic, f"to {topic.name}", delivery_mode=2))
        ready = Event()
        request = SubscribeRequest(address=topics[-1], selector=None, no_local=False, durable_name="kept")
        consumer = session.subscribe(request, ready.set)
        delivery = take(consumer, ready)
        assert delivery.envelope.body == f"to {topics[-1].name}"
        session.acknowledge([delivery])
        consumer.close()
        session.unsubscribe("kept")
        with pytest.raises(ProviderError):
            session.unsubscribe("kept")

    @pytest.mark.parametrize("moved", [0, 1])
    def test_a_durable_subscriber_and_its_client_id_go_on_at_the_next_leader(self, client: Client, moved: int) -> None:
        client.connection.set_client_id("clerk")
        topic = in_shard(client.cluster, moved, AddressKind.TOPIC)
        session, ready = client.session(), Event()
        request = SubscribeRequest(address=topic, selector=None, no_local=False, durable_name="kept")
        consumer = session.subscribe(request, ready.set)
        client.cluster.move(moved)
        client.connect().open_session(transacted=False).send(envelope(topic, "news", delivery_mode=2))
        delivery = take(consumer, ready)
        assert delivery.envelope.body == "news"
        session.acknowledge([delivery])

    def test_no_local_leaves_out_what_the_connection_sends_at_all_shards(self, client: Client) -> None:
        for number in (0, 1):
            topic = in_shard(client.cluster, number, AddressKind.TOPIC)
            ready = Event()
            request = SubscribeRequest(address=topic, selector=None, no_local=True, durable_name=None)
            consumer = client.session().subscribe(request, ready.set)
            client.session().send(envelope(topic, "own"))
            client.connect().open_session(transacted=False).send(envelope(topic, "another's", delivery_mode=2))
            assert take(consumer, ready).envelope.body == "another's"


@pytest.mark.parametrize("moved", [0, 1])
def test_a_send_waits_for_the_next_leader(client: Client, moved: int) -> None:
    session = client.session()
    client.send("before", session=session, to=moved)
    client.cluster.depose(moved)
    outcomes: list[object] = []

    def send() -> None:
        try:
            client.send("after", session=session, to=moved)
            outcomes.append("sent")
        except ProviderError as error:
            outcomes.append(type(error))

    thread = Thread(target=send)
    thread.start()
    client.cluster.lead(moved)
    thread.join(PATIENCE_S)
    found = [text for text, _ in client.left(moved)]
    assert outcomes in (["sent"], [InDoubtError], [ResourceError])
    assert found == ["before", "after"] if outcomes == ["sent"] else found[0] == "before"


def test_browsers_see_the_queues_of_all_shards(client: Client) -> None:
    session = client.session()
    for number in range(SHARDS):
        client.send("a", "b", to=number)
        assert [each.envelope.body for each in session.browse(client.queues[number], None)] == ["a", "b"]
        assert session.has_destination(client.queues[number])
