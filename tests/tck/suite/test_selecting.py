"""Selector vectors are judged in the same way where a provider has browsers and where it has none."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from pyjms import Connection, Queue, Session
from pyjms.spi.capability import Capability
from pyjms_tck.environment import Waits
from pyjms_tck.suite.chapter_03.selecting import Selecting, vectors_of

WAITS = Waits(something_ms=5000, nothing_ms=5)
# Some of each kind, among them those on headers that only the provider can set.
CHOSEN = vectors_of(lambda vector: vector["portable"] and vector["id"] > "SEL-715")[:80]


@pytest.mark.parametrize("capabilities", [Capability.BROWSING, Capability.NONE], ids=["browsers", "consumers"])
def test_all_vectors_come_out_as_expected(capabilities: Capability, jms_connection: Connection) -> None:
    numbers = count()

    def make_queue() -> Queue:
        with jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE) as session:
            return session.create_queue(f"queue-{next(numbers)}")

    environment: Any = SimpleNamespace(waits=WAITS, facts=SimpleNamespace(capabilities=capabilities))
    selecting = Selecting(environment, jms_connection, make_queue, CHOSEN)
    assert {vector["expected"] for vector in CHOSEN} == {True, False, "invalid"}
    for vector in CHOSEN:
        assert selecting.outcome(vector) == vector["expected"], vector["selector"]
