"""Messages that came twice: cleared by screening where nothing speaks against them, and else judged as the reference does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from pyjms.history import Event, check
from pyjms.spark.checker.audit import audit
from pyjms.spark.checker.reading import read_history, table_of
from tests.pyjms.spark.checker.comparing import differences
from tests.pyjms.spark.checker.streams import NS
from tests.sampling import sample

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MS = 10**6
SENT, CAME, BACK, AGAIN, DONE, ENDED = range(6)
"""The places of the events in `given_back`, those of one message first."""


def given_back() -> list[Event]:
    """A message that one consumer gave back and another one consumed, both of them alive at the end."""
    base: dict[str, Any] = {"run": "r", "node": "a", "pid": "1", "ok": "ok", "dest": "queue://q", "mode": 2, "prio": 4}

    def event(op: str, at_ms: int, who: str, **more: Any) -> Event:
        t0 = NS + at_ms * MS
        return Event(
            **{**base, "op": op, "conn": who, "sess": f"{who}/1", "consumer": None, "t0": t0, "t1": t0 + MS, **more}
        )

    of = {"mid": "ID:1", "sha": "x", "exp": 0}
    first, second = ({"mid": "ID:1", "consumer": f"{who}/1/1", "dn": dn} for who, dn in (("c", 1), ("d", 2)))
    return [
        event("send", 10, "p", sn=1, tx="p/1#1", **of),
        event("deliver", 30, "c", **of | first, redelivered=False, count=1),
        event("recover", 40, "c", **first),
        event("deliver", 50, "d", **of | second, redelivered=True, count=2),
        event("ack", 60, "d", tx="d/1#1", **second),
        event("commit", 62, "d", tx="d/1#1", dest=None),
        event("commit", 20, "p", tx="p/1#1", dest=None),
        *(event("subscribe", 1, who, consumer=f"{who}/1/1") for who in "cd"),
        *(event("send", 900 + at, who, mid=f"ID:{who}", sn=1, dest="queue://other") for at, who in enumerate("pcd")),
    ]


def changed(events: list[Event], chance: Random) -> tuple[Event, ...]:
    """Change one to three things."""
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(events) if chance.random() < 0.2 else ENDED + 1)
        event = events[place]
        t0 = NS + chance.randint(5, 75) * MS
        changes: list[dict[str, Any]] = [
            *({"t0": t0, "t1": t0 + chance.randint(0, 30) * MS} for _ in range(6)),
            {"t1": None},
            {"ok": chance.choice(["fail", "unknown"])},
            {"redelivered": chance.choice([True, False, None])} if event.op == "deliver" else {"tx": None},
            {"dn": chance.choice([1, 2, None])} if event.dn else {"tx": None},
            {"consumer": chance.choice(["c/1/1", "d/1/1"])} if event.consumer else {"mid": "ID:other"},
            {"conn": chance.choice("cdp")},
            {"note": chance.choice(['{"failed":"x"}', '{"rejected":"x"}', '{"adopted":"d/1"}'])},
            {"op": {"ack": "recover", "recover": "ack", "commit": "rollback"}.get(event.op, event.op)},
            {"sha": "y"},
            {"exp": chance.choice([1, (NS + 10**12) // MS])},
        ]
        events[place] = replace(event, **chance.choice(changes))
    if chance.random() < 0.3:
        away = chance.choice("pcd")  # a connection is on one node
        events = [replace(event, node="b") if event.conn == away else event for event in events]
    if chance.random() < 0.2:
        events.append(replace(chance.choice(events[: ENDED + 1]), n=99))
    if chance.random() < 0.1:
        events.append(replace(events[CAME], op="browse", redelivered=None, count=None, dn=None))
    if chance.random() < 0.2:
        del events[chance.randrange(ENDED + 1)]
    return tuple(events)


def all_but_usual() -> dict[str, tuple[Event, ...]]:
    """Histories that differ from the usual one in one point that chance does not find."""
    usual = given_back()
    its: list[dict[str, Any]] = [{"consumer": usual[place].consumer, "dn": usual[place].dn} for place in (CAME, AGAIN)]
    first, second = its
    crossed = {**dict(enumerate(usual)), BACK: replace(usual[BACK], **second), DONE: replace(usual[DONE], **first)}
    same = [replace(event, **first) if place in {AGAIN, DONE} else event for place, event in enumerate(usual)]
    seen = replace(usual[CAME], op="browse", redelivered=None, count=None, dn=None, consumer="walk")
    late = replace(usual[CAME], t0=usual[AGAIN].t0 + 3 * MS, t1=usual[AGAIN].t0 + 4 * MS)
    return {
        "each settles the other's": tuple(crossed.values()),
        "both have one number": tuple(same),
        "seen, and then flagged first": (*usual[:CAME], late, *usual[BACK:], seen),
    }


@pytest.mark.timeout(500)  # starting Spark takes long on a busy machine
@pytest.mark.parametrize("has_one_clock", sample([True, False], 1, "clocks of messages that came twice"))
def test_whatever_happens_to_messages_that_came_twice_is_judged_as_the_reference_does(
    plain_spark: SparkSession, tmp_path: Path, *, has_one_clock: bool
) -> None:
    found = {str(seed): changed(given_back(), Random(seed)) for seed in range(1200)}
    found |= all_but_usual()
    assert all(len(check(found[name]).findings) > 1 for name in all_but_usual())
    if has_one_clock:  # less is looked at where that is so in all of them
        found = {name: events for name, events in found.items() if len({event.node for event in events}) == 1}
    told = Counter(each.rule for events in found.values() for each in check(events).findings)
    expected = {"two-holders", "redelivered-without-flag", "flag-without-delivery", "delivered-after-ack", "duplicated"}
    assert {rule for rule in expected if told[rule] >= 5} == expected
    assert differences(plain_spark, tmp_path, found) == []


def test_messages_that_were_given_back_in_time_are_no_suspects(plain_spark: SparkSession, tmp_path: Path) -> None:
    other = [replace(event, node="b") for event in given_back()]
    events = [replace(event, run=run) for run, its in (("a", given_back()), ("b", other)) for event in its]
    pq.write_table(table_of(events), tmp_path / "all-1-000001.parquet")
    found = audit(read_history(plain_spark, [tmp_path], by_run=True))
    unconsumed = {"ID:p", "ID:c", "ID:d"}  # these are suspects, of both histories
    assert (found.suspects, dict(found.counts)) == (2 * len(unconsumed), {"unaccounted": 2})
