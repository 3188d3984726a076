"""Virtual hosts that are deleted, put away, or not kept: what is below them goes with them, or comes back with them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.model.configuration.json_file import JsonConfigurationStore
from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.model.managed import State
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.stores.errors import StoreError
from tests.provider.model.world import Folder


@pytest.mark.parametrize("end", ["close", "stop"])
def test_one_that_fails_to_end_keeps_no_other_one_open(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    host = folder.host(stored=True)
    assert folder.system is not None
    node = folder.system.broker.create_child("virtual_host_node", {"name": "other", "type": "json"})
    other = node.create_child("virtual_host", {"name": "other"})
    routes = [
        host.create_child("route", {"name": name, "source": name, "targets": [{"queue": "c"}]}) for name in ("a", "b")
    ]

    def fail() -> None:
        raise StoreError("no")

    monkeypatch.setattr(routes[1], "_on_stop", fail)
    with pytest.raises(StoreError):
        folder.system.close() if end == "close" else host.invoke("stop", {})
    assert {each.state for each in routes} == {State.CLOSED}
    assert not host.is_running
    if end == "stop":
        assert host.state is State.STOPPED
        host.invoke("start", {})
        assert host.child_names("route") == ["a", "b"]
    else:
        assert other.state is State.CLOSED
        folder.open()
        assert folder.found_host().state is State.ACTIVE


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_deleted_host_leaves_nothing_of_its_queues_in_the_nodes_file(folder: Folder, *, is_stopped: bool) -> None:
    host = folder.host()
    host.create_child("queue", {"name": "q", "description": "an operator's"})
    if is_stopped:
        host.invoke("stop", {})
    host.delete()
    assert '"objects": []' in (folder.path / "main.json").read_text()
    assert folder.open().broker.child("virtual_host_node", "main").state is State.ACTIVE


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_host_that_could_not_be_deleted_is_kept_with_what_is_below_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, *, is_stopped: bool
) -> None:
    host = folder.host()
    host.create_child("queue", {"name": "q", "description": "an operator's"})
    secret = {"store_url": f"sqlite:///{folder.path}/flows.db", "store_password": "tell nobody"}
    host.create_child("workflow_store", {"name": "flows", **secret})
    if is_stopped:
        host.invoke("stop", {})

    def fail() -> None:
        raise ResourceError("no")

    with monkeypatch.context() as patched:
        patched.setattr(host, "_on_delete", fail)
        with pytest.raises(ResourceError):
            host.delete()
    assert "tell nobody" not in (folder.path / "main.json").read_text()
    folder.open()
    found = folder.found_host()
    if is_stopped:
        found.invoke("start", {})
    assert found.child("queue", "q").attribute_values(["description"]) == {"description": "an operator's"}
    assert found.child("workflow_store", "flows").state is State.ACTIVE


def test_nobody_makes_a_queue_in_a_host_that_is_being_deleted_or_is_not_kept_yet(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made meanwhile would be in the node's file without its host, which could not be read any more."""
    assert folder.system is not None
    node = folder.system.broker.create_child("virtual_host_node", {"name": "main", "type": "json"})
    update, refused = JsonConfigurationStore.update, StoreError("no")

    def make_a_queue_first(self: Any, records: Any, removed: Any = ()) -> None:
        for host in node.children("virtual_host"):
            assert isinstance(host, VirtualHost)
            made = partial(host._create_child, "queue", {"name": "q"}, "")
            is_about_it = removed or records[0].category == "virtual_host"
            if is_about_it and not host.configuration_thread.is_current:
                host.configuration_thread.call(made)
        if records and records[0].category == "virtual_host" and records[0].name == "refused":
            raise refused
        update(self, records, removed)

    monkeypatch.setattr(JsonConfigurationStore, "update", make_a_queue_first)
    with pytest.raises(StoreError):
        node.create_child("virtual_host", {"name": "refused"})
    node.create_child("virtual_host", {"name": "shop"}).delete()
    assert '"objects": []' in (folder.path / "main.json").read_text()


def test_a_memory_node_that_was_stopped_has_its_host_again(folder: Folder) -> None:
    host = folder.host(node="memory", branch_timeout_ms=7)
    host.create_child("queue", {"name": "q", "max_messages": 5})
    node = host.parent
    assert node is not None
    node.invoke("stop", {})
    node.invoke("start", {})
    found = folder.found_host()
    assert found.attribute_values(["branch_timeout_ms"]) == {"branch_timeout_ms": 7}
    assert found.child("queue", "q").attribute_values(["max_messages"]) == {"max_messages": 5}


def test_one_that_is_deleted_again_is_not_there(folder: Folder) -> None:
    host = folder.host(stored=True)
    host.delete()
    with pytest.raises(UnknownObjectError):
        host.delete()


def test_one_that_has_lost_its_store_serves_no_more_though_a_child_fails_to_end(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = folder.host(stored=True)
    route = host.create_child("route", {"name": "a", "source": "b", "targets": [{"queue": "c"}]})
    broker = host.embedded

    def fail() -> None:
        raise StoreError("no")

    monkeypatch.setattr(route, "_on_stop", fail)
    with pytest.raises(StoreError):
        host._fail_without_store(broker, ResourceError("another broker has it"))
    assert host.state is State.ERRORED
    assert broker.has_stopped
