"""Who starts a broker that recovers for more than a second is told each second how far it is."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from uuid import uuid4

import pytest

from pyjms import ConnectionFactory
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms.testing import VirtualClock
from pyjms_provider.stores.sql import recovery

MESSAGES = 6


class FastClock(VirtualClock):
    """Each look at it takes half a second."""

    def monotonic_ms(self) -> float:
        self._now_ms += 500
        return super().monotonic_ms()


@pytest.mark.parametrize(("clock", "is_told"), [(VirtualClock(), False), (FastClock(), True)], ids=["quick", "slow"])
def test_a_start_tells_each_second_how_far_it_is(
    clock: VirtualClock,
    is_told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(recovery, "_RUN", 1)
    first, second = (f"vm://{uuid4()}?store=sqlite:///{tmp_path / 'store.db'}" for _ in range(2))
    with ConnectionFactory(first).create_connection() as connection, connection.create_session() as session:
        producer = session.create_producer(session.create_queue("many"))
        for _ in range(MESSAGES):
            producer.send(session.create_text_message())
    find_provider("vm").stop_broker(ProviderUrl.parse(first))
    with caplog.at_level(logging.WARNING, logger="pyjms_provider"):
        ConnectionFactory(second, clock=clock).create_connection().close()
    find_provider("vm").stop_broker(ProviderUrl.parse(second))
    told = [int(found[1]) for found in re.finditer(r"PYJMS-BROKER-2 .* is starting: (\d+) messages", caplog.text)]
    assert told == sorted(set(told))
    assert set(told) <= set(range(1, MESSAGES + 1))
    assert 1 < len(told) < MESSAGES if is_told else not told
