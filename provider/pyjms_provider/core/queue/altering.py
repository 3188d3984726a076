"""Applying another policy to a queue in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import DestinationInUseError
from pyjms.spi.words import counted
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.queue_rules import QueueRules, needs_rules
from pyjms_provider.core.queue_types import MissingQueueType, QueueType

if TYPE_CHECKING:
    from pyjms_provider.core.policy import QueuePolicy
    from pyjms_provider.core.queue.contracts import QueueCore

_FIXED: Final = ("type", "key", "priorities", "exclusive", "groups", "non_destructive")
_STATES: Final = (MessageState.NEW, MessageState.NOT_COMMITTED, MessageState.DELIVERED)


def is_another_kind(queue: QueueCore, policy: QueuePolicy) -> bool:
    """Return whether `policy` makes another kind of queue. Raises `DestinationInUseError` if the queue is used. The lock is held."""
    messages = sum(map(queue.state.count, _STATES))
    # Those fields decide the order and the distribution of messages, which cannot change under messages and consumers.
    changed = [name for name in _FIXED if getattr(policy, name) != getattr(queue.policy, name)]
    # Its messages stand in the order of a standard queue.
    if isinstance(queue.policy.type, MissingQueueType) and policy.type is QueueType.STANDARD:
        changed = [name for name in changed if name not in {"type", "key"}]
    if changed and (messages or len(queue.consumers) or queue.has_receivers):
        raise DestinationInUseError(
            f"{queue.name} has {counted(messages, 'message')} and {counted(len(queue.consumers), 'consumer')}, so its {changed[0]} "
            f"cannot be altered; empty it and close its consumers and receivers first, or create another queue"
        )
    return bool(changed)


def change_rules(queue: QueueCore, policy: QueuePolicy) -> None:
    """Apply the changes that are possible while there are messages and consumers. The lock is held."""
    if queue.rules is None and needs_rules(policy):
        queue.rules = QueueRules(policy, queue.wake_held_back)
    if queue.rules is not None:
        # Only limits need each message. Otherwise messages stay compact: to materialize a million takes as long as to load them.
        states = _STATES if policy.is_limited else ()
        held = [entry.reference for state in states for entry in queue.state.entries(state)]
        queue.rules.change(policy, held, queue.store.retrieve)
        for reference in held:
            queue.pager.page_out(reference)
        if not needs_rules(policy):
            queue.rules = None
    queue.policy = policy
