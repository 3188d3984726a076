"""Changing a queue, or ending it, while others may use it."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from pyjms.spi.errors import DestinationError, DestinationInUseError
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


def close_unused(queue: QueueCore, default: QueuePolicy) -> None:
    """Close a queue, so that it accepts nothing from now on. `default`: the policy of a queue that has none of its own.

    Raises `DestinationInUseError`: it has messages, consumers or receivers, or a policy of its own, and stays open.
    """
    with queue.lock:
        messages = sum(map(queue.state.count, _STATES))
        if messages or len(queue.consumers) or queue.has_receivers:
            raise DestinationInUseError(
                f"{queue.name} has {counted(messages, 'message')} and {counted(len(queue.consumers), 'consumer')}: "
                "empty it, close its consumers, and end the transactions that have sent to it"
            )
        if queue.policy != default:
            raise DestinationInUseError(
                f"{queue.name} has attributes of its own, which would be lost: delete it, and create it again afterwards"
            )
        queue.is_closed = True


class RetiredQueueError(DestinationError):
    """The queue is elsewhere, or is just being moved: nothing was done, and the call may be repeated."""

    code = "PYJMS-MOVED"

    def __init__(self, name: str) -> None:
        super().__init__(f"queue://{name} is being moved, or is led elsewhere by now: try again")


class KeyedLock:
    """A lock for each key, which exists while a thread holds it or waits for it.

    It guards no fields: it is the right to change the object with that name, and is held while the change is written (decision 0104).
    Its holder waits for the disk only, so that all others get it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # Weak, so that a lock is dropped with the last thread that uses it: names of queues are not remembered for ever.
        self._locks: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()

    def of(self, key: Hashable) -> Lock:
        """Return the lock of `key`, for ``with locks.of(key):``."""
        with self._lock:
            return self._locks.setdefault(key, Lock())
