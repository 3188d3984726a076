"""The main thread is interrupted at each place beside a write at which Python can do so: nothing is lost or comes unflagged, and the store has what the broker has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pyjms.spi.errors import TooLateError
from pyjms_provider.queue_manager import QueueManager
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.site import BILLS, ORDERS, consume, take_all
from tests.provider.keeping.test_interrupted import come_again, interrupt_at, receive
from tests.provider.simulation.site import SimulatedSite as Site

FILES = (
    "clients/vm_session.py",
    "clients/vm_transactions.py",
    "core/journal/durable_send.py",
    "core/host/host_subscriptions.py",
    "core/journal/storage_manager.py",
    "core/transaction/unit_changes.py",
    "core/transaction/unit_of_work.py",
    "core/host/virtual_host.py",
    "core/journal/durable_ddl.py",
)
SETTLING = (
    "clients/vm_entries.py",
    "core/journal/in_doubt_writes.py",
    "core/queue/settling_queue.py",
    "core/journal/work_under_way.py",
)


def interrupt(interruption: Interruption, action: Callable[[], object]) -> None:
    with suppress(KeyboardInterrupt), interruption():
        action()


def drain_after_restart(site: Site, interruption: Interruption) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return what the store has of orders and bills, which must be what the broker had."""
    come_again(site)
    before = site.texts(ORDERS), site.texts(BILLS)
    site.restart()
    found = site.drain(), site.drain(BILLS)
    assert before == tuple([name for name, _ in each] for each in found), interruption.where
    assert len(site.broker.virtual_host.store) == 0
    return found


@pytest.mark.parametrize("awaited", [False, True])
def test_a_send(awaited: bool) -> None:
    """Nobody waits for it, or a consumer does, whose session is handed it at once, and has not looked at it when it closes."""
    before = [] if awaited else [("first", 1)]
    outcomes = (before, [*before, ("second", 1)])

    def attempt(interruption: Interruption) -> None:
        site = Site()
        site.send("first")
        session, reader = site.session(), site.session()
        if awaited:
            consumer = consume(reader)
            reader.acknowledge(take_all(consumer))
            consumer.set_interested(True)
        interrupt(interruption, lambda: site.send("second", session))
        reader.close()
        orders, _ = drain_after_restart(site, interruption)
        assert orders in (outcomes if interruption.where else outcomes[1:]), (interruption.where, orders)

    assert each_interruption(attempt, *FILES, "core/store/paging.py", "core/queue/queue.py") > 10


def test_an_acknowledgement() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        session, taken = receive(site, "first", "second")
        interrupt(interruption, lambda: session.acknowledge(taken))
        session.close()
        orders, _ = drain_after_restart(site, interruption)
        assert orders in ([], [("first", 2), ("second", 2)], [("second", 2)]), interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_an_acknowledgement_that_is_made_again_settles_or_says_that_it_did_not() -> None:
    """It returned though the interrupted one had put a message back, or put back what that one had settled."""
    outcomes: set[bool] = set()

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session, taken = receive(site, "first", "second")
        interrupt(interruption, lambda: session.acknowledge(taken))
        is_settled = False
        with suppress(TooLateError):  # it comes again
            session.acknowledge(taken)
            is_settled = True
        session.close()
        orders, _ = drain_after_restart(site, interruption)
        assert (orders == []) is is_settled, interruption.where
        outcomes.add(is_settled)

    assert each_interruption(attempt, *FILES, *SETTLING) > 10
    assert outcomes == {True, False}


@pytest.mark.parametrize("point", ["before write", "after write"])
def test_an_acknowledgement_in_doubt_that_is_made_again_may_be_interrupted_once_more(point: str) -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        session, taken = receive(site, "first", "second")
        interrupt_at(site, point, lambda: session.acknowledge(taken))
        interrupt(interruption, lambda: session.acknowledge(taken))
        session.acknowledge(taken)
        session.close()
        assert drain_after_restart(site, interruption) == ([], []), interruption.where

    assert each_interruption(attempt, *FILES, *SETTLING) > 10


KEPT = pytest.mark.parametrize("mode", [1, 2], ids=["in memory", "stored"])


@KEPT
def test_an_acknowledgement_of_what_an_interrupted_recover_gave_back_says_so(mode: int) -> None:
    """Of one message, be it written or not."""
    outcomes: set[bool] = set()

    def attempt(interruption: Interruption) -> None:
        site = Site()
        site.send("order", delivery_mode=mode)
        session = site.session()
        consumer = consume(session)
        taken = take_all(consumer)
        interrupt(interruption, lambda: session.recover(taken))
        is_settled = False
        with suppress(TooLateError):  # it comes again
            session.acknowledge(taken)
            is_settled = True
        assert bool(take_all(consumer)) is not is_settled, interruption.where
        outcomes.add(is_settled)
        site.stop()

    assert each_interruption(attempt, *FILES, *SETTLING) > 3
    assert outcomes == {True, False}


@KEPT
def test_an_acknowledgement_of_what_was_given_back_and_has_come_again_settles_it(mode: int) -> None:
    """And says nothing else, as nothing comes any more; though it is interrupted, and made again."""
    site = Site()

    def attempt(interruption: Interruption) -> None:
        site.send("order", delivery_mode=mode)
        session = site.session()
        consumer = consume(session)
        taken = take_all(consumer)
        session.recover(taken)
        taken += take_all(consumer)
        assert len(taken) == 2
        interrupt(interruption, lambda: session.acknowledge(taken))
        expected: list[tuple[str, int]] = []
        try:
            session.acknowledge(taken)
        except TooLateError:
            expected = [("order", 3)]
        come_again(site)
        assert site.drain() == expected, interruption.where
        session.close()

    assert each_interruption(attempt, *FILES, *SETTLING) > 3
    site.stop()


def test_a_commit() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        session, taken = receive(site, "order", transacted=True)
        site.texts(BILLS)
        session.acknowledge(taken)
        site.send("bill", session, BILLS)
        interrupt(interruption, session.commit)
        session.rollback()
        session.close()
        found = drain_after_restart(site, interruption)
        assert found in (([("order", 2)], []), ([], [("bill", 1)])), interruption.where

    assert each_interruption(attempt, *FILES) > 20


def test_a_commit_of_what_is_sent() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = site.session(transacted=True)
        site.send("first", session)
        site.send("second", session)
        interrupt(interruption, session.commit)
        session.close()
        orders, _ = drain_after_restart(site, interruption)
        assert orders in ([], [("first", 1), ("second", 1)]), interruption.where

    assert each_interruption(attempt, *FILES) > 20


def test_the_end_of_a_queue() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        site.send("order")
        site.send("bill", to=BILLS)
        interrupt(interruption, lambda: QueueManager(site.broker.virtual_host).destroy(ORDERS.name))
        is_there = site.broker.virtual_host.find_queue(ORDERS.name) is not None
        site.restart()
        assert (site.broker.virtual_host.find_queue(ORDERS.name) is not None) is is_there, interruption.where
        assert site.texts(BILLS) == ["bill"]

    assert each_interruption(attempt, *FILES) > 5
