"""The main thread is interrupted at each place of a coordinator's call: the call that is made again tells what became of the branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pyjms import IllegalStateException
from pyjms.api.xa import XAException, XAResource
from pyjms.runtime.xa import JmsXAConnection, JmsXASession, RecoveredXid, XAConnectionFactory
from pyjms.spi.xid import Xid
from pyjms_provider.broker import stop_broker
from pyjms_provider.core.store.paging import PagingMessageStore
from tests.provider.interruptions import Interruption, each_interruption

NAME = "interrupted-calls"
FILES = ("runtime/xa.py", "clients/vm_transactions.py")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[JmsXAConnection]:
    factory = XAConnectionFactory(f"vm://{NAME}?store=sqlite:///{tmp_path}/s.db")
    with factory.create_xa_connection() as connection:
        connection.start()
        yield connection
    stop_broker(NAME)


@pytest.fixture
def session(connection: JmsXAConnection) -> JmsXASession:
    return connection.create_xa_session()


class Work:
    """Branches in each of which a message is sent."""

    def __init__(self, session: JmsXASession) -> None:
        self._session = session
        self._number = 0
        self.resource = session.xa_resource

    def branch(self) -> RecoveredXid:
        """Return one whose work has ended."""
        xid = self.open_branch()
        self.resource.end(xid, XAResource.TMSUCCESS)
        return xid

    def open_branch(self) -> RecoveredXid:
        """Return one whose work has not ended yet."""
        self._number += 1
        xid = RecoveredXid(Xid(1, str(self._number).encode(), b""))
        self.resource.start(xid, XAResource.TMNOFLAGS)
        session = self._session
        session.create_producer(session.create_queue("q")).send(session.create_message())
        return xid


def call_again(interruption: Interruption, call: Callable[[], None], code: int) -> None:
    """Make a call that is interrupted, and again if it was; what has become of it is told once, and after that `code`."""
    with suppress(KeyboardInterrupt), interruption():
        call()
    if interruption.where is not None:
        call()
    with pytest.raises(XAException) as raised:
        call()
    assert raised.value.error_code == code, f"{interruption.where}: it is told once"


def test_the_end_of_work(session: JmsXASession) -> None:
    """It said that there is no work to end, where the first call had ended it."""
    work = Work(session)

    def attempt(interruption: Interruption) -> None:
        xid = work.open_branch()
        call_again(interruption, lambda: work.resource.end(xid, XAResource.TMSUCCESS), XAException.XAER_PROTO)
        work.resource.commit(xid, one_phase=True)

    assert each_interruption(attempt, *FILES) > 10


def test_work_that_goes_on_after_an_interrupted_end_is_ended_by_its_own_end(session: JmsXASession) -> None:
    """And not by what the first call did."""
    work = Work(session)

    def attempt(interruption: Interruption) -> None:
        xid = work.open_branch()
        with suppress(KeyboardInterrupt), interruption():
            work.resource.end(xid, XAResource.TMSUCCESS)
        with suppress(XAException):  # it has not ended
            work.resource.start(xid, XAResource.TMJOIN)
        work.resource.end(xid, XAResource.TMSUCCESS)
        work.resource.commit(xid, one_phase=True)

    assert each_interruption(attempt, *FILES) > 10


def test_a_rollback_in_place_of_a_second_end(session: JmsXASession) -> None:
    """A message could be sent then that belonged to no branch, and the next start was refused because of it."""
    work = Work(session)
    producer = session.create_producer(session.create_queue("q"))

    def attempt(interruption: Interruption) -> None:
        xid = work.open_branch()
        with suppress(KeyboardInterrupt), interruption():
            work.resource.end(xid, XAResource.TMSUCCESS)
        try:
            work.resource.rollback(xid)
        except XAException:  # it has not ended
            work.resource.end(xid, XAResource.TMSUCCESS)
            work.resource.rollback(xid)
        with pytest.raises(IllegalStateException, match="no transaction manager has started a branch"):
            producer.send(session.create_message())
        work.resource.rollback(work.branch())

    assert each_interruption(attempt, *FILES) > 10


def test_what_no_client_has_seen_comes_again_by_a_rollback_in_place_of_a_second_end(
    connection: JmsXAConnection, session: JmsXASession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came with the end of the session's next branch."""
    work, other = Work(session), connection.create_session()
    queue = session.create_queue("unseen")
    producer, receiver = other.create_producer(queue), other.create_consumer(queue)

    def attempt(interruption: Interruption) -> None:
        producer.send(other.create_message())
        xid, consumer = work.open_branch(), session.create_consumer(queue)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("pyjms.runtime.session.thaw", _interrupted)
            consumer.receive_no_wait()
        consumer.close()
        with suppress(KeyboardInterrupt), interruption():
            work.resource.end(xid, XAResource.TMSUCCESS)
        try:
            work.resource.rollback(xid)
        except XAException:  # it has not ended
            work.resource.end(xid, XAResource.TMSUCCESS)
            work.resource.rollback(xid)
        assert receiver.receive_no_wait() is not None, interruption.where

    assert each_interruption(attempt, *FILES) > 10


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_commit_in_one_phase(session: JmsXASession) -> None:
    """It said that there is no such branch, which is also said of one that was rolled back."""
    work = Work(session)

    def attempt(interruption: Interruption) -> None:
        xid = work.branch()
        call_again(interruption, lambda: work.resource.commit(xid, one_phase=True), XAException.XAER_NOTA)

    assert each_interruption(attempt, *FILES) > 5


