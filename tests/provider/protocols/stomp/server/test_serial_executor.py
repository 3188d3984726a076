"""Tasks that wait in an executor are counted, also those that join one that waits; answers to those that are done do not wait for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pyjms.spi.provider import ProviderSession
from pyjms_provider.protocols.engine import TransportContext
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
        self.wakes = 0

    def work(self, job: Callable[[], Any], done: Callable[[Any, Any], None], **_: object) -> None:
        self.jobs.append((job, done))

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
        "a", cast("ProviderSession", None), executor, consumers, transacted=False, persists_all=False
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
