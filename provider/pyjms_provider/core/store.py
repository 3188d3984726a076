"""Message stores (JBoss Messaging Core §3): they turn messages into references, and references into messages.

`MessageStore` is the contract, and `MemoryMessageStore` that of a broker in memory. `PagingMessageStore` keeps messages within a limit of memory (Broker-J, flow to disk): beyond the limit the newest
messages leave memory first, because they are delivered last. A PERSISTENT message that is in the journal is simply dropped from memory; one that is not,
as it is transient or its transaction is open, is paged out: to the journal, or, in a broker without one, to a temporary file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, cast

from pyjms.spi.envelope import ConnectionId, Envelope, content_size
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD, MessageReference, ReferenceId
from pyjms_provider.core.message.trace_events import Happening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyjms_provider.core.message.trace_events import StoryBuffer


class NotAtOnceError(Exception):
    """The call would take a while. A caller that must not wait leaves it to one that may; the call has had no effect."""


class NotInMemoryError(NotAtOnceError):
    """The message is not in memory. A caller that holds a lock releases it, calls `MessageStore.load`, and tries again."""

    def __init__(self, reference: MessageReference) -> None:
        super().__init__(f"{reference!r} is not in memory")
        self.reference = reference


class PersistenceManager(Protocol):
    """Makes stores and channel states reliable (§4); the specification leaves all but this to the implementer."""

    @property
    def is_reliable(self) -> bool:
        """Whether its content survives the process."""


class MessageStore(ABC):
    """A repository of messages, shared by the channels of one virtual host (§3).

    A reference begins with one holder: the caller that stored the message. `acquire` adds holders, `release` takes one away,
    and the message is dropped with the last. All methods may be called from any thread; none calls back.
    """

    @property
    @abstractmethod
    def store_id(self) -> str:
        """The name of this store (§3.4)."""

    @property
    @abstractmethod
    def is_reliable(self) -> bool:
        """Whether messages survive the process: there is a reliable persistence manager (§3.1)."""

    @property
    @abstractmethod
    def is_transactional(self) -> bool:
        """Whether `store` takes part in transactions (§3.2)."""

    @abstractmethod
    def store(self, envelope: Envelope, origin: ConnectionId | None) -> MessageReference:
        """Store `envelope`, sent by connection `origin`, and return its reference with one holder."""

    @abstractmethod
    def refer(self, envelope: Envelope, origin: ConnectionId | None) -> MessageReference:
        """Return a reference to a message that is not stored until `keep`: `store` in two steps."""

    @abstractmethod
    def keep(self, reference: MessageReference, envelope: Envelope) -> None:
        """Store the message of a reference that `refer` made."""

    @abstractmethod
    def take_back(self, reference: MessageReference) -> None:
        """Drop a message that no queue has taken, if it was stored by `keep`."""

    @abstractmethod
    def retrieve(self, reference: MessageReference) -> Envelope:
        """Return the message. Never waits.

        Raises `KeyError` when it has no holders any more, `NotInMemoryError` when it must be loaded.
        """

    @property
    def keeps_all_in_memory(self) -> bool:
        """Whether no message ever leaves memory, so that none need be loaded."""
        return True

    def fetch(self, reference: MessageReference) -> Envelope | None:
        """Return the message, from the disk if it is not in memory, without loading it. May wait for a disk.

        None: it has no holders any more, or cannot be read. Raises `ResourceError`.
        """
        try:
            return self.retrieve(reference)
        except KeyError:
            return None

    def load(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        """Load messages that still have holders into memory; return those that cannot be read. Raises `ResourceError`.

        May wait for a disk, so it is called without a lock held.
        """
        return ()

    def publish(self, reference: MessageReference) -> None:  # noqa: B027 - a store that keeps all has nothing to do
        """Allow the message to leave memory, as its queues have it: even before its transaction commits."""

    def drop_copy(self, reference: MessageReference) -> None:  # noqa: B027 - as `publish`
        """Drop the paged-out copy of a message that is in the journal from now on. Never waits."""

    def leave(self, references: Sequence[MessageReference], *, are_coming: bool = False) -> None:  # noqa: B027 - as `publish`
        """Let messages leave memory although there is room: now if they are stored elsewhere, otherwise with the next `relieve`.

        Those that were not published are left alone. `are_coming`: other queues may have to read them before they take them, so
        messages with several holders leave when one of these releases them. Never waits.
        """

    @property
    def is_pressed(self) -> bool:
        """Whether `relieve` has something to do, so that it may wait."""
        return False

    def relieve(self, *, of_all: bool = True) -> None:  # noqa: B027
        """Page out messages if there are too many in memory. May wait for a disk, as `load`. Raises `ResourceError`.

        Not `of_all`: only those that `leave` has deferred.
        """

    @abstractmethod
    def acquire(self, reference: MessageReference, holders: int) -> None:
        """Add `holders` holders. The caller is a holder itself, so the message is still there."""

    @abstractmethod
    def release(self, reference: MessageReference) -> None:
        """Take one holder away; with the last one the message is dropped."""

    @abstractmethod
    def release_all(self, references: Iterable[MessageReference]) -> None:
        """Take one holder away from each, as `release` does."""

    @abstractmethod
    def remove(self, reference: MessageReference) -> None:
        """Drop the message, whatever its holders (§3.4). Repeating it changes nothing."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of messages."""


