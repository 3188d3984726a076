"""Two who change one object: the second is told, by REST, of what the first has done."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyjms.testing import VirtualClock
from tests.provider.management.world import ROOT, Site, error_of, ok

ORDERS = f"{ROOT}/queue/main/shop/orders"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.queue()
    yield site
    site.close()


@pytest.mark.realises("BJ-HTTP-4")
def test_the_second_of_two_writers_is_told_who_was_faster(site: Site) -> None:
    first, second = site.client(), site.client("carol")
    seen = first.get(ORDERS).headers["etag"]
    assert second.get(ORDERS).headers["etag"] == seen
    answer = first.patch(ORDERS, json={"max_messages": 10}, headers={"if-match": seen})
    assert answer.headers["etag"] != seen
    refused = error_of(second.patch(ORDERS, json={"max_messages": 20}, headers={"if-match": seen}), 412)
    assert refused["code"] == "PYJMS-CHANGED-MEANWHILE"
    assert "was changed" in refused["reason"]
    assert "look at it again" in refused["reason"]
    assert ok(first.get(ORDERS))["max_messages"] == 10
    newest = second.get(ORDERS, params={"fields": "name"}).headers["etag"]
    assert ok(second.patch(ORDERS, json={"max_messages": 20}, headers={"if-match": newest}))["max_messages"] == 20


def test_messages_that_come_and_go_change_no_version(site: Site) -> None:
    client = site.client()
    seen = client.get(ORDERS).headers["etag"]
    site.publish("orders", "one", "two")
    assert ok(client.get(ORDERS))["depth"] == 2
    assert client.get(ORDERS).headers["etag"] == seen


def test_a_change_of_a_secret_is_another_version(site: Site) -> None:
    assert isinstance(site.clock, VirtualClock)
    client = site.client()
    address = f"{ROOT}/virtual_host/main/shop"
    seen = client.get(address).headers["etag"]
    site.clock.advance(1)
    ok(client.patch(address, json={"store_password": "swordfish"}))
    first = client.get(address).headers["etag"]
    site.clock.advance(1)
    ok(client.patch(address, json={"store_password": "codfish"}))
    assert len({seen, first, client.get(address).headers["etag"]}) == 3


def test_delete_and_put_look_at_versions_too(site: Site) -> None:
    client = site.client()
    seen = client.get(ORDERS).headers["etag"]
    ok(client.put(ORDERS, json={"max_messages": 5}, headers={"if-match": seen}))
    error_of(client.put(ORDERS, json={"max_messages": 6}, headers={"if-match": seen}), 412)
    error_of(client.delete(ORDERS, headers={"if-match": seen}), 412)
    error_of(client.put(ORDERS, json={}, headers={"if-none-match": "*"}), 412)
    ok(client.delete(ORDERS, headers={"if-match": "*"}), 204)
    error_of(client.put(ORDERS, json={}, headers={"if-match": seen}), 412)
    ok(client.put(ORDERS, json={}, headers={"if-none-match": "*"}), 201)


def test_who_says_nothing_of_versions_overwrites_as_before(site: Site) -> None:
    client = site.client()
    assert ok(client.patch(ORDERS, json={"max_messages": 1}))["max_messages"] == 1
    assert ok(client.patch(ORDERS, json={"max_messages": 2}))["max_messages"] == 2


def test_of_many_who_change_one_version_at_the_same_time_one_succeeds(site: Site) -> None:
    for address, name in ((ORDERS, "max_messages"), (f"{ROOT}/virtual_host/main/shop", "branch_timeout_ms")):
        seen = site.client().get(address).headers["etag"]

        def write(number: int, address: str = address, name: str = name, seen: str = seen) -> int:
            return site.client().patch(address, json={name: number + 1000}, headers={"if-match": seen}).status_code

        with ThreadPoolExecutor(8) as writers:
            assert sorted(writers.map(write, range(8))) == [200, *[412] * 7]


@pytest.mark.realises("BJ-HTTP-4")
def test_an_operation_is_done_only_to_the_version_that_was_seen(site: Site) -> None:
    client = site.client()
    site.publish("orders", "one", "two")
    seen = client.get(ORDERS).headers["etag"]
    ok(client.patch(ORDERS, json={"max_messages": 10}))
    for prefer in ({}, {"prefer": "respond-async"}):
        error_of(client.post(f"{ORDERS}/purge", json={}, headers={"if-match": seen, **prefer}), 412)
    assert ok(client.get(ORDERS))["depth"] == 2
    newest = client.get(ORDERS).headers["etag"]
    ok(client.post(f"{ORDERS}/purge", json={}, headers={"if-match": newest}))
    assert ok(client.get(ORDERS))["depth"] == 0
