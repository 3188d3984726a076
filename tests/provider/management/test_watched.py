"""Alerts and the last hour, as REST, metrics and messages tell of them."""

from __future__ import annotations

from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from pyjms.testing import VirtualClock
from pyjms_provider.management.rest.app import RestSettings
from pyjms_provider.model.metrics_sampler import STEP_MS
from tests.provider.management.world import ROOT, Site, error_of, ok

pytestmark = pytest.mark.realises("BJ-MGT-1")


def look(site: Site) -> None:
    clock = cast("VirtualClock", site.clock)
    site.host.sampler.close()  # this test looks itself
    clock.advance(STEP_MS)
    site.host.sampler.sample(clock.time_ms())


def test_alerts_are_set_listed_and_cleared_by_rest(site: Site, ann: TestClient) -> None:
    site.queue("calm")
    ok(ann.post(f"{ROOT}/queue/main/shop", json={"name": "orders", "alert_messages": 2}), 201)
    site.publish("orders", "a", "b")
    look(site)
    found = ok(ann.get(f"{ROOT}/queue", params={"filter": "alert_count > 0", "fields": "name,alerts"}))
    since_ms = site.clock.time_ms()
    assert found["items"] == [
        {"name": "orders", "alerts": [{"kind": "messages", "value": 2, "limit": 2, "since_ms": since_ms}]}
    ]
    assert [each["name"] for each in ok(ann.get(f"{ROOT}/queue?sort=-alert_count"))["items"]] == ["orders", "calm"]
    assert ok(ann.get(f"{ROOT}/virtual_host/main/shop"))["alert_count"] == 1
    ok(ann.patch(f"{ROOT}/queue/main/shop/orders", json={"alert_messages": 3}))
    look(site)
    assert ok(ann.get(f"{ROOT}/queue", params={"filter": "alert_count > 0"}))["total"] == 0


def test_alerts_do_not_make_a_broker_unready(site: Site, ann: TestClient) -> None:
    site.queue(alert_messages=1)
    site.publish("orders", "a")
    look(site)
    with site.client(None) as client:
        assert ok(client.get("/health/ready"))["status"] == "ready"


def test_alerts_are_metrics_and_no_more_than_so_many() -> None:
    site = Site(settings=RestSettings(metrics_queues=2))
    for name in ("a", "b", "c"):
        site.queue(name, alert_messages=1)
        site.publish(name, "x")
    look(site)
    with site.client(None) as client:
        text = client.get("/metrics").text
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    labels = {"virtual_host_node": "main", "virtual_host": "shop", "kind": "messages"}
    assert [(each.labels, each.value) for each in families["pyjms_queue_alert"]] == [
        ({**labels, "queue": "a"}, 1.0),
        ({**labels, "queue": "b"}, 1.0),
    ]
    assert [each.value for each in families["pyjms_virtual_host_alert_count"]] == [3.0]
    site.close()


def test_the_last_hour_is_had_by_who_may_observe(site: Site, ann: TestClient) -> None:
    site.queue()
    site.queue("secret")
    look(site)
    site.publish("orders", *map(str, range(5)))
    look(site)
    address = f"{ROOT}/queue/main/shop/orders/history"
    past = ok(ann.get(address))["result"]
    assert past["columns"]["depth"] == [0, 5]
    assert past["columns"]["arrival_rate"] == [None, 0.5]
    assert ok(ann.get(address, params={"since_ms": past["times_ms"][0]}))["result"]["times_ms"] == past["times_ms"][1:]
    assert ok(ann.get(f"{ROOT}/virtual_host/main/shop/history"))["result"]["columns"]["depth"] == [0, 5]
    error_of(ann.get(address, params={"since_ms": -1}), 422)
    with site.client("bob") as bob:
        assert ok(bob.get(address))["result"]["is_kept"]
        error_of(bob.get(f"{ROOT}/queue/main/shop/secret/history"), 403)


def test_a_host_that_does_not_run_has_no_past(site: Site, ann: TestClient) -> None:
    site.host.invoke("stop", {})
    error_of(ann.get(f"{ROOT}/virtual_host/main/shop/history"), 409)
