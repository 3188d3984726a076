"""A broker that is stopped while a coordinator's call is being written: the call counts, or is undone as any other is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event

import pytest

from pyjms.spi.errors import ProviderError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.journal.storage_manager import StorageManager
from tests.provider.keeping.site import ORDERS, consume
from tests.provider.xa.site import ONE, Party, XaSite
from tests.pyjms.runtime.helpers import Call

LONG_S = 30


def commit_at_once(party: Party) -> None:
    party.session.xa_commit(ONE, one_phase=True)


def prepare_and_roll_back(party: Party) -> None:
    party.session.xa_prepare(ONE)
    party.session.xa_rollback(ONE)


def prepare_and_commit(party: Party) -> None:
    party.session.xa_prepare(ONE)
    party.session.xa_commit(ONE)


@pytest.mark.parametrize("end", [commit_at_once, prepare_and_roll_back, prepare_and_commit])
def test_what_a_branch_had_received_comes_again_flagged_or_not_at_all(
    site: XaSite, monkeypatch: pytest.MonkeyPatch, end: Callable[[Party], None]
) -> None:
    """A store is closed as clean when nothing is being written, as from then on nobody knows what was delivered."""
    site.send("order")
    party = site.party()
    party.work()
    ending, stoppers = Event(), list[Call[None]]()
    real = StorageManager.end

    def end_storage(storage: StorageManager) -> None:
        ending.set()
        real(storage)

    def stop_meanwhile(_: str, __: Changes) -> None:
        site.trap = None
        stoppers.append(Call(site.broker.stop))
        assert ending.wait(LONG_S)
        stoppers[0].is_blocked()  # or has ended: it waits for nobody

    monkeypatch.setattr(StorageManager, "end", end_storage)
    site.trap = stop_meanwhile
    with suppress(ProviderError):
        end(party)
    (stopper,) = stoppers
    stopper.result()
    site.start()
    if site.branches.recover():
        site.branches.rollback(ONE)
    again = consume(site.session(), ORDERS).poll()
    assert again is None or again.redelivered
