"""kill -9 before and after each write of a configuration store leaves the old configuration or the new one, never a half."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.realises("BJ-CFG-2", "BJ-CFG-3")
@pytest.mark.parametrize(("kind", "steps"), [("toml", 5), ("sqlite", 4)])
def test_a_kill_at_any_step_leaves_old_or_new(kind: str, steps: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.provider.model.killed_at_each_write", kind, str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    *left, last = ran.stdout.split("\n")[:-1]
    assert last == "done"
    assert set(left) <= {"old", "new"}, left
    assert len(left) >= steps, "it was killed at each step"
    assert left[0] == "old"
    assert left == sorted(left, key=("old", "new").index), "once it is new, it stays new"
