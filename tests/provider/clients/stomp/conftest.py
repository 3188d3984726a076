"""Each test is a process of its own, as far as the memory of messages goes: fake brokers give the same ids again."""

from __future__ import annotations

import pytest

from pyjms_provider.clients.stomp.foreign.held_message import Redeliveries


@pytest.fixture(autouse=True)
def fresh_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.clients.stomp.foreign.connection.REDELIVERIES", Redeliveries())
