"""The contract of `Journal`, rule by rule. A test's docstring is its rule; see the package for how to run them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Barrier, Thread

import pytest

from pyjms.spi.envelope import Address, AddressKind, BodyKind, ObjectBody
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms.spi.replay import StageName
from pyjms_provider.core.journal.journal import (
    Changes,
    DuplicateMark,
    GroupNumber,
    GroupRecord,
    NewMessage,
    PipelineChanges,
    PreparedBranch,
    QueueNumber,
    QueueRecord,
    Removal,
    Reservation,
    StageRecord,
    SubscriptionKey,
)
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.client_suite import *  # noqa: F403  its rules belong to the contract
from pyjms_provider.stores.testing.world import (
    AWKWARD,
    ORDERS,
    WholeMessage,
    World,
    envelope_of,
    queue_record,
    without_envelope,
    xid,
)

THREADS = 8
EACH = 25


@pytest.fixture
def world(journal_home: JournalHome) -> Iterator[World]:
    """Open an empty journal with two queues."""
    yield World(journal_home)
    journal_home.close()


# Messages


def test_an_empty_journal_has_nothing_and_was_closed(world: World) -> None:
    """Recovery of a new journal finds nothing, and a clean end."""
    found = world.found
    assert (found.ids, found.recovery.last_id, found.recovery.was_closed) == ([], 0, True)
    assert [*found.recovery.queues, *found.recovery.branches, *found.recovery.duplicates] == []


def test_a_message_is_found_again_with_all_that_its_reference_has(world: World) -> None:
    """Messages are recovered with priority, expiration, delivery time and reliability."""
    sent = world.message(priority=7, expiration_ms=2**62, deliver_at_ms=77).reference
    world.add(world.message(), _with(world, sent))
    found = world.reopen().reference(sent.id)
    assert (found.priority, found.expiration_ms, found.deliver_at_ms) == (7, 2**62, 77)
    assert (found.reliable, found.shared) == (True, False)


def _with(world: World, reference: MessageReference) -> WholeMessage:
    return WholeMessage(reference, envelope_of("with its reference"), (world.queue,))


def test_messages_are_found_in_the_order_in_which_they_were_added(world: World) -> None:
    """Entries are sorted by reference id, independently of priorities: not all queues deliver by priority."""
    for number in range(20):
        world.add(*[world.message(priority=priority) for priority in (4, number % 10, 9, 4)])
        world.add(world.message(world.other, priority=9), world.message(priority=number % 3))
        if number % 5 == 0:
            world.add(world.message(world.queue, world.other))
    ids = world.reopen().ids
    # Counted, so that a store that loses the shared messages does not pass with the rest in order.
    assert len(ids) == 128
    assert [message for message, _ in ids] == sorted(message for message, _ in ids)


def test_bodies_are_read_by_id_and_those_that_are_not_there_are_left_out(world: World) -> None:
    """`read` returns messages as they were sent, and omits unknown ids."""
    sent = world.add(world.message(text="text with ünicode \0"))
    number = sent.reference.id
    assert world.journal.read([number]) == {number: sent.envelope}
    assert world.journal.read([]) == {}
    # Before and after reopening: a store may have a cache of recent writes.
    world.reopen()
    assert world.journal.read([ReferenceId(999), number]) == {number: sent.envelope}


def test_a_pickled_object_comes_back_as_somebody_elses(world: World) -> None:
    """Stored objects count as foreign, so only trusted classes are unpickled (`ObjectBody.local`)."""
    sent = world.message()
    sent.envelope.body_kind, sent.envelope.body = BodyKind.OBJECT, ObjectBody(b"pickled", local=True)  # type: ignore[misc]  # not yet shared
    world.add(sent)
    assert world.bodies(sent.reference.id) == {sent.reference.id: ObjectBody(b"pickled", local=False)}


def test_a_large_body_is_kept(world: World) -> None:
    """A body may have several megabytes."""
    sent = world.add(world.message(text="0123456789abcdef" * 2**17))
    world.reopen()
    assert world.bodies(sent.reference.id) == {sent.reference.id: sent.envelope.body}


def test_a_removed_message_is_gone(world: World) -> None:
    """A message whose removal was written is neither recovered nor read."""
    first, second = world.message(), world.message()
    world.add(first, second)
    world.remove((world.queue, first.reference))
    assert world.bodies(first.reference.id) == {}
    assert world.reopen().ids == [(second.reference.id, world.queue)]


def test_removing_again_or_from_another_queue_changes_nothing(world: World) -> None:
    """Removals may be repeated, and concern one queue."""
    sent, other = world.message(), world.message()
    world.add(sent, other)
    for _ in range(2):
        world.remove((world.queue, sent.reference))
    # A late removal of another queue must not take the message out of the queue where it is.
    world.remove((world.other, other.reference))
    assert world.reopen().ids == [(other.reference.id, world.queue)]


def test_a_message_of_several_queues_goes_with_the_last_of_them(world: World) -> None:
    """A message in several queues is stored once, until its last entry is removed; it has one reference, which is marked as shared."""
    sent = world.add(world.message(world.queue, world.other))
    number = sent.reference.id
    found = world.reopen()
    assert found.ids == [(number, world.queue), (number, world.other)]
    first, second = (entry.reference for entry in found.entries)
    # The core counts the holders of a message in its reference, so all entries must share one.
    assert first is second
    assert first.shared
    world.remove((world.queue, first))
    assert world.bodies(number)
    assert world.reopen().ids == [(number, world.other)]
    world.remove((world.other, world.found.reference(number)))
    assert world.bodies(number) == {}
    assert world.reopen().ids == []


def test_both_queues_of_a_message_may_be_removed_at_once(world: World) -> None:
    """The message is deleted with its last entry, also if all are removed in one write."""
    sent = world.add(world.message(world.queue, world.other))
    world.remove((world.queue, sent.reference), (world.other, sent.reference))
    assert world.bodies(sent.reference.id) == {}
    assert world.reopen().ids == []


def test_changes_are_true_together(world: World) -> None:
    """One write may contain additions, removals, counts, marks and duplicate ids, and is atomic."""
    old, kept = world.message(), world.message(world.queue, world.other)
    world.add(old, kept)
    new = world.message()
    world.journal.write(
        Changes(
            messages=[new],
            removals=[Removal(world.queue, old.reference)],
            counts=[(world.other, kept.reference, 3)],
            marks=[(world.queue, 4, new.reference.id)],
            duplicates=[DuplicateMark(ORDERS, "id", 2**62, 1)],
        ),
        force=True,
    )
    found = world.reopen()
    kept_id, new_id = kept.reference.id, new.reference.id
    assert found.counts() == {(kept_id, world.queue): 0, (kept_id, world.other): 3, (new_id, world.queue): 0}
    assert list(found.recovery.marks) == [(world.queue, 4, new_id)]
    assert [mark.duplicate_id for mark in found.recovery.duplicates] == ["id"]


def test_delivery_counts_are_kept(world: World) -> None:
    """The last count of a message in a queue is recovered; a count of a removed message has no effect."""
    sent, gone = world.message(), world.message()
    world.add(sent, gone)
    world.remove((world.queue, gone.reference))
    for count in (1, 2):
        world.journal.write(
            Changes(counts=[(world.queue, sent.reference, count), (world.queue, gone.reference, count)]), force=False
        )
    assert world.reopen().counts() == {(sent.reference.id, world.queue): 2}


def test_nothing_to_write_is_written_at_once(world: World) -> None:
    """Writing empty changes is no error."""
    world.journal.write(Changes(), force=True)
    world.journal.note(Changes())
    assert world.reopen().ids == []


# Deferred changes


def test_what_was_noted_is_there_after_the_next_write(world: World) -> None:
    """Changes of `note` are written before or with the next write."""
    sent, other = world.message(), world.message()
    world.add(sent)
    world.journal.note(
        Changes(removals=[Removal(world.queue, sent.reference)], marks=[(world.queue, 4, ReferenceId(1))])
    )
    world.journal.note(Changes(marks=[(world.queue, 4, ReferenceId(2))]))
    world.add(other)
    assert world.bodies(sent.reference.id, other.reference.id) == {other.reference.id: other.envelope.body}
    assert list(world.reopen().recovery.marks) == [(world.queue, 4, 2)]


def test_what_was_noted_is_there_after_the_close(world: World) -> None:
    """`close` writes the changes of `note`; later ones are ignored."""
    sent = world.add(world.message())
    world.journal.note(Changes(counts=[(world.queue, sent.reference, 9)]))
    world.journal.close(clean=False)
    # The core may call `note` while it ends; that must neither fail nor be written.
    world.journal.note(Changes(counts=[(world.queue, sent.reference, 10)]))
    assert world.reopen().counts() == {(sent.reference.id, world.queue): 9}


# Marks, duplicates, ids


def test_marks_are_kept_by_queue_and_priority(world: World) -> None:
    """A later mark replaces an earlier one."""
    for up_to in (3, 8):
        marks = [
            (world.queue, 4, ReferenceId(up_to)),
            (world.queue, 9, ReferenceId(1)),
            (world.other, 4, ReferenceId(2)),
        ]
        world.journal.write(Changes(marks=marks), force=False)
    found = world.reopen().recovery
    assert sorted(found.marks) == sorted([(world.queue, 4, 8), (world.queue, 9, 1), (world.other, 4, 2)])
    assert not found.was_closed


def test_the_higher_of_two_marks_stays(world: World) -> None:
    """Concurrent deliveries write marks in any order, also in one group, and the highest counts."""
    marks = [(world.queue, 4, ReferenceId(up_to)) for up_to in (8, 3)]
    for mark in marks:
        world.journal.write(Changes(marks=[mark]), force=False)
    # Three ways for two marks to meet: in two writes, in one write, and in two notes.
    world.journal.write(Changes(marks=[(world.queue, 5, up_to) for _, _, up_to in marks]), force=False)
    for _, _, up_to in marks:
        world.journal.note(Changes(marks=[(world.queue, 6, up_to)]))
    world.add(world.message())
    found = world.reopen().recovery
    assert sorted(found.marks) == [(world.queue, priority, 8) for priority in (4, 5, 6)]


def test_a_mark_of_zero_is_forgotten(world: World) -> None:
    """A mark of zero deletes the mark, as at the start of a broker; later marks are new."""
    for priority in (4, 5):
        world.journal.write(Changes(marks=[(world.queue, priority, ReferenceId(8))]), force=False)
    world.journal.note(Changes(marks=[(world.queue, priority, ReferenceId(0)) for priority in (4, 5, 6)]))
    # A lower mark than the deleted one: it must count.
    world.journal.write(Changes(marks=[(world.queue, 5, ReferenceId(3))]), force=False)
    assert list(world.reopen().recovery.marks) == [(world.queue, 5, 3)]


def test_a_clean_close_is_found_and_forgets_marks(world: World) -> None:
    """After a clean close no marks are recovered; a later end without a clean close is detected again."""
    world.journal.write(Changes(marks=[(world.queue, 4, ReferenceId(5))]), force=False)
    found = world.reopen(clean=True).recovery
    assert (found.was_closed, list(found.marks)) == (True, [])
    # The opening must reset the flag of the clean end, or this end would look clean, too.
    assert not world.reopen(clean=False).recovery.was_closed


def test_new_ids_are_higher_than_those_in_use(world: World) -> None:
    """`last_id` is the id of the newest stored message, including prepared ones."""
    world.add(world.message(), world.message())
    assert world.reopen().recovery.last_id == 2
    # The id of a message in doubt is in use, although the message is in no queue yet.
    world.prepare(1, world.message())
    assert world.reopen().recovery.last_id == 3


@pytest.mark.parametrize("duplicate_id", AWKWARD)
def test_duplicate_ids_are_remembered(world: World, duplicate_id: str) -> None:
    """A duplicate id is stored by its address and serial, with the time that was written last."""
    # A topic and a queue of the same name are different destinations.
    topic = Address(AddressKind.TOPIC, ORDERS.name)
    world.remember(duplicate_id, 2**61, serial=7)
    world.remember(duplicate_id, 2**62, serial=7)
    world.remember(duplicate_id, 2**59, serial=8)
    world.remember(duplicate_id, 2**60, topic, serial=7)
    marks = world.reopen().recovery.duplicates
    assert {mark.duplicate_id for mark in marks} == {duplicate_id}
    found = {(mark.address, mark.serial): mark.until_ms for mark in marks}
    assert found == {(ORDERS, 7): 2**62, (ORDERS, 8): 2**59, (topic, 7): 2**60}


def test_ids_are_forgotten_by_their_serials(world: World) -> None:
    """DuplicateMark.forgets_below: deletes the ids of its address with lower serials, written in any order."""
    topic = Address(AddressKind.TOPIC, ORDERS.name)
    for serial in (3, 1, 2):
        world.remember(f"{serial}", 2**62, serial=serial)
        world.remember(f"{serial}", 2**62, topic, serial=serial)
    world.remember("4", 2**62, serial=4, below=3)
    marks = world.reopen().recovery.duplicates
    assert {mark.serial for mark in marks if mark.address == ORDERS} == {3, 4}
    assert {mark.serial for mark in marks if mark.address == topic} == {1, 2, 3}


# Branches


def test_a_prepared_branch_is_in_doubt_until_it_is_decided(world: World) -> None:
    """The messages of a prepared branch are in no queue, but can be read; the messages that it removes still exist."""
    old = world.add(world.message())
    new = world.message(world.queue, world.other, priority=8)
    world.prepare(1, new, removals=[Removal(world.queue, old.reference)])
    found = world.reopen()
    assert found.ids == [(old.reference.id, world.queue)]
    (branch,) = found.recovery.branches
    assert (branch.xid, branch.prepared_ms) == (xid(1), 5)
    assert [(queue, reference.id) for queue, reference in branch.messages] == [
        (world.queue, new.reference.id),
        (world.other, new.reference.id),
    ]
    assert [(reference.priority, reference.shared) for _, reference in branch.messages] == [(8, True)] * 2
    assert list(branch.removals) == [(world.queue, old.reference.id)]
    assert world.bodies(new.reference.id) == {new.reference.id: new.envelope.body}


@pytest.mark.parametrize("reopened", [False, True])
def test_a_committed_branch_becomes_true(world: World, reopened: bool) -> None:
    """The commit of a branch adds its messages and does its removals, also after the journal was opened again."""
    single, shared = world.message(), world.message(world.queue, world.other)
    world.add(single, shared)
    new, new_shared = world.message(), world.message(world.queue, world.other)
    # A message of one queue, and the last two entries of a shared one: these are removed in different ways.
    removals = [
        Removal(world.queue, single.reference),
        Removal(world.queue, shared.reference),
        Removal(world.other, shared.reference),
    ]
    world.prepare(1, new, new_shared, removals=removals)
    if reopened:
        world.reopen()
    world.decide(1, commit=True)
    assert world.bodies(single.reference.id, shared.reference.id) == {}
    found = world.reopen()
    assert found.ids == [
        (new.reference.id, world.queue),
        (new_shared.reference.id, world.queue),
        (new_shared.reference.id, world.other),
    ]
    assert list(found.recovery.branches) == []


@pytest.mark.parametrize("reopened", [False, True])
def test_a_branch_that_is_rolled_back_leaves_nothing(world: World, reopened: bool) -> None:
    """The rollback of a branch deletes its messages, and the messages that it would have removed stay."""
    old = world.add(world.message())
    new, new_shared = world.message(), world.message(world.queue, world.other)
    world.prepare(1, new, new_shared, removals=[Removal(world.queue, old.reference)])
    if reopened:
        world.reopen()
    world.decide(1, commit=False)
    assert world.bodies(new.reference.id, new_shared.reference.id) == {}
    found = world.reopen()
    assert found.ids == [(old.reference.id, world.queue)]
    assert list(found.recovery.branches) == []


def test_branches_are_decided_one_by_one(world: World) -> None:
    """Deciding a branch leaves the others in doubt; other writes take effect immediately."""
    messages = [world.message() for _ in range(3)]
    for number, message in enumerate(messages):
        world.prepare(number, message)
    world.decide(0, commit=True)
    world.decide(1, commit=False)
    found = world.reopen()
    assert found.ids == [(messages[0].reference.id, world.queue)]
    assert [branch.xid for branch in found.recovery.branches] == [xid(2)]


def test_the_end_of_an_unknown_branch_changes_nothing(world: World) -> None:
    """A coordinator may repeat its decision, which then has no effect."""
    sent = world.add(world.message())
    world.decide(7, commit=True)
    # Both outcomes: neither may change messages that belong to no branch.
    world.decide(7, commit=False)
    assert world.reopen().ids == [(sent.reference.id, world.queue)]


def test_a_heuristic_outcome_is_remembered_until_it_is_forgotten(world: World) -> None:
    """A heuristic outcome is recovered; a later outcome of the same branch that is not heuristic deletes it."""
    world.prepare(1, world.message())
    world.prepare(2)
    world.decide(1, commit=True, heuristic=True)
    world.decide(2, commit=False, heuristic=True)
    found = world.reopen()
    assert {(each.xid, each.commit, each.heuristic) for each in found.recovery.heuristics} == {
        (xid(1), True, True),
        (xid(2), False, True),
    }
    assert len(found.ids) == 1
    world.decide(1, commit=True)
    world.decide(2, commit=False)
    found = world.reopen()
    assert list(found.recovery.heuristics) == []
    assert len(found.ids) == 1


# Paging


def test_messages_are_paged_out_and_come_back(world: World) -> None:
    """A paged-out message can be read until it is dropped or the journal is closed."""
    kept, paged = world.add(world.message()), world.message(text="transient")
    number = paged.reference.id
    # The same message may be paged out again after it was read.
    world.page_out(paged)
    assert world.journal.read([kept.reference.id, number]) == {kept.reference.id: kept.envelope, number: paged.envelope}
    world.page_out(paged)
    assert world.bodies(number) == {number: "transient"}
    assert world.reopen().ids == [(kept.reference.id, world.queue)]
    assert world.bodies(number) == {}


def test_what_was_paged_out_before_its_commit_is_added_without_its_envelope(world: World) -> None:
    """A transaction may be larger than memory, so the journal reads paged-out messages during the write. They may be dropped afterwards."""
    # Large bodies and many messages, as a store reads them in portions limited by size and by number.
    large = "0123456789abcdef" * 2**16
    sent = [world.message(text=f"{number} {large}") for number in range(5)]
    sent += [world.message(world.queue, world.other, text="shared"), *(world.message() for _ in range(300))]
    world.page_out(*sent)
    whole = world.message()
    world.journal.write(Changes(messages=[*(without_envelope(each) for each in sent), whole]), force=True)
    world.journal.drop_paged([each.reference.id for each in sent])
    found = world.reopen()
    assert found.ids == sorted((each.reference.id, queue) for each in (*sent, whole) for queue in each.queues)
    assert world.bodies(*(each.reference.id for each in sent)) == {
        each.reference.id: each.envelope.body for each in sent
    }


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "rollback"])
def test_a_branch_may_have_paged_out_what_it_sends(world: World, commit: bool) -> None:
    """The messages of a prepared branch may be paged out, too."""
    sent = world.message()
    world.page_out(sent)
    world.prepare(1, without_envelope(sent))
    world.journal.drop_paged([sent.reference.id])
    world.reopen()
    world.decide(1, commit=commit)
    assert world.bodies(sent.reference.id) == ({sent.reference.id: sent.envelope.body} if commit else {})
    assert len(world.reopen().ids) == commit


@pytest.mark.parametrize("others", [0, 3])
def test_nothing_is_written_if_what_was_paged_out_is_lost(world: World, others: int) -> None:
    """If a paged-out message with holders is lost, nothing is written, and the journal remains usable."""
    lost, there = world.message(), [world.message() for _ in range(others)]
    # Only some of them, so that the error occurs in the middle of the write.
    world.page_out(*there)
    changes = Changes(messages=[without_envelope(each) for each in (*there, lost)])
    with pytest.raises(ResourceError):
        world.journal.write(changes, force=True)
    after = world.add(world.message())
    assert world.reopen().ids == [(after.reference.id, world.queue)]


def test_what_was_paged_out_is_left_out_if_nobody_holds_it(world: World) -> None:
    """A paged-out message without holders is left out: its queue has ended during the commit of its transaction."""
    gone, there = world.message(), world.message()
    world.page_out(there)
    gone.reference.holders = 0
    world.journal.write(Changes(messages=[without_envelope(gone), without_envelope(there)]), force=True)
    assert world.reopen().ids == [(there.reference.id, world.queue)]
    alone = world.message()
    alone.reference.holders = 0
    world.journal.write(Changes(messages=[without_envelope(alone)]), force=True)
    assert world.reopen().ids == [(there.reference.id, world.queue)]


def test_dropped_messages_leave_room(world: World) -> None:
    """Dropping any number of paged-out messages does not affect others."""
    messages = [world.message() for _ in range(1500)]
    world.page_out(*messages)
    world.journal.drop_paged([each.reference.id for each in messages[:-1]])
    last = messages[-1]
    # Twice, as the first read may delete the dropped ones.
    for _ in range(2):
        assert world.bodies(last.reference.id) == {last.reference.id: last.envelope.body}


# Threads, holders, closing


def test_many_threads_may_write_at_once(world: World) -> None:
    """Concurrent writes are atomic, and none is lost."""
    start = Barrier(THREADS)
    batches = [[world.message(world.queue, world.other) for _ in range(EACH)] for _ in range(THREADS)]

    def work(messages: list[WholeMessage]) -> None:
        # All threads start together, so that group commits have several members.
        start.wait()
        for message in messages:
            world.journal.write(Changes(messages=[message]), force=True)
            world.journal.write(Changes(removals=[Removal(world.queue, message.reference)]), force=False)
            assert world.journal.read([message.reference.id]) == {message.reference.id: message.envelope}

    threads = [Thread(target=work, args=(messages,)) for messages in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent = sorted(message.reference.id for messages in batches for message in messages)
    assert world.reopen().ids == [(number, world.other) for number in sent]


def test_a_queue_is_asked_whether_it_holds_a_message(world: World) -> None:
    """`holds` returns whether a queue has a message, in one queue or in several, added or removed."""
    journal = world.journal
    for queues in ((world.queue,), (world.queue, world.other)):
        message = world.message(*queues)
        reference = message.reference
        assert not journal.holds(world.queue, reference)
        world.add(message)
        assert journal.holds(world.queue, reference)
        journal.write(Changes(removals=[Removal(world.queue, reference)]), force=False)
        assert not journal.holds(world.queue, reference)
        assert journal.holds(world.other, reference) is (world.other in queues)


def test_what_was_noted_is_written_before_a_queue_is_asked(world: World) -> None:
    """`holds` takes earlier changes of `note` into account."""
    message = world.add(world.message())
    world.journal.note(Changes(removals=[Removal(world.queue, message.reference)]))
    assert world.journal.holds(world.queue, message.reference) is False


def test_a_journal_has_one_holder_whose_name_the_next_one_is_told(world: World) -> None:
    """Opening a held journal is refused with the holder's name, and does not disturb the holder."""
    with pytest.raises(ResourceError, match="the suite"):
        world.home.open("the second")
    # The refused attempt must not have affected the holder's lock, or its connection.
    sent = world.add(world.message())
    assert world.reopen().ids == [(sent.reference.id, world.queue)]


