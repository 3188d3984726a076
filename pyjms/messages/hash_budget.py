"""What hashing and comparing may cost while an object of unknown origin is decoded.

Python hashes a key of a dictionary, and compares it with keys of the same hash, in C: by recursion without a limit, and
with no other thread of the process running meanwhile. A tuple that holds another one twice, which holds another one
twice, is hashed 2**n times, and costs its sender two bytes a level. So what keys cost is known before one is hashed, and
paid out of a budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from pyjms.errors import MessageFormatException

__all__ = ["DEPTH_MAX", "NESTING", "HashBudget"]

DEPTH_MAX = 1_000
"""So deep tuples may hold each other: hashing them takes some 80 bytes of stack a level, of whichever thread does it.
Pickling them recurses too, and ends there by default in Python 3.11."""

_COST_MIN = 4_000_000
_COST_A_BYTE = 10
"""The budget: what an object without shared parts costs is less than one for each byte of its pickle."""

_FLAT_MAX = 16
"""A tuple without others in it, and not longer than this, is weighed again where it occurs: most are such."""

_OWN_HASH = 2**60
"""Whole numbers below it differ in their hashes; so do, for a sender, texts and bytes, whose hashes are salted."""

NESTING = (tuple, frozenset)
"""What can be a key and hold other keys."""

_Whole: TypeAlias = tuple[Any, ...] | frozenset[Any]


class HashBudget:
    """Knows what each tuple and frozenset of one pickle costs, and how much is left. One thread."""

    __slots__ = ("_alike", "_known", "_left", "_most")

    def __init__(self, size: int) -> None:
        """`size`: of the pickle, in bytes."""
        self._most = self._left = _COST_MIN + _COST_A_BYTE * size
        # Both keep what they tell of: another object could get its id.
        self._known: dict[int, tuple[_Whole, int, int]] = {}
        self._alike: dict[int, tuple[object, dict[int, int]]] = {}

    def weigh(self, whole: _Whole) -> tuple[int, int]:
        """Return how deep `whole` goes, and what it costs: its parts, counted wherever they occur.

        Raises `MessageFormatException` for one that whoever hashes it would not survive, or wait for too long.
        """
        depth, cost = 1, 1
        for part in whole:
            if isinstance(part, NESTING):
                part_depth, part_cost = self._weight(part)
                depth = max(depth, part_depth + 1)
                cost += part_cost
            else:
                cost += _cost(part)
        if depth > DEPTH_MAX:
            raise MessageFormatException(f"the object holds tuples in tuples, more than {DEPTH_MAX} deep")
        if cost > self._most:
            raise MessageFormatException(_TOO_MUCH)
        if depth > 1 or len(whole) > _FLAT_MAX:
            self._known[id(whole)] = whole, depth, cost
        return depth, cost

    def pay(self, holder: object, keys: Iterable[Any]) -> None:
        """Pay for `keys`, which `holder` gets: for the hash of each, and for comparing it with those that hash alike.

        Raises `MessageFormatException` when nothing is left, and `TypeError` for a key without a hash.
        """
        for key in keys:
            kind = type(key)
            if kind is str or kind is bytes:
                self._spend(_cost(key))
            elif kind is int and -_OWN_HASH < key < _OWN_HASH:
                self._spend(1)
            else:
                cost = self._weight(key)[1] if isinstance(key, NESTING) else _cost(key)
                self._spend(cost)
                self._spend(cost * self._alike_in(holder, hash(key)))

    def _weight(self, whole: _Whole) -> tuple[int, int]:
        known = self._known.get(id(whole))
        return self.weigh(whole) if known is None else known[1:]

    def _alike_in(self, holder: object, hashed: int) -> int:
        """Return how many keys with this hash `holder` was given before."""
        held = self._alike.get(id(holder))
        if held is None:
            held = self._alike[id(holder)] = holder, {}
        counts = held[1]
        number = counts.get(hashed, 0)
        counts[hashed] = number + 1
        return number

    def _spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise MessageFormatException(_TOO_MUCH)


_TOO_MUCH = "the object's keys, or its tuples, hold the same parts too often: hashing them would take too long"


def _cost(value: object) -> int:
    """Return what hashing `value` and comparing it once costs; 1 is about what that takes for a small one."""
    if type(value) is int:
        return 1 + (value.bit_length() >> 10)
    if type(value) is str or type(value) is bytes:
        return 1 + (len(value) >> 8)
    return 1
