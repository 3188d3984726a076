"""Many deliveries in one header: ``1-5,7,9-12``.

The broker numbers the deliveries of a connection from 1, each one more than the last, so what is settled together is
mostly a few ranges. They stay ranges: a short header may name a billion numbers. Who looks them up uses `named`, which takes about as
long as there are ranges and numbers that are open, whatever the ranges say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from heapq import heappop, heappush
from itertools import chain
from typing import TypeAlias

from pyjms_provider.protocols.stomp.errors import ProfileError

__all__ = ["RANGES_MAX", "DeliveryIds", "delivery_ids", "named", "read_delivery_ids", "write_delivery_ids"]

DeliveryIds: TypeAlias = tuple[range, ...]
"""In the order of the header; each range goes upwards and is not empty."""

RANGES_MAX = 50_000
"""How many ranges a header may have: more than who settles together leaves holes, and read in a twentieth of a second."""

_HIGHEST = 2**63 - 1
_one = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?").fullmatch


def delivery_ids(numbers: Iterable[int]) -> DeliveryIds:
    """Return `numbers`, in their order, as ranges."""
    ranges: list[range] = []
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            ranges.append(range(first, last + 1))
        first = last = number
    if first is not None and last is not None:
        ranges.append(range(first, last + 1))
    return tuple(ranges)


def write_delivery_ids(ids: DeliveryIds) -> str:
    """Return the header's value."""
    return ",".join([str(ids[0]) if len(ids) == 1 else f"{ids[0]}-{ids[-1]}" for ids in ids])


def read_delivery_ids(text: str) -> DeliveryIds:
    """Return what the header's value names. Raises `ProfileError`."""
    parts = text.split(",", RANGES_MAX)
    if len(parts) > RANGES_MAX:
        raise ProfileError(f"a header names at most {RANGES_MAX:,} ranges of delivery ids: settle fewer at once")
    ranges = []
    for part in parts:
        found = _one(part)
        if found is None:
            raise ProfileError("delivery ids are numbers and ranges, such as 1-5,7,9-12")
        first = int(found[1])
        last = int(found[2]) if found[2] else first
        if not 0 < first <= last <= _HIGHEST:
            raise ProfileError("delivery ids are numbers from 1, and ranges go upwards, such as 1-5,7,9-12")
        ranges.append(range(first, last + 1))
    return tuple(ranges)


def named(ids: DeliveryIds, numbers: Collection[int]) -> list[int]:
    """Return those of `numbers` that `ids` names, in the order of `ids`, each once, where it is named first."""
    if sum(map(len, ids)) <= len(numbers):
        return [number for number in dict.fromkeys(chain.from_iterable(ids)) if number in numbers]
    coming = sorted(range(len(ids)), key=lambda place: ids[place].start, reverse=True)
    begun: list[
        int
    ] = []  # places in `ids`, the first of them on top: those of ranges that are over go when they get there
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        while coming and ids[coming[-1]].start <= number:
            heappush(begun, coming.pop())
        while begun and ids[begun[0]].stop <= number:
            heappop(begun)
        if begun:
            found.append((begun[0], number))
    return [number for _, number in sorted(found)]
