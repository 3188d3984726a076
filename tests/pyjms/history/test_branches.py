"""Distributed transactions in a history: whoever ends a branch, and whenever, its work goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.history import Event, check

TX = "xa:1:67:62"
START_NS = 1_700_000_000 * 10**9


def event(op: str, at: int, ok: str = "ok", **columns: Any) -> Event:
    place = {"conn": "c", "sess": "c/1", "consumer": None, **columns}
    return Event(run="r", node="n", pid="1", op=op, ok=ok, t0=START_NS + at * 10, t1=START_NS + at * 10 + 1, **place)


def message(op: str, at: int, **columns: Any) -> Event:
    return event(op, at, **{"mid": "ID:1", "dest": "queue://q", "mode": 2, "prio": 4, "exp": 0, **columns})


def sent(at: int = 1, **columns: Any) -> Event:
    return message("send", at, sn=1, **columns)


def got(at: int, consumer: str = "c/1/1", dn: int = 1, **columns: Any) -> Event:
    place = {"consumer": consumer, "dn": dn, "redelivered": dn > 1 or consumer != "c/1/1"}
    return message("deliver", at, **{**place, **columns})


OTHER: dict[str, Any] = {"conn": "d", "sess": "d/1"}


def rules(*events: Event, complete: bool = False) -> list[str]:
    return [each.rule for each in check(events, complete=complete).findings]


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ([("commit", "ok")], []),
        ([("commit", "unknown")], []),
        ([], []),  # prepared, and settled by an operator
        ([("rollback", "unknown")], []),
        ([("rollback", "ok")], ["rolled-back-visible"]),
        ([("rollback", "unknown"), ("rollback", "ok")], ["rolled-back-visible"]),  # a coordinator tries again
        ([("commit", "unknown"), ("rollback", "ok")], ["rolled-back-visible"]),
        ([("commit", "fail")], ["rolled-back-visible"]),
        ([("commit", "unknown"), ("commit", "ok")], []),
    ],
)
def test_a_message_of_a_branch_may_be_seen_unless_the_branch_was_rolled_back_for_sure(
    ends: list[tuple[str, str]], found: list[str]
) -> None:
    events = [event(op, 2 + number, ok, tx=TX, **OTHER) for number, (op, ok) in enumerate(ends)]
    consumed = [got(8), message("ack", 9, consumer="c/1/1", dn=1)]
    assert rules(sent(tx=TX), *events, *consumed) == found


def test_what_a_branch_had_received_goes_back_when_it_is_rolled_back() -> None:
    first = [sent(), got(2), message("ack", 3, consumer="c/1/1", dn=1, tx=TX), event("rollback", 4, tx=TX)]
    second = [got(6, "d/1/1", **OTHER), message("ack", 7, consumer="d/1/1", dn=1, **OTHER)]
    assert rules(*first, *second, event("close", 9)) == []
    assert rules(*first, event("close", 9), complete=True) == ["lost"]


def test_what_a_branch_in_doubt_has_received_may_be_consumed() -> None:
    first = [sent(), got(2), message("ack", 3, consumer="c/1/1", dn=1, tx=TX), event("close", 4)]
    assert rules(*first, complete=True) == []


def test_what_a_committed_branch_has_received_does_not_come_again() -> None:
    first = [sent(), got(2), message("ack", 3, consumer="c/1/1", dn=1, tx=TX), event("commit", 4, tx=TX, **OTHER)]
    second = [got(6, "d/1/1", **OTHER), event("close", 7, **OTHER)]
    assert rules(*first, *second) == ["delivered-after-ack"]


def test_branches_have_no_order_among_themselves() -> None:
    early = sent(mid="ID:1", tx=TX)
    late = message("send", 2, mid="ID:2", sn=2, tx="xa:1:68:62")
    commits = [event("commit", 3, tx="xa:1:68:62"), event("commit", 4, tx=TX)]
    reversed_order = [got(5, mid="ID:2"), got(6, mid="ID:1", dn=2, redelivered=False)]
    acks = [message("ack", 7, mid=f"ID:{3 - dn}", consumer="c/1/1", dn=dn) for dn in (1, 2)]
    assert rules(early, late, *commits, *reversed_order, *acks) == []
    plain = [early, late]
    in_one = [
        each if each.tx is None else message("send", 1 + (each.sn or 0), mid=each.mid, sn=each.sn) for each in plain
    ]
    assert rules(*in_one, *reversed_order, *acks) == ["reordered"]
