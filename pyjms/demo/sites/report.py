"""The outcome as data: what ``--json`` prints. Pure."""

from __future__ import annotations

from typing import Any

from pyjms.demo.report import number, stage_data, verdict_data
from pyjms.demo.sites.judging import Outcome
from pyjms.demo.sites.run import Run

__all__ = ["as_data"]


def as_data(run: Run, outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Return everything that the tables show, and the ids behind it, in types that JSON has."""
    plan = run.plan
    return {
        "input": {
            "file": plan.table.name,
            "records": len(plan.table.records),
            "columns": list(plan.table.columns),
            "amount": plan.amount_name,
            "orders": len(run.orders),
        },
        "resumed": run.is_resumed,
        "killed": [
            {"site": death.site, "ended_before": death.ended, "away_ms": round(death.away_ms)} for death in run.deaths
        ],
        "stages": [stage_data(tally) for tally in run.tallies],
        "works": [
            {"company": work.company, "site": work.site, **verdict_data(verdict)} for work, verdict in outcome.works
        ],
        "orders": [
            {
                "status": fate.status.value,
                "expected": fate.orders,
                "found": fate.found,
                "records": fate.records,
                "total": number(fate.total),
                "wrong": list(fate.wrong),
            }
            for fate in outcome.fates
        ],
        "left_over": dict(outcome.left_over),
        "adds_up": outcome.adds_up,
        "seconds": round(seconds, 3),
    }
