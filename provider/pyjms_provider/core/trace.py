"""Watching how work is announced and pulled: for tests, and for people who wonder.

Off, it costs nothing: there is no hook on the way. `tracing` puts one around each step while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import wraps
from typing import TypeVar

from pyjms_provider.core.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.queue import Queue

__all__ = ["Step", "observed", "tracing"]


_Step = TypeVar("_Step", bound=Enum)


class Step(Enum):
    """The steps of Broker-J's simple flow that concern one process, in order."""

    ARRIVED = "a message arrives at the queue"
    QUEUE_NOTIFIED = "the queue wakes a consumer"
    CONSUMER_NOTIFIED = "the consumer tells its target"
    TARGET_NOTIFIED = "the target tells its session"
    SESSION_PULLED = "the session goes over its targets"
    TARGET_PULLED = "the target goes over its consumers"
    CONSUMER_PULLED = "the consumer tries to pull"


# Each step is the call of one method: on whom, and what is called.
_STEPS: tuple[tuple[Step, type, str], ...] = (
    (Step.ARRIVED, Queue, "take_over"),
    (Step.QUEUE_NOTIFIED, Consumer, "notify_work"),
    (Step.CONSUMER_NOTIFIED, ConsumerTarget, "notify_work"),
    (Step.TARGET_NOTIFIED, ConsumerSession, "notify_work"),
    (Step.SESSION_PULLED, ConsumerSession, "pull"),
    (Step.TARGET_PULLED, ConsumerTarget, "pull"),
    (Step.CONSUMER_PULLED, Consumer, "pull"),
)


@contextmanager
def tracing(observe: Callable[[Step, object], None]) -> Iterator[None]:
    """Tell `observe` of each step and the object that takes it, in all queues of this process, until the block ends.

    `observe` is called on the thread that takes the step, before it is taken. Not to be nested.
    """
    with ExitStack() as stack:
        for step, owner, name in _STEPS:
            original = getattr(owner, name)
            setattr(owner, name, observed(original, step, observe))
            stack.callback(setattr, owner, name, original)
        yield


def observed(
    original: Callable[..., object], step: _Step, observe: Callable[[_Step, object], None]
) -> Callable[..., object]:
    """Return a method that does what `original` does, and tells before that it takes `step`."""

    @wraps(original)
    def told(self: object, *arguments: object, **named: object) -> object:
        observe(step, self)
        return original(self, *arguments, **named)

    return told
