from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provider.protocols.stomp.server.bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()
