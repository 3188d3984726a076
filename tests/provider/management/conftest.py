"""Fixtures of the tests of management."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.provider.management.world import AuditTrail, Site


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.fixture
def ann(site: Site) -> Iterator[TestClient]:
    with site.client() as client:
        yield client


@pytest.fixture
def trail() -> Iterator[AuditTrail]:
    handler, logger = AuditTrail(), logging.getLogger("pyjms.audit")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)
