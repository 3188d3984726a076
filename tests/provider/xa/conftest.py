"""A site for each test, ended after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provider.clients.world import World
from tests.provider.xa.site import XaSite


@pytest.fixture
def site() -> Iterator[XaSite]:
    made = XaSite()
    yield made
    made.stop()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.stop()