def test_a_promise(session: JmsXASession) -> None:
    """It was a call at a wrong time: the branch was prepared, and nobody had heard of it."""
    work = Work(session)

    def attempt(interruption: Interruption) -> None:
        xid = work.branch()
        with suppress(KeyboardInterrupt), interruption():
            assert work.resource.prepare(xid) == XAResource.XA_OK
        if interruption.where is not None:
            assert work.resource.prepare(xid) == XAResource.XA_OK, interruption.where
        for _ in range(2):
            with pytest.raises(XAException) as raised:
                work.resource.prepare(xid)
            assert raised.value.error_code == XAException.XAER_PROTO, f"{interruption.where}: it is told once"
        work.resource.commit(xid, one_phase=False)

    assert each_interruption(attempt, *FILES) > 3


def test_a_commit_of_a_promise(session: JmsXASession) -> None:
    """It said that there is no such branch, which is a fault to be looked into."""
    work = Work(session)

    def attempt(interruption: Interruption) -> None:
        xid = work.branch()
        work.resource.prepare(xid)
        call_again(interruption, lambda: work.resource.commit(xid, one_phase=False), XAException.XAER_NOTA)

    assert each_interruption(attempt, *FILES) > 5


def test_calls_about_another_branch_before_those_that_are_made_again(session: JmsXASession) -> None:
    """A session remembered one branch alone: what became of the first one was a call at a wrong time, or about no branch."""
    work = Work(session)

    def attempt(interruption: Interruption) -> None:
        xid, other, is_prepared = work.branch(), work.branch(), False
        with suppress(KeyboardInterrupt), interruption():
            work.resource.prepare(xid)
            is_prepared = True
            work.resource.commit(xid, one_phase=False)
        work.resource.prepare(other)
        work.resource.commit(other, one_phase=False)
        if interruption.where is None:
            return
        if not is_prepared:
            work.resource.prepare(xid)
        work.resource.commit(xid, one_phase=False)

    assert each_interruption(attempt, *FILES) > 5


def test_a_name_that_is_given_once_more_is_another_branch(
    session: JmsXASession, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(session)
    xid = work.branch()
    work.resource.prepare(xid)

    def committed(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(PagingMessageStore, "relieve", committed)  # what follows a commit
    with pytest.raises(KeyboardInterrupt):
        work.resource.commit(xid, one_phase=False)
    work.resource.start(xid, XAResource.TMNOFLAGS)
    work.resource.end(xid, XAResource.TMSUCCESS)
    work.resource.rollback(xid)
    with pytest.raises(XAException) as raised:
        work.resource.commit(xid, one_phase=False)
    assert raised.value.error_code == XAException.XAER_NOTA


def test_a_commit_of_a_promise_that_was_rolled_back_before_it_was_made_again(
    connection: JmsXAConnection, session: JmsXASession
) -> None:
    work, other = Work(session), connection.create_xa_session().xa_resource

    def attempt(interruption: Interruption) -> None:
        xid = work.branch()
        work.resource.prepare(xid)
        with suppress(KeyboardInterrupt), interruption():
            work.resource.commit(xid, one_phase=False)
        if interruption.where is None:
            return
        try:
            other.rollback(xid)
        except XAException:  # it is committed
            work.resource.commit(xid, one_phase=False)
        else:
            with pytest.raises(XAException) as raised:
                work.resource.commit(xid, one_phase=False)
            assert raised.value.error_code == XAException.XAER_NOTA, interruption.where

    assert each_interruption(attempt, *FILES) > 5
