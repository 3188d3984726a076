"""The brokers at which threads close what others use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pyjms_provider.broker import stop_broker
from pyjms_provider.serving.served_broker import ServedBroker
from tests.needs.declaring import needing
from tests.provider.postgresql import PostgresqlServer

_NAME = "closing"


@contextmanager
def _embedded(query: str) -> Iterator[str]:
    try:
        yield f"vm://{_NAME}?max_deliveries=0{query}"
    finally:
        stop_broker(_NAME)


@contextmanager
def _served(store_url: str, scheme: str) -> Iterator[str]:
    with ServedBroker.open(name=_NAME) as served:
        served.broker.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        served.broker.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node: Any = served.broker.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        node.create_child(
            "virtual_host",
            {
                "name": "broker",
                "store_url": store_url,
                "redelivery_back_off_ms": 0,
                "queue_defaults": {"max_deliveries": 0},
            },
        )
        port = {"name": "port", "type": scheme, "host": "127.0.0.1", "transports": ["tcp"], "port": 0}
        served.broker.create_child(
            "port", port | {"authentication_providers": ["anonymous"], "access_control": "access"}
        )
        yield f"{scheme}://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}"


@pytest.fixture(params=["memory", "sqlite", needing("postgresql"), "stomp", "amqp"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AbstractContextManager[str]]:
    """Return what runs an empty broker, and gives its URL; at the end nothing of it runs any more."""
    file = f"sqlite:///{tmp_path / 'closing.db'}"
    match request.param:
        case "memory":
            return lambda: _embedded("")
        case "sqlite":
            return lambda: _embedded(f"&store={quote(file, safe='')}")
        case "stomp" | "amqp":
            return lambda: _served(file, request.param)
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return lambda: _embedded(f"&store={quote(server.make_store(), safe='')}")