def test_a_closed_journal_refuses_and_may_be_closed_again(world: World) -> None:
    """`close` may be repeated; after it nothing can be written or read."""
    sent = world.message()
    world.journal.close(clean=True)
    # The second close has no effect, so the journal still counts as closed cleanly.
    world.journal.close(clean=False)
    for call in (
        lambda: world.add(sent),
        lambda: world.journal.read([ReferenceId(1)]),
        lambda: world.journal.define_queue(queue_record("late")),
        lambda: world.page_out(sent),
    ):
        with pytest.raises(ProviderError):
            call()
    assert world.reopen().recovery.was_closed


def test_recovery_tells_how_far_it_is(world: World) -> None:
    """`progress` is called with the number of entries read, the last time with their total."""
    world.add(*[world.message() for _ in range(100)])
    world.journal.close(clean=False)
    told: list[int] = []
    world.journal = world.home.open()
    recovery = world.journal.recover(told.append)
    # Entries are read lazily, so there is no progress before this line.
    assert len(list(recovery.entries)) == 100
    assert told[-1] == 100
    assert told == sorted(told)


@pytest.mark.parametrize("name", AWKWARD)
def test_queues_and_subscriptions_are_found_again(world: World, name: str) -> None:
    """All fields of a record are stored, with any names."""
    queue = QueueRecord(number=QueueNumber(0), address=Address(AddressKind.QUEUE, name), policy=f'{{"name": "{name}"}}')
    subscription = QueueRecord(
        number=QueueNumber(0),
        address=Address(AddressKind.TOPIC, name),
        subscription=SubscriptionKey(name, f"name {name}"),
        selector_text=f"a = '{name}'",
        no_local=True,
    )
    numbers = [world.journal.define_queue(record) for record in (queue, subscription)]
    kept = {record.number: record for record in world.reopen().recovery.queues}
    found, found_subscription = (kept[number] for number in numbers)
    assert (found.address, found.policy, found.subscription, found.no_local) == (
        queue.address,
        queue.policy,
        None,
        False,
    )
    assert found_subscription.subscription == subscription.subscription
    assert (found_subscription.selector_text, found_subscription.no_local) == (subscription.selector_text, True)
    assert found_subscription.address == subscription.address


