"""Group commit: who leads, who waits, who shares, and that an interrupted thread stops nobody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Thread, current_thread

import pytest

from pyjms.spi.errors import InDoubtError, ResourceError
from pyjms_provider.stores.group_commit import GroupCommit, Member

LONG_S = 20


class Writer:
    """Commits groups, each of them only when the test lets it; remembers them, and by which thread they came."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.forced: list[bool] = []
        self.threads: list[str] = []
        self.begun = Event()
        self.may_go_on = Event()
        self.bad: dict[str, ResourceError] = {}
        self.group = GroupCommit(self.commit)

    def commit(self, members: Sequence[Member[str]]) -> None:
        self.groups.append([member.work for member in members])
        self.forced.append(any(member.force for member in members))
        self.threads.append(current_thread().name)
        self.begun.set()
        assert self.may_go_on.wait(LONG_S)
        for member in members:
            member.error = self.bad.get(member.work)

    def wait_for_waiting(self, number: int) -> None:
        """Return when so many threads wait for the present leader."""
        pause = Event()
        for _ in range(2000):
            if len(self.group._waiting) == number:
                return
            pause.wait(0.01)
        raise AssertionError(f"{len(self.group._waiting)} threads wait, not {number}")


class Sender(Thread):
    def __init__(self, writer: Writer, work: str, *, force: bool = False) -> None:
        super().__init__(name=work)
        self.error: BaseException | None = None
        self._do: Callable[[], None] = lambda: writer.group.submit(work, force=force)
        self.start()

    def run(self) -> None:
        try:
            self._do()
        except BaseException as error:
            self.error = error


def test_a_thread_that_is_alone_commits_by_itself() -> None:
    writer = Writer()
    writer.may_go_on.set()
    for work in ("a", "b"):
        writer.group.submit(work, force=False)
    assert writer.groups == [["a"], ["b"]]
    assert set(writer.threads) == {current_thread().name}


def test_those_who_come_meanwhile_share_the_next_commit_and_one_of_them_leads_it() -> None:
    writer = Writer()
    first = Sender(writer, "first")
    assert writer.begun.wait(LONG_S)
    others: list[Sender] = []
    for number in range(5):
        others.append(Sender(writer, f"other {number}", force=number == 3))
        writer.wait_for_waiting(number + 1)
    writer.may_go_on.set()
    for sender in (first, *others):
        sender.join(LONG_S)
    assert writer.groups == [["first"], [f"other {number}" for number in range(5)]]
    assert writer.threads == ["first", "other 0"]
    assert writer.forced == [False, True]
    assert [sender.error for sender in (first, *others)] == [None] * 6


def test_each_member_gets_its_own_error() -> None:
    writer = Writer()
    writer.bad["bad"] = ResourceError("full")
    first = Sender(writer, "first")
    assert writer.begun.wait(LONG_S)
    senders = []
    for number, work in enumerate(("good", "bad", "also good"), 1):
        senders.append(Sender(writer, work))
        writer.wait_for_waiting(number)
    writer.may_go_on.set()
    for sender in (first, *senders):
        sender.join(LONG_S)
    assert [sender.error for sender in senders] == [None, writer.bad["bad"], None]


def test_a_leader_that_is_interrupted_leaves_its_group_in_doubt_and_the_next_one_goes_on() -> None:
    writer = Writer()
    broken = Event()

    def commit(members: Sequence[Member[str]]) -> None:
        if not broken.is_set():
            broken.set()
            writer.wait_for_waiting(2)
            raise KeyboardInterrupt
        writer.commit(members)

    writer.group = GroupCommit(commit)
    writer.may_go_on.set()
    first = Sender(writer, "first")
    assert broken.wait(LONG_S)
    others = [Sender(writer, "second"), Sender(writer, "third")]
    for sender in (first, *others):
        sender.join(LONG_S)
    assert isinstance(first.error, KeyboardInterrupt)
    assert [sender.error for sender in others] == [None, None]
    assert sorted(writer.groups[0]) == ["second", "third"]


def test_members_of_an_interrupted_group_are_in_doubt() -> None:
    writer = Writer()
    first = Sender(writer, "first")
    assert writer.begun.wait(LONG_S)
    second = Sender(writer, "second")
    writer.wait_for_waiting(1)
    third = Sender(writer, "third")
    writer.wait_for_waiting(2)

    def interrupt(members: Sequence[Member[str]]) -> None:
        raise KeyboardInterrupt

    writer.group._commit = interrupt
    writer.may_go_on.set()
    for sender in (first, second, third):
        sender.join(LONG_S)
    errors = {type(second.error), type(third.error)}
    assert errors == {KeyboardInterrupt, InDoubtError}


@pytest.mark.parametrize("leads", [False, True])
def test_a_waiting_thread_that_is_interrupted_stops_nobody(leads: bool) -> None:
    writer = Writer()
    member: Member[str] = Member("gone", False)

    class Interrupted:
        def wait(self, _seconds: float) -> bool:
            writer.group._waiting.append(member)
            if leads:
                writer.group._waiting.remove(member)
                member.leads = True
            writer.group._is_busy = True
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer.group._wait(member, Interrupted())  # type: ignore[arg-type]  # all that is asked of a signal
    assert writer.group._waiting == []
    if leads:
        writer.may_go_on.set()
        writer.group.submit("next", force=False)
        assert writer.groups == [["next"]]
