"""`UnackedMessages` against a model that keeps a plain list (JMS 1.1 §4.4.11)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event, Thread
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms import AcknowledgeMode
from pyjms.runtime.machines import DUPS_OK_BATCH, UnackedMessages
from pyjms.spi import Delivery, Envelope

AUTO, CLIENT, DUPS_OK, TRANSACTED = (
    AcknowledgeMode.AUTO_ACKNOWLEDGE,
    AcknowledgeMode.CLIENT_ACKNOWLEDGE,
    AcknowledgeMode.DUPS_OK_ACKNOWLEDGE,
    AcknowledgeMode.SESSION_TRANSACTED,
)


def make(tag: int = 0) -> Delivery:
    """Return a delivery that differs from all others by identity, not by value."""
    return Delivery(envelope=cast("Envelope", None), count=1, redelivered=False, tag=tag)


def same(left: object, right: object) -> bool:
    """Say whether two sequences hold the same objects in the same order."""
    return [id(each) for each in cast("list[object]", left)] == [id(each) for each in cast("list[object]", right)]


@pytest.mark.realises("BOIL-ACK-2")
def test_auto_settles_each_delivery_when_the_client_is_done_with_it() -> None:
    unacked, delivery = UnackedMessages(AUTO), make()
    unacked.delivered(delivery)
    assert same(unacked.due(), [delivery])
    assert len(unacked) == 0
    assert not unacked.due()


@pytest.mark.realises("BOIL-ACK-1")
def test_dups_ok_settles_in_batches() -> None:
    unacked, deliveries = UnackedMessages(DUPS_OK), [make(number) for number in range(DUPS_OK_BATCH + 1)]
    for delivery in deliveries[: DUPS_OK_BATCH - 1]:
        unacked.delivered(delivery)
        assert not unacked.due()
    unacked.delivered(deliveries[DUPS_OK_BATCH - 1])
    assert same(unacked.due(), deliveries[:DUPS_OK_BATCH])
    unacked.delivered(deliveries[DUPS_OK_BATCH])
    assert not unacked.due()
    assert len(unacked) == 1


@pytest.mark.realises("BOIL-ACK-3", "BOIL-ACK-9", "BOIL-SESS-4")
@pytest.mark.parametrize("mode", [CLIENT, TRANSACTED])
def test_other_modes_settle_nothing_by_themselves(mode: AcknowledgeMode) -> None:
    unacked, deliveries = UnackedMessages(mode), [make(number) for number in range(3 * DUPS_OK_BATCH)]
    for delivery in deliveries:
        unacked.delivered(delivery)
        assert not unacked.due()
    assert same(unacked.take(), deliveries)
    assert len(unacked) == 0
    assert not unacked.take()


@pytest.mark.realises("BOIL-ACK-1")
def test_what_a_listener_has_in_hand_is_not_done() -> None:
    unacked, deliveries = UnackedMessages(DUPS_OK), [make(number) for number in range(3)]
    assert not unacked.take_done()
    for delivery in deliveries:
        unacked.delivered(delivery)
    assert same(unacked.take_done(), deliveries[:2])
    assert same(unacked.take(), deliveries[2:])


def test_what_was_put_back_comes_first() -> None:
    unacked, first, second, third = UnackedMessages(CLIENT), make(1), make(2), make(3)
    unacked.delivered(first)
    unacked.delivered(second)
    taken = unacked.take()
    unacked.delivered(third)
    unacked.requeue(taken)
    assert same(unacked.take(), [first, second, third])


def test_one_is_taken_out_by_identity() -> None:
    unacked, one, twin = UnackedMessages(AUTO), make(7), make(7)
    assert one == twin
    unacked.delivered(one)
    assert not unacked.take_one(twin)
    assert unacked.take_one(one)
    assert not unacked.take_one(one)
    assert len(unacked) == 0


@pytest.mark.realises("BOIL-ACK-4")
def test_a_limit_fills_and_empties() -> None:
    unacked = UnackedMessages(CLIENT, 2)
    full = [unacked.is_full]
    for _ in range(2):
        unacked.delivered(make())
        full.append(unacked.is_full)
    taken = unacked.take()
    full.append(unacked.is_full)
    unacked.requeue(taken)
    full.append(unacked.is_full)
    assert full == [False, False, True, False, True]


def test_without_a_limit_it_is_never_full() -> None:
    unacked = UnackedMessages(CLIENT)
    for number in range(1000):
        unacked.delivered(make(number))
        assert not unacked.is_full


STEPS = st.lists(
    st.one_of(
        st.just(("delivered", 0)),
        st.just(("due", 0)),
        st.just(("take", 0)),
        st.just(("requeue", 0)),
        st.tuples(st.just("take_one"), st.integers(0, 30)),
    ),
    max_size=120,
)


@pytest.mark.realises("BOIL-ACK-7", "BOIL-ACK-8")
@given(mode=st.sampled_from(AcknowledgeMode), limit=st.integers(0, 5), steps=STEPS)
def test_the_ledger_is_a_list_with_rules(mode: AcknowledgeMode, limit: int, steps: list[tuple[str, int]]) -> None:
    unacked, model = UnackedMessages(mode, limit), list[Delivery]()
    made: list[Delivery] = []
    taken: list[Delivery] = []
    for step, index in steps:
        if step == "delivered":
            made.append(make(len(made)))
            unacked.delivered(made[-1])
            model.append(made[-1])
        elif step == "requeue":
            unacked.requeue(taken)
            model, taken = taken + model, []
        elif step == "take_one":
            wanted = made[index] if index < len(made) else make()
            present = any(each is wanted for each in model)
            assert unacked.take_one(wanted) is present
            model = [each for each in model if each is not wanted]
        else:
            everything = step == "take" or mode is AUTO or (mode is DUPS_OK and len(model) >= DUPS_OK_BATCH)
            got = unacked.take() if step == "take" else unacked.due()
            assert same(got, model if everything else [])
            if everything:
                taken, model = list(got), []
        assert len(unacked) == len(model)
        assert unacked.is_full == (0 < limit <= len(model))
    assert same(unacked.take(), model)


@pytest.mark.parametrize("mode", AcknowledgeMode)
def test_what_is_owed_is_never_settled(mode: AcknowledgeMode) -> None:
    unacked, owed = UnackedMessages(mode), [make(), make(1)]
    unacked.release_later(owed[:1])
    unacked.release_later(owed[1:])
    for number in range(2 * DUPS_OK_BATCH):
        unacked.delivered(make(number + 2))
        assert not any(each is other for each in unacked.due() for other in owed)
    assert not any(each is other for each in unacked.take() for other in owed)
    assert same(unacked.take_pending_release(), owed)
    assert not unacked.pending_release


class TestTwoThreads:
    @pytest.fixture
    def hasty(self) -> Iterator[None]:
        """Have threads take turns after each step."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        yield
        sys.setswitchinterval(before)

    def test_one_looks_for_its_delivery_while_another_acknowledges_all(self, hasty: None) -> None:
        """As a receive does whose message could not be read."""
        unacked, others, is_over = UnackedMessages(CLIENT), [make(number) for number in range(200)], Event()

        def acknowledge() -> None:
            while not is_over.is_set():
                unacked.requeue(others)
                unacked.take()

        acknowledging = Thread(target=acknowledge, daemon=True)
        acknowledging.start()
        try:
            assert not any(unacked.take_one(make()) for _ in range(20_000))
        finally:
            is_over.set()
            acknowledging.join()