_PERSISTENT: Final = 2
_BATCH: Final = 256  # messages that are paged out at once
_SHARE: Final = 8  # one part in so many of memory may be loaded at once
_RELIEF: Final = 0.9  # of the limit: the target when memory is freed


def approximate_size(envelope: Envelope) -> int:
    """Return about how many bytes of memory a message takes."""
    # Read only from other classes: for the usual one the look-up would cost more than the answer.
    own: int | None = None if type(envelope) is Envelope else getattr(envelope, "memory_bytes", None)
    if own is not None:  # an envelope that need not be decoded for this
        return MESSAGE_OVERHEAD + own
    return MESSAGE_OVERHEAD + content_size(envelope)


class PagedMessages(Protocol):
    """Where messages wait that are not in memory: a journal, or a temporary file. As the methods of `Journal`."""

    def read(self, ids: Sequence[ReferenceId]) -> Mapping[ReferenceId, Envelope]:
        """Return messages; those that are not there are left out. Waits for a disk. Raises `ResourceError`."""

    def page_out(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        """Store messages that need not survive. Waits for a disk. Raises `ResourceError`."""

    def drop_paged(self, ids: Sequence[ReferenceId]) -> None:
        """Forget messages that were paged out. Does not wait, and takes no lock but its own. May be repeated."""


class PagingMessageStore(MessageStore):
    """A message store that is bounded in memory; with a journal it is reliable (§3.1)."""

    def __init__(
        self,
        store_id: str,
        pages: PagedMessages,
        *,
        last_id: ReferenceId,
        memory_bytes: int,
        stories: StoryBuffer | None = None,
        is_reliable: bool = True,
    ) -> None:
        """`pages`: where the others wait; `last_id`: the highest id in use; `memory_bytes`: the limit of the messages in memory.

        `stories`: where paging is traced; `is_reliable`: whether `pages` is a journal, and its messages survive the process.
        """
        self._store_id = store_id
        self._pages = pages
        self._is_reliable = is_reliable
        self._stories = stories
        self._memory_bytes = memory_bytes
        # Beyond all ids of the journal: ids are never used twice, which settles writes in doubt (decision 0197).
        self._numbers = count(last_id + 1)
        self._lock = Lock()
        self._messages: dict[ReferenceId, Envelope] = {}
        self._pageable: OrderedDict[ReferenceId, MessageReference] = OrderedDict()
        """The messages in memory that may leave it, the newest last."""
        self._paged: dict[ReferenceId, None] = {}
        self._deferred: dict[ReferenceId, MessageReference] = {}
        self._leave_on_release: set[ReferenceId] = set()
        """Messages of several queues that one of them has let leave memory; they stay until the others release them."""
        self._bytes = 0
        self._count = 0
        self._is_relieving = False
        """Whether a call of `relieve` is at work: one is enough."""

    @property
    def store_id(self) -> str:
        return self._store_id

    @property
    def is_reliable(self) -> bool:
        return self._is_reliable

    @property
    def is_transactional(self) -> bool:
        return self._is_reliable

    @property
    def bytes_in_memory(self) -> int:
        """About how many bytes the messages in memory take."""
        return self._bytes

    @property
    def count_in_memory(self) -> int:
        """How many messages are in memory."""
        return len(self._messages)

    def store(self, envelope: Envelope, origin: ConnectionId | None) -> MessageReference:
        reference = self.refer(envelope, origin)
        self.keep(reference, envelope)
        return reference

    def refer(self, envelope: Envelope, origin: ConnectionId | None) -> MessageReference:
        return MessageReference(
            # `next` of `count` is one step of the interpreter, so ids need no lock.
            ReferenceId(next(self._numbers)),
            origin,
            envelope.expiration_ms,
            envelope.priority,
            envelope.delivery_mode == _PERSISTENT,
        )

    def keep(self, reference: MessageReference, envelope: Envelope) -> None:
        """Store the message of a reference that `refer` made. A size that the journal has set is used."""
        size = reference.size
        if not size:
            size = reference.size = approximate_size(envelope)
        with self._lock:
            self._messages[reference.id] = envelope
            self._bytes += size
            self._count += 1

    def take_back(self, reference: MessageReference) -> None:
        with self._lock:
            # `keep` may not have been reached.
            if reference.id in self._messages or reference.id in self._paged:
                self._forget(reference)

    def adopt(self, reference: MessageReference, envelope: Envelope | None = None) -> None:
        """Add a message of the journal, or a holder if it is known; without `envelope` it need not be in memory."""
        with self._lock:
            # Messages of several queues are adopted once for each, and counted once.
            if reference.holders:
                reference.holders += 1
            else:
                reference.holders = 1
                self._count += 1
            if envelope is not None and reference.id not in self._messages:
                self._messages[reference.id] = envelope
                self._bytes += reference.size

    def adopt_run(self, messages: int) -> None:
        """Add a number of messages whose references are made when they are needed, each with one holder."""
        with self._lock:
            self._count += messages

    def publish(self, reference: MessageReference) -> None:
        with self._lock:
            # Only messages in memory can leave it; a consumer may have released the message already.
            if reference.id in self._messages:
                self._pageable[reference.id] = reference

    def drop_copy(self, reference: MessageReference) -> None:
        # Checked without the lock first: nearly no message was paged out before its commit, and this is called for each.
        if reference.id in self._paged:
            with self._lock:
                self._drop_paged(reference)

    def retrieve(self, reference: MessageReference) -> Envelope:
        try:
            # Without the lock: looking up a key is one step,
            # and this is done for each delivery, often under a queue's lock.
            return self._messages[reference.id]
        except KeyError:
            # With holders it is on the disk; without, it was dropped.
            if reference.holders:
                raise NotInMemoryError(reference) from None
            raise

    @property
    def keeps_all_in_memory(self) -> bool:
        return False

    def fetch(self, reference: MessageReference) -> Envelope | None:
        try:
            return super().fetch(reference)
        except NotInMemoryError:
            # Not loaded into memory: the caller needs it once.
            envelope = self._pages.read([reference.id]).get(reference.id)
            if envelope is not None:
                reference.size = reference.size or approximate_size(envelope)
            return envelope

    def load(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        wanted = self._wanted(references)
        if not wanted:
            return ()
        # Without the lock, as it waits for the disk; afterwards the holders of each message are checked again.
        found = self._pages.read(list(wanted))
        back: list[MessageReference] = []
        with self._lock:
            for reference_id, reference in reversed(wanted.items()):
                envelope = found.get(reference_id)
                # It may have been released, or loaded by another thread, while the disk was read.
                if envelope is None or not reference.holders or reference_id in self._messages:
                    continue
                reference.size = reference.size or approximate_size(envelope)
                self._messages[reference_id] = envelope
                self._bytes += reference.size
                self._pageable[reference_id] = reference
                self._pageable.move_to_end(reference_id, last=False)  # needed soon, so it leaves last
                back.append(reference)
            unreadable = [
                each
                for each in wanted.values()
                if each.holders and each.id not in found and each.id not in self._messages
            ]
        self._emit(Happening.PAGED_IN, back)
        return unreadable

    def _wanted(self, references: Sequence[MessageReference]) -> dict[ReferenceId, MessageReference]:
        """Return the messages to read: the first one, and as many others as do not crowd memory."""
        wanted: dict[ReferenceId, MessageReference] = {}
        room = self._memory_bytes // _SHARE
        for reference in references:
            if reference.holders and reference.id not in self._messages:
                # An eighth of memory at most (decision 0143):
                # reading ahead must not page out messages that are about to be delivered.
                room -= reference.size
                if wanted and room < 0:
                    break
                wanted[reference.id] = reference
        return wanted

    def leave(self, references: Sequence[MessageReference], *, are_coming: bool = False) -> None:
        left: list[MessageReference] = []
        with self._lock:
            for reference in references:
                # Another queue still has to deliver it; it leaves when that one releases it.
                if reference.holders > 1:
                    self._leave_on_release.add(reference.id)
                    if are_coming:
                        continue
                if self._drop_or_defer(reference):
                    left.append(reference)
        self._emit(Happening.PAGED_OUT, left)

    def _drop_or_defer(self, reference: MessageReference) -> bool:
        """Drop a message from memory now, and return True, or defer that if it is not stored elsewhere. The lock is held."""
        # Not published yet, or not in memory.
        if reference.id not in self._pageable:
            return False
        if not (reference.journaled or reference.id in self._paged):
            # It is not stored elsewhere. Writing it is left to `relieve`, as a queue's lock is held here.
            self._deferred[reference.id] = reference
            return False
        # It is in the journal, or was paged out before: nothing need be written.
        del self._pageable[reference.id], self._messages[reference.id]
        self._bytes -= reference.size
        return True

    @property
    def is_pressed(self) -> bool:
        return self._bytes > self._memory_bytes or bool(self._deferred)

    def relieve(self, *, of_all: bool = True) -> None:
        # Without the lock: this is called before each send, and a late answer admits one message more.
        is_full = of_all and self._bytes > self._memory_bytes
        if not is_full and not self._deferred:
            return
        with self._lock:
            if self._is_relieving:
                return
            # Without the lock from here on, as paging out writes; the flag keeps a second thread from doing the same work.
            self._is_relieving = True
        try:
            while self._deferred:
                self._page_out_deferred()
            if of_all and self._bytes > self._memory_bytes:
                while self._relieve_some():
                    pass
        finally:
            self._is_relieving = False

    def _page_out_deferred(self) -> None:
        """Page out some of the messages that `leave` has deferred."""
        leaving: list[tuple[MessageReference, Envelope]] = []
        with self._lock:
            while self._deferred and len(leaving) < _BATCH:
                reference_id, reference = self._deferred.popitem()
                if self._pageable.pop(reference_id, None) is not None:
                    # Removed from the table, so that no other thread pages out the same messages.
                    leaving.append((reference, self._messages[reference_id]))
        try:
            self._page_out(leaving)
        except Exception:
            self._keep_in_memory(leaving)
            with self._lock:
                self._deferred.update((reference.id, reference) for reference, _ in leaving)
            raise

    def _relieve_some(self) -> bool:
        """Page out some of the newest messages; return whether there is more to do."""
        leaving: list[tuple[MessageReference, Envelope]] = []
        with self._lock:
            excess = self._bytes - int(self._memory_bytes * _RELIEF)
            while excess > 0 and self._pageable and len(leaving) < _BATCH:
                # The newest first: they are delivered last (decision 0143).
                reference_id, reference = self._pageable.popitem()
                leaving.append((reference, self._messages[reference_id]))
                excess -= reference.size
        try:
            self._page_out(leaving)
        except Exception:
            # The disk refused them: they are in memory still, and can be tried again.
            self._keep_in_memory(leaving)
            raise
        return excess > 0 and bool(leaving)

    def _page_out(self, leaving: Sequence[tuple[MessageReference, Envelope]]) -> None:
        """Drop messages that are no longer pageable from memory, and write those that are not stored elsewhere."""
        transient = [
            (reference, envelope)
            for reference, envelope in leaving
            if not reference.journaled and reference.id not in self._paged
        ]
        # Not under the lock, as it waits for the disk; so the holders of each message are checked again.
        if transient:
            self._pages.page_out(transient)
        gone: list[ReferenceId] = []
        with self._lock:
            for reference, _ in transient:
                if reference.holders and not reference.journaled:
                    self._paged[reference.id] = None
                else:  # it has no holders any more, or its transaction was written meanwhile
                    gone.append(reference.id)
            for reference, _ in leaving:
                # Another queue of a topic may have published the message, or loaded it, while it was being written.
                self._pageable.pop(reference.id, None)
                if reference.id in self._messages:
                    del self._messages[reference.id]
                    self._bytes -= reference.size
        if gone:
            self._pages.drop_paged(gone)
        self._emit(Happening.PAGED_OUT, [reference for reference, _ in leaving])

    def _emit(self, happening: Happening, references: Sequence[MessageReference]) -> None:
        if self._stories is not None:
            for reference in references:
                self._stories.emit(happening, reference.id, "")

    def _keep_in_memory(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        """Keep messages in memory that could not leave it."""
        with self._lock:
            # In reverse, so that the newest one is last again.
            for reference, _ in reversed(messages):
                if reference.id in self._messages:
                    self._pageable[reference.id] = reference

    def acquire(self, reference: MessageReference, holders: int) -> None:
        with self._lock:
            reference.holders += holders

    def release(self, reference: MessageReference) -> None:
        with self._lock:
            if reference.holders != 1:
                reference.holders -= 1
                if reference.id in self._leave_on_release:
                    self._drop_or_defer(reference)
                return
            self._forget(reference)

    def release_all(self, references: Iterable[MessageReference]) -> None:
        with self._lock:
            for reference in references:
                if reference.holders == 1:
                    self._forget(reference)
                    continue
                reference.holders -= 1
                if reference.id in self._leave_on_release:
                    self._drop_or_defer(reference)

    def remove(self, reference: MessageReference) -> None:
        with self._lock:
            if reference.holders:
                self._forget(reference)

    def _forget(self, reference: MessageReference) -> None:
        """Drop a message, on the disk, too. The lock is held."""
        self._leave_on_release.discard(reference.id)
        self._pageable.pop(reference.id, None)
        if reference.id in self._paged:
            self._drop_paged(reference)
        if reference.id in self._messages:
            del self._messages[reference.id]
            self._bytes -= reference.size
        self._count -= 1
        reference.holders = 0

    def _drop_paged(self, reference: MessageReference) -> None:
        """Drop a paged-out copy. The lock is held. May be repeated."""
        # It is deferred, and does not wait, so this may be called with the lock held.
        self._pages.drop_paged([reference.id])
        self._paged.pop(reference.id, None)

    def __len__(self) -> int:
        return self._count


class MemoryMessageStore(MessageStore):
    """The store of a broker in memory, lost with its process: neither reliable nor transactional (§3.1, §3.2)."""

    def __init__(self, store_id: str) -> None:
        self._store_id = store_id
        self._messages: dict[ReferenceId, Envelope] = {}
        # `count.__next__` is one step in C, so threads need no lock for it.
        self._next_id: Callable[[], ReferenceId] = cast("Callable[[], ReferenceId]", count(1).__next__)
        self._lock = Lock()

    @property
    def store_id(self) -> str:
        return self._store_id

    @property
    def is_reliable(self) -> bool:
        return False

    @property
    def is_transactional(self) -> bool:
        return False

    def store(self, envelope: Envelope, origin: ConnectionId | None) -> MessageReference:
        # No lock: the counter and the dictionary are each changed in one step, and no other thread knows the id yet.
        reference_id = self._next_id()
        reference = MessageReference(
            reference_id, origin, envelope.expiration_ms, envelope.priority, envelope.delivery_mode == _PERSISTENT
        )
        self._messages[reference_id] = envelope
        return reference

    def refer(self, envelope: Envelope, origin: ConnectionId | None) -> MessageReference:
        return MessageReference(
            self._next_id(), origin, envelope.expiration_ms, envelope.priority, envelope.delivery_mode == _PERSISTENT
        )

    def keep(self, reference: MessageReference, envelope: Envelope) -> None:
        self._messages[reference.id] = envelope

    def take_back(self, reference: MessageReference) -> None:
        self._messages.pop(reference.id, None)

    def retrieve(self, reference: MessageReference) -> Envelope:
        return self._messages[reference.id]

    def acquire(self, reference: MessageReference, holders: int) -> None:
        with self._lock:
            reference.holders += holders

    def release(self, reference: MessageReference) -> None:
        # If there is one holder, it is the caller, and no other thread can change the number: no lock is needed.
        if reference.holders != 1:
            with self._lock:
                if reference.holders != 1:
                    reference.holders -= 1
                    return
        self._messages.pop(reference.id, None)

    def release_all(self, references: Iterable[MessageReference]) -> None:
        # `release` inline, to save a call for each message.
        for reference in references:
            if reference.holders != 1:
                with self._lock:
                    if reference.holders != 1:
                        reference.holders -= 1
                        continue
            self._messages.pop(reference.id, None)

    def remove(self, reference: MessageReference) -> None:
        self._messages.pop(reference.id, None)

    def __len__(self) -> int:
        return len(self._messages)
