"""pytest plugin: the fixtures `activemq` and `rabbitmq`, real brokers that the whole session shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.sharing import shared_broker


def _share(kind: str, factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    with shared_broker(kind, _common_directory(factory) / kind) as ports:
        yield ports


def _common_directory(factory: pytest.TempPathFactory) -> Path:
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "brokers"


@pytest.fixture(scope="session")
def activemq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of a real ActiveMQ Classic."""
    yield from _share("activemq", tmp_path_factory)


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of a real RabbitMQ, whose user and password are ``guest``."""
    yield from _share("rabbitmq", tmp_path_factory)
