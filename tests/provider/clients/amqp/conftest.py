"""Each test is a process of its own, as far as the memory of messages goes: peers give the same ids again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms_provider.clients.network.delivery_counts import DeliveryCounts
from tests.provider.clients.amqp.peer import Peer


@pytest.fixture(autouse=True)
def fresh_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.clients.amqp.consumer.COUNTS", DeliveryCounts())


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer
