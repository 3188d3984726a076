"""One reader group: a dense sequence of messages that it holds, and the ways in which it takes and lets go of them.

It holds messages as a prepared branch holds what it received: they are DELIVERED to a session of the group's own that no
client closes, and recorded in a unit of work that is PREPARED, so that neither time nor a lost connection changes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.spi.errors import FencedError, GroupError, InDoubtError, ResourceError
from pyjms.spi.replay import OpenGroup, ReaderGroup, ReservedMessage
from pyjms_provider.core.journal.journal import GroupRecord, NewMessage, QueueNumber, Removal, Reservation
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.queue.entry import ReceiverId
from pyjms_provider.core.queue.turn import WritingTurn
from pyjms_provider.core.store.paging import approximate_size
from pyjms_provider.core.store.store import NotInMemoryError
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.journal.journal import SubscriptionKey
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store.store import MessageStore

__all__ = ["PAGE_BYTES", "PAGE_MESSAGES", "Group", "Held"]

PAGE_MESSAGES: Final = 1000
PAGE_BYTES: Final = 1 << 20
"""How much `read` returns at most: one message in any case."""


class Held(NamedTuple):
    """A message that a group holds."""

    entry: QueueEntry
    times: int
    """How often it was handed out when it was reserved, that time included; also names the delivery to the group."""
    size: int
    """About how many bytes its body and properties take."""


class Group:
    """A reader group. Its fields are guarded by `lock`; only who has `turn` changes them, and no other lock is held meanwhile."""

    def __init__(
        self,
        record: GroupRecord,
        address: Address,
        key: SubscriptionKey | None,
        selector: Selector | None,
        queue: Queue,
    ) -> None:
        """`selector`: what the group chooses among the messages of `queue`, as a consumer does."""
        self.record = record
        """As it was written last; `low` is newer."""
        self.address = address
        self.key = key
        self.queue = queue
        self.low = record.low
        self.turn = WritingTurn()
        self.lock = Lock()
        self.is_ended = False
        self.doubtful = 0
        """Up to this number it was acknowledged, and nobody answered: the store may be ahead of `low`."""
        self.is_perhaps_released = False
        """Whether it was released, and nobody answered: only that can be tried again."""
        self._selector = selector
        self._let_go_of_cursor = queue.keep_cursor(selector)
        self._held: list[Held | None] = []  # from low + 1 on; None: it could not be understood after a restart
        self._unsure: list[Held] = []  # nobody answered when these were written, so they are next
        self._holder = ConsumerSession(ReceiverId(f"reader group {record.name}"), is_delivering=True)
        self._unit = UnitOfWork(UnitId(f"reader group {record.name}"), self._holder)
        self._unit.restore_prepared()

    # What it is

    @property
    def high(self) -> int:
        """The highest number that is reserved."""
        return self.low + len(self._held)

    @property
    def is_gone(self) -> bool:
        """Whether there is no such group any more: it was released, or its queue was deleted."""
        return self.is_ended or self.queue.is_closed

    def report(self) -> ReaderGroup:
        """Return what there is to say of it."""
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
        """Raise `FencedError`, or `GroupError` for another generation, unless it is in the hands of who asks."""
        record = self.record
        if self.is_gone or opened.group.generation != record.generation:
            raise GroupError(f"reader group {record.name!r} was released since it was opened; open it again")
        self.check_kept()
        if opened.fence != record.fence:
            raise FencedError(
                f"reader group {record.name!r} was opened by somebody else, who reads on; only one may have it open"
            )

    def check_kept(self) -> None:
        """Raise `InDoubtError` when nobody knows whether it was released: what it holds may be on its queue in the store."""
        if self.is_perhaps_released:
            raise InDoubtError(
                f"nobody answered when reader group {self.record.name!r} was released: release it again, and then open it anew"
            )

    # Reserving: who has the turn

    def is_enough(self, after: int, max_messages: int, max_bytes: int | None) -> int | None:
        """Return up to which number messages are reserved that make a full answer, or None. Raises `GroupError`."""
        if not self.low <= after <= self.high:
            raise GroupError(
                f"reader group {self.record.name!r} cannot go on after number {after}: {self.low} are acknowledged, and "
                f"{self.high} reserved; the reader's own notes are of another group, or older than that"
            )
        start = after - self.low
        if max_bytes is not None:
            left = max_bytes
            for number, held in enumerate(self._held[start : start + max_messages], after):
                left -= 0 if held is None else held.size
                if left < 0 and number > after:
                    return number
        return after + max_messages if self.high >= after + max_messages else None

    def bytes_after(self, after: int) -> int:
        """Return about how many bytes of messages are reserved after that number."""
        return sum(held.size for held in self._held[after - self.low :] if held is not None)

    def new_consumer(self, on_ready: Callable[[], None]) -> Consumer:
        """Return a consumer that is to be attached to the queue while the group reserves."""
        return Consumer(self.queue, ConsumerTarget(self._holder, on_ready), selector=self._selector)

    def pull(
        self, consumer: Consumer, room: int, room_bytes: int | None, *, one: bool, store: MessageStore
    ) -> list[Held]:
        """Take the next messages, up to `room` of them and so many bytes; `one`: the first may be larger.

        May wait for a disk. Raises `ResourceError`; then it has taken none.
        """
        queue, holder, unit = self.queue, self._holder, self._unit
        taken: list[tuple[QueueEntry, int]] = []
        pulled: list[Held] = []
        try:
            while len(pulled) < room and (delivery := queue.deliver_single_message(consumer)) is not None:
                entry: QueueEntry = delivery.tag  # type: ignore[assignment]  # a consumer that acquires
                taken.append((entry, delivery.count))
                size = _size_of(entry, store)
                if room_bytes is not None:
                    if size > room_bytes and not (one and not pulled):
                        queue.give_back([(entry, delivery.count)], holder, unseen=True)
                        break
                    room_bytes -= size
                if queue.settle_in(unit, [(entry, delivery.count)], holder):  # else it has expired at this moment
                    pulled.append(Held(entry, delivery.count, size))
        except Exception:
            # The disk failed: else they would be the group's without a number.
            queue.give_back(taken, holder, unseen=True)
            raise
        return pulled

    def reservations(self, pulled: Sequence[Held]) -> list[Reservation]:
        """Return what is to be written when they are the next ones."""
        number, group = self.high, self.record.number
        return [
            Reservation(group, number + place, held.entry.reference, held.times) for place, held in enumerate(pulled, 1)
        ]

    def keep_transient(self, pulled: Sequence[Held], store: MessageStore) -> list[NewMessage]:
        """Return the messages among them that the store does not have: from now on it keeps them for the group.

        One that several subscriptions share is copied, as it is to survive in this one alone. Waits for a disk.
        """
        kept = self.queue.kept
        if kept is None:
            return []
        added: list[NewMessage] = []
        for held in pulled:
            entry = held.entry
            if entry.reference.journaled:
                continue
            envelope = self._envelope(held, store)
            if entry.reference.holders > 1:
                _have_own(entry, envelope, store)
            added.append(NewMessage(entry.reference, envelope, (kept.number,)))
        return added

    def give_back_unseen(self, pulled: Sequence[Held]) -> None:
        """Return messages that could not be reserved, as if nobody had taken them."""
        self.queue.give_back([(held.entry, held.times) for held in pulled], self._holder, unseen=True)

    def take(self, pulled: Sequence[Held]) -> None:
        """Hold them, as that is written."""
        with self.lock:
            self._held.extend(pulled)
            self._unsure = []

    @property
    def unsure(self) -> list[Held]:
        """The next messages if they were written: nobody answered. They are to be written again before all others."""
        return self._unsure

    def note_unsure(self, pulled: list[Held]) -> None:
        """Hold messages of which nobody knows whether they were written."""
        self._unsure = pulled

    # Reading

    def page(self, after: int, upto: int) -> list[Held | None]:
        """Return what is held after that number, at most a page. Raises `GroupError`."""
        name = self.record.name
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

    def read(self, page: Sequence[Held | None], after: int, store: MessageStore) -> list[ReservedMessage]:
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

    def _find(self, held: Held, number: int) -> Envelope | None:
        envelope = self.queue.message_of(held.entry.reference)
        if envelope is None:
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

    def _envelope(self, held: Held, store: MessageStore) -> Envelope:
        try:
            return store.retrieve(held.entry.reference)
        except NotInMemoryError:
            envelope = self.queue.message_of(held.entry.reference)
            if envelope is None:
                raise ResourceError("a message cannot be read, and was set aside; the broker's log tells") from None
            return envelope

    # Letting go: who has the turn

    def acknowledged(self, upto: int) -> list[Held]:
        """Return what is held up to that number. Raises `GroupError` when it was never reserved."""
        if upto > self.high:
            raise GroupError(
                f"reader group {self.record.name!r} has reserved {self.high} messages, so {upto} cannot be acknowledged"
            )
        return [held for held in self._held[: max(0, upto - self.low)] if held is not None]

    def settle(self, upto: int, gone: Sequence[Held]) -> None:
        """Let go of them for good, as that is written."""
        with self.lock:
            del self._held[: upto - self.low]
            self.low = upto
        self.queue.settle_committed([(held.entry, held.times) for held in gone], self._holder)
        self.queue.wake_freed()

    def removals(self, gone: Sequence[Held]) -> list[Removal]:
        """Return what the journal is told of them."""
        kept = self.queue.kept
        if kept is None:
            return []
        return [Removal(kept.number, held.entry.reference) for held in gone if held.entry.reference.journaled]

    def counts(self) -> list[tuple[QueueNumber, MessageReference, int]]:
        """Return how often what it holds was handed out."""
        kept = self.queue.kept
        held = [each for each in (*self._held, *self._unsure) if each is not None]
        if kept is None:
            return []
        return [(kept.number, each.entry.reference, each.times) for each in held if each.entry.reference.journaled]

    def end(self) -> int:
        """Give back what it holds, marked redelivered; return how many messages that were."""
        with self.lock:
            self.is_ended = True
            held, self._held, self._unsure = [*self._held, *self._unsure], [], []
        self.queue.give_back_all(self._holder)
        self._let_go_of_cursor()
        return sum(each is not None for each in held)

    # What a journal has kept

    def restore(self, number: int, entry: QueueEntry | None, count: int) -> None:
        """Hold a message again, which is in its queue; None: it was set aside. They come by number."""
        while self.high < number - 1:
            self._held.append(None)
        if entry is None:
            self._held.append(None)
            return
        self.queue.hold(entry, self._unit, self._holder)
        self._held.append(Held(entry, count, max(0, entry.reference.size - MESSAGE_OVERHEAD)))


def _size_of(entry: QueueEntry, store: MessageStore) -> int:
    """Return about how many bytes body and properties take. What is not in memory has been measured."""
    reference = entry.reference
    if not reference.size:
        try:
            size = approximate_size(store.retrieve(reference))
        except NotInMemoryError:
            store.load([reference])  # it notes the size of what it reads
            size = reference.size
        return max(0, size - MESSAGE_OVERHEAD)
    return max(0, reference.size - MESSAGE_OVERHEAD)


def _have_own(entry: QueueEntry, envelope: Envelope, store: MessageStore) -> None:
    """Give an entry a message of its own in place of one that it shares."""
    shared = entry.reference
    own = store.store(envelope, shared.origin)
    own.deliver_at_ms, own.size = shared.deliver_at_ms, shared.size
    entry.reference = own
    store.publish(own)
    store.release(shared)
