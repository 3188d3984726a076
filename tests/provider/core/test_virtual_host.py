"""The name space of a broker. What clients see of it is tested in `tests/provider/clients`."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    DestinationError,
    DestinationInUseError,
    ProviderError,
    ResourceError,
    SubscriptionInUseError,
)
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.host.temporaries import TemporaryEndedError
from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.policy import PolicyError, QueuePolicy
from pyjms_provider.core.queue.altering import RetiredQueueError
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


class TestRetiredQueues:
    """Names of queues that are elsewhere."""

    def test_clients_cannot_use_a_retired_name_until_it_is_admitted(self) -> None:
        host = make_host()
        host.queue("orders")
        host.retire_queue("orders")
        assert host.queue_names() == []
        assert host.retired_queues == {"orders"}
        for use in (
            lambda: host.route(make_envelope(destination=ORDERS), None, None),
            lambda: host.readable_queue(ORDERS, CONNECTION),
            lambda: host.create_queue("orders", None),
        ):
            with pytest.raises(RetiredQueueError, match="try again"):
                use()
        host.admit_queue("orders")
        host.route(make_envelope(destination=ORDERS), None, None)
        assert host.queue("orders").count(MessageState.NEW) == 1

    def test_a_queue_that_is_used_stays(self) -> None:
        host = make_host()
        host.route(make_envelope(destination=ORDERS), None, None)
        host.create_queue("limited", QueuePolicy(max_messages=1))
        for name, why in (("orders", "1 message and 0 consumers"), ("limited", "attributes of its own")):
            with pytest.raises(DestinationInUseError, match=why):
                host.retire_queue(name)
        assert host.retired_queues == frozenset()
        host.route(make_envelope(destination=ORDERS), None, None)
        assert host.queue("orders").count(MessageState.NEW) == 2

    def test_a_sender_that_has_the_queue_already_is_refused(self) -> None:
        host = make_host()
        queue = host.queue("orders")
        host.retire_queue("orders")
        host._queues["orders"] = queue  # as a sender that has looked it up before
        with pytest.raises(RetiredQueueError):
            host.route(make_envelope(destination=ORDERS), None, None)

    def test_dead_letters_stay_here_whatever_is_retired(self) -> None:
        host = make_host()
        host.retire_queue("DLQ")
        host.mover.put(make_envelope(destination=Address(AddressKind.QUEUE, "DLQ")), None, 0)
        assert host.queue("DLQ").count(MessageState.NEW) == 1


def test_a_policy_that_a_queue_cannot_have_is_refused() -> None:
    host = make_host()

    def check(name: str, policy: QueuePolicy) -> None:
        if name == "orders" and policy.exclusive:
            raise PolicyError("not this one")

    host.check_policy = check
    exclusive = QueuePolicy(exclusive=True)
    assert host.create_queue("bills", exclusive)
    with pytest.raises(PolicyError, match="not this one"):
        host.create_queue("orders", exclusive)
    host.create_queue("orders", None)
    with pytest.raises(PolicyError, match="not this one"):
        host.alter_queue("orders", exclusive=True)
    assert host.alter_queue("orders", max_messages=3)
