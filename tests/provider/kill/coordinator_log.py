"""What the coordinator of the kill tests knows after its death: a line for each step of each branch."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

STARTED: Final = "started"
PREPARED: Final = "prepared"
"""The broker has promised."""
ONCE: Final = "once"
"""It is committed in one phase: only an answer would tell the outcome."""
DECIDED: Final = "decided"
"""It is to be committed."""
SETTLING: Final = "settling"
"""The broker may have been told of the decision."""
ENDED: Final = "ended"
"""The broker has answered, or a scan after a death has shown that it does not know the branch any more."""
_WRONG: Final = "wrong"


class CoordinatorLog:
    """Any thread. The system has a line when `note` returns; what is decided is forced to the disk."""

    def __init__(self, path: Path) -> None:
        """Read what earlier lives have written. A line that was cut short says nothing."""
        self.steps: Mapping[str, set[str]] = defaultdict(set)
        self.complaints: list[str] = []
        """What a broker has done wrong, as coordinators before this one have seen."""
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        *lines, _ = text.split("\n")
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == _WRONG:
                self.complaints.append(rest)
            else:
                self.steps[rest].add(word)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if not text.endswith("\n") and text:
            os.write(self._file, b"\n")

    def open_branches(self) -> dict[str, set[str]]:
        """Return the steps of the branches that had not ended when this log was opened."""
        return {name: steps for name, steps in self.steps.items() if ENDED not in steps}

    def note(self, word: str, name: str) -> None:
        """Write down a step of a branch."""
        os.write(self._file, f"{word} {name}\n".encode())

    def decide(self, name: str) -> None:
        """Write down that a branch is to be committed, whoever dies."""
        self.note(DECIDED, name)
        os.fsync(self._file)

    def complain(self, what: str) -> None:
        """Write down that the broker has broken a promise."""
        self.note(_WRONG, what)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
