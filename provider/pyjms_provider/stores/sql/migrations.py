"""From an older schema to the present one, version by version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["MIGRATIONS", "Migration"]

Migration = Callable[["Connection"], None]
"""Changes the schema and what is in it, within the transaction of the connection."""

MIGRATIONS: Final[Mapping[int, Migration]] = {}
"""By the version that it starts from; it leads to the next one. Version 1 is the first."""
