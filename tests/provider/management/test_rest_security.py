"""Who may do what through REST, and what is told of it: log-ins, forged requests, permissions, secrets, the audit log."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from pyjms.testing import VirtualClock
from pyjms_provider.management.rest.app import RestSettings
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import MASK, declarations
from tests.provider.management.world import ROOT, AuditTrail, Site, basic, error_of, ok

ORDERS = f"{ROOT}/queue/main/shop/orders"
SECRET = "s3cr3t-that-nobody-may-see"


# Who asks


@pytest.mark.parametrize(
    "header",
    [
        None,
        basic("ann", "wrong"),
        basic("nobody", "x"),
        "Bearer wrong",
        "Bearer ",
        "Basic !!!",
        "Basic YQ==",
        "Digest x",
    ],
)
def test_who_cannot_say_who_they_are_is_refused(site: Site, header: str | None) -> None:
    with site.client(None) as client:
        response = client.get(f"{ROOT}/broker", headers={} if header is None else {"authorization": header})
        error_of(response, 401)
        assert response.headers["www-authenticate"].startswith("Basic ")
        quiet = {"x-requested-with": "console", **({} if header is None else {"authorization": header})}
        assert "www-authenticate" not in client.get(f"{ROOT}/broker", headers=quiet).headers


def test_a_bearer_token_serves_as_well_as_a_password(site: Site) -> None:
    with site.client(None) as client:
        found = ok(client.get("/api/whoami", headers={"authorization": "bearer ann's-token"}))
        assert found == {"user_name": "ann", "groups": ["admins"]}


def log_in(client: TestClient, user: str = "ann") -> dict[str, str]:
    found = ok(client.post("/api/login", json={"user_name": user, "password": f"{user}'s-password"}))
    return {"x-csrf-token": found["csrf_token"]}


def test_a_session_needs_no_password_but_a_token_for_each_change(site: Site) -> None:
    site.queue()
    with site.client(None) as client:
        token = log_in(client)
        assert ok(client.get(ORDERS))["name"] == "orders"
        assert ok(client.get("/api/whoami"))["csrf_token"] == token["x-csrf-token"]
        for wrong in ({}, {"x-csrf-token": "other"}):
            refused = error_of(client.patch(ORDERS, json={"paused": True}, headers=wrong), 403)
            assert refused["code"] == "PYJMS-FORGED"
        assert ok(client.patch(ORDERS, json={"paused": True}, headers=token))["paused"] is True


def test_the_cookie_of_a_session_is_kept_from_scripts_and_other_sites() -> None:
    for is_secure in (False, True):
        site = Site(settings=RestSettings(is_secure=is_secure))
        with site.client(None) as client:
            body = {"user_name": "ann", "password": "ann's-password"}
            cookie = client.post("/api/login", json=body).headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert ("secure" in cookie) is is_secure
        site.close()


def test_a_session_ends_when_nobody_uses_it_or_at_the_end_of_the_day(site: Site) -> None:
    clock = site.clock
    assert isinstance(clock, VirtualClock)
    with site.client(None) as client:
        log_in(client)
        clock.advance(29 * 60_000)
        ok(client.get(f"{ROOT}/broker"))
        clock.advance(31 * 60_000)
        error_of(client.get(f"{ROOT}/broker"), 401)
        log_in(client)
        for _ in range(24):
            clock.advance(29 * 60_000)
            ok(client.get(f"{ROOT}/broker"))
        clock.advance(29 * 60_000)
        error_of(client.get(f"{ROOT}/broker"), 401)


def test_after_log_out_the_cookie_is_worth_nothing(site: Site) -> None:
    with site.client(None) as client:
        token = log_in(client)
        cookie = client.cookies["pyjms_session"]
        ok(client.post("/api/logout", headers=token), 204)
        client.cookies.set("pyjms_session", cookie)
        error_of(client.get(f"{ROOT}/broker"), 401)


@pytest.mark.parametrize("body", [{}, {"user_name": "ann"}, {"user_name": "ann", "password": 1}])
def test_a_log_in_has_a_name_and_a_password(site: Site, body: dict[str, Any]) -> None:
    with site.client(None) as client:
        error_of(client.post("/api/login", json=body), 400)
        error_of(client.post("/api/login", json={"user_name": "ann", "password": "wrong"}), 401)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://[::1"},
        {"origin": "http://localhost/page"},
        {"origin": "localhost"},
        {"origin": ""},
    ],
)
def test_a_remembered_password_serves_no_other_site(site: Site, ann: TestClient, headers: dict[str, str]) -> None:
    site.queue()
    assert error_of(ann.post(f"{ORDERS}/purge", headers=headers), 403)["code"] == "PYJMS-FORGED"
    ok(ann.get(ORDERS, headers=headers))


def test_who_is_not_logged_in_makes_no_fault_with_an_origin_that_is_none(site: Site) -> None:
    with site.client(None) as nobody:
        assert (
            error_of(nobody.post(f"{ORDERS}/purge", headers={"origin": "http://[::1"}), 403)["code"] == "PYJMS-FORGED"
        )


@pytest.mark.parametrize("headers", [{"sec-fetch-site": "same-origin"}, {"origin": "http://localhost"}, {}])
def test_own_pages_and_programs_may_change(site: Site, ann: TestClient, headers: dict[str, str]) -> None:
    site.queue()
    ok(ann.post(f"{ORDERS}/purge", headers=headers))


def test_every_answer_tells_browsers_to_be_careful(site: Site, ann: TestClient) -> None:
    for address in (f"{ROOT}/broker", f"{ROOT}/nothing", "/nothing"):
        headers = ann.get(address).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'self'" in headers["content-security-policy"]


def test_a_fault_of_the_broker_is_told_without_its_details(
    site: Site, ann: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(site.management, "find", fail)
    response = ann.get(f"{ROOT}/broker")
    assert "PYJMS-REST-1" in error_of(response, 500)["reason"]
    assert SECRET not in response.text


# What they may do


def test_lists_show_only_what_somebody_may_see(site: Site) -> None:
    for name in ("orders", "orders.old", "secret"):
        site.queue(name)
    with site.client("bob") as bob:
        page = ok(bob.get(f"{ROOT}/queue"))
        assert ([each["name"] for each in page["items"]], page["total"]) == (["orders", "orders.old"], 2)
        assert ok(bob.get(f"{ROOT}/queue", params={"filter": "depth = 0", "sort": "-name"}))["total"] == 2
        error_of(bob.get(f"{ROOT}/queue/main/shop/secret"), 403)
        error_of(bob.get(f"{ROOT}/queue", params={"id": str(site.host.child("queue", "secret").id)}), 404)


@pytest.mark.parametrize("host", ["xthere", "none"])
def test_nobody_hears_whether_there_is_a_parent_that_they_may_not_see(site: Site, host: str) -> None:
    """It is the same answer, save for the name, for what is below a parent that is there and for what is below none."""
    node = site.system.broker.create_child("virtual_host_node", {"name": "xthere", "type": "memory"})
    node.create_child("virtual_host", {"name": "xthere"})

    def answers(client: TestClient, name: str) -> list[tuple[int, str]]:
        below = host.replace("xthere", name)
        given = [
            client.request(method, f"{ROOT}/{category}/{address}{rest}", json=body)
            for address in (name, f"{name}/{below}", f"{name}/{below}/x", f"{name}/{below}/orders")
            for category in ("queue", "topic", "subscription", "route", "connection", "dead_letter", "virtual_host")
            for method, rest, body in (
                ("GET", "", None),
                ("PUT", "", {"description": "x"}),
                ("PATCH", "", {"description": "x"}),
                ("POST", "", {"name": "x"}),
                ("POST", "/purge", {}),
                ("DELETE", "", None),
            )
        ]
        return [(each.status_code, each.text.replace(name, "NAME")) for each in given]

    with site.client("bob") as bob:
        there, gone = answers(bob, "xthere"), answers(bob, "xgone")
    assert [pair for pair in zip(there, gone, strict=True) if pair[0] != pair[1]] == []


def test_who_may_look_may_not_change(site: Site) -> None:
    site.queue()
    with site.client("bob") as bob:
        for response in (
            bob.patch(ORDERS, json={"paused": True}),
            bob.put(ORDERS, json={"paused": True}),
            bob.delete(ORDERS),
            bob.post(f"{ORDERS}/purge"),
            bob.post(f"{ORDERS}/purge", headers={"prefer": "respond-async"}),
            bob.post(f"{ROOT}/queue/main/shop", json={"name": "new"}),
        ):
            error_of(response, 403)
        ok(bob.post(f"{ORDERS}/browse"))
        ok(bob.post(f"{ROOT}/queue/main/shop", json={"name": "bob.own"}), 201)
    assert site.host.child_names("queue") == ["bob.own", "orders"]


def test_messages_are_moved_only_to_where_their_mover_may_write(site: Site) -> None:
    site.queue()
    site.queue("payments")
    site.publish("orders", "one")
    with site.client("carol") as carol:
        for name in ("move_messages", "copy_messages"):
            for target in ("payments", "new"):
                error_of(carol.post(f"{ORDERS}/{name}", json={"target": target}), 403)
        ok(carol.post(f"{ORDERS}/purge"))
    assert site.host.child_names("queue") == ["orders", "payments"]


# What is written down


def test_every_change_is_audited_with_what_came_of_it(site: Site, ann: TestClient, trail: AuditTrail) -> None:
    ok(ann.post(f"{ROOT}/queue/main/shop", json={"name": "orders"}), 201)
    ok(ann.patch(ORDERS, json={"max_messages": 5}))
    ok(ann.post(f"{ORDERS}/purge"))
    ok(ann.get(ORDERS))
    ok(ann.delete(ORDERS), 204)
    error_of(ann.post(f"{ROOT}/queue/main/shop", json={"name": "x", "max_messages": -1}), 422)
    with site.client("carol") as carol:
        error_of(carol.post(f"{ROOT}/queue/main/shop", json={"name": "x"}), 403)
    told = [(each["who"], each["action"], each["target"], each["result"]) for each in trail.records]
    assert told == [
        ("ann", "create", "queue/main/shop/orders", "done"),
        ("ann", "change", "queue/main/shop/orders", "done"),
        ("ann", "operation", "queue/main/shop/orders", "done"),
        ("ann", "delete", "queue/main/shop/orders", "done"),
        ("ann", "create", "queue/main/shop/x", "failed"),
        ("carol", "create", "queue/main/shop/x", "refused"),
    ]
    changed = trail.records[1]
    assert (changed["after"], changed["peer"]) == ({"max_messages": 5}, "testclient")
    assert trail.records[2]["operation"] == "purge"


def test_a_long_operation_that_is_refused_as_a_job_is_audited_as_another_one_is(
    site: Site, ann: TestClient, trail: AuditTrail
) -> None:
    site.queue("orders")
    later = {"prefer": "respond-async"}
    with site.client("bob") as bob:
        error_of(bob.post(f"{ORDERS}/purge", headers=later), 403)
    error_of(ann.post(f"{ORDERS}/move_messages", json={"target": ""}, headers=later), 422)
    error_of(ann.post(f"{ORDERS}/purge", headers={**later, "if-match": '"another"'}), 412)
    told = [(each["who"], each["operation"], each["result"]) for each in trail.records]
    assert told == [("bob", "purge", "refused"), ("ann", "move_messages", "failed"), ("ann", "purge", "failed")]


def test_who_is_refused_metrics_is_audited(trail: AuditTrail) -> None:
    site = Site(settings=RestSettings(metrics="login"))
    with site.client(None) as nobody:
        assert nobody.get("/metrics", headers={"authorization": basic("ann", "guessed")}).status_code == 401
        assert nobody.get("/metrics").status_code == 401
    assert [(each["action"], each["result"], each["target"]) for each in trail.records] == [
        ("log_in", "refused", "ann")
    ]
    site.close()


def test_a_log_in_does_not_end_in_a_session_when_the_user_is_shut_out_meanwhile(
    site: Site, trail: AuditTrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticate = site.people.authenticate

    def shut_out_meanwhile(*arguments: Any, **options: Any) -> Any:
        principal = authenticate(*arguments, **options)
        site.management.end_sessions("people", "ann")
        return principal

    body = {"user_name": "ann", "password": "ann's-password"}
    with site.client(None) as client:
        with monkeypatch.context() as patched:
            patched.setattr(site.people, "authenticate", shut_out_meanwhile)
            answer = client.post("/api/login", json=body)
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
        ok(client.post("/api/login", json=body))
    assert [each["result"] for each in trail.records] == ["refused", "done"]


def test_log_ins_are_audited(site: Site, trail: AuditTrail) -> None:
    with site.client(None) as client:
        client.post("/api/login", json={"user_name": "ann", "password": "wrong"})
        ok(client.post("/api/logout", headers=log_in(client)), 204)
    assert [(each["action"], each["result"]) for each in trail.records] == [
        ("log_in", "refused"),
        ("log_in", "done"),
        ("log_out", "done"),
    ]


SECURE = [
    (shape.category, name, attribute)
    for shape in tree.TREE.values()
    for name in tree.types_of(shape.category)
    for attribute, declared in declarations(tree.class_of(shape.category, name)[1].attributes_class).items()
    if declared.is_secure
]
PARENTS = {"user": "authentication_provider/users", "virtual_host": "virtual_host_node/second"}
MANDATORY: dict[str, dict[str, Any]] = {
    "virtual_host": {"store_url": "sqlite:///{folder}/x.db"},
    "virtual_host_node": {"url": "sqlite:///{folder}/n.db", "key_file": "{folder}/n.key"},
    "key_store": {"certificate_file": "{folder}/missing.pem"},
    "authentication_provider": {"url": "https://localhost:1/introspect", "client_id": "broker"},
    "user": {"groups": []},
    "route": {"source": "orders", "targets": [{"queue": "copies"}]},
    "receiver": {"kind": "http", "queue": "orders"},
    "workflow_store": {"store_url": "sqlite:///{folder}/w.db"},
}


LIKE_A_SECRET = re.compile("password|passphrase|passcode|secret|token|credential|private")


@pytest.mark.realises("BJ-ATT-3")
def test_every_attribute_that_is_called_like_a_secret_is_secure() -> None:
    called_so = [
        (shape.category, name, attribute)
        for shape in tree.TREE.values()
        for name in tree.types_of(shape.category)
        for attribute in declarations(tree.class_of(shape.category, name)[1].attributes_class)
        if LIKE_A_SECRET.search(attribute)
    ]
    assert called_so == SECURE
    assert {category for category, _, _ in SECURE} >= {"user", "virtual_host", "key_store"}


@pytest.mark.realises("BJ-ATT-3")
@pytest.mark.parametrize(("category", "kind", "attribute"), SECURE, ids=str)
def test_no_secret_leaves_in_an_answer_a_log_or_the_audit(
    site: Site,
    ann: TestClient,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Any,
    category: str,
    kind: str,
    attribute: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    file = str(tmp_path / "users")
    ok(ann.post(f"{ROOT}/authentication_provider", json={"name": "users", "type": "user-file", "path": file}), 201)
    ok(ann.post(f"{ROOT}/virtual_host_node", json={"name": "second", "type": "memory"}), 201)
    above = PARENTS.get(category, "")
    address = f"{ROOT}/{category}{above[above.index('/') :] if above else ''}"
    given = json.loads(json.dumps(MANDATORY[category]).replace("{folder}", str(tmp_path)))
    created = {"name": "it", **({"type": kind} if kind else {}), **given, attribute: SECRET}
    bodies: list[Any] = [created, {**created, attribute: {"a": SECRET}}, {**created, attribute: [SECRET]}]
    answers = [ann.post(address, json={**body, "colour": 1}) for body in bodies]
    answers += [ann.post(address, json=body) for body in bodies]
    for query in ("", "?actual=true", f"?fields={attribute}", f"?fields={attribute}&actual=true"):
        answers.append(ann.get(f"{address}/it{query}"))
    answers += [ann.get(address, params={"filter": f"{attribute} IS NOT NULL", "sort": attribute})]
    answers += [ann.patch(f"{address}/it", json={attribute: f"{SECRET}!"}), ann.delete(f"{address}/it")]
    told = [answer.text for answer in answers]
    told += [each.getMessage() for each in caplog.records if each.name.startswith("pyjms")]
    assert not [text for text in told if SECRET in text]
    assert caplog.records, "the audit log says something, at least"
    if answers[3].status_code == 201 and attribute in answers[6].json():
        assert answers[6].json()[attribute] == MASK


def test_a_secret_under_a_name_that_is_misspelt_is_not_written_down(
    site: Site, ann: TestClient, trail: AuditTrail
) -> None:
    given = {"name": "k", "certificate_file": "c.pem", "key_pasword": "never seen"}
    error_of(ann.post(f"{ROOT}/key_store", json=given), 422)
    error_of(
        ann.post(f"{ROOT}/authentication_provider", json={"name": "a", "type": "jvt", "secret": "never seen"}), 404
    )
    site.queue("orders")
    error_of(ann.patch(f"{ROOT}/queue/main/shop/orders", json={"pasword": "never seen", "max_messages": 5}), 422)
    assert "never seen" not in json.dumps(trail.records)
    assert trail.records[0]["after"]["certificate_file"] == "c.pem"
    assert trail.records[2]["after"]["max_messages"] == 5


def test_credentials_that_are_refused_with_a_request_are_audited(site: Site, trail: AuditTrail) -> None:
    with site.client(None) as nobody:
        for header in (basic("ann", "guessed"), "Bearer guessed", "Basic nonsense"):
            error_of(nobody.get(f"{ROOT}/queue", headers={"authorization": header}), 401)
        error_of(nobody.get(f"{ROOT}/queue"), 401)
    told = [(each["action"], each["result"], each.get("target", "")) for each in trail.records]
    assert told == [("log_in", "refused", "ann"), ("log_in", "refused", "")], "of those that are alike one is written"
    assert "guessed" not in json.dumps(trail.records)


def test_what_the_broker_tells_before_a_log_in_is_told_to_everybody(site: Site) -> None:
    with site.client(None) as nobody:
        assert ok(nobody.get("/api/login")) == {"notice": None}
        site.system.broker.set_attributes({"login_notice": "Authorised staff only."})
        assert ok(nobody.get("/api/login")) == {"notice": "Authorised staff only."}
        assert nobody.put("/api/login", json={}).status_code == 405


# As which hosts a port answers


@pytest.mark.parametrize(
    ("host", "named", "is_answered"),
    [
        ("localhost", (), True),
        ("LocalHost.:8161", (), True),
        ("127.0.0.1:8161", (), True),
        ("[::1]:8161", (), True),
        ("10.0.0.7", (), True),  # a probe, or a forwarded port: nobody points an address at another machine
        ("shop.example", (), False),
        ("shop.example:8161", ("Shop.Example",), True),
        ("shop.example.", ("shop.example",), True),
        ("evil.shop.example", ("shop.example",), False),
        ("shop.example.evil", ("shop.example",), False),
        ("127.0.0.1.evil.example", (), False),
        ("evil.example@localhost", (), False),
        ("localhost/evil", (), False),
        ("localhost:evil", (), False),
        ("[::1", (), False),
        ("", (), False),
        ("evil.example", ("*",), True),
    ],
)
@pytest.mark.parametrize("path", ["/health/live", "/metrics", f"{ROOT}/broker", "/api/login", "/nothing"])
def test_a_port_answers_as_no_host_that_it_was_not_told_of(
    host: str, named: tuple[str, ...], is_answered: bool, path: str
) -> None:
    site = Site(settings=RestSettings(allowed_hosts=named))
    with site.client() as client:
        response = client.get(path, headers={"host": host})
        assert response.headers["x-frame-options"] == "DENY"
        if is_answered:
            assert response.status_code == (404 if path == "/nothing" else 200)
        else:
            error = error_of(response, 421)
            assert error["code"] == "PYJMS-REQUEST-HOST"
            assert "allowed_hosts" in error["reason"]
    site.close()


def test_a_page_whose_name_was_pointed_at_the_broker_changes_nothing(site: Site) -> None:
    site.queue()
    rebound = {"host": "evil.example:8161", "origin": "http://evil.example:8161", "sec-fetch-site": "same-origin"}
    with site.client() as client:
        error_of(client.delete(ORDERS, headers=rebound), 421)
        ok(client.get(ORDERS))


@pytest.mark.parametrize(
    "wrong", ["http://shop.example", "shop.example:80", "*.example", "shop example", "", "ä.example", "a/b"]
)
def test_what_is_no_name_of_a_host_is_refused_with_what_to_write(site: Site, wrong: str) -> None:
    with site.client() as client:
        body = {"name": "http", "type": "http", "port": 0, "allowed_hosts": ["shop.example", wrong]}
        [problem] = error_of(client.post(f"{ROOT}/port", json=body), 422)["problems"]
        assert problem["name"] == "allowed_hosts.1"
        assert "shop.example, without scheme, port and path" in problem["text"]
