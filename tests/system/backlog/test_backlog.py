"""A broker delivers more than it has memory for. ``PYJMS_BACKLOG_MB`` says how much; ``make soak-backlog`` takes 5 GB with 200 MB allowed."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.backlog.worker import BATCH, SIZE

_log = logging.getLogger(__name__)
ROOT = Path(__file__).parents[3]
BACKLOG_MB = int(os.environ.get("PYJMS_BACKLOG_MB", "150"))
ALLOWED_MB = BACKLOG_MB // 25
OTHER_MB = 60
"""What the process needs besides: modules, SQLite's cache, one transaction, and what the allocator keeps."""


@pytest.mark.realises("BJ-MSG-4")
@pytest.mark.timeout(120 + BACKLOG_MB)
@pytest.mark.parametrize("in_one", [False, True], ids=["in transactions of 50", "in one transaction"])
@pytest.mark.parametrize("mode", ["PERSISTENT", "NON_PERSISTENT"])
def test_a_backlog_of_many_times_the_memory_comes_back_whole_and_in_order(
    tmp_path: Path, mode: str, in_one: bool
) -> None:
    messages = BACKLOG_MB * 1_000_000 // SIZE
    worker = ["tests.system.backlog.worker", str(tmp_path / "backlog.db"), f"{ALLOWED_MB}MB", mode, str(messages)]
    worker.append(str(messages if in_one else BATCH))
    done = subprocess.run([sys.executable, "-m", *worker], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    _log.info("%s: %d MB with %d MB allowed, %.0f MB more memory", mode, BACKLOG_MB, ALLOWED_MB, found["grown"] / 1e6)
    assert found["received"] == messages
    assert found["grown"] < (1.2 * ALLOWED_MB + OTHER_MB) * 1e6
