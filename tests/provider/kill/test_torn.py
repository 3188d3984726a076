"""What counts as a transaction of which only a part took effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyjms.history import Event
from tests.provider.kill.torn import find_torn

TX = "xa:1:67:62"


def event(op: str, mid: str, at: int, **columns: Any) -> Event:
    place: dict[str, Any] = {"conn": "c", "sess": "c/1", "consumer": None, "dest": "queue://q", "mode": 2, **columns}
    return Event(run="r", node="n", pid="1", op=op, **{"ok": "ok", **place}, t0=at * 10, t1=at * 10 + 1, mid=mid)


RECEIVED = [event("send", "ID:1", 1), event("deliver", "ID:1", 2), event("ack", "ID:1", 3, tx=TX)]
SENT = [event("send", "ID:2", 4, tx=TX)]
CAME_AGAIN, CAME = event("deliver", "ID:1", 6), event("deliver", "ID:2", 7)


@pytest.mark.parametrize("later", [[CAME], [CAME_AGAIN]], ids=["all", "nothing"])
def test_all_or_nothing_is_whole(later: list[Event]) -> None:
    assert find_torn([*RECEIVED, *SENT, *later]) == []


def test_what_comes_again_to_one_who_waited_before_it_was_received_has_come_again() -> None:
    waited = replace(CAME_AGAIN, t0=RECEIVED[-1].t0 - 1)
    assert find_torn([*RECEIVED, *SENT, waited]) == []
    assert len(find_torn([*RECEIVED, *SENT, CAME, waited])) == 1


@pytest.mark.parametrize("later", [[], [CAME, CAME_AGAIN]], ids=["only what was received", "only what was sent"])
def test_a_half_is_found(later: list[Event]) -> None:
    (found,) = find_torn([*RECEIVED, *SENT, *later])
    assert "ID:1" in found
    assert "ID:2" in found


def test_what_another_subscription_gets_says_nothing() -> None:
    own, other = {"dest": "topic://t", "sub": "a/a"}, {"dest": "topic://t", "sub": "b/b"}
    received = [event("send", "ID:1", 1, dest="topic://t"), event("ack", "ID:1", 3, tx=TX, **own)]
    assert find_torn([*received, *SENT, CAME, event("deliver", "ID:1", 6, **other)]) == []


def test_what_may_be_lost_or_was_not_answered_does_not_count() -> None:
    transient = event("send", "ID:3", 4, tx=TX, mode=1)
    unanswered = event("ack", "ID:4", 4, tx=TX, ok="unknown")
    assert find_torn([*RECEIVED, *SENT, CAME, transient, event("send", "ID:4", 1), unanswered]) == []
