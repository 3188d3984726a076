"""Any sequence of changes leaves in SQLite what it leaves in the journal in memory, which is the model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyjms.spi.clock import SystemClock
from pyjms_provider.core.journal.journal import (
    BranchOutcome,
    Changes,
    DuplicateMark,
    Journal,
    NewMessage,
    PreparedBranch,
    QueueNumber,
    Recovery,
    Removal,
)
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.testing.world import envelope_of, queue_record, xid
from pyjms_provider.stores.volatile import Medium, VolatileJournal

QUEUES = ("a", "b", "c")
some = st.integers(0, 1000)


def picture(recovery: Recovery) -> dict[str, Any]:
    """Return all that was found, so that it can be compared."""
    return {
        "entries": [
            (e.reference.id, e.queue, e.delivery_count, e.reference.shared)
            for e in sorted(recovery.entries, key=lambda each: each.queue)  # of queues there is no order
        ],
        "queues": sorted((record.number, str(record.address)) for record in recovery.queues),
        "branches": {
            branch.xid: (
                sorted((queue, reference.id) for queue, reference in branch.messages),
                sorted(branch.removals),
            )
            for branch in recovery.branches
        },
        "heuristics": {(each.xid, each.commit) for each in recovery.heuristics},
        "duplicates": {
            (str(each.address), each.duplicate_id, each.until_ms, each.serial) for each in recovery.duplicates
        },
        "marks": set(recovery.marks),
        "was_closed": recovery.was_closed,
    }


class Journals(RuleBasedStateMachine):
    """Two journals that are told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        settings = StoreSettings(url=f"sqlite:///{Path(self.directory.name) / 'store.db'}")
        self.model = Medium()
        self.openers: list[Callable[[], Journal]] = [
            lambda: open_journal(settings, "model", SystemClock()),
            lambda: VolatileJournal(self.model),
        ]
        self.journals = [opener() for opener in self.openers]
        for journal in self.journals:
            picture(journal.recover(lambda _: None))
        self.messages: list[MessageReference] = []
        self.homes: dict[int, list[QueueNumber]] = {}
        self.queues: list[QueueNumber] = []
        self.forgotten: dict[str, int] = {}
        self.next_id = 1

    @initialize()
    def define(self) -> None:
        for name in QUEUES:
            numbers = {journal.define_queue(queue_record(name)) for journal in self.journals}
            assert len(numbers) == 1
            self.queues.append(numbers.pop())

    def write(self, changes: Changes, *, noted: bool = False) -> None:
        for journal in self.journals:
            if noted:
                journal.note(changes)
            else:
                journal.write(changes, force=False)

    def new(self, where: set[int]) -> NewMessage:
        reference = MessageReference(ReferenceId(self.next_id), None, 0, self.next_id % 3, reliable=True)
        queues = sorted(self.queues[each] for each in where)
        reference.shared = len(queues) > 1
        self.next_id += 1
        self.messages.append(reference)
        self.homes[reference.id] = queues
        return NewMessage(reference, envelope_of(f"message {reference.id}"), tuple(queues))

    def pick(self, number: int) -> Removal | None:
        """Return an entry that was added, or was once: nobody removes what is in a branch that is in doubt."""
        in_doubt = {each.reference.id for branch in self.model.branches.values() for each in branch.changes.messages}
        candidates = [each for each in self.messages if each.id not in in_doubt]
        if not candidates:
            return None
        reference = candidates[number % len(candidates)]
        queues = self.homes[reference.id]
        return Removal(queues[number % len(queues)], reference)

    def picks(self, numbers: list[int]) -> list[Removal]:
        return [found for number in numbers if (found := self.pick(number)) is not None]

    places = st.sets(st.integers(0, len(QUEUES) - 1), min_size=1)

    @rule(places=st.lists(places, max_size=3), removed=st.lists(some, max_size=3))
    def send_and_settle(self, places: list[set[int]], removed: list[int]) -> None:
        removals = self.picks(removed)
        self.write(Changes(messages=[self.new(each) for each in places], removals=removals))

    @rule(removed=st.lists(some, max_size=2), number=some, count=st.integers(0, 5), noted=st.booleans())
    def count_and_mark(self, removed: list[int], number: int, count: int, noted: bool) -> None:
        address = queue_record(QUEUES[count % len(QUEUES)]).address
        # No later mark has a serial of those that may go: they were given in order, and nobody remembers those.
        self.forgotten[str(address)] = lowest = max(count, self.forgotten.get(str(address), 0))
        serial = max(number + 1, lowest)
        mark = DuplicateMark(address, f"id {number % 3}", 2**61 + number, serial, forgets_below=count)
        changes = Changes(removals=self.picks(removed), duplicates=[mark])
        if (picked := self.pick(number)) is not None:
            changes.counts = [(picked.queue, picked.reference, count)]
            changes.marks = [(picked.queue, count, picked.reference.id)]
        self.write(changes, noted=noted)

    @rule(
        branch=st.integers(0, 3), places=st.lists(places, max_size=2), removed=st.lists(some, max_size=2, unique=True)
    )
    def prepare(self, branch: int, places: list[set[int]], removed: list[int]) -> None:
        if xid(branch) in self.model.branches:
            return
        removals = list(dict.fromkeys((each.queue, each.reference) for each in self.picks(removed)))
        self.write(
            Changes(
                prepared=PreparedBranch(xid(branch), 1),
                messages=[self.new(each) for each in places],
                removals=[Removal(*each) for each in removals],
            )
        )

    @rule(branch=st.integers(0, 3), commit=st.booleans(), heuristic=st.booleans())
    def decide(self, branch: int, commit: bool, heuristic: bool) -> None:
        self.write(Changes(outcomes=[BranchOutcome(xid(branch), commit, heuristic)]))

    @rule(number=st.integers(0, len(QUEUES) - 1))
    def drop_and_define_again(self, number: int) -> None:
        for journal in self.journals:
            journal.drop_queue(self.queues[number])
        numbers = {journal.define_queue(queue_record(QUEUES[number])) for journal in self.journals}
        assert len(numbers) == 1
        self.queues[number] = numbers.pop()

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        for journal in self.journals:
            journal.close(clean=clean)
        self.journals = [opener() for opener in self.openers]
        pictures = [picture(journal.recover(lambda _: None)) for journal in self.journals]
        assert pictures[0] == pictures[1]

    @invariant()
    def the_same_messages_can_be_read(self) -> None:
        ids = [reference.id for reference in self.messages]
        assert self.journals[0].read(ids) == self.journals[1].read(ids)

    def teardown(self) -> None:
        with self.directory:
            try:
                self.reopen(clean=False)
            finally:
                for journal in self.journals:
                    journal.close(clean=False)


Journals.TestCase.settings = settings(max_examples=10, stateful_step_count=30, deadline=None, phases=[Phase.generate])
TestJournals = Journals.TestCase
