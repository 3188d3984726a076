"""Schedules one connection's work: tasks in order, and consumers with messages in turns.

Tasks are done one after the other, on the connection's thread or, if they may wait, on another.

The broker notifies a consumer of work on any thread (QCM-13); this goes on to its session, the connection and the transport's schedule.
Then the connection serves its sessions with work in turns, each session its consumers, and each consumer tries to pull (QCM-14 to 22).

Each layer keeps the order of its turns between two passes: the connection goes on with the session after the one at which the wire was full,
and so does the session with its consumers (Broker-J, fairness within a connection). A consumer of several queues does the same with
these (`ConsumerTarget.pull`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyjms.spi.delivery import Delivery
    from pyjms_provider.protocols.engine import BatchJob, RemoteJob, TransportContext

_RUN_MAX: Final = 64  # tasks of one job, so that others get their turn
_BRIEF_MAX: Final = 2  # waits of a job that is brief as a whole


class Task(Protocol):
    """A piece of work that has its turn: that of a frame, for instance."""

    @property
    def do(self) -> Callable[[], None]:
        """Does it."""
        ...

    @property
    def may_wait(self) -> bool:
        """Whether it may wait, for a disk for instance."""
        ...

    @property
    def is_brief(self) -> bool:
        """Whether it waits for a local disk at most."""
        ...

    @property
    def batch(self) -> BatchJob | None:
        """How it is done together with the next tasks, and with tasks of other connections."""
        ...

    @property
    def remote(self) -> RemoteJob | None:
        """How another process does it, where one can."""
        ...

    @property
    def is_patient(self) -> bool:
        """Whether it may wait for other clients without a limit."""
        ...

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        ...


_T = TypeVar("_T", bound=Task)
TASK_SIZE: Final = 512
"""About how many bytes a task takes beside its content."""


@dataclass(slots=True)
class Backlog:
    """The waiting tasks of all executors of one connection. Only its thread changes it."""

    has_waiting: bool = False
    """Whether there may be tasks for which `SerialExecutor.run` was not called."""
    waiting_bytes: int = 0
    """About how much memory unfinished tasks take."""


class SerialExecutor(Generic[_T]):
    """Does tasks one after the other."""

    __slots__ = ("_backlog", "_declined", "_fail", "_is_busy", "_perform", "_tasks", "_transport", "has_waiting")

    def __init__(
        self,
        transport: TransportContext,
        perform: Callable[[_T], None],
        fail: Callable[[BaseException], None],
        backlog: Backlog,
    ) -> None:
        """`perform` does a task and answers refusals itself. An error that it raises is a bug: on the connection's thread the transport
        handles it, on another thread `fail`. All executors of the connection share `backlog`.
        """
        self._transport = transport
        self._perform = perform
        self._fail = fail
        self._backlog = backlog
        self._tasks: deque[_T] = deque()
        self._is_busy = False
        self._declined: _T | None = None
        """The last task that another process has declined."""
        self.has_waiting = False
        """Whether there may be tasks for which `run` was not called."""

    @property
    def is_idle(self) -> bool:
        """Whether no task waits or runs."""
        return not self._is_busy and not self._tasks

    @property
    def last(self) -> _T | None:
        """The last task that waits."""
        return self._tasks[-1] if self._tasks else None

    def add(self, task: _T) -> None:
        """Do `task` now if nothing precedes it and it cannot wait; otherwise queue it for `run`."""
        # At once only if nothing waits or runs: otherwise it would overtake earlier tasks.
        if not task.may_wait and self.is_idle:
            self._perform(task)
        else:
            self._tasks.append(task)
            self.has_waiting = self._backlog.has_waiting = True
            self._backlog.waiting_bytes += task.size

    def grow(self, size: int) -> None:
        """Note that a task which still waits has grown by `size` bytes."""
        self._backlog.waiting_bytes += size

    def run(self) -> None:
        """Start a job with the waiting tasks, up to a limit, unless one is running."""
        tasks = self._tasks
        if not self._is_busy:
            self.has_waiting = len(tasks) > _RUN_MAX
        if tasks and not self._is_busy and not self._begins(tasks[0]):
            run = [tasks.popleft() for _ in range(min(_RUN_MAX, len(tasks)))]
            self._is_busy = True
            # A task that could not wait when it arrived may have to now, as its queue has filled up: so a job does it, too.
            waiting = [task for task in run if task.may_wait]
            is_brief = len(waiting) <= _BRIEF_MAX and all(task.is_brief for task in waiting)
            done = partial(self._done, sum([task.size for task in run]))
            # A job with several tasks is not done together with those of other connections: its tasks have an order.
            batch = run[0].batch if is_brief and len(run) == 1 else None
            is_patient = any(task.is_patient for task in run)
            # Patient if one of its tasks is: the job as a whole may wait that long for other clients.
            self._transport.work(partial(self._do_all, run), done, brief=is_brief, batch=batch, patient=is_patient)

    def _begins(self, task: _T) -> bool:
        """Have another process do the first task, if it can; return whether it was begun."""
        if task.remote is None or task is self._declined:
            return False
        self._is_busy = self._transport.begin(task.remote, partial(self._answered, task), patient=task.is_patient)
        if self._is_busy:
            self._tasks.popleft()
        return self._is_busy

    def _answered(self, task: _T, is_done: bool) -> None:
        if is_done:
            self._done(task.size, None, None)
            return
        self._declined = task
        self._tasks.appendleft(task)
        self._done(0, None, None)

    def clear(self) -> None:
        """Drop the waiting tasks."""
        self._tasks.clear()

    def _do_all(self, run: list[_T]) -> None:
        at = 0
        while at < len(run):
            together = _batch_at(run, at)
            if len(together) > 1:
                errors = together[0].together([batch.part for batch in together])
                for batch, error in zip(together, errors, strict=True):
                    batch.ended(error)
                at += len(together)
            else:
                # The answers to those before it are written now, as nobody knows how long it waits.
                if at and run[at].is_patient:
                    self._transport.wake()
                self._perform(run[at])
                at += 1

    def _done(self, size: int, _: None, error: BaseException | None) -> None:
        # On the loop, as `add` and `run`: so no field needs a lock.
        self._is_busy = False
        self._backlog.waiting_bytes -= size
        if error is not None:
            self._fail(error)
        self.run()
        # Answers must be written, and reading may go on, as fewer bytes wait now.
        self._transport.wake()


def _batch_at(run: Sequence[Task], at: int) -> list[BatchJob]:
    """Return how the tasks from `at` on are done together that are of one kind; one or none: the first is done alone."""
    found: list[BatchJob] = []
    for task in islice(run, at, None):
        batch = task.batch
        if batch is None or (found and batch.together != found[0].together):
            break
        found.append(batch)
    return found


PULLS_PER_TURN: Final = 16
"""For sources that pull one message at a time."""


class DeliverySource(Protocol):
    """A source of bytes for the wire, as long as it has work."""

    pulls_per_turn: int
    """How often it may pull in one turn."""
    may_have_more: bool
    """Whether it is scheduled again after a full turn; if not, it calls `SessionScheduler.schedule` when there is work again."""

    def pull(self) -> Iterable[bytes] | None:
        """Return a frame in parts, or None: there is no work until `SessionScheduler.schedule` is called again."""
        ...


class DeliveryScheduler:
    """The sessions of one connection that may have work, served in turns."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        # An ordered set: each of its operations is one step of the interpreter, so any thread may add without a lock, and a session that two
        # threads add at once has one turn.
        self.scheduled: OrderedDict[SessionScheduler, None] = OrderedDict()
        """The sessions that wait for a turn; read-only for others."""

    def __bool__(self) -> bool:
        return bool(self.scheduled)

    def schedule(self, session: SessionScheduler) -> None:
        """Queue `session` for a turn. Any thread; never waits."""
        if session not in self.scheduled:
            self.scheduled[session] = None
            self._wake()

    def pull(self, size: int, parts: list[bytes]) -> int:
        """Add about `size` bytes to `parts`; return how many. The connection's thread."""
        scheduled, taken = self.scheduled, 0
        while taken < size and scheduled:
            # Before the session looks for work: work that arrives from now on gives it another turn.
            session, _ = scheduled.popitem(last=False)
            taken += session.pull(size - taken, parts)
            # To the end, behind the connection's other sessions, however many consumers it has.
            if session.scheduled:
                self.schedule(session)
        return taken


