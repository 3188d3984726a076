"""The contract tests find the mistakes of a broker with shared subscriptions and delivery times: each one here makes one of them fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pyjms_provider.core.host.virtual_host import HostSubscriptions, VirtualHost
from pyjms_provider.core.topic import SubscriptionTerms
from pyjms_tck.spi import environment, sharing_suite
from pyjms_tck.spi.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.provider import SubscribeRequest

_subscribe = HostSubscriptions.subscribe
_route = VirtualHost.route
_terms = SubscriptionTerms.of


@pytest.fixture
def impatient(vm_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    monkeypatch.setattr(environment, "PATIENCE_S", 0.3)
    with Environment(vm_url, patience_s=0.3) as opened:
        yield opened


def subscribing_alone(subscriptions: HostSubscriptions, request: SubscribeRequest, *about: Any) -> object:
    return _subscribe(subscriptions, replace(request, shared_name=None), *about)


def routing(**changed: Any) -> Callable[..., None]:
    """Return a broker's way of taking messages that changes them."""

    def route(host: VirtualHost, envelope: Envelope, *about: Any) -> None:
        _route(host, replace(envelope, **changed), *about)

    return route


def sharing_nothing(request: SubscribeRequest) -> SubscriptionTerms:
    return _terms(replace(request, is_shared=False))


ALONE = (HostSubscriptions, "subscribe", subscribing_alone)
AT_ONCE = (VirtualHost, "route", routing(deliver_at_ms=0))

MISTAKES: dict[str, tuple[tuple[type, str, object], Callable[[Environment], None]]] = {
    "each consumer has a subscription of its own": (
        ALONE,
        lambda environment: sharing_suite.test_consumers_of_several_connections_divide_a_subscription(
            environment, "shared"
        ),
    ),
    "each consumer has its own copy of what another returns": (
        ALONE,
        lambda environment: sharing_suite.test_what_one_consumer_returns_the_other_gets_with_the_mark(
            environment, "shared"
        ),
    ),
    "a subscription stays when its last consumer goes": (
        (HostSubscriptions, "end", lambda subscriptions, subscription, user: None),
        sharing_suite.test_a_shared_subscription_ends_with_its_last_consumer,
    ),
    "deleting does nothing": (
        (HostSubscriptions, "unsubscribe", lambda subscriptions, client_id, name: None),
        sharing_suite.test_a_shared_durable_subscription_collects_without_consumers_until_it_is_deleted,
    ),
    "a subscription is whatever its name says": (
        (SubscriptionTerms, "is_same", lambda terms, other: True),
        lambda environment: sharing_suite.test_other_terms_are_refused_while_a_shared_subscription_has_consumers(
            environment, "shared"
        ),
    ),
    "a durable subscription is shared or not as its consumer says": (
        (SubscriptionTerms, "of", sharing_nothing),
        lambda environment: sharing_suite.test_shared_and_unshared_durable_subscriptions_exclude_each_other(
            environment, is_shared=False, is_active=False
        ),
    ),
    "a message comes before its time": (AT_ONCE, sharing_suite.test_a_message_for_later_comes_at_its_time_and_says_it),
    "a message comes with the commit, before its time": (
        AT_ONCE,
        sharing_suite.test_the_delivery_time_of_a_message_in_a_transaction_is_that_of_its_send,
    ),
    "a topic knows no time": (AT_ONCE, sharing_suite.test_a_message_for_later_is_for_the_subscribers_of_its_send),
    "a browser sees what is not there yet": (AT_ONCE, sharing_suite.test_a_browser_does_not_see_a_message_for_later),
    "what waits for its time does not expire": (
        (VirtualHost, "route", routing(expiration_ms=0)),
        sharing_suite.test_a_message_that_expires_before_its_time_never_comes,
    ),
    "what is due comes as it was sent": (
        (VirtualHost, "route", routing(priority=4)),
        sharing_suite.test_messages_that_are_due_at_one_time_come_by_priority,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(impatient: Environment, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    (owner, name, instead), contract_test = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, instead)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        contract_test(impatient)
