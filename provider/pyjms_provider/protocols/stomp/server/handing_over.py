"""Where a message that is being sent on the loop goes straight to a consumer that waits for it (decision 0610).

A send begins to hand over, and who waits on the same thread may take its message meanwhile; what was taken is written when the send is over, and
holds nothing any more. Nobody is woken, and no connection has a turn for it.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms_provider.protocols.stomp.server.profile_consumers import ServedConsumer

__all__ = ["HandingOver"]


class HandingOver:
    """That between the connections of one loop. Its thread alone opens and closes it; any thread may ask whether it is open."""

    __slots__ = ("taken", "thread")

    def __init__(self) -> None:
        self.thread = 0
        """On which thread what is sent now may be taken at once; 0: on none."""
        self.taken: list[tuple[ServedConsumer, Delivery]] = []
        """What was taken, and by whom, since it was opened."""

    def open(self) -> None:
        """Let messages be taken on this thread until `close`. Not to be nested."""
        self.thread = get_ident()

    def close(self) -> None:
        """Let nothing more be taken, and write what was. Never raises."""
        self.thread = 0
        if self.taken:
            taken, self.taken = self.taken, []
            for consumer, delivery in taken:
                consumer.write(delivery)
