"""Kill a process in which many threads share commits, again and again: what each of them was told must be true afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event

import pytest

from tests.provider.kill.crowd import QUEUE
from tests.provider.kill.site import drained

KILLS = max(3, int(os.environ.get("PYJMS_KILLS", "20")) // 4)
PATIENCE_S = 60
ROOT = Path(__file__).parents[3]


def live_and_die(url: str, path: Path, life: int, after_s: float) -> None:
    """Let a process work so long once many wait for one commit, and kill it."""
    command = [sys.executable, "-m", "tests.provider.kill.crowd", url, str(path), str(life)]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        if process.stdout.readline().strip() != "working":
            process.kill()
            pytest.fail(f"the crowd does not work: {process.stderr.read()}")
        Event().wait(after_s)  # the moment of death is what is random here
    finally:
        process.kill()
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -9, errors


@pytest.mark.timeout(60 + 20 * KILLS)
def test_what_many_threads_were_told_is_true_however_often_they_die(
    kill_store: Callable[[], str], tmp_path: Path
) -> None:
    random = Random(26)
    url = f"vm://crowd?store={kill_store()}"
    path = tmp_path / "told"
    sent: set[str] = set()
    got: set[str] = set()
    done: set[str] = set()
    faults: list[str] = []

    def receive(text: str, is_flagged: bool) -> None:
        if text in done:
            faults.append(f"{text} was acknowledged, and came again")
        if text in got and not is_flagged:
            faults.append(f"{text} came again without its flag")
        got.add(text)

    for life in range(KILLS):
        live_and_die(url, path, life, random.uniform(0.1, 0.6))
    for line in path.read_text().splitlines():
        word, *texts = line.split()
        if word == "sent":
            sent.add(texts[0])
        elif word == "done":
            done.update(texts)
        else:
            receive(texts[0], texts[1] == "1")
    for text, is_flagged in drained(url, QUEUE):
        receive(text, is_flagged)
    assert len(sent) > 20 * KILLS
    assert done
    assert faults == []
    assert sorted(sent - got) == [], "these were confirmed, and are lost"
