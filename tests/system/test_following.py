"""What follows messages from site to site notices those that are lost, doubled, or left before they had arrived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pyjms.history.events import ACK, BROWSE, COMMIT, DELIVER, OK, SEND, UNKNOWN, Event
from tests.system.following import astray

SOURCE, TARGET = "queue://orders", "queue://inbox"
FORWARDER = "7"
Events = list[Event]


def event(op: str, t0: int, *, pid: str = FORWARDER, ok: str = OK, tx: str | None = None, **more: Any) -> Event:
    """Return an event that takes one nanosecond."""
    made = Event("run", "node", pid, f"c{pid}", f"s{pid}", None, op, ok, t0, t0 + 1, tx=tx)
    return replace(made, **more)


def site_here() -> Events:
    taken: dict[str, Any] = {"consumer": "k1", "dn": 1, "mid": "ID:1", "dest": SOURCE, "tx": "t1"}
    return [
        event(SEND, 1, pid="1", mid="ID:1", dest=SOURCE),
        event(DELIVER, 10, **taken),
        event(ACK, 30, **taken),
        event(COMMIT, 40, tx="t1"),
        event(BROWSE, 90, pid="1", dest=SOURCE, consumer="w1"),
    ]


def site_there() -> Events:
    taken: dict[str, Any] = {"consumer": "k2", "dn": 1, "mid": "ID:1", "dest": TARGET, "pid": "2"}
    return [
        event(SEND, 15, mid="ID:1", dest=TARGET, tx="t2"),
        event(COMMIT, 20, tx="t2"),
        event(DELIVER, 60, **taken),
        event(ACK, 70, **taken),
    ]


def test_a_message_that_was_forwarded_once_is_well() -> None:
    assert astray(site_here(), site_there(), SOURCE, TARGET, {FORWARDER}) == []


def test_a_commit_whose_end_nobody_knows_may_have_brought_it() -> None:
    doubtful = [replace(each, ok=UNKNOWN) if each.op == COMMIT else each for each in site_there()]
    assert astray(site_here(), doubtful, SOURCE, TARGET, {FORWARDER}) == []


def still_here(here: Events, _there: Events) -> None:
    here.insert(-1, event(BROWSE, 80, pid="1", dest=SOURCE, consumer="w1", mid="ID:1"))


def delivered_twice(_here: Events, there: Events) -> None:
    there += [replace(each, dn=2, t0=each.t0 + 20) for each in there if each.op in (DELIVER, ACK)]


def never_came(_here: Events, there: Events) -> None:
    del there[2:]


def settled_first(here: Events, _there: Events) -> None:
    here[3] = replace(here[3], t0=12, t1=13)


@pytest.mark.parametrize("spoil", [still_here, delivered_twice, never_came, settled_first])
def test_what_is_wrong_is_noticed(spoil: Callable[[Events, Events], None]) -> None:
    here, there = site_here(), site_there()
    spoil(here, there)
    assert len(astray(here, there, SOURCE, TARGET, {FORWARDER})) == 1
