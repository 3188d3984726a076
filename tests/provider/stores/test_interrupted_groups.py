"""The main thread is interrupted at each place of a group commit at which Python can do so: nobody else waits for ever, and nothing is written late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Event, Thread, current_thread, main_thread

import pytest

from pyjms_provider.stores.group_commit import GroupCommit, Member
from tests.provider.interruptions import Interruption, each_interruption

LONG_S = 20
FILE = "stores/group_commit.py"


class Writer:
    """Writes at once, unless a thread is to be waited for."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.threads: list[Thread] = []
        self.is_over = Event()
        self.before: dict[str, Callable[[], None]] = {}
        """What is done before a work is committed."""
        self.group = GroupCommit(self.commit)

    def commit(self, members: Sequence[Member[str]]) -> None:
        for member in members:
            self.before.pop(member.work, lambda: None)()
        for member in members:
            self.written.append(member.work)
            member.error = None

    def begin(self, work: str) -> None:
        """Have another thread submit something."""
        thread = Thread(target=self.group.submit, args=(work,), kwargs={"force": True}, name=work, daemon=True)
        self.threads.append(thread)
        thread.start()

    def until_waiting(self, number: int) -> None:
        """Return when so many threads wait, or when what was tried is over."""
        pause = Event()
        while len(self.group._waiting) < number and not self.is_over.is_set():
            pause.wait(0.001)

    def submit(self, interruption: Interruption) -> None:
        """Submit "main", which may be interrupted."""
        assert current_thread() is main_thread()
        try:
            with interruption():
                self.group.submit("main", force=True)
            assert interruption.where is not None or "main" in self.written
        except KeyboardInterrupt:
            assert interruption.where is not None
        self.is_over.set()

    def end(self, interruption: Interruption) -> None:
        """Look that all others get on, and that what was interrupted is not written any more."""
        self.join(interruption)
        before = list(self.written)
        self.begin("last")
        self.join(interruption)
        assert self.written == [*before, "last"], interruption.where
        assert set(Counter(self.written).values()) == {1}, interruption.where
        assert self.group.is_free()

    def join(self, interruption: Interruption) -> None:
        for thread in self.threads:
            thread.join(LONG_S)
            assert not thread.is_alive(), f"{thread.name} waits for ever: {interruption.where}"
            assert thread.name in self.written, interruption.where


def alone(writer: Writer) -> None:
    """Nobody else is there."""


def leads(writer: Writer) -> None:
    """Another thread comes while the main one writes."""

    def come() -> None:
        writer.begin("other")
        writer.until_waiting(1)

    writer.before["main"] = come


def two_come(writer: Writer) -> None:
    """Two others come: one that leads, and one that waits for it."""

    def come() -> None:
        writer.begin("second")
        writer.until_waiting(1)
        writer.begin("third")
        writer.until_waiting(2)

    writer.before["main"] = come


def let_lead(writer: Writer, meanwhile: Callable[[], None]) -> None:
    """Have another thread lead, and do something while it does."""
    begun = Event()

    def commit() -> None:
        begun.set()
        meanwhile()

    writer.before["other"] = commit
    with writer.group.right:  # so that it is not alone
        writer.begin("other")
        writer.until_waiting(1)
    assert begun.wait(LONG_S)


def helps_itself(writer: Writer) -> None:
    """The main thread waits for another one, and nobody else does."""
    let_lead(writer, lambda: writer.until_waiting(1))


def is_helped(writer: Writer) -> None:
    """The main thread waits first, then another one, which writes for both."""

    def third() -> None:
        writer.until_waiting(1)
        writer.begin("third")
        writer.until_waiting(2)

    let_lead(writer, third)


def write_alone(writer: Writer, meanwhile: Callable[[], None]) -> None:
    """Have another thread write alone, and do something while it does."""
    begun = Event()

    def commit() -> None:
        begun.set()
        meanwhile()

    writer.before["other"] = commit
    writer.begin("other")
    assert begun.wait(LONG_S)


def is_told(writer: Writer) -> None:
    """The main thread waits for one that writes alone, and is told by it to write for itself."""
    write_alone(writer, lambda: writer.until_waiting(1))


def is_taken_along(writer: Writer) -> None:
    """The main thread waits for one that writes alone, and the next one writes for both."""

    def third() -> None:
        writer.until_waiting(1)
        writer.begin("third")
        writer.until_waiting(2)

    write_alone(writer, third)


@pytest.mark.parametrize("world", [alone, leads, two_come, helps_itself, is_helped, is_told, is_taken_along])
def test_nobody_waits_for_ever(world: Callable[[Writer], None]) -> None:
    def attempt(interruption: Interruption) -> None:
        writer = Writer()
        world(writer)
        writer.submit(interruption)
        writer.end(interruption)

    assert each_interruption(attempt, FILE) > 3


def test_who_comes_while_the_main_thread_is_next_leads_a_group_behind_it() -> None:
    writer = Writer()
    with writer.group.right:
        writer.group._main_is_next = True
        assert not writer.group.is_free()
    assert not writer.group.is_free()
    writer.begin("other")
    writer.threads[0].join(LONG_S)
    assert writer.written == ["other"]
    assert writer.group.is_free()


def test_the_main_thread_is_taken_along_by_a_group_that_comes_while_it_waits_for_one_that_writes_alone() -> None:
    groups: list[list[str]] = []

    class Grouping(Writer):
        def commit(self, members: Sequence[Member[str]]) -> None:
            super().commit(members)
            groups.append(sorted(member.work for member in members))

    writer = Grouping()
    is_taken_along(writer)
    writer.group.submit("main", force=True)
    for thread in writer.threads:
        thread.join(LONG_S)
    assert groups == [["other"], ["main", "third"]]