@pytest.mark.parametrize("prepared", [False, True])
def test_a_queue_may_be_defined_with_its_first_message(world: World, prepared: bool) -> None:
    """Journal.number_of and Changes.definitions: also with a prepared branch, where the definition takes effect immediately."""
    record = queue_record("promised")
    number = world.journal.number_of(record)
    assert world.journal.number_of(record) == number
    definition = replace(record, number=number)
    message = world.message(number)
    branch = PreparedBranch(xid(1), 5) if prepared else None
    world.journal.write(Changes(messages=[message], definitions=[definition], prepared=branch), force=True)
    assert definition in world.reopen().recovery.queues
    if prepared:
        world.decide(1, commit=True)
        world.reopen()
    assert world.found.ids == [(message.reference.id, number)]
    assert world.journal.number_of(record) == number
    assert world.journal.define_queue(queue_record("next")) != number


def test_a_number_that_was_promised_is_given_to_nobody_else(world: World) -> None:
    """Journal.number_of: a promised number is not used for another queue."""
    promised = world.journal.number_of(queue_record("promised"))
    assert world.journal.define_queue(queue_record("other")) != promised
    assert world.journal.define_queue(queue_record("promised")) == promised
    assert world.journal.number_of(queue_record("first")) == world.queue


def test_a_queue_may_take_the_place_of_another_one_of_its_name(world: World) -> None:
    """Journal.number_of, Changes.dropped and Changes.corrected: one write replaces a queue; before it, the old queue exists."""
    record = queue_record("first")
    old = world.add(world.message())
    number = world.journal.number_of(record, anew=True)
    assert number not in {world.queue, world.other, world.journal.number_of(record, anew=True)}
    # `number_of` must not change the stored data.
    assert world.journal.holds(world.queue, old.reference) is True
    new = replace(record, number=number, policy="{}")
    world.journal.write(Changes(dropped=[world.queue], corrected=[new]), force=True)
    assert world.journal.number_of(record) == number
    # The queue is deleted already; this call deletes its messages.
    world.journal.drop_queue(world.queue)
    sent = world.message(number)
    world.journal.write(Changes(messages=[sent]), force=True)
    found = world.reopen()
    assert {each.number: each for each in found.recovery.queues}.keys() == {world.other, number}
    assert new in found.recovery.queues
    assert found.ids == [(sent.reference.id, number)]
    assert world.journal.number_of(record) == number


