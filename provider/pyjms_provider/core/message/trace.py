"""Watching how work is announced and pulled: for tests, and for people who wonder.

Off, it costs nothing: there is no hook on the way. `tracing` puts one around each step while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import wraps
from typing import Any, Final

from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.queue.queue import Queue


class Step(Enum):
    """The steps of Broker-J's simple flow that concern one process, in order."""

    ARRIVED = "a message arrives at the queue"
    QUEUE_NOTIFIED = "the queue wakes a consumer"
    HANDED_OVER = "the queue hands the message to a consumer that waits for it"
    CONSUMER_NOTIFIED = "the consumer tells its target"
    TARGET_NOTIFIED = "the target tells its session"
    SESSION_PULLED = "the session goes over its targets"
    TARGET_PULLED = "the target goes over its consumers"
    CONSUMER_PULLED = "the consumer tries to pull"


Traced = tuple[Enum, type, str]
"""A step is the call of one method: on whom, and what is called."""

STEPS: Final[tuple[Traced, ...]] = (
    (Step.ARRIVED, Queue, "enqueue"),
    (Step.QUEUE_NOTIFIED, Consumer, "notify_work"),
    (Step.HANDED_OVER, Consumer, "direct_deliver"),
    (Step.CONSUMER_NOTIFIED, ConsumerTarget, "notify_work"),
    (Step.TARGET_NOTIFIED, ConsumerSession, "notify_work"),
    (Step.SESSION_PULLED, ConsumerSession, "pull"),
    (Step.TARGET_PULLED, ConsumerTarget, "pull"),
    (Step.CONSUMER_PULLED, Consumer, "pull"),
)


@contextmanager
def tracing(observe: Callable[[Any, object], None], steps: Iterable[Traced] = STEPS) -> Iterator[None]:
    """Tell `observe` of each of the steps and the object that takes it, in all of this process, until the block ends.

    `observe` is called on the thread that takes the step, before it is taken. Not to be nested.
    """
    with ExitStack() as stack:
        for step, owner, name in steps:
            original = getattr(owner, name)
            setattr(owner, name, _observed(original, step, observe))
            stack.callback(setattr, owner, name, original)
        yield


def _observed(
    original: Callable[..., object], step: Enum, observe: Callable[[Any, object], None]
) -> Callable[..., object]:
    @wraps(original)
    def told(self: object, *arguments: object, **named: object) -> object:
        observe(step, self)
        return original(self, *arguments, **named)

    return told
