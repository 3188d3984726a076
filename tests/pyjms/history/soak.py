"""Checks many random correct histories: ``python -m tests.pyjms.history.soak [NUMBER [FIRST SEED]]``; ``make history-soak``."""

from __future__ import annotations

import sys
from collections import Counter
from time import perf_counter

from pyjms.history import Verdict, check
from tests.pyjms.history.model import RandomHistory, random_history

__all__ = ["false_alarms", "main"]

# What a correct history may be told: that its end was not looked at, and that shared queues have no order.
_EXPECTED = {"unaccounted", "reordered-shared"}


def false_alarms(history: RandomHistory) -> list[str]:
    """Return what the checker says against a correct history, with its seed."""
    expected = _EXPECTED - ({"unaccounted"} if history.is_drained else set())
    return [
        f"seed {history.seed}: {each.rule}: {each.text}"
        for each in check(history.events).findings
        if each.verdict is not Verdict.INFORMATION and each.rule not in expected
    ]


def main(arguments: list[str]) -> int:
    """Check, report, and return the exit code."""
    number = int(arguments[0]) if arguments else 10_000
    first = int(arguments[1]) if len(arguments) > 1 else 0
    began, events, features = perf_counter(), 0, Counter[str]()
    alarms: list[str] = []
    for seed in range(first, first + number):
        history = random_history(seed)
        events += len(history.events)
        features += history.features
        alarms += false_alarms(history)
    lines = [*alarms]
    lines.append(
        f"{number} correct histories, {events} events, {perf_counter() - began:.0f} s: {len(alarms)} false alarms"
    )
    lines.append(", ".join(f"{name} {count}" for name, count in features.most_common()))
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