def test_a_definition_changes_no_queue_that_is_kept(world: World) -> None:
    """Changes.definitions: an existing queue is not changed."""
    record = replace(queue_record("first", world.queue), policy="{}")
    world.journal.define_queue(record)
    world.journal.write(Changes(definitions=[queue_record("first", world.queue)]), force=True)
    assert record in world.reopen().recovery.queues


def test_a_queue_keeps_its_number(world: World) -> None:
    """Defining a queue again, by its number or by its name, keeps its number and replaces its policy."""
    number = world.journal.define_queue(queue_record("again"))
    assert world.journal.define_queue(queue_record("again")) == number
    assert world.journal.define_queue(queue_record("again", number)) == number
    world.reopen()
    changed = QueueRecord(number=QueueNumber(0), address=queue_record("again").address, policy="{}")
    assert world.journal.define_queue(changed) == number
    records = [record for record in world.reopen().recovery.queues if record.address == changed.address]
    assert [(record.number, record.policy) for record in records] == [(number, "{}")]


def test_a_number_is_never_given_twice(world: World) -> None:
    """The number of a dropped queue is not used again, also after the journal was opened again."""
    given = {world.queue, world.other}
    for _ in range(3):
        number = world.journal.define_queue(queue_record("short-lived"))
        assert number not in given
        given.add(number)
        world.journal.drop_queue(number)
        # The highest number must be stored separately, as no queue with it is left.
        world.reopen()


