"""The providers at which JMS 2.0 is judged: the broker in this process, in memory and on SQLite, and over STOMP and AMQP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import pytest

from pyjms import Connection, ConnectionFactory
from pyjms_provider.broker import stop_broker
from pyjms_provider.serving.served_broker import ServedBroker

Connect: TypeAlias = Callable[..., Connection]
"""Makes a started connection, of a client identifier if one is given; it is closed when the test ends."""

_numbers: Final = count(1)


@contextmanager
def _embedded(store: Path | None) -> Iterator[str]:
    name = f"jms2-{next(_numbers)}"
    options = "" if store is None else f"&store={quote(f'sqlite:///{store}', safe='')}&synchronous=off"
    try:
        yield f"vm://{name}?max_deliveries=0{options}"
    finally:
        stop_broker(name)


@contextmanager
def served(
    scheme: str, limits: Mapping[str, Any] = MappingProxyType({}), denied: Sequence[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """Yield the URL of a broker in memory; `limits` are those of its queues, and `denied` the rules for what no client may do."""
    with ServedBroker.open() as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [*denied, {"effect": "allow", "who": "*"}]})
        node: Any = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        node.create_child(
            "virtual_host",
            {"name": "broker", "redelivery_back_off_ms": 0, "queue_defaults": {"max_deliveries": 0, **limits}},
        )
        port = {"name": "port", "type": scheme, "host": "127.0.0.1", "transports": ["tcp"], "port": 0}
        top.create_child("port", port | {"authentication_providers": ["anonymous"], "access_control": "access"})
        yield f"{scheme}://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}"


@pytest.fixture(scope="module", params=["memory", "sqlite", "stomp", "amqp"])
def broker_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker for the tests of one module: each uses names of its own."""
    if request.param in ("memory", "sqlite"):
        store = tmp_path_factory.mktemp("jms2") / "broker.db" if request.param == "sqlite" else None
        with _embedded(store) as url:
            yield url
    else:
        with served(request.param) as url:
            yield url


@pytest.fixture
def factory(broker_url: str) -> ConnectionFactory:
    """A factory of connections to the broker."""
    return ConnectionFactory(broker_url)


@pytest.fixture
def connect(factory: ConnectionFactory) -> Iterator[Connect]:
    """Connections, as many as a test needs."""
    opened: list[Connection] = []

    def open_one(client_id: str | None = None) -> Connection:
        connection = factory.create_connection()
        opened.append(connection)
        if client_id is not None:
            connection.client_id = client_id
        connection.start()
        return connection

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def name() -> str:
    """A name for a destination, a subscription or a client that no other test uses."""
    return f"name-{next(_numbers)}"
