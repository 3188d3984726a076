"""The queue manager: definition of queues, looking into them, moving messages, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.spi.envelope import DELIVER_AT, Address, AddressKind
from pyjms.spi.errors import DestinationError, DestinationInUseError, InvalidSelectorError, ResourceError
from pyjms.types import Long
from pyjms_provider.core.journal.storage_manager import end_when_written
from pyjms_provider.core.policy import PolicyError, QueuePolicies, QueuePolicy
from pyjms_provider.core.queue.consumer import Consumer
from pyjms_provider.core.queue.search import waiting_entries
from pyjms_provider.queue_manager import QueueExistsError, QueueManager, Replay, UnknownQueueError
from tests.provider.clients.world import World
from tests.provider.helpers import HookedLock, make_envelope, text_of
from tests.provider.policy_world import PolicyWorld, pulled
from tests.provider.rival import Rival


@pytest.fixture
def world() -> PolicyWorld:
    return PolicyWorld()


# Definition


@pytest.mark.realises("MOM-29", "MOM-33", "BOIL-PTP-2")
def test_queues_are_created_altered_listed_and_destroyed(world: PolicyWorld) -> None:
    manager = world.manager
    manager.create("audit", type="priority", priorities=2)
    manager.create("bulk", QueuePolicy(max_messages=5), overflow="ring")
    assert manager.names() == ["audit", "bulk", "orders"]
    assert manager.names("[ab]*") == ["audit", "bulk"]
    assert manager.report("bulk").policy == QueuePolicy.from_mapping({"max_messages": 5, "overflow": "ring"})
    manager.alter("bulk", max_messages=6)
    assert manager.report("bulk").policy.max_messages == 6
    manager.destroy("bulk")
    assert manager.names() == ["audit", "orders"]


def test_a_queue_that_nobody_created_has_the_policy_of_the_broker() -> None:
    ring = QueuePolicy.from_mapping({"max_messages": 1, "overflow": "ring"})
    world = PolicyWorld(QueuePolicies(default=QueuePolicy(priority=1), patterns=(("bulk.*", ring),)))
    world.send("a", "bulk.1")
    world.manager.create("bulk.2")
    assert [world.manager.report(name).policy for name in ("bulk.1", "bulk.2")] == [ring, ring]
    assert world.manager.report("orders").policy == QueuePolicy(priority=1)


def test_what_cannot_be_is_refused(world: PolicyWorld) -> None:
    manager = world.manager
    with pytest.raises(QueueExistsError, match="there is a queue 'orders' already; alter it, or destroy it first"):
        manager.create("orders")
    with pytest.raises(DestinationError, match="not empty"):
        manager.create("")
    with pytest.raises(PolicyError, match="has no colour"):
        manager.create("x", colour="red")
    with pytest.raises(PolicyError, match="give true or false"):
        manager.alter("orders", paused="yes")
    with pytest.raises(PolicyError, match=r"expiry_queue is 'late', the queue itself, .*name another queue"):
        manager.create("late", expiry_queue="late")
    with pytest.raises(PolicyError, match=r"expiry_queue is 'orders', the queue itself, .*name another queue"):
        manager.alter("orders", expiry_queue="orders")
    for call in (manager.report, manager.destroy, manager.pause, manager.browse, manager.purge, manager.replay):
        with pytest.raises(UnknownQueueError, match="there is no queue 'nobody'; names"):
            call("nobody")
    with pytest.raises(InvalidSelectorError):
        manager.purge("orders", "n =")
    with pytest.raises(DestinationError, match="it is the same queue"):
        manager.move("orders", "orders")
    assert manager.names() == ["orders"]


def test_a_queue_that_is_in_use_is_not_destroyed(world: PolicyWorld) -> None:
    world.send("a")
    reader = world.reader()
    delivery = pulled(reader)
    with pytest.raises(DestinationInUseError, match="has 1 consumer and 1 message that"):
        world.manager.destroy("orders")
    reader.consumer.close()
    with pytest.raises(DestinationInUseError, match="has 0 consumers and 1 message that"):
        world.manager.destroy("orders")
    reader.give_back(delivery)
    with pytest.raises(DestinationInUseError):
        world.manager.destroy("orders", if_empty=True)
    unit = world.unit()
    world.send("b", unit=unit)
    with pytest.raises(DestinationInUseError):
        world.manager.destroy("orders")
    unit.rollback()
    world.manager.destroy("orders")
    assert len(world.store) == 0
    world.send("c")
    assert world.texts() == ["c"], "who names it again makes another"


# Threads


def before_altering(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Have `work` called once, when a policy was read that is altered next."""
    altered = QueuePolicy.altered

    def work_and_alter(policy: QueuePolicy, **changes: Any) -> QueuePolicy:
        monkeypatch.undo()
        work()
        return altered(policy, **changes)

    monkeypatch.setattr(QueuePolicy, "altered", work_and_alter)


