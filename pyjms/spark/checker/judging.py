"""Judging: the reference's functions, on the executors, one suspect with its surroundings at a time.

`g` tells the cases apart, `role` says what an event is to its case, `kind` what is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyjms.history.check import CHECKS
from pyjms.history.checks.endings import check_endings
from pyjms.history.checks.expiry import check_expiry
from pyjms.history.checks.filters import check_filters
from pyjms.history.checks.order import check_order
from pyjms.history.checks.priorities import check_priorities
from pyjms.history.events import Event
from pyjms.history.facts import Facts, Options
from pyjms.history.findings import Finding
from pyjms.spark.checker.control import Control
from pyjms.spark.checker.expressions import arrow_function
from pyjms.spark.checker.reading import event_of

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["FINDING_SCHEMA", "MESSAGES", "NAMELESS", "ORDER", "OWN", "PRIORITY", "WITNESS", "judge"]

# Kinds of cases
MESSAGES = 0
"""One message: everything but order and priority."""
ORDER = 1
"""Two deliveries, in the wrong order."""
PRIORITY = 2
"""Two deliveries, the less urgent first."""
NAMELESS = 3
"""A delivery without an id, of which little can be said."""

# Roles of events
OWN = 0
"""The event is one of the message that is judged."""
WITNESS = 1
"""The event tells something about it."""

FINDING_SCHEMA = "h STRING, rule STRING, text STRING, mid STRING, dest STRING, number BIGINT, at BIGINT, first_n BIGINT, witness STRING"
"""A finding as a row; `witness` are its events as JSON, `at` is when the last of them began."""

_COLUMNS = [part.split()[0] for part in FINDING_SCHEMA.split(", ")]
_ARROW = pa.struct(
    [(part.split()[0], pa.int64() if "BIGINT" in part else pa.string()) for part in FINDING_SCHEMA.split(", ")]
)
_CHECKS = {
    MESSAGES: tuple(each for each in CHECKS if each not in {check_order, check_priorities}),
    ORDER: (check_order,),
    PRIORITY: (check_priorities,),
    NAMELESS: (check_endings, check_filters, check_expiry),
}


def judge(controls: Mapping[str, Control], options: Options, left_out: frozenset[str]) -> Callable[..., Column]:
    """Return a function of Spark: from a column of cases, each the list of its events, to a column of lists of findings."""

    def work(cases: pa.Array) -> pa.Array:
        found = [
            list(_judge(rows, controls, options, left_out) if rows else ()) for rows in (case.as_py() for case in cases)
        ]
        return pa.array(found, pa.list_(_ARROW))

    return arrow_function(work, f"array<struct<{FINDING_SCHEMA.replace(' ', ':').replace(',:', ', ')}>>")


def _judge(
    rows: list[dict[str, Any]], controls: Mapping[str, Control], options: Options, left_out: frozenset[str]
) -> Iterator[dict[str, Any]]:
    h, kind = rows[0]["h"], rows[0]["kind"]
    control = controls[h]
    own = [event_of(row) for row in rows if row["role"] == OWN]
    others = dict.fromkeys(event_of(row) for row in rows if row["role"] == WITNESS)
    own.sort(key=_in_time)
    mids = {event.mid for event in own if event.mid is not None}
    dest = next((event.dest for event in own if event.dn is not None), None) if kind == ORDER else None
    around = dict.fromkeys([*others, *control.around([*own, *others], dest)])
    for event in own:
        around.pop(event, None)
    events = sorted([*own, *around], key=_in_time)
    facts = Facts(events, options, control.surroundings(*mids))
    for check in _CHECKS[kind]:
        for found in check(facts):
            if (found.mid in mids or kind == NAMELESS) and found.rule not in left_out:
                yield _row(h, found)


def _in_time(event: Event) -> tuple[int, int]:
    return event.t0, event.n or 0


def _row(h: str, found: Finding) -> dict[str, Any]:
    first = found.events[0]
    witness = json.dumps([list(asdict(event).values()) for event in found.events])
    values = (h, found.rule, found.text, found.mid, found.dest, 1, found.events[-1].t0, first.n, witness)
    return dict(zip(_COLUMNS, values, strict=True))
