"""The reader groups of a virtual host: numbering, reading, acknowledging and releasing messages (`pyjms.spi.replay`).

A group belongs to the host, not to a connection: it is unchanged when its reader's connection is lost, and, with a store,
when the broker dies. Its reservations are written before they are returned, and its acknowledgements before messages are removed.

Locks: each group has a turn, a lock held by one thread while it writes, and a lock for its fields, held for a few
steps; the table's lock guards the table. Each is taken alone, or with the table's first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import AddressKind, ConnectionId
from pyjms.spi.errors import (
    DestinationError,
    DestinationInUseError,
    FencedError,
    GroupError,
    InDoubtError,
    ResourceError,
    SubscriptionInUseError,
)
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.replay import GroupRequest, OpenGroup, ReaderGroup, ReservedMessage
from pyjms.spi.selector import Selector, is_same_text, selector_or_none
from pyjms_provider.core.journal.in_doubt_writes import is_outcome_unknown
from pyjms_provider.core.journal.journal import (
    Changes,
    GroupNumber,
    GroupRecord,
    NewMessage,
    PipelineChanges,
    QueueNumber,
    Removal,
    Reservation,
    SubscriptionKey,
)
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.queue.search import keep_cursor
from pyjms_provider.core.store import NotInMemoryError, approximate_size
from pyjms_provider.core.topic import Subscription
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, Envelope
    from pyjms_provider.core.journal.storage_manager import RunsWork, StorageManager
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store import MessageStore

# One reader group: a dense sequence of messages that it holds, and how it takes and releases them.
# It holds messages as a prepared branch holds those it received: they are DELIVERED to a session of the group's own that no client closes,
# and recorded in a PREPARED unit of work, so that neither time nor a lost connection changes them.

PAGE_MESSAGES: Final = 1000
PAGE_BYTES: Final = 1 << 20
"""The maximal size of a page of `read`, which has at least one message."""


class GroupEntry(NamedTuple):
    """A message that a group holds."""

    entry: QueueEntry
    times: int
    """Its delivery count when it was reserved, this delivery included; also identifies the delivery to the group."""
    size: int
    """About how many bytes its body and properties take."""


class Group:
    """A reader group. Its fields are guarded by `lock`; only the thread that holds `turn` changes them, with no other lock held."""

    def __init__(
        self,
        record: GroupRecord,
        address: Address,
        key: SubscriptionKey | None,
        selector: Selector | None,
        queue: Queue,
    ) -> None:
        """`selector`: selects among the messages of `queue`, as a consumer's does."""
        self.record = record
        """The last written record; `low` is newer."""
        self.address = address
        self.key = key
        self.queue = queue
        self.low = record.low
        # The right to change the group, held while the change is written; `lock` guards the fields for a few steps.
        self.turn = Lock()
        self.lock = Lock()
        self.is_ended = False
        self.doubtful = 0
        """The number of an acknowledgement without an answer: the store may be ahead of `low`."""
        self.is_perhaps_released = False
        """Whether its release was not answered: only that can be tried again."""
        self._selector = selector
        # The selector's scan position outlives the consumers of single reservations.
        self._close_cursor = keep_cursor(queue, selector)
        self._held: list[GroupEntry | None] = []  # from low + 1 on; None: it could not be understood after a restart
        self._unanswered: list[GroupEntry] = []  # their write was not answered, so they are next
        self._holder = ConsumerSession(ReceiverId(f"reader group {record.name}"), is_delivering=True)
        self._unit = UnitOfWork(UnitId(f"reader group {record.name}"), self._holder)
        # PREPARED from the start: neither expiry nor a closing session ends such a unit (decision 0170).
        self._unit.restore_prepared()

    # Properties

    @property
    def high(self) -> int:
        """The highest reserved number."""
        return self.low + len(self._held)

    @property
    def is_gone(self) -> bool:
        """Whether the group has ended: it was released, or its queue was deleted."""
        return self.is_ended or self.queue.is_closed

    def report(self) -> ReaderGroup:
        """Return the group as clients and operators see it."""
        record, key = self.record, self.key
        with self.lock:
            low, high = self.low, self.high
        return ReaderGroup(
            name=record.name,
            address=self.address,
            subscription=None if key is None else key.name,
            client_id=None if key is None else key.client_id,
            selector=record.selector_text,
            generation=record.generation,
            low=low,
            high=high,
        )

    def check(self, opened: OpenGroup) -> None:
        """Raise `FencedError`, or `GroupError` for another generation, unless the caller is its current reader."""
        record = self.record
        # The generation before the fence: numbers of a group that was released mean other messages now.
        if self.is_gone or opened.group.generation != record.generation:
            raise GroupError(f"reader group {record.name!r} was released since it was opened; open it again")
        self.check_kept()
        if opened.fence != record.fence:
            raise FencedError(
                f"reader group {record.name!r} was opened by somebody else, who reads on; only one may have it open"
            )

    def check_kept(self) -> None:
        """Raise `InDoubtError` when the outcome of its release is unknown: its messages may be in its queue in the store."""
        if self.is_perhaps_released:
            raise InDoubtError(
                f"nobody answered when reader group {self.record.name!r} was released: release it again, and then open it anew"
            )

    # Reserving: the turn is held

    def is_enough(self, after: int, max_messages: int, max_bytes: int | None) -> int | None:
        """Return the highest number of a full answer, if enough messages are reserved, or None. Raises `GroupError`."""
        if not self.low <= after <= self.high:
            raise GroupError(
                f"reader group {self.record.name!r} cannot go on after number {after}: {self.low} are acknowledged, and "
                f"{self.high} reserved; the reader's own notes are of another group, or older than that"
            )
        start = after - self.low
        if max_bytes is not None:
            left = max_bytes
            # One message is a full answer in any case, however large it is.
            for number, held in enumerate(self._held[start : start + max_messages], after):
                left -= 0 if held is None else held.size
                if left < 0 and number > after:
                    return number
        return after + max_messages if self.high >= after + max_messages else None

    def bytes_after(self, after: int) -> int:
        """Return about how many bytes the messages reserved after that number take."""
        return sum(held.size for held in self._held[after - self.low :] if held is not None)

    def new_consumer(self, on_ready: Callable[[], None]) -> Consumer:
        """Return a consumer to be attached to the queue while the group reserves."""
        return Consumer(self.queue, ConsumerTarget(self._holder, on_ready), selector=self._selector)

    def pull(
        self, consumer: Consumer, room: int, room_bytes: int | None, *, one: bool, store: MessageStore
    ) -> list[GroupEntry]:
        """Take the next messages, up to `room` of them and so many bytes; `one`: the first may be larger.

        May wait for a disk. Raises `ResourceError`; then it has taken none.
        """
        queue, holder, unit = self.queue, self._holder, self._unit
        taken: list[tuple[QueueEntry, int]] = []
        pulled: list[GroupEntry] = []
        try:
            while len(pulled) < room and (delivery := queue.deliver_single_message(consumer)) is not None:
                entry: QueueEntry = delivery.tag  # type: ignore[assignment]  # a consumer that acquires
                taken.append((entry, delivery.count))
                size = _size_of(entry, store)
                if room_bytes is not None:
                    # It had to be pulled to be measured; no client has seen it, so its delivery does not count.
                    if size > room_bytes and not (one and not pulled):
                        queue.give_back([(entry, delivery.count)], holder, unseen=True)
                        break
                    room_bytes -= size
                if queue.settle_in(unit, [(entry, delivery.count)], holder):  # otherwise it has just expired
                    pulled.append(GroupEntry(entry, delivery.count, size))
        except Exception:
            # The disk failed: otherwise they would be the group's without a number.
            queue.give_back(taken, holder, unseen=True)
            raise
        return pulled

    def reservations(self, pulled: Sequence[GroupEntry]) -> list[Reservation]:
        """Return the reservations to be written if these are the next messages."""
        number, group = self.high, self.record.number
        return [
            Reservation(group, number + place, held.entry.reference, held.times) for place, held in enumerate(pulled, 1)
        ]

    def keep_transient(self, pulled: Sequence[GroupEntry], store: MessageStore) -> list[NewMessage]:
        """Return the messages among them that are not in the store: from now on they are durable, for the group.

        A message that several subscriptions share is copied, as it is to survive in this one alone. Waits for a disk.
        """
        kept = self.queue.journal
        if kept is None:
            return []
        added: list[NewMessage] = []
        for held in pulled:
            entry = held.entry
            if entry.reference.journaled:
                continue
            envelope = self._envelope(held, store)
            # The other subscriptions' reference must not say that the message is
            # journaled: it is not stored for them.
            if entry.reference.holders > 1:
                _have_own(entry, envelope, store)
            added.append(NewMessage(entry.reference, envelope, (kept.number,)))
        return added

    def give_back_unseen(self, pulled: Sequence[GroupEntry]) -> None:
        """Release messages that could not be reserved, as if they had not been taken."""
        self.queue.give_back([(held.entry, held.times) for held in pulled], self._holder, unseen=True)

    def take(self, pulled: Sequence[GroupEntry]) -> None:
        """Hold messages, after their reservation was written."""
        with self.lock:
            self._held.extend(pulled)
            self._unanswered = []

    @property
    def unanswered(self) -> list[GroupEntry]:
        """The next messages, if they were written without an answer. They must be written again before all others."""
        return self._unanswered

    def add_unanswered(self, pulled: list[GroupEntry]) -> None:
        """Hold messages whose reservation was written without an answer."""
        self._unanswered = pulled

    # Reading

    def page(self, after: int, upto: int) -> list[GroupEntry | None]:
        """Return the messages held after that number, at most a page. Raises `GroupError`."""
        name = self.record.name
        # Without the turn: readers continue while another thread writes a reservation.
        with self.lock:
            if upto > self.high:
                raise GroupError(f"reader group {name!r} has reserved {self.high} messages, so {upto} cannot be read")
            if after < self.low:
                raise GroupError(
                    f"message {after + 1} of reader group {name!r} was acknowledged: {self.low} are; it cannot be read again"
                )
            start = after - self.low
            found = self._held[start : min(upto - self.low, start + PAGE_MESSAGES)]
        left = PAGE_BYTES
        for place, held in enumerate(found):
            left -= 0 if held is None else held.size
            if left < 0 and place:
                return found[:place]
        return found

    def read(self, page: Sequence[GroupEntry | None], after: int, store: MessageStore) -> list[ReservedMessage]:
        """Return the messages of a page, as far as they fit into memory. Waits for a disk. Raises `GroupError`."""
        wanted = [held.entry.reference for held in page if held is not None]
        if not store.keeps_all_in_memory:
            store.relieve()
            store.load(wanted)
        messages: list[ReservedMessage] = []
        for number, held in enumerate(page, after + 1):
            if held is None:
                envelope = None
            elif messages:
                # A load only reads as much as memory takes at once.
                try:
                    envelope = store.retrieve(held.entry.reference)
                except (NotInMemoryError, KeyError):
                    break  # it begins the next page
            else:
                envelope = self._find(held, number)
            if envelope is None:
                if messages:
                    break
                raise self._unreadable(number)
            count = held.times if held is not None else 0
            messages.append(ReservedMessage(number=number, envelope=envelope, count=count, redelivered=count > 1))
        return messages

    def _find(self, held: GroupEntry, number: int) -> Envelope | None:
        envelope = self.queue.message_of(held.entry.reference)
        if envelope is None:
            # The message may have been acknowledged between the page and here,
            # which is another error than a damaged one.
            with self.lock:
                is_acknowledged = number <= self.low or self.is_gone
            if is_acknowledged:
                raise GroupError(f"message {number} of reader group {self.record.name!r} was acknowledged meanwhile")
        return envelope

    def _unreadable(self, number: int) -> ResourceError:
        return ResourceError(
            f"message {number} of reader group {self.record.name!r} could not be read and was set aside (PYJMS-STORE-1 in the "
            f"broker's log); acknowledge up to it to go on without it"
        )

    def _envelope(self, held: GroupEntry, store: MessageStore) -> Envelope:
        try:
            return store.retrieve(held.entry.reference)
        except NotInMemoryError:
            envelope = self.queue.message_of(held.entry.reference)
            if envelope is None:
                raise ResourceError("a message cannot be read, and was set aside; the broker's log tells") from None
            return envelope

    # Letting go: the turn is held

    def acknowledged(self, upto: int) -> list[GroupEntry]:
        """Return the messages held up to that number. Raises `GroupError` when it was never reserved."""
        if upto > self.high:
            raise GroupError(
                f"reader group {self.record.name!r} has reserved {self.high} messages, so {upto} cannot be acknowledged"
            )
        return [held for held in self._held[: max(0, upto - self.low)] if held is not None]

    def settle(self, upto: int, gone: Sequence[GroupEntry]) -> None:
        """Settle messages, after their acknowledgement was written."""
        with self.lock:
            del self._held[: upto - self.low]
            self.low = upto
        # Without the group's lock: the queue has its own, and its stores theirs.
        self.queue.settle_committed([(held.entry, held.times) for held in gone], self._holder)
        self.queue.wake_freed()

    def removals(self, gone: Sequence[GroupEntry]) -> list[Removal]:
        """Return the removals to be written for these messages."""
        kept = self.queue.journal
        if kept is None:
            return []
        return [Removal(kept.number, held.entry.reference) for held in gone if held.entry.reference.journaled]

    def counts(self) -> list[tuple[QueueNumber, MessageReference, int]]:
        """Return the delivery counts of the messages that it holds."""
        kept = self.queue.journal
        # Also those of unknown outcome: the store may have them as the group's.
        held = [each for each in (*self._held, *self._unanswered) if each is not None]
        if kept is None:
            return []
        return [(kept.number, each.entry.reference, each.times) for each in held if each.entry.reference.journaled]

    def end(self) -> int:
        """Release its messages, marked redelivered; return how many there were."""
        with self.lock:
            # Before any message is released: a concurrent reader gets the error that the group was released.
            self.is_ended = True
            held, self._held, self._unanswered = [*self._held, *self._unanswered], [], []
        self.queue.give_back_all(self._holder)
        self._close_cursor()
        return sum(each is not None for each in held)

    # Restoring from a journal

    def restore(self, number: int, entry: QueueEntry | None, count: int) -> None:
        """Hold a message of its queue again; None: it was quarantined. Called in the order of numbers."""
        # Numbers without a message were quarantined; they keep their places, as the reader counts by number.
        while self.high < number - 1:
            self._held.append(None)
        if entry is None:
            self._held.append(None)
            return
        self.queue.hold(entry, self._unit, self._holder)
        self._held.append(GroupEntry(entry, count, max(0, entry.reference.size - MESSAGE_OVERHEAD)))


