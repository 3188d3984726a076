"""What a client may not do is refused to its contexts over the network, and they go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyjms import ConnectionFactory, DeliveryMode, JMSContext, JMSSecurityException, JMSSecurityRuntimeException
from tests.pyjms.jms2.conftest import served
from tests.pyjms.jms2.lossy import Outcomes
from tests.pyjms.runtime.contexts import received_texts

DENIED = [
    {"effect": "deny", "who": "*", "operations": ["write"], "kind": "queue", "name": "no-sends"},
    {"effect": "deny", "who": "*", "operations": ["read", "browse"], "kind": "queue", "name": "no-receives"},
]


@pytest.fixture(scope="module", params=["stomp", "amqp"])
def factory(request: pytest.FixtureRequest) -> Iterator[ConnectionFactory]:
    with served(request.param, denied=DENIED) as url:
        yield ConnectionFactory(url)


def goes_on(context: JMSContext) -> None:
    """Check that the context still sends and receives."""
    queue = context.create_temporary_queue()
    context.create_producer().send(queue, "still there")
    if context.transacted:
        context.commit()
    assert received_texts(context.create_consumer(queue), 1) == ["still there"]


@pytest.mark.parametrize("delivery_mode", DeliveryMode)
@pytest.mark.parametrize("mode", [JMSContext.AUTO_ACKNOWLEDGE, JMSContext.SESSION_TRANSACTED])
def test_a_send_is_refused(factory: ConnectionFactory, mode: int, delivery_mode: int) -> None:
    with factory.create_context(mode) as context:
        producer = context.create_producer().set_delivery_mode(delivery_mode)
        with pytest.raises(JMSSecurityRuntimeException) as caught:
            producer.send(context.create_queue("no-sends"), "tea")
        assert isinstance(caught.value.__cause__, JMSSecurityException)
        goes_on(context)


def test_the_listener_of_an_asynchronous_send_is_told(factory: ConnectionFactory) -> None:
    outcomes = Outcomes()
    with factory.create_context() as context:
        producer = context.create_producer().set_async(outcomes)
        for name in ("others", "no-sends", "others"):
            producer.send(context.create_queue(name), name)
        outcomes.wait(3)
        goes_on(context)
    assert [(text, type(error)) for text, error in outcomes.told] == [
        ("others", type(None)),
        ("no-sends", JMSSecurityException),
        ("others", type(None)),
    ]


READS: dict[str, Callable[[JMSContext], Any]] = {
    "consumer": lambda context: context.create_consumer(context.create_queue("no-receives")),
    "browser": lambda context: list(context.create_browser(context.create_queue("no-receives"))),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_consumer_and_a_browser_are_refused(factory: ConnectionFactory, read: Callable[[JMSContext], object]) -> None:
    with factory.create_context() as context:
        with pytest.raises((JMSSecurityRuntimeException, JMSSecurityException)):
            read(context)
        goes_on(context)
