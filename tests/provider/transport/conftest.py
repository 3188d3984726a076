from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms_provider.transport.service import EventLoop
from tests.provider.transport.world import Net, running


@pytest.fixture(params=[EventLoop.ASYNCIO, EventLoop.UVLOOP], ids=lambda loop: loop.value)
def net(request: pytest.FixtureRequest) -> Iterator[Net]:
    """A service, once on each kind of event loop."""
    with running(request.param) as net:
        yield net
