"""Transacted sessions of pyjms clients over AMQP: their transactions, and branches of distributed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.spi.errors import AccessDeniedError, BranchError, CapabilityError, ProviderError, RolledBackError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.amqp.capabilities import COMMANDS, GREETING, TRANSACTED
from pyjms_provider.amqp.envelope import write_envelope
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import ACCEPTED, RELEASED, Modified, Rejected
from pyjms_provider.protocols.amqp.connection import ConnectionSettings
from pyjms_provider.protocols.profile.answers import Greeting, Prepared, Recovered
from pyjms_provider.protocols.profile.commands import (
    AbortTransaction,
    BeginBranch,
    CommitBranch,
    CommitTransaction,
    EndBranch,
    EndMode,
    ForgetBranch,
    PrepareBranch,
    RecoverBranches,
    RollbackBranch,
)
from pyjms_provider.security.contracts import Operation
from tests.provider.helpers import make_envelope
from tests.provider.protocols.amqp.server.bench import Bench, Client, ClientSession, bench_on, ready, texts

COMMIT, ABORT = CommitTransaction(session="x"), AbortTransaction(session="x")
XID = Xid(7, b"\x01\x02", b"\x03")


def left(bench: Bench) -> list[object]:
    """Return the texts in the queue."""
    session = ready(bench, transacted=False)
    session.consume()
    found = texts(session.received())
    session.client.hang_up()
    return found


def test_the_broker_says_what_it_can_to_a_client_that_wants_commands(bench: Bench) -> None:
    remote = Client(bench).machine.remote
    assert remote is not None
    assert COMMANDS in remote.offered_capabilities
    assert remote.properties is not None
    greeting = Greeting.read(remote.properties[GREETING])
    assert greeting.resource_manager
    assert greeting.capabilities
    other = Client(bench, desired=()).machine.remote
    assert other is not None
    assert other.properties is not None
    assert GREETING not in other.properties


def test_the_begin_of_a_transacted_session_is_answered_with_its_property(bench: Bench) -> None:
    client = Client(bench)
    for is_transacted, properties in ((True, {TRANSACTED: True}), (False, None)):
        remote = client.session(transacted=is_transacted).session.remote
        assert remote is not None
        assert remote.properties == properties


def test_messages_are_sent_and_accepted_when_the_transaction_commits(bench: Bench) -> None:
    session = ready(bench)
    assert session.send("a") == ACCEPTED
    session.consume()
    assert session.received() == []
    assert session.do(COMMIT) == {}
    (delivery,) = session.received()
    session.accept(delivery)
    session.send("b")
    session.do(COMMIT)
    session.client.hang_up()
    assert left(bench) == ["b"]


def test_a_rollback_drops_what_was_sent_and_gives_back_what_was_accepted(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    session.send("b")
    session.do(COMMIT)
    session.consume(credit=2)
    a, b = session.received()
    session.accept(a)
    session.send("c")
    session.do(ABORT)
    assert session.received() == []  # no credit is left; b is the client's still
    session.accept(b, state=RELEASED)
    session.client.hang_up()
    other = ready(bench, transacted=False)
    other.consume()
    found = other.received()
    assert texts(found) == ["a", "b"]
    assert [Message(each.data).header.delivery_count for each in found] == [1, 0]


def test_what_a_rollback_gives_back_comes_again_before_later_messages(bench: Bench) -> None:
    session = ready(bench)
    for text in "abc":
        session.send(text)
    session.do(COMMIT)
    session.consume(credit=1)
    (a,) = session.received()
    session.accept(a)
    session.tell(ABORT)
    (link,) = [each for each in session.session.links if each.role]
    link.give_credit(3)  # type: ignore[attr-defined]  # receivers have it
    assert texts(session.received()) == ["a", "b", "c"]


@pytest.mark.parametrize("state", [RELEASED, Modified(delivery_failed=True)])
def test_other_outcomes_take_effect_without_a_commit(bench: Bench, state: object) -> None:
    session = ready(bench)
    session.send("a")
    session.do(COMMIT)
    session.consume(credit=1)
    (delivery,) = session.received()
    session.accept(delivery, state=state)
    assert left(bench) == ["a"]


def test_what_is_open_is_rolled_back_with_its_session_and_with_its_connection(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    session.do(COMMIT)
    session.consume()
    (delivery,) = session.received()
    session.accept(delivery)
    session.send("b")
    session.session.end()
    session.client.settle()
    assert left(bench) == ["a"]
    other = ready(bench)
    other.consume()
    other.accept(*other.received())
    other.send("c")
    other.client.hang_up()
    assert left(bench) == ["a"]


def test_a_refused_message_does_not_spoil_the_transaction_if_the_client_is_told(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    bench.rules.denied.add((Operation.WRITE, "orders"))
    assert isinstance(session.send("b"), Rejected)
    bench.rules.denied.clear()
    session.do(COMMIT)
    assert left(bench) == ["a"]


def test_a_settled_message_that_fails_spoils_the_transaction(bench: Bench) -> None:
    session = ready(bench)
    session.send("a", settled=True)
    bench.rules.denied.add((Operation.WRITE, "orders"))
    session.send("b", settled=True)
    bench.rules.denied.clear()
    assert session.detached() == []
    with pytest.raises(RolledBackError, match="may not") as raised:
        session.do(COMMIT)
    assert isinstance(raised.value.__cause__, AccessDeniedError)
    session.send("c", settled=True)
    session.do(COMMIT)
    assert left(bench) == ["c"]


def test_a_settled_message_that_cannot_be_read_spoils_its_own_transaction_alone(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    first = session.tell(COMMIT)
    session.send_data(b"\x00\x53\x70\x45\x00\x53\x70\x45", settled=True)
    assert session.answer(first) == {}
    with pytest.raises(RolledBackError):
        session.do(COMMIT)
    assert left(bench) == ["a"]


def test_a_link_that_is_ended_for_a_fault_of_the_client_spoils_the_transaction(bench: Bench) -> None:
    session = ready(bench)
    session.send_data(b"")
    assert len(session.detached()) == 1
    with pytest.raises(RolledBackError):
        session.do(COMMIT)
    session.do(COMMIT)


def test_messages_that_come_together_are_all_of_the_transaction(bench: Bench) -> None:
    session = ready(bench)
    session.send("first")
    data = write_envelope(make_envelope("x", persistent=True), now_ms=0, delivery_count=0)
    deliveries = [session.send_data(data) for _ in range(10)]
    session.client.settle()
    assert all(session.states(each)[-1] == ACCEPTED for each in deliveries)
    session.do(ABORT)
    assert left(bench) == []


def test_a_session_that_is_not_transacted_commits_nothing_and_begins_no_branch(bench: Bench) -> None:
    session = ready(bench, transacted=False)
    for command in (COMMIT, ABORT):
        with pytest.raises(CapabilityError):
            session.do(command)
    with pytest.raises(BranchError) as raised:
        session.do(BeginBranch(session="x", xid=XID))
    assert raised.value.failure is BranchFailure.PROTOCOL
    assert session.send("a") == ACCEPTED
    assert left(bench) == ["a"]


# Branches


def worked(session: ClientSession, xid: Xid = XID) -> None:
    """Send a message in a branch, and end the work."""
    session.do(BeginBranch(session="x", xid=xid))
    session.send("x")
    session.do(EndBranch(session="x", xid=xid))


def test_a_branch_is_prepared_recovered_and_committed(bench: Bench) -> None:
    session = ready(bench)
    worked(session)
    assert Prepared.read(session.do(PrepareBranch(session="x", xid=XID))).needs_commit
    assert Recovered.read(session.do(RecoverBranches(session="x"))).xids == (XID,)
    assert left(bench) == []
    session.do(CommitBranch(session="x", xid=XID))
    assert left(bench) == ["x"]
    with pytest.raises(BranchError) as raised:
        session.do(CommitBranch(session="x", xid=XID))
    assert raised.value.failure is BranchFailure.UNKNOWN
    assert Recovered.read(session.do(RecoverBranches(session="x"))).xids == ()


def test_a_branch_is_committed_in_one_phase_or_rolled_back(bench: Bench) -> None:
    session = ready(bench)
    worked(session)
    session.do(CommitBranch(session="x", xid=XID, one_phase=True))
    worked(session)
    session.do(RollbackBranch(session="x", xid=XID))
    assert left(bench) == ["x"]


def test_what_was_accepted_in_a_branch_belongs_to_it(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    session.do(COMMIT)
    session.consume(credit=1)
    session.do(BeginBranch(session="x", xid=XID))
    session.accept(*session.received())
    session.do(EndBranch(session="x", xid=XID))
    session.do(PrepareBranch(session="x", xid=XID))
    session.client.hang_up()
    assert left(bench) == []
    ready(bench).do(RollbackBranch(session="x", xid=XID))
    assert left(bench) == ["a"]


def test_a_branch_that_only_read_has_nothing_to_commit(bench: Bench) -> None:
    session = ready(bench)
    session.do(BeginBranch(session="x", xid=XID))
    session.do(EndBranch(session="x", xid=XID))
    assert not Prepared.read(session.do(PrepareBranch(session="x", xid=XID))).needs_commit


def test_a_branch_that_failed_can_only_be_rolled_back(bench: Bench) -> None:
    session = ready(bench)
    session.do(BeginBranch(session="x", xid=XID))
    session.send("x")
    session.do(EndBranch(session="x", xid=XID, mode=EndMode.FAIL))
    with pytest.raises(BranchError) as raised:
        session.do(PrepareBranch(session="x", xid=XID))
    assert raised.value.failure is BranchFailure.ROLLED_BACK


def test_a_settled_message_that_fails_spoils_the_branch(bench: Bench) -> None:
    session = ready(bench)
    session.do(BeginBranch(session="x", xid=XID))
    session.send("w")
    bench.rules.denied.add((Operation.WRITE, "orders"))
    session.send("x", settled=True)
    with pytest.raises(BranchError, match="may not") as raised:
        session.do(EndBranch(session="x", xid=XID))
    assert raised.value.failure is BranchFailure.ROLLED_BACK


def test_a_prepared_branch_outlives_its_connection_and_the_broker(tmp_path: Path) -> None:
    for is_first in (True, False):
        bench = bench_on(tmp_path)
        try:
            session = ready(bench)
            if is_first:
                worked(session)
                session.do(PrepareBranch(session="x", xid=XID))
                session.client.hang_up()
                session = ready(bench)
            assert Recovered.read(session.do(RecoverBranches(session="x"))).xids == (XID,)
            if not is_first:
                session.do(CommitBranch(session="x", xid=XID))
                assert left(bench) == ["x"]
        finally:
            bench.close()


def test_a_branch_that_is_not_prepared_ends_with_its_connection(bench: Bench) -> None:
    session = ready(bench)
    session.do(BeginBranch(session="x", xid=XID))
    session.send("x")
    session.client.hang_up()
    other = ready(bench)
    with pytest.raises(BranchError):
        other.do(PrepareBranch(session="x", xid=XID))
    assert left(bench) == []


def test_an_unknown_branch_is_told(bench: Bench) -> None:
    session = ready(bench)
    for command in (
        EndBranch(session="x", xid=XID),
        PrepareBranch(session="x", xid=XID),
        CommitBranch(session="x", xid=XID),
        RollbackBranch(session="x", xid=XID),
        ForgetBranch(session="x", xid=XID),
    ):
        with pytest.raises(BranchError) as raised:
            session.do(command)
        assert raised.value.failure in (BranchFailure.UNKNOWN, BranchFailure.PROTOCOL)


def test_a_list_of_branches_of_any_length_comes_in_parts(bench: Bench) -> None:
    session = ready(bench, settings=ConnectionSettings(frame_size_max=512))
    xids = [Xid(1, number.to_bytes(32, "big"), bytes(32)) for number in range(10)]
    for xid in xids:
        worked(session, xid)
        session.do(PrepareBranch(session="x", xid=xid))
    delivery = session.tell(RecoverBranches(session="x"))
    assert set(Recovered.read(session.answer(delivery)).xids) == set(xids)
    assert len(session.states(delivery)) > 10


def test_a_refusal_fits_the_frames_of_the_client(bench: Bench) -> None:
    session = ready(bench, settings=ConnectionSettings(frame_size_max=512))
    with pytest.raises(ProviderError, match="there is no"):
        session.do(PrepareBranch(session="x", xid=Xid(1, bytes(64), bytes(64))))
