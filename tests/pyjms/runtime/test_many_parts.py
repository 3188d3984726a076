"""Of many sessions and consumers each one ends as quickly as of few."""

from __future__ import annotations

import pytest

from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.consumer import JmsMessageConsumer
from pyjms.runtime.session import JmsSession


@pytest.mark.parametrize("part", [JmsSession, JmsMessageConsumer])
def test_each_closes_without_a_look_at_the_others(
    connection: JmsConnection, monkeypatch: pytest.MonkeyPatch, part: type
) -> None:
    looks: list[object] = []

    def is_equal(this: object, other: object) -> bool:
        looks.append(this)
        return this is other

    monkeypatch.setattr(part, "__eq__", is_equal)
    sessions = [connection.create_session() for _ in range(30)]
    queue = sessions[0].create_queue("orders")
    consumers = [sessions[0].create_consumer(queue) for _ in range(30)]
    for closing in (*consumers[:9:-1], *consumers[:9:-1], *sessions[:9:-1], *sessions[:9:-1]):
        closing.close()
    connection.close()
    assert not looks
