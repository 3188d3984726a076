"""Groups of tests reach pytest-xdist: what a group shares, a Spark or the trees of all sources, is made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def test_a_group_of_tests_has_one_worker(request: pytest.FixtureRequest) -> None:
    """The worker tells the others by the test's id; a pytest that keeps ids to itself spreads each group over all workers."""
    is_worker_of_groups = getattr(request.config.option, "loadgroup", False)
    assert not is_worker_of_groups or request.node.nodeid.endswith("@sources")
