"""Contract tests: a provider refuses requests with the class of error that the contract names."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import (
    CapabilityError,
    DestinationError,
    DestinationInUseError,
    ProviderError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.xid import Xid
from pyjms_tck.requirements import needs
from pyjms_tck.spi.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.provider import ProviderConnection

XID = Xid(1, b"refused", b"1")


def outcome_of(call: Callable[[], object]) -> str:
    """Return the name of the exception's class that `call` raises, or ``nothing``."""
    try:
        call()
    except ProviderError as error:
        return type(error).__name__
    return "nothing"


def optional_calls(environment: Environment, connection: ProviderConnection) -> dict[Capability, Callable[[], object]]:
    """Return a call for each capability that has methods of its own."""
    queue = environment.queue()
    session = connection.open_session(transacted=False)
    environment.send(session, queue, "message")
    # A real delivery: a provider must refuse the call for the missing capability, not for its arguments.
    delivery = environment.receiver(session, queue).take()
    return {
        Capability.TRANSACTIONS: lambda: connection.open_session(transacted=True).commit(),
        Capability.XA: lambda: session.xa_start(XID),
        Capability.SHARED_TRANSACTIONS: lambda: connection.open_session(transacted=True).commit_with(object()),
        Capability.REPLAY: connection.reader_groups,
        Capability.STAGE: connection.stages,
        Capability.PERSISTENT_SESSIONS: connection.persistent_sessions,
        Capability.BROWSING: lambda: list(session.browse(queue, None)),
        Capability.TEMPORARY_DESTINATIONS: lambda: connection.create_temporary(AddressKind.QUEUE),
        Capability.CONNECTION_CONSUMERS: lambda: session.adopt([delivery]),
        Capability.DEAD_LETTERS: lambda: session.reject(delivery, "refused"),
        Capability.DURABLE_SUBSCRIPTIONS: lambda: session.unsubscribe("nobody"),
        Capability.SELECTORS: lambda: environment.receiver(session, queue, "JMSType = 'red'"),
        Capability.EMBEDDED_BROKER: lambda: environment.provider.stop_broker(environment.url),
    }


def test_a_call_that_is_not_declared_is_refused_as_a_missing_capability(environment: Environment) -> None:
    connection = environment.connect()
    refused = {
        str(capability.name): outcome_of(call)
        for capability, call in optional_calls(environment, connection).items()
        if capability not in connection.capabilities
    }
    assert refused == dict.fromkeys(refused, CapabilityError.__name__)


def test_a_provider_without_topics_refuses_them(environment: Environment) -> None:
    connection = environment.connect()
    if Capability.TOPICS in connection.capabilities:
        return
    session, topic = connection.open_session(transacted=False), environment.topic()
    allowed = (CapabilityError, DestinationError)
    with pytest.raises(allowed):
        environment.send(session, topic, "news")
    with pytest.raises(allowed):
        environment.receiver(session, topic)


@needs("DURABLE_SUBSCRIPTIONS")
def test_a_subscription_that_nobody_has_is_unknown(environment: Environment) -> None:
    connection = environment.connect(client_id=environment.name("refused"))
    if Capability.DURABLE_SUBSCRIPTIONS in connection.capabilities:
        with pytest.raises(UnknownSubscriptionError):
            connection.open_session(transacted=False).unsubscribe("nobody has it")


@needs("DURABLE_SUBSCRIPTIONS")
def test_a_durable_subscription_has_one_subscriber_and_is_kept_while_it_has(environment: Environment) -> None:
    connection = environment.connect(client_id=environment.name("refused"))
    if Capability.DURABLE_SUBSCRIPTIONS not in connection.capabilities:
        return
    topic, session = environment.topic(), connection.open_session(transacted=False)
    subscriber = environment.receiver(session, topic, durable_name="mine").consumer
    with pytest.raises(SubscriptionInUseError):
        environment.receiver(session, topic, durable_name="mine")
    with pytest.raises(SubscriptionInUseError):
        session.unsubscribe("mine")
    subscriber.close()
    session.unsubscribe("mine")


@needs("TEMPORARY_DESTINATIONS")
def test_a_temporary_destination_is_its_connections_own(environment: Environment) -> None:
    connection = environment.connect()
    if Capability.TEMPORARY_DESTINATIONS not in connection.capabilities:
        return
    address = connection.create_temporary(AddressKind.QUEUE)
    with closing(environment.connect()) as other, pytest.raises(DestinationError):
        other.delete_temporary(address)
    consumer = environment.receiver(connection.open_session(transacted=False), address).consumer
    with pytest.raises(DestinationInUseError):
        connection.delete_temporary(address)
    consumer.close()
    connection.delete_temporary(address)
    with pytest.raises(DestinationError):
        connection.delete_temporary(address)


@needs("TEMPORARY_DESTINATIONS")
def test_a_temporary_destination_ends_with_its_connection(environment: Environment) -> None:
    connection = environment.connect()
    if Capability.TEMPORARY_DESTINATIONS not in connection.capabilities:
        return
    address = connection.create_temporary(AddressKind.QUEUE)
    connection.close()
    with pytest.raises(DestinationError):
        environment.receiver(environment.session(), address)


def test_an_error_says_what_happened(environment: Environment) -> None:
    session = environment.session()
    session.close()
    with pytest.raises(ProviderError) as raised:
        environment.send(session, environment.queue(), "late")
    assert raised.value.reason
