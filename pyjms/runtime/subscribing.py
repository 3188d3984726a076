"""What a consumer may ask for, checked alike for the consumers of sessions and of connections (JMS 1.1 §4.5, §6.11.1, §8.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.api.destination import Destination, TemporaryTopic, Topic
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
)
from pyjms.messages.destinations import address_of
from pyjms.runtime.error_mapping import mapped_errors
from pyjms.spi.capability import Capability
from pyjms.spi.envelope import AddressKind
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.selector import Selector, selector_or_none

if TYPE_CHECKING:
    from pyjms.runtime.contracts import ConnectionContract


def subscribe_request(
    connection: ConnectionContract,
    destination: Destination,
    selector: str | None,
    *,
    no_local: bool = False,
    durable_name: str | None = None,
) -> SubscribeRequest:
    """Return what to ask the provider for.

    Raises `InvalidDestinationException`, `InvalidSelectorException`; `JMSException` for what the provider lacks.
    """
    address = address_of(destination)
    if selector:
        connection.require(Capability.SELECTORS, "message selectors")
    if address.kind is AddressKind.TOPIC:
        connection.require(Capability.TOPICS, "topics")
        if no_local:
            connection.require(Capability.NO_LOCAL, "no_local")
    with mapped_errors:
        return SubscribeRequest(
            address=address,
            selector=selector_of(selector),
            no_local=bool(no_local) and address.kind is AddressKind.TOPIC,
            durable_name=durable_name,
            priority=connection.consumer_priority,
        )


def selector_of(text: str | None) -> Selector | None:
    """Return the selector of `text`; None and "" mean: no selector (JMS 1.1 §3.8.1.1).

    Raises `InvalidSelectorException` for what is no text, `InvalidSelectorError` for one that is no selector.
    """
    if text is not None and not isinstance(text, str):
        raise InvalidSelectorException(f"a selector is a str, or None for none, not {type(text).__name__}")
    return selector_or_none(text)


def check_durable(connection: ConnectionContract, topic: Topic, name: str, what: str) -> None:
    """Raise unless `what`, a subscriber called `name` to `topic`, may be created on this connection (§6.3, §6.11.1).

    Raises `InvalidDestinationException`, `IllegalStateException` without a client identifier, `JMSException`.
    """
    connection.require(Capability.DURABLE_SUBSCRIPTIONS, "durable subscriptions")
    if not isinstance(topic, Topic):
        raise InvalidDestinationException("a durable subscription needs a topic")
    if isinstance(topic, TemporaryTopic):
        # JMS 1.1 §6.2: it would outlive its topic
        raise InvalidDestinationException("a temporary topic has no durable subscriptions: use create_consumer")
    check_client_id(connection, f"create {what}")
    check_subscription_name(name)


def check_client_id(connection: ConnectionContract, what: str) -> None:
    """Raise IllegalStateException when the connection has no client identifier, which `what` needs."""
    if connection.configured_client_id is None:
        raise IllegalStateException(f"to {what}, set the connection's client_id first (JMS 1.1 §6.3)")


def check_subscription_name(name: str) -> None:
    """Raise JMSException when `name` cannot be that of a durable subscription."""
    if not isinstance(name, str) or not name:
        raise JMSException(f"{name!r} is no subscription name: use a non-empty string")
