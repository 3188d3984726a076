from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider.protocols.stomp.server.bench import Bench, bench_on


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture(params=["memory", "sqlite"])
def bench_of_each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench() if request.param == "memory" else bench_on(tmp_path)
    yield bench
    bench.close()
