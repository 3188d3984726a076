"""The parts of a channel: the store of messages and the state that holds references to them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyjms.spi.envelope import Envelope
from pyjms_provider.core.channel import UnreliableChannelError
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.queue.channel_state import ChannelState, Reliability
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.search import waiting_entries
from pyjms_provider.core.store import MemoryMessageStore, MessageStore
from tests.provider.helpers import CONNECTION, NEWS, HandClock, QueueWorld, ScriptedReceiver, holders, make_envelope

NEW = MessageState.NEW
NOT_COMMITTED = MessageState.NOT_COMMITTED
DELIVERED = MessageState.DELIVERED
RECEIVER = ReceiverId("r")


@dataclass(frozen=True)
class Persistence:
    """A persistence manager that is reliable, or not, and does nothing."""

    is_reliable: bool


class WatchedStore(MemoryMessageStore):
    """A store that counts how often a reference became a message again."""

    def __init__(self, *, is_reliable: bool = False) -> None:
        super().__init__("watched")
        self.retrieved = 0
        self._is_reliable = is_reliable

    @property
    def is_reliable(self) -> bool:
        return self._is_reliable

    def retrieve(self, reference: MessageReference) -> Envelope:
        self.retrieved += 1
        return super().retrieve(reference)


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


# The store


@pytest.mark.realises("JBM-2.i", "JBM-3.b", "JBM-3.c", "JBM-3.4")
def test_a_store_turns_messages_into_references_and_back() -> None:
    store: MessageStore = MemoryMessageStore("s")
    envelope = make_envelope("a", priority=7, expiration_ms=5_000, persistent=True)
    reference = store.store(envelope, CONNECTION)
    assert store.retrieve(reference) is envelope
    assert (reference.priority, reference.expiration_ms) == (7, 5_000)
    assert (reference.reliable, reference.origin) == (True, CONNECTION)
    other = store.store(make_envelope("b"), None)
    assert other.id > reference.id
    assert (other.reliable, other.origin) == (False, None)
    assert store.retrieve(other).body == "b"
    assert len(store) == 2


@pytest.mark.realises("JBM-3.4", "JBM-3.2")
def test_a_store_says_what_it_is() -> None:
    store: MessageStore = MemoryMessageStore("s")
    assert store.store_id == "s"
    assert not store.is_reliable
    assert not store.is_transactional


@pytest.mark.realises("JBM-3.2")
def test_a_store_without_transactions_takes_messages_in_whatever_becomes_of_the_unit(world: QueueWorld) -> None:
    unit = world.unit()
    reference = world.send("a", unit=unit)
    assert not world.store.is_transactional
    assert world.store.retrieve(reference).body == "a", "stored before the commit"
    unit.rollback()
    assert len(world.store) == 0, "the channel lets go of it, not the store"


@pytest.mark.realises("JBM-3.4")
def test_a_message_is_forgotten_with_its_last_holder_or_when_it_is_removed() -> None:
    store = MemoryMessageStore("s")
    held = store.store(make_envelope(), None)
    store.acquire(held, 2)
    for left in (2, 1, 0):
        store.release(held)
        assert holders(store, held) == left
    removed = store.store(make_envelope(), None)
    store.acquire(removed, 5)
    store.remove(removed)
    store.remove(removed)
    with pytest.raises(KeyError):
        store.retrieve(removed)
    assert len(store) == 0


@pytest.mark.realises("JBM-3.a")
def test_a_reference_becomes_a_message_again_as_late_as_possible() -> None:
    store = WatchedStore()
    queue = Queue("queue://a", store, ChannelState(store), HandClock())
    next_queue = Queue("queue://b", store, ChannelState(store), HandClock())
    queue.add_receiver(next_queue)
    receiver = ScriptedReceiver("r", False)
    next_queue.add_receiver(receiver)
    queue.enqueue(store.store(make_envelope("a"), None))
    next_queue.redeliver(receiver)
    assert len(receiver.handled) == 2
    assert store.retrieved == 0, "from channel to channel to receiver it was but a reference"
    assert store.retrieve(receiver.handled[0]).body == "a"


@pytest.mark.realises("JBM-3.e", "JBM-2.i")
def test_a_channel_leaves_messages_to_its_store() -> None:
    store = WatchedStore()
    queue = Queue("queue://a", store, ChannelState(store), HandClock())
    envelope = make_envelope("a")
    reference = store.store(envelope, None)
    queue.enqueue(reference)
    assert queue.browse() == [envelope]
    assert store.retrieved == 1
    queue.close()
    assert len(store) == 0


@pytest.mark.realises("BJ-MSG-1")
def test_an_entry_leads_to_headers_payload_and_where_the_message_was_sent() -> None:
    store = MemoryMessageStore("s")
    subscription = Queue("topic://news#1", store, ChannelState(store), HandClock())
    sent = make_envelope("payload", destination=NEWS, priority=7, properties={"region": "EU"})
    subscription.enqueue(store.store(sent, CONNECTION))
    (entry,) = waiting_entries(subscription)
    found = store.retrieve(entry.reference)
    assert (found.body, found.priority, dict(found.properties)) == ("payload", 7, {"region": "EU"})
    assert (entry.queue, found.destination, entry.reference.origin) == (subscription, NEWS, CONNECTION)


@pytest.mark.realises("JBM-3.f")
def test_two_queues_share_a_store_and_pass_references(world: QueueWorld) -> None:
    other = world.make_queue("queue://other")
    world.queue.add_receiver(ScriptedReceiver("copy", other.handle))
    reference = world.send("a")
    assert other.get_messages(NEW) == [reference]
    assert len(world.store) == 1
    assert other.browse()[0] is world.store.retrieve(reference)


# The state


@pytest.mark.realises("JBM-2.g", "JBM-2.4.a")
def test_a_state_works_without_its_channel(world: QueueWorld) -> None:
    """What the channel decides under its lock; nothing here reaches the channel or the store's messages."""
    state = ChannelState(world.store)
    assert (state.is_reliable, state.is_transactional) == (False, True)
    reference = world.store.store(make_envelope(), None)
    entry = state.add(world.queue, reference)
    assert state.entries(NEW) == [entry]
    assert state.begin_push(entry) is not None
    assert state.pushed(reference.id) is entry
    state.update(entry, RECEIVER, False)
    assert not state.end_push(entry, handled=True)
    assert (state.count(NEW), state.count(DELIVERED)) == (0, 1)
    assert state.unacknowledged_by(RECEIVER) == [entry]
    assert state.update_later(entry, RECEIVER), "positive: it is settled"
    assert state.pushed(reference.id) is None
    removed = state.add(world.queue, reference)
    state.remove(removed, MessageEvent.REMOVE)
    assert removed.state is MessageState.ABSENT
    assert [state.count(each) for each in MessageState] == [0, 0, 0, 0]
    assert world.queue.count(NEW) == 0


