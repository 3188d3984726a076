"""What costs much and is proved in several ways is proved in some of them, others each time: a sample by the seed of the run.

``PYJMS_SEED=17`` draws again what another run has drawn, which tells its seed where a test failed. With ``PYJMS_WHOLE=1`` nothing is
left out: `make soak-whole`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

SEED_NAME = "PYJMS_SEED"
IS_WHOLE = "PYJMS_WHOLE" in os.environ


def draw_seed() -> None:
    """Draw the seed before workers start, which inherit it: they must all collect the same tests."""
    os.environ.setdefault(SEED_NAME, str(Random().randrange(10**6)))


def sample(cases: Sequence[T], number: int, name: str) -> list[T]:
    """Return `number` of the cases, in their order; `name` tells this choice from others with the same seed."""
    if IS_WHOLE:
        return list(cases)
    chosen = Random(f"{os.environ[SEED_NAME]} {name}").sample(range(len(cases)), number)
    return [cases[place] for place in sorted(chosen)]
