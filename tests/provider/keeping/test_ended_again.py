"""A commit, or the staging of a transaction, that was interrupted and is asked for again is done then, or tells why not: it never says that
what was dropped is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from pyjms.spi.errors import InDoubtError, RolledBackError
from pyjms.spi.replay import StageName
from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.core.host.host_policy import HostPolicy
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.site import BILLS, ORDERS
from tests.provider.keeping.test_interrupted import come_again, receive
from tests.provider.keeping.test_interrupted_anywhere import interrupt
from tests.provider.keeping.test_interrupted_endings import Found
from tests.provider.simulation.site import SimulatedSite as Site

FILES: Final = (
    "clients/vm_transactions.py",
    "clients/vm_session.py",
    "core/journal/storage_manager.py",
    "core/transaction/stages.py",
    "core/transaction/unit_of_work.py",
    "core/host/virtual_host.py",
)


def work(site: Site, kind: str) -> VmSession:
    """Send a bill in a transaction, and take an order for it if it is one of `both`."""
    if kind != "both":
        session = site.session(transacted=True)
        site.send("bill", session, BILLS, delivery_mode=1 if kind == "transient" else 2)
        return session
    session, taken = receive(site, "order", transacted=True)
    session.acknowledge(taken)
    site.send("bill", session, BILLS)
    return session


def commit_again(session: VmSession) -> str:
    """Return what the runtime would tell."""
    session.acknowledge(())  # as it does before each commit
    try:
        session.commit()
    except RolledBackError:
        return "rolled back"
    except InDoubtError:
        return "in doubt"
    return "committed"


@pytest.mark.parametrize("kind", ["sent", "transient", "both"])
def test_a_commit(kind: str) -> None:
    done: Found = ([], [("bill", 1)])
    undone: Found = ([("order", 2)] if kind == "both" else [], [])
    outcomes = {"committed": [done], "rolled back": [undone], "in doubt": [done, undone]}
    seen = set()

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work(site, kind)
        interrupt(interruption, session.commit)
        told = commit_again(session)
        seen.add(told)
        assert commit_again(session) == "committed", f"{interruption.where}: nothing is left of it"
        session.close()
        come_again(site)
        found = site.drain(), site.drain(BILLS)
        assert found in outcomes[told], (interruption.where, told)
        assert len(site.broker.virtual_host.store) == 0, interruption.where

    assert each_interruption(attempt, *FILES) > 15
    assert "committed" in seen
    assert ("in doubt" in seen) is (kind == "both")


@pytest.mark.parametrize("kind", ["sent", "both"])
def test_a_commit_whose_telling_was_interrupted_is_told_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the third one returns as if all was done, of which nothing is written."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work(site, kind)
        keeper = site.broker.virtual_host.keeper
        assert keeper is not None
        with monkeypatch.context() as patch:
            patch.setattr(type(keeper.journal), "write", _be_interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.commit()
        is_told = False
        try:
            interrupt(interruption, session.commit)
        except (RolledBackError, InDoubtError):
            is_told = True
        assert is_told is (commit_again(session) == "committed"), interruption.where

    assert each_interruption(attempt, *FILES) > 3


@pytest.mark.parametrize("kind", ["sent", "both"])
def test_a_commit_that_was_interrupted_after_it_was_refused_is_refused_again(kind: str) -> None:
    def attempt(interruption: Interruption) -> None:
        session = work(Site(), kind)
        assert session._unit is not None
        session._unit.expire()
        try:
            interrupt(interruption, session.commit)
        except RolledBackError:
            pass
        else:
            assert commit_again(session) == "rolled back", interruption.where
        assert commit_again(session) == "committed", f"{interruption.where}: nothing is left of it"

    assert each_interruption(attempt, *FILES, "core/journal/work_under_way.py") > 3


def _be_interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("meanwhile", ["sent more", "rolled back"])
def test_after_something_else_there_is_nothing_to_tell(meanwhile: str) -> None:
    """What was sent after the interrupted commit is committed by the next one."""
    more = [("next", 1)] if meanwhile == "sent more" else []

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work(site, "sent")
        interrupt(interruption, session.commit)
        if more:
            site.send("next", session, BILLS)
        else:
            session.rollback()
        assert commit_again(session) == "committed", interruption.where
        assert site.drain(BILLS) in ([("bill", 1), *more], more), interruption.where

    assert each_interruption(attempt, *FILES) > 15


def test_a_session_that_closes_after_an_interrupted_commit_keeps_nothing() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = work(site, "both")
        interrupt(interruption, session.commit)
        session.close()
        come_again(site)
        found = site.drain(), site.drain(BILLS)
        assert found in (([("order", 2)], []), ([], [("bill", 1)])), interruption.where
        assert len(site.broker.virtual_host.store) == 0, interruption.where

    assert each_interruption(attempt, *FILES) > 15


def test_a_transaction_that_was_open_too_long_is_told_though_the_commit_was_interrupted() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site(policy=HostPolicy(transaction_timeout_ms=1000))
        session = work(site, "sent")
        site.clock.advance(2000)  # type: ignore[attr-defined]
        site.tend()
        try:
            interrupt(interruption, session.commit)
        except RolledBackError:
            return
        with pytest.raises(RolledBackError, match="open for more than"):
            session.commit()

    assert each_interruption(attempt, *FILES) > 3


@pytest.mark.parametrize("renamed", [False, True], ids=["same name", "other name"])
def test_a_staged_unit(renamed: bool) -> None:
    """It is staged with all that was sent, or not at all: an empty one would be promoted, and its messages missing."""
    seen = set()

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session, name = work(site, "sent"), StageName("sink", 0, 0, "a")
        interrupt(interruption, lambda: session.stage(name, keep_s=60))
        if interruption.where is None:
            return  # it is staged, and whoever was told so does not stage it again
        again = replace(name, attempt="b") if renamed else name
        try:
            staged = session.stage(again, keep_s=60)
        except (RolledBackError, InDoubtError) as error:
            seen.add(type(error))
            staged = None
        stages = site.connect("ann").stages()
        if staged is not None:
            assert staged == 1, interruption.where
            stages.promote("sink", 0, [again])
        assert site.drain(BILLS) == ([("bill", 1)] if staged == 1 else []), interruption.where
        stages.discard([unit.name for unit in stages.units()])
        session.close()
        assert len(site.broker.virtual_host.store) == 0, interruption.where
        assert site.drain(ORDERS) == []

    assert each_interruption(attempt, *FILES) > 15
    assert RolledBackError in seen
