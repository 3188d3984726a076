"""The table of a branch's states, whole: what may be, and with which code of XA all else is refused."""

from __future__ import annotations

import re
from itertools import product

import pytest

from pyjms.spi.errors import BranchError
from pyjms.spi.xid import BranchFailure
from pyjms_provider.core.transaction.branches import BRANCH_TRANSITIONS, BranchEvent, BranchState
from tests.cases import each_of

S, E = BranchState, BranchEvent
OVER = {S.COMMITTED, S.ROLLED_BACK, S.FORGOTTEN, S.LOST}
DECISIONS = {E.SETTLE, E.ROLLBACK, E.COMMIT_AT_ONCE}
BEING_WRITTEN = {S.PREPARING, S.COMMITTING, S.SETTLING}
HEURISTIC = {
    S.HEURISTICALLY_COMMITTED: BranchFailure.HEURISTICALLY_COMMITTED,
    S.HEURISTICALLY_ROLLED_BACK: BranchFailure.HEURISTICALLY_ROLLED_BACK,
}


@pytest.mark.realises("MOM-10")
@each_of(list(product(S, E)))
def test_each_pair_is_in_the_table_or_refused_with_its_code(pair: tuple[BranchState, BranchEvent]) -> None:
    state, event = pair
    if (state, event) in BRANCH_TRANSITIONS:
        return
    with pytest.raises(BranchError) as caught:
        BRANCH_TRANSITIONS[state, event]
    expected = HEURISTIC.get(state, BranchFailure.PROTOCOL) if event in DECISIONS else BranchFailure.PROTOCOL
    if state in BEING_WRITTEN and event in {*DECISIONS, E.PREPARE}:
        expected = BranchFailure.UNREACHABLE  # an earlier call has not ended, whose caller lost its connection perhaps
    assert caught.value.failure is expected


@pytest.mark.parametrize("state", [S.COMMITTED, S.ROLLED_BACK, S.FORGOTTEN, S.LOST])
def test_what_is_over_stays_over(state: BranchState) -> None:
    assert not [pair for pair in BRANCH_TRANSITIONS if pair[0] is state]


def test_every_other_state_has_a_way_out() -> None:
    assert {state for state, _ in BRANCH_TRANSITIONS} == set(S) - OVER


def test_every_state_can_be_reached() -> None:
    assert {*BRANCH_TRANSITIONS.values(), S.ACTIVE} == set(S)


def test_only_a_decision_ends_what_is_prepared() -> None:
    assert [event for state, event in BRANCH_TRANSITIONS if state is S.PREPARED] == [E.SETTLE]


@pytest.mark.parametrize("state", BranchState)
def test_states_are_told_in_the_words_of_the_specification_and_not_by_their_numbers(state: BranchState) -> None:
    """As the text of an XAException, which whoever reads it may have no table of XA at hand for."""
    assert re.search(r"\bS\d", state.value) is None
    names = ("Active", "Idle", "Prepared", "Rollback Only", "Heuristically Completed", "Non-existent Transaction")
    _, bracket, named = state.value.partition(" (XA: ")
    assert not bracket or named.rstrip(")").split(",")[0] in names
    assert bool(bracket) is (
        state not in {BranchState.PREPARING, BranchState.COMMITTING, BranchState.SETTLING, BranchState.LOST}
    )
