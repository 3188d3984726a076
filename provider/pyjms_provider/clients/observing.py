"""Snapshots of ``vm://`` connections, which also serve the clients of other protocols, for management. Any thread.

A view shows one moment; the next one may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_provider.clients.vm import VmConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerView:
    """One consumer of a queue or a subscription."""

    name: str
    """The consumer's name within its session."""
    source: str
    """``queue://orders``, or the subscription's name."""
    selector: str | None
    priority: int
    is_browser: bool
    """Whether it only browses, and takes no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """One session."""

    name: str
    """The session's name within its connection."""
    is_transacted: bool
    is_open: bool
    """Whether it has a transaction with work in it."""
    held: int
    """Messages that it received and has not settled."""
    consumers: tuple[ConsumerView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionView:
    """One connection."""

    client_id: str | None
    is_started: bool
    sessions: tuple[SessionView, ...]


def look_at(connection: VmConnection) -> ConnectionView:
    """Return a snapshot of a connection."""
    # Copied under the lock; the locks below are taken after it is released, one at a time.
    with connection._lock:  # noqa: SLF001 - the connection's own view, which would make its module too long
        sessions = list(connection._sessions)  # noqa: SLF001
    views: list[SessionView] = []
    for session in sessions:
        receiving = session._receiving  # noqa: SLF001
        with receiving._lock:  # noqa: SLF001
            targets, queues = list(receiving._targets), list(receiving._queues)  # noqa: SLF001
        consumers = [consumer for target in targets for consumer in target.consumers]
        unit = session._unit  # noqa: SLF001
        views.append(
            SessionView(
                name=receiving.receiver_id.rpartition("/")[2],
                is_transacted=session._transacted,  # noqa: SLF001
                is_open=unit is not None and not unit.is_empty,
                held=sum(queue.held_count(receiving) for queue in queues),
                consumers=tuple(
                    ConsumerView(
                        name=str(consumer.number),
                        source=consumer.queue.name,
                        selector=None if consumer.selector is None else consumer.selector.text,
                        priority=consumer.priority,
                        is_browser=not consumer.acquires,
                    )
                    for consumer in consumers
                ),
            )
        )
    return ConnectionView(
        client_id=connection.client_id,
        is_started=connection._started,  # noqa: SLF001
        sessions=tuple(views),
    )
