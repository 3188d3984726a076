"""One broker in this process, its connections, and short ways to use them."""

from __future__ import annotations

from itertools import count

from pyjms.spi.clock import Clock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, Envelope
from pyjms.spi.provider import ConnectRequest, SubscribeRequest
from pyjms.spi.selector import compile_selector
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.vm import VmConnection, VmConsumer, VmProvider, VmSession
from tests.provider.helpers import NEWS, ORDERS, HandClock, RecordedEvents, make_envelope, text_of

_numbers = count(1)


class World:
    """One broker with a name of its own."""

    def __init__(self) -> None:
        self.provider = VmProvider()
        self.name = f"vm-test-{next(_numbers)}"
        self.events = RecordedEvents()
        self.clock: Clock = HandClock()

    def connect(
        self,
        options: str = "",
        *,
        client_id: str | None = None,
        clock: Clock | None = None,
        events: RecordedEvents | None = None,
        started: bool = True,
    ) -> VmConnection:
        request = ConnectRequest(
            url=ProviderUrl.parse(f"vm://{self.name}{options}"),
            user_name=None,
            password=None,
            client_id=client_id,
            clock=clock or self.clock,
        )
        connection = self.provider.connect(request, events or self.events)
        assert isinstance(connection, VmConnection)
        if started:
            connection.start()
        return connection

    def stop(self) -> None:
        self.provider.stop_broker(ProviderUrl.parse(f"vm://{self.name}"))


def consume(
    session: VmSession,
    address: Address = ORDERS,
    selector: str | None = None,
    *,
    no_local: bool = False,
    durable_name: str | None = None,
    shared_name: str | None = None,
    is_shared: bool = False,
    priority: int = 0,
    wake_ups: list[None] | None = None,
) -> VmConsumer:
    request = SubscribeRequest(
        address=address,
        selector=None if selector is None else compile_selector(selector),
        no_local=no_local,
        durable_name=durable_name,
        shared_name=shared_name,
        is_shared=is_shared,
        priority=priority,
    )
    sink: list[None] = [] if wake_ups is None else wake_ups
    return session.subscribe(request, lambda: sink.append(None))


def drain(session: VmSession, consumer: VmConsumer) -> list[str]:
    texts: list[str] = []
    while (delivery := consumer.poll()) is not None:
        texts.append(text_of(delivery))
        session.acknowledge([delivery])
    return texts


def poll(consumer: VmConsumer) -> Delivery:
    delivery = consumer.poll()
    assert delivery is not None
    return delivery


def news(text: str, *, persistent: bool = False) -> Envelope:
    return make_envelope(text, destination=NEWS, persistent=persistent)
