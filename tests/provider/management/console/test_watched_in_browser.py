"""Alerts and the last hour in a real browser."""

from __future__ import annotations

import itertools
import re

import pytest

from pyjms_provider.model.metrics_sampler import STEP_MS
from pyjms_provider.model.virtual_host import VirtualHost
from tests.provider.management.console.world import Console, World

pytestmark = pytest.mark.realises("BJ-WEB-1")

_looks = itertools.count(1)
"""Of all tests: they look over one host, whose time does not go back."""


class Watched:
    """The host of a world, looked over by the test at the times that it names, and by nobody else."""

    def __init__(self, world: World) -> None:
        assert isinstance(world.host, VirtualHost)
        self._watch = world.host.sampler
        self._watch.close()
        self._clock = world.served.system.clock
        self._begun_ms = self._clock.time_ms() - 30 * 60_000

    def look(self) -> None:
        if self._watch._sampled_ms is not None:  # rates go by the monotonic clock, whatever time it is said to be
            self._watch._sampled_ms = self._clock.monotonic_ms() - STEP_MS
        self._watch.sample(self._begun_ms + STEP_MS * next(_looks))


def chart(console: Console, title: str) -> str:
    """Return what a chart says of itself to who cannot see it."""
    return console.one("figure.chart", title).find_element("css selector", "svg").get_attribute("aria-label") or ""


def most(told: str) -> int:
    """Return the highest value that a chart tells of."""
    found = re.search(r"at most (\d+)", told)
    return int(found[1]) if found else 0


def test_charts_begin_with_what_the_broker_has_noted(world: World, console: Console) -> None:
    watched = Watched(world)
    queue = world.queue("noted")
    watched.look()
    for _ in range(30):
        world.publish(queue, text="x")
    watched.look()
    queue.invoke("purge", {})
    watched.look()
    console.open("#/queue/main/shop/noted")
    console.one("figure.chart", "Depth")
    console.until(lambda: "now 0, at most 30" in chart(console, "Depth") or None, "the depth of half an hour ago")
    console.until(
        lambda: "arrived: now 0, at most 3;" in chart(console, "Flow") or None, "the flow of half an hour ago"
    )
    assert "hour" in console.one("figure.chart .axis.x").text or "min" in console.one("figure.chart .axis.x").text
    console.open("#/overview")
    console.browser.refresh()  # another test may have opened this page before, and it asks for the past once
    console.until(lambda: most(chart(console, "Messages")) >= 30 or None, "the messages of half an hour ago")


def test_a_virtual_host_that_keeps_no_messages_needs_attention(
    world: World, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.open("#/overview")
    console.one(".calm")
    with monkeypatch.context() as patched:
        patched.setattr(VirtualHost, "_trouble", "the disk is full")
        shown = console.one(".attention li.refusing", "shop")
        assert shown.text == "virtual host shop keeps no messages now: the disk is full"
    console.gone(".attention li.refusing")


def test_alerts_are_shown_where_operators_look_until_they_are_over(world: World, console: Console) -> None:
    watched = Watched(world)
    queue = world.queue("deep", alert_messages=2)
    world.queue("calm")
    for _ in range(3):
        world.publish(queue, text="x")
    watched.look()
    console.open("#/overview")
    console.one(".tile.warn", "queues with alerts")
    assert console.one(".attention li.alert", "deep").text == "queue deep 3 messages; the limit is 2"
    console.click(".tile.warn", "queues with alerts")
    console.one("tbody td .chip.alert", "too many")
    assert [row.text for row in console.all("tbody td a")] == ["deep"]
    console.click("tbody td a", "deep")
    console.one(".alerts li", "3 messages; the limit is 2, since")
    queue.invoke("purge", {})
    watched.look()
    console.gone(".alerts li")
    console.go("#/overview")
    console.one(".tile", "queues with alerts")
    console.gone(".attention li.alert")