@pytest.mark.realises("JBM-2.4.b", "JBM-2.2.a")
def test_adding_and_updating_take_part_in_a_transaction(world: QueueWorld) -> None:
    state = ChannelState(world.store)
    unit = world.unit()
    reference = world.store.store(make_envelope(), None)
    entry = state.add_in_transaction(world.queue, reference, unit)
    assert (entry.state, entry.transaction) == (NOT_COMMITTED, unit)
    assert len(state.ordering) == 0
    state.commit(entry)
    state.place(entry)
    assert state.entries(NEW) == [entry]
    state.begin_push(entry)
    state.update(entry, RECEIVER, False)
    state.end_push(entry, handled=True)
    state.record_acknowledgement(entry, unit)
    assert (entry.state, entry.transaction) == (DELIVERED, unit)
    state.drop_acknowledgement(entry)
    assert (entry.state, entry.transaction) == (DELIVERED, None)
    assert entry.outstanding == {RECEIVER}


@pytest.mark.realises("JBM-2.e")
def test_a_state_is_all_messages_of_its_channel_and_of_no_other(world: QueueWorld) -> None:
    state = ChannelState(world.store)
    queue = Queue("queue://own", world.store, state, world.clock)
    queue.add_receiver(ScriptedReceiver("r", False, accepts=lambda reference: reference.priority == 9))
    references = {
        world.send(queue=queue),
        world.send(queue=queue, priority=9),
        world.send(queue=queue, unit=world.unit()),
    }
    world.send("elsewhere")
    found = [entry for each in MessageState for entry in state.entries(each)]
    assert {entry.reference for entry in found} == references
    assert len(found) == 3
    assert {entry.state for entry in found} == {NEW, DELIVERED, NOT_COMMITTED}