def test_a_dropped_queue_takes_its_messages_along(world: World) -> None:
    """Messages of a dropped queue are deleted, also those of a prepared branch; those in other queues stay there."""
    first, shared, other = world.message(), world.message(world.queue, world.other), world.message(world.other)
    world.add(first, shared, other)
    world.journal.write(Changes(marks=[(world.queue, 4, ReferenceId(3))]), force=False)
    # The queue is dropped while a branch in doubt adds to it and removes from it.
    world.prepare(1, world.message(), removals=[Removal(world.queue, first.reference)])
    world.journal.drop_queue(world.queue)
    assert world.bodies(first.reference.id) == {}
    found = world.reopen()
    assert found.ids == [(shared.reference.id, world.other), (other.reference.id, world.other)]
    assert [record.number for record in found.recovery.queues] == [world.other]
    assert list(found.recovery.marks) == []
    (branch,) = found.recovery.branches
    assert (list(branch.messages), list(branch.removals)) == ([], [])


def test_a_dropped_queue_takes_the_ids_of_its_producers_along(world: World) -> None:
    """Duplicate ids are deleted with their queue, as they would reject messages to the next queue of its name; those of other destinations stay."""
    first, second = (queue_record(name).address for name in ("first", "second"))
    topic = Address(AddressKind.TOPIC, first.name)
    subscription = QueueRecord(number=QueueNumber(0), address=topic, subscription=SubscriptionKey("client", "name"))
    number = world.journal.define_queue(subscription)
    for address in (first, second, topic):
        world.remember("id", 2**62, address)
        world.remember("another", 2**62, address)
    for dropped in (world.queue, number):
        world.journal.drop_queue(dropped)
    found = [(mark.address, mark.duplicate_id) for mark in world.reopen().recovery.duplicates]
    assert set(found) == {(address, each) for address in (second, topic) for each in ("id", "another")}


