"""Queues with turns at random: nobody sleeps on a message that is his, and no group has two owners.

The rule of wake-ups is checked after each step, as for plain queues: whenever a message is available that an interested
consumer would take and may take, one of those has been woken and has not pulled in vain since. Steps are drawn by seed,
not by hypothesis, whose runs are mostly too short for consumers to become owners.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from pyjms.spi.delivery import Delivery
from pyjms_provider.core.consumer_manager import ConsumerList
from pyjms_provider.core.entry import QueueEntry
from pyjms_provider.core.message_state import MessageState
from tests.provider.helpers import Reader
from tests.provider.policy_world import PolicyWorld

STEPS = 150
POLICIES: dict[str, dict[str, Any]] = {
    "groups": {"groups": True},
    "groups and priorities": {"groups": True},
    "priorities": {},
    "exclusive": {"exclusive": True},
    "sorted with groups": {"type": "sorted", "key": "n", "groups": True},
    "sorted with groups and priorities": {"type": "sorted", "key": "n", "groups": True},
    "sorted with priorities": {"type": "sorted", "key": "n"},
    "ring": {"max_messages": 8, "overflow": "ring"},
}


@dataclass(eq=False)
class Client:
    """One consumer, and what it holds."""

    reader: Reader
    colour: int | None
    priority: int
    holds: list[Delivery] = field(default_factory=list)
    wake_ups_used: int = 0

    @property
    def place(self) -> ConsumerList:
        return self.reader.consumer.place

    @property
    def is_awake(self) -> bool:
        return self.place is ConsumerList.NOTIFIED and self.reader.wake_ups > self.wake_ups_used


class Turns:
    """Messages with and without groups, consumers that come, pull, give back, and go, and pauses."""

    def __init__(self, name: str, seed: int, *, is_forgetful: bool = False) -> None:
        """`is_forgetful`: no group has an owner once the last one of its messages was settled."""
        self.name = name
        self.is_forgetful = is_forgetful
        self.random = Random(seed)
        self.world = PolicyWorld(**POLICIES[name])
        self.clients: list[Client] = []
        self.paused = False
        self.numbers = 0
        self.owners: dict[str, Reader] = {}
        for _ in range(6):
            self.come()

    def run(self) -> None:
        steps = [self.send, self.pull, self.change_interest, self.end_deliveries, self.go, self.pause, self.all_but_one]
        for _ in range(STEPS):
            self.random.choices(steps, [5, 18, 2, 4, 1, 1, 1])[0]()
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
            self.world.send(str(self.numbers), properties=properties)

    def come(self) -> None:
        colour = self.random.choice([None, None, 0])
        selector = None if colour is None else f"colour = {colour}"
        priority = self.random.randint(0, 1) if "priorities" in self.name else 0
        is_interested = self.random.random() < 0.7
        name = f"reader {self.numbers}"
        reader = self.world.reader(name, selector=selector, priority=priority, interested=is_interested)
        self.clients.append(Client(reader, colour, priority))

    def go(self) -> None:
        client = self.random.choice(self.clients)
        client.reader.session.close()
        self.clients.remove(client)
        self.owners = {group: reader for group, reader in self.owners.items() if reader is not client.reader}
        self.check()
        self.come()

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
            self.check_turn(client, delivery)
            client.holds.append(delivery)

    def end_deliveries(self) -> None:
        client = self.random.choice(self.clients)
        if self.random.random() < 0.4:
            deliveries, client.holds = client.holds, []
            client.reader.give_back(*deliveries)
            return
        while client.holds:
            client.reader.settle(client.holds.pop(0))
            if self.is_forgetful:
                self.forget_groups()

    def forget_groups(self) -> None:
        entries = self.world.queue.waiting_entries()
        there = {self.world.store.retrieve(each.reference).properties.get("JMSXGroupID") for each in entries}
        there |= {each.envelope.properties.get("JMSXGroupID") for client in self.clients for each in client.holds}
        self.owners = {group: reader for group, reader in self.owners.items() if group in there}

    def pause(self) -> None:
        self.paused = not self.paused
        self.world.manager.alter("orders", paused=self.paused)

    # What must hold

    def check_turn(self, client: Client, delivery: Delivery) -> None:
        if self.name == "exclusive":
            assert client is self.clients[0]
        group = delivery.envelope.properties.get("JMSXGroupID")
        if "groups" in self.name and isinstance(group, str):
            assert self.owners.setdefault(group, client.reader) is client.reader, f"group {group} has two owners"
            if delivery.envelope.properties["JMSXGroupSeq"] == -1:
                del self.owners[group]

    def check(self) -> None:
        queue = self.world.queue
        held = sum(len(client.holds) for client in self.clients)
        assert queue.count(MessageState.DELIVERED) == held
        assert len(self.world.store) == held + queue.count(MessageState.NEW)
        if self.name == "ring":
            assert held + queue.count(MessageState.NEW) <= max(8, held)
        if self.paused:
            return
        for entry in queue.waiting_entries():
            wanting = [client for client in self.clients if is_interested(client) and self.would_and_may(client, entry)]
            assert not wanting or any(client.is_awake for client in wanting), f"somebody sleeps on {entry}"

    def next_for(self, client: Client) -> QueueEntry | None:
        waiting = self.world.queue.waiting_entries()
        return next((entry for entry in waiting if self.would_and_may(client, entry)), None)

    def would_and_may(self, client: Client, entry: QueueEntry) -> bool:
        if not self.would(client, entry):
            return False
        if self.name == "exclusive":
            return client is self.clients[0]
        properties = self.world.store.retrieve(entry.reference).properties
        owner = self.owners.get(str(properties.get("JMSXGroupID"))) if "groups" in self.name else None
        if owner is not None:
            return owner is client.reader
        return not any(
            other.priority > client.priority and is_interested(other) and self.would(other, entry)
            for other in self.clients
        )

    def would(self, client: Client, entry: QueueEntry) -> bool:
        colour = self.world.store.retrieve(entry.reference).properties["colour"]
        return client.colour is None or client.colour == colour


def is_interested(client: Client) -> bool:
    return client.place in {ConsumerList.INTERESTED, ConsumerList.NOTIFIED}


@pytest.mark.parametrize("evaluations", [256, 1])
@pytest.mark.parametrize("name", POLICIES)
def test_nobody_sleeps_on_a_message_that_is_his(name: str, evaluations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor gets another one than the first that he may have; also where he lets go of the lock after each message that he looks at, or an index says which those are."""
    monkeypatch.setattr("pyjms_provider.core.queue._EVALUATIONS", evaluations)
    for seed in range(100):
        monkeypatch.setattr("pyjms_provider.core.value_index._FROM", 1 if seed % 2 else 1_000)
        turns = Turns(name, seed)
        try:
            turns.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_group_whose_owner_is_forgotten_has_one_owner_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.core.consumer_turns._IDLE_MAX", 0)
    for seed in range(60):
        turns = Turns("groups", seed, is_forgetful=True)
        try:
            turns.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
