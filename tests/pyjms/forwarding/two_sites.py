"""pytest plugin: the fixtures `here` and `there`, clients of two brokers in this process, to forward from the one to the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms_provider.broker import stop_broker
from tests.pyjms.forwarding.sites import Client

__all__ = ["here", "there"]


@pytest.fixture
def here() -> Iterator[Client]:
    client = Client("vm://here")
    yield client
    client.close()
    stop_broker("here")


@pytest.fixture
def there() -> Iterator[Client]:
    client = Client("vm://there")
    yield client
    client.close()
    stop_broker("there")