def _size_of(entry: QueueEntry, store: MessageStore) -> int:
    """Return about how many bytes body and properties take. A message that is not in memory has been measured."""
    reference = entry.reference
    if not reference.size:
        try:
            size = approximate_size(store.retrieve(reference))
        except NotInMemoryError:
            store.load([reference])  # this sets the size of each message that it reads
            size = reference.size
        return max(0, size - MESSAGE_OVERHEAD)
    return max(0, reference.size - MESSAGE_OVERHEAD)


def _have_own(entry: QueueEntry, envelope: Envelope, store: MessageStore) -> None:
    """Give an entry a message of its own instead of one that it shares."""
    shared = entry.reference
    own = store.store(envelope, shared.origin)
    own.deliver_at_ms, own.size = shared.deliver_at_ms, shared.size
    entry.reference = own
    store.publish(own)
    store.release(shared)


_log = logging.getLogger(__name__)

NAME_MAX: Final = 200
_WAIT_MAX_MS: Final = 1000
_IN_MEMORY: Final = QueueNumber(0)


class SubscriptionTable(Protocol):
    """The part of the subscription table that reader groups use."""

    def durable(self) -> dict[SubscriptionKey, Subscription]:
        """Return the durable subscriptions, with a subscriber or without."""
        ...

    def subscribe(
        self, request: SubscribeRequest, subscriber: ConnectionId, client_id: str | None, user: object
    ) -> Subscription:
        """Return the subscription, which is in use by `user` from now on."""
        ...

    def end(self, subscription: Subscription, user: object) -> None:
        """End the use of a subscription by `user`."""
        ...


