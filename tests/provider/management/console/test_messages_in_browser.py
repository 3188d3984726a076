"""The console shows messages as they are: all of them, and nothing altered; and who may not look is told so."""

from __future__ import annotations

from typing import Any

from selenium import webdriver

from pyjms import ConnectionFactory, Session
from pyjms_provider.model import messages as renderer
from tests.provider.management.console.world import Console, World

LARGE = 2**63 - 1
FAR = "after the year 275760"


def send_copies(world: World, queue: str, ids: list[bool]) -> None:
    """Send a message for each, with an id or without."""
    connection = ConnectionFactory(world.stomp).create_connection()
    try:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue(queue))
        for number, has_id in enumerate(ids):
            producer.disable_message_id = not has_id
            producer.send(session.create_text_message(f"message {number}"))
    finally:
        connection.close()


def test_messages_without_an_id_and_copies_are_all_shown(world: World, console: Console) -> None:
    queue = world.queue("nameless")
    send_copies(world, "nameless", [False, True, False])
    copies = world.queue("copies")
    queue.invoke("copy_messages", {"target": "copies", "selector": "JMSMessageID IS NOT NULL"})
    copies.invoke("move_messages", {"target": "nameless"})
    copies.delete()
    console.open("#/queue/main/shop/nameless")
    console.until(lambda: len(console.all("tbody button.link")) == 4 or None, "four rows")
    assert [each.text for each in console.all("tbody .preview")] == [
        "message 0", "message 1", "message 2", "message 1"
    ]  # fmt: skip
    boxes = console.all("tbody .pick input")
    assert [each.is_enabled() for each in boxes] == [False, True, False, True]
    console.click("thead .pick input")
    assert [each.is_selected() for each in boxes] == [False, True, False, True]
    console.all("tbody button.link")[2].click()
    assert console.one("pre.body").text == "message 2"
    console.fill(".bar input[type=text]", "JMSPriority = 4")
    console.click(".bar button", "Try")
    console.one(".verdict", "takes 2 of the 4")
    queue.delete()


def test_nothing_that_is_shown_is_altered(world: World, console: Console) -> None:
    queue: Any = world.queue("exact")
    text = '{"order": 12345678901234567890, "sum": 10.00, "a": 1, "a": 2, "none": []}'
    world.publish(queue, text=text, properties={"number": {"type": "long", "value": str(LARGE)}})
    console.open("#/queue/main/shop/exact")
    console.click("tbody button.link")
    assert console.one("pre.body").text == (
        '{\n  "order": 12345678901234567890,\n  "sum": 10.00,\n  "a": 1,\n  "a": 2,\n  "none": []\n}'
    )
    assert console.one("table.values td.value").text == str(LARGE)
    console.click(".raw input")
    assert console.one("pre.body").text == text
    queue.delete()


def test_a_time_that_no_calendar_has_is_said_in_words(world: World, console: Console) -> None:
    console.open()
    console.one("h1", "Overview")
    script = f"return import('/console/format.js').then((format) => format.time({LARGE}))"
    assert console.run(script) == FAR


def test_pages_of_long_messages_are_turned_without_leaving_one_out(
    world: World, console: Console, monkeypatch: Any
) -> None:
    monkeypatch.setattr(renderer, "_LONGEST_PAGE", 3_000)
    queue = world.queue("long")
    for number in range(7):
        world.publish(queue, text=f"{number}" + "x" * 1_500)
    console.open("#/queue/main/shop/long")

    def page(first: str) -> list[str]:
        console.one("tbody tr:first-child .preview", first + "x")
        return [each.text[0] for each in console.all("tbody .preview")]

    seen = [page("0")]
    for first in ("2", "4", "6"):
        console.click(".pager button", "Next")
        seen.append(page(first))
    assert seen == [["0", "1"], ["2", "3"], ["4", "5"], ["6"]]
    console.click(".pager button", "Previous")
    assert page("4") == ["4", "5"]
    queue.delete()


def test_who_may_not_look_at_the_broker_is_told_so_and_can_be_somebody_else(
    world: World, chromium: webdriver.Chrome
) -> None:
    top = world.served.broker
    few = {"effect": "deny", "who": "*"}
    top.create_child("access_control", {"name": "few", "rules": [few]})
    chosen = {"authentication_providers": ["anonymous"], "access_control": "few"}
    port: Any = top.create_child("port", {"name": "narrow", "type": "http", "port": 0, **chosen})
    console = Console(chromium, port.addresses[0])
    console.open()
    console.one("h1", "The console is for those who may look at the broker")
    console.one(".problem")
    console.one("button", "Log in")
    console.complaints()
    chromium.get("about:blank")
    port.delete()
    top.child("access_control", "few").delete()