def test_alterations_at_the_same_time_leave_each_other_alone(
    world: PolicyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = Rival(lambda: world.manager.pause("orders"))
    before_altering(monkeypatch, rival.begin)
    world.manager.alter("orders", max_messages=5)
    assert rival.wait() is None
    assert world.manager.report("orders").policy == QueuePolicy(max_messages=5, paused=True)


def test_a_queue_that_another_thread_destroys_is_not_known(world: PolicyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    rival = Rival(lambda: world.manager.destroy("orders"))
    before_altering(monkeypatch, rival.begin)
    world.manager.alter("orders", max_messages=5)
    assert rival.wait() is None
    for call in (world.manager.pause, world.manager.destroy):
        with pytest.raises(UnknownQueueError):
            call("orders")
    assert world.manager.names() == []


def test_one_of_two_that_destroy_a_queue_is_told_that_there_is_none(
    world: PolicyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = Rival(lambda: world.manager.destroy("orders"))

    def end_later(*arguments: Any) -> None:
        monkeypatch.undo()
        rival.begin()
        end_when_written(*arguments)

    monkeypatch.setattr("pyjms_provider.core.host.virtual_host.end_when_written", end_later)
    world.manager.destroy("orders")
    assert isinstance(rival.wait(), UnknownQueueError)


# Looking


@pytest.mark.parametrize("looks", range(1, 6))
def test_a_report_counts_a_message_once_that_is_received_meanwhile(world: PolicyWorld, looks: int) -> None:
    world.send("a")
    HookedLock(world.queue, world.reader().pull, looks)
    report = world.manager.report("orders")
    assert report.waiting + report.held == 1


def test_a_report_counts_each_message_once(world: PolicyWorld) -> None:
    reader = world.reader()
    for text in "abc":
        world.send(text)
    pulled(reader)
    world.send("d", unit=world.unit())
    world.send("e", properties={"JMS_pyjms_deliverAt": world.clock.now_ms + 5})
    report = world.manager.report("orders")
    assert (report.waiting, report.held, report.uncommitted, report.delayed) == (2, 1, 1, 1)
    assert (report.name, report.consumers) == ("orders", 1)


def test_browsing_shows_what_nobody_holds_and_what_is_delayed(world: PolicyWorld) -> None:
    world.send("later", properties={"JMS_pyjms_deliverAt": world.clock.now_ms + 5, "n": 1})
    for number, text in enumerate("abc"):
        world.send(text, properties={"n": number})
    world.send("stale", ttl_ms=1)
    pulled(world.reader())
    world.clock.now_ms += 1
    assert [envelope.body for envelope in world.manager.browse("orders")] == ["b", "c", "later"]
    assert [envelope.body for envelope in world.manager.browse("orders", "n = 1")] == ["b", "later"]


# Messages


def test_messages_are_purged_by_selector(world: PolicyWorld) -> None:
    for number in range(5):
        world.send(str(number), properties={"n": number})
    held = pulled(world.reader())
    assert text_of(held) == "0"
    assert world.manager.purge("orders", "n >= 3") == 2
    assert world.texts() == ["1", "2"]
    assert world.manager.purge("orders") == 2
    assert len(world.store) == 1


def test_messages_are_moved_and_copied(world: PolicyWorld) -> None:
    for number in range(5):
        world.send(str(number), properties={"n": number})
    assert world.manager.move("orders", "bulk", "n > 0", most=2) == 2
    assert world.manager.copy("orders", "copies", most=2) == 2
    assert (world.texts(), world.texts("bulk"), world.texts("copies")) == (["0", "3", "4"], ["1", "2"], ["0", "3"])
    assert {str(envelope.destination) for envelope in world.letters("bulk")} == {"queue://bulk"}
    assert len(world.store) == 7


def test_a_message_that_is_moved_or_copied_waits_for_its_time(world: PolicyWorld) -> None:
    world.send("later", properties={"JMS_pyjms_deliverAt": world.clock.now_ms + 60})
    for change, target in ((world.manager.copy, "copies"), (world.manager.move, "moved")):
        assert change("orders", target) == 1
        assert world.reader(queue=target).pull() is None
        report = world.manager.report(target)
        assert (report.waiting, report.delayed) == (0, 1)
    world.pass_time(60)
    assert [world.reader(queue=target).texts() for target in ("copies", "moved")] == [["later"], ["later"]]


def test_a_dead_letter_and_one_that_goes_back_do_not_wait(world: PolicyWorld) -> None:
    world.manager.alter("orders", expiry_queue="late")
    world.send("never", properties={"JMS_pyjms_deliverAt": world.clock.now_ms + 60}, ttl_ms=10)
    world.pass_time(10)
    assert world.texts("late") == ["never"]
    assert world.manager.replay("late").returned == 1
    assert world.texts() == ["never"]


@pytest.mark.parametrize("looks", range(1, 5))
def test_a_message_that_is_taken_while_others_are_moved_is_left_alone(world: PolicyWorld, looks: int) -> None:
    for text in "abc":
        world.send(text)
    reader, taken = world.reader(), list[str]()
    HookedLock(world.queue, lambda: taken.extend(reader.texts(1)), looks)
    moved = world.manager.move("orders", "bulk")
    texts = world.texts("bulk")
    assert len(taken) == 1
    assert (moved, sorted(texts + taken)) == (2, ["a", "b", "c"])


def test_dead_letters_go_back_where_they_came_from(world: PolicyWorld) -> None:
    world.manager.alter("orders", max_deliveries=1)
    for number in range(3):
        world.send(str(number), properties={"n": number}, ttl_ms=100)
    world.send("stranger", "DLQ")
    reader = world.reader()
    for _ in range(3):
        reader.give_back(pulled(reader))
    world.pass_time(1_000)
    assert world.manager.replay("DLQ", "n = 1") == Replay(returned=1, left=0)
    assert world.manager.replay() == Replay(returned=2, left=1)
    assert world.texts("DLQ") == ["stranger"]
    deliveries = [pulled(reader) for _ in range(3)]
    assert [text_of(delivery) for delivery in deliveries] == ["1", "0", "2"]
    assert [delivery.count for delivery in deliveries] == [1, 1, 1]
    envelope = deliveries[0].envelope
    assert (envelope.properties, envelope.expiration_ms) == ({"n": 1}, 0)
    assert str(envelope.destination) == "queue://orders"


def test_what_only_says_that_it_is_a_dead_letter_stays_and_hinders_nobody(world: PolicyWorld) -> None:
    daily = world.subscribe("topic://news", "daily").name
    for origin in ({"Destination": "nonsense"}, {"Destination": "queue://orders", "Subscription": daily}):
        world.send("forged", "DLQ", properties={f"JMS_pyjms_dead{name}": said for name, said in origin.items()})
    world.send("real", "DLQ", properties={"JMS_pyjms_deadDestination": "queue://orders"})
    assert world.manager.replay() == Replay(returned=1, left=2)
    assert world.texts("DLQ") == ["forged", "forged"]
    assert world.texts() == ["real"]


def test_a_subscribers_dead_letters_go_back_to_its_subscription_and_nobody_elses() -> None:
    world = PolicyWorld(QueuePolicies(subscriptions=QueuePolicy(max_deliveries=1)))
    durable, other = world.subscribe("topic://news", "daily"), world.subscribe("topic://news")
    world.send("a", "topic://news")
    for subscription in (durable, other):
        session = world.reader().session
        target = session.add_target(lambda: None)
        consumer = Consumer(subscription, target)
        session.add_consumer(consumer)
        assert consumer.pull() is not None
        session.close()
    assert len(world.letters()) == 2
    assert world.manager.replay() == Replay(returned=1, left=1)
    assert [envelope.body for envelope in durable.browse()] == ["a"]
    assert other.browse() == []


# Finding the manager


def test_a_running_broker_has_a_manager() -> None:
    broker = World()
    with pytest.raises(ResourceError, match=f"there is no broker '{broker.name}' in this process; connect to vm://"):
        QueueManager.of(broker.name)
    connection = broker.connect()
    manager = QueueManager.of(broker.name)
    manager.create("orders", paused=True)
    assert manager.report("orders").policy.paused
    connection.close()
    broker.stop()


def test_a_broker_is_started_with_policies_for_its_queues() -> None:
    broker = World()
    policies = QueuePolicies(default=QueuePolicy(paused=True))
    manager = QueueManager.start(f"vm://{broker.name}", policies, broker.clock)
    connection = broker.connect()
    connection.open_session(transacted=False).send(make_envelope("a"))
    assert manager.report("orders").policy.paused
    with pytest.raises(ResourceError, match="runs with other options"):
        QueueManager.start(f"vm://{broker.name}", QueuePolicies(), broker.clock)
    broker.stop()


@pytest.mark.parametrize("changes", [{"max_messages": 1}, {"max_messages": 1, "overflow": "ring"}, {"paused": True}])
def test_a_policy_may_be_altered_back(world: PolicyWorld, changes: dict[str, Any]) -> None:
    before = world.manager.report("orders").policy
    world.manager.alter("orders", **changes)
    back = {name: getattr(before, name) for name in changes}
    world.manager.alter("orders", **back)
    assert world.manager.report("orders").policy == before
    for text in "ab":
        world.send(text)
    assert world.reader().texts() == ["a", "b"]


@pytest.mark.parametrize("queue_type", ["standard", "sorted"])
def test_what_comes_while_somebody_looks_is_left_out(queue_type: str) -> None:
    """A message that is due meanwhile is seen once."""
    world = PolicyWorld()
    world.manager.create("work", type=queue_type, key="due" if queue_type == "sorted" else None)
    later_ms = world.clock.now_ms + 100
    world.send("delayed", "work", properties={DELIVER_AT: Long(later_ms)})
    for number in range(70):
        world.send(str(number), "work")
    found = world.manager.browse("work")
    seen = [next(found).body]
    world.send("late", "work")
    world.clock.now_ms = later_ms
    world.host.queue("work").run_due(later_ms)
    seen += [each.body for each in found]
    assert seen == [*map(str, range(70)), "delayed"]
    assert world.manager.copy("work", "copies") == 72
    assert len(world.texts("work")) == 72


def test_what_is_moved_after_its_target_was_destroyed_goes_into_the_next_one(world: PolicyWorld) -> None:
    """Also the message that is on its way just then."""
    for number in range(4):
        world.send(str(number))
    host, ended = world.host, []

    def go_on(done: int) -> bool:
        if done == 2:
            ended.append(host.queue("bills"))
            world.manager.destroy("bills")
        return True

    assert world.manager.move("orders", "bills", go_on=go_on) == 4
    assert (world.texts(), world.texts("bills")) == ([], ["2", "3"])
    world.send("late")
    (entry,) = waiting_entries(host.queue("orders"))
    assert host.queue("orders").take_out(entry, [])
    host.mover.relocate(entry, make_envelope("late", destination=Address(AddressKind.QUEUE, "bills")), ended[0])
    assert world.texts("bills") == ["2", "3", "late"]


@pytest.mark.parametrize("method", ["move", "copy"])
def test_messages_go_to_another_queue_alone(method: str) -> None:
    world = PolicyWorld()
    world.manager.create("a")
    with pytest.raises(DestinationError, match="same queue"):
        getattr(world.manager, method)("a", "a")