class PipelineHost(Protocol):
    """The part of the virtual host that reader groups and staged units use."""

    store: MessageStore
    clock: Clock
    storage: StorageManager | None

    @property
    def work(self) -> RunsWork:
        """Runs a function that may write; the end of the host waits for it."""
        ...

    @property
    def subscriptions(self) -> SubscriptionTable:
        """The host's subscriptions."""
        ...

    def queue(self, name: str) -> Queue:
        """Return the queue of that name, made now if there is none."""
        ...


class GroupTable:
    """All groups of one host. Safe to use from any thread."""

    def __init__(self, host: PipelineHost) -> None:
        self._host = host
        self._lock = Lock()
        # Groups are opened one at a time, so that two readers do not make a group of one name twice.
        self._opening = Lock()
        self._groups: dict[str, Group] = {}
        self._numbers = count(1)

    # Opening

    def open(self, request: GroupRequest, client_id: str | None) -> OpenGroup:
        """Open a group, as `ReaderGroups.open` says, for a connection with this client id. Waits for the journal."""
        if not 1 <= len(request.name) <= NAME_MAX:
            raise GroupError(f"the name of a reader group has 1 to {NAME_MAX} characters")
        # Compiled here, so that an invalid selector is refused before anything is made.
        selector = selector_or_none(request.selector)
        request = replace(request, selector=None if selector is None else selector.text)
        with self._opening:
            return self._host.work(partial(self._open, request, selector, client_id))

    def _open(self, request: GroupRequest, selector: Selector | None, client_id: str | None) -> OpenGroup:
        group = self._find_or_none(request.name)
        if group is None:
            return self._make(request, selector, client_id)
        _check_same(group, request, client_id)
        with group.turn:
            # It may have been released while this thread waited for the turn.
            if group.is_gone:
                raise _unknown(request.name)
            group.check_kept()
            self._acknowledge(group, group.doubtful)  # otherwise an older low mark could be written over a newer one
            # Another fence with each opening: the previous reader of the group is refused from now on.
            record = replace(group.record, fence=group.record.fence + 1, low=group.low, opened_ms=self._now_ms())
            try:
                self._write_all(Changes(pipelines=PipelineChanges(groups=[record])), force=True)
            except Exception as error:
                if is_outcome_unknown(error):
                    group.record = record  # no reader has the new fence, and the old one may no longer be valid
                raise
            group.record = record
        return OpenGroup(group=group.report(), fence=record.fence)

    def _make(self, request: GroupRequest, selector: Selector | None, client_id: str | None) -> OpenGroup:
        key = None
        if request.address.kind is AddressKind.QUEUE:
            queue: Queue = self._queue(request)
        else:
            key = _key_of(request, client_id)
            queue = self._subscription(request, key, selector)
            selector = None  # the subscription applies it
        number = GroupNumber(next(self._numbers))
        kept = queue.journal
        record = GroupRecord(
            number=number,
            name=request.name,
            queue=_IN_MEMORY if kept is None else kept.number,
            selector_text=request.selector,
            generation=f"{self._host.store.store_id}-{number}",
            low=0,
            fence=1,
            opened_ms=self._now_ms(),
        )
        changes = Changes(pipelines=PipelineChanges(groups=[record]))
        if kept is not None:
            kept.add_definition(changes)
        try:
            self._write_all(changes, force=True)
        # Any error: a subscription that was made for the group would stay in use by a group that does not exist.
        except Exception:
            self._let_go(queue)
            raise
        if kept is not None:
            kept.was_defined()
        group = Group(record, request.address, key, selector, queue)
        # In the table only after it is written: a group that the store refuses never existed.
        with self._lock:
            self._groups[request.name] = group
        return OpenGroup(group=group.report(), fence=1)

    def _queue(self, request: GroupRequest) -> Queue:
        if request.subscription is not None:
            raise DestinationError(f"{request.address} is a queue, and has no subscriptions")
        if request.address.temporary:
            raise DestinationError(
                f"{request.address} is temporary, and goes with its connection; a reader group stays"
            )
        queue = self._host.queue(request.address.name)
        if queue.policy.non_destructive:
            raise GroupError(
                f"messages of {request.address} are only looked at (non_destructive), so nobody can hold them"
            )
        return queue

    def _subscription(self, request: GroupRequest, key: SubscriptionKey, selector: Selector | None) -> Subscription:
        known = self._host.subscriptions.durable().get(key)
        if known is not None:
            terms = known.terms
            if known.is_active:
                raise SubscriptionInUseError(
                    f"durable subscription {key.name!r} has a subscriber; close that one first"
                )
            if terms.topic != request.address or not is_same_text(terms.selector_text, request.selector):
                raise GroupError(
                    f"durable subscription {key.name!r} of client {key.client_id!r} reads {terms.topic}, selector "
                    f"{terms.selector_text!r}; ask for the same, or delete it first"
                )
            no_local, is_shared = terms.no_local, terms.is_shared
        else:
            no_local = is_shared = False
        wanted = SubscribeRequest(
            address=request.address,
            selector=selector,
            no_local=no_local,
            durable_name=key.name,
            is_shared=is_shared,
        )
        return self._host.subscriptions.subscribe(wanted, _holder_of(request.name), key.client_id, self)

    def _let_go(self, queue: Queue) -> None:
        if isinstance(queue, Subscription):
            self._host.subscriptions.end(queue, self)

    # Reserving

    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        """Reserve messages, as `ReaderGroups.reserve` says."""
        if max_messages < 1 or (max_bytes is not None and max_bytes < 1):
            raise GroupError("a reader group reserves one message, and one byte, at least")
        group = self._find(opened.group.name)
        clock = self._host.clock
        until_ms = clock.monotonic_ms() + min(wait_ms, _WAIT_MAX_MS)
        signal = Signal()
        consumer: Consumer | None = None
        try:
            while True:
                with group.turn:
                    group.check(opened)
                    enough = group.is_enough(after, max_messages, max_bytes)
                    if enough is not None:
                        return enough
                    if consumer is None:
                        # Attached only while the group reserves: between
                        # reservations it must not block an exclusive queue.
                        consumer = group.new_consumer(signal.set)
                        group.queue.add_consumer(consumer)
                    self._host.work(partial(self._reserve_more, group, consumer, after, max_messages, max_bytes))
                    if group.high > after or clock.monotonic_ms() >= until_ms:
                        return group.high
                # Outside of the turn, so that others may acknowledge and release while this reader waits.
                group.queue.set_notify_work_desired(consumer, True)
                clock.wait(signal, until_ms)
                group.queue.set_notify_work_desired(consumer, False)
        finally:
            if consumer is not None:
                group.queue.remove_consumer(consumer)

    def _reserve_more(
        self, group: Group, consumer: Consumer, after: int, max_messages: int, max_bytes: int | None
    ) -> None:
        """Reserve the messages that are there now. The turn is held."""
        store = self._host.store
        # First: their numbers are the next ones, and may be in the store already.
        if group.unanswered:
            self._keep(group, group.unanswered)
        # Computed after that, as the unanswered messages take their part of it.
        room = after + max_messages - group.high
        if room <= 0:
            return
        room_bytes = None if max_bytes is None else max_bytes - group.bytes_after(after)
        pulled = group.pull(consumer, room, room_bytes, one=group.high == after, store=store)
        if pulled:
            self._keep(group, pulled)

    def _keep(self, group: Group, pulled: list[GroupEntry]) -> None:
        """Write that messages are the group's, and hold them; or release them. The turn is held."""
        storage = self._host.storage
        if storage is not None:
            try:
                added = group.keep_transient(pulled, self._host.store)
                reserved = group.reservations(pulled)
                changes = Changes(messages=added, pipelines=PipelineChanges(reserved=reserved))
                # Forced: the reader's own checkpoint remembers these numbers, also after a loss of power.
                storage.journal.write(changes, force=True)
            except Exception as error:
                if is_outcome_unknown(error):
                    group.add_unanswered(pulled)
                # Messages that were unanswered before stay so after a refusal: the first write may have been made all the same.
                elif pulled is not group.unanswered:
                    group.give_back_unseen(pulled)
                raise
            for message in added:
                message.reference.journaled = True
        group.take(pulled)

    # Reading

    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        """Read messages, as `ReaderGroups.read` says. Waits for a disk, or for the journal."""
        group = self._find(name)
        if group.record.generation != generation:
            raise GroupError(
                f"reader group {name!r} is a new one: the one with these numbers was released, or its queue deleted, or the "
                f"broker has another store"
            )
        if after >= upto:
            return ()
        storage = self._host.storage
        if storage is not None and not storage.journal.is_held:
            # Reading writes nothing, so another broker that holds the store would not be noticed (decision 0195).
            storage.journal.confirm()
        return group.read(group.page(after, upto), after, self._host.store)

    # Letting go

    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        """Acknowledge messages, as `ReaderGroups.acknowledge` says. Waits for the journal."""
        group = self._find(opened.group.name)
        with group.turn:
            group.check(opened)
            self._host.work(partial(self._acknowledge, group, upto))

    def _acknowledge(self, group: Group, upto: int) -> None:
        gone = group.acknowledged(upto)
        # A repetition, as after a lost answer: it has been done.
        if upto <= group.low:
            return
        storage = self._host.storage
        if storage is not None:
            pipelines = PipelineChanges(acknowledged=[(group.record.number, upto)])
            changes = Changes(removals=group.removals(gone), pipelines=pipelines)
            try:
                storage.journal.write(changes, force=storage.force_acknowledgements)
            except Exception as error:
                if is_outcome_unknown(error):
                    # The store may be ahead: the next opening or release
                    # acknowledges as far before it writes anything older.
                    group.doubtful = max(group.doubtful, upto)
                raise
        # After the write: an acknowledgement that is refused leaves the messages with the group.
        group.settle(upto, gone)

    def release(self, name: str) -> int:
        """Release a group, as `ReaderGroups.release` says. Waits for the journal."""
        group = self._find(name)
        with group.turn:
            if group.is_gone:
                raise _unknown(name)
            released = self._host.work(partial(self._release, group))
        _log.info(
            "PYJMS-BROKER-23 reader group %r was released; %d messages went back to %s", name, released, group.address
        )
        return released

    def _release(self, group: Group) -> int:
        # In this order: acknowledgements, unanswered reservations, the release.
        self._acknowledge(group, group.doubtful)  # otherwise acknowledged messages could reappear
        if group.unanswered:  # otherwise the store could have transient messages that the queue does not know
            self._keep(group, group.unanswered)
        changes = Changes(counts=group.counts(), pipelines=PipelineChanges(released=[group.record.number]))
        try:
            self._write_all(changes, force=True)
        except Exception as error:
            if is_outcome_unknown(error):
                # The store may have the messages in the queue again, so nothing but the release may be tried.
                group.is_perhaps_released = True
            raise
        return self._end(group)

    def _end(self, group: Group) -> int:
        """Release a group's messages; return how many there were. Of several concurrent calls only the first does so."""
        with self._lock:
            # Once only: a release and a queue's end may coincide here.
            if self._groups.get(group.record.name) is not group:
                return 0
            del self._groups[group.record.name]
        released = group.end()
        self._let_go(group.queue)
        return released

    # Queries

    def check_unread(self, queue: Queue) -> None:
        """Raise `DestinationInUseError` if a group reads a queue."""
        with self._lock:
            found = [name for name, group in self._groups.items() if group.queue is queue]
        if found:
            raise DestinationInUseError(f"{queue.name} is read by reader group {min(found)!r}: release that first")

    def groups(self) -> list[ReaderGroup]:
        """Return all groups, by name."""
        return [group.report() for group in self.all()]

    def all(self) -> list[Group]:
        """Return the `Group` objects, by name."""
        with self._lock:
            names = sorted(self._groups)
        return [group for name in names if (group := self._find_or_none(name)) is not None]

    def _find(self, name: str) -> Group:
        group = self._find_or_none(name)
        if group is None:
            raise _unknown(name)
        return group

    def _find_or_none(self, name: str) -> Group | None:
        group = self._groups.get(name)
        if group is None or not group.is_gone:
            return group
        self._end(group)  # its queue was deleted, and the journal removed the group with it
        return None

    # Restoring from a journal

    def restore(self, group: Group) -> None:
        """Restore a group of the journal; before any client uses it."""
        # Numbers are never given twice: the store may have rows of an older group.
        self._numbers = count(max(group.record.number + 1, next(self._numbers)))
        if isinstance(group.queue, Subscription):
            # The group is the subscription's one subscriber (JMS 1.1 §6.3), also over restarts.
            group.queue.users[self] = None
            group.queue.subscriber = _holder_of(group.record.name)
        self._groups[group.record.name] = group

    # Writing

    def _write_all(self, changes: Changes, *, force: bool) -> None:
        if self._host.storage is not None:
            self._host.storage.journal.write(changes, force=force)

    def _now_ms(self) -> int:
        return self._host.clock.time_ms()


