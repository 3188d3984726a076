"""The rows of messages. Of some the bodies are on the disk, and are read while the rows are written, a few at a time.

What an open transaction has sent is paged out as anything else, and may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyjms_provider.stores.errors import StoreError

if TYPE_CHECKING:
    from pyjms_provider.core.journal.journal import QueueNumber
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId

__all__ = ["PagedMessage", "PagedRows", "Row", "message_row"]

Row = tuple[Any, ...]

_BYTES: Final = 1_000_000
_MESSAGES: Final = 256
"""So much is read in one go: for small messages that is many, as each read costs a round trip."""
_LOST: Final = "a message that had left memory before its transaction was committed could not be read"


def message_row(reference: MessageReference, queue: QueueNumber | None, branch: int | None, body: bytes) -> Row:
    """Return the row of a message; `queue` None: it has entries, being in several."""
    return (
        reference.id,
        queue,
        branch,
        reference.priority,
        reference.expiration_ms,
        reference.deliver_at_ms,
        reference.reliable,
        0,
        body,
    )


class PagedMessage(NamedTuple):
    """A message that is added, and whose body was paged out; the rest as in `message_row`."""

    reference: MessageReference
    queue: QueueNumber | None
    branch: int | None


class PagedRows(Collection[Row]):
    """What is written like a collection of rows, of which few are in memory at a time. May be gone through several times."""

    def __init__(
        self,
        messages: Sequence[PagedMessage],
        read: Callable[[Sequence[ReferenceId]], dict[ReferenceId, bytes]],
    ) -> None:
        """`read` returns the bodies that are there."""
        self._messages = messages
        self._read = read

    @property
    def size(self) -> int:
        """About how many bytes the bodies have."""
        return sum([message.reference.size for message in self._messages])

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, row: object) -> bool:
        return any(row == each for each in self)

    def __iter__(self) -> Iterator[Row]:
        for portion in self.portions():
            yield from portion

    def portions(self) -> Iterator[Sequence[Row]]:
        """Yield the rows, as many as are read in one go. Raises `StoreError` if a body is lost whose message somebody holds."""
        portion: list[PagedMessage] = []
        size = 0
        for message in self._messages:
            portion.append(message)
            size += message.reference.size
            if size >= _BYTES or len(portion) == _MESSAGES:
                yield self._rows(portion)
                portion, size = [], 0
        yield self._rows(portion)

    def _rows(self, portion: Sequence[PagedMessage]) -> Sequence[Row]:
        try:
            bodies = self._read([message.reference.id for message in portion])
        except StoreError as error:  # of this work alone: what others write need not read
            raise StoreError(f"{_LOST}: {error.reason}") from error
        rows: list[Row] = []
        for reference, queue, branch in portion:
            body = bodies.get(reference.id)
            if body is not None:
                rows.append(message_row(reference, queue, branch, body))
            elif reference.holders:
                raise StoreError(f"{_LOST}: it is not on the disk any more; nothing was written")
            # else its queue has ended meanwhile
        return rows
