"""How far a stream has come, as Spark keeps it in a checkpoint: ``{"v":1,"group":"g","gen":"…","seq":123}``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyjms.spark.errors import DataLossError

__all__ = ["Offset", "Range", "between", "cut"]

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A place in the numbers of one generation of a reader group, or of a spool."""

    group: str
    generation: str
    seq: int
    """The number of the last message before this place."""
    begins_after: int | None = None
    """Where the batch that ends here begins, when that is not where the one before it ended: messages were lost, and the
    user said to go on. It stands in the offset, as a batch that is repeated must begin at the same place."""

    def to_json(self) -> dict[str, Any]:
        """Return it as Spark keeps it."""
        told = {"v": VERSION, "group": self.group, "gen": self.generation, "seq": self.seq}
        return told if self.begins_after is None else {**told, "from": self.begins_after}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offset:
        """Read what `to_json` wrote. Raises `DataLossError` for what another program wrote."""
        try:
            if value["v"] != VERSION:
                raise DataLossError(
                    f"the checkpoint was written in version {value['v']} of pyjms's offsets, and this is {VERSION}: run the "
                    "version of pyjms that wrote it, or begin with a new checkpoint"
                )
            begins_after = value.get("from")
            return cls(
                group=str(value["group"]),
                generation=str(value["gen"]),
                seq=int(value["seq"]),
                begins_after=None if begins_after is None else int(begins_after),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataLossError(
                f'the checkpoint has an offset that is none of format("jms") ({error}): give each query a checkpoint of its own'
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The messages from ``after + 1`` to `upto`."""

    after: int
    upto: int

    def __len__(self) -> int:
        return self.upto - self.after


def between(start: Offset, end: Offset) -> Range:
    """Return the messages of the batch that lies between two offsets."""
    if end.begins_after is not None:
        return Range(after=end.begins_after, upto=end.seq)
    return Range(after=start.seq, upto=max(start.seq, end.seq))


def cut(whole: Range, parts: int | None, *, processors: int, least: int) -> list[Range]:
    """Return `whole` in equal parts, in order; of an empty range none.

    parts: how many; None: as many as there are `processors`, but none of fewer than `least` messages.
    """
    count = len(whole)
    if parts is None:
        parts = max(1, min(processors, count // least))
    parts = min(parts, count)
    edges = [whole.after + count * number // parts for number in range(parts + 1)] if parts else []
    return [Range(after=low, upto=high) for low, high in pairwise(edges)]
