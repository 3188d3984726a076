"""The small thing that stands for a stored message while channels pass it on (JBoss Messaging Core §3)."""

from __future__ import annotations

from functools import total_ordering
from typing import TYPE_CHECKING, Final, NewType

if TYPE_CHECKING:
    from pyjms.spi.envelope import ConnectionId

ReferenceId = NewType("ReferenceId", int)
MESSAGE_OVERHEAD: Final = 600
"""Bytes of memory of an envelope, its reference and its entry, without strings: measured."""


@total_ordering
class MessageReference:
    """One stored message, shared by all channels that hold it; it has the message's attributes, never its body.

    References are ordered by priority, the higher first, then by age (§10). Two references are equal when they are the
    same one. Only the store that made a reference changes `holders`, once whoever restores it from a journal has set it to 0.
    """

    __slots__ = (
        "deliver_at_ms",
        "expiration_ms",
        "holders",
        "id",
        "journaled",
        "origin",
        "priority",
        "reliable",
        "shared",
        "size",
    )

    def __init__(
        self, reference_id: ReferenceId, origin: ConnectionId | None, expiration_ms: int, priority: int, reliable: bool
    ) -> None:
        self.id = reference_id
        """Grows with every message that the store takes in; unlike a JMS message id it is always there."""
        self.origin = origin
        """The connection that sent the message, for `no_local` (JMS 1.1 §6.11)."""
        self.expiration_ms = expiration_ms
        """Milliseconds since 1970 UTC; 0: never."""
        self.priority = priority
        self.reliable = reliable
        """Whether the message is PERSISTENT (§2.1; JMS 1.1 §3.4.2)."""
        self.deliver_at_ms = 0
        """Milliseconds since 1970 UTC before which nobody gets the message; 0: at once. A journal keeps it, as the others."""
        self.size = 0
        """About how many bytes the message takes; 0: nobody has needed to know."""
        self.journaled = False
        """Whether a journal keeps the message."""
        self.shared = False
        """Whether a journal keeps the message for several queues."""
        self.holders = 1
        """How many channels hold the message; the store forgets it with the last one."""

    def __lt__(self, other: MessageReference) -> bool:
        return (-self.priority, self.id) < (-other.priority, other.id)

    def __repr__(self) -> str:
        return f"<MessageReference {self.id} priority={self.priority} holders={self.holders}>"
