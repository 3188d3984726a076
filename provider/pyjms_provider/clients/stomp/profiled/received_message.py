"""What a delivery's tag is on a profile connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_provider.clients.stomp.epoch import Epoch

__all__ = ["ReceivedMessage"]


@dataclass(slots=True, eq=False)
class ReceivedMessage:
    """One message that the broker pushed, by the number under which it is settled."""

    number: int
    epoch: Epoch
    """The connection that it came by: on another one its number names another message."""
    is_persistent: bool
    is_said: bool = False
    """Whether the broker was told, or about to be, that it is settled."""
