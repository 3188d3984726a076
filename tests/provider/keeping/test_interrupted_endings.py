"""The main thread is interrupted at each place at which Python can do so while it ends something, or has the only right to do something.

Whoever does the same again, in this thread or in another one, finds it done or does it: nothing waits for the next start of the broker.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import BranchError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.core.store.paging import PagingMessageStore
from pyjms_provider.core.transaction.branch_state import BranchState
from pyjms_provider.settings import BrokerSettings, StoreSettings
from tests.provider.helpers import make_envelope
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.site import BILLS, NEWS, ORDERS, consume, take_all
from tests.provider.keeping.test_interrupted import come_again
from tests.provider.keeping.test_interrupted_anywhere import interrupt
from tests.provider.keeping.test_interrupted_by_signals import Ears, send
from tests.provider.keeping.test_pipeline_faults import Broker, Fault, Pipeline
from tests.provider.simulation.site import SimulatedSite as Site
from tests.pyjms.runtime.helpers import Call

LIMIT = 50_000
CLOSING = (
    "clients/ending.py",
    "clients/vm.py",
    "clients/vm_consumer.py",
    "clients/vm_session.py",
    "clients/vm_transactions.py",
    "core/transaction/branch.py",
    "core/transaction/branches.py",
    "core/queue/consumer.py",
    "core/host/host_subscriptions.py",
    "core/host/temporaries.py",
    "core/transaction/unit_of_work.py",
)


def test_making_room_in_memory() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site(memory_bytes=LIMIT)
        store = site.broker.virtual_host.store
        assert isinstance(store, PagingMessageStore)
        session = site.session()
        for mode in (1, 2) * 20:
            site.send("x" * 3000, session, delivery_mode=mode)

        def send_two() -> None:
            for mode in (1, 2):
                site.send("y" * 3000, session, delivery_mode=mode)

        interrupt(interruption, send_two)
        for _ in range(20):
            site.send("z" * 3000, session)
        assert store.bytes_in_memory < LIMIT + 5000, interruption.where
        assert len(site.drain()) >= 60, interruption.where
        assert store.count_in_memory <= 1, f"{interruption.where}: all have left but the one whose send was interrupted"

    assert each_interruption(attempt, "core/store/paging.py") > 30


def test_the_turn_of_a_reader_group() -> None:
    def attempt(interruption: Interruption) -> None:
        broker = Broker(Fault("refused", 1000))
        session = broker.connection.open_session(transacted=False)
        for name in "abc":
            session.send(make_envelope(name))
        reader = Pipeline(broker)
        interrupt(interruption, lambda: reader.batch(1))
        read = Call(lambda: Pipeline(broker).batch(3))  # in another thread
        assert read.result() >= 2, interruption.where

    assert each_interruption(attempt, "core/queue/turn.py", "core/transaction/reader_groups.py") > 20


@pytest.mark.parametrize("who", ["client", "broker"])
@pytest.mark.parametrize("kind", ["plain", "transacted", "branch"])
def test_closing(kind: str, who: str) -> None:
    """What a session holds is available as soon as it is closed once more, by the client or by the broker that stops."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        site.send("order")
        connection = site.connect("ann")
        site.send("reply", to=connection.create_temporary(AddressKind.QUEUE))
        session = connection.open_session(transacted=kind != "plain")
        consume(session, NEWS)
        site.send("news", to=NEWS)
        if kind == "branch":
            session.xa_start(Xid(1, b"1", b""))
        taken = take_all(consume(session))
        if kind != "plain":
            session.acknowledge(taken)
            site.send("bill", session, BILLS)
        interrupt(interruption, connection.close)
        if who == "client":
            connection.close()
        else:
            site.restart()
        site.connect("ann").close()  # its name is free
        assert (site.drain(), site.drain(BILLS)) == ([("order", 2)], []), interruption.where
        assert len(site.broker.virtual_host.store) == 0, interruption.where

    assert each_interruption(attempt, *CLOSING) > 30


Found: TypeAlias = tuple[list[tuple[str, int]], list[tuple[str, int]]]

