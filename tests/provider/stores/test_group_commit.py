"""Group commit: who leads, who waits, who shares, and that an interrupted thread stops nobody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from threading import Event, Thread, current_thread
from threading import enumerate as all_threads

import pytest

from pyjms.spi.clock import Signal
from pyjms.spi.errors import InDoubtError, ResourceError
from pyjms_provider.stores import group_commit
from pyjms_provider.stores.group_commit import FEW, MANY, CommitRequest, GroupCommit
from tests.provider.cost import kept
from tests.pyjms.runtime.helpers import Call

LONG_S = 20
OWN = "the group's own"


class Writer:
    """Commits groups, each of them only when the test lets it; remembers them, and by which thread they came."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.forced: list[bool] = []
        self.threads: list[str] = []
        self.begun = Event()
        self.may_go_on = Event()
        self.bad: dict[str, ResourceError] = {}
        self.before: Callable[[], None] = lambda: None
        """Called first of all for each group."""
        self.group = GroupCommit(self.commit)

    def commit(self, requests: Sequence[CommitRequest[str]]) -> None:
        self.before()
        self.groups.append([request.work for request in requests])
        self.forced.append(any(request.force for request in requests))
        self.threads.append(current_thread().name)
        self.begun.set()
        assert self.may_go_on.wait(LONG_S)
        for request in requests:
            request.error = self.bad.get(request.work)

    def wait_for_waiting(self, number: int) -> None:
        """Return when so many threads wait for the present leader."""
        pause, waiting = Event(), -1
        for _ in range(2000):
            waiting = len(kept(self.group, CommitRequest, without=[self]))
            if waiting == number:
                return
            pause.wait(0.01)
        raise AssertionError(f"{waiting} threads wait, not {number}")


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


# The group's own thread


@pytest.fixture
def writer() -> Iterator[Writer]:
    """Give a writer whose group has a thread of its own."""
    writer = Writer()
    writer.group = GroupCommit(writer.commit, thread_name=OWN)
    yield writer
    writer.may_go_on.set()
    writer.group.close()


def crowd(writer: Writer, number: int = MANY) -> list[Sender]:
    """Have one thread lead, and `number` wait for it, and return them all."""
    with writer.group.writer_lock:  # so that the first one is not alone
        senders = [Sender(writer, "first")]
        writer.wait_for_waiting(1)
    assert writer.begun.wait(LONG_S)
    for index in range(number):
        senders.append(Sender(writer, f"other {index}"))
        writer.wait_for_waiting(index + 1)
    for _ in range(2000):
        if number < MANY or any(thread.name == OWN for thread in kept(writer.group, Thread, without=[writer])):
            return senders
        Event().wait(0.01)
    raise AssertionError("the group has begun no thread")


def join(senders: Sequence[Sender]) -> list[BaseException | None]:
    for sender in senders:
        sender.join(LONG_S)
        assert not sender.is_alive()
    return [sender.error for sender in senders]


def test_where_many_wait_the_groups_own_thread_leads(writer: Writer) -> None:
    senders = crowd(writer)
    writer.may_go_on.set()
    assert join(senders) == [None] * (MANY + 1)
    assert writer.groups == [["first"], [f"other {number}" for number in range(MANY)]]
    assert writer.threads == ["first", OWN]


def test_where_few_wait_one_of_them_leads_and_no_thread_is_begun(writer: Writer) -> None:
    senders = crowd(writer, MANY - 1)
    writer.may_go_on.set()
    join(senders)
    assert writer.threads == ["first", "other 0"]
    assert OWN not in {thread.name for thread in all_threads()}


@pytest.mark.parametrize(("number", "leader"), [(FEW, OWN), (FEW - 1, "late 0")])
def test_the_thread_goes_on_until_few_wait(writer: Writer, number: int, leader: str) -> None:
    senders = crowd(writer)
    meanwhile = Event()
    late: list[Sender] = []

    def before() -> None:
        if current_thread().name == OWN and not meanwhile.is_set():
            for index in range(number):
                late.append(Sender(writer, f"late {index}"))
                writer.wait_for_waiting(index + 1)
            meanwhile.set()

    writer.before = before
    writer.may_go_on.set()
    assert join(senders) == [None] * (MANY + 1)
    assert join(late) == [None] * number
    assert writer.threads == ["first", OWN, leader]