def _unknown(name: str) -> GroupError:
    return GroupError(
        f"there is no reader group {name!r}: it was never opened, or was released, or its queue was deleted"
    )


def _key_of(request: GroupRequest, client_id: str | None) -> SubscriptionKey:
    if request.address.temporary:
        raise DestinationError(f"{request.address} is temporary, so it can have no durable subscription")
    if request.subscription is None:
        raise GroupError(f"{request.address} is a topic: name the durable subscription that the group reads")
    if client_id is None:
        raise GroupError(f"durable subscription {request.subscription!r} needs a connection with a client id")
    return SubscriptionKey(client_id, request.subscription)


def _check_same(group: Group, request: GroupRequest, client_id: str | None) -> None:
    key = group.key
    is_same = group.address == request.address and group.record.selector_text == request.selector
    if key is None:
        is_same = is_same and request.subscription is None
    else:
        is_same = is_same and (key.client_id, key.name) == (client_id, request.subscription)
    if not is_same:
        what = str(group.address) if key is None else f"{group.address}, subscription {key.name!r} of {key.client_id!r}"
        raise GroupError(
            f"reader group {request.name!r} reads {what}, selector {group.record.selector_text!r}; ask for the same, choose "
            f"another name, or release it first"
        )


def _holder_of(name: str) -> ConnectionId:
    return ConnectionId(f"reader group {name}")
