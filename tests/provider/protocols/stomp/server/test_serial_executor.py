"""Tasks that wait in an executor are counted, also those that join one that waits; answers to those that are done do not wait for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pyjms.spi.provider import ProviderSession
from pyjms_provider.protocols.engine import DeclinedJobError, RemoteJob, TransportContext
from pyjms_provider.protocols.scheduling import (
    Backlog,
    DeliveryScheduler,
    SerialExecutor,
    SessionScheduler,
)
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.server.contracts import FrameTask
from pyjms_provider.protocols.stomp.server.native_sessions import ServedSession


class Jobs:
    """A transport whose jobs are done when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = []
        self.told: list[tuple[RemoteJob, Callable[[bool], None], BaseException | None]] = []
        """The outcomes of jobs of other processes, which `answer` hands on."""
        self.wakes = 0

    def work(self, job: Callable[[], Any], done: Callable[[Any, Any], None], **_: object) -> None:
        self.jobs.append((job, done))

    def begin(self, job: RemoteJob, done: Callable[[bool], None], **_: object) -> bool:
        return job.start(lambda error: self.told.append((job, done, error)))

    def answer(self) -> None:
        job, done, error = self.told.pop(0)
        is_done = not isinstance(error, DeclinedJobError)
        if is_done:
            job.ended(error)
        done(is_done)

    def wake(self) -> None:
        self.wakes += 1

    def finish(self) -> None:
        job, done = self.jobs.pop(0)
        done(job(), None)


def task(do: Callable[[], None] = lambda: None) -> FrameTask:
    return FrameTask(Frame("ACK", {}), do, may_wait=True)


def test_acknowledgements_that_join_one_that_waits_are_counted_until_it_is_done() -> None:
    jobs, backlog = Jobs(), Backlog()
    executor: SerialExecutor[FrameTask] = SerialExecutor(
        cast("TransportContext", jobs), lambda task: task.do(), lambda error: None, backlog
    )
    consumers = SessionScheduler(DeliveryScheduler(jobs.wake))
    session = ServedSession(
        "a", cast("ProviderSession", None), executor, consumers, transacted=False, persists_all=False, asks_others=False
    )
    executor.add(task())
    executor.run()  # so that the next one waits
    late, numbers = task(), [range(1, 2)]
    session.late = late, numbers
    executor.add(late)
    before = backlog.waiting_bytes
    for first in range(2, 2002, 2):
        assert session.joins((range(first, first + 1),))
    assert len(numbers) == 1001
    assert backlog.waiting_bytes - before >= 1000 * 48, "a range alone has so many"
    jobs.finish()
    executor.run()
    assert not session.joins((range(2003, 2004),)), "it is being done"
    jobs.finish()
    assert backlog.waiting_bytes == 0


def test_answers_are_written_before_a_task_that_may_wait_for_other_clients() -> None:
    jobs, woken = Jobs(), list[int]()
    executor: SerialExecutor[FrameTask] = SerialExecutor(
        cast("TransportContext", jobs), lambda task: task.do(), lambda error: None, Backlog()
    )
    tasks = [task(lambda: woken.append(jobs.wakes)) for _ in range(3)]
    tasks[2].is_patient = True
    for each in tasks:
        executor.add(each)
    executor.run()
    jobs.finish()
    assert woken == [0, 0, 1]


def test_a_task_of_another_process_has_its_turn_like_all_others() -> None:
    jobs, done, asked = Jobs(), list[str](), list[Callable[[BaseException | None], None]]()
    backlog = Backlog()
    executor: SerialExecutor[FrameTask] = SerialExecutor(
        cast("TransportContext", jobs), lambda task: task.do(), lambda error: None, backlog
    )

    def ask(ended: Callable[[BaseException | None], None]) -> bool:
        asked.append(ended)
        return True

    def refuse(ended: Callable[[BaseException | None], None]) -> bool:
        return False

    first, second, third = task(lambda: done.append("here")), task(), task(lambda: done.append("third"))
    second.remote = RemoteJob(ask, lambda error: done.append(f"elsewhere: {error}"))
    third.remote = RemoteJob(refuse, lambda error: done.append("never"))
    for each in (first, second, third):
        executor.add(each)
        executor.run()
    assert not asked, "the first one is not done yet"
    jobs.finish()
    assert (done, len(asked), jobs.jobs) == (["here"], 1, []), "the third one waits for its answer"
    asked[0](ValueError("no"))
    assert not executor.is_idle, "the outcome is handed on to the connection's thread"
    jobs.answer()
    assert done == ["here", "elsewhere: no"]
    jobs.finish()
    assert done == ["here", "elsewhere: no", "third"], "what cannot be begun elsewhere is done here"
    assert (executor.is_idle, backlog.waiting_bytes) == (True, 0)


def test_a_task_that_another_process_declines_is_done_here_before_all_others() -> None:
    jobs, done, asked = Jobs(), list[str](), list[Callable[[BaseException | None], None]]()
    backlog = Backlog()
    executor: SerialExecutor[FrameTask] = SerialExecutor(
        cast("TransportContext", jobs), lambda task: task.do(), lambda error: None, backlog
    )

    def ask(ended: Callable[[BaseException | None], None]) -> bool:
        asked.append(ended)
        return True

    first, second = task(lambda: done.append("first")), task(lambda: done.append("second"))
    first.remote = RemoteJob(ask, lambda error: done.append("never"))
    for each in (first, second):
        executor.add(each)
        executor.run()
    asked[0](DeclinedJobError())
    jobs.answer()
    jobs.finish()
    assert (done, len(asked)) == (["first", "second"], 1)
    assert (executor.is_idle, backlog.waiting_bytes) == (True, 0)