def test_who_is_alone_again_commits_by_itself(writer: Writer) -> None:
    senders = crowd(writer)
    writer.may_go_on.set()
    join(senders)
    for _ in range(2000):
        if writer.group.is_free():
            break
        Event().wait(0.01)
    writer.group.submit("alone", force=False)
    assert writer.threads == ["first", OWN, current_thread().name]


def test_a_commit_that_fails_on_the_thread_leaves_its_group_in_doubt_and_it_goes_on(
    writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    senders = crowd(writer)
    failed = Event()

    def before() -> None:
        if current_thread().name == OWN and not failed.is_set():
            failed.set()
            raise ValueError("a fault")

    writer.before = before
    writer.may_go_on.set()
    errors = join(senders)
    assert errors[0] is None
    assert {type(error) for error in errors[1:]} == {InDoubtError}
    assert "PYJMS-STORE-8" in caplog.text
    writer.group.submit("next", force=False)
    assert writer.groups[-1] == ["next"]


def test_after_the_close_there_is_no_thread_and_members_lead(writer: Writer) -> None:
    senders = crowd(writer)
    closing = Call(writer.group.close)
    closing.is_blocked()  # or has ended: the thread waits for nothing
    writer.may_go_on.set()
    assert join(senders) == [None] * (MANY + 1)
    closing.thread.join(LONG_S)
    assert not closing.thread.is_alive()
    assert OWN not in {thread.name for thread in all_threads()}
    assert writer.threads == ["first", "other 0"]
    writer.group.close()


def test_where_no_thread_can_be_begun_members_lead(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoThread:
        def __init__(self, **_: object) -> None: ...

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(group_commit, "Thread", NoThread)
    senders = [Sender(writer, "first")]
    assert writer.begun.wait(LONG_S)
    for index in range(MANY):
        senders.append(Sender(writer, f"other {index}"))
        writer.wait_for_waiting(index + 1)
    for _ in range(2000):
        if "can't start" in caplog.text:
            break
        Event().wait(0.01)
    writer.may_go_on.set()
    assert join(senders) == [None] * (MANY + 1)
    assert writer.threads == ["first", "other 0"]
    assert OWN in caplog.text


def interrupting(random: Random) -> type[Signal]:
    """Return signals of which some interrupt who waits for them: at once, after a moment, or when they were raised."""

    class Interrupting(Signal):
        __slots__ = ()

        def __init__(self) -> None:
            super().__init__()
            really_wait = self.wait
            chance = random.random()

            def wait(seconds: float) -> bool:
                if current_thread().name == OWN:
                    return really_wait(seconds)
                if chance < 0.05:
                    raise KeyboardInterrupt
                if chance < 0.1:
                    really_wait(random.random() / 1000)
                    raise KeyboardInterrupt
                result = really_wait(seconds)
                if chance < 0.15:
                    raise KeyboardInterrupt
                return result

            self.wait = wait

    return Interrupting


@pytest.mark.parametrize("thread_name", [None, OWN])
@pytest.mark.parametrize("seed", range(5))
def test_threads_that_are_interrupted_at_any_moment_stop_nobody(
    monkeypatch: pytest.MonkeyPatch, thread_name: str | None, seed: int
) -> None:
    """Whether they still wait, are woken, or should lead: the others get their turn, and nothing is written twice."""
    random = Random(seed)
    monkeypatch.setattr(group_commit, "Signal", interrupting(random))
    written: list[str] = []

    def commit(requests: Sequence[CommitRequest[str]]) -> None:
        written.extend(request.work for request in requests)
        Event().wait(random.random() / 2000)  # others come meanwhile
        for request in requests:
            request.error = None

    group: GroupCommit[str] = GroupCommit(commit, thread_name=thread_name)
    sent: list[str] = []
    interrupted: list[str] = []

    def send(name: str) -> None:
        for number in range(60):
            work = f"{name} {number}"
            try:
                group.submit(work, force=True)
                sent.append(work)
            except KeyboardInterrupt:
                interrupted.append(work)

    threads = [Thread(target=send, args=(str(number),), daemon=True) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert not any(thread.is_alive() for thread in threads)
    group.close()
    assert interrupted
    assert len(sent) + len(interrupted) == 12 * 60
    assert set(Counter(written).values()) == {1}
    assert set(sent) <= set(written) <= {*sent, *interrupted}
    assert group.is_free()
