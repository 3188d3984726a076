"""The threads for what may wait: writes to the disk, senders that wait for room.

A few threads serve short jobs well, and many at once only quarrel about the interpreter; yet a job may wait for as long
as a queue is full. So the pool grows quickly to a few threads, and beyond that only while nothing moves: every time it
looks and finds the same job first in line, it adds threads, up to a limit. At the limit, a job that has waited too long
is refused, which its client hears as an error instead of as silence.

What may wait for other clients, as for room in a full queue, has half of the threads at most: what makes room (an acknowledgement, the
login of who reads the queue) would else stand behind those who wait for it.

A job that waits for a quick disk at most is done on the loop, if it is the only one (decision 0602). While one connection alone has such jobs, they
are done where they are read. Two at the same time go to threads, and all of them do for a while after the disk was slow.
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

# Decisions 0600 and 0602 give the reasons for most of these times.
# How often the pool looks whether anything moves while jobs wait.
_LOOK_S: Final = 0.02
# Threads beyond the quick ones stay so long after there is no job for them.
_PRUNE_S: Final = 5.0
_JOIN_S: Final = 2.0
# A write that takes longer sends the next ones to threads: it has held up all other connections.
_BRIEF_S: Final = 0.02
# Jobs of several connections that come within this time may share a write.
_TOGETHER_S: Final = 0.01
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 4.0
"""So long no brief job is done on the loop after one that was slow: twice as long each time, up to the latter."""

Finished = Callable[[object, BaseException | None], None]


class WorkersBusyError(ResourceError):
    """All worker threads that a job may have were waiting, for as long as it may wait for one."""

    code = "PYJMS-NET-BUSY"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How many threads there are for work that may wait."""

    quick: int = 8
    """So many threads come as soon as there is a job for them."""
    most: int = 256
    """So many come when all others are stuck."""
    patience_s: float = 30.0
    """How long a job waits when all of them are; then it is refused."""

    @property
    def patient(self) -> int:
        """So many of them wait for other clients."""
        # The other half is for the jobs that end such waits: an acknowledgement, or a login of the reader of the queue.
        return max(1, self.most // 2)


class Job:
    """A piece of work, and whom to tell. `finished` is called once, on the loop."""

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
        """Do it. On a worker's thread."""
        try:
            self._result = self._call()
        except (Exception, SystemExit) as error:  # the client waits for an answer, whatever an authenticator raises
            self._error = error

    def ended_together(self, batch: BatchJob, error: BaseException | None) -> None:
        """It was done with others."""
        # By `run`, so that an error of `ended` reaches `finished` as that of a job does.
        self._call = partial(batch.ended, error)
        self.run()

    @property
    def outcome(self) -> tuple[object, BaseException | None]:
        """What it returned, or raised."""
        return self._result, self._error

    def refuse(self, error: BaseException) -> None:
        """It will not be done."""
        self._error = error

    def tell(self) -> None:
        """Say how it went. On the loop."""
        self._finished(self._result, self._error)


class WorkerPool:
    """Threads, as many as are needed. All calls on the loop, save `join`."""

    def __init__(
        self, name: str, settings: WorkerSettings, loop: AbstractEventLoop, scheduler: Scheduler, reports: RareReports
    ) -> None:
        self._name = name
        self._reports = reports
        self._settings = settings
        self._loop = loop
        self._scheduler = scheduler
        self._given: SimpleQueue[Job | None] = SimpleQueue()
        """What threads that are free do next; None: one of them ends."""
        self._waiting: deque[Job] = deque()
        self._patient: deque[Job] = deque()
        """Those of what waits that may wait for other clients, too."""
        self._running = 0
        self._patient_running = 0
        self._alive = 0
        self._started = 0
        self._threads: list[Thread] = []
        self._watch: TimerHandle | None = None
        self._was_first: Job | None = None
        """Which job was the first in line at the last look."""
        self._brief: list[Job] = []
        """Those that may be done on the loop, as soon as all is read that has come."""
        self._slow_s = -_LONGEST_PAUSE_S
        self._pause_s = _FIRST_PAUSE_S
        """When one was slow there, and for how long after that none is done there."""
        self._brief_of: object = None
        self._brief_s = 0.0
        """Who had one last, and when."""
        self._idle = Event()
        self._idle.set()

    @property
    def thread_count(self) -> int:
        """How many threads there are."""
        return self._alive

    @property
    def job_count(self) -> int:
        """How many jobs run or wait."""
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
        """Have `call` run, and `finished` called on the loop with its result or its error.

        `brief`: it waits for a local disk at most, and may run on the loop; with others if it is `batch`. `patient`: it may wait for
        what other clients do.
        """
        self._idle.clear()
        job = Job(call, finished, self._loop.time(), batch, is_patient=patient)
        # While others run or wait, a brief job shares their group commit; after a slow write the loop must not wait.
        if not brief or patient or self._running or self._waiting or perf_counter() < self._slow_s + self._pause_s:
            self._add(job)
            return
        self._brief.append(job)
        if len(self._brief) == 1:
            self._loop.call_soon(self._do_brief)  # after all that has been read by now

    def do_alone(self, owner: object, call: Callable[[], None]) -> bool:
        """Do a brief job here and now, unless others than `owner` had any a moment ago; return whether it was done."""
        now_s = perf_counter()
        # Two connections that take turns within 10 ms are not alone: their writes are to be one (decision 0602).
        is_alone = owner is self._brief_of or now_s > self._brief_s + _TOGETHER_S
        # Noted also for a job that is not done here, as it is what the other connection has to see.
        self._brief_of, self._brief_s = owner, now_s
        if not is_alone or self._running or self._waiting or self._brief or now_s < self._slow_s + self._pause_s:
            return False
        call()
        self._note_time(now_s)
        return True

    def _do_brief(self) -> None:
        jobs, self._brief = self._brief, []
        together = [] if len(jobs) < 2 or self._running else _of_one_kind(jobs)
        if together:
            self._do_timed(together)
            jobs = [job for job in jobs if job not in together]
        # On threads they share a group commit, which one after the other on the loop would not.
        if len(jobs) > 1 or self._running:
            for job in jobs:
                self._add(job)
        elif jobs:
            self._do_timed(jobs)

    def _do_timed(self, jobs: Sequence[Job]) -> None:
        """Do one job, or several together, here and now, and see how long that takes."""
        begin_s = perf_counter()
        if len(jobs) == 1:
            jobs[0].run()
        else:
            _do_together(jobs)
        self._note_time(begin_s)
        for job in jobs:
            self._tell(job)

    def _note_time(self, begin_s: float) -> None:
        """See how long a brief job took."""
        end_s = perf_counter()
        if end_s - begin_s > _BRIEF_S:
            # A disk that was quick for a while begins with the short
            # pause again; one that is slow again gets twice the last.
            was_quick_long = end_s - self._slow_s > 2 * _LONGEST_PAUSE_S
            self._pause_s = _FIRST_PAUSE_S if was_quick_long else min(2 * self._pause_s, _LONGEST_PAUSE_S)
            self._slow_s = end_s

    def _add(self, job: Job) -> None:
        (self._patient if job.is_patient else self._waiting).append(job)
        # Those that wait for others do not count: they may be waiting for just this job.
        quick = self._settings.quick + (0 if job.is_patient else self._patient_running)
        if self._running == self._alive < min(quick, self._settings.most):
            self._grow(1)
        self._hand_out()

    async def stop(self, graceful_s: float) -> None:
        """Wait for the jobs, at most so many seconds, and let the threads go."""
        try:
            await wait_for(self._idle.wait(), graceful_s)
        except TimeoutError:
            Report.WORKERS_LEFT.log("%s: %d jobs still wait", self._name, self.job_count)
        if self._watch is not None:
            self._watch.cancel()
        self._let_go(self._alive)

    def join(self) -> None:
        """Wait a moment for the threads that were let go. Not on the loop."""
        for thread in self._threads:
            if self._idle.is_set():  # a thread whose job never ends is a daemon, and goes with the process
                thread.join(_JOIN_S)
        self._threads.clear()

    def _next_line(self) -> deque[Job] | None:
        """Return where the job waits that is to be done next; None: there is none that may be done."""
        may_take_patient = self._patient and self._patient_running < self._settings.patient
        # By age between the two lines, so that neither starves the other.
        if self._waiting and not (may_take_patient and self._patient[0].since_s < self._waiting[0].since_s):
            return self._waiting
        return self._patient if may_take_patient else None

    def _hand_out(self) -> None:
        while self._running < self._alive and (line := self._next_line()) is not None:
            job = line.popleft()
            self._running += 1
            self._patient_running += job.is_patient
            self._given.put(job)
        if self._watch is None:
            if self._waiting or self._patient:
                self._watch = self._loop.call_later(_LOOK_S, self._look)
            elif self._alive > self._settings.quick:
                self._watch = self._loop.call_later(_PRUNE_S, self._look)

    def _look(self) -> None:
        self._watch = None
        line = self._next_line()
        # These have all the threads that they may have: those that have waited too long are refused.
        if self._patient_running >= self._settings.patient:
            self._refuse(self._patient, "wait for room in full queues, or for messages: receive those in the queues")
        if line is not None and line[0] is self._was_first:  # nothing has moved since the last look
            room, waiting = self._settings.most - self._alive, len(self._waiting) + len(self._patient)
            # At most doubled each time; at the limit, or where the system gives no thread, the oldest jobs are refused.
            if not self._grow(min(room, waiting, max(self._alive, self._settings.quick))):
                self._refuse(self._waiting, "wait, for the disk or for other clients: try again later")
        elif not (self._waiting or self._patient):
            # Threads that wait for work are asked to end, down to the quick ones.
            self._let_go(min(self._alive - self._running, self._alive - self._settings.quick))
        self._hand_out()
        line = self._next_line()
        self._was_first = None if line is None else line[0]

    def _refuse(self, line: deque[Job], what: str) -> None:
        """Refuse those that have waited too long."""
        limit_s = self._loop.time() - self._settings.patience_s
        while line and line[0].since_s <= limit_s:
            job = line.popleft()
            count = self._settings.patient if job.is_patient else self._alive
            Report.WORKERS_BUSY.log("%s: all %d threads wait; a request is refused", self._name, count)
            reason = f"the broker has {count} requests that {what}; it serves no more of them at a time"
            job.refuse(WorkersBusyError(reason if count else "the system gives the broker no thread: try again later"))
            self._tell(job)

    def _grow(self, by: int) -> bool:
        """Start so many threads, or as many as the system gives; return whether there is any more."""
        for started in range(by):
            thread = Thread(target=self._work, name=f"pyjms worker {self._name} {self._started + 1}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # jobs wait for those that there are, and `_look` tries again
                self._reports.log(Report.NO_THREAD, "%s: %s", self._name, error)
                return started > 0
            self._alive += 1
            self._started += 1
            self._threads.append(thread)
        return by > 0

    def _let_go(self, count: int) -> None:
        for _ in range(count):
            self._alive -= 1
            # One for each, taken by whichever thread is free; `_alive`
            # counts down now, as no job is given for these any more.
            self._given.put(None)
        # The list is for `join` alone: threads that have ended leave it here.
        if count > 0:
            self._threads = [thread for thread in self._threads if thread.is_alive()]

    def _work(self) -> None:
        while (job := self._given.get()) is not None:
            job.run()
            # The loop counts and tells: no field of the pool is touched on a worker's thread, so none needs a lock.
            self._scheduler.add(partial(self._ended, job))

    def _ended(self, job: Job) -> None:
        self._running -= 1
        self._patient_running -= job.is_patient
        # First the next job for the thread, then the answer: the thread does not wait while the loop tells.
        self._hand_out()
        self._tell(job)

    def _tell(self, job: Job) -> None:
        job.tell()
        if not self.job_count:
            self._idle.set()


def _of_one_kind(jobs: Sequence[Job]) -> list[Job]:
    """Return two or more that can be done together; none, if there are not so many."""
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
    # If the whole fails, each part has failed; else each has an outcome of its own.
    errors: Sequence[BaseException | None] = [error] * len(batches)
    if error is None:
        errors = cast("Sequence[BaseException | None]", found)
    for job, batch, why in zip(jobs, batches, errors, strict=True):
        job.ended_together(batch, why)
