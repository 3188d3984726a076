"""The story of a message by REST and by messages, with what the broker knows now, and who an operator was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.model.errors import InvalidArgumentsError
from pyjms_provider.model.stories import StoryAttributes, story_settings
from pyjms_provider.model.virtual_host import VirtualHost
from tests.provider.helpers import CONNECTION, make_envelope
from tests.provider.management.world import ROOT, Site, error_of, ok
from tests.provider.management.world import RULES as WORLDS_RULES

STORY = f"{ROOT}/virtual_host/second/told/story"


@pytest.fixture
def rules() -> str:
    return WORLDS_RULES


@pytest.fixture
def site(tmp_path: Path, rules: str) -> Iterator[Site]:
    site = Site(rules=rules)
    node = site.system.broker.create_child("virtual_host_node", {"name": "second", "type": "memory"})
    host = node.create_child(
        "virtual_host",
        {"name": "told", "story": "all", "story_directory": str(tmp_path), "story_properties": ["customer"]},
    )
    host.create_child("queue", {"name": "orders"})
    host.create_child("queue", {"name": "later"})
    yield site
    site.close()


def publish(client: TestClient, name: str = "orders", **message: Any) -> str:
    """Publish a message; return its id."""
    address = f"{ROOT}/queue/second/told/{name}"
    ok(client.post(f"{address}/publish", json={"message": {"text": "one", **message}}))
    newest: str = ok(client.post(f"{address}/browse", json={}))["result"]["messages"][-1]["id"]
    return newest


def test_a_story_tells_steps_in_words_and_where_the_message_is_now(site: Site) -> None:
    client = site.client()
    message_id = publish(client)
    told = ok(client.get(STORY, params={"id": message_id}))["result"]
    (story,) = told["stories"]
    assert [(each["what"], each["state"], each["where"]) for each in story["steps"]] == [
        ("accepted", "NEW", "queue://orders")
    ]
    assert story["steps"][0]["text"].startswith("accepted; PERSISTENT")
    assert [(each["where"], each["state"], each["delivery_count"]) for each in story["now"]] == [
        ("queue://orders", "NEW", 0)
    ]
    assert (told["level"], told["missing"], told["is_cut"]) == ("all", 0, False)


def test_what_an_operator_does_is_told_with_the_operators_name(site: Site) -> None:
    client = site.client()
    message_id = publish(client)
    ok(client.post(f"{ROOT}/queue/second/told/orders/move_messages", json={"target": "later"}))
    ok(client.post(f"{ROOT}/queue/second/told/later/purge", json={}))
    (story,) = ok(client.get(STORY, params={"id": message_id}))["result"]["stories"]
    steps = {each["what"]: each["text"] for each in story["steps"]}
    assert steps["moved"] == "moved to queue://later by operator ann"
    assert steps["deleted"] == "deleted by operator ann"
    assert story["now"] == []


def test_stories_are_found_by_correlation_id_and_property(site: Site) -> None:
    client = site.client()
    publish(client, correlation_id="A-1", properties={"customer": {"type": "string", "value": "Ann"}})
    publish(client, correlation_id="A-1")
    by_correlation = ok(client.get(STORY, params={"correlation_id": "A-1"}))["result"]
    assert len(by_correlation["stories"]) == 2
    assert ok(client.get(STORY, params={"correlation_id": "A-1", "most": "1"}))["result"]["is_cut"]
    by_property = ok(client.get(STORY, params={"property": "customer=Ann"}))["result"]
    assert len(by_property["stories"]) == 1


def test_a_message_that_nobody_knows_has_no_story(site: Site) -> None:
    assert ok(site.client().get(STORY, params={"id": "ID:nobody"}))["result"]["stories"] == []


def test_without_stories_the_broker_still_says_where_the_message_is(site: Site) -> None:
    client = site.client()
    site.queue("orders")
    site.publish("orders", "one")
    (message,) = ok(client.post(f"{ROOT}/queue/main/shop/orders/browse", json={}))["result"]["messages"]
    told = ok(client.get(f"{ROOT}/virtual_host/main/shop/story", params={"id": message["id"]}))["result"]
    assert told["level"] == "off"
    assert [(story["steps"], len(story["now"])) for story in told["stories"]] == [([], 1)]


@pytest.mark.parametrize(
    "arguments", [{}, {"id": "ID:1", "correlation_id": "A"}, {"property": "customer"}, {"id": "ID:1", "most": "0"}]
)
def test_what_makes_no_sense_is_refused(site: Site, arguments: dict[str, str]) -> None:
    assert error_of(site.client().get(STORY, params=arguments), 422)["problems"]
    with pytest.raises(InvalidArgumentsError):
        site.system.broker.child("virtual_host_node", "second").child("virtual_host", "told").invoke("story", arguments)


def test_who_may_not_observe_the_virtual_host_hears_no_story(site: Site) -> None:
    message_id = publish(site.client())
    error_of(site.client("bob").get(STORY, params={"id": message_id}), 403)


RULES = """
allow group:admins all *
allow user:bob observe virtual_host:told
allow user:bob observe queue:orders
allow user:bob observe topic:news
allow user:bob observe subscription:ann:reader
"""


class TestWhoMayNotSeeAll:
    """Bob may observe the virtual host, and in it one queue, a topic and one of its durable subscriptions."""

    @pytest.fixture
    def rules(self) -> str:
        return RULES

    def told(self, site: Site, user: str, **wanted: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ok(site.client(user).get(STORY, params=wanted))["result"]["stories"]
        return found

    def test_a_queue_is_not_named_where_a_message_has_gone(self, site: Site) -> None:
        ann = site.client()
        message_id = publish(ann)
        ok(ann.post(f"{ROOT}/queue/second/told/orders/move_messages", json={"target": "later"}))
        ok(ann.post(f"{ROOT}/queue/second/told/later/move_messages", json={"target": "orders"}))
        ok(ann.post(f"{ROOT}/queue/second/told/orders/move_messages", json={"target": "later"}))
        assert "queue://later" in json.dumps(self.told(site, "ann", id=message_id))
        (story,) = self.told(site, "bob", id=message_id)
        assert "later" not in json.dumps(story)
        assert [(each["what"], each["where"]) for each in story["steps"]] == [
            ("accepted", "queue://orders"),
            ("moved", "queue://orders"),
            ("accepted", "queue://orders"),
            ("moved", "queue://orders"),
        ]
        assert story["steps"][1]["text"] == "moved to where you may not look by operator ann"
        assert story["now"] == []

    def test_a_message_that_was_elsewhere_only_has_no_story(self, site: Site) -> None:
        message_id = publish(site.client(), "later", correlation_id="A-1")
        assert self.told(site, "ann", id=message_id)
        assert self.told(site, "bob", id=message_id) == []
        assert self.told(site, "bob", correlation_id="A-1") == []

    def test_subscriptions_are_seen_by_the_rules_of_their_own(self, site: Site) -> None:
        host = site.system.broker.child("virtual_host_node", "second").child("virtual_host", "told")
        assert isinstance(host, VirtualHost)
        running = host.embedded.virtual_host
        news = Address(AddressKind.TOPIC, "news")
        for name in ("reader", "other", None):
            running.subscriptions.subscribe(
                SubscribeRequest(address=news, selector=None, no_local=False, durable_name=name),
                CONNECTION,
                "ann",
                self,
            )
        message = make_envelope(destination=news)
        running.route(message, CONNECTION, None)
        everything = {"topic://news#ann/reader", "topic://news#ann/other", "topic://news#1"}
        for user, expected in (("ann", everything), ("bob", everything - {"topic://news#ann/other"})):
            (story,) = self.told(site, user, id=str(message.message_id))
            assert {each["where"] for each in story["steps"]} == expected
            assert {each["where"] for each in story["now"]} == {
                each for each in expected if "/r" in each or "/o" in each
            }


@pytest.mark.parametrize(("name", "folder"), [("shop", "shop"), ("a/b", "a%2Fb"), ("..", "%2E%2E"), ("a.b", "a.b")])
def test_each_host_has_a_folder_of_its_own_whatever_its_name(name: str, folder: str) -> None:
    chosen = StoryAttributes.model_validate({"name": name, "story": "ends", "story_directory": "/data"})
    settings = story_settings(chosen, "main", name)
    assert settings is not None
    assert settings.directory == Path("/data/main") / folder
    assert (
        story_settings(StoryAttributes.model_validate({"name": name, "story": "off", "story_directory": "x"}), "a", "b")
        is None
    )


def test_the_files_of_a_host_hold_lines_of_json(site: Site, tmp_path: Path) -> None:
    message_id = publish(site.client())
    ok(site.client().get(STORY, params={"id": message_id}))
    (file,) = (tmp_path / "second" / "told").iterdir()
    assert json.loads(file.read_text().splitlines()[0])["broker"] == "told"
