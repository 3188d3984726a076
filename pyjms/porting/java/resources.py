"""Fields that a container of Java fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["filled", "looked_up"]

_UNKNOWN: Final = object()


class looked_up:  # noqa: N801  it is written like a function
    """A field with `@Resource`: its object is looked up when it is first read, and may be set as any other."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self._found: Any = _UNKNOWN

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if self._found is _UNKNOWN:
            self._found = self._find()
        return self._found


def filled(pattern: str, *values: str) -> str:
    """Return a pattern of a logger with its values, in the place of ``{}`` or of ``{0}``."""
    for place, value in enumerate(values):
        for hole in (f"{{{place}}}", "{}"):
            if hole in pattern:
                pattern = pattern.replace(hole, value, 1)
                break
    return pattern
