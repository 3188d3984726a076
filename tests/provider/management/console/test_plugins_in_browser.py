"""What a package adds to the broker, in the console: nothing there knows of it but the broker's own description."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.test_broker_plugins import put_package
from tests.provider.management.console.world import Console, World, open_world
from tests.provider.model.plugged import packages

pytestmark = pytest.mark.realises("BJ-GEN-4", "BJ-WEB-1")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with packages(tmp_path_factory.mktemp("plugins") / "packages") as folder:
        put_package(folder)
        with open_world() as made:
            yield made


def test_a_packages_category_and_its_queue_type_are_in_the_tree_and_in_forms(world: World, console: Console) -> None:
    world.publish(world.queue("orders", type="lifo"), text="one")
    world.host.create_child("depth_watch", {"name": "deep", "queue": "orders", "most": 7})
    console.open("#/tree/virtual_host/main/shop")
    console.one("[data-create=depth_watch]", "New depth watch")
    console.go("#/tree/depth_watch/main/shop/deep")
    console.one("h1", "deep")
    console.one("[role=treeitem][aria-selected=true] a", "deep")
    # Its attributes, its statistic with the description, and its operation.
    for text in ("How many messages the queue has", "So many messages are too many", "Is too deep"):
        console.until(lambda: text.lower() in console.one("main").text.lower() or None, text)  # noqa: B023
    console.go("#/tree/queue/main/shop/orders")
    console.one("h1", "orders")
    console.until(lambda: "lifo" in console.one("main").text or None, "the type")
