"""Where a consumer of a kombu queue gets its messages from: the queue of that name, or topics to which it was bound."""

from __future__ import annotations

from collections.abc import Callable

from pyjms.kombu.envelopes import ROUTING_KEY
from pyjms.kombu.link import Link
from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import GoneError
from pyjms.spi.selector import Selector, compile_selector


class Source:
    """One consumer of the SPI, and which of its messages are wanted."""

    def __init__(
        self,
        link: Link,
        address: Address,
        *,
        selector: Selector | None = None,
        is_wanted: Callable[[Delivery], bool] | None = None,
        priority: int = 0,
    ) -> None:
        self._link = link
        self._is_wanted = is_wanted
        self._is_shared = address.kind is AddressKind.QUEUE
        self._consumer = link.subscribe(address, selector, priority)

    def take(self, *, waits: bool = False) -> Delivery | None:
        """Return the next message; None: there is none now. With `waits` the link is woken when there is one."""
        while True:
            try:
                delivery = self._link.poll(self._consumer, waits=waits, is_shared=self._is_shared)
            except GoneError:
                continue  # set aside, as nobody can read it; the provider tells its owner
            if delivery is None or self._is_wanted is None or self._is_wanted(delivery):
                return delivery
            self._link.acknowledge((delivery,))

    def catch_up(self) -> None:
        """Wait until `take` would return what there is now."""
        self._link.catch_up(self._consumer)

    def rest(self) -> None:
        """Have what has come and was not taken go to others."""
        if self._is_shared:
            self._link.lose_interest(self._consumer)

    def close(self) -> None:
        """End it."""
        self._link.end(self._consumer)


def of_queue(link: Link, queue: str, priority: int = 0) -> Source:
    """Receive from the queue of this name."""
    return Source(link, Address(AddressKind.QUEUE, queue), priority=priority)


def of_topic(link: Link, exchange: str, binding_key: str, matches: Callable[[str], bool], *, is_exact: bool) -> Source:
    """Receive what is published to an exchange from now on, by the topic of its name, if its routing key `matches`.

    `is_exact`: that is the binding key alone, so that a broker with selectors sends nothing else.
    """
    selector = None
    if is_exact and Capability.SELECTORS in link.capabilities and binding_key.isprintable():
        quoted = binding_key.replace("'", "''")
        selector = compile_selector(f"{ROUTING_KEY} = '{quoted}'")
    return Source(
        link,
        Address(AddressKind.TOPIC, exchange),
        selector=selector,
        is_wanted=lambda delivery: matches(str(delivery.envelope.properties.get(ROUTING_KEY) or "")),
    )