XID = Xid(1, b"1", b"")
BRANCHES = (
    "clients/vm_transactions.py",
    "core/transaction/branch.py",
    "core/transaction/branches.py",
    "core/queue/consumer.py",
    "core/transaction/unit_of_work.py",
)
COMMITTED: Found = ([], [("bill", 1)])
UNDONE: Found = ([("order", 2)], [])


def work_in_branch(site: Site) -> VmSession:
    """Receive an order and send a bill in a branch, and end the work."""
    site.send("order")
    session = site.session(transacted=True)
    session.xa_start(XID)
    session.acknowledge(take_all(consume(session)))
    site.send("bill", session, BILLS)
    session.xa_end(XID)
    return session


def settle(session: VmSession, *, commit: bool) -> None:
    """Decide about the branch, if it is in doubt."""
    for xid in session.xa_recover():
        if commit:
            session.xa_commit(xid, one_phase=False)
        else:
            session.xa_rollback(xid)


def found_at_the_end(site: Site, interruption: Interruption) -> Found:
    """Return what there is of orders and bills, now and not again."""
    assert list(site.session(transacted=True).xa_recover()) == [], interruption.where
    found = site.drain(), site.drain(BILLS)
    assert len(site.broker.virtual_host.store) == 0, interruption.where
    site.restart()
    assert (site.drain(), site.drain(BILLS)) == ([], []), interruption.where
    return found


@pytest.mark.parametrize("fail", [False, True], ids=["success", "failure"])
def test_the_end_of_work_in_a_branch(fail: bool) -> None:
    """The coordinator ends it again, and decides: the branch had no worker any more, and could neither be prepared nor rolled back."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        site.send("order")
        session = site.session(transacted=True)
        session.xa_start(XID)
        taken = take_all(consume(session))
        with suppress(KeyboardInterrupt), interruption():
            session.acknowledge(taken)
            site.send("bill", session, BILLS)
        if interruption.where is not None:
            session.acknowledge(taken)
            site.send("bill", session, BILLS)
        has_ended = False
        with suppress(KeyboardInterrupt), interruption():
            session.xa_end(XID, fail=fail)
            has_ended = True
        if not has_ended:
            with suppress(BranchError) if fail else nullcontext():  # it has failed already
                session.xa_end(XID, fail=fail)
        if fail:
            session.xa_rollback(XID)
        else:
            session.xa_commit(XID, one_phase=True)
        session.close()
        orders, bills = site.drain(), site.drain(BILLS)
        assert orders == (UNDONE[0] if fail else []), interruption.where
        assert {name for name, _ in bills} == (set() if fail else {"bill"}), interruption.where

    assert each_interruption(attempt, *BRANCHES, "core/queue/settling_queue.py", "<string>") > 10


def asked_again(site: Site, session: VmSession) -> BranchFailure | None:
    """Return what a coordinator is told in the end that makes an interrupted commit again; None: it is committed."""
    for _ in range(2):
        try:
            session.xa_commit(XID, one_phase=True)
        except BranchError as error:
            if error.failure is not BranchFailure.UNREACHABLE:
                return error.failure
            keeper = site.broker.virtual_host.keeper
            assert keeper is not None
            assert keeper.doubts.settle()
        else:
            return None
    pytest.fail("the store was asked, and it is not known still")


def test_a_commit_in_one_phase_that_is_made_again_tells_what_became_of_it() -> None:
    """It said that there is no such branch (XAER_NOTA), of one that was committed as of one that was rolled back."""
    told = set()

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work_in_branch(site)
        with suppress(KeyboardInterrupt), interruption():
            session.xa_commit(XID, one_phase=True)
        failure = None if interruption.where is None else asked_again(site, session)
        told.add(failure)
        with pytest.raises(BranchError) as raised:
            session.xa_commit(XID, one_phase=True)
        assert raised.value.failure is BranchFailure.UNKNOWN, f"{interruption.where}: it is told once"
        assert found_at_the_end(site, interruption) == (COMMITTED if failure is None else UNDONE), interruption.where

    assert each_interruption(attempt, *BRANCHES) > 10
    assert told == {None, BranchFailure.ROLLED_BACK}


def test_an_end_that_is_refused_is_refused_again() -> None:
    """Only what an interrupted call has done is not told of the next one."""
    site = Site()
    worker, other = site.session(transacted=True), site.session(transacted=True)
    worker.xa_start(XID)
    for _ in range(3):
        with pytest.raises(BranchError):
            other.xa_end(XID)
    worker.xa_end(XID)
    for _ in range(3):
        with pytest.raises(BranchError):
            worker.xa_end(XID)


def test_a_message_that_was_acknowledged_twice_in_a_branch_is_prepared_once(tmp_path: Path) -> None:
    """By the `end` that is made again: a table of removals has each once."""
    settings = BrokerSettings(store=StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}"))
    broker = EmbeddedBroker("twice", SystemClock(), settings)
    connection = VmConnection(broker, Ears())
    connection.start()
    send(connection.open_session(transacted=False), ORDERS)
    session = connection.open_session(transacted=True)
    session.xa_start(XID)
    taken = take_all(consume(session))
    for _ in range(2):
        session.acknowledge(taken)
    session.xa_end(XID)
    assert session.xa_prepare(XID)
    session.xa_commit(XID)
    assert len(broker.virtual_host.store) == 0
    broker.stop()


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "stops"])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "rollback"])
def test_a_decision(commit: bool, restarts: bool) -> None:
    """The coordinator makes it again, in this life of the broker or in the next one."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work_in_branch(site)
        assert session.xa_prepare(XID)
        interrupt(interruption, lambda: settle(session, commit=commit))
        session.close()
        if restarts:
            site.restart()
        settle(site.session(transacted=True), commit=commit)
        assert found_at_the_end(site, interruption) == (COMMITTED if commit else UNDONE), interruption.where

    assert each_interruption(attempt, *BRANCHES) > 30


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "stops"])
def test_an_operators_decision(restarts: bool) -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        assert work_in_branch(site).xa_prepare(XID)
        branches = site.broker.virtual_host.branches
        interrupt(interruption, lambda: branches.settle_heuristically(XID, commit=False))
        if restarts:
            site.restart()
            branches = site.broker.virtual_host.branches
        if branches.reports()[0].state is BranchState.PREPARED:
            branches.settle_heuristically(XID, commit=False)
        branches.forget(XID)
        assert found_at_the_end(site, interruption) == UNDONE, interruption.where

    assert each_interruption(attempt, *BRANCHES) > 20


