"""Where a message is now: for those who ask for its story. Any thread; nothing is changed, and nothing is read from a disk.

A view is as it was at one moment; the next may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.store.store import NotInMemoryError

if TYPE_CHECKING:
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue

_STATES = (MessageState.NEW, MessageState.NOT_COMMITTED, MessageState.DELIVERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLocation:
    """One channel that has the message."""

    where: str
    state: MessageState
    delivery_count: int
    session: str | None
    """Who received it and has not settled it."""
    is_in_memory: bool
    deliver_at_ms: int
    """Milliseconds since 1970 UTC before which nobody gets it; 0: at once."""


def channel_named(host: VirtualHost, name: str) -> Queue | None:
    """Return the queue or durable subscription whose channel has that name."""
    scheme, _, rest = name.partition("://")
    return host.find_queue(rest) if scheme == "queue" else host.subscriptions.find(name)


def whereabouts(
    host: VirtualHost, message_ids: Iterable[str], numbers: Mapping[int, str], channels: Iterable[Queue]
) -> dict[str, list[MessageLocation]]:
    """Return where messages are, by their ids.

    A message is known by its number, of those in `numbers`, or by its id if it is in memory.
    """
    wanted = set(message_ids)
    found: dict[str, list[MessageLocation]] = {}
    for channel in channels:
        with channel.lock:
            entries = [entry for state in _STATES for entry in channel.state.entries(state)]
        for entry in entries:
            message_id, is_in_memory = _id_of(host, entry)
            message_id = message_id or numbers.get(entry.reference.id)
            if message_id in wanted and message_id is not None:
                found.setdefault(message_id, []).append(_view(channel, entry, is_in_memory=is_in_memory))
    return found


def _id_of(host: VirtualHost, entry: QueueEntry) -> tuple[str | None, bool]:
    try:
        return host.store.retrieve(entry.reference).message_id, True
    except (NotInMemoryError, KeyError):
        return None, False


def _view(channel: Queue, entry: QueueEntry, *, is_in_memory: bool) -> MessageLocation:
    holder = entry.holder
    return MessageLocation(
        where=channel.name,
        state=entry.state,
        delivery_count=entry.delivery_count,
        session=None if holder is None else holder.receiver_id,
        is_in_memory=is_in_memory,
        deliver_at_ms=entry.reference.deliver_at_ms,
    )