class SessionScheduler:
    """The consumers of one session that may have work, served in turns."""

    __slots__ = ("_connection", "scheduled")

    def __init__(self, connection: DeliveryScheduler) -> None:
        self._connection = connection
        # As in `DeliveryScheduler`.
        self.scheduled: OrderedDict[DeliverySource, None] = OrderedDict()
        """The consumers that wait for a turn; read-only for others."""

    def schedule(self, source: DeliverySource) -> None:
        """Queue `source` for a turn, and this session for one of its connection. Any thread; never waits."""
        if source not in self.scheduled:
            self.scheduled[source] = None
            self._connection.schedule(self)

    def pull(self, size: int, parts: list[bytes]) -> int:
        """Give the next consumer its turn, of about `size` bytes at most; return how many were added to `parts`. The connection's thread."""
        taken = 0
        # Empty if its last consumer had its turn while another thread was scheduling that one.
        if not self.scheduled:
            return taken
        source, _ = self.scheduled.popitem(last=False)
        pulled: Iterable[bytes] | None = None
        for _ in range(source.pulls_per_turn):
            pulled = source.pull()
            if pulled is None:
                break
            for part in pulled:
                parts.append(part)
                taken += len(part)
            if taken >= size:
                break
        # To the end, behind the session's other consumers.
        if pulled is not None and source.may_have_more:
            self.schedule(source)
        return taken


class DirectConsumer(Protocol):
    """A consumer that takes messages during the send."""

    def write(self, delivery: Delivery) -> None:
        """Write a taken message. Never raises."""
        ...


class DirectDeliveries:
    """Direct deliveries between the connections of one loop. Only its thread opens and closes it; any thread may read `thread`."""

    __slots__ = ("taken", "thread")

    def __init__(self) -> None:
        self.thread = 0
        """The thread whose sends may be taken directly now; 0: none."""
        self.taken: list[tuple[DirectConsumer, Delivery]] = []
        """The messages taken since it was opened, with their consumers."""

    def open(self) -> None:
        """Allow direct delivery on this thread until `close`. Not to be nested."""
        self.thread = get_ident()

    def close(self) -> None:
        """End direct delivery, and write the taken messages. Never raises."""
        # First, as a consumer's write must not have further messages taken meanwhile.
        self.thread = 0
        if self.taken:
            taken, self.taken = self.taken, []
            for consumer, delivery in taken:
                consumer.write(delivery)
