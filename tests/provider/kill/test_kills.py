"""Kill a process that works with a durable broker, again and again; then judge all that its clients were told.

``PYJMS_KILLS=200`` says how often; the default is 4 for each store. Half of the deaths come at random moments, half
before or after a certain write of the journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.provider.kill.site import Site

KILLS = int(os.environ.get("PYJMS_KILLS", "4"))


@pytest.mark.realises("BOIL-PROD-2", "BOIL-ACK-7", "BOIL-ACK-8")
@pytest.mark.timeout(120 + 30 * KILLS)
def test_nothing_is_lost_or_seen_twice_however_often_the_broker_dies(
    kill_store: Callable[[], str], tmp_path: Path
) -> None:
    site = Site(f"vm://killed?store={kill_store()}", tmp_path / "history")
    site.kill_often(Random(20260), KILLS)
    site.drain()
    assert site.kills == KILLS
    report, torn, complaints = site.judge()
    assert report.events > 50 * KILLS
    assert complaints == []
    assert [each.text for each in report.violations] == []
    assert torn == []
