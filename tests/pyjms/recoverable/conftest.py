"""A broker for each test, and a file for the client's log."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms import ConnectionFactory
from pyjms_provider.broker import stop_broker

_numbers = itertools.count(1)


@pytest.fixture
def factory() -> Iterator[ConnectionFactory]:
    name = f"recoverable-{next(_numbers)}"
    yield ConnectionFactory(f"vm://{name}")
    stop_broker(name)


@pytest.fixture
def log_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'desk.db'}"


@pytest.fixture
def vm_url() -> Iterator[str]:
    name = f"recoverable-{next(_numbers)}"
    yield f"vm://{name}"
    stop_broker(name)
