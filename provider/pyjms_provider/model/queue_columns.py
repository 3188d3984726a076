"""One field of all queues of a virtual host at once, for lists of thousands: no object is made for any of them.

Each says the same as the object would say of itself (`queue.ManagedQueue`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.core.queue.measuring import most_deliveries
from pyjms_provider.core.queue.observing import counts_of
from pyjms_provider.model.attributes import plain
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.queue_attributes import POLICY_FIELDS

if TYPE_CHECKING:
    from pyjms_provider.core.channel.channel_state import Counts
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.model.virtual_host import VirtualHost

__all__ = ["KNOWN", "queue_columns"]

Column = Callable[["VirtualHost"], Mapping[str, Any]]


def _consumers(host: VirtualHost) -> Mapping[str, Any]:
    return {name: queue.consumer_count for name, queue in _running(host)}


def _chosen(field: str, host: VirtualHost) -> Mapping[str, Any]:
    """Return a field of the queues' policies; of a queue in error what it was given, where that says so."""
    source = host.queues
    in_error = {name: source.record(name).attributes.get(field) for name in source.names_in_error()}
    return {**in_error, **{name: plain(getattr(queue.policy, field)) for name, queue in _running(host)}}


def _state(host: VirtualHost) -> Mapping[str, Any]:
    state = State.ACTIVE if host.is_running else State.CLOSED
    in_error = dict.fromkeys(host.queues.names_in_error(), State.ERRORED.value)
    return {**dict.fromkeys(host.queues.names(), state.value), **in_error}


def _alerts(host: VirtualHost) -> Mapping[str, Any]:
    holding = host.watch.book.holding if host.is_running else {}
    return {name: len(holding.get(name, ())) for name, _ in _running(host)}


def _most_deliveries(host: VirtualHost) -> Mapping[str, Any]:
    return {name: most_deliveries(queue) for name, queue in _running(host)}


def _running(host: VirtualHost) -> list[tuple[str, Queue]]:
    return host.embedded.virtual_host.queues() if host.is_running else []


_COUNTED: Final[Mapping[str, Callable[[Counts], int]]] = {
    "waiting": lambda counts: counts.new - counts.delayed,
    "delayed": lambda counts: counts.delayed,
    "held": lambda counts: counts.held,
    "uncommitted": lambda counts: counts.uncommitted,
    "depth": lambda counts: counts.depth,
    "arrived": lambda counts: counts.accepted,
    "delivered": lambda counts: counts.delivered,
    "departed": lambda counts: counts.departed,
}
_COLUMNS: Final[Mapping[str, Column]] = {
    **{field: partial(_chosen, field) for field in POLICY_FIELDS},
    "state": _state,
    "consumers": _consumers,
    "alert_count": _alerts,
    "most_deliveries": _most_deliveries,
}
KNOWN: Final = frozenset({*_COUNTED, *_COLUMNS})
"""The fields that `queue_columns` knows."""


def queue_columns(host: VirtualHost, fields: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return those fields of all queues, by the name of the field and of the queue; each queue is counted once."""
    wanted = set(fields)
    found = {field: _COLUMNS[field](host) for field in wanted & _COLUMNS.keys()}
    counted = wanted & _COUNTED.keys()
    if counted:
        counts = [(name, counts_of(queue)) for name, queue in _running(host)]
        for field in counted:
            count = _COUNTED[field]
            found[field] = {name: count(each) for name, each in counts}
    return found