@pytest.mark.realises("JBM-2.h")
def test_a_state_holds_references_and_never_bodies(world: QueueWorld) -> None:
    state = ChannelState(world.store)
    queue = Queue("queue://own", world.store, state, world.clock)
    reference = world.send("body", queue=queue, expiration_ms=9_000)
    (entry,) = state.entries(NEW)
    assert entry.reference is reference
    assert reference.expiration_ms == 9_000
    attributes = [getattr(holder, name) for holder in (entry, reference) for name in holder.__slots__]
    assert not any(isinstance(value, Envelope) or value == "body" for value in attributes)
    world.store.remove(reference)
    assert state.count(NEW) == 1, "the state is whole without the message"


# Reliability


@pytest.mark.realises("JBM-2.1.a", "JBM-2.1.b", "JBM-2.1.c", "JBM-3.1.a", "JBM-7.1", "JBM-2.4.a")
@pytest.mark.parametrize(
    ("persistence", "store_is_reliable", "is_reliable"),
    [
        (None, False, False),
        (None, True, False),
        (Persistence(is_reliable=False), True, False),
        (Persistence(is_reliable=True), False, False),
        (Persistence(is_reliable=True), True, True),
    ],
)
def test_a_channel_takes_reliable_messages_if_state_and_store_are_reliable(
    persistence: Persistence | None, store_is_reliable: bool, is_reliable: bool
) -> None:
    store = WatchedStore(is_reliable=store_is_reliable)
    state = ChannelState(store, persistence=persistence)
    queue = Queue("queue://a", store, state, HandClock())
    assert (state.is_reliable, queue.is_reliable) == (is_reliable, is_reliable)
    reliable = store.store(make_envelope(persistent=True), None)
    assert queue.accept(reliable) is is_reliable
    if is_reliable:
        assert queue.handle(reliable)
    else:
        with pytest.raises(UnreliableChannelError, match="would lose the PERSISTENT message"):
            queue.handle(reliable)
        assert holders(store, reliable) == 1, "it stays with the sender"
    assert queue.count(NEW) == int(is_reliable)
    assert queue.handle(store.store(make_envelope(), None)), "others are taken anyway"


@pytest.mark.realises("JBM-2.1.b")
def test_an_owner_may_choose_to_keep_reliable_messages_in_memory(world: QueueWorld) -> None:
    assert not world.queue.is_reliable, "it does not pretend"
    world.send(persistent=True)
    assert world.queue.count(NEW) == 1
    strict = world.make_queue("queue://strict", reliability=Reliability.STRICT)
    with pytest.raises(UnreliableChannelError):
        world.send(persistent=True, queue=strict)


@pytest.mark.realises("JBM-2.1.c")
def test_the_state_and_its_persistence_are_given_to_a_channel() -> None:
    """Each can be exchanged without the other: the channel asks its state, and that its persistence manager."""

    class Steady(ChannelState):
        __slots__ = ()

        @property
        def is_transactional(self) -> bool:
            return False

    store = WatchedStore(is_reliable=True)
    for persistence in (Persistence(is_reliable=True), Persistence(is_reliable=False)):
        for kind in (ChannelState, Steady):
            queue = Queue("queue://a", store, kind(store, persistence=persistence), HandClock())
            assert queue.is_reliable is persistence.is_reliable
            assert queue.is_transactional is (kind is ChannelState)
