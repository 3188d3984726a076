"""What a delivery's tag is on a profile connection."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Received"]


@dataclass(slots=True, eq=False)
class Received:
    """One message that the broker pushed, by the number under which it is settled."""

    number: int
    epoch: int
    """The connection that it came by: on another one its number means nothing, and the message comes again."""
    is_persistent: bool
