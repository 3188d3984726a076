"""A storied broker for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider.stories.teller import Teller


@pytest.fixture
def teller(tmp_path: Path) -> Iterator[Teller]:
    teller = Teller(tmp_path)
    yield teller
    teller.stop()
