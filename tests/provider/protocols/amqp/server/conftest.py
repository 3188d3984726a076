from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider.protocols.amqp.server.bench import Bench, bench_on


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A broker with a store, as distributed transactions and staged units need one."""
    bench = bench_on(tmp_path)
    yield bench
    bench.close()
