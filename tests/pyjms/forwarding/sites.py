"""Two sites for tests of routes: brokers in this process, what clients put in and take out, and routes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event
from typing import Any

from pyjms import Connection, ConnectionFactory, DeliveryMode, Message, Session
from pyjms.forwarding import BackOff, Plan, RouteSettings, RouteThread, Site, Target, Transfer, to_all
from pyjms.spi import Address, AddressKind
from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.routes import RouteStatistics

PATIENCE_S = 60.0
QUICK = BackOff(first_ms=5, most_ms=50)
_numbers = count(1)


def queue_at(url: str, name: str, **more: Any) -> Target:
    """Return a queue at a site."""
    return Target(site=Site(url=url), address=Address(AddressKind.QUEUE, name), **more)


def route(source: Target, **more: Any) -> RouteSettings:
    """Return settings for tests: quick, and with a queue for what cannot be delivered."""
    chosen = {"name": "r1", "back_off": QUICK, "undeliverable": f"{source.address.name}.undeliverable", **more}
    return RouteSettings(source=source, **chosen)


@contextmanager
def running(settings: RouteSettings, *targets: Target, plan: Plan | None = None) -> Iterator[RouteThread]:
    """Run a route to targets."""
    transfer = Transfer(settings, plan or to_all(targets), lambda: targets, SystemClock())
    thread = RouteThread(transfer)
    try:
        yield thread
    finally:
        thread.stop()
        assert thread.wait(PATIENCE_S)


def until(wanted: Callable[[], bool], what: str = "what the test waits for") -> None:
    """Wait until something is true, which nobody tells of."""
    clock: Clock = SystemClock()
    end_ms = clock.monotonic_ms() + PATIENCE_S * 1000
    pause = Event()
    while not wanted():
        assert clock.monotonic_ms() < end_ms, f"{what} has not come"
        pause.wait(0.005)


def statistics_when(thread: RouteThread, wanted: Callable[[RouteStatistics], bool]) -> RouteStatistics:
    """Return the statistics once they are as wanted."""
    until(lambda: wanted(thread.statistics()), f"the route ({thread.statistics()})")
    return thread.statistics()


class Client:
    """One client of one site."""

    def __init__(self, url: str) -> None:
        self.connection: Connection = ConnectionFactory(url).create_connection()
        self.session = self.connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self.connection.start()

    def put(
        self, name: str, text: str = "", *, priority: int = 4, mode: int = DeliveryMode.PERSISTENT, **properties: Any
    ) -> Message:
        """Send one message."""
        message = self.session.create_text_message(text)
        for each, value in properties.items():
            message.set_object_property(each, value)
        with self.session.create_producer(self.session.create_queue(name)) as producer:
            producer.priority = priority
            producer.delivery_mode = DeliveryMode(mode)
            producer.send(message)
        return message

    def take(self, name: str, timeout_ms: int = 15_000) -> Any:
        """Receive one message."""
        with self.session.create_consumer(self.session.create_queue(name)) as consumer:
            found = consumer.receive(timeout_ms)
        assert found is not None, f"nothing came to {name}"
        return found

    def look(self, name: str) -> list[Any]:
        """Return the messages that are in a queue."""
        with self.session.create_browser(self.session.create_queue(name)) as browser:
            return list(browser)

    def texts(self, name: str) -> list[str]:
        """Return the texts of the messages that are in a queue, in order."""
        return [message.text for message in self.look(name)]

    def close(self) -> None:
        """Close its connection."""
        self.connection.close()
