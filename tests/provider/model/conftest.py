"""Fixtures of the tests of the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider.model.world import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    made.open()
    yield made
    made.close()
