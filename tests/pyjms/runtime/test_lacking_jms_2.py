"""What of JMS 2.0 a provider lacks is refused by the name of the capability, before the provider is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms import ConnectionFactory, IllegalStateException, JMSException
from pyjms.spi.capability import Capability
from tests.pyjms.runtime.helpers import drain
from tests.pyjms.runtime.server_pool import Pool
from tests.pyjms.runtime.wrapping import Wrapped

Use = Callable[[Any, Any, Any], object]
"""What a program does with a connection, a session and a topic."""

SHARED: list[Use] = [
    lambda connection, session, topic: session.create_shared_consumer(topic, "all"),
    lambda connection, session, topic: session.create_shared_durable_consumer(topic, "all"),
    lambda connection, session, topic: connection.create_shared_connection_consumer(
        topic, "all", None, Pool(connection, None), 1
    ),
    lambda connection, session, topic: connection.create_shared_durable_connection_consumer(
        topic, "all", None, Pool(connection, None), 1
    ),
]


def set_delay(connection: Any, session: Any, topic: Any) -> None:
    session.create_producer(topic).delivery_delay = 1


@pytest.mark.parametrize(
    ("capability", "use"),
    [
        *((Capability.SHARED_SUBSCRIPTIONS, use) for use in SHARED),
        *((Capability.DURABLE_SUBSCRIPTIONS, use) for use in (SHARED[1], SHARED[3])),
        (Capability.DURABLE_SUBSCRIPTIONS, lambda _, session, topic: session.create_durable_consumer(topic, "all")),
        *((Capability.CONNECTION_CONSUMERS, use) for use in SHARED[2:]),
        (Capability.SELECTORS, lambda _, session, topic: session.create_shared_consumer(topic, "all", "a = 1")),
        (Capability.DELIVERY_DELAY, set_delay),
    ],
)
def test_what_a_provider_lacks_is_named(jms_broker_url: str, capability: Capability, use: Use) -> None:
    with (
        Wrapped(jms_broker_url, remove=capability) as wrapped,
        ConnectionFactory(wrapped.url, client_id="shop").create_connection() as connection,
    ):
        session = connection.create_session()
        topic = session.create_topic("prices")
        with pytest.raises(JMSException) as caught:
            use(connection, session, topic)
        assert type(caught.value) is JMSException
        assert caught.value.error_code == "PYJMS-CAPABILITY"
        assert str(capability.name) in str(caught.value)
        assert "subscribe" not in wrapped.calls


def test_no_delay_is_a_delay_of_every_provider(jms_broker_url: str) -> None:
    with (
        Wrapped(jms_broker_url, remove=Capability.DELIVERY_DELAY) as wrapped,
        ConnectionFactory(wrapped.url).create_connection() as connection,
    ):
        connection.start()
        session = connection.create_session()
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        producer.delivery_delay = 0
        producer.send(session.create_text_message("at once"))
        assert drain(session.create_consumer(queue)) == ["at once"]


def test_without_shared_subscriptions_only_a_client_identifier_has_durable_ones(jms_broker_url: str) -> None:
    with (
        Wrapped(jms_broker_url, remove=Capability.SHARED_SUBSCRIPTIONS) as wrapped,
        ConnectionFactory(wrapped.url).create_connection() as connection,
        pytest.raises(IllegalStateException, match="client_id"),
    ):
        connection.create_session().unsubscribe("all")
