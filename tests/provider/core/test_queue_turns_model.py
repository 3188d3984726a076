"""Queues with turns at random: nobody sleeps on a message that is his, no group has two owners, and no message overtakes another one.

The rule of wake-ups is checked after each step, as for plain queues: whenever a message is available that an interested
consumer would take and may take, one of those has been woken and has not pulled in vain since. Steps are drawn by seed,
not by hypothesis, whose runs are mostly too short for consumers to become owners; ``PYJMS_TURNS_SEEDS=1000`` says how many of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from pyjms.spi.delivery import Delivery
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.consumer import ConsumerList
from pyjms_provider.core.queue.search import waiting_entries
from tests.provider.helpers import Reader, entry_of
from tests.provider.policy_world import PolicyWorld

STEPS = 150
SEEDS = int(os.environ.get("PYJMS_TURNS_SEEDS", "20"))
POLICIES: dict[str, dict[str, Any]] = {
    "groups": {"groups": True},
    "groups and priorities": {"groups": True},
    "priorities": {},
    "exclusive": {"exclusive": True},
    "sorted with groups": {"type": "sorted", "key": "n", "groups": True},
    "sorted with groups and priorities": {"type": "sorted", "key": "n", "groups": True},
    "sorted with priorities": {"type": "sorted", "key": "n"},
    "ring": {"max_messages": 8, "overflow": "ring"},
    "groups with delays": {"groups": True, "redelivery_delay_ms": 100},
    "exclusive with delays": {"exclusive": True, "redelivery_delay_ms": 100},
    "sorted and exclusive with delays": {"type": "sorted", "key": "n", "exclusive": True, "redelivery_delay_ms": 100},
    "ring with groups and delays": {"groups": True, "redelivery_delay_ms": 100, "max_messages": 8, "overflow": "ring"},
    "exclusive, non-blocking": {"exclusive": True, "redelivery_delay_ms": 100, "non_blocking_redelivery": True},
}


@dataclass(eq=False)
class Holder:
    """A session's deliveries; it may have one consumer, two, or none any more."""

    holds: list[Delivery] = field(default_factory=list)


@dataclass(eq=False)
class Client:
    """One consumer."""

    reader: Reader
    holder: Holder
    colour: int | None
    priority: int
    wake_ups_used: int = 0

    @property
    def place(self) -> ConsumerList:
        return self.reader.consumer.place

    @property
    def is_awake(self) -> bool:
        return self.place is ConsumerList.NOTIFIED and self.reader.wake_ups > self.wake_ups_used


@dataclass(eq=False)
class Ownership:
    """Of an exclusive queue, or of one group: it ends when the owner is closed, and nothing that was delivered can come back."""

    owner: Client | None = None
    heir: Holder | None = None
    outstanding: set[QueueEntry] = field(default_factory=set)
    closing: QueueEntry | None = None

    def may_take(self, client: Client) -> bool:
        if self.closing is not None:
            return False
        if self.owner is not None:
            return client is self.owner
        return self.heir in {None, client.holder}

    def delivered(self, client: Client, entry: QueueEntry, *, closes: bool) -> None:
        self.owner, self.heir = client, None
        self.outstanding.add(entry)
        self.closing = entry if closes else self.closing

    def left(self, client: Client) -> None:
        if self.owner is client:
            self.owner, self.heir = None, client.holder
            self._end()

    def ended(self, entry: QueueEntry, *, is_released: bool) -> None:
        if entry in self.outstanding:
            self.outstanding.remove(entry)
            if is_released and self.closing is entry:
                self.closing = None
            if self.owner is None or self.closing is not None:
                self._end()

    def _end(self) -> None:
        if not self.outstanding:
            self.owner = self.heir = self.closing = None