def test_what_was_noted_as_dropped_makes_way_for_the_next_of_its_name(world: World) -> None:
    """Changes.dropped: a deferred drop deletes the old queue with its duplicate ids, also if it is written with the next queue of its name."""
    record = queue_record("first")
    world.add(world.message(), world.message(world.other))
    for identity in ("id", "another"):
        world.remember(identity, 2**62, record.address)
    world.journal.note(Changes(dropped=[world.queue]))
    number = world.journal.number_of(record)
    assert number not in {world.queue, world.other}
    message = world.message(number)
    mark = DuplicateMark(record.address, "id", 2**62, 9)
    definition = replace(record, number=number)
    world.journal.write(Changes(messages=[message], definitions=[definition], duplicates=[mark]), force=True)
    found = world.reopen()
    assert {each.number: each.address for each in found.recovery.queues} == {
        world.other: queue_record("second").address,
        number: record.address,
    }
    assert [each.duplicate_id for each in found.recovery.duplicates] == ["id"]
    assert (message.reference.id, number) in found.ids


@pytest.mark.parametrize("is_noted", [True, False])
def test_an_id_is_kept_and_forgotten_only_for_a_queue_that_is_there(world: World, is_noted: bool) -> None:
    """DuplicateMark.queue: late changes for a dropped queue do not affect the duplicate ids of the next queue of its name."""
    record = queue_record("first")
    if is_noted:
        world.journal.note(Changes(dropped=[world.queue]))
    else:
        world.journal.drop_queue(world.queue)
    number = world.journal.number_of(record)

    def mark(identity: str, queue: QueueNumber, until_ms: int = 2**62) -> DuplicateMark:
        return DuplicateMark(record.address, identity, until_ms, len(identity), queue)

    # A write for the old queue after its end, for instance by a transaction that was being committed.
    late = [mark("too late", world.queue)]
    world.journal.write(Changes(messages=[world.message(world.queue)], duplicates=late), force=True)
    definition = replace(record, number=number)
    new = [mark("new", number), mark("withdrawn", number)]
    world.journal.write(Changes(messages=[world.message(number)], definitions=[definition], duplicates=new), force=True)
    world.journal.note(Changes(duplicates=[mark("new", world.queue, 0), mark("withdrawn", number, 0)]))
    found = {each.duplicate_id: each.until_ms for each in world.reopen().recovery.duplicates if each.until_ms}
    assert found == {"new": 2**62}


