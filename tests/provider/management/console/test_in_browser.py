"""The console in a real browser without a screen: what it shows, what it does, and that nothing breaks it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver

from pyjms import ConnectionFactory, Session
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.xid import Xid
from pyjms_provider.clients.vm import VmConnection
from tests.browser import open_browser
from tests.provider.helpers import RecordedEvents, make_envelope
from tests.provider.management.console.world import Console, Keys, World, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = (
    '<script>document.title="taken"</script>',
    "<img src=x onerror=\"document.title='taken'\">",
    "a\"b'c`$1\\n",
    "with/slash/and?query#hash%2F",
    "שלום \u202eevil\u202c عالم",
    "x" * 255,
    "100% & more; = depth > 1 OR 'a' LIKE '%'",
)


def js_hash(*parts: str) -> str:
    from urllib.parse import quote

    return "#/" + "/".join(quote(part, safe="") for part in parts)


@pytest.mark.realises("BJ-WEB-1")
def test_a_selector_is_tried_on_messages_and_the_clause_that_decides_is_shown(world: World, console: Console) -> None:
    queue = world.queue("tried")
    for number, region in enumerate(("north", "south", "north")):
        properties = {"region": region, "amount": {"type": "long", "value": number * 10}}
        world.publish(queue, text=f"order {number}", properties=properties)
    console.open(js_hash("queue", "main", "shop", "tried"))
    console.one("tbody button.link")
    console.fill(".bar input[type=text]", "region = 'north' AND amount > 15")
    console.press(Keys.ENTER)
    console.one(".verdict", "takes 1 of the 3")
    assert [chip.text for chip in console.all("tbody .chip")] == ["✗ leaves", "✗ leaves", "✓ takes"]
    console.all("tbody button.link")[0].click()
    assert console.one(".clauses .decides code").text == "amount > 15"
    assert "amount is 0 (long)" in console.one(".clauses .decides .reads").text
    console.fill(".bar input[type=text]", "region = = 1")
    console.press(Keys.ENTER)
    assert "PYJMS-SELECTOR" in console.one(".problem .code").text.upper()


def test_every_kind_of_body_and_property_is_shown_with_its_type(world: World, console: Console) -> None:
    world.queue("kinds")
    connection = ConnectionFactory(world.stomp).create_connection()
    try:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("kinds"))
        mapped = session.create_map_message()
        mapped.set_short("short", 7)
        mapped.set_bytes("bytes", b"\x00\xff")
        mapped.set_byte_property("tiny", 3)
        stream = session.create_stream_message()
        stream.write_double(0.5)
        stream.write_string("<b>bold</b>")
        data = session.create_bytes_message()
        data.write_bytes(b"Hello\x01")
        for message in (mapped, stream, data):
            producer.send(message)
    finally:
        connection.close()
    console.open(js_hash("queue", "main", "shop", "kinds"))
    console.until(lambda: len(console.all("tbody button.link")) == 3 or None, "three messages")
    console.all("tbody button.link")[0].click()
    cells = [cell.text for cell in console.all(".detail .values td")]
    assert cells[:3] == ["tiny", "byte", "3"]
    assert ["short", "short", "7"] in [cells[at : at + 3] for at in range(0, len(cells), 3)]
    assert any(text.startswith("000000  00 ff") for text in cells)
    console.all("tbody button.link")[1].click()
    console.one(".detail .values td", "<b>bold</b>")
    console.all("tbody button.link")[2].click()
    assert console.one("pre.body.hex").text == f"000000  {'48 65 6c 6c 6f 01':47}  Hello·"


def test_no_name_breaks_the_page_or_becomes_part_of_it(world: World, console: Console) -> None:
    for name in HOSTILE:
        world.publish(world.queue(name), text=name, properties={"p": name}, type=name)
    console.open("#/queues")
    console.until(lambda: set(HOSTILE) <= {link.text for link in console.all("tbody a")} or None, "all names")
    for name in HOSTILE:
        console.go("#/queues")
        console.one("h1", "Queues")
        console.fill("#filter", name)
        console.until(lambda: [link.text for link in console.all("tbody a")] == [name] or None, "the row alone")  # noqa: B023
        console.one("tbody a").click()
        console.until(lambda: console.one("h1").text == name or None, "the queue's page")  # noqa: B023
        console.click("tbody button.link")
        assert console.one("pre.body").text == name
    console.click("#delete")
    console.confirm()
    console.one("h1", "Queues")
    console.until(lambda: console.browser.title == "Queues · shop" or None, "the title")
    assert console.run("return document.scripts.length") == 1
    assert HOSTILE[-1] not in world.host.child_names("queue")
    for name in HOSTILE[:-1]:
        world.host.child("queue", name).delete()


def test_all_can_be_done_with_the_keyboard_alone(world: World, console: Console) -> None:
    console.open()
    console.one("h1", "Overview")
    console.press("g")
    console.press("q")
    console.one("h1", "Queues")
    console.one("[data-key=new]")
    console.press("n")
    console.until(lambda: console.run("return document.activeElement.name") == "name" or None, "the focus")
    console.press("by keys", Keys.ENTER)
    console.one("h1", "by keys")
    console.press("?")
    console.one("dialog[open] kbd")
    console.press(Keys.ESCAPE)
    console.gone("dialog[open]")
    console.press("n")
    console.until(lambda: console.all("dialog[open] textarea") or None, "the form")
    console.press(Keys.ESCAPE)
    console.gone("dialog[open]")
    console.press("g")
    console.press("a")
    console.one("[role=tree]")
    console.until(lambda: console.all("[role=treeitem][tabindex='0']") or None, "the tree")
    console.run("document.querySelector(\"[role=treeitem][tabindex='0']\").focus()")
    for key in (Keys.END, Keys.ARROW_RIGHT):
        console.press(key)
    console.one("[role=treeitem] a", "operators")
    console.press(Keys.ARROW_DOWN)
    console.press(Keys.ENTER)
    console.one("h1", "clients")
    world.host.child("queue", "by keys").delete()


def test_messages_are_moved_copied_and_purged_when_that_is_confirmed(world: World, console: Console) -> None:
    queue = world.queue("source")
    for number in range(3):
        world.publish(queue, text=f"text {number}")
    console.open(js_hash("queue", "main", "shop", "source"))
    console.one("tbody button.link")
    console.all("tbody input[type=checkbox]")[0].click()
    console.click(".picked button", "Move")
    console.fill("dialog [name=target]", "elsewhere")
    console.confirm()
    console.until(lambda: len(console.all("tbody button.link")) == 2 or None, "one message to go")
    target: Any = world.host.child("queue", "elsewhere")
    assert target.depth == 1
    console.click("#purge")
    assert not console.one("dialog[open] button[type=submit]").is_enabled()
    console.fill("dialog .typed input", "source")
    console.confirm()
    console.one(".empty", "No message waits here")
    console.one(".tile strong", "0")


def test_dead_letters_tell_why_and_go_back(world: World, console: Console) -> None:
    queue: Any = world.queue("fragile", max_deliveries=1, dead_letter="graveyard")
    world.publish(queue, text="too hard")
    connection = ConnectionFactory(world.stomp).create_connection()
    try:
        connection.start()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        consumer = session.create_consumer(session.create_queue("fragile"))
        assert consumer.receive(10_000) is not None
        session.rollback()
        console.open("#/dead")
        console.click("tbody a", "graveyard")
        console.one("tbody td", "delivered too often")
        console.one("tbody td", "queue://fragile")
    finally:
        connection.close()
    console.click("#replay-all")
    console.one("dialog[open]", "1 go back to where they came from")
    console.confirm()
    console.one(".empty", "There are no letters")
    assert queue.depth == 1


def test_a_connection_is_seen_with_its_consumers_and_ended(world: World, console: Console) -> None:
    world.queue("listened")
    connection = ConnectionFactory(world.stomp).create_connection()
    try:
        connection.client_id = "the warehouse"
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_consumer(session.create_queue("listened"), "a = 1")
        console.open("#/connections")
        row = console.one("tbody tr", "the warehouse")
        button = row.find_element("css selector", "button")
        name = button.text
        button.click()
        console.one(".sessions", "a = 1")
        console.click("#disconnect")
        console.fill("dialog [name=reason]", "maintenance")
        console.confirm()
        console.until(
            lambda: not [each for each in console.all("tbody button") if each.text == name] or None, "its end"
        )
    finally:
        connection.close()


def test_a_transaction_in_doubt_is_settled_and_forgotten(world: World, console: Console, tmp_path: Path) -> None:
    node = world.served.broker.create_child("virtual_host_node", {"name": "kept", "type": "memory"})
    store = f"sqlite:///{tmp_path}/kept.db"
    host: Any = node.create_child("virtual_host", {"name": "kept", "store_url": store})
    queue: Any = host.create_child("queue", {"name": "doubted"})
    connection = VmConnection(host.embedded, RecordedEvents())
    try:
        session = connection.open_session(transacted=True)
        xid = Xid(1, b"global", b"branch")
        session.xa_start(xid)
        session.send(make_envelope("1", destination=Address(AddressKind.QUEUE, "doubted")))
        session.xa_end(xid)
        session.xa_prepare(xid)
        console.open("#/transactions")
        console.one("tbody .chip", "in doubt")
        console.click("tbody button", "Commit")
        console.confirm()
        console.one("tbody .chip", "heuristically committed")
        assert queue.depth == 1
        console.click("tbody button", "Forget")
        console.confirm()
        console.one(".empty", "There are no branches")
    finally:
        connection.close()
        console.browser.get("about:blank")
        node.delete()


def test_what_the_broker_refuses_is_said_beside_the_field(world: World, console: Console) -> None:
    console.open("#/queues")
    console.click("[data-key=new]")
    console.fill("dialog [name=name]", "wrong")
    console.fill("dialog [name=max_messages]", "-1")
    console.click("dialog button[type=submit]")
    assert "max_messages" in console.one("dialog .problem").text
    console.one("dialog .is-wrong [name=max_messages]")
    console.fill("dialog [name=max_messages]", "many")
    console.click("dialog button[type=submit]")
    console.one("dialog .is-wrong .wrong", "is a number")
    console.click("dialog button", "Cancel")
    console.gone("dialog[open]")


@pytest.mark.requires("browser")
def test_it_is_dark_where_the_system_is_and_as_chosen(world: World) -> None:
    browser = open_browser(dark=True, width=1360)
    try:
        console = Console(browser, world.http)
        console.open()
        console.one("h1", "Overview")
        ground = "return getComputedStyle(document.body).backgroundColor"
        assert console.run(ground) == "rgb(15, 21, 27)"
        console.click("#theme")
        assert (console.one("#theme").text, console.run(ground)) == ("Theme: light", "rgb(244, 246, 248)")
        browser.refresh()
        console.one("h1", "Overview")
        assert console.run(ground) == "rgb(244, 246, 248)"
    finally:
        browser.quit()


def test_it_fits_a_phone_and_names_all_its_controls(world: World, console: Console, chromium: webdriver.Chrome) -> None:
    world.publish(world.queue("narrow"), text="a long text " * 50, properties={"name": "v" * 300})
    chromium.set_window_size(500, 900)
    try:
        for place in ("#/overview", "#/queues", js_hash("queue", "main", "shop", "narrow"), "#/tree/port/clients"):
            console.open(place)
            console.one("h1")
            assert console.run("return document.documentElement.scrollWidth <= innerWidth"), place
            assert console.run(UNNAMED) == [], place
    finally:
        chromium.set_window_size(1360, 900)


UNNAMED = """
return [...document.querySelectorAll("button, a, input, select, textarea")].filter((each) =>
  !each.textContent.trim() && !each.getAttribute("aria-label") && !(each.labels && each.labels.length)).map((each) => each.outerHTML);
