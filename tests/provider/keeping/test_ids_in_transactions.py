"""Ids of producers in transactions count from the commit on: for their whole time, and in the order of commits."""

from __future__ import annotations

import pytest

from pyjms.spi.xid import Xid
from pyjms.testing import VirtualClock
from pyjms_provider.queue_manager import QueueManager
from tests.provider.keeping.site import Site


def advance(site: Site, milliseconds: int) -> None:
    assert isinstance(site.clock, VirtualClock)
    site.clock.advance(milliseconds)


@pytest.mark.parametrize("mode", [1, 2])
def test_an_id_is_remembered_from_the_commit_on_however_long_the_transaction_was(site: Site, mode: int) -> None:
    session = site.session(transacted=True)
    site.send("a", session, properties={"JMS_pyjms_duplicateId": "1"}, delivery_mode=mode)
    advance(site, 300_000)
    session.commit()
    advance(site, 299_999)
    if mode == 2:
        site.crash()
    site.send("a again", properties={"JMS_pyjms_duplicateId": "1"})
    assert site.texts() == ["a"]
    advance(site, 1)
    site.send("a late", properties={"JMS_pyjms_duplicateId": "1"})
    assert site.texts() == ["a", "a late"]


@pytest.mark.parametrize("is_branch", [False, True], ids=["local", "branch"])
def test_what_was_committed_last_is_forgotten_last_also_after_a_restart(site: Site, is_branch: bool) -> None:
    """And not what was sent last."""
    QueueManager(site.broker.virtual_host).create("orders", duplicate_count=2)
    session, xid = site.session(transacted=True), Xid(1, b"1", b"")
    if is_branch:
        session.xa_start(xid)
    site.send("first", session, properties={"JMS_pyjms_duplicateId": "first"})
    if is_branch:
        session.xa_end(xid)
        session.xa_prepare(xid)
    for text in ("second", "third"):
        site.send(text, properties={"JMS_pyjms_duplicateId": text})
    if is_branch:
        session.xa_commit(xid)
    else:
        session.commit()
    for _ in range(2):
        site.send("again", properties={"JMS_pyjms_duplicateId": "first"})
        assert "again" not in site.texts()
        site.crash()
    site.send("again", properties={"JMS_pyjms_duplicateId": "second"})
    assert "again" in site.texts()


def test_what_a_store_may_forget_is_never_what_a_long_transaction_commits(site: Site) -> None:
    QueueManager(site.broker.virtual_host).create("orders", duplicate_count=10)
    session = site.session(transacted=True)
    site.send("first", session, properties={"JMS_pyjms_duplicateId": "first"})
    for number in range(1500):
        site.send("other", properties={"JMS_pyjms_duplicateId": str(number)})
    assert len(site.medium.duplicates) < 1000
    session.commit()
    site.crash()
    site.send("again", properties={"JMS_pyjms_duplicateId": "first"})
    assert "again" not in site.texts()
