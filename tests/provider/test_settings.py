"""What the options of a ``vm://`` URL say, and what is refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from pyjms import ConnectionFactory, JMSException
from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.broker import stop_broker
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.policy import Overflow, QueuePolicies, QueuePolicy, QueueType
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.settings import BrokerSettings, read_url


def policy_of(options: str) -> HostPolicy:
    name, settings = read_url(ProviderUrl.parse(f"vm://shop?{options}"))
    assert name == "shop"
    assert settings is not None
    return settings.policy


def test_a_url_without_options_asks_for_whatever_there_is() -> None:
    assert read_url(ProviderUrl.parse("vm://shop")) == ("shop", None)


def test_queues_have_the_policy_of_the_url() -> None:
    chosen = policy_of("max_deliveries=5&overflow=ring&max_messages=1000&redelivery_multiplier=1.5&paused=true").queues
    assert chosen.default == QueuePolicy(
        max_deliveries=5, overflow=Overflow.RING, max_messages=1000, redelivery_multiplier=1.5, paused=True
    )
    assert chosen.subscriptions == QueuePolicy(), "a subscription that rejects would stop all publishers"


def test_other_options_leave_the_policy_alone() -> None:
    assert policy_of("expired_in_transaction=discard").queues == QueuePolicies()
    assert policy_of("transaction_timeout=7") == HostPolicy(transaction_timeout_ms=7_000)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("type=sorted&key=due", QueuePolicy(type=QueueType.SORTED, key="due")),
        ("type=priority&priorities=2", QueuePolicy(type=QueueType.PRIORITY, priorities=2)),
        ("dead_letter=failed&expiry_queue=late", QueuePolicy(dead_letter="failed", expiry_queue="late")),
        ("priority=9&delivery_mode=2&time_to_live_ms=0", QueuePolicy(priority=9, delivery_mode=2, time_to_live_ms=0)),
        ("max_bytes=10MB&overflow=ring", QueuePolicy(max_bytes=10_000_000, overflow=Overflow.RING)),
        ("exclusive=false", QueuePolicy()),
    ],
)
def test_every_kind_of_field_can_be_chosen(option: str, expected: QueuePolicy) -> None:
    assert policy_of(option).queues.default == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("max_deliveries=often", "max_deliveries is 'often'; give a whole number"),
        ("max_deliveries=-1", "max_deliveries is -1; give a number from 0"),
        ("overflow=burst", "overflow is 'burst'; give one of reject, block, ring, flow_to_disk"),
        ("paused=yes", "paused is 'yes'; give true or false"),
        ("overflow=ring", "give max_messages or max_bytes"),
        ("redelivery_multiplier=nan", "redelivery_multiplier is nan"),
        ("expiry_queue=", "expiry_queue is ''; give a name"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(options: str, text: str) -> None:
    with pytest.raises(UrlError) as raised:
        policy_of(options)
    assert text in str(raised.value)


def test_an_unknown_option_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(UrlError, match="no option 'max_message'") as raised:
        policy_of("max_message=5")
    for name in (*(each.name for each in fields(QueuePolicy)), "store", "transaction_timeout"):
        assert name in str(raised.value)


def test_a_client_obeys_the_policy_of_its_url_and_is_told_what_is_wrong_with_it() -> None:
    with ConnectionFactory("vm://by-url?max_messages=1", overflow="ring").create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("orders"))
        for text in "ab":
            producer.send(session.create_text_message(text))
        assert [envelope.body for envelope in QueueManager.of("by-url").browse("orders")] == ["b"]
    stop_broker("by-url")
    with pytest.raises(JMSException, match="give a whole number"):
        ConnectionFactory("vm://by-url", max_messages="many").create_connection()


def test_a_policy_is_chosen_in_one_place() -> None:
    with pytest.raises(UrlError, match="leave the URL's out"):
        QueueManager.start("vm://twice?max_messages=5", QueuePolicies())


def test_settings_of_the_same_url_are_the_same() -> None:
    url = "vm://shop?max_messages=5&transaction_timeout=5"
    first, second = (read_url(ProviderUrl.parse(url))[1] for _ in range(2))
    assert first == second != BrokerSettings()
