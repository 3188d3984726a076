"""Fixtures of the tests of the API's contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pyjms.api.real_objects import RealObjects


@pytest.fixture
def real_objects() -> Iterator[RealObjects]:
    """One real object of each type, over a broker that only this test uses."""
    made = RealObjects()
    yield made
    made.close()
