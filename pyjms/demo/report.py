"""The outcome as data: what ``--json`` prints. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from pyjms.demo.accounting import Verdict
from pyjms.demo.outcome import Outcome
from pyjms.demo.plan import Plan
from pyjms.demo.process import Process
from pyjms.demo.settings import Settings
from pyjms.demo.tally import Happening, Tally

__all__ = ["as_data", "number", "stage_data", "verdict_data", "without_password"]


def as_data(plan: Plan, settings: Settings, process: Process, outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Return everything that the tables show, and the ids behind it, in types that JSON has."""
    return {
        "input": {
            "file": plan.table.name,
            "records": len(plan.table.records),
            "columns": list(plan.table.columns),
            "route": [plan.table.columns[column] for column in plan.route],
            "amount": plan.amount_name,
            "total": number(outcome.all_lanes.expected_total),
        },
        "settings": {
            "url": without_password(settings.url),
            "store": None if settings.store is None else without_password(settings.store),
            "workers": settings.workers,
            "seed": settings.chance.seed,
            "failure_rate": settings.chance.rate,
        },
        "resumed": process.is_resumed,
        "stages": [stage_data(tally) for tally in process.tallies],
        "lanes": [{**verdict_data(verdict), "selector": lane.selector} for lane, verdict in outcome.lanes],
        "all_lanes": verdict_data(outcome.all_lanes),
        "subscribers": [verdict_data(verdict) for verdict in (outcome.ledger, outcome.board, outcome.attention)],
        "left_over": dict(outcome.left_over),
        "nothing_lost": outcome.nothing_lost,
        "nothing_twice": outcome.nothing_twice,
        "adds_up": outcome.adds_up,
        "seconds": round(seconds, 3),
    }


def number(value: Fraction) -> int | float:
    """Return the value as an int if it is whole, else as the nearest float."""
    return value.numerator if value.denominator == 1 else float(value)


def without_password(url: str) -> str:
    """Return the URL as it may be shown."""
    return re.sub(r"//([^/@:]*):[^/@]*@", r"//\1:***@", url)


def stage_data(tally: Tally) -> dict[str, Any]:
    """Return the counts of one stage."""
    counts = {happening.name.lower(): tally[happening] for happening in Happening}
    return {"name": tally.name, "expected": tally.total, "before": tally.before, **counts}


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return what one destination had."""
    return {
        "destination": verdict.destination,
        "expected": verdict.expected,
        "found": verdict.found,
        "expected_total": number(verdict.expected_total),
        "found_total": number(verdict.found_total),
        "lost": list(verdict.lost),
        "doubled": list(verdict.doubled),
        "unexpected": list(verdict.unexpected),
        "altered": list(verdict.altered),
        "adds_up": verdict.adds_up,
    }
