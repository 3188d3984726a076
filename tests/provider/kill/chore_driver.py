"""Has a broker do all chores while its store cannot be written, kills it, and says what is not as it should be.

``python -m tests.provider.kill.chore_driver DIRECTORY WHEN`` does so with a full disk: it mounts a file system that nobody else sees (`unshare`).
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.provider.kill.chore_worker import UNANSWERED
from tests.provider.kill.chores import CHORES, Chore, Place
from tests.provider.kill.site import ROOT

BEFORE, AFTERWARDS = "before the store can be written again", "afterwards"
WHEN: Final = (BEFORE, AFTERWARDS)
IN_DOUBT: Final = "PYJMS-IN-DOUBT"
NAMED: Final = ("PYJMS-STORE", "PYJMS-STORE-UNAVAILABLE", "PYJMS-STORE-UNUSABLE", IN_DOUBT, "PYJMS-XA")
"""What callers may be told; errors.md says what they do then."""

_SIZE_MB: Final = 16


class Play:
    """One run with one fault."""

    def __init__(
        self, store: str, fault: str, when: str, *, spoil: Callable[[], object], mend: Callable[[], object]
    ) -> None:
        """`store`: its URL; `when`: the broker is killed."""
        self._store = quote(store, safe="")
        self._fault = fault
        self._when = when
        self._spoil = spoil
        self._mend = mend
        self.problems: list[str] = []
        self._refused: set[str] = set()
        self._doubted: set[str] = set()

    def run(self) -> list[str]:
        """Return what is not as it should be."""
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.provider.kill.chore_worker", self._store, self._fault],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with worker:
            try:
                self._play(worker)
            finally:
                worker.kill()
        if self._when == BEFORE:
            self._mend()
        self._look_after_start()
        return self.problems

    def _play(self, worker: subprocess.Popen[str]) -> None:
        self._hear(worker)
        self._spoil()
        self._go_on(worker)
        self._judge_refusals(**self._hear(worker))
        if self._when == BEFORE:
            return
        self._mend()
        self._go_on(worker)
        told = self._hear(worker)
        for name, chore in CHORES.items():
            self._check(name, "when it could be written", told["found"][name], self._allowed(name, chore))
            if told["errors"].get(name) is not None:
                self.problems.append(f"{name}: cannot be done afterwards: {told['errors'][name]}")
            self._check(name, "when it was done again", told["at last"][name], [chore.after])

    def _hear(self, worker: subprocess.Popen[str]) -> dict[str, Any]:
        assert worker.stdout is not None
        heard: dict[str, Any] = json.loads(worker.stdout.readline())
        return heard

    def _go_on(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()

    def _judge_refusals(self, errors: dict[str, Any], found: dict[str, Any]) -> None:
        for name, chore in CHORES.items():
            error = errors[name]
            if error is None:
                if not chore.is_quiet and self._fault != "full":  # small writes find room for a while
                    self.problems.append(f"{name}: its caller heard of no error")
                if chore.is_quiet and self._fault in UNANSWERED:
                    continue  # what it took is held until somebody answers
                expected = [chore.after, *([chore.before] if chore.is_quiet else [])]
                self._check(name, "without an error", found[name], expected)
                continue
            code, reason = error
            is_in_doubt = code == IN_DOUBT or "nobody answered" in reason
            (self._doubted if is_in_doubt else self._refused).add(name)
            if code not in NAMED or not reason:
                self.problems.append(f"{name}: its caller heard {code}: {reason!r}")
            if not is_in_doubt:
                self._check(name, "after the refusal", found[name], [chore.before])
        if not self._refused | self._doubted:
            self.problems.append("the store could be written")

    def _allowed(self, name: str, chore: Chore) -> list[Any]:
        if name in self._refused:
            return [chore.before]
        return [chore.before, chore.after] if name in self._doubted or chore.is_quiet else [chore.after]

    def _look_after_start(self) -> None:
        place = Place(self._store)
        place.let_time_pass()
        for name, chore in CHORES.items():
            expected = [chore.after] if self._when == AFTERWARDS else self._allowed(name, chore)
            more = chore.after_kill if self._when == BEFORE else []
            survivors = [_without_transient(each) for each in [*expected, *more]]
            self._check(name, "after the kill", chore.look(place), survivors)
        place.stop()

    def _check(self, name: str, moment: str, found: Any, expected: list[Any]) -> None:
        if found not in expected:
            self.problems.append(f"{name}: {moment} there is {found}, and not {expected}")


def _without_transient(found: Any) -> Any:
    if isinstance(found, list):
        return [_without_transient(each) for each in found if not (isinstance(each, str) and each.startswith("t"))]
    return found


def main(directory: str, when: str) -> None:
    """Do what the module says."""
    logging.disable()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE_MB}m", "tmpfs", directory], check=True)
    ballast = Path(directory) / "ballast"

    def spoil() -> None:
        ballast.write_bytes(b"x" * shutil.disk_usage(directory).free)

    play = Play(f"sqlite:///{directory}/store.db", "full", when, spoil=spoil, mend=ballast.unlink)
    print(json.dumps(play.run()))  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
