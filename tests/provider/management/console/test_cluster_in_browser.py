"""The console's page of the cluster, which follows its members and leaders by itself."""

from __future__ import annotations

import pytest

from tests.provider.cluster.pretended import STORE, join_pretended
from tests.provider.management.console.world import Console, World


@pytest.mark.requires("browser")
def test_the_page_shows_members_and_leaders_and_follows_them(
    world: World, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = join_pretended(monkeypatch)
    console.open("#/cluster")
    console.one(".empty", "No virtual host that runs here is served by a cluster")
    node = world.served.broker.create_child("virtual_host_node", {"name": "clustered", "type": "memory"})
    given = {"name": "orders", "cluster": "orders", "cluster_member": "left", "store_url": STORE}
    node.create_child("virtual_host", given)
    try:
        console.open("#/cluster")
        console.one("h2", "Cluster orders of orders")
        console.one("tbody .chip.good", "alive")
        console.one("tbody .chip.bad", "dead")
        console.one("tr", "0, 1")
        console.one("caption", "What the members have")
        console.one("tr", "All together")
        members[0].led = frozenset({1})
        console.one("tr", "right")
        console.one("p", "3 transactions over several shards")
    finally:
        console.browser.get("about:blank")
        node.delete()
