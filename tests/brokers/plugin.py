"""pytest plugin: the fixtures `activemq` and `rabbitmq`, real brokers that the whole session shares.

Without them installed, a developer's run leaves their tests out and says so; a run with CI in its environment fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.brokers.programs import BrokerMissingError, activemq_class_path, rabbitmq_script
from tests.brokers.sharing import shared_broker

_PROGRAMS: dict[str, Callable[[], object]] = {"activemq": activemq_class_path, "rabbitmq": rabbitmq_script}


@cache
def missing(kind: str) -> str | None:
    """Return what to do about a broker that is not installed; None: it is."""
    try:
        _PROGRAMS[kind]()
    except BrokerMissingError as error:
        return str(error)
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, on a developer's machine, the tests of a broker that is not there."""
    if "CI" in os.environ:
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        wanted = {kind for kind in _PROGRAMS if kind in getattr(item, "fixturenames", ())}
        wanted |= {str(kind) for marker in item.iter_markers("needs_broker") for kind in marker.args}
        (left_out if any(missing(kind) for kind in wanted) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and what to do about it."""
    for text in {text for kind in _PROGRAMS if (text := missing(kind)) is not None}:
        terminalreporter.write_line(f"Not run: {text}", yellow=True)


def _share(kind: str, factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    reason = missing(kind)
    if reason is not None:
        pytest.fail(reason, pytrace=False)
    with shared_broker(kind, _common_directory(factory) / kind) as ports:
        yield ports


def _common_directory(factory: pytest.TempPathFactory) -> Path:
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "brokers"


@pytest.fixture(scope="session")
def activemq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of a real ActiveMQ Classic."""
    yield from _share("activemq", tmp_path_factory)


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of a real RabbitMQ, whose user and password are ``guest``."""
    yield from _share("rabbitmq", tmp_path_factory)
