"""What is observed below a virtual host, beside its queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.spi.envelope import ConnectionId
from pyjms_provider.model.children import ChildSource
from pyjms_provider.model.connection import ClientConnection
from pyjms_provider.model.dead_letter import DeadLetterOffice
from pyjms_provider.model.observed import MadeOnDemand, ObservedObject
from pyjms_provider.model.pipelines import ManagedStagedUnit, ReaderGroup, group_names, unit_names
from pyjms_provider.model.store import STORE, Store
from pyjms_provider.model.topic import DurableSubscription, ManagedTopic
from pyjms_provider.model.transaction import Transaction

if TYPE_CHECKING:
    from pyjms_provider.core.host.virtual_host import VirtualHost as RunningHost
    from pyjms_provider.model.virtual_host import VirtualHost

__all__ = ["host_sources"]


Names = Callable[["RunningHost"], Sequence[str]]
_KINDS: Final[Sequence[tuple[type[ObservedObject], Names]]] = (
    (Store, lambda _: [STORE]),
    (ManagedTopic, lambda running: running.topic_names()),
    (DurableSubscription, lambda running: list(map(str, running.subscriptions.durable()))),
    (Transaction, lambda running: [str(each.xid) for each in running.branches.reports()]),
    (ReaderGroup, group_names),
    (ManagedStagedUnit, unit_names),
)


def host_sources(host: VirtualHost) -> Mapping[str, ChildSource]:
    """Return, by category, where the children of a virtual host come from."""
    sources = [_source(host, kind, names) for kind, names in _KINDS]
    sources.append(_source(host, DeadLetterOffice, _offices))
    connections = MadeOnDemand(
        "connection", lambda: list(host.embedded.clients()) if host.is_running else [], partial(_connection, host)
    )
    return {each.category: each for each in (*sources, connections)}


def _source(host: VirtualHost, kind: type[ObservedObject], names: Names) -> MadeOnDemand:
    def names_now() -> Sequence[str]:
        return names(host.embedded.virtual_host) if host.is_running else []

    return MadeOnDemand(kind.category, names_now, lambda name: kind(host, name) if name in names_now() else None)


def _connection(host: VirtualHost, name: str) -> ClientConnection | None:
    found = host.embedded.clients().get(ConnectionId(name)) if host.is_running else None
    return None if found is None else ClientConnection(host, name, created_ms=found.since_ms)


def _offices(running: RunningHost) -> Sequence[str]:
    """Return the queues that other queues' dead letters, or expired messages, go to."""
    named: set[str | None] = set()
    for name in running.queue_names():
        queue = running.find_queue(name)
        if queue is not None:
            named |= {queue.policy.dead_letter, queue.policy.expiry_queue}
    for subscription in running.subscriptions.durable().values():
        named |= {subscription.policy.dead_letter, subscription.policy.expiry_queue}
    return [name for name in named if name is not None and running.find_queue(name) is not None]
