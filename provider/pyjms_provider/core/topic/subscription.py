"""A subscription: the channel between a topic and one subscriber (JMS 1.1 §6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyjms.spi.selector import is_same_text
from pyjms_provider.core.queue.queue import WITHOUT_LIMITS, Queue

if TYPE_CHECKING:
    from collections import deque

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, ConnectionId
    from pyjms.spi.provider import SubscribeRequest
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.channel_state import ChannelState
    from pyjms_provider.core.queue.dead_letters import DeadEntry
    from pyjms_provider.core.queue.policy import QueuePolicy
    from pyjms_provider.core.store.store import MessageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionTerms:
    """What a subscriber asked for. A durable subscription whose terms change is another one (§6.11.1)."""

    topic: Address
    selector_text: str | None
    no_local: bool

    @classmethod
    def of(cls, request: SubscribeRequest) -> Self:
        """Return the terms of a request."""
        text = None if request.selector is None else request.selector.text
        return cls(topic=request.address, selector_text=text, no_local=request.no_local)

    def is_same(self, other: Self) -> bool:
        """Return whether they ask for the same: white space in a selector makes no difference."""
        return (
            self.topic == other.topic
            and self.no_local == other.no_local
            and is_same_text(self.selector_text, other.selector_text)
        )


class Subscription(Queue):
    """A queue that a topic fills with what its subscriber wants; messages are selected before they are stored."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        state: ChannelState,
        clock: Clock,
        *,
        terms: SubscriptionTerms,
        selector: Selector | None,
        subscriber: ConnectionId,
        is_durable: bool,
        on_due: Callable[[Queue, int], None] | None = None,
        kept: QueueJournal | None = None,
        policy: QueuePolicy = WITHOUT_LIMITS,
        on_dead: Callable[[deque[DeadEntry]], None] | None = None,
    ) -> None:
        super().__init__(name, store, state, clock, on_due=on_due, kept=kept, policy=policy, on_dead=on_dead)
        self.terms = terms
        self.selector = selector
        self.subscriber = subscriber
        """The connection of the present subscriber, or of the last one; `no_local` means this connection."""
        self.is_durable = is_durable
        self.user: object | None = None
        """Who has it, known by being the same; None: nobody. Guarded by the lock of the virtual host."""

    def accept(self, reference: MessageReference) -> bool:
        """Return whether the subscriber wants the message: `no_local` and the selector allow it (§6.11)."""
        return (
            super().accept(reference)
            and not self.leaves_out(reference)
            and (self.selector is None or self.selector.matches(self.store.retrieve(reference)))
        )

    @property
    def is_active(self) -> bool:
        """Whether a subscriber has it."""
        return self.user is not None

    @property
    def subscription_name(self) -> str | None:
        return self.name if self.is_durable else None

    def leaves_out(self, reference: MessageReference) -> bool:
        """Return whether the message was published through the subscriber's own connection, and that matters."""
        return self.terms.no_local and reference.origin == self.subscriber
