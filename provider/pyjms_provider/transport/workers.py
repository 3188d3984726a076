"""The pool of worker threads for jobs that may block: writes to the disk, senders that wait for room.

A few threads are best for short jobs, as more only contend for the interpreter; but a job may block for as long as a queue
is full. So the pool grows quickly to a few threads, and beyond that only while there is no progress: each time a check
finds the same job first in line, it adds threads, up to a limit. At the limit, a job that has waited too long is refused,
so that its client gets an error instead of no answer.

Jobs that may wait for other clients, for instance for room in a full queue, get at most half of the threads: otherwise the jobs that
make room (an acknowledgement, the login of a consumer) would have to wait behind them.

A job that waits at most for a fast disk runs on the loop if it is the only one (decision 0600). As long as a single connection has such
jobs, they run where their frames are read. Two at the same time go to threads, and after a slow write all of them do for a while.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Event, TimerHandle, wait_for
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Final, cast

from pyjms.spi.errors import ResourceError
from pyjms_provider.protocols.engine import BatchJob
from pyjms_provider.transport.reports import RareReports, Report
from pyjms_provider.transport.scheduler import Scheduler

# Decision 0600 gives the reasons for most of these times.
# How often the pool checks for progress while jobs wait.
_LOOK_S: Final = 0.02
# How long threads beyond the quick ones stay without jobs.
_PRUNE_S: Final = 5.0
_JOIN_S: Final = 2.0
# After a write that takes longer, the next ones go to threads, as it has delayed all other connections.
_BRIEF_S: Final = 0.02
# Jobs of several connections within this time may share a write.
_TOGETHER_S: Final = 0.01
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 4.0
"""How long no brief job runs on the loop after a slow one: the first pause, doubled each time up to the longest."""

Finished = Callable[[object, BaseException | None], None]


class WorkersBusyError(ResourceError):
    """A job has waited for a worker thread until its time limit, as all threads available to it were blocked."""

    code = "PYJMS-NET-BUSY"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The limits of the pool of worker threads."""

    quick: int = 8
    """The number of threads that are started as soon as there are jobs for them."""
    most: int = 256
    """The maximal number of threads, which is reached only while all of them are blocked."""
    patience_s: float = 30.0
    """The longest wait of a job for a thread; then it is refused."""

    @property
    def patient(self) -> int:
        """The maximal number of threads for jobs that may wait for other clients."""
        # The other half is for the jobs that end such waits: an acknowledgement, or the login of a consumer of the queue.
        return max(1, self.most // 2)


class Job:
    """A job with its callback. `finished` is called once, on the loop."""

    __slots__ = ("_call", "_error", "_finished", "_result", "batch", "is_patient", "since_s")

    def __init__(
        self,
        call: Callable[[], object],
        finished: Finished,
        since_s: float,
        batch: BatchJob | None = None,
        *,
        is_patient: bool = False,
    ) -> None:
        self._call = call
        self._finished = finished
        self._result: object = None
        self._error: BaseException | None = None
        self.since_s = since_s
        self.batch = batch
        self.is_patient = is_patient

    def run(self) -> None:
        """Run the job. On a worker's thread, or on the loop."""
        try:
            self._result = self._call()
        except (
            Exception,
            SystemExit,
        ) as error:  # an authenticator may raise anything, and the client waits for an answer
            self._error = error

    def set_batch_outcome(self, batch: BatchJob, error: BaseException | None) -> None:
        """Take the result of a batch that contained this job."""
        # Through `run`, so that an error of `ended` reaches `finished` like that of a job.
        self._call = partial(batch.ended, error)
        self.run()

    @property
    def outcome(self) -> tuple[object, BaseException | None]:
        """The result of the job, or its error."""
        return self._result, self._error

    def refuse(self, error: BaseException) -> None:
        """Set the error of a job that will not run."""
        self._error = error

    def tell(self) -> None:
        """Call `finished` with the outcome. On the loop."""
        self._finished(self._result, self._error)


class WorkerPool:
    """A pool of threads that grows on demand. All methods are called on the loop, except `join`."""

    def __init__(
        self, name: str, settings: WorkerSettings, loop: AbstractEventLoop, scheduler: Scheduler, reports: RareReports
    ) -> None:
        self._name = name
        self._reports = reports
        self._settings = settings
        self._loop = loop
        self._scheduler = scheduler
        self._assigned: SimpleQueue[Job | None] = SimpleQueue()
        """The jobs for free threads; None ends one of them."""
        self._waiting: deque[Job] = deque()
        self._patient: deque[Job] = deque()
        """The waiting jobs that may wait for other clients."""
        self._running = 0
        self._patient_running = 0
        self._alive = 0
        self._started = 0
        self._threads: list[Thread] = []
        self._watch: TimerHandle | None = None
        self._was_first: Job | None = None
        """The first job in line at the last check."""
        self._brief: list[Job] = []
        """The jobs to run on the loop, once all received bytes are read."""
        self._slow_s = -_LONGEST_PAUSE_S
        self._pause_s = _FIRST_PAUSE_S
        """The end of the last slow job on the loop, and the pause after it during which none runs there."""
        self._brief_of: object = None
        self._brief_s = 0.0
        """The owner and the time of the last brief job."""
        self._idle = Event()
        self._idle.set()

    @property
    def thread_count(self) -> int:
        """The number of threads."""
        return self._alive

    @property
    def job_count(self) -> int:
        """The number of running and waiting jobs."""
        return self._running + len(self._waiting) + len(self._patient) + len(self._brief)

    def submit(
        self,
        call: Callable[[], object],
        finished: Finished,
        *,
        brief: bool = False,
        batch: BatchJob | None = None,
        patient: bool = False,
    ) -> None:
        """Run `call`, and call `finished` on the loop with its result or its error.

        `brief`: it waits at most for a local disk, and may run on the loop; with a `batch` also together with others. `patient`: it
        may wait for other clients.
        """
        self._idle.clear()
        job = Job(call, finished, self._loop.time(), batch, is_patient=patient)
        # While others run or wait, a brief job shares their group commit; after a slow write the loop must not block.
        if not brief or patient or self._running or self._waiting or perf_counter() < self._slow_s + self._pause_s:
            self._add(job)
            return
        self._brief.append(job)
        if len(self._brief) == 1:
            self._loop.call_soon(self._do_brief)  # after all pending reads

    def do_alone(self, owner: object, call: Callable[[], None]) -> bool:
        """Run a brief job immediately, unless another owner than `owner` had one a moment ago; return whether it was run."""
        now_s = perf_counter()
        # Two connections with jobs within 10 ms are not alone: their writes are to be combined (decision 0600).
        is_alone = owner is self._brief_of or now_s > self._brief_s + _TOGETHER_S
        # Set also if the job is not run here, as the other connection must see it.
        self._brief_of, self._brief_s = owner, now_s
        if not is_alone or self._running or self._waiting or self._brief or now_s < self._slow_s + self._pause_s:
            return False
        call()
        self._measure(now_s)
        return True

    def _do_brief(self) -> None:
        jobs, self._brief = self._brief, []
        together = [] if len(jobs) < 2 or self._running else _batchable(jobs)
        if together:
            self._do_timed(together)
            jobs = [job for job in jobs if job not in together]
        # On threads they share a group commit, which is impossible one after the other on the loop.
        if len(jobs) > 1 or self._running:
            for job in jobs:
                self._add(job)
        elif jobs:
            self._do_timed(jobs)

    def _do_timed(self, jobs: Sequence[Job]) -> None:
        """Run one job, or several together, immediately, and measure the time."""
        begin_s = perf_counter()
        if len(jobs) == 1:
            jobs[0].run()
        else:
            _do_together(jobs)
        self._measure(begin_s)
        for job in jobs:
            self._tell(job)

    def _measure(self, begin_s: float) -> None:
        """After a slow brief job, begin a pause in which none runs on the loop."""
        end_s = perf_counter()
        if end_s - begin_s > _BRIEF_S:
            # If the disk was fast for a while, the first pause is used again;
            # if it is slow again, the last pause is doubled.
            was_quick_long = end_s - self._slow_s > 2 * _LONGEST_PAUSE_S
            self._pause_s = _FIRST_PAUSE_S if was_quick_long else min(2 * self._pause_s, _LONGEST_PAUSE_S)
            self._slow_s = end_s

    def _add(self, job: Job) -> None:
        (self._patient if job.is_patient else self._waiting).append(job)
        # Running jobs that wait for other clients do not count: they may wait for this very job.
        quick = self._settings.quick + (0 if job.is_patient else self._patient_running)
        if self._running == self._alive < min(quick, self._settings.most):
            self._grow(1)
        self._hand_out()

    async def stop(self, graceful_s: float) -> None:
        """Wait for the jobs, at most `graceful_s` seconds, and end the threads."""
        try:
            await wait_for(self._idle.wait(), graceful_s)
        except TimeoutError:
            Report.WORKERS_LEFT.log("%s: %d jobs still wait", self._name, self.job_count)
        if self._watch is not None:
            self._watch.cancel()
        self._end_threads(self._alive)

    def join(self) -> None:
        """Wait a moment for the ending threads. Not on the loop."""
        for thread in self._threads:
            if self._idle.is_set():  # a thread whose job never ends is a daemon, and ends with the process
                thread.join(_JOIN_S)
        self._threads.clear()

    def _next_line(self) -> deque[Job] | None:
        """Return the line with the next job to run; None: no job may run now."""
        may_take_patient = self._patient and self._patient_running < self._settings.patient
        # The older job first, so that neither line starves the other.
        if self._waiting and not (may_take_patient and self._patient[0].since_s < self._waiting[0].since_s):
            return self._waiting
        return self._patient if may_take_patient else None

    def _hand_out(self) -> None:
        while self._running < self._alive and (line := self._next_line()) is not None:
            job = line.popleft()
            self._running += 1
            self._patient_running += job.is_patient
            self._assigned.put(job)
        if self._watch is None:
            if self._waiting or self._patient:
                self._watch = self._loop.call_later(_LOOK_S, self._look)
            elif self._alive > self._settings.quick:
                self._watch = self._loop.call_later(_PRUNE_S, self._look)

    def _look(self) -> None:
        self._watch = None
        line = self._next_line()
        # Patient jobs use all threads available to them: those that have waited too long are refused.
        if self._patient_running >= self._settings.patient:
            self._refuse(self._patient, "wait for room in full queues, or for messages: receive those in the queues")
        if line is not None and line[0] is self._was_first:  # no progress since the last check
            room, waiting = self._settings.most - self._alive, len(self._waiting) + len(self._patient)
            # At most doubled each time; at the limit, or if the system has no thread, the oldest jobs are refused.
            if not self._grow(min(room, waiting, max(self._alive, self._settings.quick))):
                self._refuse(self._waiting, "wait, for the disk or for other clients: try again later")
        elif not (self._waiting or self._patient):
            # Idle threads are ended, except for the quick ones.
            self._end_threads(min(self._alive - self._running, self._alive - self._settings.quick))
        self._hand_out()
        line = self._next_line()
        self._was_first = None if line is None else line[0]

    def _refuse(self, line: deque[Job], what: str) -> None:
        """Refuse the jobs that have waited too long."""
        limit_s = self._loop.time() - self._settings.patience_s
        while line and line[0].since_s <= limit_s:
            job = line.popleft()
            count = self._settings.patient if job.is_patient else self._alive
            Report.WORKERS_BUSY.log("%s: all %d threads wait; a request is refused", self._name, count)
            reason = f"the broker has {count} requests that {what}; it serves no more of them at a time"
            job.refuse(WorkersBusyError(reason if count else "the system gives the broker no thread: try again later"))
            self._tell(job)

    def _grow(self, by: int) -> bool:
        """Start up to `by` threads, as many as the system allows; return whether any was started."""
        for started in range(by):
            thread = Thread(target=self._work, name=f"pyjms worker {self._name} {self._started + 1}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # jobs wait for the existing threads, and `_look` tries again
                self._reports.log(Report.NO_THREAD, "%s: %s", self._name, error)
                return started > 0
            self._alive += 1
            self._started += 1
            self._threads.append(thread)
        return by > 0

    def _end_threads(self, count: int) -> None:
        for _ in range(count):
            self._alive -= 1
            # One None for each, taken by any free thread; `_alive` is
            # decremented now, as no jobs are assigned to these any more.
            self._assigned.put(None)
        # The list is only for `join`: ended threads are removed here.
        if count > 0:
            self._threads = [thread for thread in self._threads if thread.is_alive()]

    def _work(self) -> None:
        while (job := self._assigned.get()) is not None:
            job.run()
            # The loop does the rest: no field of the pool is accessed on a worker's thread, so none needs a lock.
            self._scheduler.add(partial(self._ended, job))

    def _ended(self, job: Job) -> None:
        self._running -= 1
        self._patient_running -= job.is_patient
        # The thread gets its next job first, so that it does not wait while the loop calls `finished`.
        self._hand_out()
        self._tell(job)

    def _tell(self, job: Job) -> None:
        job.tell()
        if not self.job_count:
            self._idle.set()


def _batchable(jobs: Sequence[Job]) -> list[Job]:
    """Return two or more jobs that can run together, or none."""
    first = next((job.batch for job in jobs if job.batch is not None), None)
    if first is None:
        return []
    found = [job for job in jobs if job.batch is not None and job.batch.together == first.together]
    return found if len(found) > 1 else []


def _do_together(jobs: Sequence[Job]) -> None:
    batches = [job.batch for job in jobs if job.batch is not None]
    whole = Job(lambda: batches[0].together([batch.part for batch in batches]), lambda *_: None, 0.0)
    whole.run()
    found, error = whole.outcome
    # If the whole batch fails, each part has failed; otherwise each has its own outcome.
    errors: Sequence[BaseException | None] = [error] * len(batches)
    if error is None:
        errors = cast("Sequence[BaseException | None]", found)
    for job, batch, why in zip(jobs, batches, errors, strict=True):
        job.set_batch_outcome(batch, why)