@pytest.mark.parametrize("is_there", [True, False])
def test_what_was_noted_as_dropped_is_gone_after_the_close(world: World, is_there: bool) -> None:
    """Changes.dropped: a deferred drop is written at the close, also for a queue that is already dropped."""
    if not is_there:
        world.journal.drop_queue(world.queue)
    world.journal.note(Changes(dropped=[world.queue]))
    assert [record.number for record in world.reopen().recovery.queues] == [world.other]


def test_what_was_noted_of_a_queue_is_kept_whatever_was_written_before(world: World) -> None:
    """Changes.corrected: a deferred record is stored with the next write or the close, also for a queue that is not stored yet."""
    record = queue_record("first", world.queue)
    world.journal.define_queue(replace(record, policy="{}"))
    number = world.journal.number_of(queue_record("new"))
    new = replace(queue_record("new", number), policy="{}")
    world.journal.note(Changes(corrected=[record, new]))
    found = {each.number: each for each in world.reopen().recovery.queues}
    assert (found[world.queue], found[number]) == (record, new)
    assert world.journal.define_queue(queue_record("newer")) not in {world.queue, world.other, number}


def test_a_queue_that_is_not_kept_says_nothing_of_its_messages(world: World) -> None:
    """`holds` returns None for a dropped queue, also after a deferred drop, and for one whose number was only promised."""
    message = world.add(world.message())
    for drop in (world.journal.drop_queue, lambda number: world.journal.note(Changes(dropped=[number]))):
        number = world.journal.define_queue(queue_record("short-lived"))
        sent = world.message(number)
        world.journal.write(Changes(messages=[sent]), force=True)
        assert world.journal.holds(number, sent.reference) is True
        assert world.journal.holds(number, message.reference) is False
        drop(number)
        assert world.journal.holds(number, sent.reference) is None
    promised = world.journal.number_of(queue_record("promised"))
    assert world.journal.holds(promised, message.reference) is None


_AWKWARD = "a\0b \ud800 back\\slash \\u0041 😀"


def _group(world: World, number: int = 1, *, low: int = 0, fence: int = 1, name: str = "group") -> GroupRecord:
    return GroupRecord(
        number=GroupNumber(number),
        name=name,
        queue=world.queue,
        selector_text=_AWKWARD,
        generation=f"generation {number} {_AWKWARD}",
        low=low,
        fence=fence,
        opened_ms=2**41,
    )


def _write(world: World, *, removals: tuple[Removal, ...] = (), **pipelines: object) -> None:
    changes = Changes(removals=list(removals), pipelines=PipelineChanges(**pipelines))  # type: ignore[arg-type]
    world.journal.write(changes, force=True)


def _unit(epoch: int, partition: int = 0, attempt: str = "a") -> StageName:
    return StageName(_AWKWARD, epoch, partition, attempt)


def _stage(world: World, name: StageName, texts: int = 1, *, both: bool = False) -> list[int]:
    queues = (world.queue, world.other) if both else (world.queue,)
    messages: list[NewMessage] = [world.message(*queues) for _ in range(texts)]
    record = StageRecord(name=name, messages=texts, staged_ms=5, discarded_after_ms=2**45)
    world.journal.write(Changes(messages=messages, pipelines=PipelineChanges(staged=record)), force=True)
    return [message.reference.id for message in messages]


def test_a_reader_group_is_found_again_with_what_it_holds(world: World) -> None:
    """Groups are recovered with their reservations, by number; the messages remain entries of their queue."""
    sent = [world.add(world.message()).reference for _ in range(3)]
    _write(world, groups=[_group(world)])
    _write(world, reserved=[Reservation(GroupNumber(1), number, sent[number - 1], number) for number in (1, 2)])
    (found,) = world.reopen().recovery.groups
    assert found.record == _group(world)
    assert list(found.reserved) == [(1, sent[0].id, 1), (2, sent[1].id, 2)]
    assert [message for message, _ in world.found.ids] == [reference.id for reference in sent]


def test_a_reservation_may_be_written_again(world: World) -> None:
    """A reservation whose write had an unknown outcome may be written again."""
    sent = world.add(world.message()).reference
    _write(world, groups=[_group(world)])
    for _ in range(2):
        _write(world, reserved=[Reservation(GroupNumber(1), 1, sent, 1)])
    assert list(world.reopen().recovery.groups[0].reserved) == [(1, sent.id, 1)]


