"""The brokers that the clients of others meet."""

from __future__ import annotations

import pytest


@pytest.fixture
def amqp_url(artemis: dict[str, int]) -> str:
    """Return where a broker listens."""
    return f"amqp://127.0.0.1:{artemis['amqp']}"
