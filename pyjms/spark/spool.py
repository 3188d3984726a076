"""The rules of a spool, apart from its files: frames of a segment, what is kept beside them, and who has been seen before.

A spool numbers the messages of a message system that cannot repeat them. They are written and synchronised first, and acknowledged
then: a crash in between brings them again, and they are known by JMSMessageID. So it keeps the ids of those messages, and of those
alone, whose acknowledgement is not known to have arrived: an exact and small set.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyjms.spark.errors import SpoolError

_HEAD = struct.Struct(">4sIQII")
_MAGIC = b"PJS1"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Some messages that were written together."""

    first: int
    count: int
    data: bytes
    """One Arrow record batch as an IPC stream."""

    @property
    def last(self) -> int:
        """The number of its last message."""
        return self.first + self.count - 1


def pack(frame: Frame) -> bytes:
    """Return a frame as a segment has it."""
    rest = struct.pack(">QII", frame.first, frame.count, len(frame.data))
    return (
        _HEAD.pack(_MAGIC, zlib.crc32(frame.data, zlib.crc32(rest)), frame.first, frame.count, len(frame.data))
        + frame.data
    )


def frames_of(segment: bytes) -> Iterator[tuple[Frame, int]]:
    """Yield the frames of a segment, each with the place where it ends; what a crash left behind them is no frame."""
    place = 0
    while len(segment) - place >= _HEAD.size:
        magic, check, first, count, length = _HEAD.unpack_from(segment, place)
        data = segment[place + _HEAD.size : place + _HEAD.size + length]
        rest = struct.pack(">QII", first, count, length)
        if magic != _MAGIC or len(data) < length or zlib.crc32(data, zlib.crc32(rest)) != check:
            return
        place += _HEAD.size + length
        yield Frame(first=first, count=count, data=data), place


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a spool keeps beside its segments."""

    generation: str
    low: int = 0
    """Messages up to here are done with; their segments may be gone."""
    settled: int = 0
    """Messages up to here were acknowledged, but for those that `unsettled` names."""
    unsettled: frozenset[str] = frozenset()

    def to_json(self) -> str:
        """Return them as a file has them."""
        told = {
            "v": VERSION,
            "generation": self.generation,
            "low": self.low,
            "settled": self.settled,
            "unsettled": sorted(self.unsettled),
        }
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str) -> Marks:
        """Read what `to_json` wrote. Raises `SpoolError`."""
        try:
            told = json.loads(text)
            if told["v"] != VERSION:
                raise SpoolError(
                    f"the spool is of version {told['v']}, and this is {VERSION}: run the pyjms that wrote it"
                )
            return cls(
                generation=str(told["generation"]),
                low=int(told["low"]),
                settled=int(told["settled"]),
                unsettled=frozenset(map(str, told["unsettled"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SpoolError(
                f"the file marks.json of the spool is damaged ({error}); restore it, or begin with an empty folder"
            ) from error


@dataclass(slots=True)
class Seen:
    """The messages that are spooled and may come again. One thread."""

    ids: set[str] = field(default_factory=set)

    def is_repeated(self, message_id: str | None) -> bool:
        """Say whether a message that comes is spooled already."""
        return message_id in self.ids

    def spooled(self, ids: Iterable[str | None]) -> None:
        """Hear that messages are safe on the disk, and not acknowledged yet."""
        self.ids.update(each for each in ids if each is not None)

    def settled(self, ids: Iterable[str | None]) -> None:
        """Hear that their acknowledgement has arrived: they do not come again."""
        self.ids.difference_update(each for each in ids if each is not None)
