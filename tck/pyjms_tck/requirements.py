"""The marks of conformance tests: which requirements a test checks, and what it needs beyond their features.

Ids and features are checked when tests are collected, so that all mistakes are told at once.
"""

from __future__ import annotations

import pytest

__all__ = ["needs", "requirement"]


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as one that checks the requirements `ids` of the catalogue: it fails when one of them is broken."""
    return pytest.mark.requirement(*ids)


def needs(*features: str) -> pytest.MarkDecorator:
    """Mark a test that uses optional `features` (names of `pyjms.spi.Capability`) besides those of its requirements.

    It is not run where one is missing. Not needed for topics when the test uses the fixture `topic` or `make_topic`,
    nor for the fixture `restart_broker`. Fits `pytest.param(..., marks=needs("TOPICS"))`, too.
    """
    return pytest.mark.needs(*features)
