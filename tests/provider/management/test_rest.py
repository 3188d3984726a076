"""The REST API: what can be asked of the tree, and with which status each question is answered."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.management.describing import FACTS
from pyjms_provider.management.rest import requests
from tests.provider.clients.world import consume
from tests.provider.helpers import RecordedEvents
from tests.provider.management.world import ROOT, Site, error_of, ok

ORDERS = f"{ROOT}/queue/main/shop/orders"


# Looking


@pytest.mark.realises("BJ-HTTP-1", "BJ-HTTP-3", "BJ-HTTP-4", "BJ-GEN-3")
def test_an_object_is_had_by_the_names_on_the_way_to_it(site: Site, ann: TestClient) -> None:
    site.queue(max_messages=7)
    found = ok(ann.get(ORDERS))
    assert found["names"] == ["main", "shop", "orders"]
    assert (found["category"], found["state"], found["max_messages"], found["depth"]) == ("queue", "active", 7, 0)


@pytest.mark.realises("BJ-HTTP-3")
def test_an_object_is_had_by_its_id_and_changed_and_deleted_by_it(site: Site, ann: TestClient) -> None:
    wanted = {"id": str(site.queue().id)}
    assert ok(ann.get(f"{ROOT}/queue", params=wanted))["name"] == "orders"
    assert ok(ann.patch(f"{ROOT}/queue", params=wanted, json={"paused": True}))["paused"] is True
    assert ok(ann.delete(f"{ROOT}/queue", params=wanted), 204) is None
    error_of(ann.get(f"{ROOT}/queue", params=wanted), 404)
    error_of(ann.get(f"{ROOT}/queue", params={"id": "no-uuid"}), 400)
    error_of(ann.get(f"{ROOT}/port", params=wanted), 404)


@pytest.mark.realises("BJ-HTTP-2")
def test_the_newest_version_has_a_number_too(site: Site, ann: TestClient) -> None:
    site.queue()
    assert ok(ann.get("/api/v1/queue/main/shop/orders"))["id"] == ok(ann.get(ORDERS))["id"]
    error_of(ann.get("/api/v2/queue/main/shop/orders"), 404)


def test_names_may_hold_any_character(site: Site, ann: TestClient) -> None:
    name = "a/b %?#é日 ."
    site.queue(name)
    assert ok(ann.get(f"{ROOT}/queue/main/shop/{quote(name, safe='')}"))["name"] == name
    error_of(ann.get(f"{ROOT}/queue/main/shop/%ff"), 400)


def test_who_names_what_is_not_there_hears_what_is(site: Site, ann: TestClient) -> None:
    for name in "abcdefghijkl":
        site.queue(name)
    many = "; there are: " + ", ".join(map(repr, "abcdefghij")) + " and 2 more"
    lacks = "broker shop has no virtual_host_node 'default'; there are: 'main'"
    for path, told in (
        ("queue/main/shop/x", f"virtual_host main/shop has no queue 'x'{many}"),
        ("queue/main/default/x", "virtual_host_node main has no virtual_host 'default'; there are: 'shop'"),
        ("queue/default/default/x", lacks),
        ("queue/default", lacks),
        ("port/x", "broker shop has no port 'x'"),
    ):
        assert error_of(ann.get(f"{ROOT}/{path}"), 404)["reason"] == told
    assert error_of(ann.post(f"{ROOT}/queue/default/default", json={"name": "x"}), 404)["reason"] == lacks


@pytest.mark.realises("BJ-HTTP-4")
def test_lists_go_from_the_broad_to_the_narrow(site: Site, ann: TestClient) -> None:
    site.queue("a")
    site.queue("b")
    for address in ("queue", "queue/main", "queue/main/shop", "queue/main/shop/"):
        page = ok(ann.get(f"{ROOT}/{address}"))
        assert ([each["name"] for each in page["items"]], page["total"], page["offset"]) == (["a", "b"], 2, 0)
    error_of(ann.get(f"{ROOT}/queue/other"), 404)
    assert ok(ann.get(f"{ROOT}/broker"))["name"] == "shop"
    assert ok(ann.get(f"{ROOT}/port")) == {"items": [], "total": 0, "offset": 0}


@pytest.mark.realises("BJ-MGT-1", "BJ-MOD-1", "BJ-ATT-2", "BJ-AMQPM-3")
def test_the_description_of_the_model_tells_all_of_every_object(site: Site, ann: TestClient) -> None:
    site.queue()
    ok(ann.post(f"{ROOT}/port", json={"name": "web", "type": "http", "port": 0}), 201)
    ok(ann.post(f"{ROOT}/access_control", json={"name": "rules", "rules": []}), 201)
    described = {each["category"]: each for each in ok(ann.get(f"{ROOT}/description"))["categories"]}
    assert {"broker", "virtual_host_node", "virtual_host", "queue", "port", "access_control"} <= described.keys()
    seen: set[str] = set()
    for category, told in described.items():
        if told["parent"] is not None:
            assert told["parent"] in described
        found = ok(ann.get(f"{ROOT}/{category}"))
        for each in found.get("items", [found]):
            seen.add(category)
            (kind,) = [known for known in told["kinds"] if (each.get("type") or "") in {*known["types"], ""}]
            attributes = {known["name"]: known for known in kind["attributes"]}
            assert attributes.keys() <= each.keys()
            cheap = {known["name"] for known in kind["statistics"] if not known["is_costly"]}
            assert each.keys() - attributes.keys() - FACTS == cheap
            fixed = [name for name, known in attributes.items() if not known["is_mutable"] and name != "type"]
            for name in fixed if category in {"queue", "port"} else []:
                place = "/".join([category, *each["names"]])
                refused = ann.patch(f"{ROOT}/{place}", json={name: f"other {each[name]}"})
                assert refused.status_code in {409, 422}, (category, name, refused.text)
    assert seen >= {"broker", "virtual_host_node", "virtual_host", "queue", "port", "access_control"}


def names_of(page: dict[str, Any]) -> list[str]:
    return [each["name"] for each in page["items"]]


def test_lists_are_filtered_sorted_and_cut(site: Site, ann: TestClient) -> None:
    for number, name in enumerate("dacb"):
        site.queue(name, paused=name == "a")
        site.publish(name, *map(str, range(number)))

    def listed(**query: Any) -> list[str]:
        return names_of(ok(ann.get(f"{ROOT}/queue", params=query)))

    assert listed() == ["a", "b", "c", "d"]
    assert listed(sort="-depth") == ["b", "c", "a", "d"]
    assert listed(sort="paused,-name") == ["d", "c", "b", "a"]
    assert listed(filter="depth > 1") == ["b", "c"]
    assert listed(filter="paused AND name LIKE 'a%'") == ["a"]
    assert listed(filter="key IS NULL", sort="-name", offset=1, limit=2) == ["c", "b"]
    assert listed(filter="1 = 2") == []
    page = ok(ann.get(f"{ROOT}/queue", params={"filter": "depth >= 1", "limit": 1, "offset": 2}))
    assert (page["total"], page["offset"], names_of(page)) == (3, 2, ["c"])


def test_only_the_fields_that_are_asked_for_are_sent(site: Site, ann: TestClient) -> None:
    site.queue(description="${this:name}")
    assert ok(ann.get(ORDERS, params={"fields": "name,bytes"})) == {"name": "orders", "bytes": 0}
    page = ok(ann.get(f"{ROOT}/queue", params={"fields": "depth"}))
    assert page["items"] == [{"depth": 0}]


def test_attributes_are_shown_as_they_were_given(site: Site, ann: TestClient) -> None:
    ok(ann.patch(f"{ROOT}/virtual_host/main/shop", json={"memory_bytes": "7MB", "context": {"most": "5"}}))
    ok(ann.put(ORDERS, json={"max_messages": "${most}"}), 201)
    assert ok(ann.get(ORDERS))["max_messages"] == 5
    assert ok(ann.get(ORDERS, params={"actual": "true"}))["max_messages"] == "${most}"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("limit=0", "1 to 1000"),
        ("limit=1001", "1 to 1000"),
        ("limit=-1", "from 0"),
        ("offset=1e3", "from 0"),
        ("offset=1000000000", "from 0 to 999999999"),
        ("offset=99999999999999999999", "from 0"),
        ("actual=yes", "true or false"),
        ("colour=red", "no option 'colour'"),
        ("limit=1&limit=2", "twice"),
        ("fields=nmae", "did you mean name?"),
        ("sort=dpeth", "did you mean depth?"),
        ("filter=dpeth%20%3E%201", "did you mean depth?"),
        ("filter=depth%20%3E", "selector"),
        ("fields=%ff", "UTF-8"),
    ],
)
def test_a_wrong_question_is_told_what_is_wrong(site: Site, ann: TestClient, query: str, told: str) -> None:
    site.queue()
    assert told in error_of(ann.get(f"{ROOT}/queue?{query}"), 400)["reason"]


def test_an_object_takes_no_options_of_lists(site: Site, ann: TestClient) -> None:
    site.queue()
    error_of(ann.get(ORDERS, params={"limit": 5}), 400)
    error_of(ann.post(f"{ORDERS}/purge", params={"selector": "TRUE"}), 400)
    error_of(ann.patch(ORDERS, params={"fields": "name"}, json={}), 400)


@pytest.mark.parametrize("category", ["colour", "system_config", ""])
def test_there_are_only_the_categories_of_the_tree(ann: TestClient, category: str) -> None:
    error_of(ann.get(f"{ROOT}/{category}"), 404)


def test_what_a_stopped_host_cannot_tell_is_null(site: Site, ann: TestClient) -> None:
    ok(ann.post(f"{ROOT}/virtual_host/main/shop/stop"))
    found = ok(ann.get(f"{ROOT}/virtual_host/main/shop"))
    assert (found["state"], found["connection_count"]) == ("stopped", 0)
    assert ok(ann.get(f"{ROOT}/queue"))["items"] == []
    error_of(ann.get(ORDERS), 404)


def test_an_object_in_error_is_shown_with_its_reason(site: Site, ann: TestClient) -> None:
    created = {"name": "p", "type": "stomp", "port": 0, "authentication_providers": ["nobody"]}
    problem = error_of(ann.post(f"{ROOT}/port", json=created), 422)["problems"][0]
    assert problem["name"].startswith("authentication_providers")
    error_of(ann.get(f"{ROOT}/port/p"), 404)


# Changing


@pytest.mark.realises("BJ-HTTP-4")
def test_objects_are_created_changed_and_deleted(site: Site, ann: TestClient) -> None:
    made = ok(ann.post(f"{ROOT}/queue/main/shop", json={"name": "orders", "max_messages": 5}), 201)
    assert made["created_by"] == "ann"
    assert ok(ann.patch(ORDERS, json={"max_messages": 6}))["max_messages"] == 6
    assert ok(ann.post(ORDERS, json={"paused": True, "name": "orders"}))["max_messages"] == 6
    assert ok(ann.put(ORDERS, json={"max_messages": None}))["max_messages"] == 0
    assert ok(ann.delete(ORDERS), 204) is None
    error_of(ann.delete(ORDERS), 404)
    assert ok(ann.put(ORDERS, json={"exclusive": True}), 201)["exclusive"] is True
    error_of(ann.put(f"{ROOT}/queue/main/shop/other", json={"name": "another"}), 400)


@pytest.mark.realises("BJ-HTTP-5")
def test_users_stores_of_keys_and_ports_are_managed_as_all_else(site: Site, ann: TestClient, tmp_path: Any) -> None:
    file = str(tmp_path / "users")
    ok(ann.post(f"{ROOT}/authentication_provider", json={"name": "u", "type": "user-file", "path": file}), 201)
    user = {"name": "dora", "password": "correct horse battery", "groups": ["staff"]}
    assert ok(ann.post(f"{ROOT}/user/u", json=user), 201)["groups"] == ["staff"]
    port = {"name": "web", "type": "http", "port": 0, "authentication_providers": ["u"]}
    assert ok(ann.post(f"{ROOT}/port", json=port), 201)["addresses"] == ["pretended://here"]
    assert error_of(ann.delete(f"{ROOT}/authentication_provider/u"), 409)["code"] == "PYJMS-MODEL-IN-USE"
    ok(ann.delete(f"{ROOT}/port/web"), 204)
    ok(ann.delete(f"{ROOT}/authentication_provider/u"), 204)


def test_a_change_is_made_whole_or_not_at_all(site: Site, ann: TestClient) -> None:
    site.queue()
    refused = error_of(ann.patch(ORDERS, json={"max_messages": 5, "max_bytes": "many", "colour": "red"}), 422)
    assert {each["name"] for each in refused["problems"]} == {"max_bytes", "colour"}
    assert ok(ann.get(ORDERS))["max_messages"] == 0


@pytest.mark.parametrize(
    ("method", "address", "body", "status"),
    [
        ("POST", "queue/main/shop", {"name": "orders"}, 409),
        ("PATCH", "queue/main/shop/orders", {"name": "other"}, 409),
        ("PATCH", "queue/main/shop/orders", {"max_messages": 10**30}, 422),
        ("POST", "queue/main/shop", {}, 422),
        ("POST", "queue/main/shop", {"name": ""}, 422),
        ("POST", "queue/main/shop", {"name": ["a"]}, 422),
        ("POST", "queue/main/shop", {"name": "x" * 300}, 422),
        ("POST", "queue/main/shop", {"name": "x", "type": "colourful"}, 422),
        ("POST", "port", {"name": "x", "type": "colourful"}, 404),
        ("POST", "virtual_host/main", {"name": "second"}, 409),
        ("POST", "virtual_host/nowhere", {"name": "second"}, 404),
    ],
)
def test_wrong_objects_are_refused(
    site: Site, ann: TestClient, method: str, address: str, body: dict[str, Any], status: int
) -> None:
    site.queue()
    error_of(ann.request(method, f"{ROOT}/{address}", json=body), status)
    assert names_of(ok(ann.get(f"{ROOT}/queue"))) == ["orders"]


def test_what_is_in_use_is_not_deleted(site: Site, ann: TestClient) -> None:
    site.queue()
    connection = VmConnection(site.host.embedded, RecordedEvents())
    session = connection.open_session(transacted=False)
    consumer = consume(session)
    assert error_of(ann.delete(ORDERS), 409)["code"] == "PYJMS-MODEL-IN-USE"
    consumer.close()
    connection.close()
    ok(ann.delete(ORDERS), 204)


# Methods, types, sizes


@pytest.mark.parametrize(
    ("method", "address", "allowed"),
    [
        ("PUT", "queue/main/shop", "GET, HEAD, POST, PATCH, DELETE"),
        ("POST", "queue", "GET, HEAD, PATCH, DELETE"),
        ("PUT", "broker", "GET, HEAD, POST, PATCH"),
        ("DELETE", "broker", "GET, HEAD, POST, PATCH"),
        ("DELETE", "connection/main/shop/1", "GET, HEAD"),
        ("POST", "topic/main/shop", "GET, HEAD"),
        ("GET", "queue/main/shop/orders/purge", "POST"),
        ("PUT", "queue/main/shop/orders/browse", "GET, HEAD, POST"),
        ("POST", "openapi.json", "GET, HEAD"),
        ("OPTIONS", "queue", "DELETE, GET, HEAD, PATCH, POST, PUT"),
    ],
)
def test_a_method_that_does_nothing_is_told_those_that_do(
    site: Site, ann: TestClient, method: str, address: str, allowed: str
) -> None:
    site.queue()
    response = ann.request(method, f"{ROOT}/{address}")
    error_of(response, 405)
    assert response.headers["allow"] == allowed


def test_delete_without_an_address_deletes_nothing(site: Site, ann: TestClient) -> None:
    site.queue()
    error_of(ann.delete(f"{ROOT}/queue"), 400)
    error_of(ann.delete(f"{ROOT}/queue/main/shop"), 400)
    error_of(ann.request("DELETE", ORDERS, json={"force": True}), 400)
    ok(ann.get(ORDERS))


def test_head_looks_and_changes_nothing(site: Site, ann: TestClient) -> None:
    site.queue()
    before = ok(ann.get(ORDERS))
    response = ann.head(ORDERS)
    assert (response.status_code, response.content) == (200, b"")
    assert int(response.headers["content-length"]) > 100
    assert ok(ann.get(ORDERS))["updated_at_ms"] == before["updated_at_ms"]


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"name=orders", {"content-type": "application/x-www-form-urlencoded"}, 415),
        (b'{"name": "x"}', {"content-type": "text/plain"}, 415),
        (b'{"name": "x"}', {}, 415),
        (b"{", JSON, 400),
        (b"[]", JSON, 400),
        (b"null", JSON, 400),
        (b'{"name": "\xff"}', JSON, 400),
        (b'{"name": "\\ud800"}', JSON, 400),
        (b'{"max_messages": NaN}', JSON, 400),
        (b'{"redelivery_multiplier": 1e999}', JSON, 400),
        (b'{"max_messages": ' + b"9" * 5000 + b"}", JSON, 400),
        (b'{"context": ' + b"[" * 200 + b"]" * 200 + b"}", JSON, 400),
        (b'{"context": ' + b"[" * 100_000, JSON, 400),
        (b'"' + b"x" * 5_000_000 + b'"', JSON, 413),
    ],
)
def test_bodies_are_json_of_some_size(ann: TestClient, content: bytes, headers: dict[str, str], status: int) -> None:
    error_of(ann.post(f"{ROOT}/queue/main/shop", content=content, headers=headers), status)


def test_a_body_that_does_not_tell_its_size_is_cut_off_too(ann: TestClient) -> None:
    chunks = iter([b'{"a": "', *[b"x" * 1_000_000] * 6, b'"}'])
    error_of(ann.post(f"{ROOT}/queue/main/shop", content=chunks, headers=JSON), 413)


def test_a_content_type_may_have_parameters(site: Site, ann: TestClient) -> None:
    ok(ann.put(ORDERS, content=b"{}", headers={"content-type": "Application/JSON; charset=utf-8"}), 201)


def test_an_unknown_address_is_told_of_as_any_error(ann: TestClient) -> None:
    for address in ("/nothing", "/api", "/api/latest", f"{ROOT}/queue/a/b/c/d/e"):
        error_of(ann.get(address), 404)


def test_a_long_body_is_not_read_where_all_clients_are_served(
    site: Site, ann: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.queue()
    threads: dict[int, bool] = {}
    read = requests.read_json

    def note(body: bytes) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            threads[len(body)] = False
        else:
            threads[len(body)] = True
        return read(body)

    monkeypatch.setattr(requests, "read_json", note)
    for size in (10, 100_000):
        ok(ann.post(f"{ROOT}/queue/main/shop/orders/publish", json={"message": {"text": "x" * size}}))
    assert list(threads.values()) == [True, False]
