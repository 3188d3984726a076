"""What a source passes over, it settles; what nobody can read, it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pyjms.kombu.envelopes import ROUTING_KEY
from pyjms.kombu.link import Link
from pyjms.kombu.transport import of_queue, of_topic
from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.errors import GoneError
from pyjms.spi.selector import Selector


def delivery(key: str | None) -> Delivery:
    properties = {} if key is None else {ROUTING_KEY: key}
    news = Address(AddressKind.TOPIC, "news")
    envelope = Envelope(news, None, 0, 0, 1, 4, None, None, None, properties, BodyKind.NONE, None)
    return Delivery(envelope, 1, False, None)


class Fake:
    """A link that has some messages, or errors in their place."""

    def __init__(self, *comes: Delivery | GoneError, capabilities: Capability = Capability.NONE) -> None:
        self.comes = list(comes)
        self.capabilities = capabilities
        self.acknowledged: list[Delivery] = []
        self.selectors: list[str | None] = []

    def subscribe(self, address: Address, selector: Selector | None, priority: int) -> None:
        self.selectors.append(None if selector is None else selector.text)

    def poll(self, consumer: None, *, waits: bool, is_shared: bool) -> Delivery | None:
        if not self.comes:
            return None
        first = self.comes.pop(0)
        if isinstance(first, GoneError):
            raise first
        return first

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.acknowledged += deliveries


def link(fake: Fake) -> Link:
    return cast("Link", fake)


def test_what_is_for_others_is_settled() -> None:
    comes = [delivery("b"), delivery(None), delivery("a"), delivery("b")]
    fake = Fake(*comes)
    source = of_topic(link(fake), "news", "a", "a".__eq__, is_exact=True)
    assert source.take() is comes[2]
    assert source.take() is None
    assert fake.acknowledged == [comes[0], comes[1], comes[3]]


def test_a_broker_with_selectors_sends_only_what_is_wanted() -> None:
    fake = Fake(capabilities=Capability.SELECTORS)
    of_topic(link(fake), "news", "a'b", "a'b".__eq__, is_exact=True)
    of_topic(link(fake), "news", "a.#", str.isalpha, is_exact=False)
    assert fake.selectors == [f"{ROUTING_KEY} = 'a''b'", None]


def test_a_message_that_has_gone_is_passed_over() -> None:
    comes = delivery("a")
    fake = Fake(GoneError("nobody can read it"), comes)
    assert of_queue(link(fake), "orders").take() is comes
    assert fake.acknowledged == []
