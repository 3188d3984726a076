"""What hashing and comparing may cost while an object of unknown origin is decoded, and making values of long arguments.

Python hashes a key of a dictionary, and compares it with keys of the same hash, in C: by recursion without a limit, and
with no other thread of the process running meanwhile. A tuple that holds another one twice, which holds another one
twice, is hashed 2**n times, and costs its sender two bytes a level. So what keys cost is known before one is hashed, and
paid out of a budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from pyjms.errors import MessageFormatException

DEPTH_MAX = 1_000
"""So deep tuples may hold each other: hashing them takes some 80 bytes of stack a level, of whichever thread does it.
Pickling them recurses too, and ends there by default in Python 3.11."""

_COST_MIN = 4_000_000
_COST_A_BYTE = 10
"""The budget: what an object without shared parts costs is less than one for each byte of its pickle."""

_WHOLE_MAX = 16_384
"""A whole number of more bits is no key beside a Decimal, which makes a Decimal of it to compare the two: in time by their square."""

_FLAT_MAX = 16
"""A tuple without others in it, and not longer than this, is weighed again where it occurs: most are such."""

_OWN_HASH = 2**60
"""Whole numbers below it differ in their hashes; so do, for a sender, texts and bytes, whose hashes are salted."""

NESTING = (tuple, frozenset)
"""What can be a key and hold other keys."""

_Whole: TypeAlias = tuple[Any, ...] | frozenset[Any]


class HashBudget:
    """Knows what each tuple and frozenset of one pickle costs, and how much is left. One thread."""

    __slots__ = ("_alike", "_has_decimal", "_has_large", "_known", "_left", "_most")

    def __init__(self, size: int) -> None:
        """`size`: of the pickle, in bytes."""
        self._most = self._left = _COST_MIN + _COST_A_BYTE * size
        self._has_decimal = self._has_large = False
        # Both keep what they tell of: another object could get its id.
        self._known: dict[int, tuple[object, int, int]] = {}
        self._alike: dict[int, tuple[object, dict[int, tuple[int, int]]]] = {}

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
                cost += self._cost_of(part)
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
                self.spend(_cost(key))
            elif kind is int and -_OWN_HASH < key < _OWN_HASH:
                self.spend(1)
                if id(holder) in self._alike:  # others may have been chosen to hash like it
                    self.spend(self._comparing(holder, hash(key), 1))
            else:
                cost = self._weight(key)[1] if isinstance(key, NESTING) else self._cost_of(key)
                self.spend(cost)
                self.spend(self._comparing(holder, hash(key), cost))

    def _weight(self, whole: _Whole) -> tuple[int, int]:
        known = self._known.get(id(whole))
        return self.weigh(whole) if known is None else known[1:]

    def know(self, value: object, weight: int) -> None:
        """Have `value`, no tuple, cost `weight` wherever it is hashed or compared."""
        if weight > 1:
            self._known[id(value)] = value, 1, weight

    def spend(self, cost: int) -> None:
        """Take `cost` off what is left. Raises `MessageFormatException` when nothing is left."""
        self._left -= cost
        if self._left < 0:
            raise MessageFormatException(_TOO_MUCH)

    def _cost_of(self, value: object) -> int:
        known = self._known.get(id(value))
        if known is not None:
            return known[2]
        if type(value) is int and value.bit_length() > _WHOLE_MAX:
            self._has_large = True
            self._check_decimals()
        return _cost(value)

    def see_decimal(self) -> None:
        """Note that the object holds a Decimal. Raises `MessageFormatException` if it also has a very large number among its keys."""
        self._has_decimal = True
        self._check_decimals()

    def _check_decimals(self) -> None:
        if self._has_large and self._has_decimal:
            raise MessageFormatException(
                f"the object holds a Decimal, and a number of more than {_WHOLE_MAX} bits as a key or in a tuple: comparing the two "
                "could take too long"
            )

    def _comparing(self, holder: object, hashed: int, cost: int) -> int:
        """Return what it costs to compare a key of this cost with those of the same hash that `holder` was given before."""
        held = self._alike.get(id(holder))
        if held is None:
            held = self._alike[id(holder)] = holder, {}
        alike = held[1]
        number, costs = alike.get(hashed, (0, 0))
        alike[hashed] = number + 1, costs + cost
        return number * cost + costs


_TOO_MUCH = "the object's keys, its tuples or its values hold the same parts too often: hashing or making them would take too long"


def _cost(value: object) -> int:
    """Return what hashing `value` and comparing it once costs; 1 is about what that takes for a small one."""
    if type(value) is int:
        size = value.bit_length() >> 10
        return 1 + size + min(size, _WHOLE_MAX >> 10) ** 2  # to compare it, a Decimal makes one of it
    if type(value) is str or type(value) is bytes:
        return 1 + (len(value) >> 8)
    return 1
