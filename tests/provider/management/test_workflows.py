"""Workflows at the managed broker: what operators see of them, by REST and by metrics, and what they decide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyjms.flows import FlowStore
from pyjms.flows.instance import Answer, Suspend
from pyjms.flows.store import open_store
from pyjms_provider.management.scope import Scope
from pyjms_provider.model.lookup import find_by_id
from pyjms_provider.serving.management_queues import MessageRequest
from tests.provider.management.world import ROOT, AuditTrail, Site, error_of, ok
from tests.pyjms.flows.supply import SUPPLY_FLOW, keep, order_flow, parked, supply_flow

pytestmark = pytest.mark.realises("MOM-44", "MOM-54")
FLOWS = f"{ROOT}/workflow_instance/main/shop/flows"
RULES = """
allow group:admins all *
allow user:bob observe managed:broker/workflow_store/main/shop/flows
allow user:carol observe,browse managed:broker/workflow_store/main/shop/*
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FlowStore]:
    store = open_store(f"sqlite:///{tmp_path / 'flows.db'}")
    store.deploy(SUPPLY_FLOW)
    yield store
    store.close()


@pytest.fixture
def site(tmp_path: Path, store: FlowStore) -> Iterator[Site]:
    site = Site(rules=RULES)
    attributes = {"name": "flows", "store_url": f"sqlite:///{tmp_path / 'flows.db'}", "events": "events"}
    site.host.create_child("workflow_store", attributes, by="ann")
    yield site
    site.close()


def names(page: dict[str, Any]) -> list[str]:
    return [each["name"] for each in page["items"]]


def test_definitions_are_listed_with_how_their_instances_stand(site: Site, store: FlowStore) -> None:
    store.deploy(supply_flow(version=2, title="An order of four companies"))
    keep(store, "a")
    keep(store, "b", *parked("b"))
    (found,) = ok(site.client().get(f"{ROOT}/workflow/main/shop/flows"))["items"]
    assert (found["name"], found["title"], found["version"]) == ("order", "An order of four companies", 2)
    assert (found["versions"], found["steps"]) == ([1, 2], ["reserve", "weigh", "pay", "ship"])
    assert [found[each] for each in ("running", "parked", "compensating", "completed", "compensated")] == [
        1,
        1,
        0,
        0,
        0,
    ]
    steps = ok(site.client().get(f"{ROOT}/workflow/main/shop/flows/order/definition"))["result"]
    assert (steps[0]["queue"], steps[0]["compensation"]) == ("stock.reserve", "stock.free")
    error_of(site.client().get(f"{ROOT}/workflow/main/shop/flows/order/definition?version=3"), 404)
    totals = ok(site.client().get(f"{ROOT}/workflow_store/main/shop/flows"))
    assert (totals["definitions"], totals["parked"], totals["last_error"]) == (1, 1, None)


@pytest.mark.realises("MOM-40", "MOM-42")
def test_states_tell_what_is_held_in_each_and_an_instance_what_it_holds(site: Site, store: FlowStore) -> None:
    store.deploy(flow := order_flow(version=3))
    keep(store, "a", Answer(key="a:reserve"), Answer(key="a:weigh"), flow=flow)
    keep(store, "b", *parked("b"), flow=flow)
    client = site.client()
    states = ok(client.get(f"{ROOT}/workflow/main/shop/flows/order/states"))["result"]
    assert [(each["status"], each["step"], each["visible_state"]) for each in states][2:6] == [
        ("running", "pay", "weigh"),
        ("running", "ship", "paid"),
        ("completed", "", "on its way"),
        ("compensating", "pay", ""),
    ]
    assert (states[2]["holds"], states[2]["changing"], states[2]["waits_for"]) == (
        ["goods"],
        ["money", "shelf"],
        "bank.pay",
    )
    error_of(client.get(f"{ROOT}/workflow/main/shop/flows/order/states?version=9"), 404)
    assert ok(client.get(f"{ROOT}/workflow/main/shop/flows/order/states?version=1"))["result"][0]["holds"] == []
    running, waiting = (ok(client.get(f"{FLOWS}/{name}")) for name in ("a", "b"))
    assert (running["holds"], running["changing"]) == (["goods"], ["money", "shelf"])
    assert (waiting["status"], waiting["holds"], waiting["changing"]) == ("parked", ["goods", "shelf"], [])


def test_instances_are_chosen_by_status_and_come_page_by_page(site: Site, store: FlowStore) -> None:
    for number in range(5):
        keep(store, f"i{number}", at_ms=1_000 * (number + 1))
    keep(store, "stopped", *parked("stopped"))
    client = site.client()
    page = ok(client.get(FLOWS, params={"filter": "status = 'running'", "sort": "-changed_at_ms", "limit": 2}))
    assert (names(page), page["total"]) == (["i4", "i3"], 5)
    page = ok(client.get(FLOWS, params={"filter": "workflow = 'order' AND status = 'parked'"}))
    assert (names(page), page["total"]) == (["stopped"], 1)
    assert names(ok(client.get(FLOWS, params={"offset": 4}))) == ["i4", "stopped"]
    assert ok(client.get(FLOWS, params={"filter": "status = 'asleep'"}))["total"] == 0
    error_of(client.get(FLOWS, params={"filter": "statos = 'parked'"}), 400)
    error_of(client.get(FLOWS, params={"limit": 5000}), 400)


def test_pages_are_the_databases_work_and_other_conditions_are_answered_too(
    site: Site, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        keep(store, f"i{number}", at_ms=1_000 * (number + 1))
    keep(store, "stopped", *parked("stopped"), at_ms=9_000)
    client = site.client()
    page = ok(client.get(FLOWS, params={"filter": "status <> 'parked' AND attempt < 2", "sort": "-revision,name"}))
    assert names(page) == ["i0", "i1", "i2"]
    source = site.host.child("workflow_store", "flows").sources()["workflow_instance"]
    monkeypatch.setattr(source, "names", lambda: pytest.fail("all instances were looked at"))
    assert names(ok(client.get(FLOWS, params={"sort": "-changed_at_ms", "limit": 1}))) == ["stopped"]
    assert ok(client.get(f"{ROOT}/workflow_instance", params={"filter": "status = 'running'"}))["total"] == 3


def test_a_condition_that_would_look_at_too_many_is_refused_with_those_that_do_not(
    site: Site, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        keep(store, f"i{number}")
    monkeypatch.setattr("pyjms_provider.model.workflows.LOOKED_AT_MAX", 2)
    client = site.client()
    refused = error_of(client.get(FLOWS, params={"filter": "attempt > 0"}), 400)
    assert "has 3 instances, too many to look at each" in refused["reason"]
    assert ok(client.get(FLOWS, params={"filter": "workflow = 'order'"}))["total"] == 3
    site.access.replace(())
    assert ok(client.get(FLOWS, params={"filter": "attempt > 0"}))["total"] == 0


def test_a_parked_instance_tells_all_that_is_needed_to_decide(site: Site, store: FlowStore) -> None:
    keep(store, "i", *parked("i"))
    client = site.client()
    found = ok(client.get(f"{FLOWS}/i"))
    assert (found["status"], found["step"], found["visible_state"]) == ("parked", "weigh", "reserved")
    assert (found["reason"], found["attempt"], found["attempts_max"]) == (
        "weigh was not answered after 1 attempts",
        1,
        1,
    )
    assert (found["waits_for"], found["due_at_ms"], found["created_at_ms"]) == (None, None, 1_000)
    history = ok(client.get(f"{FLOWS}/i/history"))["result"]
    assert [(each["what"], each["step"]) for each in history] == [
        ("begun", ""),
        ("done", "reserve"),
        ("overdue", "weigh"),
        ("parked", ""),
    ]
    assert ok(client.get(f"{FLOWS}/i/data"))["result"] == {"item": "tea"}
    requests = ok(client.get(f"{FLOWS}/i/requests"))["result"]
    assert [each["correlation_id"] for each in requests] == ["i:reserve", "i:weigh"]


def test_its_messages_are_found_where_they_wait(site: Site, store: FlowStore) -> None:
    keep(store, "i", *parked("i"))
    for queue, key in (("stock.weigh", "i:weigh"), ("stock.weigh", "j:weigh"), ("events", "i:reserve")):
        site.queue(queue) if site.host.find_child("queue", queue) is None else None
        site.host.child("queue", queue).invoke("publish", {"message": {"text": "{}", "correlation_id": key}})
    site.queue("events.bad")
    bad = {"text": "?", "properties": {"pyjms_flow_instance": "i"}}
    site.host.child("queue", "events.bad").invoke("publish", {"message": bad})
    found = ok(site.client().get(f"{FLOWS}/i/find_messages"))["result"]
    assert [(each["queue"], each["correlation_id"], each["is_dead"]) for each in found] == [
        ("stock.weigh", "i:weigh", False),
        ("events", "i:reserve", False),
        ("events.bad", None, True),
    ]


def test_a_person_decides_and_it_is_carried_out_and_written_down(
    site: Site, store: FlowStore, trail: AuditTrail
) -> None:
    keep(store, "i", *parked("i"))
    site.queue("stock.weigh")
    client = site.client()
    ok(client.post(f"{FLOWS}/i/retry", json={"reason": "the scales are back"}))
    found = ok(client.get(f"{FLOWS}/i"))
    assert (found["status"], found["waits_for"]) == ("running", "stock.weigh")
    (asked,) = site.host.child("queue", "stock.weigh").invoke("browse", {})["messages"]
    assert (asked["correlation_id"], asked["reply_to"]) == ("i:weigh", "queue://events")
    assert "ann: the scales are back" in [each["reason"] for each in ok(client.get(f"{FLOWS}/i/history"))["result"]]
    assert [each["operation"] for each in trail.records if each["action"] == "operation"] == ["retry"]
    counts = ok(client.get(f"{ROOT}/workflow/main/shop/flows/order"))
    assert (counts["running"], counts["parked"]) == (1, 0)
    refused = error_of(client.post(f"{FLOWS}/i/skip", json={}), 409)
    assert "only one that is parked" in refused["reason"]
    ok(client.post(f"{FLOWS}/i/park", json={"reason": "wait"}))
    ok(client.post(f"{FLOWS}/i/cancel", json={"reason": "the customer left"}))
    assert ok(client.get(f"{FLOWS}/i"))["status"] == "compensating"
    error_of(client.post(f"{FLOWS}/i/park", json={}), 422)


@pytest.mark.realises("BJ-HTTP-4")
def test_of_two_who_decide_about_what_they_saw_the_second_is_told(site: Site, store: FlowStore) -> None:
    keep(store, "i", *parked("i"))
    first, second = site.client(), site.client()
    answer = first.get(f"{FLOWS}/i")
    seen, revision = answer.headers["etag"], answer.json()["revision"]
    ok(first.post(f"{FLOWS}/i/retry", json={}, headers={"if-match": seen}))
    assert error_of(second.post(f"{FLOWS}/i/cancel", json={"reason": "no"}, headers={"if-match": seen}), 412)
    told = error_of(second.post(f"{FLOWS}/i/cancel", json={"reason": "no", "revision": revision}), 412)
    assert f"was at revision {revision} when you looked at it" in told["reason"]
    found = first.get(f"{FLOWS}/i")
    assert found.json()["status"] == "running"
    ok(second.post(f"{FLOWS}/i/cancel", json={"reason": "no"}, headers={"if-match": found.headers["etag"]}))


def test_who_may_see_a_store_may_see_what_is_in_it_and_no_more(site: Site, store: FlowStore) -> None:
    keep(store, "i", *parked("i"))
    bob, carol = site.client("bob"), site.client("carol")
    assert names(ok(bob.get(FLOWS))) == ["i"]
    assert names(ok(bob.get(FLOWS, params={"filter": "attempt = 1"}))) == ["i"]
    assert ok(bob.get(f"{FLOWS}/i"))["status"] == "parked"
    error_of(bob.get(f"{FLOWS}/i/data"), 403)
    error_of(bob.get(f"{FLOWS}/i/find_messages"), 403)
    assert ok(carol.get(f"{FLOWS}/i/data"))["result"] == {"item": "tea"}
    for client in (bob, carol):
        error_of(client.post(f"{FLOWS}/i/retry", json={}), 403)
    site.access.replace(())
    assert ok(bob.get(FLOWS))["total"] == 0
    error_of(bob.get(f"{FLOWS}/i"), 403)


def test_pictures_are_harmless_whatever_the_texts_in_them_are(site: Site, store: FlowStore) -> None:
    evil = '"><script>alert(1)</script><image href="javascript:alert(1)" onload="x"/>'
    step = {"name": "a", "queue": evil, "compensation": evil, "state": evil}
    flow = supply_flow(name="evil", title=evil, initial_state=evil, step=[step])
    store.deploy(flow)
    keep(store, "i", Suspend(reason=evil), flow=flow)
    client = site.client()
    drawn = [
        ok(client.get(f"{ROOT}/workflow/main/shop/flows/evil/picture"))["result"],
        ok(client.get(f"{FLOWS}/i/picture"))["result"],
    ]
    for picture in drawn:
        tags = {re.sub(r"\{.*\}", "", each.tag) for each in ET.fromstring(picture).iter()}
        assert tags <= {"svg", "title", "style", "defs", "marker", "path", "text", "g", "rect"}
        attributes = {name for each in ET.fromstring(picture).iter() for name in each.attrib}
        assert not [name for name in attributes if name.startswith("on") or name.endswith("href")]
    assert "parked" in drawn[1]


def test_metrics_tell_of_instances_and_of_stores_that_are_away(
    site: Site, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, "i", *parked("i"))
    assert measured(site, "pyjms_workflow_parked") == {("main", "shop", "flows", "order"): 1.0}
    assert measured(site, "pyjms_workflow_running") == {("main", "shop", "flows", "order"): 0.0}
    assert measured(site, "pyjms_workflow_store_is_reachable") == {("main", "shop", "flows"): 1.0}
    lose(site, monkeypatch)
    assert measured(site, "pyjms_workflow_parked") == {}
    assert measured(site, "pyjms_workflow_store_is_reachable") == {("main", "shop", "flows"): 0.0}


def test_a_store_that_is_away_is_told_and_hides_nothing_else(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(site, monkeypatch)
    client = site.client()
    found = ok(client.get(f"{ROOT}/workflow_store/main/shop/flows"))
    assert (found["state"], found["parked"], found["is_reachable"]) == ("active", None, False)
    assert "disk I/O error" in found["last_error"]
    assert "disk I/O error" in error_of(client.get(FLOWS), 503)["reason"]
    assert ok(client.get(f"{ROOT}/queue"))["total"] == 0
    site.queue("orders")
    for category, name in (("queue", "orders"), ("workflow_store", "flows")):
        known = str(site.host.child(category, name).id)
        assert ok(client.get(f"{ROOT}/{category}", params={"id": known}))["name"] == name
        assert find_by_id(site.system, UUID(known)) is not None
    unknown = {"id": str(UUID(int=1))}
    error_of(client.get(f"{ROOT}/queue", params=unknown), 404)
    assert error_of(client.get(f"{ROOT}/workflow", params=unknown), 503)["code"] == "PYJMS-WORKFLOW-STORE"


def test_what_cannot_be_opened_is_refused_and_a_password_in_a_url_too(site: Site, tmp_path: Path) -> None:
    client, address = site.client(), f"{ROOT}/workflow_store/main/shop"
    lost = {"name": "lost", "store_url": "sqlite:////nowhere/at/all.db"}
    assert "cannot be opened" in error_of(client.post(address, json=lost), 503)["reason"]
    told = {"name": "told", "store_url": "postgresql+psycopg://ann:hush@localhost/flows"}
    assert error_of(client.post(address, json=told), 422)["problems"][0]["name"] == "store_url"
    for url in ("no URL", "nosuch://localhost/flows", "sqlite://host:port/x"):
        refused = error_of(client.post(address, json={"name": "odd", "store_url": url}), 422)
        assert "write such as sqlite:///flows.db" in refused["reason"]
    assert names(ok(client.get(address))) == ["flows"]
    ok(client.patch(f"{address}/flows", json={"store_url": f"sqlite:///{tmp_path / 'other.db'}"}))
    assert ok(client.get(f"{address}/flows"))["definitions"] == 0
    ok(client.post(f"{address}/flows/stop"))
    assert ok(client.get(FLOWS))["total"] == 0
    error_of(client.get(f"{FLOWS}/i"), 404)
    ok(client.post(f"{address}/flows/start"))


def test_management_messages_see_and_steer_them_as_well(site: Site, store: FlowStore) -> None:
    keep(store, "i", *parked("i"))

    def ask(**data: Any) -> Any:
        names = ["flows", *data.pop("names", ())]
        return MessageRequest(Scope(site.management, site.caller(), ("main", "shop")), {**data, "names": names}).run()

    listed = ask(action="list", category="workflow_instance", filter="status = 'parked'")
    assert [each["name"] for each in listed["items"]] == ["i"]
    wanted = {"category": "workflow_instance", "names": ["i"]}
    ask(action="invoke", operation="skip", arguments={"revision": listed["items"][0]["revision"]}, **wanted)
    assert ask(action="get", **wanted)["step"] == "pay"


def lose(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the database of the store fail from now on."""
    from pyjms.flows.definition import FlowStoreException

    store: Any = site.host.child("workflow_store", "flows")

    def fail(*_: object) -> None:
        raise FlowStoreException("disk I/O error")

    monkeypatch.setattr(store.repository._store, "_run", fail)
    store.forget_overview()


def measured(site: Site, metric: str) -> dict[tuple[str, ...], float]:
    with site.client(None) as client:
        text = client.get("/metrics").text
    return {
        tuple(
            sample.labels[each]
            for each in ("virtual_host_node", "virtual_host", "workflow_store", "workflow")
            if each in sample.labels
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == metric
    }
