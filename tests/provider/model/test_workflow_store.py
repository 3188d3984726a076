"""Stores of workflows as configured objects: they come back with the broker, with or without their database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pyjms.flows.store import open_store
from pyjms.spi.errors import ResourceError
from pyjms.testing import VirtualClock
from pyjms_provider.model.errors import FailedOpeningError
from pyjms_provider.model.managed import State
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.model.workflows import WorkflowStore
from tests.provider.model.world import Folder
from tests.pyjms.flows.supply import SUPPLY_FLOW, keep, parked

pytestmark = pytest.mark.realises("MOM-54")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    made.open()
    yield made
    made.close()


def with_instance(path: Path, name: str) -> str:
    """Make a store with one parked instance; return its URL."""
    path.mkdir(exist_ok=True)
    url = f"sqlite:///{path / 'flows.db'}"
    with closing(open_store(url)) as store:
        store.deploy(SUPPLY_FLOW)
        keep(store, name, *parked(name))
    return url


def add(host: VirtualHost, url: str) -> None:
    host.create_child("workflow_store", {"name": "flows", "store_url": url, "store_password": "hush-hush"}, by="ann")


def test_it_comes_back_with_the_broker_and_its_password_is_secret(folder: Folder, tmp_path: Path) -> None:
    add(folder.host(stored=True), with_instance(tmp_path / "db", "i"))
    folder.close()
    assert "hush-hush" not in "".join(each.read_text() for each in tmp_path.rglob("*.json"))
    folder.open()
    (found,) = folder.found_host().children("workflow_store")
    assert found.state is State.ACTIVE
    assert list(found.child_names("workflow_instance")) == ["i"]
    assert found.statistic_values(["parked"]) == {"parked": 1}


def test_without_its_database_it_is_errored_and_all_else_runs(folder: Folder, tmp_path: Path) -> None:
    add(folder.host(stored=True), with_instance(tmp_path / "db", "i"))
    folder.close()
    shutil.rmtree(tmp_path / "db")
    folder.open()
    host = folder.found_host()
    found = host.child("workflow_store", "flows")
    assert (host.state, found.state) == (State.ACTIVE, State.ERRORED)
    assert "cannot be opened" in str(found.facts()["error"])
    assert list(found.children("workflow_instance")) == []
    with pytest.raises(FailedOpeningError, match="cannot be opened"):
        found.invoke("start", {})
    with_instance(tmp_path / "db", "j")
    found.invoke("start", {})
    assert list(found.child_names("workflow_instance")) == ["j"]


def test_another_database_is_taken_at_once_and_one_that_cannot_be_is_not(folder: Folder, tmp_path: Path) -> None:
    host = folder.host()
    add(host, with_instance(tmp_path / "one", "i"))
    found = host.child("workflow_store", "flows")
    found.set_attributes({"store_url": with_instance(tmp_path / "two", "j")}, by="ann")
    assert list(found.child_names("workflow_instance")) == ["j"]
    with pytest.raises(ResourceError, match="cannot be opened"):
        found.set_attributes({"store_url": f"sqlite:///{tmp_path}/no/folder.db"}, by="ann")
    assert list(found.child_names("workflow_instance")) == ["j"]
    assert found.child("workflow_instance", "j").statistic_values(["status"]) == {"status": "parked"}


def test_it_closes_and_opens_with_its_host(folder: Folder, tmp_path: Path) -> None:
    host = folder.host()
    add(host, with_instance(tmp_path / "db", "i"))
    host.invoke("stop", {})
    assert list(host.children("workflow_store")) == []
    host.invoke("start", {})
    (found,) = host.children("workflow_store")
    assert list(found.child_names("workflow_instance")) == ["i"]
    found.invoke("stop", {})
    assert (found.state, found.statistic_values(["parked", "is_reachable"])) == (
        State.STOPPED,
        {"is_reachable": False, "parked": None},
    )


def test_counting_is_not_repeated_while_it_is_fresh_and_takes_a_small_part_of_the_time(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    folder.open(clock=clock)
    host = folder.host()
    add(host, with_instance(tmp_path / "db", "i"))
    found = host.child("workflow_store", "flows")
    assert isinstance(found, WorkflowStore)
    counted: list[float] = []
    counts = found.repository.counts

    def count() -> Any:
        counted.append(clock.monotonic_ms())
        clock.advance(200)
        return counts()

    monkeypatch.setattr(found.repository, "counts", count)
    for _ in range(3):
        assert found.statistic_values(["parked", "running", "definitions"]) == {
            "parked": 1,
            "running": 0,
            "definitions": 1,
        }
        clock.advance(1_000)
    assert len(counted) == 1
    clock.advance(1_000)
    found.statistic_values(["parked"])
    assert len(counted) == 2
