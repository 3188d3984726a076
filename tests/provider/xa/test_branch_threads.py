"""Branches under many threads: work, time-outs, closes and settling at once lose nothing and double nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from threading import Event

import pytest

from pyjms.spi.errors import BranchError, ClosedError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.journal.journal import Changes
from pyjms_tck.spi.environment import Threads
from tests.provider.keeping.site import ORDERS, consume
from tests.provider.xa.site import BILLS, ONE, XaSite
from tests.pyjms.runtime.helpers import Call

MESSAGES = 60
ROUNDS = 60

pytestmark = pytest.mark.realises("MOM-10")


def move(site: XaSite, seed: int, source_to_target: bool) -> None:
    """Move messages between the queues, one a branch, and end the branches in all ways there are."""
    random = Random(seed)
    source, target = (ORDERS, BILLS) if source_to_target else (BILLS, ORDERS)
    for number in range(ROUNDS):
        xid = Xid(seed, b"move", f"{number}".encode())
        session = site.session(transacted=True)
        consumer = consume(session, source)
        try:
            session.xa_start(xid)
            delivery = consumer.poll()
            if delivery is not None:
                text = str(delivery.envelope.body)
                session.acknowledge([delivery])
                site.send(text, session, target)
            if random.random() < 0.1:
                session.close()
                session = site.session(transacted=True)
            else:
                session.xa_end(xid)
            _end(session, xid, random)
        except BranchError:  # it was doomed meanwhile; whoever dooms gives back
            _forget(site, xid)
        except ClosedError:
            continue
        session.close()


def _end(session: VmSession, xid: Xid, random: Random) -> None:
    way = random.choice(["two phases", "one phase", "rollback", "prepared rollback"])
    if way == "one phase":
        session.xa_commit(xid, one_phase=True)
    elif way == "rollback":
        session.xa_rollback(xid)
    elif session.xa_prepare(xid):
        session.xa_commit(xid) if way == "two phases" else session.xa_rollback(xid)


def _forget(site: XaSite, xid: Xid) -> None:
    try:
        site.session(transacted=True).xa_rollback(xid)
    except BranchError:
        return


def test_messages_move_to_and_fro_and_none_is_lost_or_doubled(site: XaSite) -> None:
    texts = [f"{number:03}" for number in range(MESSAGES)]
    for text in texts:
        site.send(text)
    moved = Event()
    with Threads() as movers, Threads() as hurry:

        def hasten() -> None:
            while not moved.wait(0.005):
                site.advance(100_000)  # now and then a branch's time is over

        hurry.start(hasten)
        for seed in range(4):
            movers.start(partial(move, site, seed, source_to_target=seed % 2 == 0))
        try:
            movers.join()
        finally:
            moved.set()
    site.advance(10**6)
    site.advance(10**6)
    assert not site.branches.reports()
    assert sorted([*site.texts(), *site.texts(BILLS)]) == texts
    site.crash()
    assert sorted([*site.texts(), *site.texts(BILLS)]) == texts


@pytest.mark.parametrize("one_phase", [True, False])
def test_a_stop_waits_for_what_a_coordinator_has_written(site: XaSite, one_phase: bool) -> None:
    """Else what was received would come again, as if nobody had seen it."""
    site.send("order")
    party = site.party()
    party.work() if one_phase else party.prepare()
    stopping: list[Call[None]] = []

    def stop_meanwhile(point: str, changes: Changes) -> None:
        if point == "before write" and (changes.removals or changes.outcomes):
            site.trap = None
            stopping.append(Call(site.broker.stop))
            stopping[0].is_blocked()  # or has ended: it waits for nobody

    site.trap = stop_meanwhile
    party.session.xa_commit(ONE, one_phase=one_phase)
    stopping[0].result()
    site.start()
    assert (site.drain(), site.drain(BILLS)) == ([], [("bill", 1)])


@pytest.mark.parametrize("call", ["prepare", "commit", "commit at once"])
def test_a_coordinator_that_calls_again_while_its_call_is_being_written_is_to_try_again(
    site: XaSite, call: str
) -> None:
    """Its first call went with a connection that was lost; to hear XAER_PROTO it has done nothing wrong."""
    site.send("order")
    party = site.party()
    party.prepare() if call == "commit" else party.work()
    other = site.session(transacted=True)
    heard: list[BranchFailure] = []

    def call_again(point: str, changes: Changes) -> None:
        if point != "before write":
            return
        site.trap = None
        calls: tuple[Callable[[Xid], object], ...] = (
            other.xa_prepare if call == "prepare" else other.xa_commit,
            other.xa_rollback,
        )
        for again in calls:
            with pytest.raises(BranchError) as raised:
                again(ONE)
            heard.append(raised.value.failure)

    site.trap = call_again
    if call == "prepare":
        party.session.xa_prepare(ONE)
    else:
        party.session.xa_commit(ONE, one_phase=call == "commit at once")
    assert heard == [BranchFailure.UNREACHABLE] * 2
    if call == "prepare":
        other.xa_rollback(ONE)
    expected = ([("order", 2)], []) if call == "prepare" else ([], [("bill", 1)])
    assert (site.drain(), site.drain(BILLS)) == expected
