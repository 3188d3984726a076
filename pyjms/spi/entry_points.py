"""What other packages bring by an entry point: a class, of which an object is made, without arguments, when it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pyjms.spi.errors import ProviderError
from pyjms.spi.reasons import reason_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

__all__ = ["entry_points", "make"]

_Made = TypeVar("_Made")


def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
    """Return the entry points of a group, or those of one name. Looks on the disk."""
    from importlib import (
        metadata,  # takes longer to import than most of pyjms, and is not needed before a first connection
    )

    return metadata.entry_points(group=group) if name is None else metadata.entry_points(group=group, name=name)


def make(point: EntryPoint, kind: type[_Made], where: str, error: Callable[[str], ProviderError], advice: str) -> _Made:
    """Return an object of the class that `point` names, which must be a `kind`.

    `where` says in an error what it is, and `advice` what to install when something is missing. Raises `error` of the reason: it
    cannot be imported, or made, or is something else.
    """
    try:
        made = point.load()()
    except ImportError as failure:
        raise error(f"{where} cannot be imported ({failure}); {advice}") from failure
    except Exception as failure:
        raise error(f"{where} ({point.value}) cannot be made: {reason_of(failure)}") from failure
    if not isinstance(made, kind):
        raise error(f"entry point {point.name} = {point.value} is no {kind.__module__}.{kind.__name__} class")
    return made
