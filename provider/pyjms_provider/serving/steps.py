"""The steps of a message through a broker that serves a network, for `pyjms broker run --trace` (QCM-12 to 23).

Off, it costs nothing: `tracing_steps` puts a hook around each step while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum

from pyjms_provider.core.trace import Step, observed, tracing
from pyjms_provider.protocols.stomp.server.plain_consumers import PlainSubscription
from pyjms_provider.protocols.stomp.server.profile_consumers import ServedConsumer
from pyjms_provider.protocols.stomp.server.turns import Turns
from pyjms_provider.transport.connection import Connection

__all__ = ["NetworkStep", "tracing_steps"]


class NetworkStep(Enum):
    """The steps of a connection, in order; those of the core are `core.trace.Step`."""

    CONNECTION_TOLD = "the session tells its connection that a consumer wants to work"
    CONNECTION_SCHEDULED = "the connection schedules itself"
    CONNECTION_SERVICED = "the scheduler gives the connection its thread"
    SESSIONS_PULLED = "the connection goes over what wants to work"
    CONSUMER_PULLED = "the consumer tries to pull"
    BUFFERED = "bytes go to the I/O buffer"


_CORE = frozenset({Step.ARRIVED, Step.QUEUE_NOTIFIED, Step.CONSUMER_NOTIFIED, Step.TARGET_NOTIFIED})
_STEPS: tuple[tuple[NetworkStep, type, str], ...] = (
    (NetworkStep.CONNECTION_TOLD, Turns, "want"),
    (NetworkStep.CONNECTION_SCHEDULED, Connection, "wake"),
    (NetworkStep.CONNECTION_SERVICED, Connection, "turn"),
    (NetworkStep.SESSIONS_PULLED, Turns, "pull"),
    (NetworkStep.CONSUMER_PULLED, ServedConsumer, "pull"),
    (NetworkStep.CONSUMER_PULLED, PlainSubscription, "pull"),
    (NetworkStep.BUFFERED, Connection, "_send"),
)


@contextmanager
def tracing_steps(tell: Callable[[str, object], None]) -> Iterator[None]:
    """Tell `tell` of each step, and who takes it, until the block ends: of connections that begin meanwhile.

    `tell` is called on the thread that takes the step, before it is taken. Not to be nested.
    """

    def observe(step: Enum, who: object) -> None:
        if not isinstance(step, Step) or step in _CORE:
            tell(step.value, who)

    with ExitStack() as stack:
        stack.enter_context(tracing(observe))
        for step, owner, name in _STEPS:
            original = getattr(owner, name)
            setattr(owner, name, observed(original, step, observe))
            stack.callback(setattr, owner, name, original)
        yield
