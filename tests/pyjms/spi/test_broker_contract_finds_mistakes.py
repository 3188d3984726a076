"""The contract tests find the mistakes of a broker that has more than folders: each one here makes one of them fail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyjms_provider.clients.vm import VmConnection, VmConsumer, VmSession
from pyjms_provider.core.host.virtual_host import HostSubscriptions, VirtualHost
from pyjms_provider.core.queue.consumer import ConsumerList, ConsumerManager, ConsumerSession
from pyjms_provider.core.queue.queue import Queue
from pyjms_tck.spi import closing_suite, environment, notifying_suite, refusing_suite, suite
from pyjms_tck.spi.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyjms.spi.delivery import Delivery
    from pyjms_provider.core.queue.consumer import Consumer

Replace = dict[tuple[type, str], object]

_choose = ConsumerManager.choose


@pytest.fixture
def impatient(vm_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    monkeypatch.setattr(environment, "PATIENCE_S", 0.3)
    with Environment(vm_url, patience_s=0.3) as opened:
        yield opened


def stay_interested(consumer: VmConsumer) -> Delivery | None:
    """Who has found something waits for more, behind those who wait already."""
    delivery = consumer.poll()
    consumer.set_interested(False)
    consumer.set_interested(True)
    return delivery


def start_in_silence(session: ConsumerSession, is_delivering: bool) -> None:
    session.is_delivering = is_delivering


def one_at_a_time(manager: ConsumerManager, *about: Any) -> Consumer | None:
    return None if manager.members(ConsumerList.NOTIFIED) else _choose(manager, *about)


def review_one_at_a_time(queue: Queue, consumer: Consumer) -> Sequence[Consumer]:
    """Nobody is told while another one is, and nobody hands a wake-up on."""
    manager = queue.consumers
    if not consumer.wants_work:
        manager.end_interest(consumer)
        return ()
    manager.begin_interest(consumer)
    if manager.members(ConsumerList.NOTIFIED) or not queue.ordering.may_have(consumer.cursor):
        return ()
    manager.notify(consumer)
    return (consumer,)


KEEPS_WAKE_UPS: Replace = {
    (ConsumerManager, "choose"): one_at_a_time,
    (Queue, "_review"): review_one_at_a_time,
    (Queue, "_next_consumers"): lambda queue: (),
}

MISTAKES: dict[str, tuple[Replace, Callable[[Environment], None]]] = {
    "a commit undoes": (
        {(VmSession, "commit"): VmSession.rollback},
        lambda environment: closing_suite.test_closing_while_another_thread_commits_leaves_all_or_nothing(
            environment, "session"
        ),
    ),
    "a start tells nobody who was interested": (
        {(ConsumerSession, "set_delivering"): start_in_silence},
        notifying_suite.test_start_wakes_who_was_interested_before,
    ),
    "a start tells nobody who waits": (
        {(ConsumerSession, "set_delivering"): start_in_silence},
        notifying_suite.test_who_waits_at_a_stopped_connection_is_told_when_it_starts,
    ),
    "who found something goes on waiting": (
        {(VmConsumer, "poll_or_wait"): stay_interested},
        notifying_suite.test_who_found_something_waits_no_longer,
    ),
    "who found something keeps the wake-up": (
        KEEPS_WAKE_UPS,
        notifying_suite.test_the_wake_up_of_who_waits_no_longer_is_handed_on,
    ),
    "a closed consumer is told on": (
        {(VmConsumer, "close"): lambda consumer: None},
        lambda environment: notifying_suite.test_who_is_closed_is_told_nothing_more(environment, "consumer"),
    ),
    "a subscription that is not there is ended": (
        {(VmSession, "unsubscribe"): lambda session, name: None},
        refusing_suite.test_a_subscription_that_nobody_has_is_unknown,
    ),
    "a subscription ends under its subscriber": (
        {(HostSubscriptions, "unsubscribe"): lambda subscriptions, client_id, name: None},
        refusing_suite.test_a_durable_subscription_has_one_subscriber_and_is_kept_while_it_has,
    ),
    "anybody deletes a temporary queue": (
        {(VmConnection, "delete_temporary"): lambda connection, address: None},
        refusing_suite.test_a_temporary_destination_is_its_connections_own,
    ),
    "a temporary queue outlives its connection": (
        {
            (VirtualHost, "end_connection"): lambda host, connection_id, client_id: None,
            (VirtualHost, "readable_queue"): lambda host, address, reader: host.temporaries.channel_of(address),
        },
        refusing_suite.test_a_temporary_destination_ends_with_its_connection,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(impatient: Environment, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    replaced, contract_test = MISTAKES[mistake]
    for (owner, name), instead in replaced.items():
        monkeypatch.setattr(owner, name, instead)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        contract_test(impatient)


def test_each_contract_test_has_a_mistake_that_it_finds() -> None:
    tables = Path(__file__).parent.glob("test_*contract_finds_mistakes.py")
    named = {name for table in tables for name in re.findall(r"_suite\.(test_\w+)", table.read_text("utf-8"))}
    assert {name for name in vars(suite) if name.startswith("test_")} - named == set()
