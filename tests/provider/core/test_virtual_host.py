"""The name space of a broker. What clients see of it is tested in `tests/provider/clients`."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError, ProviderError, ResourceError, SubscriptionInUseError
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.host.virtual_host import TemporaryEndedError, VirtualHost
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.channel_state import Reliability
from pyjms_provider.core.store import MemoryMessageStore
from tests.provider.helpers import CONNECTION, NEWS, ORDERS, HandClock, make_envelope


def make_host(policy: HostPolicy | None = None) -> VirtualHost:
    return VirtualHost("shop", MemoryMessageStore("shop"), HandClock(), policy=policy)


def test_destinations_are_made_once_when_first_used() -> None:
    host = make_host()
    start, found = Barrier(4), []

    def look() -> None:
        start.wait()
        found.append((host.queue("orders"), host.topic("news")))

    threads = [Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1


def test_a_queue_and_a_topic_may_have_one_name() -> None:
    host = make_host()
    host.route(make_envelope(destination=Address(AddressKind.TOPIC, "orders")), None, None)
    host.route(make_envelope(destination=ORDERS), None, None)
    assert host.queue("orders").count(MessageState.NEW) == 1


@pytest.mark.realises("JBM-2.1.b", "BOIL-PROD-2")
def test_whether_persistent_messages_are_accepted_is_the_owners_policy() -> None:
    message = make_envelope(persistent=True)
    make_host().route(message, None, None)
    strict = make_host(HostPolicy(reliability=Reliability.STRICT))
    with pytest.raises(ResourceError, match="PERSISTENT"):
        strict.route(message, None, None)
    assert len(strict.store) == 0


@pytest.mark.parametrize("kind", [AddressKind.QUEUE, AddressKind.TOPIC])
@pytest.mark.parametrize("is_ending", [False, True])
def test_a_temporary_destination_that_has_ended_or_just_ends_says_which_it_was(
    kind: AddressKind, is_ending: bool
) -> None:
    host = make_host()
    address = host.temporaries.create(kind, CONNECTION)
    if is_ending:  # it is closed before it is forgotten
        host.temporaries.channel_of(address).close()
    else:
        host.temporaries.end_connection(CONNECTION)
    with pytest.raises(TemporaryEndedError, match="no longer exists"):
        host.route(make_envelope(destination=address), None, None)
    assert len(host.store) == 0


def test_a_message_that_cannot_be_routed_leaves_nothing_behind() -> None:
    host = make_host()
    host.queue("orders").close()
    with pytest.raises(DestinationError, match="no longer exists"):
        host.route(make_envelope(), None, None)
    assert len(host.store) == 0


def test_a_durable_subscription_is_released_by_its_subscriber_alone() -> None:
    host = make_host()
    request = SubscribeRequest(address=NEWS, selector=None, no_local=False, durable_name="all")
    with pytest.raises(ProviderError, match="client id"):
        host.subscriptions.subscribe(request, CONNECTION, None, "first")
    subscription = host.subscriptions.subscribe(request, CONNECTION, "client", "first")
    host.subscriptions.end(subscription, "first")
    assert host.subscriptions.subscribe(request, CONNECTION, "client", "second") is subscription
    assert not subscription.is_closed
    host.subscriptions.end(subscription, "first")
    with pytest.raises(SubscriptionInUseError):
        host.subscriptions.unsubscribe("client", "all")


def test_a_closed_host_has_let_go_of_all_messages() -> None:
    host = make_host()
    host.subscriptions.subscribe(
        SubscribeRequest(address=NEWS, selector=None, no_local=False, durable_name=None), CONNECTION, None, "user"
    )
    temporary = host.temporaries.create(AddressKind.QUEUE, CONNECTION)
    for destination in (ORDERS, NEWS, temporary):
        host.route(make_envelope(destination=destination), None, None)
    assert len(host.store) == 3
    host.close()
    assert len(host.store) == 0
