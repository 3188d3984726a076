"""pytest plugin: a fixture for each kind of real broker, such as `artemis`; the whole session shares it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.brokers.sharing import shared_broker


def _share(kind: str, request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> dict[str, int]:
    # A process that started the broker waits for its end, which comes with the last process that uses it. In the teardown of a fixture
    # that would count as time of the last test that runs here, minutes when the others are still busy.
    held = ExitStack()
    request.config.add_cleanup(held.close)
    return held.enter_context(shared_broker(kind, _common_directory(factory) / kind))


def _common_directory(factory: pytest.TempPathFactory) -> Path:
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "brokers"


@pytest.fixture(scope="session")
def activemq(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The ports of a real ActiveMQ Classic."""
    return _share("activemq", request, tmp_path_factory)


@pytest.fixture(scope="session")
def activemq_amqp(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The port of a real ActiveMQ Classic that speaks AMQP."""
    return _share("activemq_amqp", request, tmp_path_factory)


@pytest.fixture(scope="session")
def artemis(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The port of a real ActiveMQ Artemis, which lets in everybody."""
    return _share("artemis", request, tmp_path_factory)


@pytest.fixture(scope="session")
def broker_j(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The port of a real Qpid Broker-J, whose user and password are ``guest``."""
    return _share("broker_j", request, tmp_path_factory)


@pytest.fixture(scope="session")
def rabbitmq(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The ports of a real RabbitMQ, whose user and password are ``guest``."""
    return _share("rabbitmq", request, tmp_path_factory)
