"""`connection.state`: where a connection is, for whoever asks."""

from __future__ import annotations

from pyjms import ConnectionFactory
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl


def test_a_connection_says_whether_it_is_there() -> None:
    factory = ConnectionFactory("vm://connection-state")
    connection, other = factory.create_connection(), factory.create_connection()
    assert connection.state == "connected"
    connection.close()
    assert connection.state == "closed"
    find_provider("vm").stop_broker(ProviderUrl.parse("vm://connection-state"))
    assert other.state == "lost"
    other.close()
    assert other.state == "closed"
