"""Transactions on a journal: all of it, or nothing, whatever fails and whoever closes meanwhile."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ClosedError, InDoubtError, ResourceError, RolledBackError
from pyjms.spi.xid import Xid
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.stores.volatile import Crash
from tests.provider.helpers import RecordedEvents, make_envelope
from tests.provider.keeping.site import BILLS, NEWS, ORDERS, Site, consume, take_all, text, work

PATIENCE_S = 30.0


@pytest.fixture
def ordered(site: Site) -> Site:
    site.send("order")
    return site


def test_a_committed_transaction_survives_whole(ordered: Site) -> None:
    session = work(ordered)
    session.commit()
    ordered.crash()
    assert ordered.drain() == []
    assert ordered.drain(BILLS) == [("bill", 1)]


def test_one_write_makes_a_transaction_durable(ordered: Site) -> None:
    session = work(ordered)
    ordered.texts(BILLS)
    ordered.points.clear()
    session.commit()
    assert ordered.points == ["before write", "after write"]


def test_a_transaction_that_did_not_commit_has_no_effect_after_a_crash(ordered: Site) -> None:
    work(ordered)
    ordered.crash()
    assert ordered.drain(BILLS) == []
    assert ordered.drain() == [("order", 2)]


def test_a_rollback_writes_nothing_but_how_often_it_was_delivered(ordered: Site) -> None:
    session = work(ordered)
    ordered.points.clear()
    session.rollback()
    session.close()
    assert ordered.points == []
    assert ordered.drain() == [("order", 2)]


@pytest.mark.parametrize("point", ["before write", "after write"])
def test_a_crash_in_the_commit_leaves_all_or_nothing(ordered: Site, point: str) -> None:
    session = work(ordered)
    ordered.texts(BILLS)

    def die(at: str, _: Changes) -> None:
        if at == point:
            raise Crash

    ordered.trap = die
    with pytest.raises(Crash):
        session.commit()
    ordered.trap = None
    ordered.start()
    found = (ordered.drain(), ordered.drain(BILLS))
    assert found == (([("order", 2)], []) if point == "before write" else ([], [("bill", 1)]))


def test_a_commit_that_cannot_be_written_is_rolled_back(ordered: Site) -> None:
    session = work(ordered)
    ordered.texts(BILLS)
    ordered.trap = _refuse
    with pytest.raises(RolledBackError, match="no space on the disk"):
        session.commit()
    ordered.trap = None
    assert ordered.texts(BILLS) == []
    assert ordered.texts() == []  # the session still holds it, until its client recovers
    session.close()
    assert ordered.drain() == [("order", 2)]
    ordered.crash()
    assert ordered.drain() == []


def test_the_session_goes_on_after_a_commit_that_was_refused(ordered: Site) -> None:
    session = work(ordered)
    ordered.texts(BILLS)
    ordered.trap = _refuse
    with pytest.raises(RolledBackError):
        session.commit()
    ordered.trap = None
    ordered.send("second bill", session, BILLS)
    session.commit()
    assert ordered.drain(BILLS) == [("second bill", 1)]


def test_nobody_sees_a_transaction_before_it_is_written(ordered: Site) -> None:
    session = work(ordered)
    ordered.texts(BILLS)
    seen: list[list[str]] = []

    def look(_: str, changes: Changes) -> None:
        if changes.messages:
            seen.append(ordered.texts(BILLS))

    ordered.trap = look
    session.commit()
    assert seen == [[], []]
    assert ordered.texts(BILLS) == ["bill"]


@pytest.mark.parametrize("refused", [False, True], ids=["written", "refused"])
def test_a_session_that_is_closed_during_its_commit_gives_back_all_or_nothing(ordered: Site, refused: bool) -> None:
    session = work(ordered)
    ordered.texts(BILLS)
    writing, go_on = Event(), Event()
    outcome: list[BaseException | None] = []

    def hold(point: str, changes: Changes) -> None:
        if point == "before write" and changes.removals:
            writing.set()
            assert go_on.wait(PATIENCE_S)
            if refused:
                raise ResourceError("no space on the disk")

    def commit() -> None:
        try:
            session.commit()
        except RolledBackError as error:
            outcome.append(error)
        else:
            outcome.append(None)

    ordered.trap = hold
    committing = Thread(target=commit)
    committing.start()
    assert writing.wait(PATIENCE_S)
    session.close()
    assert ordered.texts() == []  # neither given back nor gone: the write decides
    go_on.set()
    committing.join(PATIENCE_S)
    assert not committing.is_alive()
    ordered.trap = None
    found = (ordered.drain(), ordered.drain(BILLS))
    if refused:
        assert found == ([("order", 2)], [])
        assert isinstance(outcome[0], RolledBackError)
    else:
        assert found == ([], [("bill", 1)])
        assert outcome == [None]


def test_a_message_that_expires_while_its_transaction_is_written_is_not_kept(site: Site) -> None:
    session = site.session(transacted=True)
    site.send("short", session, expiration_ms=site.clock.time_ms() + 1000)

    def age(point: str, _: Changes) -> None:
        if point == "before write":
            site.trap = None
            site.clock.advance(2000)  # type: ignore[attr-defined]  # it is a VirtualClock
            site.broker.virtual_host.queue("orders").run_due(site.clock.time_ms())

    site.trap = age
    session.commit()
    assert site.drain() == []
    site.restart()
    assert not site.medium.messages


def test_an_unknown_outcome_is_told_as_such(ordered: Site) -> None:
    session = work(ordered)
    ordered.texts(BILLS)

    def lose(point: str, _: Changes) -> None:
        if point == "before write":
            raise InDoubtError("the connection to the database broke during the commit")

    ordered.trap = lose
    with pytest.raises(InDoubtError, match="broke during the commit"):
        session.commit()


def test_a_transaction_may_publish_to_several_durable_subscribers(site: Site) -> None:
    for client in ("one", "two"):
        connection = site.connect(client)
        consume(connection.open_session(transacted=False), NEWS, durable_name="all")
        connection.close()
    session = site.session(transacted=True)
    site.send("first", session, NEWS)
    site.send("second", session, NEWS)
    session.commit()
    assert len(site.medium.messages) == 2  # once each, however many subscribers there are
    site.crash()
    for client in ("one", "two"):
        consumer = consume(site.connect(client).open_session(transacted=False), NEWS, durable_name="all")
        assert [text(consumer.poll()), text(consumer.poll()), consumer.poll()] == ["first", "second", None]


def test_a_closed_session_refuses_to_commit(ordered: Site) -> None:
    session = work(ordered)
    session.close()
    with pytest.raises(ClosedError):
        session.commit()
    assert ordered.drain() == [("order", 2)]


def _refuse(point: str, _: Changes) -> None:
    if point.startswith("before"):
        raise ResourceError("no space on the disk")


def test_a_message_that_was_acknowledged_twice_is_removed_once(tmp_path: Path) -> None:
    """A table of removals has each once."""
    settings = BrokerSettings(store=StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}"))
    broker = EmbeddedBroker("twice", SystemClock(), settings)
    connection = VmConnection(broker, RecordedEvents())
    connection.start()
    connection.open_session(transacted=False).send(make_envelope("order", destination=ORDERS, persistent=True))
    session = connection.open_session(transacted=True)
    xid = Xid(1, b"1", b"")
    session.xa_start(xid)
    taken = take_all(consume(session))
    for _ in range(2):
        session.acknowledge(taken)
    session.xa_end(xid)
    assert session.xa_prepare(xid)
    session.xa_commit(xid)
    assert len(broker.virtual_host.store) == 0
    broker.stop()
