"""The one table of the tree's shape, and finding objects by it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.errors import UnknownCategoryError, UnknownObjectError
from pyjms_provider.model.lookup import collect, find_by_id, find_by_names, names_needed
from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.model.operations import operations_of, statistics_of
from tests.provider.model.world import Folder

ROOT = Path(__file__).parents[3]
KINDS = [(category, kind) for category in tree.TREE for kind in tree.types_of(category)]


@pytest.mark.realises("BJ-MOD-4", "BJ-MOD-5")
def test_the_tree_is_that_of_the_seed() -> None:
    assert tree.ancestors("queue") == ("system_config", "broker", "virtual_host_node", "virtual_host")
    below = {shape.category for shape in tree.children_of("broker")}
    assert {"port", "authentication_provider", "virtual_host_node"} <= below
    assert [shape.category for shape in tree.children_of("system_config")] == ["broker"]
    assert [shape.category for shape in tree.children_of("virtual_host_node")] == ["virtual_host"]


def test_every_category_has_its_place_once() -> None:
    seen: set[str] = set()
    for category, shape in tree.TREE.items():
        assert category == shape.category
        assert (shape.parent is None and category == tree.ROOT) or shape.parent in seen, "parents come first"
        assert shape.summary
        seen.add(category)


@pytest.mark.realises("BJ-MOD-6", "BJ-ATT-2")
@pytest.mark.parametrize(("category", "kind"), KINDS)
def test_every_specialisation_declares_all_that_management_needs(category: str, kind: str) -> None:
    name, found = tree.class_of(category, kind)
    assert (name, found.category) == (kind, category)
    assert issubclass(found, ManagedObject)
    for declared in declarations(found.attributes_class).values():
        assert declared.description.endswith("."), declared.name
        assert declared.refers_to is None or declared.refers_to in tree.TREE
    for statistic in statistics_of(found).values():
        assert statistic.description.endswith("."), statistic.name
    for operation in operations_of(found).values():
        assert operation.description.endswith("."), operation.name


@pytest.mark.realises("BJ-CFG-1")
def test_two_categories_keep_what_is_below_them() -> None:
    assert [shape.category for shape in tree.TREE.values() if shape.manages_children] == [
        "system_config",
        "virtual_host_node",
    ]


@pytest.mark.realises("BJ-MOD-5")
def test_the_documentation_shows_the_tree_as_it_is() -> None:
    page = (ROOT / "docs/how-to/managed-broker.md").read_text(encoding="utf-8")
    assert tree.picture() in page, "put the output of tree.picture() into the page"


def test_what_there_is_not_is_named() -> None:
    with pytest.raises(UnknownCategoryError, match="there is no category 'x'; there are: system_config, broker"):
        tree.shape_of("x")
    with pytest.raises(UnknownCategoryError, match="a port needs a type; there are: 'stomp', 'amqp', 'http'"):
        tree.class_of("port", None)
    with pytest.raises(UnknownCategoryError, match="a key_store has no types; leave type out"):
        tree.class_of("key_store", "pem")


@pytest.mark.realises("BJ-GEN-4")
def test_a_plug_in_may_add_a_specialisation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_added", {})
    made = type("MyPort", (tree.class_of("port", "stomp")[1],), {})
    tree.add_specialisation("port", "mine", made)
    assert tree.class_of("port", "mine") == ("mine", made)
    assert tree.types_of("port") == ("stomp", "amqp", "http", "mine")
    with pytest.raises(ValueError, match="has a specialisation 'stomp' already"):
        tree.add_specialisation("port", "stomp", made)


def test_objects_are_found_by_address_and_by_id(folder: Folder) -> None:
    host = folder.host()
    host.create_child("queue", {"name": "b"})
    host.create_child("queue", {"name": "a"})
    assert folder.system is not None
    broker = folder.system.broker
    assert names_needed("queue") == ("virtual_host_node", "virtual_host", "queue")
    found = find_by_names(broker, "queue", ("main", "shop", "a"))
    assert find_by_names(broker, "queue", found.names) is found
    assert [each.path for each in collect(broker, "queue")] == ["queue main/shop/a", "queue main/shop/b"]
    assert [each.name for each in collect(folder.system, "queue", ("main",))] == ["a", "b"]
    assert [each.name for each in collect(host, "queue")] == ["a", "b"]
    for each in (folder.system, broker, host, found):
        assert find_by_id(folder.system, each.id) is each
    with pytest.raises(UnknownObjectError, match="a queue is named by virtual_host_node and virtual_host and queue"):
        find_by_names(broker, "queue", ("main",))
    with pytest.raises(UnknownObjectError, match="virtual_host main/shop has no queue 'c'"):
        find_by_names(broker, "queue", ("main", "shop", "c"))
    with pytest.raises(UnknownObjectError, match="there is no port below virtual_host main/shop"):
        list(collect(host, "port"))


def test_vm_stays_light() -> None:
    program = (
        "import sys, pyjms, pyjms_provider.clients.vm, pyjms_provider.queue_manager\n"
        "import pyjms_provider.stores.configuration_contract\n"
        "print([m for m in ('pydantic', 'tomlkit', 'cryptography', 'sqlalchemy', 'starlette') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_broker_without_ports_for_operators_imports_nothing_that_serves_http() -> None:
    program = (
        "import sys\n"
        "from pyjms_provider.serving.served_broker import ServedBroker\n"
        "ServedBroker.open().close()\n"
        "print([m for m in ('uvicorn', 'starlette.applications', 'prometheus_client') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
