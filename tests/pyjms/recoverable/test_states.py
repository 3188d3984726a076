"""The four states, as the table of the lecture has them, and as a client's next run meets them."""

from __future__ import annotations

from contextlib import closing

import pytest

from pyjms import ConnectionFactory
from pyjms.recoverable import LogEntry, State
from pyjms.recoverable.client_log import Register, judge
from tests.pyjms.recoverable.world import Died, Fate, MortalLog, Printer, Shop, requestor_of, text_message


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


@pytest.mark.realises("MOM-20.A", "MOM-20.B", "MOM-20.C", "MOM-20.D", "MOM-24")
def test_each_run_of_a_client_finds_out_how_far_the_one_before_it_came(
    factory: ConnectionFactory, log_url: str
) -> None:
    shop, printer, fate = Shop(factory), Printer(), Fate()

    def recovered() -> State:
        with requestor_of(factory, log_url) as desk:
            return desk.recover(printer.print, timeout_ms=1).state

    assert recovered() is State.D, "nothing was asked for"
    with closing(MortalLog(log_url, fate)) as log, requestor_of(factory, log) as desk:
        desk.recover()
        fate.dies_at = len(fate.steps) + 2
        with pytest.raises(Died, match="after the log was written"):
            desk.submit(text_message(factory, "tea"))
    assert shop.serve() == 0, "the request's transaction did not commit"
    assert recovered() is State.A
    assert recovered() is State.B, "the run before has submitted it again"
    assert shop.serve() == 1
    assert (recovered(), printer.pages) == (State.C, ["1: done: tea"])
    assert (recovered(), printer.pages) == (State.D, ["1: done: tea"])
    assert shop.worked_on == [("desk", 1)]
