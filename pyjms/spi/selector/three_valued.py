"""The truth tables of SQL's three-valued logic (JMS 1.1 §3.8.1.2). None is unknown.

Compiled selectors never see these tables: they ask for each condition whether it is true, or whether it is false, and
so need no third value while they run. The tables say what that must come to; `explain` uses them.
"""

from __future__ import annotations

from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Truth: TypeAlias = bool | None

_TRUE: Final = True
_FALSE: Final = False
_UNKNOWN: Final = None

AND: Final[Mapping[tuple[Truth, Truth], Truth]] = MappingProxyType(
    {
        (_TRUE, _TRUE): _TRUE,
        (_TRUE, _FALSE): _FALSE,
        (_TRUE, _UNKNOWN): _UNKNOWN,
        (_FALSE, _TRUE): _FALSE,
        (_FALSE, _FALSE): _FALSE,
        (_FALSE, _UNKNOWN): _FALSE,
        (_UNKNOWN, _TRUE): _UNKNOWN,
        (_UNKNOWN, _FALSE): _FALSE,
        (_UNKNOWN, _UNKNOWN): _UNKNOWN,
    }
)

OR: Final[Mapping[tuple[Truth, Truth], Truth]] = MappingProxyType(
    {
        (_TRUE, _TRUE): _TRUE,
        (_TRUE, _FALSE): _TRUE,
        (_TRUE, _UNKNOWN): _TRUE,
        (_FALSE, _TRUE): _TRUE,
        (_FALSE, _FALSE): _FALSE,
        (_FALSE, _UNKNOWN): _UNKNOWN,
        (_UNKNOWN, _TRUE): _TRUE,
        (_UNKNOWN, _FALSE): _UNKNOWN,
        (_UNKNOWN, _UNKNOWN): _UNKNOWN,
    }
)

NOT: Final[Mapping[Truth, Truth]] = MappingProxyType({_TRUE: _FALSE, _FALSE: _TRUE, _UNKNOWN: _UNKNOWN})


def conjunction(values: Iterable[Truth]) -> Truth:
    """Return the value of ``a AND b AND …``."""
    return reduce(lambda left, right: AND[left, right], values)


def disjunction(values: Iterable[Truth]) -> Truth:
    """Return the value of ``a OR b OR …``."""
    return reduce(lambda left, right: OR[left, right], values)
