"""The console on bad days: a message that is looked for, two who change one object, a broker that dies under an open form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium import webdriver

from tests.provider.management.console.world import Console, World, open_world


@pytest.mark.realises("BJ-WEB-1")
def test_the_story_of_a_message_is_told_from_where_it_is_shown(world: World, console: Console, tmp_path: Path) -> None:
    node = world.served.broker.create_child("virtual_host_node", {"name": "second", "type": "memory"})
    chosen = {"name": "told", "story": "all", "story_directory": str(tmp_path)}
    orders = node.create_child("virtual_host", chosen).create_child("queue", {"name": "orders"})
    world.publish(orders, text="one", correlation_id="A-17")
    orders.invoke("move_messages", {"target": "später & <b>"}, by="ann")
    console.open("#/queue/second/told/sp%C3%A4ter%20%26%20%3Cb%3E")
    console.click("tbody button.link")
    console.click(".story-link")
    console.one("h1", "Story of a message")
    console.one("tr[data-step=moved] td", "moved to queue://später & <b> by operator ann")
    assert [row.get_attribute("data-step") for row in console.all(".steps tbody tr")].count("accepted") == 2
    console.one(".story dd", "NEW, delivered 0 times")
    console.go("#/story/second/told?correlation_id=A-17")
    console.one(".story dd", "A-17")
    console.go("#/story/main/shop?id=ID:nobody")
    console.one(".empty", "Nothing is known of such a message")
    console.one(".hint", "writes no stories down")


def test_who_saves_a_form_that_is_out_of_date_is_told_what_is_different_and_loses_nothing(
    world: World, console: Console
) -> None:
    queue = world.queue("contested", max_messages=10)
    console.open("#/queue/main/shop/contested")
    console.click(".title button", "Change…")
    console.fill("dialog [name=max_bytes]", "5000")
    queue.set_attributes({"max_messages": 99}, by="somebody else")
    console.click("dialog button[type=submit]")
    problem = console.one("dialog .problem", "was changed").text
    assert "max_messages" in problem
    assert "is 99 now" in problem
    assert console.one("dialog [name=max_bytes]").get_attribute("value") == "5000"
    assert queue.attribute_values(["max_bytes"]) == {"max_bytes": 0}
    console.confirm()
    assert queue.attribute_values(["max_bytes", "max_messages"]) == {"max_bytes": 5000, "max_messages": 99}


def test_a_broker_that_dies_under_an_open_form_costs_nothing_that_was_typed(chromium: webdriver.Chrome) -> None:
    with open_world() as first:
        console = Console(chromium, first.http)
        console.open("#/queues")
        console.click("[data-key=new]")
        console.fill("dialog [name=name]", "typed")
        console.fill("dialog [name=max_messages]", "77")
    console.click("dialog button[type=submit]")
    console.one("dialog .problem", "the broker cannot be reached; is it running?")
    assert console.one("dialog [name=name]").get_attribute("value") == "typed"
    with open_world(urlsplit(first.http).port or 0) as second:
        console.confirm()
        made = second.host.child("queue", "typed")
        assert made.attribute_values(["max_messages"]) == {"max_messages": 77}
        chromium.get("about:blank")


LONG_ROW = """
const row = [...document.querySelectorAll("tbody tr")].find((each) => each.textContent.startsWith("x".repeat(9)));
return row ? [row.offsetHeight, row.querySelector("td.number").getBoundingClientRect().right, row.querySelector(".name").title] : null;
"""
"""How high the row is, where its first number ends, and what its name tells."""


@pytest.fixture
def reader(chromium: webdriver.Chrome, world: World) -> Iterator[Console]:
    """The console of somebody who may look, and nothing else."""
    broker = world.served.broker
    rules = [{"effect": "allow", "who": "*", "operations": ["observe", "browse"]}]
    access = broker.create_child("access_control", {"name": "looking", "rules": rules})
    chosen = {"port": 0, "authentication_providers": ["anonymous"], "access_control": "looking"}
    port = broker.create_child("port", {"name": "readers", "type": "http", **chosen})
    yield Console(chromium, str(port.statistic_values(["addresses"])["addresses"][0]))
    chromium.get("about:blank")
    port.delete()
    access.delete()


def test_who_may_only_look_is_offered_nothing_else(world: World, reader: Console) -> None:
    world.publish(world.queue("looked at"), text="one")
    reader.open("#/queue/main/shop/looked%20at")
    reader.one("tbody button.link")
    buttons = {each.text: each for each in reader.all(".title button")}
    assert [text for text, each in buttons.items() if each.is_enabled()] == ["Refresh"]
    assert {"Send a message", "Pause", "Change…", "Purge…", "Delete…"} < set(buttons)
    assert "no permission to write this" in (buttons["Send a message"].get_attribute("title") or "")
    reader.go("#/tree/port/clients")
    reader.one("h1", "clients")
    assert [each.text for each in reader.all(".title .actions button") if each.is_enabled()] == []
    assert "Start…" not in [each.text for each in reader.all(".title .actions button")]


def test_names_that_cannot_be_seen_or_are_too_long_leave_the_table_readable(world: World, console: Console) -> None:
    for name in ("  ", "x" * 250, "long-name-" * 20):
        world.queue(name)
    console.open("#/queues")
    console.fill("#filter", "  ")
    console.one("tbody a", "“␣␣”").click()
    console.one("h1", "“␣␣”")
    for width in (1360, 390):
        console.browser.set_window_size(width, 900)
        console.go("#/queues")
        console.fill("#filter", "x")
        height, right, title = console.until(lambda: console.run(LONG_ROW), "the row")
        assert (height < 80, right < width, title) == (True, True, "x" * 250)
    console.browser.set_window_size(1360, 900)


def test_an_empty_table_says_whether_there_is_nothing_or_nothing_such(console: Console) -> None:
    with open_world() as empty:
        other = Console(console.browser, empty.http)
        other.open("#/queues")
        other.one(".empty", "There is no queue yet")
        other.fill("#filter", "none")
        other.one(".empty", "There is no such queue")
        other.browser.get("about:blank")
