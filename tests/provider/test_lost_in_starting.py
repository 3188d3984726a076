"""A broker that loses its store before it serves is none that runs (decision 0195)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ProviderError
from pyjms_provider import broker as broker_module
from pyjms_provider.broker import find_broker, running_broker
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.stores.errors import LostStoreError
from pyjms_provider.stores.volatile import Medium, VolatileJournal

NAME = "lost in starting"


def test_a_broker_that_loses_its_store_while_it_recovers_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    medium = Medium()
    lost = LostStoreError("another broker has held the store")

    def open_store(*_: Any, on_lost: Callable[[ProviderError], None], **__: Any) -> VolatileJournal:
        journal = VolatileJournal(medium)
        real = journal.recover

        def recover(progress: Callable[[int], None]) -> Any:
            on_lost(lost)
            return real(progress)

        monkeypatch.setattr(journal, "recover", recover)
        return journal

    monkeypatch.setattr(broker_module, "open_store", open_store)
    settings = BrokerSettings(store=StoreSettings(url="sqlite:///never-opened.db"))
    with pytest.raises(LostStoreError, match="another broker"):
        find_broker(NAME, SystemClock(), settings)
    assert running_broker(NAME) is None
    assert medium.holder is None
