"""Messages that a journal keeps, as many of them in memory as may be (Broker-J, flow to disk).

Beyond the allowed number of bytes the newest messages leave memory first, because they are wanted last. A PERSISTENT
message that the journal keeps is simply dropped there; one that it does not keep, as it is transient or its transaction is
open, is handed to the journal to be put aside, and given back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.envelope import ConnectionId, Envelope, content_size
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD, MessageReference, ReferenceId
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.store.store import MessageStore, NotInMemoryError

if TYPE_CHECKING:
    from pyjms_provider.core.journal.journal import Journal
    from pyjms_provider.core.message.trace_events import StoryBuffer

_PERSISTENT: Final = 2
_BATCH: Final = 256  # messages that are paged out in one go
_SHARE: Final = 8  # of memory: one part in so many is read in one go
_RELIEF: Final = 0.9  # of the limit: how far memory is freed once it is exceeded


def approximate_size(envelope: Envelope) -> int:
    """Return about how many bytes of memory a message takes."""
    own: int | None = None if type(envelope) is Envelope else getattr(envelope, "memory_bytes", None)
    if own is not None:  # it is not to be taken apart for this
        return MESSAGE_OVERHEAD + own
    return MESSAGE_OVERHEAD + content_size(envelope)


class PagingMessageStore(MessageStore):
    """The message store of a broker with a journal: reliable, and bounded in memory (§3.1)."""

    def __init__(
        self,
        store_id: str,
        journal: Journal,
        *,
        last_id: ReferenceId,
        memory_bytes: int,
        stories: StoryBuffer | None = None,
    ) -> None:
        """`last_id`: the highest id in use; `memory_bytes`: how much the messages in memory may take; `stories`: where paging is traced."""
        self._store_id = store_id
        self._journal = journal
        self._stories = stories
        self._memory_bytes = memory_bytes
        self._numbers = count(last_id + 1)
        self._lock = Lock()
        self._messages: dict[ReferenceId, Envelope] = {}
        self._pageable: OrderedDict[ReferenceId, MessageReference] = OrderedDict()
        """Those in memory that may leave it, the newest last."""
        self._paged: dict[ReferenceId, None] = {}
        self._leaving: dict[ReferenceId, MessageReference] = {}
        self._unwanted: set[ReferenceId] = set()
        """Messages of several queues that one of them wants out of memory, whatever the others read."""
        self._bytes = 0
        self._count = 0
        self._is_relieving = False
        """Whether a call of `relieve` is at work: one is enough."""

    @property
    def store_id(self) -> str:
        return self._store_id

    @property
    def is_reliable(self) -> bool:
        return True

    @property
    def is_transactional(self) -> bool:
        return True

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
            ReferenceId(next(self._numbers)),
            origin,
            envelope.expiration_ms,
            envelope.priority,
            envelope.delivery_mode == _PERSISTENT,
        )

    def keep(self, reference: MessageReference, envelope: Envelope) -> None:
        """Keep the message of a reference that `refer` made. If a journal has noted its size, that is believed."""
        size = reference.size
        if not size:
            size = reference.size = approximate_size(envelope)
        with self._lock:
            self._messages[reference.id] = envelope
            self._bytes += size
            self._count += 1

    def take_back(self, reference: MessageReference) -> None:
        with self._lock:
            if reference.id in self._messages or reference.id in self._paged:
                self._forget(reference)

    def adopt(self, reference: MessageReference, envelope: Envelope | None = None) -> None:
        """Know a message again that the journal keeps, or add a holder if it is known; without `envelope` it need not be in memory."""
        with self._lock:
            if reference.holders:
                reference.holders += 1
            else:
                reference.holders = 1
                self._count += 1
            if envelope is not None and reference.id not in self._messages:
                self._messages[reference.id] = envelope
                self._bytes += reference.size

    def adopt_run(self, messages: int) -> None:
        """Know so many messages again whose references are made when they are needed, each with one holder."""
        with self._lock:
            self._count += messages

    def publish(self, reference: MessageReference) -> None:
        with self._lock:
            if reference.id in self._messages:
                self._pageable[reference.id] = reference

    def drop_copy(self, reference: MessageReference) -> None:
        if reference.id in self._paged:
            with self._lock:
                self._drop_paged(reference)

    def retrieve(self, reference: MessageReference) -> Envelope:
        try:
            return self._messages[reference.id]
        except KeyError:
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
            envelope = self._journal.read([reference.id]).get(reference.id)
            if envelope is not None:
                reference.size = reference.size or approximate_size(envelope)
            return envelope

    def load(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        wanted = self._wanted(references)
        if not wanted:
            return ()
        found = self._journal.read(list(wanted))
        back: list[MessageReference] = []
        with self._lock:
            for reference_id, reference in reversed(wanted.items()):
                envelope = found.get(reference_id)
                if envelope is None or not reference.holders or reference_id in self._messages:
                    continue
                reference.size = reference.size or approximate_size(envelope)
                self._messages[reference_id] = envelope
                self._bytes += reference.size
                self._pageable[reference_id] = reference
                self._pageable.move_to_end(reference_id, last=False)  # wanted soon, so it leaves last
                back.append(reference)
            unreadable = [
                each
                for each in wanted.values()
                if each.holders and each.id not in found and each.id not in self._messages
            ]
        self._emit(Happening.PAGED_IN, back)
        return unreadable

    def _wanted(self, references: Sequence[MessageReference]) -> dict[ReferenceId, MessageReference]:
        """Return those that must be read: the first one, and as many others as do not crowd memory."""
        wanted: dict[ReferenceId, MessageReference] = {}
        room = self._memory_bytes // _SHARE
        for reference in references:
            if reference.holders and reference.id not in self._messages:
                room -= reference.size
                if wanted and room < 0:
                    break
                wanted[reference.id] = reference
        return wanted

    def leave(self, references: Sequence[MessageReference], *, are_coming: bool = False) -> None:
        left: list[MessageReference] = []
        with self._lock:
            for reference in references:
                if reference.holders > 1:
                    self._unwanted.add(reference.id)
                    if are_coming:
                        continue
                if self._send_away(reference):
                    left.append(reference)
        self._emit(Happening.PAGED_OUT, left)

    def _send_away(self, reference: MessageReference) -> bool:
        """Let a message leave memory now, and return True, or later if it is nowhere else. The lock is held."""
        if reference.id not in self._pageable:
            return False
        if not (reference.journaled or reference.id in self._paged):
            self._leaving[reference.id] = reference
            return False
        del self._pageable[reference.id], self._messages[reference.id]
        self._bytes -= reference.size
        return True

    @property
    def is_pressed(self) -> bool:
        return self._bytes > self._memory_bytes or bool(self._leaving)

    def relieve(self, *, of_all: bool = True) -> None:
        is_full = of_all and self._bytes > self._memory_bytes
        if not is_full and not self._leaving:
            return
        with self._lock:
            if self._is_relieving:
                return
            self._is_relieving = True
        try:
            while self._leaving:
                self._let_some_leave()
            if of_all and self._bytes > self._memory_bytes:
                while self._relieve_some():
                    pass
        finally:
            self._is_relieving = False

    def _let_some_leave(self) -> None:
        """Let some of those leave memory that are not wanted there."""
        leaving: list[tuple[MessageReference, Envelope]] = []
        with self._lock:
            while self._leaving and len(leaving) < _BATCH:
                reference_id, reference = self._leaving.popitem()
                if self._pageable.pop(reference_id, None) is not None:
                    leaving.append((reference, self._messages[reference_id]))
        try:
            self._page_out(leaving)
        except Exception:
            self._stay(leaving)
            with self._lock:
                self._leaving.update((reference.id, reference) for reference, _ in leaving)
            raise

    def _relieve_some(self) -> bool:
        """Let some of the newest messages leave memory; return whether there is more to do."""
        leaving: list[tuple[MessageReference, Envelope]] = []
        with self._lock:
            excess = self._bytes - int(self._memory_bytes * _RELIEF)
            while excess > 0 and self._pageable and len(leaving) < _BATCH:
                reference_id, reference = self._pageable.popitem()
                leaving.append((reference, self._messages[reference_id]))
                excess -= reference.size
        try:
            self._page_out(leaving)
        except Exception:
            self._stay(leaving)
            raise
        return excess > 0 and bool(leaving)

    def _page_out(self, leaving: Sequence[tuple[MessageReference, Envelope]]) -> None:
        """Drop messages that are no longer pageable from memory, and write those that are nowhere else."""
        transient = [
            (reference, envelope)
            for reference, envelope in leaving
            if not reference.journaled and reference.id not in self._paged
        ]
        if transient:
            self._journal.page_out(transient)
        gone: list[ReferenceId] = []
        with self._lock:
            for reference, _ in transient:
                if reference.holders and not reference.journaled:
                    self._paged[reference.id] = None
                else:  # nobody holds it any more, or its transaction was written meanwhile
                    gone.append(reference.id)
            for reference, _ in leaving:
                # Another queue of a topic may have published the message, or loaded it, while it was being written.
                self._pageable.pop(reference.id, None)
                if reference.id in self._messages:
                    del self._messages[reference.id]
                    self._bytes -= reference.size
        if gone:
            self._journal.drop_paged(gone)
        self._emit(Happening.PAGED_OUT, [reference for reference, _ in leaving])

    def _emit(self, happening: Happening, references: Sequence[MessageReference]) -> None:
        if self._stories is not None:
            for reference in references:
                self._stories.emit(happening, reference.id, "")

    def _stay(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        """Keep messages in memory that could not leave it."""
        with self._lock:
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
                if reference.id in self._unwanted:
                    self._send_away(reference)
                return
            self._forget(reference)

    def release_all(self, references: Iterable[MessageReference]) -> None:
        with self._lock:
            for reference in references:
                if reference.holders == 1:
                    self._forget(reference)
                    continue
                reference.holders -= 1
                if reference.id in self._unwanted:
                    self._send_away(reference)

    def remove(self, reference: MessageReference) -> None:
        with self._lock:
            if reference.holders:
                self._forget(reference)

    def _forget(self, reference: MessageReference) -> None:
        """Drop what is known of a message, also on the disk. The lock is held."""
        self._unwanted.discard(reference.id)
        self._pageable.pop(reference.id, None)
        if reference.id in self._paged:
            self._drop_paged(reference)
        if reference.id in self._messages:
            del self._messages[reference.id]
            self._bytes -= reference.size
        self._count -= 1
        reference.holders = 0

    def _drop_paged(self, reference: MessageReference) -> None:
        """Drop what was paged out. The lock is held. May be repeated."""
        self._journal.drop_paged([reference.id])
        self._paged.pop(reference.id, None)

    def __len__(self) -> int:
        return self._count
