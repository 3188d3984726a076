"""The life cycle of managed objects: every pair of state and event is allowed, or refused with the state's name."""

from __future__ import annotations

from itertools import product

import pytest

from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.managed import TRANSITIONS, Event, State, next_state

FORBIDDEN = {
    (State.UNINITIALIZED, Event.START),
    (State.ACTIVE, Event.OPEN),
    (State.STOPPED, Event.OPEN),
    (State.ERRORED, Event.OPEN),
    *((State.CLOSED, event) for event in Event if event is not Event.CLOSE),
    *((State.DELETED, event) for event in Event),
}


def test_each_pair_is_in_the_table_or_forbidden() -> None:
    assert set(TRANSITIONS) | FORBIDDEN == set(product(State, Event))
    assert not set(TRANSITIONS) & FORBIDDEN


@pytest.mark.parametrize(("state", "event"), sorted(FORBIDDEN, key=str))
def test_what_is_forbidden_names_the_state(state: State, event: Event) -> None:
    with pytest.raises(WrongStateError, match=f"port stomp is {state.value}: it cannot {event.value} now"):
        next_state(state, event, "port stomp")


def test_every_state_is_reached_and_can_end() -> None:
    reached = set(TRANSITIONS.values()) | {State.UNINITIALIZED}
    assert reached == set(State)
    for state in (State.ACTIVE, State.STOPPED, State.ERRORED):
        assert next_state(state, Event.DELETE) is State.DELETED
        assert next_state(state, Event.CLOSE) is State.CLOSED
