"""Registered clients over the network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_tck.spi.environment import Environment
from pyjms_tck.spi.session_suite import *  # noqa: F403  the contract's own tests


@pytest.fixture(scope="module", params=["memory", "store"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'broker.db'}"
    with ServedBroker.open(name="broker") as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        store = {"store_url": url} if request.param == "store" else {}
        node.create_child("virtual_host", {"name": "broker", **store})
        top.create_child(
            "port",
            {
                "name": "stomp",
                "type": "stomp",
                "host": "127.0.0.1",
                "transports": ["tcp"],
                "port": 0,
                "authentication_providers": ["anonymous"],
                "access_control": "access",
            },
        )
        yield f"stomp://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}"


@pytest.fixture
def environment(served: str) -> Iterator[Environment]:
    with Environment(served) as opened:
        yield opened
