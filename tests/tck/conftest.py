"""What the tests of the conformance suite share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tck.samples import sample_report

if TYPE_CHECKING:
    from pyjms_tck.results import Report


@pytest.fixture
def report() -> Report:
    """A report with all that a report can have."""
    return sample_report()
