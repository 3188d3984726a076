"""The state of a channel, alone: what makes it reliable, and that it never acts against the table."""

from __future__ import annotations

import pytest

from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.queue.channel_state import ChannelState, Reliability
from pyjms_provider.core.state_machine import ForbiddenTransitionError
from pyjms_provider.core.store import MemoryMessageStore, MessageStore
from tests.provider.helpers import QueueWorld


class DurableStore(MemoryMessageStore):
    """A store that says it survives the process."""

    @property
    def is_reliable(self) -> bool:
        return True


class Persistence:
    """A persistence manager that is reliable or not."""

    def __init__(self, *, is_reliable: bool) -> None:
        self.is_reliable = is_reliable


@pytest.mark.realises("JBM-7.1", "JBM-2.1.a", "JBM-2.1.b", "JBM-2.1.c")
@pytest.mark.parametrize(
    ("store", "persistence", "reliable"),
    [
        (MemoryMessageStore("m"), None, False),
        (DurableStore("d"), None, False),
        (MemoryMessageStore("m"), Persistence(is_reliable=True), False),
        (DurableStore("d"), Persistence(is_reliable=False), False),
        (DurableStore("d"), Persistence(is_reliable=True), True),
    ],
)
def test_it_is_reliable_with_a_reliable_store_and_persistence_manager(
    store: MessageStore, persistence: Persistence | None, reliable: bool
) -> None:
    state = ChannelState(store, persistence=persistence)
    assert state.is_reliable is reliable
    assert state.refuses_reliable is not reliable
    assert not ChannelState(store, persistence=persistence, reliability=Reliability.MEMORY).refuses_reliable


@pytest.mark.realises("JBM-2.4.a", "JBM-2.4.b")
def test_messages_are_added_updated_and_removed_plainly_or_within_a_unit() -> None:
    world = QueueWorld()
    state, unit = ChannelState(world.store), world.unit()
    plain = state.add(world.queue, world.send())
    pending = state.add_in_transaction(world.queue, world.send(), unit)
    assert [plain.state, pending.state] == [MessageState.NEW, MessageState.NOT_COMMITTED]
    state.commit(pending)
    state.place(pending)
    assert state.entries(MessageState.NEW) == [plain, pending]
    state.remove(plain, MessageEvent.EXPIRE)
    assert state.entries(MessageState.NEW) == [pending]
    assert state.clear_available() == [pending]
    assert not any(state.count(each) for each in MessageState)


def test_it_refuses_what_the_table_forbids() -> None:
    world = QueueWorld()
    state = ChannelState(world.store)
    entry = state.add(world.queue, world.send())
    with pytest.raises(ForbiddenTransitionError):
        state.commit(entry)
    with pytest.raises(ForbiddenTransitionError):
        state.remove(entry, MessageEvent.ROLLBACK)
    assert entry.state is MessageState.NEW
