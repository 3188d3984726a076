"""Kill a process in which many threads share commits, again and again: what each of them was told must be true afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.provider.kill.crowd_site import CrowdSite

KILLS = max(3, int(os.environ.get("PYJMS_KILLS", "10")) // 4)


@pytest.mark.timeout(120 + 30 * KILLS)
def test_what_many_threads_were_told_is_true_however_often_they_die(
    kill_store: Callable[[], str], tmp_path: Path
) -> None:
    random = Random(26)
    site = CrowdSite(f"vm://crowd?store={kill_store()}", tmp_path / "told")
    for _ in range(KILLS):
        site.live_and_die(random.uniform(0.1, 0.6))
    site.judge()
    assert len(site.sent) > 20 * KILLS
    assert site.done
    assert site.repeated == [], "these were acknowledged, and came again"
    assert site.unflagged == [], "these came again without their flag"
    assert sorted(site.sent - site.got) == [], "these were confirmed, and are lost"
