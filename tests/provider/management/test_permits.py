"""Who may not see an object does not hear whether it is there, and nobody cuts off the branch that they sit on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.management.describing import ListRequest
from pyjms_provider.management.service import Caller
from pyjms_provider.model.errors import NotChangeableError, ObjectInUseError, UnknownObjectError
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.managed import State
from pyjms_provider.security.contracts import Operation, Principal
from tests.provider.management.world import ROOT, Site, error_of, ok


@pytest.mark.parametrize("method", ["GET", "PATCH", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ("queue/main/shop/hidden", "queue/main/shop/absent"),
        ("user/users/joe", "user/users/zoe"),
        ("virtual_host_node/main", "virtual_host_node/other"),
        ("port/http", "port/https"),
    ],
)
def test_who_may_not_see_an_object_does_not_hear_whether_it_is_there(
    site: Site, method: str, there: str, missing: str, tmp_path: object
) -> None:
    site.queue("hidden")
    broker = site.system.broker
    users = {"name": "users", "type": "user-file", "path": f"{tmp_path}/users", "argon2_memory_kib": 64}
    broker.create_child("authentication_provider", users).create_child(
        "user", {"name": "joe", "password": "long enough"}
    )
    broker.create_child("port", {"name": "http", "type": "http"})
    with site.client("bob") as bob:
        heard = [
            error_of(bob.request(method, f"{ROOT}/{address}", json={} if method in {"PATCH", "PUT"} else None), 403)
            for address in (there, missing)
        ]
    name, other = (each.rpartition("/")[2] for each in (there, missing))
    assert heard[0]["reason"].replace(name, other) == heard[1]["reason"]


@pytest.mark.parametrize(
    ("category", "there", "missing"),
    [
        ("queue", ("main", "shop", "hidden", "x"), ("main", "shop", "absent", "x")),
        ("queue", ("main",), ("other",)),
        ("queue", ("main", "shop"), ("other", "shop")),
        ("queue", (), ()),
        ("consumer", ("main", "shop"), ("main", "other")),
        ("virtual_host_node", ("main", "x"), ("other", "x")),
        ("broker", ("main",), ("other",)),
    ],
)
def test_what_is_no_address_is_told_as_that_whatever_is_there(
    site: Site, category: str, there: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    site.queue("hidden")
    bob = site.caller("bob")

    def heard(ask: Callable[..., object], names: tuple[str, ...], *more: object) -> str:
        with pytest.raises(UnknownObjectError) as told:
            ask(bob, category, names, *more)
        return told.value.reason.replace(f"{'/'.join(names)!r}", "…")

    asked: list[Callable[[tuple[str, ...]], str]]
    asked = [partial(heard, site.management.find), partial(heard, site.management.find_or_none)]
    if len(there) > len(names_needed(category)):
        asked.append(lambda names: heard(site.management.list, names, ListRequest()))
    for ask in asked:
        assert ask(there) == ask(missing)
        assert "… is not that" in ask(there)


def test_who_may_create_by_put_need_not_see_what_is_there(site: Site) -> None:
    with site.client("bob") as bob:
        ok(bob.put(f"{ROOT}/queue/main/shop/bob.new", json={}), 201)
        error_of(bob.put(f"{ROOT}/queue/main/shop/bob.new", json={}), 403)


def test_an_id_of_what_one_may_not_see_is_as_one_of_nothing(site: Site, ann: TestClient) -> None:
    site.queue("hidden")
    known = ok(ann.get(f"{ROOT}/queue/main/shop/hidden"))["id"]
    with site.client("bob") as bob:
        heard = error_of(bob.get(f"{ROOT}/queue?id={known}"), 404)
    assert "you may not see it" in heard["reason"]
    assert ok(ann.get(f"{ROOT}/queue?id={known}"))["name"] == "hidden"


def test_messages_are_found_for_whom_they_may_be_read(site: Site) -> None:
    ids = []
    for queue in ("orders", "salaries"):
        message = {"text": f"of {queue}", "properties": {"iban": "DE00"}}
        ids.append(site.queue(queue).invoke("publish", {"message": message}))
    wanted = {"message_ids": ids, "with_bodies": True}

    def found_by(user: str) -> list[tuple[str, str]]:
        with site.client(user) as client:
            answer = ok(client.post(f"{ROOT}/virtual_host/main/shop/find_messages", json=wanted))
        return [(each["queue"], each["message"]["body"]["text"]) for each in answer["result"]]

    assert found_by("ann") == [("orders", "of orders"), ("salaries", "of salaries")]
    assert found_by("bob") == [("orders", "of orders")]
    assert found_by("carol") == []  # who may observe everything, and browse nothing


def _operator(site: Site, port: UUID) -> Caller:
    who = Principal(name="ann", groups=frozenset({"admins"}), provider="users")
    return replace(site.caller(), principal=who, port=port)


def test_nobody_stops_or_deletes_what_they_come_in_by(site: Site, tmp_path: object) -> None:
    broker = site.system.broker
    ports = [broker.create_child("port", {"name": name, "type": "http"}) for name in ("one", "two")]
    users, others = (
        broker.create_child(
            "authentication_provider", {"name": name, "type": "user-file", "path": f"{tmp_path}/{name}"}
        )
        for name in ("users", "others")
    )
    me, other = (users.create_child("user", {"name": name, "password": "long enough"}) for name in ("ann", "zoe"))
    ann = _operator(site, ports[0].id)
    for own in (ports[0], users):
        with pytest.raises(ObjectInUseError, match=f"{own.name} is (where|what)"):
            site.management.invoke(ann, own, "stop", {})
        assert own.state is State.ACTIVE
    for own in (ports[0], users, me):
        with pytest.raises(ObjectInUseError, match=f"{own.name} is "):
            site.management.delete(ann, own)
        assert own.state is State.ACTIVE
    site.management.invoke(ann, ports[1], "stop", {})
    site.management.invoke(ann, ports[0], "restart", {})
    for another in (ports[1], others, other):
        site.management.delete(ann, another)
    assert broker.find_child("port", "two") is None


def test_nobody_deletes_what_holds_what_they_come_in_by(site: Site) -> None:
    broker = site.system.broker
    ann = _operator(site, broker.create_child("port", {"name": "one", "type": "http"}).id)
    with pytest.raises(ObjectInUseError, match="broker shop holds what you come in by: port one is where"):
        site.management.delete(ann, broker)
    with pytest.raises(NotChangeableError, match="broker shop cannot be deleted; end its process"):
        site.management.delete(site.caller(), broker)
    with site.client() as client:
        error_of(client.delete(f"{ROOT}/broker"), 405)
    assert broker.state is State.ACTIVE
    assert site.host.is_running


def test_who_may_not_do_it_at_all_hears_just_that(site: Site) -> None:
    port = site.system.broker.create_child("port", {"name": "one", "type": "http"})
    with pytest.raises(AccessDeniedError):
        site.management.delete(replace(site.caller("bob"), port=port.id), port)
    with pytest.raises(UnknownObjectError):
        site.management.find(site.caller("ann"), "port", ("none",))


def test_an_answer_says_what_its_caller_may_do_with_the_object(site: Site, ann: TestClient) -> None:
    site.queue("orders")
    address = f"{ROOT}/queue/main/shop/orders"
    everything = {each.value for each in Operation}
    assert set(ann.get(address).headers["x-pyjms-may"].split(", ")) == everything
    assert set(ann.patch(address, json={"paused": True}).headers["x-pyjms-may"].split(", ")) == everything
    with site.client("bob") as bob, site.client("carol") as carol:
        assert bob.get(address).headers["x-pyjms-may"] == "browse, observe"
        assert carol.get(address).headers["x-pyjms-may"] == "administer, observe"
