"""Shared subscriptions and delivery times over the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import AccessDeniedError
from pyjms.testing import VirtualClock
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_tck.spi.environment import Environment
from pyjms_tck.spi.sharing_suite import *  # noqa: F403  the contract's own tests


@pytest.fixture(scope="module", params=["memory", "store"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, VirtualClock]]:
    """A broker with the clock of its clients."""
    url, clock = f"sqlite:///{tmp_path_factory.mktemp('store') / 'broker.db'}", VirtualClock()
    with ServedBroker.open(name="broker", clock=clock) as served:
        store = {"store_url": url} if request.param == "store" else {}
        yield serve(served, [{"effect": "allow", "who": "*"}], store), clock


def serve(served: ServedBroker, rules: Sequence[Mapping[str, object]], store: dict[str, str]) -> str:
    """Have a broker serve clients of any name by these rules; return its URL."""
    top = served.broker
    top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
    top.create_child("access_control", {"name": "access", "rules": rules})
    node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
    node.create_child("virtual_host", {"name": "broker", **store})
    port = {"name": "stomp", "type": "stomp", "host": "127.0.0.1", "transports": ["tcp"], "port": 0}
    top.create_child("port", {**port, "authentication_providers": ["anonymous"], "access_control": "access"})
    return f"stomp://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}"


@pytest.fixture
def environment(served: tuple[str, VirtualClock]) -> Iterator[Environment]:
    url, clock = served
    with Environment(url) as opened:
        opened.clock = clock
        yield opened


def test_the_broker_declares_both(environment: Environment) -> None:
    wanted = Capability.SHARED_SUBSCRIPTIONS | Capability.DELIVERY_DELAY
    assert environment.connect().capabilities & wanted == wanted


def test_who_may_join_is_what_the_rules_say(tmp_path: Path) -> None:
    rules: list[Mapping[str, object]] = [
        {"effect": "deny", "who": "*", "operations": ["create"], "kind": "subscription", "name": ":private"},
        {"effect": "allow", "who": "*"},
    ]
    with ServedBroker.open(name="broker") as served, Environment(serve(served, rules, {})) as environment:
        session, topic = environment.session(), environment.topic()
        environment.receiver(session, topic, shared_name="public")
        for name in ({"shared_name": "private"}, {"durable_name": "private", "is_shared": True}):
            with pytest.raises(AccessDeniedError, match="private"):
                environment.receiver(session, topic, **name)
