"""What is in doubt in a queue with a policy: its rules know of it when the broker starts again."""

from __future__ import annotations

import pytest

from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.xa.site import BILLS, ONE, XaSite

pytestmark = pytest.mark.realises("MOM-10")


def test_a_queue_with_a_limit_leaves_alone_what_a_branch_has_received(site: XaSite) -> None:
    QueueManager(site.broker.virtual_host).create("orders", max_messages=2, overflow="ring")
    site.send("a")
    site.party().prepare()
    for name in "bc":
        site.send(name)
    site.journal.note = lambda _: None  # type: ignore[method-assign, assignment]  # what goes now comes back
    site.send("d")
    site.crash()
    assert site.branches.recover() == [ONE]
    site.session(transacted=True).xa_rollback(ONE)
    assert site.texts()[-1] == "d"
    assert "a" in site.texts()


@pytest.mark.parametrize("newer_comes", ["before", "afterwards", "and goes"])
def test_an_old_value_that_a_branch_has_received_does_not_come_back_beside_the_newer_one(
    site: XaSite, newer_comes: str
) -> None:
    QueueManager(site.broker.virtual_host).create("orders", type="last_value", key="symbol")
    site.send("old", properties={"symbol": "EUR"})
    site.party().prepare()
    if newer_comes == "before":
        site.send("new", properties={"symbol": "EUR"})
    site.crash()
    if newer_comes != "before":
        site.send("new", properties={"symbol": "EUR"})
    if newer_comes == "and goes":
        assert site.drain() == [("new", 1)]
    site.session(transacted=True).xa_rollback(ONE)
    assert site.texts() == ([] if newer_comes == "and goes" else ["new"])


@pytest.mark.parametrize("commits", [False, True])
def test_what_cannot_be_read_any_more_does_not_keep_a_branch_from_ending(
    site: XaSite, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    """Its queues ask for properties of each message when they are restored."""
    for name in ("orders", "bills"):
        QueueManager(site.broker.virtual_host).create(name, type="sorted", key="number")
    for name in "ab":
        site.send(name)
    site.party().prepare()
    read = VolatileJournal.read
    monkeypatch.setattr(
        VolatileJournal,
        "read",
        lambda journal, ids: {
            number: found for number, found in read(journal, ids).items() if found.body not in ("a", "bill")
        },
    )
    site.crash()
    assert site.branches.recover() == [ONE]
    assert (site.texts(), site.report.sent, site.report.received) == (["b"], 0, 0)
    session = site.session(transacted=True)
    session.xa_commit(ONE) if commits else session.xa_rollback(ONE)
    assert (site.texts(), site.texts(BILLS)) == (["b"], [])
    assert len(site.broker.virtual_host.store) == 1
