"""A virtual host that tells what becomes of its messages: it is made of parts that tell, and is like any other otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyjms.spi.envelope import AddressKind
from pyjms_provider.core.host.admission import AdmissionController
from pyjms_provider.core.host.message_mover import MessageMover
from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.message.message_state import MessageEvent
from pyjms_provider.core.message.trace_events import ACTING, Happening
from pyjms_provider.core.queue.capacity import QueueFullError
from pyjms_provider.core.queue.channel_state import ChannelState, Reliability
from pyjms_provider.core.store.paging import PagingMessageStore
from pyjms_provider.core.store.store import NotInMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import ConnectionId, Envelope
    from pyjms_provider.core.host.admission import SendPermit, SendTimeout
    from pyjms_provider.core.host.host_policy import HostPolicy
    from pyjms_provider.core.journal.storage_manager import StorageManager
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.message.trace_events import StoryBuffer
    from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession
    from pyjms_provider.core.queue.dead_letters import DeadEntry
    from pyjms_provider.core.queue.entry import Acknowledgements, EntryQueue, QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store.store import MessageStore, PersistenceManager
    from pyjms_provider.core.timed import HasTimes
    from pyjms_provider.core.topic.topic import Topic
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

# Channels that tell what becomes of their messages. They behave as the others do, and are made where stories are wanted.
# Each method does what it does anyway, and tells of it under the lock that its channel holds already.


def ids_of(store: MessageStore, reference: MessageReference) -> tuple[str | None, str | bytes | None]:
    """Return the message's ids, if it is in memory: nobody waits for a disk to tell a story."""
    try:
        envelope = store.retrieve(reference)
    except (NotInMemoryError, KeyError):
        return None, None
    return envelope.message_id, envelope.correlation_id


class EndsTracedState(ChannelState):
    """Tells of messages that leave without having been consumed. What is consumed costs nothing here."""

    __slots__ = ("_stories",)

    def __init__(
        self,
        store: MessageStore,
        stories: StoryBuffer,
        *,
        persistence: PersistenceManager | None = None,
        reliability: Reliability = Reliability.STRICT,
    ) -> None:
        super().__init__(store, persistence=persistence, reliability=reliability)
        self._stories = stories

    def remove(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None = None) -> None:
        happening = Happening.EXPIRED if event is MessageEvent.EXPIRE else cause
        super().remove(entry, event)
        if happening is not None:
            self._tell_end(entry, happening)

    def reinstate(self, entry: QueueEntry) -> None:
        super().reinstate(entry)
        self._stories.tell(Happening.REINSTATED, entry.reference.id, entry.queue.name)

    def clear_available(self) -> list[QueueEntry]:
        entries = super().clear_available()
        for entry in entries:
            self._tell_end(entry, Happening.CLOSED)
        return entries

    def _tell_end(self, entry: QueueEntry, happening: Happening) -> None:
        facts: tuple[object, ...] = ids_of(self._store, entry.reference)
        if happening is Happening.DELETED:
            facts = (*facts, ACTING.get() or None)
        self._stories.tell(happening, entry.reference.id, entry.queue.name, facts)


