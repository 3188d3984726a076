"""The message store in memory: references out and back, holders, and threads."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.store import MemoryMessageStore
from tests.provider.helpers import CONNECTION, holders, make_envelope


@pytest.fixture
def store() -> MemoryMessageStore:
    return MemoryMessageStore("store-1")


@pytest.mark.realises("JBM-3.4", "JBM-3.2", "JBM-3.1.a")
def test_it_says_what_it_is(store: MemoryMessageStore) -> None:
    assert store.store_id == "store-1"
    assert not store.is_reliable
    assert not store.is_transactional


@pytest.mark.realises("JBM-3.a", "JBM-3.b", "JBM-3.c", "JBM-2.i")
def test_a_message_becomes_a_reference_and_a_message_again(store: MemoryMessageStore) -> None:
    envelope = make_envelope("a", priority=7, expiration_ms=5, persistent=True)
    reference = store.store(envelope, CONNECTION)
    assert (reference.priority, reference.expiration_ms, reference.reliable) == (7, 5, True)
    assert reference.origin == CONNECTION
    assert store.retrieve(reference) is envelope
    assert len(store) == 1


def test_the_last_holder_takes_the_message_along(store: MemoryMessageStore) -> None:
    reference = store.store(make_envelope(), None)
    store.acquire(reference, 2)
    for left in [2, 1, 0]:
        store.release(reference)
        assert holders(store, reference) == left
    with pytest.raises(KeyError):
        store.retrieve(reference)


@pytest.mark.realises("JBM-3.4")
def test_a_removed_message_is_gone_whoever_holds_it(store: MemoryMessageStore) -> None:
    reference = store.store(make_envelope(), None)
    store.acquire(reference, 1)
    store.remove(reference)
    store.remove(reference)
    assert len(store) == 0
    store.release(reference)
    store.release(reference)


def test_references_grow_by_age(store: MemoryMessageStore) -> None:
    numbers = [store.store(make_envelope(), None).id for _ in range(100)]
    assert numbers == sorted(set(numbers))


def test_holders_are_counted_right_between_threads(store: MemoryMessageStore) -> None:
    references: list[MessageReference] = [store.store(make_envelope(), None) for _ in range(300)]
    threads_count = 4
    for reference in references:
        store.acquire(reference, threads_count - 1)
    start = Barrier(threads_count)

    def release_all() -> None:
        start.wait()
        for reference in references:
            store.release(reference)

    threads = [Thread(target=release_all) for _ in range(threads_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 0
