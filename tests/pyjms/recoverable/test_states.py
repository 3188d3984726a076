"""The four states, as the table of the lecture has them."""

from __future__ import annotations

import pytest

from pyjms.recoverable import LogEntry, State
from pyjms.recoverable.client_log import Register, judge


def entry(request: str = "", reply: str = "") -> LogEntry:
    return LogEntry(client="desk", session="s", number=2 if request else 0, request_id=request, reply_id=reply)


def register(request: str = "", reply: str = "", *, replied: bool = False) -> Register:
    return Register(
        session="s",
        incarnation=1,
        request_number=2 if request else 0,
        request_id=request,
        reply_number=(2 if replied else 1) if request else 0,
        reply_id=reply,
    )


@pytest.mark.realises("MOM-20.A", "MOM-20.B", "MOM-20.C", "MOM-20.D", "MOM-24")
@pytest.mark.parametrize(
    ("log", "kept", "reply_is_there", "state"),
    [
        (entry(), register(), False, State.D),
        (entry("q2"), register(), False, State.A),
        (entry("q2"), register("q1", "r1", replied=True), False, State.A),
        (entry("q2"), register("q2", "r1"), False, State.B),
        (entry("q2"), register("q2", "r1"), True, State.C),
        (entry("q2", "r2"), register("q2", "r1"), True, State.C),
        (entry("q2", "r2"), register("q2", "r1"), False, State.B),
        (entry("q2", "r2"), register("q2", "r2", replied=True), False, State.D),
        # The log was lost.
        (entry(), register("q2", "r1"), False, State.B),
        (entry(), register("q2", "r1"), True, State.C),
        (entry(), register("q2", "r2", replied=True), False, State.D),
    ],
)
def test_the_ids_tell_the_states_apart(log: LogEntry, kept: Register, reply_is_there: bool, state: State) -> None:
    assert judge(log, kept, reply_is_there=reply_is_there) is state
