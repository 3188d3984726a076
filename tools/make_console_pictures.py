"""Takes the pictures of the console that docs/how-to/console.md shows: a small shop with work to do, seen in Chromium."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyjms import Connection, ConnectionFactory, DeliveryMode, Session
from pyjms.flows.instance import Answer
from pyjms.flows.store import open_store
from pyjms_provider.model.virtual_host import VirtualHost
from tests.browser import open_browser
from tests.provider.management.console.world import Console, World, open_world
from tests.pyjms.flows.supply import SUPPLY_FLOW, keep, parked

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "pictures"
ORDER = '{"order": %d, "customer": "%s", "items": [{"sku": "A-17", "count": 2}], "amount": %d.50}'
REGIONS = ("north", "south", "east", "west")
NAMES = ("Ada", "Grace", "Barbara", "Edsger", "Tony")


def fill(world: World) -> None:
    """Make queues with messages, dead letters among them."""
    orders = world.queue("orders", max_messages=10_000, description="What customers want.")
    for number in range(60):
        text = ORDER % (number, NAMES[number % 5], 20 + number * 7 % 400)
        properties = {
            "region": REGIONS[number % 4],
            "amount": {"type": "double", "value": 20.5 + number * 7 % 400},
            "express": number % 5 == 0,
            "attempt": {"type": "byte", "value": 1},
        }
        world.publish(orders, text=text, properties=properties, priority=4 + number % 3, type="order")
    for name, many in {"invoices": 17, "mail.out": 4, "mail.bounced": 0, "stock.changes": 230, "reports": 1}.items():
        queue = world.queue(name, **({"alert_messages": 200} if name == "stock.changes" else {}))
        for number in range(many):
            world.publish(queue, text=f"{name} {number}")
    world.queue("audit", paused=True, type="priority")
    world.publish(world.queue("thumbnails"), base64="iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB")
    world.queue("payments", max_deliveries=1)


def fail(connection: Connection) -> None:
    """Have a receiver reject some payments, so that there are dead letters."""
    connection.start()
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    queue = session.create_queue("payments")
    producer = session.create_producer(queue)
    for number in range(6):
        message = session.create_text_message(f"pay invoice {number}: 19.90 EUR")
        message.set_int_property("invoice", 1000 + number)
        producer.send(message, DeliveryMode.PERSISTENT, 4, 0)
    session.commit()
    consumer = session.create_consumer(queue)
    while consumer.receive(500) is not None:
        session.rollback()
    session.close()


@contextmanager
def clients(world: World) -> Iterator[None]:
    """Have some clients connected."""
    connections = []
    for client_id in ("warehouse", "billing", "mailer"):
        connection = ConnectionFactory(world.stomp).create_connection()
        connection.client_id = client_id
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_consumer(session.create_queue("mail.bounced"), "priority > 4")
        connections.append(connection)
    fail(connections[0])
    try:
        yield
    finally:
        for connection in connections:
            connection.close()


def take(console: Console, name: str) -> None:
    """Take a picture of what is shown."""
    path = FOLDER / f"console-{name}.png"
    console.browser.save_screenshot(str(path))
    print(path)


def history(console: Console, name: str, step: int) -> None:
    """Give a chart an hour to show."""
    console.run(
        """const points = [], now = Date.now();
        for (let at = 0; at < 1800; at += 4)
          points.push([now - (1800 - at) * 2000, Math.round(arguments[1] * (1 + Math.sin(at / 190) * .6 + Math.sin(at / 23) * .2))]);
        const all = new Map(JSON.parse(sessionStorage.getItem("pyjms-history") ?? "[]"));
        all.set(arguments[0], points);
        sessionStorage.setItem("pyjms-history", JSON.stringify([...all]));""",
        name,
        step,
    )


def pictures(world: World, console: Console) -> None:
    """Walk through the console."""
    console.browser.get(f"{world.http}/console/icon.svg")
    history(console, "broker/messages", 320)
    history(console, "broker/connections", 3)
    history(console, "queue/main/shop/orders", 60)
    console.open()
    console.one(".tile strong", "3")
    take(console, "overview")
    console.go("#/queues")
    console.click("th button", "Depth")
    console.until(lambda: "stock" in console.one("tbody tr").text or None, "the order")
    for _ in range(3):
        world.publish(world.host.child("queue", "mail.out"), text="news")
    console.until(
        lambda: any("mail.out" in row.text and "7" in row.text for row in console.all("tbody tr")) or None, "news"
    )
    take(console, "queues")
    console.go("#/queue/main/shop/orders")
    console.one("tbody button.link")
    console.fill(".bar input[type=text]", "region = 'north' AND (amount > 300 OR express = TRUE)")
    console.click(".bar button", "Try")
    console.one(".verdict", "takes")
    console.all("tbody button.link")[2].click()
    console.one(".clauses")
    take(console, "messages")
    console.go("#/letters/main/shop/DLQ")
    console.one("tbody button.link")
    take(console, "dead-letters")
    console.run("localStorage.setItem('pyjms-theme', 'dark')")
    console.open("#/tree/port/clients")
    console.one("h1", "clients")
    console.one(".tree a", "clients")
    take(console, "objects-dark")
    console.browser.set_window_size(500, 900)
    console.open("#/queues")
    console.one("tbody tr")
    take(console, "phone")


def story_picture(world: World, console: Console, folder: Path) -> None:
    """Have a message fail, be set aside, and go back; and show its story."""
    node = world.served.broker.create_child("virtual_host_node", {"name": "second", "type": "memory"})
    host = node.create_child("virtual_host", {"name": "shop2", "story": "all", "story_directory": str(folder)})
    payments = host.create_child("queue", {"name": "payments", "max_deliveries": 2})
    payments.invoke("publish", {"message": {"text": "pay invoice 1003", "correlation_id": "invoice-1003"}})
    connection = ConnectionFactory(f"{world.stomp}?virtual_host=shop2", client_id="billing").create_connection()
    try:
        connection.start()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        consumer = session.create_consumer(session.create_queue("payments"))
        while consumer.receive(500) is not None:
            session.rollback()
    finally:
        connection.close()
    host.child("dead_letter", "DLQ").invoke("replay", {}, by="ann")
    console.run("localStorage.removeItem('pyjms-theme')")
    console.browser.set_window_size(1360, 900)
    console.open("#/story/second/shop2?correlation_id=invoice-1003")
    console.one("tr[data-step=replayed]")
    take(console, "story")


def workflow_pictures(world: World, console: Console, folder: Path) -> None:
    """Have instances of a workflow stand at several places, and routes with and without their site; show both."""
    url = f"sqlite:///{folder / 'flows.db'}"
    store = open_store(url)
    store.deploy(SUPPLY_FLOW)
    world.host.create_child("workflow_store", {"name": "flows", "store_url": url})
    now_ms = world.host.clock.time_ms()
    refused = Answer(key="order-4714:weigh", is_refused=True, reason="the scales are broken")
    keep(store, "order-4711", *parked("order-4711"), at_ms=now_ms - 900_000)
    keep(store, "order-4712", at_ms=now_ms - 5_000)
    keep(store, "order-4714", Answer(key="order-4714:reserve"), refused, at_ms=now_ms - 60_000)
    store.close()
    world.publish(world.queue("stock.weigh"), text="{}", correlation_id="order-4711:weigh")
    away = {"url": "stomp://127.0.0.1:1?reconnect=no", "queue": "inbox"}
    world.host.create_child("route", {"name": "paris", "source": "reports", "targets": [away]})
    world.host.create_child("route", {"name": "copies", "source": "invoices", "targets": [{"queue": "archive"}]})
    console.browser.set_window_size(1360, 1500)
    console.open("#/instance/main/shop/flows/order-4711")
    console.one("pre.body")
    take(console, "workflow")
    console.browser.set_window_size(1360, 500)
    console.open("#/routes")
    console.one("tbody .chip", "away")
    console.until(lambda: console.all("tbody td.number")[1].text[:1].isdigit() or None, "rates")
    take(console, "routes")


def main() -> int:
    """Take them all."""
    browser = open_browser(width=1360)
    try:
        with open_world() as world:
            fill(world)
            with clients(world):
                assert isinstance(world.host, VirtualHost)
                world.host.sampler.sample(world.host.clock.time_ms())  # alerts are there at once
                console = Console(browser, world.http)
                pictures(world, console)
                with tempfile.TemporaryDirectory() as folder:
                    story_picture(world, console, Path(folder))
                    workflow_pictures(world, console, Path(folder))
                print("\n".join(console.complaints()))
    finally:
        browser.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
