"""A broker of this process whose virtual host is a member of a real cluster, with its ports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import urlopen

from pyjms_provider.management.rest.monitoring import Metrics
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.cluster.world import LEASE_MS, SHARDS, ClusterWorld, wait_until


class Watched:
    """A broker whose virtual host is served by a cluster of a real database."""

    def __init__(self, broker: ServedBroker, host: VirtualHost) -> None:
        self._broker = broker
        self.host = host

    def url(self, scheme: str) -> str:
        return next(each for each in self._broker.addresses() if each.startswith(f"{scheme}:"))

    def metric(self, name: str) -> float:
        """Return a metric of the clustered virtual host, as Prometheus reads it."""
        assert isinstance(self._broker.system, SystemConfig)
        lines = Metrics(self._broker.system, queues=10).render().decode().splitlines()
        [found] = [
            line for line in lines if line.startswith(f"pyjms_virtual_host_{name}{{") and 'virtual_host="shop"' in line
        ]
        return float(found.rpartition(" ")[2])

    def readiness(self) -> tuple[int, str]:
        """Ask as a load balancer does."""
        try:
            with urlopen(f"{self.url('http')}/health/ready", timeout=30) as answer:
                return answer.status, json.load(answer)["status"]
        except HTTPError as error:
            with error:
                return error.code, json.load(error)["status"]


@contextmanager
def watched_member(world: ClusterWorld) -> Iterator[Watched]:
    """Yield member ``left`` of a world's cluster, once it leads all shards."""
    with ServedBroker.open(name="broker") as broker:
        top = broker.broker
        top.create_child("authentication_provider", {"name": "who", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        host = node.create_child(
            "virtual_host",
            {
                "name": "shop",
                "cluster": "shop",
                "cluster_member": "left",
                "cluster_shards": SHARDS,
                "cluster_lease_ms": LEASE_MS,
                "store_url": world.url,
            },
        )
        assert isinstance(host, VirtualHost)
        chosen = {"host": "127.0.0.1", "port": 0, "authentication_providers": ["who"], "access_control": "access"}
        for kind in ("stomp", "amqp", "http"):
            top.create_child("port", {"name": kind, "type": kind, **chosen})
        found = Watched(broker, host)
        wait_until(lambda: found.metric("cluster_shards_led") == SHARDS)
        yield found
