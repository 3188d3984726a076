"""pytest plugin: the fixtures `here` and `there`, clients of two brokers in this process, to forward from the one to the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms_provider.broker import stop_broker
from tests.pyjms.forwarding.sites import Client

__all__ = ["here", "there"]


def _client_of(broker: str) -> Iterator[Client]:
    client = Client(f"vm://{broker}")
    yield client
    client.close()
    stop_broker(broker)


@pytest.fixture
def here() -> Iterator[Client]:
    yield from _client_of("here")


@pytest.fixture
def there() -> Iterator[Client]:
    yield from _client_of("there")
