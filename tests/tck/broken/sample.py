"""Tries two mutants of each area: ``python -m tests.tck.broken.sample``."""

from __future__ import annotations

import sys

from tests.tck.broken.collection import AREAS
from tests.tck.broken.judge import judge, missing

__all__ = ["SAMPLE"]

SAMPLE = tuple(each for mutants in AREAS.values() for each in (mutants[0], mutants[len(mutants) // 2]))


def main() -> int:
    """Return 1 unless all are noticed."""
    verdicts = judge(SAMPLE)
    problems = [*verdicts.unsound, *verdicts.stale, *missing(verdicts.trials)]
    print(*problems, sep="\n")  # noqa: T201
    return int(bool(problems) or len(verdicts.trials) != len(SAMPLE))


if __name__ == "__main__":
    sys.exit(main())
