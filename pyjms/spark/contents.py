"""What an epoch was made of: by it a sink tells the repetition of an epoch from other rows under the same number.

A sink whose marker has reached an epoch takes what comes under that number for its repetition. A checkpoint that is an old copy gives the number
to other messages, which would vanish. So the number of the rows and the sum of their digests, which are the same however the rows are cut into
partitions, are kept beside the marker: as the marker of a sink of its own, whose epochs are the real one and 20 bits of what it was made of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyjms.spi.replay import Stages

__all__ = ["Content", "RowSum", "mark_of", "note", "noted", "together"]

_BITS = 20
_EPOCHS = 1 << 63 - _BITS
_MANY = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What rows there are, in any order."""

    rows: int = 0
    digests: int = 0
    """The sum of the digests of the rows, of 64 bits."""

    @property
    def mark(self) -> int:
        """Return the bits that are kept."""
        return mark_of(f"{self.rows}:{self.digests}")


class RowSum:
    """Looks at rows that pass."""

    def __init__(self) -> None:
        self.content = Content()

    def add(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
        """Count rows that are given by the column."""
        by_name = sorted(zip(names, columns, strict=True), key=lambda each: each[0])
        rows = [repr(row) for row in zip(*(column for _, column in by_name), strict=True)]
        digests = self.content.digests + sum(map(_digest, rows))
        self.content = Content(rows=self.content.rows + len(rows), digests=digests % _MANY)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def mark_of(text: str) -> int:
    """Return the bits that are kept of anything else."""
    return _digest(text) % (1 << _BITS)


def together(parts: Sequence[Content | None]) -> Content | None:
    """Return what the tasks of an epoch have written; None: not all of them know."""
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    return Content(rows=sum(each.rows for each in known), digests=sum(each.digests for each in known) % _MANY)


def note(stages: Stages, sink: str, epoch: int, mark: int) -> None:
    """Keep what an epoch was made of, after it was promoted; again, or for an earlier epoch: nothing."""
    if epoch < _EPOCHS:
        stages.promote(_name(sink), epoch << _BITS | mark, [])


def noted(stages: Stages, sink: str, epoch: int) -> int | None:
    """Return the mark of an epoch; None: it is not known, as of an older pyjms, or where the writer died after the promotion."""
    found = stages.marker(_name(sink))
    return None if found is None or found >> _BITS != epoch else found % (1 << _BITS)


def _name(sink: str) -> str:
    """Return where it is kept: a sink's name may be as long as names are."""
    return f"content:{hashlib.sha256(sink.encode('utf-8', 'surrogatepass')).hexdigest()}"
