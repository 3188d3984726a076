"""A site for each test, ended after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provider.keeping.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.stop()
