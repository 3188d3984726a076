"""Nobody has an object do for them what the rules deny them, and nobody learns from one what only its broker knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pyjms_provider.model.attributes import MASK
from tests.provider.management.world import ROOT, Site, error_of, ok

QUEUES = f"{ROOT}/queue/main/shop"
ROUTES = f"{ROOT}/route/main/shop"
RULES = """
allow group:admins all *
deny * all queue:payroll
deny * all topic:salaries
allow user:bob create,write,read *
allow user:carol all managed
allow user:carol all queue
allow user:carol all topic
allow user:carol all virtual_host
"""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("DB_PASSWORD", "s3cret")
    made = Site(rules=RULES)
    made.queue("payroll")
    yield made
    made.close()


@pytest.fixture
def carol(site: Site) -> Iterator[TestClient]:
    with site.client("carol") as client:
        yield client


@pytest.mark.parametrize("more", [{"description": "x"}, {"expiry_queue": "other"}, {"context": {}}, {"paused": True}])
def test_first_use_brings_a_queue_without_attributes(site: Site, more: dict[str, Any]) -> None:
    with site.client("bob") as bob:
        error_of(bob.post(QUEUES, json={"name": "bobs", **more}), 403)
        error_of(bob.put(f"{QUEUES}/bobs", json=more), 403)
        assert site.host.find_child("queue", "bobs") is None
        assert bob.post(QUEUES, json={"name": "bobs"}).status_code == 201


def test_first_use_brings_no_virtual_host(site: Site) -> None:
    with site.client("bob") as bob:
        error_of(bob.post(f"{ROOT}/virtual_host/main", json={"name": "b", "description": "${DB_PASSWORD}"}), 403)


@pytest.mark.parametrize(
    "given",
    [
        {"dead_letter": "${DB_PASSWORD}"},
        {"expiry_queue": "${db.password}"},
        {"key": "${a}", "context": {"a": "${DB_PASSWORD}"}},
        {"key": "${chosen}", "context": {"own": "${DB_PASSWORD}"}},
    ],
)
def test_no_queue_tells_the_environment_of_the_broker(site: Site, carol: TestClient, given: dict[str, Any]) -> None:
    site.host.set_attributes({"context": {"chosen": "${own}", "own": "at the host", "wanted": "${DB_PASSWORD}"}})
    answer = carol.post(QUEUES, json={"name": "new", **given})
    assert "s3cret" not in answer.text
    ok(carol.post(QUEUES, json={"name": "q"}), 201)
    assert "s3cret" not in carol.patch(f"{QUEUES}/q", json=given).text
    assert "s3cret" not in carol.get(f"{QUEUES}/q").text


def test_what_a_context_above_takes_from_the_environment_serves_queues(site: Site, carol: TestClient) -> None:
    context = {"wanted": "${DB_PASSWORD}, of ${this:name}; $${x}"}
    site.host.set_attributes({"context": context})
    made = ok(carol.post(QUEUES, json={"name": "q", "dead_letter": "${wanted}"}), 201)
    assert made["dead_letter"] == "s3cret, of q; ${x}"


@pytest.mark.parametrize(
    "given",
    [
        {"expiry_queue": "payroll"},
        {"dead_letter": "payroll"},
        {"expiry_queue": "${x}roll", "context": {"x": "pay"}},
    ],
)
def test_queues_send_only_to_where_their_administrator_may_write(
    site: Site, carol: TestClient, given: dict[str, Any]
) -> None:
    error_of(carol.post(QUEUES, json={"name": "q", **given}), 403)
    ok(carol.post(QUEUES, json={"name": "q"}), 201)
    error_of(carol.patch(f"{QUEUES}/q", json=given), 403)
    ok(carol.patch(f"{QUEUES}/q", json={"expiry_queue": "late", "dead_letter": "DLQ"}))
    with site.client("ann") as ann:
        ok(ann.patch(f"{QUEUES}/q", json=given))
    ok(carol.patch(f"{QUEUES}/q", json={"max_messages": 5}))


def test_another_context_is_asked_about_as_another_value(carol: TestClient) -> None:
    ok(carol.post(QUEUES, json={"name": "q", "expiry_queue": "${x}", "context": {"x": "late"}}), 201)
    error_of(carol.patch(f"{QUEUES}/q", json={"context": {"x": "payroll"}}), 403)


@pytest.mark.parametrize(
    "policy",
    [
        {"queue_defaults": {"dead_letter": "payroll"}},
        {"subscription_defaults": {"expiry_queue": "payroll"}},
        {"queue_patterns": [{"pattern": "mine", "policy": {"expiry_queue": "payroll"}}]},
    ],
)
def test_policies_of_a_host_reach_no_further(carol: TestClient, policy: dict[str, Any]) -> None:
    error_of(carol.patch(f"{ROOT}/virtual_host/main/shop", json=policy), 403)
    ok(carol.patch(f"{ROOT}/virtual_host/main/shop", json={"queue_defaults": {"dead_letter": "theirs"}}))


FORWARD = {"type": "forward", "source": "mine", "targets": [{"queue": "other"}]}
RULED = {"type": "route", "source": "mine", "rules": {"rule": [{"name": "all", "to": ["queue:other"]}]}}


@pytest.mark.parametrize(
    ("good", "wrong"),
    [
        (FORWARD, {"source": "payroll"}),
        (FORWARD, {"source": "pay${x}", "context": {"x": "roll"}}),
        (FORWARD, {"targets": [{"queue": "payroll"}]}),
        (FORWARD, {"targets": [{"topic": "salaries"}]}),
        (FORWARD, {"undeliverable": "payroll"}),
        (RULED, {"source": "payroll"}),
        (RULED, {"rules": {"rule": [{"name": "all", "to": ["queue:payroll"]}]}}),
        (RULED, {"rules": {"targets": {"a": {"topic": "salaries"}}, "rule": [{"name": "all", "to": "a"}]}}),
    ],
)
def test_routes_take_and_send_only_what_their_maker_may(
    site: Site, carol: TestClient, good: dict[str, Any], wrong: dict[str, Any]
) -> None:
    error_of(carol.post(ROUTES, json={"name": "r", **good, **wrong}), 403)
    assert site.host.child_names("route") == []
    ok(carol.post(ROUTES, json={"name": "r", **good}), 201)
    error_of(carol.patch(f"{ROUTES}/r", json=wrong), 403)
    ok(carol.patch(f"{ROUTES}/r", json={"batch": 5}))


SITE = "stomp://127.0.0.1:1"
THERE = {"targets": [{"url": SITE, "queue": "x"}], "user": "berlin", "password": "s3cret"}


def test_a_secret_goes_nowhere_else_unless_it_is_given_anew(carol: TestClient) -> None:
    ok(carol.post(ROUTES, json={"name": "r", "type": "forward", "source": "mine", **THERE}), 201)
    elsewhere = {"targets": [{"url": "stomp://127.0.0.1:2", "queue": "x"}]}
    for kept in ({}, {"password": MASK}):
        problems = error_of(carol.patch(f"{ROUTES}/r", json={**elsewhere, **kept}), 422)["problems"]
        assert [each["name"] for each in problems] == ["password"]
    ok(carol.patch(f"{ROUTES}/r", json={"targets": [{"url": SITE, "queue": "y"}]}))
    ok(carol.patch(f"{ROUTES}/r", json={**elsewhere, "password": "known"}))
    ok(carol.patch(f"{ROUTES}/r", json={**THERE, "password": None}))


def test_the_password_of_a_store_is_shown_to_no_other_database(site: Site, carol: TestClient, tmp_path: Path) -> None:
    address = f"{ROOT}/workflow_store/main/shop"
    made = {"name": "w", "store_url": f"sqlite:///{tmp_path}/w.db", "store_password": "s3cret"}
    error_of(carol.patch(f"{address}/w", json={"store_url": "x"}), 404)
    ok(carol.post(address, json=made), 201)
    problems = error_of(carol.patch(f"{address}/w", json={"store_url": "postgresql://u@127.0.0.1:2/x"}), 422)[
        "problems"
    ]
    assert [each["name"] for each in problems] == ["store_password"]


def test_rules_without_a_file_name_no_files_of_the_broker(carol: TestClient) -> None:
    target = {"url": SITE, "queue": "q", "user": "u", "password_file": "/etc/hostname"}
    rules = {"targets": {"a": target}, "rule": [{"name": "x", "to": "a"}]}
    refused = carol.post(ROUTES, json={"name": "r", "type": "route", "source": "mine", "rules": rules})
    problems = error_of(refused, 422)["problems"]
    assert [each["name"] for each in problems] == ["rules.targets.a.password_file"]


def test_variables_that_double_are_refused_at_once(site: Site, carol: TestClient) -> None:
    bomb = {"v0": "0123456789", **{f"v{n}": f"${{v{n - 1}}}${{v{n - 1}}}" for n in range(1, 60)}}
    error_of(carol.post(QUEUES, json={"name": "q", "context": bomb}), 422)
    error_of(carol.post(QUEUES, json={"name": "q", "context": bomb, "dead_letter": "${v59}"}), 422)
    error_of(carol.patch(f"{ROOT}/virtual_host/main/shop", json={"context": bomb}), 422)
    error_of(carol.post(QUEUES, json={"name": "q", "description": "x" * 10_001}), 422)
    ok(carol.post(QUEUES, json={"name": "q", "description": "x" * 10_000}), 201)
