"""A served broker in this process, on a free port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyjms.spi.clock import Clock
from pyjms_provider.core.store import MessageStore
from pyjms_provider.model.managed import State
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.served_broker import ServedBroker

# Cuts and kills make messages come again more often than operators allow by default, and their order is judged.
_COMES_AGAIN = {
    "queue_defaults": {"max_deliveries": 0},
    "subscription_defaults": {"max_deliveries": 0},
    "redelivery_back_off_ms": 0,
}


@contextmanager
def anonymous_broker(clock: Clock | None = None, **port: Any) -> Iterator[ServedBroker]:
    """Let in everybody, to a virtual host in memory."""
    with _broker({"type": "anonymous"}, port, clock=clock) as served:
        yield served


@contextmanager
def user_broker(
    users: Path,
    audit_file: Path | None = None,
    clock: Clock | None = None,
    port: dict[str, Any] | None = None,
    **settings: Any,
) -> Iterator[ServedBroker]:
    """Let in the users of a file, with `settings` of the authentication provider."""
    with _broker({"type": "user-file", "path": str(users), **settings}, port or {}, audit_file, clock) as served:
        yield served


@contextmanager
def stored_broker(
    store_url: str | None, clock: Clock | None = None, port: dict[str, Any] | None = None, **host: Any
) -> Iterator[ServedBroker]:
    """Let in everybody, to a virtual host with a store and these attributes."""
    with _broker({"type": "anonymous"}, port or {}, clock=clock, store_url=store_url, **host) as served:
        yield served


def make_queue(broker: ServedBroker, **attributes: Any) -> None:
    """Make a queue in its virtual host."""
    _host_of(broker).create_child("queue", attributes)


def connections_of(broker: ServedBroker) -> int:
    """Return how many clients its virtual host has."""
    return len(list(_host_of(broker).children("connection")))


def store_of(broker: ServedBroker) -> MessageStore:
    """Return the message store of its virtual host."""
    return _host_of(broker).embedded.virtual_host.store


def port_of(broker: ServedBroker) -> int:
    """Return where it listens."""
    return int(broker.addresses()[0].rpartition(":")[2])


def _host_of(broker: ServedBroker) -> VirtualHost:
    node = next(iter(broker.broker.children("virtual_host_node")))
    host = next(iter(node.children("virtual_host")))
    assert isinstance(host, VirtualHost)
    return host


@contextmanager
def _broker(
    provider: dict[str, Any],
    port: dict[str, Any],
    audit_file: Path | None = None,
    clock: Clock | None = None,
    **host: Any,
) -> Iterator[ServedBroker]:
    with ServedBroker.open(name="broker", audit_file=audit_file, clock=clock) as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "who", **provider})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        node.create_child("virtual_host", {"name": "broker", **_COMES_AGAIN, **host})
        chosen = {"authentication_providers": ["who"], "access_control": "access"}
        top.create_child(
            "port",
            {"name": "stomp", "type": "stomp", "host": "127.0.0.1", "transports": ["tcp"], "port": 0, **chosen, **port},
        )
        assert not served.objects_in(State.ERRORED), [each.snapshot.error for each in served.objects_in(State.ERRORED)]
        yield served
