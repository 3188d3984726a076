"""What is done next on one connection: tasks in their order, and consumers with work, which take turns.

Tasks are done one after the other, on the connection's thread or, where they may wait, on another.

A consumer is told of work by the broker, on any thread (QCM-13); from there on the way is: its session, the connection,
the transport's schedule, and back: the connection goes over the sessions that have work, each over its consumers,
and each consumer tries to pull (QCM-14 to 22; Broker-J, fairness within a connection).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyjms.spi.delivery import Delivery
    from pyjms_provider.protocols.engine import BatchJob, TransportContext
    from pyjms_provider.protocols.stomp.frames import Frame

_RUN_MAX: Final = 64  # tasks of one job, so that others get their turn
_TASK_SIZE: Final = 512  # bytes of what is not text
_BRIEF_MAX: Final = 2  # waits of a job that is brief as a whole


@dataclass(slots=True)
class Task:
    """What one frame asks for."""

    frame: Frame
    do: Callable[[], None]
    may_wait: bool
    is_brief: bool = False
    """Whether it waits for a local disk at most."""
    messages: int = 1
    """How many messages it has read from its frame."""
    batch: BatchJob | None = None
    """How it is done together with those of other connections."""
    is_patient: bool = False
    """Whether it may wait for what other clients do, for as long as they please."""
    joined_bytes: int = 0
    """About how many bytes came to it from later frames."""

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return len(self.frame.body) + self.frame.head_bytes + _TASK_SIZE * self.messages + self.joined_bytes


@dataclass(slots=True)
class Backlog:
    """What waits in all executors of one connection. Its thread alone changes it."""

    has_waiting: bool = False
    """Whether there may be tasks for which `SerialExecutor.run` was not called."""
    waiting_bytes: int = 0
    """About how much memory the tasks take that have not been done."""


class SerialExecutor:
    """One order of tasks."""

    __slots__ = ("_backlog", "_fail", "_is_busy", "_perform", "_tasks", "_transport", "has_waiting")

    def __init__(
        self,
        transport: TransportContext,
        perform: Callable[[Task], None],
        fail: Callable[[BaseException], None],
        backlog: Backlog,
    ) -> None:
        """`perform` does a task and answers what it refuses itself. What it raises is a fault of ours: the transport's affair,
        or that of `fail` where it was done on another thread. `backlog` is what all executors of the connection share.
        """
        self._transport = transport
        self._perform = perform
        self._fail = fail
        self._backlog = backlog
        self._tasks: deque[Task] = deque()
        self._is_busy = False
        self.has_waiting = False
        """Whether there may be tasks for which `run` was not called."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._is_busy and not self._tasks

    @property
    def last(self) -> Task | None:
        """What would be done last of all that waits."""
        return self._tasks[-1] if self._tasks else None

    def add(self, task: Task) -> None:
        """Do `task` now if it is its turn and it cannot wait; else with `run`."""
        # At once only if nothing waits or runs: else the task would overtake the earlier ones.
        if not task.may_wait and self.is_idle:
            self._perform(task)
        else:
            self._tasks.append(task)
            self.has_waiting = self._backlog.has_waiting = True
            self._backlog.waiting_bytes += task.size

    def grow(self, task: Task, size: int) -> None:
        """Hear that `task`, which still waits, holds so many bytes more, of a frame that joined it."""
        task.joined_bytes += size
        self._backlog.waiting_bytes += size

    def run(self) -> None:
        """Go on with what waits, unless a job does so already. A job takes all tasks that have come, up to a limit."""
        tasks = self._tasks
        if not self._is_busy:
            self.has_waiting = len(tasks) > _RUN_MAX
        if tasks and not self._is_busy:
            run = [tasks.popleft() for _ in range(min(_RUN_MAX, len(tasks)))]
            self._is_busy = True
            # A task that could not wait when it came may have to by
            # now, as its queue has filled up: so a job does it, too.
            waiting = [task for task in run if task.may_wait]
            is_brief = len(waiting) <= _BRIEF_MAX and all(task.is_brief for task in waiting)
            done = partial(self._done, sum([task.size for task in run]))
            # A job with several tasks is not done together with others: its tasks have an order.
            batch = run[0].batch if is_brief and len(run) == 1 else None
            is_patient = any(task.is_patient for task in run)
            # Patient if one of its tasks is: the job as a whole may wait that long for other clients.
            self._transport.work(partial(self._do_all, run), done, brief=is_brief, batch=batch, patient=is_patient)

    def clear(self) -> None:
        """Forget what waits."""
        self._tasks.clear()

    def _do_all(self, run: list[Task]) -> None:
        for task in run:
            self._perform(task)

    def _done(self, size: int, _: None, error: BaseException | None) -> None:
        # On the loop, as `add` and `run`: so no field needs a lock.
        self._is_busy = False
        self._backlog.waiting_bytes -= size
        if error is not None:
            self._fail(error)
        self.run()
        # Answers are to be written, and reading may go on, as less waits now.
        self._transport.wake()


