"""State machines as tables, in which a missing pair is an error."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NoReturn, TypeVar

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


class ForbiddenTransitionError(Exception):
    """An event in a state that forbids it: a fault of the broker, never of a client."""

    def __init__(self, subject: str, state: Enum, event: Enum) -> None:
        super().__init__(f"{subject} that is {state.name} ({state.value}) cannot have {event.name} ({event.value})")
        self.state = state
        self.event = event


# A dict, because a transition is made for each step of each message: a look-up costs no Python call, a method would.
class StateMachine(dict[tuple[State, Event], State]):
    """`machine[state, event]` is the state after `event`; a pair that is not in the table raises `ForbiddenTransitionError`."""

    def __init__(self, subject: str, table: Mapping[State, Mapping[Event, State]]) -> None:
        """`subject` is named in errors; `table`: by state and event the next state."""
        super().__init__({(state, event): after for state, row in table.items() for event, after in row.items()})
        self.subject = subject

    def __missing__(self, pair: tuple[State, Event]) -> NoReturn:
        raise ForbiddenTransitionError(self.subject, *pair)