@pytest.mark.parametrize("is_told", [True, False], ids=["rolled back", "found"])
def test_a_promise(is_told: bool) -> None:
    """The coordinator was not promised anything: it rolls back, at once or when it finds the branch in doubt."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work_in_branch(site)
        promised: list[bool] = []
        interrupt(interruption, lambda: promised.append(session.xa_prepare(XID)))
        if is_told:
            session.xa_rollback(XID)
        else:
            site.restart()
        settle(site.session(transacted=True), commit=False)
        assert found_at_the_end(site, interruption) == UNDONE, interruption.where

    assert each_interruption(attempt, *BRANCHES) > 30


def test_a_commit_in_one_phase() -> None:
    """The store is asked for what may have been written; all of it is true, or nothing is."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work_in_branch(site)
        interrupt(interruption, lambda: session.xa_commit(XID, one_phase=True))
        with suppress(BranchError):  # there is none
            session.xa_rollback(XID)
        session.close()
        come_again(site)
        assert found_at_the_end(site, interruption) in (COMMITTED, UNDONE), interruption.where

    assert each_interruption(attempt, *BRANCHES) > 30


def test_a_rollback_of_what_was_not_prepared() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work_in_branch(site)
        interrupt(interruption, lambda: session.xa_rollback(XID))
        with suppress(BranchError):  # there is none
            session.xa_rollback(XID)
        assert found_at_the_end(site, interruption) == UNDONE, interruption.where

    assert each_interruption(attempt, *BRANCHES) > 20