"""


@pytest.fixture
def ten_thousand_queues(world: World) -> Iterator[None]:
    running: Any = world.host
    names = [f"many.{number:05}" for number in range(10_000)]
    for name in names:
        running.embedded.virtual_host.create_queue(name, None)
    yield
    for name in names:  # other tests look for theirs on the first page
        running.embedded.virtual_host.destroy_queue(name)


@pytest.mark.usefixtures("ten_thousand_queues")
def test_ten_thousand_queues_are_shown_a_page_at_a_time(world: World, console: Console) -> None:
    took = []
    for _ in range(5):
        begun = time.process_time()  # of this process, broker and all: others may use the machine
        status, _, body = ask(f"{world.http}/api/latest/queue?limit=50&fields=name,names,depth,waiting")
        took.append(time.process_time() - begun)
        assert (status, len(json.loads(body)["items"])) == (200, 50)
    assert min(took) < 0.2
    console.open("#/queues")
    console.one(".pager", "of 10,0")
    console.fill("#filter", "many.0999")
    console.one(".pager", "1 \u2013 10 of 10")
    console.fill("#filter", "=name = 'many.00007' AND depth = 0")
    console.one(".pager", "1 \u2013 1 of 1")
    console.fill("#filter", "=depth >")
    console.one(".problem")
