"""The brokers at which one consumer takes over from another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider.ownership.site import KINDS, TRANSPORTS, Site, opened


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Why one consumer gets all."""
    return str(request.param)


@pytest.fixture(params=TRANSPORTS)
def site(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Site]:
    """A broker with 30 messages, by each way to reach it."""
    with opened(request.param, kind, tmp_path) as made:
        yield made


@pytest.fixture
def served(kind: str, tmp_path: Path) -> Iterator[Site]:
    """The same by STOMP alone."""
    with opened("stomp with a store", kind, tmp_path) as made:
        yield made


@pytest.fixture
def stored(kind: str, tmp_path: Path) -> Iterator[Site]:
    """The same in this process, with a store."""
    with opened("vm with a store", kind, tmp_path) as made:
        yield made


@pytest.fixture(params=["listener", "receive"])
def how(request: pytest.FixtureRequest) -> str:
    """How the next consumer waits."""
    return str(request.param)
