"""Keeping some of the files that a process may open for itself: each connection is one, and strangers may hold them all.

Without any a broker cannot connect to its store again, read what it has on disk, or let an operator in.
"""

from __future__ import annotations

import sys
from typing import Final

if sys.platform != "win32":  # which has no such limit
    import resource

__all__ = ["KEPT", "KEPT_FROM_OPERATORS", "is_kept"]

KEPT: Final = 64
"""So many files clients leave; of a small limit, a quarter. The stores of a virtual host need some twenty."""
KEPT_FROM_OPERATORS: Final = 32
"""So many of these operators leave, too."""


def is_kept(descriptor: int, kept: int = KEPT) -> bool:
    """Return whether a new connection has one of the last files that this process may open. The system gives the lowest that is free."""
    if sys.platform == "win32":
        return False
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most != resource.RLIM_INFINITY and descriptor >= most - min(kept, most * kept // KEPT // 4)
