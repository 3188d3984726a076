"""Which sections of the specification a provider is judged by in the suite; `make soak-conformance` judges by all."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_tck.results import Report

IS_SOAK = "PYJMS_CONFORMANCE" in os.environ
SEED = int(os.environ.get("PYJMS_CONFORMANCE_SEED") or Random().randrange(10**6))


def part_of_sections(report: Report, name: str) -> tuple[str, ...]:
    """Return a fifth of the sections in a report, other ones each time; in a soak none, which are all."""
    if IS_SOAK:
        return ()
    ids = (judgement.requirement.id.partition("-")[0] for judgement in report.judgements)
    every = sorted({".".join(id.split(".")[:2]) for id in ids})
    return tuple(Random(f"{SEED} {name}").sample(every, len(every) // 5))
