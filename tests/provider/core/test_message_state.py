"""The table of message states: the full product of states and events, and what each row stands for."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from pyjms_provider.core.message.message_state import (
    TRANSITIONS,
    MessageEvent,
    MessageState,
)
from pyjms_provider.core.state_machine import ForbiddenTransitionError

ALL = sorted(product(MessageState, MessageEvent), key=str)
FORBIDDEN: frozenset[tuple[MessageState, MessageEvent]] = frozenset(
    [
        # Nothing but acceptance can happen to a message that the channel does not hold; §5.3.4 names the early
        # acknowledgement without a NEW message as an error.
        *(
            (MessageState.ABSENT, event)
            for event in MessageEvent
            if event not in {MessageEvent.ACCEPT, MessageEvent.ACCEPT_IN_TRANSACTION}
        ),
        # A channel accepts a message once.
        *(
            (state, event)
            for state in (MessageState.NOT_COMMITTED, MessageState.NEW, MessageState.DELIVERED)
            for event in (MessageEvent.ACCEPT, MessageEvent.ACCEPT_IN_TRANSACTION)
        ),
        # The sender's transaction has ended.
        *(
            (state, event)
            for state in (MessageState.NEW, MessageState.DELIVERED)
            for event in (MessageEvent.COMMIT, MessageEvent.ROLLBACK)
        ),
        # §5.1: no delivery of what is not committed, so nothing to acknowledge or give back.
        (MessageState.NOT_COMMITTED, MessageEvent.REFUSE),
        (MessageState.NOT_COMMITTED, MessageEvent.NEGATIVE_ACKNOWLEDGEMENT),
        (MessageState.NOT_COMMITTED, MessageEvent.EARLY_POSITIVE_ACKNOWLEDGEMENT),
        (MessageState.NOT_COMMITTED, MessageEvent.POSITIVE_ACKNOWLEDGEMENT),
        (MessageState.NOT_COMMITTED, MessageEvent.FINAL_POSITIVE_ACKNOWLEDGEMENT),
        (MessageState.NOT_COMMITTED, MessageEvent.ACKNOWLEDGE_IN_TRANSACTION),
        (MessageState.NOT_COMMITTED, MessageEvent.ROLLBACK_ACKNOWLEDGEMENT),
        (MessageState.NOT_COMMITTED, MessageEvent.CANCEL),
        # No acknowledgement is outstanding for a NEW message, so none of several can come, or be taken back.
        (MessageState.NEW, MessageEvent.POSITIVE_ACKNOWLEDGEMENT),
        (MessageState.NEW, MessageEvent.ACKNOWLEDGE_IN_TRANSACTION),
        (MessageState.NEW, MessageEvent.ROLLBACK_ACKNOWLEDGEMENT),
        (MessageState.NEW, MessageEvent.CANCEL),
    ]
)


@pytest.mark.parametrize(("state", "event"), ALL, ids=lambda value: value.name)
def test_each_pair_is_in_the_table_or_forbidden(state: MessageState, event: MessageEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert (state, event) not in FORBIDDEN
    else:
        assert (state, event) in FORBIDDEN
        with pytest.raises(ForbiddenTransitionError, match=f"{state.name} .* cannot have {event.name}") as raised:
            TRANSITIONS[state, event]
        assert (raised.value.state, raised.value.event) == (state, event)


@pytest.mark.realises("JBM-5.a")
def test_there_are_four_states() -> None:
    assert {state.name for state in MessageState} == {"ABSENT", "NOT_COMMITTED", "NEW", "DELIVERED"}


@pytest.mark.realises("JBM-5.3.2")
def test_delivered_is_entered_from_new_alone() -> None:
    origins = {before for (before, _), after in TRANSITIONS.items() if after is MessageState.DELIVERED}
    assert origins == {MessageState.NEW, MessageState.DELIVERED}


@pytest.mark.realises("JBM-5.2.d")
def test_a_refused_message_stays_new_and_has_no_state_of_its_own() -> None:
    assert TRANSITIONS[MessageState.NEW, MessageEvent.REFUSE] is MessageState.NEW


def test_what_leaves_a_state_can_come_back_to_it_only_by_a_named_event() -> None:
    to_new = {event for (before, event), after in TRANSITIONS.items() if after is MessageState.NEW}
    assert to_new == {MessageEvent.ACCEPT, MessageEvent.COMMIT, MessageEvent.REFUSE, MessageEvent.CANCEL}


def test_the_error_explains_both() -> None:
    error = ForbiddenTransitionError(TRANSITIONS.subject, MessageState.NEW, MessageEvent.COMMIT)
    assert str(error) == (
        "a message that is NEW (accepted, and delivered to nobody yet) "
        "cannot have COMMIT (the transaction of the sender commits)"
    )


def documented_table() -> str:
    rows = [f"| event | {' | '.join(state.name for state in MessageState)} |", "|" + "---|" * (len(MessageState) + 1)]
    for event in MessageEvent:
        after = [TRANSITIONS.get((state, event)) for state in MessageState]
        rows.append(f"| {event.name} | {' | '.join('' if state is None else state.name for state in after)} |")
    return "\n".join(rows)


def test_the_documented_table_is_the_real_one() -> None:
    """When it fails, put what `documented_table` returns into the page."""
    page = Path(__file__).parents[3] / "docs" / "decisions" / "0100-message-states-are-one-table.md"
    assert documented_table() in page.read_text(encoding="utf-8")
