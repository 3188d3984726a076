"""Fixtures of the tests for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.spi import ProviderUrl, find_provider
from tests.system.network.served import anonymous_broker, port_of


@pytest.fixture
def factory(jms_broker_url: str) -> ConnectionFactory:
    """A factory of connections to the test's broker."""
    return ConnectionFactory(jms_broker_url)


@pytest.fixture(params=["vm", "amqp"])
def near_and_far(request: pytest.FixtureRequest, factory: ConnectionFactory) -> Iterator[ConnectionFactory]:
    """Factories of connections to a broker in this process, and to one that is reached by the network."""
    if request.param == "vm":
        yield factory
        return
    with anonymous_broker(name="amqp", type="amqp") as served:
        yield ConnectionFactory(f"amqp://127.0.0.1:{port_of(served)}")


@pytest.fixture
def stop_broker(jms_broker_url: str) -> Callable[[], None]:
    """Stop the test's broker, as its owner may."""

    def stop() -> None:
        find_provider("vm").stop_broker(ProviderUrl.parse(jms_broker_url))

    return stop
