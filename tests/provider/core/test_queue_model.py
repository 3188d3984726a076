"""A queue against a naive model: lists, nothing clever. Whatever the order of events, both agree, and nobody sleeps on.

The rule of wake-ups is checked after each step: whenever a message is available that an interested consumer would take
and may take, one of those has been woken and has not pulled in vain since.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from pyjms.spi.delivery import Delivery
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue import channel_state
from pyjms_provider.core.queue import consumer as consumer_manager
from pyjms_provider.core.queue import cursor as value_index
from pyjms_provider.core.queue.consumer import ConsumerList
from pyjms_provider.core.transaction.unit_of_work import UnitOfWork
from tests.provider.helpers import QueueWorld, Reader, entry_of, text_of


@dataclass(eq=False)
class Sent:
    """One message as the model knows it."""

    name: str
    number: int
    colour: int
    priority: int
    expiration_ms: int
    count: int = 0


@dataclass(eq=False)
class Client:
    """One consumer as the model knows it."""

    reader: Reader
    colour: int | None
    priority: int
    holds: dict[str, tuple[Sent, Delivery]] = field(default_factory=dict)
    wake_ups_used: int = 0
    """Wake-ups that were answered by pulling until there was nothing."""

    @property
    def is_awake(self) -> bool:
        return self.place is ConsumerList.NOTIFIED and self.reader.wake_ups > self.wake_ups_used

    def wants(self, sent: Sent) -> bool:
        return self.colour is None or sent.colour == self.colour

    @property
    def place(self) -> ConsumerList:
        return self.reader.consumer.place

    @property
    def is_interested(self) -> bool:
        return self.place in {ConsumerList.INTERESTED, ConsumerList.NOTIFIED}


class QueueMachine(RuleBasedStateMachine):
    """Senders, units of work, consumers with selectors and priorities, a clock, a housekeeper."""

    clients = Bundle("clients")
    units = Bundle("units")

    def __init__(self) -> None:
        super().__init__()
        self.world = QueueWorld()
        self.available: list[Sent] = []
        self.open_clients: list[Client] = []
        self.pending: dict[UnitOfWork, list[Sent]] = {}
        self.numbers = 0
        self.places = 0

    # Messages

    def _sent(self, colour: int, priority: int, ttl_ms: int, unit: UnitOfWork | None) -> Sent:
        self.numbers += 1
        expiration_ms = self.world.clock.now_ms + ttl_ms if ttl_ms else 0
        sent = Sent(str(self.numbers), 0, colour, priority, expiration_ms)
        self.world.send(
            sent.name, unit=unit, priority=priority, expiration_ms=expiration_ms, properties={"colour": colour}
        )
        return sent

    def _make_available(self, sent: Sent) -> None:
        self.places += 1
        sent.number = self.places
        self.available.append(sent)

    @rule(colour=st.integers(0, 2), priority=st.sampled_from([0, 4, 4, 4, 9]), ttl_ms=st.sampled_from([0, 0, 0, 20]))
    def send(self, colour: int, priority: int, ttl_ms: int) -> None:
        self._make_available(self._sent(colour, priority, ttl_ms, None))

    @rule(target=units)
    def begin(self) -> UnitOfWork:
        unit = self.world.unit()
        self.pending[unit] = []
        return unit

    @rule(unit=units, colour=st.integers(0, 2), priority=st.sampled_from([4, 9]))
    def send_in_transaction(self, unit: UnitOfWork, colour: int, priority: int) -> None:
        self.pending[unit].append(self._sent(colour, priority, 0, unit))

    @rule(unit=consumes(units), commits=st.booleans())
    def end(self, unit: UnitOfWork, commits: bool) -> None:
        messages = self.pending.pop(unit)
        if not commits:
            unit.rollback()
            return
        unit.commit(self.world.clock.now_ms)
        for sent in messages:
            self._make_available(sent)

    # Consumers

    @initialize(target=clients, colour=st.sampled_from([None, 0]), priority=st.integers(0, 1))
    def first_comes(self, colour: int | None, priority: int) -> Client:
        return self.come(colour, priority, interested=True)

    @initialize(target=clients, colour=st.sampled_from([None, 0]), priority=st.integers(0, 1))
    def second_comes(self, colour: int | None, priority: int) -> Client:
        return self.come(colour, priority, interested=True)

    @rule(
        target=clients,
        colour=st.sampled_from([None, None, 0, 1]),
        priority=st.sampled_from([0, 0, 1]),
        interested=st.booleans(),
    )
    def comes(self, colour: int | None, priority: int, interested: bool) -> Client:
        return self.come(colour, priority, interested=interested)

    def come(self, colour: int | None, priority: int, *, interested: bool) -> Client:
        selector = None if colour is None else f"colour = {colour}"
        client = Client(self.world.reader(selector=selector, priority=priority), colour, priority)
        self.open_clients.append(client)
        if interested:
            client.reader.consumer.set_interested(True)
        return client

    @rule(client=clients, interested=st.booleans())
    def set_interested(self, client: Client, interested: bool) -> None:
        if not interested:
            client.wake_ups_used = client.reader.wake_ups
        client.reader.consumer.set_interested(interested)

    @rule(client=clients, delivering=st.booleans())
    def stop_or_start(self, client: Client, delivering: bool) -> None:
        if not delivering:
            client.wake_ups_used = client.reader.wake_ups
        client.reader.session.set_delivering(delivering)

    @rule(client=clients)
    def pull_all(self, client: Client) -> None:
        while self.pull_one(client):
            pass

    @rule(client=clients)
    def pull(self, client: Client) -> None:
        self.pull_one(client)

    def pull_one(self, client: Client) -> bool:
        expected = self._next_for(client)
        delivery = client.reader.pull()
        assert (None if delivery is None else text_of(delivery)) == (None if expected is None else expected.name)
        if expected is not None and delivery is not None:
            expected.count += 1
            assert delivery.count == expected.count
            self.available.remove(expected)
            client.holds[expected.name] = (expected, delivery)
        if delivery is None:
            client.wake_ups_used = client.reader.wake_ups
        return delivery is not None

    def _next_for(self, client: Client) -> Sent | None:
        if client not in self.open_clients or not client.reader.session.is_delivering:
            return None
        now_ms = self.world.clock.now_ms
        for sent in self._in_order():
            if client.wants(sent) and not self._is_blocked(client, sent):
                if sent.expiration_ms and sent.expiration_ms <= now_ms:
                    self.available.remove(sent)
                    continue
                return sent
        return None

    def _in_order(self) -> list[Sent]:
        return sorted(self.available, key=lambda sent: (-sent.priority, sent.number))

    def _is_blocked(self, client: Client, sent: Sent) -> bool:
        return any(
            other.priority > client.priority and other.is_interested and other.wants(sent)
            for other in self.open_clients
        )

    @rule(client=clients, which=st.integers(0, 100), gives_back=st.booleans())
    def settle_or_give_back(self, client: Client, which: int, gives_back: bool) -> None:
        if not client.holds:
            return
        sent, delivery = client.holds.pop(list(client.holds)[which % len(client.holds)])
        if not gives_back:
            alive = entry_of(delivery).state is MessageState.DELIVERED
            assert client.reader.settle(delivery) is alive
            return
        alive = entry_of(delivery).state is MessageState.DELIVERED
        client.reader.give_back(delivery)
        if alive and not 0 < sent.expiration_ms <= self.world.clock.now_ms:
            self.available.append(sent)

    @rule(client=clients)
    def give_back_all(self, client: Client) -> None:
        client.reader.give_back(*(delivery for _, delivery in client.holds.values()))
        self._return_all(client)

    def _return_all(self, client: Client) -> None:
        now_ms = self.world.clock.now_ms
        for sent, delivery in client.holds.values():
            if entry_of(delivery).state is MessageState.NEW and not 0 < sent.expiration_ms <= now_ms:
                self.available.append(sent)
        client.holds.clear()

    @rule(client=consumes(clients))
    def go(self, client: Client) -> None:
        client.reader.session.close()
        self.open_clients.remove(client)
        self._return_all(client)

    # Time

    @rule(milliseconds=st.integers(1, 30))
    def time_passes(self, milliseconds: int) -> None:
        self.world.clock.now_ms += milliseconds

    @rule()
    def housekeeping(self) -> None:
        now_ms = self.world.clock.now_ms
        self.world.queue.run_due(now_ms)
        self.available = [sent for sent in self.available if not 0 < sent.expiration_ms <= now_ms]

    # What must hold

    @invariant()
    def nobody_sleeps_on_work(self) -> None:
        now_ms = self.world.clock.now_ms
        for sent in self.available:
            if 0 < sent.expiration_ms <= now_ms:
                continue
            wanting = [client for client in self.open_clients if client.is_interested and client.wants(sent)]
            highest = max((client.priority for client in wanting), default=0)
            permitted = [client for client in wanting if client.priority == highest]
            assert not permitted or any(client.is_awake for client in permitted)

    @invariant()
    def counts_agree(self) -> None:
        queue = self.world.queue
        now_ms = self.world.clock.now_ms
        lasting = [sent.name for sent in self._in_order() if not 0 < sent.expiration_ms <= now_ms]
        assert self.world.texts() == lasting
        assert queue.count(MessageState.NOT_COMMITTED) == sum(map(len, self.pending.values()))
        stored = sum(queue.count(state) for state in MessageState)
        assert len(self.world.store) == stored

    @invariant()
    def sessions_have_what_they_hold(self) -> None:
        state = self.world.queue.state
        held = state.entries(MessageState.DELIVERED)
        for client in self.open_clients:
            session = client.reader.session
            assert state.held_by(session) == [entry for entry in held if entry.holder is session]

    def teardown(self) -> None:
        self.world.queue.close()
        for client in self.open_clients:
            client.reader.session.close()
        for unit in self.pending:
            unit.rollback()
        assert len(self.world.store) == 0


class CrowdedMachine(QueueMachine):
    """The same, as if two were so many that held messages are noted by session, and waiting consumers and messages by what selectors ask for."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(channel_state, "_FEW_HELD", 1)
        self._patch.setattr(consumer_manager, "_MANY", 0)
        self._patch.setattr(consumer_manager, "_ALIKE", 1)
        self._patch.setattr(value_index, "_FROM", 1)
        self._patch.setattr(value_index, "_BLOCK", 2)
        super().__init__()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self._patch.undo()


for machine in (QueueMachine, CrowdedMachine):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueueAgainstModel = QueueMachine.TestCase
TestCrowdAgainstModel = CrowdedMachine.TestCase