class TracedState(EndsTracedState):
    """Tells of every step of every message (JBoss Messaging Core §5, §6)."""

    __slots__ = ()

    def add(self, queue: EntryQueue, reference: MessageReference) -> QueueEntry:
        self._tell_beginning(Happening.ACCEPTED, queue, reference, None)
        return super().add(queue, reference)

    def make(self, queue: EntryQueue, reference: MessageReference) -> QueueEntry:
        self._tell_beginning(Happening.ACCEPTED, queue, reference, None)
        return super().make(queue, reference)

    def add_in_transaction(self, queue: EntryQueue, reference: MessageReference, unit: UnitOfWork) -> QueueEntry:
        self._tell_beginning(Happening.SENT, queue, reference, unit.unit_id)
        return super().add_in_transaction(queue, reference, unit)

    def commit(self, entry: QueueEntry) -> None:
        super().commit(entry)
        self._stories.tell(Happening.COMMITTED, entry.reference.id, entry.queue.name)

    def remove(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None = None) -> None:
        holder = entry.holder
        super().remove(entry, event, cause)
        if event is MessageEvent.FINAL_POSITIVE_ACKNOWLEDGEMENT:
            self._stories.tell(Happening.ACKNOWLEDGED, entry.reference.id, entry.queue.name, (holder,))
        elif event is MessageEvent.ROLLBACK:
            self._tell_end(entry, Happening.ROLLED_BACK)

    def deliver(self, entry: QueueEntry, session: ConsumerSession, consumer: Consumer | None = None) -> int:
        count = super().deliver(entry, session)
        # Names are looked up by who writes it down: that takes longer than all of this.
        self._stories.tell(Happening.DELIVERED, entry.reference.id, entry.queue.name, (count, session, consumer))
        return count

    def add_delivered(
        self, queue: EntryQueue, reference: MessageReference, session: ConsumerSession, consumer: Consumer
    ) -> QueueEntry:
        self._tell_beginning(Happening.ACCEPTED, queue, reference, None)
        entry = super().add_delivered(queue, reference, session, consumer)
        self._stories.tell(Happening.DELIVERED, reference.id, queue.name, (1, session, consumer))
        return entry

    def settle(self, entry: QueueEntry) -> None:
        holder = entry.holder
        super().settle(entry)
        self._stories.tell(Happening.ACKNOWLEDGED, entry.reference.id, entry.queue.name, (holder,))

    def record_acknowledgement(self, entry: QueueEntry, unit: UnitOfWork) -> None:
        super().record_acknowledgement(entry, unit)
        facts = (entry.holder, unit.unit_id)
        self._stories.tell(Happening.ACKNOWLEDGED_IN_TRANSACTION, entry.reference.id, entry.queue.name, facts)

    def drop_acknowledgement(self, entry: QueueEntry) -> None:
        unit = entry.transaction
        super().drop_acknowledgement(entry)
        facts = (entry.holder, None if unit is None else unit.unit_id)
        self._stories.tell(Happening.ACKNOWLEDGEMENT_ROLLED_BACK, entry.reference.id, entry.queue.name, facts)

    def cancel_one(self, entry: QueueEntry) -> None:
        holder = entry.holder
        super().cancel_one(entry)
        facts = (holder, entry.delivery_count)
        self._stories.tell(Happening.RETURNED, entry.reference.id, entry.queue.name, facts)

    def begin_push(self, entry: QueueEntry) -> Acknowledgements | None:
        begun = super().begin_push(entry)
        if begun is not None:
            facts = (entry.delivery_count, None, None)
            self._stories.tell(Happening.DELIVERED, entry.reference.id, entry.queue.name, facts)
        return begun

    def _tell_beginning(
        self, happening: Happening, queue: EntryQueue, reference: MessageReference, transaction: str | None
    ) -> None:
        stories = self._stories
        try:
            envelope: Envelope = self._store.retrieve(reference)
        except (NotInMemoryError, KeyError):
            return  # it is being brought back, which is no beginning
        facts = (
            envelope.message_id,
            envelope.correlation_id,
            reference.reliable,
            reference.reliable and queue.kept is not None,
            reference.expiration_ms,
            reference.origin,
            transaction,
            stories.chosen(envelope),
        )
        stories.tell(happening, reference.id, queue.name, facts)


class TracedPagingStore(PagingMessageStore):
    """Tells of messages that leave memory for the disk, and come back."""

    stories: StoryBuffer

    def _left(self, references: Sequence[MessageReference]) -> None:
        self._tell(Happening.PAGED_OUT, references)

    def _came_back(self, references: Sequence[MessageReference]) -> None:
        self._tell(Happening.PAGED_IN, references)

    def _tell(self, happening: Happening, references: Iterable[MessageReference]) -> None:
        for reference in references:
            self.stories.tell(happening, reference.id, "")


class _TracedMover(MessageMover):
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


class _TracedAdmission(AdmissionController):
    """Tells of messages that do not come in."""

    def __init__(self, clock: Clock, stories: StoryBuffer) -> None:
        super().__init__(clock)
        self._stories = stories

    def admit(
        self,
        channel: Queue | Topic,
        envelope: Envelope,
        patience: SendTimeout | None,
        transaction: UnitOfWork | None = None,
    ) -> SendPermit | None:
        ids = (envelope.message_id, envelope.correlation_id)
        try:
            admission = super().admit(channel, envelope, patience, transaction)
        except QueueFullError as error:
            self._stories.tell(Happening.REFUSED, 0, channel.name, (*ids, error.reason))
            raise
        if admission is None:
            self._stories.tell(Happening.DUPLICATE, 0, channel.name, ids)
        return admission


class TracedHost(VirtualHost):
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
        storage: StorageManager | None = None,
    ) -> None:
        """The arguments are those of `VirtualHost`."""
        super().__init__(name, store, clock, policy=policy, on_due=on_due, storage=storage)
        self._stories = stories
        self.mover = _TracedMover(self, stories)
        self.admission = _TracedAdmission(clock, stories)

    def route(
        self,
        envelope: Envelope,
        origin: ConnectionId | None,
        transaction: UnitOfWork | None,
        patience: SendTimeout | None = None,
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
        kind = TracedState if self._stories.everything else EndsTracedState
        persistence = None if self.storage is None else self.storage.journal
        return kind(self.store, self._stories, persistence=persistence, reliability=self.policy.reliability)