PULLS_PER_TURN: Final = 16
"""For who pulls one message at a time."""


class DeliverySource(Protocol):
    """Something that has bytes for the wire as long as it has work."""

    is_queued: bool
    """Whether it waits for its turn; `DeliveryScheduler` alone sets it."""
    pulls_per_turn: int
    """How often it may pull before another one's turn."""
    may_have_more: bool
    """Whether it wants another turn after one that it has used up; else `DeliveryScheduler.schedule` is called when there is work again."""

    def pull(self) -> Iterable[bytes] | None:
        """Return a frame in parts, or None: there is no work, and `DeliveryScheduler.schedule` is called when there is again."""
        ...


class DeliveryScheduler:
    """The consumers of one connection that may have work, in the order of their turns."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.scheduled: deque[DeliverySource] = deque()
        """Who waits for a turn; only to be looked at."""

    def __bool__(self) -> bool:
        return bool(self.scheduled)

    def schedule(self, who: DeliverySource) -> None:
        """Give `who` a turn. Any thread; never waits."""
        if not who.is_queued:
            # Without a lock: if two threads race, the consumer has a turn too many, which finds nothing.
            who.is_queued = True
            self.scheduled.append(who)
            self._wake()

    def pull(self, size: int, parts: list[bytes]) -> int:
        """Add about `size` bytes to `parts`; return how many. The connection's thread."""
        scheduled, taken = self.scheduled, 0
        while taken < size and scheduled:
            who = scheduled.popleft()
            # Before the consumer looks: work that arrives from now on gives it another turn.
            who.is_queued = False
            pulled: Iterable[bytes] | None = None
            for _ in range(who.pulls_per_turn):
                pulled = who.pull()
                if pulled is None:
                    break
                for part in pulled:
                    parts.append(part)
                    taken += len(part)
                if taken >= size:
                    break
            # To the end of the line, behind the connection's other consumers.
            if pulled is not None and who.may_have_more:
                self.schedule(who)
        return taken


class DirectConsumer(Protocol):
    """A consumer that takes messages while they are sent."""

    def write(self, delivery: Delivery) -> None:
        """Write a message that was taken. Never raises."""
        ...


class DirectDeliveries:
    """That between the connections of one loop. Its thread alone opens and closes it; any thread may ask whether it is open."""

    __slots__ = ("taken", "thread")

    def __init__(self) -> None:
        self.thread = 0
        """On which thread what is sent now may be taken at once; 0: on none."""
        self.taken: list[tuple[DirectConsumer, Delivery]] = []
        """What was taken, and by whom, since it was opened."""

    def open(self) -> None:
        """Let messages be taken on this thread until `close`. Not to be nested."""
        self.thread = get_ident()

    def close(self) -> None:
        """Let nothing more be taken, and write what was. Never raises."""
        # First: what a consumer writes must not have further messages taken meanwhile.
        self.thread = 0
        if self.taken:
            taken, self.taken = self.taken, []
            for consumer, delivery in taken:
                consumer.write(delivery)
