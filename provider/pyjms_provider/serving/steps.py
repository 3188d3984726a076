"""The steps of a message through a broker that serves a network, for `pyjms broker run --trace` (QCM-12 to 23).

Off, it costs nothing: `tracing_steps` puts a hook around each step while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final

from pyjms_provider.core.queue.statistics import STEPS, Step, Traced, tracing
from pyjms_provider.protocols.scheduling import DeliveryScheduler, SessionScheduler
from pyjms_provider.protocols.stomp.server.native_consumers import ServedConsumer
from pyjms_provider.protocols.stomp.server.standard import StandardSubscription
from pyjms_provider.transport.connection import Connection


class NetworkStep(Enum):
    """The steps of a connection, in order; those of the core are `core.queue.statistics.Step`."""

    CONNECTION_TOLD = "the session tells its connection that a consumer wants to work"
    CONNECTION_SCHEDULED = "the connection schedules itself"
    CONNECTION_SERVICED = "the scheduler gives the connection its thread"
    SESSIONS_PULLED = "the connection goes over its sessions that want to work"
    SESSION_PULLED = "the session goes over its consumers that want to work"
    CONSUMER_PULLED = "the consumer tries to pull"
    CONSUMER_HANDED = "the consumer writes what it was handed, without a turn"
    BUFFERED = "bytes go to the I/O buffer"


_NOTIFIED = frozenset(
    {Step.ARRIVED, Step.QUEUE_NOTIFIED, Step.CONSUMER_NOTIFIED, Step.TARGET_NOTIFIED, Step.HANDED_OVER}
)


_STEPS: Final[tuple[Traced, ...]] = (
    *(each for each in STEPS if each[0] in _NOTIFIED),  # a connection pulls in its own way
    (NetworkStep.CONNECTION_TOLD, DeliveryScheduler, "schedule"),
    (NetworkStep.CONNECTION_SCHEDULED, Connection, "wake"),
    (NetworkStep.CONNECTION_SERVICED, Connection, "turn"),
    (NetworkStep.SESSIONS_PULLED, DeliveryScheduler, "pull"),
    (NetworkStep.SESSION_PULLED, SessionScheduler, "pull"),
    (NetworkStep.CONSUMER_PULLED, ServedConsumer, "pull"),
    (NetworkStep.CONSUMER_PULLED, StandardSubscription, "pull"),
    (NetworkStep.CONSUMER_HANDED, ServedConsumer, "write"),
    (NetworkStep.BUFFERED, Connection, "_send"),
)


@contextmanager
def tracing_steps(tell: Callable[[str, object], None]) -> Iterator[None]:
    """Call `tell` with each step and the object that takes it, until the block ends; only for connections that begin meanwhile.

    `tell` runs on the thread of the step, before the step. Not to be nested.
    """
    with tracing(lambda step, who: tell(step.value, who), _STEPS):
        yield
