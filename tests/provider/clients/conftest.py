"""A broker of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.provider.clients.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.stop()
