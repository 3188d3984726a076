"""A broker, a store of workflows and a company's database for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms import ConnectionFactory
from pyjms.flows import FlowStore
from pyjms.flows.store import open_store
from pyjms_provider.broker import stop_broker

_numbers = itertools.count(1)


@pytest.fixture
def broker_url() -> Iterator[str]:
    name = f"flows-{next(_numbers)}"
    yield f"vm://{name}"
    stop_broker(name)


@pytest.fixture
def factory(broker_url: str) -> ConnectionFactory:
    return ConnectionFactory(broker_url)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FlowStore]:
    store = open_store(f"sqlite:///{tmp_path / 'flows.db'}")
    yield store
    store.close()
