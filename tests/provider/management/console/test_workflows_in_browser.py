"""Workflows and routes in a real browser: a person looks at what is parked, and decides; a route is paused and resumed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms.flows import FlowStore, Status
from pyjms.flows.instance import Answer, Suspend
from pyjms.flows.store import open_store
from tests.provider.management.console.world import Console, World
from tests.pyjms.flows.supply import SUPPLY_FLOW, keep, order_flow, parked, supply_flow

pytestmark = pytest.mark.realises("BJ-WEB-1", "MOM-44")
EVIL = '"><script>document.title=\'taken\'</script><image href="x" onerror="document.title=\'taken\'"/>'


@pytest.fixture(scope="module")
def store(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowStore]:
    url = f"sqlite:///{tmp_path_factory.mktemp('flows') / 'flows.db'}"
    store = open_store(url)
    store.deploy(SUPPLY_FLOW)
    world.host.create_child("workflow_store", {"name": "flows", "store_url": url})
    for name in ("stock.reserve", "stock.weigh", "bank.pay"):
        world.queue(name)
    yield store
    store.close()


def boxes(console: Console) -> list[tuple[str, str]]:
    """Return the marks of the picture's boxes with what stands in them."""
    found = console.all(".picture g[class]")
    return [
        (each.get_attribute("class") or "", each.text.split("\n")[0]) for each in found if each.get_attribute("class")
    ]


def test_a_person_finds_what_is_parked_sees_why_and_decides(world: World, console: Console, store: FlowStore) -> None:
    keep(store, "order-1", *parked("order-1"))
    keep(store, "order-2")
    weigh = world.host.child("queue", "stock.weigh")
    world.publish(weigh, text="{}", correlation_id="order-1:weigh")
    console.open("#/overview")
    console.click(".attention li.parked a", "parked")
    console.click("tbody td a.chip.bad[href*='/order?']", "1")
    console.until(lambda: [each.text for each in console.all("tbody td:first-child a")] == ["order-1"] or None, "one")
    assert console.one("#status option:checked").text == "parked (1)"
    console.click("tbody td a", "order-1")
    assert console.one(".problem").text == "Parked: weigh was not answered after 1 attempts"
    assert boxes(console) == [("done", "reserve"), ("parked", "weigh")]
    console.one("dl.facts", "1 of 1")
    assert "waits in stock.weigh" in console.one("tbody tr", "order-1:weigh").text
    assert '"item": "tea"' in console.one("pre.body").text
    assert not console.all("#decide-park")
    console.click("#decide-retry")
    console.fill("dialog[open] [name=reason]", "the scales are back")
    console.confirm()
    console.one(".title .chip", "running")
    console.one("tbody td", "the scales are back")
    console.until(lambda: ("now", "weigh") in boxes(console) or None, "the step to be asked for")
    console.gone("#decide-retry")
    found = store.find("order-1")
    assert found is not None
    assert found.status is Status.RUNNING
    assert len(weigh.invoke("browse", {})["messages"]) == 2


@pytest.mark.realises("MOM-40", "MOM-42")
def test_the_states_of_a_workflow_and_the_one_of_an_instance_are_shown(console: Console, store: FlowStore) -> None:
    store.deploy(flow := order_flow(name="resourceful"))
    keep(store, "order-9", Answer(key="order-9:reserve"), Answer(key="order-9:weigh"), flow=flow)
    console.open("#/workflow/main/shop/flows/resourceful")
    row = console.one("#states tbody tr", "weigh reserved").text
    assert row.split()[:5] == ["running", "weigh", "reserved", "goods,", "shelf"]
    assert not console.all("#states tr[aria-current]")
    console.open("#/instance/main/shop/flows/order-9")
    assert console.one("#states tr[aria-current]").text.split() == [
        "running",
        "pay",
        "weigh",
        "goods",
        "money,",
        "shelf",
    ]
    assert "money, shelf" in console.one("dl.facts", "Takes or releases").text
    assert "holds goods, +money, -shelf" in [each.text for each in console.all(".picture text")]


def test_who_decides_about_what_has_gone_on_is_told(world: World, console: Console, store: FlowStore) -> None:
    seen = keep(store, "order-3", *parked("order-3"))
    console.open("#/instance/main/shop/flows/order-3")
    console.click("#decide-cancel")
    console.fill("dialog[open] [name=reason]", "the customer left")
    world.host.child("workflow_store", "flows").child("workflow_instance", "order-3").invoke("skip", {}, by="bob")
    console.click("dialog[open] button[type=submit]")
    told = console.one("dialog[open] .problem").text
    assert f"was at revision {seen.revision} when you looked at it, and is running" in told
    console.click("dialog[open] button.quiet", "Cancel")
    console.one(".title .chip", "running")
    assert ("now", "pay") in boxes(console)


def test_whatever_texts_are_in_it_a_picture_runs_nothing(console: Console, store: FlowStore) -> None:
    step = {"name": "a", "queue": EVIL, "compensation": EVIL, "state": EVIL}
    flow = supply_flow(name="evil", title=EVIL, step=[step])
    store.deploy(flow)
    keep(store, "bad", Suspend(reason=EVIL), flow=flow)
    for place in ("#/workflow/main/shop/flows/evil", "#/instance/main/shop/flows/bad"):
        console.open(place)
        console.one(".picture svg")
        tags = console.run(
            "return [...new Set([...document.querySelectorAll('.picture *')].map((each) => each.localName))]"
        )
        assert set(tags) <= {"svg", "title", "defs", "marker", "g", "rect", "path", "text"}
        assert console.run("return document.querySelectorAll('main script, main image').length") == 0
        assert console.browser.title != "taken"
    assert EVIL in console.one(".problem").text


def test_a_route_shows_its_backlog_and_is_paused_resumed_and_stopped(world: World, console: Console) -> None:
    source = world.queue("outgoing")
    target = {"url": None, "queue": "elsewhere"}
    route = world.host.create_child("route", {"name": "to-else", "source": "outgoing", "targets": [target]})
    console.open("#/routes")
    console.one("tbody tr .chip.good", "running")
    console.click("tbody button", "Pause")
    console.one("tbody tr .chip.warn", "paused")
    world.publish(source, text="x")
    console.one("tbody td.number", "1")
    row = console.one("tbody tr", "to-else").text
    assert "outgoing" in row
    assert "elsewhere" in row
    console.click("tbody button", "Resume")
    console.one("tbody tr .chip.good", "running")
    console.until(lambda: route.statistic_values(["forwarded"]) == {"forwarded": 1} or None, "the message to go")
    console.click("tbody button.danger", "Stop")
    console.one("tbody tr .chip.off", "stopped")
    console.one("tbody button", "Start")
