"""Message references: they stand for stored messages while channels pass them on (JBoss Messaging Core §3)."""

from __future__ import annotations

from functools import total_ordering
from typing import TYPE_CHECKING, Final, NewType

if TYPE_CHECKING:
    from pyjms.spi.envelope import ConnectionId

ReferenceId = NewType("ReferenceId", int)
MESSAGE_OVERHEAD: Final = 600
"""Memory of an envelope, its reference and its entry in bytes, without strings: measured."""


@total_ordering
class MessageReference:
    """A stored message, shared by all channels that hold it; it has the message's attributes, never its body.

    References are ordered by priority, the higher first, then by age (§10). Two references are equal when they are the
    same object. Only the store that made a reference changes `holders`, once a restore from a journal has set it to 0.
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
        """Ascending with every message of the store; unlike a JMS message id it is always set."""
        self.origin = origin
        """The connection that sent the message, for `no_local` (JMS 1.1 §6.11)."""
        self.expiration_ms = expiration_ms
        """Milliseconds since 1970 UTC; 0: never."""
        self.priority = priority
        self.reliable = reliable
        """Whether the message is PERSISTENT (§2.1; JMS 1.1 §3.4.2)."""
        self.deliver_at_ms = 0
        """Milliseconds since 1970 UTC before which the message is not delivered; 0: at once. A journal stores it, like the others."""
        self.size = 0
        """About how many bytes the message takes; 0: not measured yet."""
        self.journaled = False
        """Whether the message is in the journal."""
        self.shared = False
        """Whether the journal has the message for several queues."""
        self.holders = 1
        """How many channels hold the message; the store drops it with the last one."""

    def __lt__(self, other: MessageReference) -> bool:
        return (-self.priority, self.id) < (-other.priority, other.id)

    def __repr__(self) -> str:
        return f"<MessageReference {self.id} priority={self.priority} holders={self.holders}>"
