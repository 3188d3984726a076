"""Fixtures of the tests for asyncio."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.spi import ProviderUrl, find_provider


@pytest.fixture
def factory(jms_broker_url: str) -> ConnectionFactory:
    """A factory of connections to the test's broker."""
    return ConnectionFactory(jms_broker_url)


@pytest.fixture
def stop_broker(jms_broker_url: str) -> Callable[[], None]:
    """Stop the test's broker, as its owner may."""

    def stop() -> None:
        find_provider("vm").stop_broker(ProviderUrl.parse(jms_broker_url))

    return stop
