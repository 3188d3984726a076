"""What operators look for in the console by the words of the field: sections, what needs attention, delivery counts, groups of a form."""

from __future__ import annotations

import pytest

from pyjms import ConnectionFactory, Session
from tests.provider.management.console.world import Console, World

pytestmark = pytest.mark.realises("BJ-WEB-1")


def _deliver_again(world: World, name: str, times: int) -> None:
    """Have a client roll back a message so often."""
    with ConnectionFactory(world.stomp).create_connection() as connection:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        consumer = session.create_consumer(session.create_queue(name))
        connection.start()
        for _ in range(times):
            assert consumer.receive(10_000) is not None
            session.rollback()


def _wait_for_value(console: Console, tile: str) -> None:
    def has_value() -> bool | None:
        return console.one(".tile", tile).find_element("css selector", "strong").text != "\u2013" or None

    console.until(has_value, tile)


def test_a_message_that_comes_again_and_dead_letters_need_attention(world: World, console: Console) -> None:
    queue = world.queue("payments", max_deliveries=0, max_failures=0)
    world.publish(queue, text="poison")
    _deliver_again(world, "payments", 4)
    world.publish(world.queue("DLQ"), text="given up")
    console.open("#/overview")
    told = console.one(".attention li.poison", "payments").text
    assert told == "queue payments has a message that was delivered 4 times and comes again: look at its consumer"
    assert "1 dead letter in DLQ" in console.one(".attention li.dead").text
    for tile in ("published a second", "memory", "free on the disk", "open files and connections", "uptime"):
        _wait_for_value(console, tile)
    console.click(".attention li.poison a")
    console.one("h1", "payments")
    console.one("thead th", "Delivery count")
    console.until(lambda: "4" in [cell.text for cell in console.all("tbody td.number")] or None, "the delivery count")
    queue.invoke("purge", {})
    console.go("#/overview")
    console.gone(".attention li.poison")


def test_topics_subscriptions_consumers_and_users_are_sections(world: World, console: Console) -> None:
    with ConnectionFactory(world.stomp).create_connection() as connection:
        connection.client_id = "management"
        session = connection.create_session()
        topic = session.create_topic("prices")
        session.create_durable_subscriber(topic, "evening", "cups > 1", False)
        connection.start()
        console.open("#/overview")
        for section, row in (
            ("Topics", "prices"),
            ("Subscriptions", "evening"),
            ("Consumers", "prices"),
        ):
            console.click("nav.sections a", section)
            console.one("h1", section)
            console.one("tbody tr", row)
        console.click("nav.sections a", "Users")
        console.one("p.empty", "No authentication provider of this broker keeps users.")
        console.click("nav.sections a", "Subscriptions")
        console.one("tbody tr .chip.good", "connected")
        console.one("tbody tr code", "cups > 1")
        console.click("nav.sections a", "Connections")
        console.one("thead th", "Protocol")


def test_a_dialog_closes_with_the_page_that_it_belongs_to(world: World, console: Console) -> None:
    console.open("#/queues")
    console.click("button[data-key=new]")
    console.one("dialog[open]")
    console.go("#/topics")
    console.one("h1", "Topics")
    console.gone("dialog[open]")
    console.press("?")
    console.one("dialog[open] kbd")
    console.go("#/queues")
    console.one("h1", "Queues")
    console.gone("dialog[open]")


def test_the_form_of_a_queue_has_groups_and_says_what_0_means(world: World, console: Console) -> None:
    console.open("#/queues")
    console.click("button[data-key=new]")
    console.one("dialog[open] fieldset.group > legend", "Order and consumers")
    legends = [each.text for each in console.all("dialog[open] fieldset.group > legend")]
    assert legends[:3] == ["Order and consumers", "Size", "Redelivery and dead letters"]
    shown = {
        each.find_element("css selector", "label").text.removesuffix(" *"): each.find_element(
            "css selector", ".hint"
        ).text
        for each in console.all("dialog[open] .field")
        if each.find_elements("css selector", "label") and each.find_elements("css selector", ".hint")
    }
    assert "0: any number" in shown["Max messages"]
    assert "0: without limit" in shown["Max deliveries"]
    assert "0: as its host says" in shown["Redelivery delay"]
    console.fill("dialog[open] [name=name]", "grouped")
    console.fill("dialog[open] [name=max_messages]", "7")
    console.confirm()
    console.one("h1", "grouped")
    assert world.host.child("queue", "grouped").attribute_values()["max_messages"] == 7
