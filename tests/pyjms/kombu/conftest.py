"""kombu's connections to a broker in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from kombu import Connection

import pyjms.kombu  # noqa: F401 - makes the transport known to kombu
from pyjms_provider.broker import stop_broker


@pytest.fixture
def host() -> Iterator[str]:
    """A fresh broker's name."""
    name = f"kombu-{uuid4().hex}"
    yield name
    stop_broker(name)


@pytest.fixture
def connect(host: str) -> Iterator[Callable[[], Connection]]:
    """Makes connections to it."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Connection(f"pyjms+vm://{host}"))


@pytest.fixture
def connection(connect: Callable[[], Connection]) -> Connection:
    """One of them."""
    return connect()
