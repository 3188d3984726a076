"""The table of the lives of connections, sessions and their children, walked in full (JMS 1.1 §4.3.3 to §4.3.5)."""

from __future__ import annotations

from itertools import product

import pytest

from pyjms import IllegalStateException
from pyjms.runtime.machines import TRANSITIONS, Event, State, next_state

EVERY_PAIR = sorted(product(State, Event), key=lambda pair: (pair[0].value, pair[1].value))

# What may not happen. A pair stands here or in the table, never in both, never in none.
FORBIDDEN = {
    (State.STOPPED, Event.FINISH),  # nobody has asked to close
    (State.STARTED, Event.FINISH),
    (State.CLOSING, Event.START),
    (State.CLOSING, Event.STOP),
    (State.CLOSED, Event.START),
    (State.CLOSED, Event.STOP),
}


def test_each_pair_is_allowed_or_forbidden() -> None:
    assert set(EVERY_PAIR) == set(TRANSITIONS) | FORBIDDEN
    assert not set(TRANSITIONS) & FORBIDDEN


@pytest.mark.realises("BOIL-CONN-7", "BOIL-CONN-15", "BOIL-SESS-7")
@pytest.mark.parametrize(("state", "event"), EVERY_PAIR)
def test_an_event_in_a_state(state: State, event: Event) -> None:
    if (state, event) in FORBIDDEN:
        with pytest.raises(IllegalStateException) as caught:
            next_state(state, event, "thing")
        assert "thing" in str(caught.value)
        assert state.name.lower() in str(caught.value)
        assert event.name.lower() in str(caught.value)
    else:
        assert next_state(state, event, "thing") is TRANSITIONS[state, event]


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ([Event.START], State.STARTED),
        ([Event.START, Event.START], State.STARTED),
        ([Event.STOP], State.STOPPED),
        ([Event.START, Event.STOP, Event.STOP, Event.START], State.STARTED),
        ([Event.CLOSE, Event.FINISH], State.CLOSED),
        ([Event.START, Event.CLOSE, Event.CLOSE, Event.FINISH, Event.FINISH], State.CLOSED),
        ([Event.CLOSE, Event.FINISH, Event.CLOSE], State.CLOSED),
    ],
)
def test_a_life(events: list[Event], end: State) -> None:
    state = State.STOPPED
    for event in events:
        state = next_state(state, event, "connection")
    assert state is end


def test_nothing_leads_out_of_closed() -> None:
    assert {after for (before, _), after in TRANSITIONS.items() if before is State.CLOSED} == {State.CLOSED}


def test_closed_is_reached_from_everywhere() -> None:
    for state in State:
        closing = next_state(state, Event.CLOSE, "session")
        assert next_state(closing, Event.FINISH, "session") is State.CLOSED
