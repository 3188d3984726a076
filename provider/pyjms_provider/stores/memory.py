"""The message store in memory."""

from __future__ import annotations

from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, cast

from pyjms.spi.envelope import ConnectionId, Envelope
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.store import MessageStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PERSISTENT = 2


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
