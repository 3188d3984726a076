"""The contract tests of the SPI, over AMQP with the bundled broker, in memory and with a store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms.spi.capability import Capability
from pyjms_tck.spi.environment import Environment
from pyjms_tck.spi.suite import *  # noqa: F403  the contract's own tests
from tests.system.network.served import port_of, stored_broker


@pytest.fixture(scope="module", params=["memory", "store"])
def served_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = f"sqlite:///{tmp_path_factory.mktemp('store') / 'broker.db'}" if request.param == "store" else None
    with stored_broker(store, port={"type": "amqp", "name": "amqp"}) as served:
        yield f"amqp://127.0.0.1:{port_of(served)}"


@pytest.fixture
def provider_url(served_url: str) -> str:
    return served_url


def test_what_the_broker_can_do_over_amqp_is_declared(served_url: str) -> None:
    with Environment(served_url) as environment:
        lacking = Capability(0)
        for each in Capability:
            if each not in environment.connect().capabilities:
                lacking |= each
    assert lacking == (
        Capability.XA
        | Capability.REPLAY
        | Capability.STAGE
        | Capability.PERSISTENT_SESSIONS
        | Capability.EMBEDDED_BROKER
        | Capability.SHARED_TRANSACTIONS
        | Capability.REDELIVERY_LIMITS
    )
