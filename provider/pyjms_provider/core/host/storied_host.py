"""A virtual host that tells what becomes of its messages: it is made of parts that tell, and is like any other otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.envelope import AddressKind
from pyjms_provider.core.host.doorkeeper import Doorkeeper
from pyjms_provider.core.host.message_mover import DeadLetterOffice
from pyjms_provider.core.host.storied_state import StoriedEndsState, StoriedState
from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.message.trace_events import ACTING, Happening
from pyjms_provider.core.queue.channel_state import ChannelState
from pyjms_provider.core.queue.limits import QueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import ConnectionId, Envelope
    from pyjms_provider.core.host.admission import Admission, Patience
    from pyjms_provider.core.host.host_policy import HostPolicy
    from pyjms_provider.core.journal.storage_manager import Keeper
    from pyjms_provider.core.message.trace_events import StoryBuffer
    from pyjms_provider.core.queue.dead_letters import DeadEntry
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store.store import MessageStore
    from pyjms_provider.core.timed import HasTimes
    from pyjms_provider.core.topic.topic import Topic
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

__all__ = ["StoriedHost"]


class _StoriedOffice(DeadLetterOffice):
    """Tells of messages that are set aside, moved, and sent back."""

    def __init__(self, host: VirtualHost, stories: StoryBuffer) -> None:
        super().__init__(host)
        self._stories = stories

    def _bury(self, dead: DeadEntry, envelope: Envelope, target: str) -> None:
        entry = dead.entry
        facts = (
            *(envelope.message_id, envelope.correlation_id),
            *(dead.reason, target, dead.delivery_count, dead.consumer),
        )
        # Also while the host is brought back: what may have ended the last broker is set aside before anything else.
        self._stories.tell_early(Happening.DEAD, entry.reference.id, entry.queue.name, facts)
        super()._bury(dead, envelope, target)

    def _tell_move(self, entry: QueueEntry, envelope: Envelope, target: str, cause: Happening) -> None:
        facts = (envelope.message_id, envelope.correlation_id, target, ACTING.get() or None)
        self._stories.tell(cause, entry.reference.id, entry.queue.name, facts)


class _StoriedDoorkeeper(Doorkeeper):
    """Tells of messages that do not come in."""

    def __init__(self, clock: Clock, stories: StoryBuffer) -> None:
        super().__init__(clock)
        self._stories = stories

    def admit(
        self,
        channel: Queue | Topic,
        envelope: Envelope,
        patience: Patience | None,
        transaction: UnitOfWork | None = None,
    ) -> Admission | None:
        ids = (envelope.message_id, envelope.correlation_id)
        try:
            admission = super().admit(channel, envelope, patience, transaction)
        except QueueFullError as error:
            self._stories.tell(Happening.REFUSED, 0, channel.name, (*ids, error.reason))
            raise
        if admission is None:
            self._stories.tell(Happening.DUPLICATE, 0, channel.name, ids)
        return admission


class StoriedHost(VirtualHost):
    """Tells `stories`."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        clock: Clock,
        stories: StoryBuffer,
        *,
        policy: HostPolicy | None = None,
        on_due: Callable[[HasTimes, int], None] | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """The arguments are those of `VirtualHost`."""
        super().__init__(name, store, clock, policy=policy, on_due=on_due, keeper=keeper)
        self._stories = stories
        self.office = _StoriedOffice(self, stories)
        self.doorkeeper = _StoriedDoorkeeper(clock, stories)

    def route(
        self,
        envelope: Envelope,
        origin: ConnectionId | None,
        transaction: UnitOfWork | None,
        patience: Patience | None = None,
    ) -> None:
        super().route(envelope, origin, transaction, patience)
        if self._stories.everything and envelope.destination.kind is AddressKind.TOPIC:
            self._look_after(envelope, origin)

    def _look_after(self, envelope: Envelope, origin: ConnectionId | None) -> None:
        """Tell of a message that a topic passed on to nobody."""
        topic = self._topics.get(envelope.destination.name)
        if topic is None:
            return  # a temporary one: whoever made it knows
        wanted = any(each.selector is None or each.selector.matches(envelope) for each in topic.subscriptions)
        if not wanted:
            ids = (envelope.message_id, envelope.correlation_id)
            self._stories.tell(Happening.UNWANTED, 0, topic.name, (*ids, origin))

    def _make_state(self) -> ChannelState:
        kind = StoriedState if self._stories.everything else StoriedEndsState
        persistence = None if self.keeper is None else self.keeper.journal
        return kind(self.store, self._stories, persistence=persistence, reliability=self.policy.reliability)
