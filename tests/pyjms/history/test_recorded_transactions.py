"""What a recording tells of transactions that are asked for something that they refuse, and of branches that take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.history import record
from pyjms.history.recorder import RecordedProvider
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError, RolledBackError, StageError
from pyjms.spi.provider import ConnectRequest, ProviderConnection, ProviderSession
from pyjms.spi.registry import find_provider
from pyjms.spi.replay import StageName
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid
from pyjms_provider.stores.sql import SqlJournal
from tests.provider.clients.world import consume, drain
from tests.provider.helpers import RecordedEvents, make_envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyjms.history import Recording

ONE, TWO = Xid(1, b"one", b"branch"), Xid(1, b"two", b"branch")
NOBODYS = StageName("sink", 1, 0, "")


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with record(tmp_path / "history") as made:
        yield made


@pytest.fixture
def connection(recording: Recording, tmp_path: Path) -> Iterator[ProviderConnection]:
    url = ProviderUrl.parse(f"vm://recorded?synchronous=off&store=sqlite:///{tmp_path / 'store.db'}")
    request = ConnectRequest(url=url, user_name=None, password=None, client_id=None, clock=SystemClock())
    made = RecordedProvider(find_provider("vm"), recording).connect(request, RecordedEvents())
    made.start()
    yield made
    made.close()
    find_provider("vm").stop_broker(url)


def judge(recording: Recording, connection: ProviderConnection, expected: list[str]) -> None:
    """Receive what is there, and have all of it judged."""
    reader = connection.open_session(transacted=False)
    assert drain(reader, consume(reader)) == expected  # type: ignore[arg-type]  # a recorded one
    connection.close()
    assert str(recording.check(complete=True)).startswith("nothing found in ")


def join_nothing(session: ProviderSession) -> None:
    with pytest.raises(ResourceError, match="no sqlalchemy"):
        session.commit_with("no connection")


def stage_badly(session: ProviderSession) -> None:
    with pytest.raises(StageError):
        session.stage(NOBODYS, keep_s=1)


@pytest.mark.parametrize(("ask", "expected"), [(join_nothing, ["after"]), (stage_badly, ["before", "after"])])
def test_what_follows_a_refusal_may_be_committed(
    recording: Recording, connection: ProviderConnection, ask: Callable[[ProviderSession], None], expected: list[str]
) -> None:
    """A transaction that cannot join is rolled back by this provider, and one that cannot be staged goes on."""
    session = connection.open_session(transacted=True)
    session.send(make_envelope("before"))
    ask(session)
    session.send(make_envelope("after"))
    session.commit()
    judge(recording, connection, expected)


def test_a_transaction_that_is_rolled_back_when_it_is_staged_is_over(
    recording: Recording, connection: ProviderConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ResourceError("the disk is full")

    session = connection.open_session(transacted=True)
    session.send(make_envelope("before"))
    with monkeypatch.context() as patched, pytest.raises(RolledBackError):
        patched.setattr(SqlJournal, "write", refuse)
        session.stage(StageName("sink", 1, 0, "a"), keep_s=60)
    session.send(make_envelope("after"))
    session.commit()
    judge(recording, connection, ["after"])


def test_a_suspended_branch_may_be_ended_while_its_session_works_in_another(
    recording: Recording, connection: ProviderConnection
) -> None:
    session = connection.open_session(transacted=True)
    session.xa_start(ONE)
    session.send(make_envelope("one"))
    session.xa_end(ONE, suspend=True)
    session.xa_start(TWO)
    session.xa_end(ONE)
    session.send(make_envelope("two"))
    session.xa_end(TWO)
    for branch in (ONE, TWO):
        session.xa_commit(branch, one_phase=True)
    judge(recording, connection, ["one", "two"])
