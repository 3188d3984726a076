"""Threads close connections, sessions and consumers that others use: no message is lost for it, and none that was acknowledged comes again.

``PYJMS_CLOSINGS=100`` says how many rounds of three seconds there are on each broker (the default is one), and
``PYJMS_CLOSINGS_SEED=17`` the seed of the first; who comes first in a round is the threads' matter, whatever the seed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random

import pytest

from tests.provider.closing.crowd import PATIENCE_S, Crowd

ROUNDS = int(os.environ.get("PYJMS_CLOSINGS", "1"))
ROUND_S = 3.0


@pytest.mark.timeout(180 + 10 * ROUNDS)
def test_what_others_close_loses_and_doubles_nothing(broker: Callable[[], AbstractContextManager[str]]) -> None:
    first = int(os.environ.get("PYJMS_CLOSINGS_SEED") or Random().randrange(10**6))
    before = set(threading.enumerate())
    with broker() as url:
        for seed in range(first, first + ROUNDS):
            crowd = Crowd(url, seed, tells_all=url.startswith("vm:"))
            faults = crowd.run(ROUND_S)
            told = f"PYJMS_CLOSINGS_SEED={seed} begins with this round, of {len(crowd.books.sent)} messages"
            assert crowd.broken == [], told
            assert faults == [], told
            assert crowd.is_enough, f"too little came of it, or nobody was closed in the midst of it; {told}"
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(PATIENCE_S)
    assert [thread.name for thread in left if thread.is_alive()] == [], "these threads were left"