def test_what_a_group_acknowledges_is_gone_and_its_low_mark_rises(world: World) -> None:
    """Removals and the low mark are one write, which may be repeated."""
    sent = [world.add(world.message()).reference for _ in range(3)]
    reserved = [Reservation(GroupNumber(1), number, reference, 1) for number, reference in enumerate(sent, 1)]
    _write(world, groups=[_group(world)], reserved=reserved)
    removals = tuple(Removal(world.queue, reference) for reference in sent[:2])
    # A write whose answer was lost is repeated.
    for _ in range(2):
        _write(world, removals=removals, acknowledged=[(GroupNumber(1), 2)])
    (found,) = world.reopen().recovery.groups
    assert (found.record.low, list(found.reserved)) == (2, [(3, sent[2].id, 1)])
    assert world.found.ids == [(sent[2].id, world.queue)]


def test_a_group_that_is_taken_over_keeps_what_it_holds(world: World) -> None:
    """Writing the record of a group again replaces only the record, not its reservations."""
    sent = world.add(world.message()).reference
    _write(world, groups=[_group(world)], reserved=[Reservation(GroupNumber(1), 1, sent, 1)])
    _write(world, groups=[_group(world, fence=2)])
    (found,) = world.reopen().recovery.groups
    assert (found.record.fence, list(found.reserved)) == (2, [(1, sent.id, 1)])


def test_a_released_group_is_gone_and_its_messages_stay(world: World) -> None:
    """Releasing a group does not change its messages."""
    sent = world.add(world.message()).reference
    other = _group(world, 2, name="other")
    _write(world, groups=[_group(world), other], reserved=[Reservation(GroupNumber(1), 1, sent, 1)])
    _write(world, released=[GroupNumber(1)])
    assert [found.record.name for found in world.reopen().recovery.groups] == ["other"]
    assert world.found.ids == [(sent.id, world.queue)]


def test_groups_go_with_their_queue(world: World) -> None:
    """`drop_queue` deletes the queue's groups with their reservations."""
    sent = world.add(world.message()).reference
    _write(world, groups=[_group(world)], reserved=[Reservation(GroupNumber(1), 1, sent, 1)])
    world.journal.drop_queue(world.queue)
    assert list(world.reopen().recovery.groups) == []


def test_a_staged_unit_is_found_again_and_its_messages_are_no_entries(world: World) -> None:
    """A staged unit is recovered with all fields; the bodies of its messages can be read."""
    first, second = _stage(world, _unit(2**62, -1), 2, both=True)
    recovery = world.reopen().recovery
    (found,) = recovery.stages
    assert found.record == StageRecord(name=_unit(2**62, -1), messages=2, staged_ms=5, discarded_after_ms=2**45)
    assert [(queue, reference.id) for queue, reference in found.messages] == [
        (world.queue, first),
        (world.other, first),
        (world.queue, second),
        (world.other, second),
    ]
    assert world.found.ids == []
    assert set(world.bodies(first, second)) == {first, second}
    assert recovery.last_id >= second
    assert list(recovery.branches) == []


def test_units_are_promoted_and_discarded_together_with_the_marker(world: World) -> None:
    """One write promotes and discards several units; unknown ones are ignored."""
    good, lost, later = _stage(world, _unit(1), 2), _stage(world, _unit(1, 1), both=True), _stage(world, _unit(2))
    # One to promote, one to discard, and one that is unknown, in one write.
    outcomes = [(_unit(1), True), (_unit(1, 1), False), (_unit(9), True)]
    for _ in range(2):
        _write(world, outcomes=outcomes, markers=[(_AWKWARD, 1), ("other", 2**62)])
    recovery = world.reopen().recovery
    assert [message for message, _ in world.found.ids] == good
    assert [found.record.name for found in recovery.stages] == [_unit(2)]
    assert dict(recovery.stage_markers) == {_AWKWARD: 1, "other": 2**62}
    assert set(world.bodies(*good, *lost, *later)) == {*good, *later}


def test_promoted_messages_are_removed_as_all_others_are(world: World) -> None:
    """Promoted messages are removed like all others, and nothing of the unit is left."""
    _stage(world, _unit(1), both=True)
    _write(world, outcomes=[(_unit(1), True)])
    entries = world.reopen().entries
    world.remove(*((entry.queue, entry.reference) for entry in entries))
    assert world.reopen().ids == []


def test_staged_messages_go_with_their_queue(world: World) -> None:
    """Messages of a dropped queue are removed from staged units; the unit stays."""
    _stage(world, _unit(1), both=True)
    world.journal.drop_queue(world.queue)
    (found,) = world.reopen().recovery.stages
    assert [queue for queue, _ in found.messages] == [world.other]


def test_branches_and_staged_units_are_kept_apart(world: World) -> None:
    """The end of a branch does not affect staged units, and vice versa."""
    branch = world.message()
    world.prepare(1, branch)
    (staged,) = _stage(world, _unit(1))
    # The branch and the unit may have the same number in a store, so the end
    # of one must not reach the other's messages.
    world.decide(1, commit=False)
    assert [found.record.name for found in world.reopen().recovery.stages] == [_unit(1)]
    world.prepare(2, world.message())
    _write(world, outcomes=[(_unit(1), True)])
    assert [message for message, _ in world.reopen().ids] == [staged]
    assert len(world.found.recovery.branches) == 1
