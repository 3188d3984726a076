"""Metrics, and whether the broker is alive and ready."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from pyjms.spi.errors import ResourceError
from pyjms_provider.management.rest.app import RestSettings
from pyjms_provider.management.rest.monitoring import SteadySums
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.stores.errors import StoreError
from pyjms_provider.stores.sql.sqlite import SqliteDatabase
from tests.provider.management.world import ROOT, Site, basic, error_of, ok

ORDER = ("broker", "category", "state", "virtual_host_node", "virtual_host", "port", "queue", "route")


def samples(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one metric by its labels' values."""
    return {
        tuple(sample.labels[label] for label in ORDER if label in sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def scraped(site: Site) -> str:
    with site.client(None) as client:
        response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return response.text


def test_metrics_are_made_of_the_declared_statistics(site: Site) -> None:
    site.queue()
    site.publish("orders", "one", "two")
    site.host.child("queue", "orders").invoke("purge", {})
    site.publish("orders", "three")
    text = scraped(site)
    assert samples(text, "pyjms_queue_depth") == {("main", "shop", "orders"): 1.0}
    assert samples(text, "pyjms_queue_arrived_total") == {("main", "shop", "orders"): 3.0}
    assert samples(text, "pyjms_queue_departed_total") == {("main", "shop", "orders"): 2.0}
    assert samples(text, "pyjms_virtual_host_queue_count") == {("main", "shop"): 1.0}
    assert samples(text, "pyjms_virtual_host_connection_count") == {("main", "shop"): 0.0}
    assert ("shop",) in samples(text, "pyjms_broker_uptime_seconds_total")
    assert samples(text, "pyjms_objects")["virtual_host", "active"] == 1.0
    assert samples(text, "process_resident_memory_bytes")[()] > 1e6
    assert "rate" not in text, "Prometheus makes rates itself"


def test_routes_are_measured_and_counted_by_their_state(site: Site) -> None:
    site.host.create_child("route", {"name": "copy", "source": "orders", "targets": [{"queue": "copies"}]})
    text = scraped(site)
    assert samples(text, "pyjms_objects")["route", "active"] == 1.0
    for name in ("forwarded_total", "sent_total", "failed_total", "failures_total", "waiting"):
        assert samples(text, f"pyjms_route_{name}") == {("main", "shop", "copy"): 0.0}, name
    assert samples(text, "pyjms_route_backlog") == {("main", "shop", "copy"): 0.0}
    assert list(samples(text, "pyjms_route_activity").values()) == [1.0]
    assert 'activity="running"' in text


def test_only_the_deepest_queues_have_series_of_their_own() -> None:
    site = Site(settings=RestSettings(metrics_queues=2))
    for number, name in enumerate(["a", "b", "c", "d"]):
        site.queue(name)
        site.publish(name, *map(str, range(number)))
    found = samples(scraped(site), "pyjms_queue_depth")
    assert found == {("main", "shop", "d"): 3.0, ("main", "shop", "c"): 2.0, ("main", "shop", ""): 1.0}
    site.close()


def test_the_sum_of_a_counter_over_the_other_queues_never_falls() -> None:
    site = Site(settings=RestSettings(metrics_queues=1))
    for number, name in enumerate(["a", "b", "c", "d"]):
        site.queue(name)
        site.publish(name, *map(str, range(number)))
    others = ("main", "shop", "")

    def count() -> float:
        return samples(scraped(site), "pyjms_queue_arrived_total")[others]

    assert count() == 0 + 1 + 2
    site.host.child("queue", "c").delete()
    assert count() == 3
    site.publish("b", "one more")
    assert count() == 4
    site.publish("a", *map(str, range(5)))  # which has a series of its own now, and d none any more
    assert count() == 4
    site.publish("d", "one more")
    assert count() == 5
    site.host.invoke("stop", {})
    site.host.invoke("start", {})
    site.publish("b", "one more")
    site.publish("d", "one more")
    assert count() > 5, "a queue that counts from the beginning does not take away what was counted"
    site.close()


def test_who_looked_earlier_and_is_slower_does_not_count_twice() -> None:
    sums, key = SteadySums(), (("main", "shop"), "messages_in")
    early, late = sums.begin([key[0]]), sums.begin([key[0]])
    assert sums.sum_of(key, late, {"a": 7.0}, ()) == 7
    assert sums.sum_of(key, early, {"a": 5.0}, ()) == 7
    assert sums.sum_of(key, sums.begin([key[0]]), {"a": 8.0}, ()) == 8
    assert sums.sum_of(key, sums.begin([]), {"a": 1.0}, ()) == 1, "the virtual host was deleted, and made anew"


def test_names_that_prometheus_must_escape_are_escaped(site: Site) -> None:
    site.queue('a "b" \\ c')
    assert ("main", "shop", 'a "b" \\ c') in samples(scraped(site), "pyjms_queue_depth")


def test_a_host_that_does_not_run_is_told_of_as_such(site: Site) -> None:
    site.queue()
    site.host.invoke("stop", {})
    text = scraped(site)
    assert samples(text, "pyjms_queue_depth") == {}
    assert samples(text, "pyjms_objects")["virtual_host", "stopped"] == 1.0


def test_metrics_may_need_a_log_in_or_be_off() -> None:
    for metrics, nobody, carol, bob in (("login", 401, 200, 403), ("off", 404, 404, 404)):
        site = Site(settings=RestSettings(metrics=metrics))  # type: ignore[arg-type]  # each is one of the words
        with site.client(None) as client:
            error_of(client.get("/metrics"), nobody)
            for user, status in (("carol", carol), ("bob", bob)):
                headers = {"authorization": basic(user, f"{user}'s-password")}
                assert client.get("/metrics", headers=headers).status_code == status
            assert ok(client.get("/health/live")) == {"status": "live"}
        site.close()


def test_the_broker_is_ready_when_its_hosts_and_ports_are(site: Site, ann: TestClient) -> None:
    with site.client(None) as client:
        assert ok(client.get("/health/ready")) == {"status": "ready"}
        ok(ann.post(f"{ROOT}/virtual_host/main/shop/stop"))
        found = ok(client.get("/health/ready"), 503)
        assert found == {"status": "not ready", "objects": [{"category": "virtual_host", "state": "stopped"}]}
        assert ok(client.get("/health/live")) == {"status": "live"}
        ok(ann.post(f"{ROOT}/virtual_host/main/shop/start"))
        assert ok(client.get("/health/ready")) == {"status": "ready"}


class Disk(NamedTuple):
    free: int


def test_a_store_that_takes_no_messages_for_want_of_disk_is_told_of_and_receives_go_on(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log alone told of it. The broker is ready all the same, as its clients are to make room."""
    node = site.system.broker.create_child("virtual_host_node", {"name": "second", "type": "memory"})
    store = {"store_url": f"sqlite:///{tmp_path}/kept.db", "keep_free_bytes": 1_000_000}
    queue = node.create_child("virtual_host", {"name": "kept", **store}).create_child("queue", {"name": "orders"})
    queue.invoke("publish", {"message": {"text": "order"}})
    kept = ("second", "kept")

    def told() -> tuple[float, float]:
        text = scraped(site)
        takes, failed = (
            samples(text, f"pyjms_virtual_host_{name}") for name in ("takes_messages", "failed_writes_total")
        )
        assert (takes["main", "shop"], failed["main", "shop"]) == (1.0, 0.0), "what is in memory needs no disk"
        return takes[kept], failed[kept]

    def shown() -> object:
        with site.client() as ann:
            return ok(ann.get(f"{ROOT}/virtual_host/second/kept"))["store_trouble"]

    assert (told(), shown()) == ((1.0, 0.0), None)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: Disk(999_999))
        assert told() == (0.0, 0.0), "nobody has written meanwhile"
        assert "less than 1 MB are left" in str(shown())
        site.clock.advance(1000)  # type: ignore[attr-defined]  # a virtual one
        with site.client() as ann:
            refused = ann.post(
                f"{ROOT}/queue/second/kept/orders/publish", json={"message": {"text": "another", "persistent": True}}
            )
            assert refused.status_code != 200
            assert ann.get("/health/ready").status_code == 200
        assert told() == (0.0, 1.0)
        assert queue.invoke("purge", {}) == {"messages": 1}
    assert (told(), shown()) == ((1.0, 1.0), None)


def test_writes_that_fail_are_counted(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = site.system.broker.create_child("virtual_host_node", {"name": "second", "type": "memory"})
    host = node.create_child("virtual_host", {"name": "kept", "store_url": f"sqlite:///{tmp_path}/kept.db"})
    assert isinstance(host, VirtualHost)
    host.create_child("queue", {"name": "orders"})

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        for way in ("add_messages", "commit"):
            patched.setattr(SqliteDatabase, way, fail)
        with pytest.raises(ResourceError, match="the disk is full"):
            host.child("queue", "orders").invoke("publish", {"message": {"text": "order", "persistent": True}})
    assert samples(scraped(site), "pyjms_virtual_host_failed_writes_total")["second", "kept"] == 1.0


def test_a_host_that_does_not_run_takes_no_messages(site: Site) -> None:
    site.host.invoke("stop", {})
    assert samples(scraped(site), "pyjms_virtual_host_takes_messages") == {("main", "shop"): 0.0}


DASHBOARD = Path(__file__).parents[3] / "docs" / "how-to" / "files" / "grafana-dashboard.json"


def test_the_dashboard_for_grafana_asks_for_metrics_that_there_are(site: Site) -> None:
    site.queue()
    site.publish("orders", "one")
    families = list(text_string_to_metric_families(scraped(site)))
    known = {sample.name for family in families for sample in family.samples}
    known |= {f"{family.name}{'_total' if family.type == 'counter' else ''}" for family in families}
    dashboard = json.loads(DASHBOARD.read_text())
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    texts += [each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    asked = {name for text in texts for name in re.findall(r"\b(?:pyjms|process|python)_\w+", text)}
    assert len(asked) > 15
    assert asked <= known
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len({panel["id"] for panel in dashboard["panels"]}) == len(places)


def test_the_broker_tells_what_its_process_takes(site: Site) -> None:
    with site.client() as client:
        told = ok(
            client.get(
                "/api/latest/broker", params={"fields": "memory_bytes,open_files,open_files_max,disk_free_bytes"}
            )
        )
    assert told["memory_bytes"] > 1_000_000
    assert 0 < told["open_files"] <= told["open_files_max"]
    assert told["disk_free_bytes"] > 0