class Turns:
    """Messages with and without groups, consumers that come, pull, give back, and go, with their sessions or without, and pauses."""

    def __init__(self, name: str, seed: int, *, is_forgetful: bool = False) -> None:
        """`is_forgetful`: no group has an owner once the last one of its messages was settled."""
        self.name = name
        self.is_forgetful = is_forgetful
        self.random = Random(seed)
        self.world = PolicyWorld(**POLICIES[name], max_deliveries=0)  # messages come again as often as it takes
        self.clients: list[Client] = []
        self.departed: list[Client] = []
        """Closed consumers whose sessions go on, and hold messages."""
        self.paused = False
        self.numbers = 0
        self.queues_ownership = Ownership()
        self.groups: dict[str, Ownership] = {}
        for _ in range(6):
            self.come()

    @property
    def is_exclusive(self) -> bool:
        return "exclusive" in self.name

    def run(self) -> None:
        steps = [self.send, self.pull, self.change_interest, self.end_deliveries, self.go, self.pause, self.all_but_one]
        weights = [5, 18, 2, 4, 1, 1, 1]
        if "delay" in self.name or "non-blocking" in self.name:
            steps, weights = [*steps, self.pass_time], [*weights, 4]
        for _ in range(STEPS):
            self.random.choices(steps, weights)[0]()
            self.check()

    # Steps

    def send(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.numbers += 1
            properties: dict[str, Any] = {"colour": self.random.randint(0, 1)}
            if self.name.startswith("sorted"):
                properties["n"] = self.random.randint(0, 3)
            group = self.random.choice([None, "a", "a", "b"])
            if group is not None:
                properties |= {"JMSXGroupID": group, "JMSXGroupSeq": self.random.choice([1, 2, 3, -1])}
            self.world.send(str(self.numbers), properties=properties, priority=self.random.choice([4, 4, 4, 9]))

    def come(self) -> None:
        colour = self.random.choice([None, None, 0])
        selector = None if colour is None else f"colour = {colour}"
        priority = self.random.randint(0, 1) if "priorities" in self.name else 0
        is_interested = self.random.random() < 0.7
        name = f"reader {self.numbers}"
        others = [*self.clients, *self.departed]
        if others and self.random.random() < 0.3:
            other = self.random.choice(others)
            queue, session = self.world.queue, other.reader.session
            reader = Reader(name, session, queue, selector, priority=priority, acquires=True)
            reader.consumer.set_interested(is_interested)
            holder = other.holder
        else:
            reader = self.world.reader(name, selector=selector, priority=priority, interested=is_interested)
            holder = Holder()
        self.clients.append(Client(reader, holder, colour, priority))

    def go(self) -> None:
        client = self.random.choice(self.clients)
        if self.random.random() < 0.5:
            client.reader.session.remove_target(client.reader.target)
            self.forget(client)
            self.departed.append(client)
        else:
            holder = client.holder
            client.reader.session.close()
            for each in [each for each in self.clients if each.holder is holder]:
                self.forget(each)
            self.departed = [each for each in self.departed if each.holder is not holder]
            self.note_ended(holder.holds, is_released=True)
            holder.holds = []
        self.check()
        while len(self.clients) < 6:
            self.come()

    def forget(self, client: Client) -> None:
        self.clients.remove(client)
        for ownership in self.ownerships():
            ownership.left(client)

    def change_interest(self) -> None:
        client, interested = self.random.choice(self.clients), self.random.random() < 0.7
        if not interested:
            client.wake_ups_used = client.reader.wake_ups
        client.reader.consumer.set_interested(interested)

    def pull(self) -> None:
        self.pull_as(self.random.choice(self.clients), self.random.choice([1, 100]))

    def all_but_one(self) -> None:
        """Have all pull who are woken, save one that is busy: they come to rest."""
        busy = self.random.choice(self.clients)
        for _ in range(200):
            woken = [client for client in self.clients if client is not busy and client.is_awake]
            if not woken:
                return
            self.pull_as(self.random.choice(woken), 100)
            self.check()
        raise AssertionError("they wake each other without end")

    def pull_as(self, client: Client, times: int) -> None:
        for _ in range(times):
            expected = None if self.paused else self.next_for(client)
            delivery = client.reader.pull()
            assert (None if delivery is None else delivery.tag) is expected
            if delivery is None:
                client.wake_ups_used = client.reader.wake_ups
                return
            self.note_delivered(client, delivery)
            client.holder.holds.append(delivery)

    def end_deliveries(self) -> None:
        client = self.random.choice([*self.clients, *self.departed])
        holds = client.holder.holds
        if self.random.random() < 0.4:
            deliveries, client.holder.holds = holds, []
            client.reader.give_back(*deliveries)
            self.note_ended(deliveries, is_released=True)
            return
        while holds and self.random.random() < 0.9:
            delivery = holds.pop(0)
            client.reader.settle(delivery)
            self.note_ended([delivery], is_released=False)
            if self.is_forgetful:
                self.forget_groups()

    def forget_groups(self) -> None:
        entries = waiting_entries(self.world.queue)
        there = {self.world.store.retrieve(each.reference).properties.get("JMSXGroupID") for each in entries}
        there |= {each.envelope.properties.get("JMSXGroupID") for each in self.held()}
        self.groups = {group: ownership for group, ownership in self.groups.items() if group in there}

    def pause(self) -> None:
        self.paused = not self.paused
        self.world.manager.alter("orders", paused=self.paused)

    def pass_time(self) -> None:
        self.world.pass_time(self.random.choice([30, 60, 100]))

    # What must hold

    def note_delivered(self, client: Client, delivery: Delivery) -> None:
        entry = entry_of(delivery)
        ownership = self.ownership_of(entry)
        if ownership is None:
            return
        others = {holder for holder in self.holders() if holder is not client.holder}
        elsewhere = {entry_of(each) for holder in others for each in holder.holds}
        assert not elsewhere & ownership.outstanding, "what may come back before this message is another session's"
        if self.is_exclusive:
            assert client is self.active
        closes = not self.is_exclusive and delivery.envelope.properties["JMSXGroupSeq"] == -1
        ownership.delivered(client, entry, closes=closes)

    def note_ended(self, deliveries: list[Delivery], *, is_released: bool) -> None:
        for delivery in deliveries:
            for ownership in self.ownerships():
                ownership.ended(entry_of(delivery), is_released=is_released)

    def ownerships(self) -> list[Ownership]:
        return [self.queues_ownership, *self.groups.values()]

    def ownership_of(self, entry: QueueEntry) -> Ownership | None:
        """Return that of the message's group, or of the exclusive queue, if there is one."""
        if self.is_exclusive:
            self.queues_ownership.owner = self.active
            return self.queues_ownership
        group = self.world.store.retrieve(entry.reference).properties.get("JMSXGroupID")
        if "groups" not in self.name or not isinstance(group, str):
            return None
        return self.groups.setdefault(group, Ownership())

    @property
    def active(self) -> Client | None:
        """The active consumer: the one that came first of those that may be it."""
        ownership = self.queues_ownership
        return next((client for client in self.clients if ownership.may_take(client)), None)

    def held(self) -> Iterator[Delivery]:
        for holder in self.holders():
            yield from holder.holds

    def holders(self) -> set[Holder]:
        return {client.holder for client in (*self.clients, *self.departed)}

    def check(self) -> None:
        queue = self.world.queue
        if self.is_exclusive:
            self.queues_ownership.owner = self.active  # who was it stays it, whoever comes
        held = len(list(self.held()))
        assert queue.count(MessageState.DELIVERED) == held
        assert len(self.world.store) == held + queue.count(MessageState.NEW)
        if "ring" in self.name:
            assert held + queue.count(MessageState.NEW) <= max(8, held)
        if self.paused:
            return
        for entry in waiting_entries(queue):
            wanting = [client for client in self.clients if is_interested(client) and self.would_and_may(client, entry)]
            assert not wanting or any(client.is_awake for client in wanting), f"somebody sleeps on {entry}"

    def next_for(self, client: Client) -> QueueEntry | None:
        waiting = waiting_entries(self.world.queue)
        return next((entry for entry in waiting if self.would_and_may(client, entry)), None)

    def would_and_may(self, client: Client, entry: QueueEntry) -> bool:
        if entry in self.world.queue.state.delays or not self.would(client, entry):
            return False
        ownership = self.ownership_of(entry)
        if ownership is not None:
            if self.waits_for_a_delayed_one(entry, ownership):
                return False
            if self.is_exclusive or (ownership.owner, ownership.heir, ownership.closing) != (None, None, None):
                return ownership.may_take(client)
        return not any(
            other.priority > client.priority and is_interested(other) and self.would(other, entry)
            for other in self.clients
        )

    def waits_for_a_delayed_one(self, entry: QueueEntry, ownership: Ownership) -> bool:
        if self.world.queue.policy.non_blocking_redelivery:
            return False
        place_of = self.world.queue.ordering.place_of
        delayed = (each for each in self.world.queue.state.delays if self.ownership_of(each) is ownership)
        return any(place_of(each) < place_of(entry) for each in delayed)

    def would(self, client: Client, entry: QueueEntry) -> bool:
        colour = self.world.store.retrieve(entry.reference).properties["colour"]
        return client.colour is None or client.colour == colour


def is_interested(client: Client) -> bool:
    return client.place in {ConsumerList.INTERESTED, ConsumerList.NOTIFIED}


@pytest.mark.parametrize("evaluations", [256, 1])
@pytest.mark.parametrize("name", POLICIES)
def test_nobody_sleeps_on_a_message_that_is_his(name: str, evaluations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor gets another one than the first that he may have; also where he lets go of the lock after each message that he looks at, or an index says which those are."""
    monkeypatch.setattr("pyjms_provider.core.queue.search.EVALUATIONS", evaluations)
    for seed in range(SEEDS):
        monkeypatch.setattr("pyjms_provider.core.queue.cursor._FROM", 1 if seed % 2 else 1_000)
        turns = Turns(name, seed)
        try:
            turns.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_group_whose_owner_is_forgotten_has_one_owner_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.core.queue.message_groups._IDLE_MAX", 0)
    for seed in range(SEEDS):
        turns = Turns("groups", seed, is_forgetful=True)
        try:
            turns.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
