"""A whole run: loader, stages, desk, subscribers and audit, each in its threads, and the order in which they end.

Stages are drained one after the other. When a stage has ended, all its sends are committed, so the next one may end as
soon as its queue is empty. No count of messages decides when to end: lost messages stay lost and duplicates reach the
end, so that the judgement sees them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from threading import Event
from typing import TypeAlias
from uuid import uuid4

from pyjms import ConnectionFactory, Session
from pyjms.demo.books import (
    Books,
    Found,
    Happening,
    Outcome,
    StageCounter,
    Stamps,
    begin_or_resume,
    close_books,
    judge_all,
    read_books,
)
from pyjms.demo.plan import DEAD_LETTERS, Names, Plan
from pyjms.demo.settings import Settings
from pyjms.demo.workers import (
    Account,
    Ledger,
    Signals,
    Source,
    StepMaker,
    StepMakers,
    Subscriber,
    Worker,
    open_desk,
    record_message,
)

Watch: TypeAlias = Callable[[], None]

LOAD_BATCH = 100
IDLE_MS = 50
IDLE_REMOTE_MS = 2_000
"""With a remote broker it takes longer to be sure that a queue is empty."""
LOOK_S = 0.1
"""The interval of screen updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The threads of one stage, and the signal that nothing more will arrive."""

    futures: list[Future[None]]
    signals: Signals


class Process:
    """One run. `reach`, `run` and `finish` may be called once each, in this order."""

    def __init__(self, plan: Plan, settings: Settings, makers: type[StepMakers] = StepMakers) -> None:
        self.plan = plan
        self.settings = settings
        self.names = Names(prefix=f"demo-{uuid4().hex[:8]}", lanes=len(plan.lanes))
        self.is_resumed = False
        records = plan.table.records
        count, incomplete = len(records), sum(not plan.is_complete(record) for record in records)
        self.load, self.check = StageCounter("load", count), StageCounter("check", count)
        self.look_up, self.dispatch = StageCounter("look up", count), StageCounter("dispatch", count)
        self.ledger, self.board = StageCounter("ledger", count), StageCounter("board", count)
        self.attention, self.audit = StageCounter("attention", incomplete), StageCounter("audit", count)
        self._maker_class = makers
        self._factory = ConnectionFactory(settings.broker)
        self._stop = Event()
        self._futures: list[Future[None]] = []

    @property
    def counters(self) -> tuple[StageCounter, ...]:
        """The counts, in the order of the chain."""
        chain = (self.load, self.check, self.look_up, self.dispatch)
        return (*chain, self.ledger, self.board, self.attention, self.audit)

    def reach(self) -> None:
        """Connect once, to check the broker, and whether it has an unfinished run.

        Raises:
            JMSException: It is unreachable; the text says why.
            OtherRunError: Its run is over other records.
        """
        with self._factory.create_connection() as connection:
            if not self.settings.is_kept:
                return
            # The names of the queues begin with the run's, so they are known only once the broker has been asked.
            run, self.is_resumed = begin_or_resume(connection, self.plan)
            self.names = Names(prefix=run, lanes=len(self.plan.lanes))
            counts = read_books(connection, self.names).counts
        lanes = sum(
            (counts.get(self._lane_account(number), Counter()) for number in range(self.names.lanes)), Counter()
        )
        for counter in self.counters:
            counter.resume(lanes if counter is self.audit else counts.get(counter.name, {}))

    def run(self, watch: Watch = lambda: None) -> Outcome:
        """Process the remaining records; call `watch` several times a second.

        Raises:
            JMSException: The broker cannot be reached, or has refused something.
        """
        with ExitStack() as stack:
            # Before the first message is sent: an ordinary subscriber would miss it, and requests would find no desk.
            receivers = self._subscribe(stack)
            pool = stack.enter_context(
                # A thread for each job that may run at the same time: two stages of workers, a dispatcher for each
                # lane, three receivers, loader and audit.
                ThreadPoolExecutor(2 * self.settings.workers + len(self.plan.lanes) + 5, thread_name_prefix="demo")
            )
            stack.callback(self._stop.set)  # first: the pool waits for its threads, which this ends
            rest = self._signals()
            receiving = [self._start(pool, receiver.run, rest) for receiver in receivers]
            # All messages for the topic are committed when this returns; only then may receivers take silence for the
            # end.
            self._work_off(pool, watch)
            rest.drain.set()
            self._wait(receiving, watch)
            self._wait([self._start(pool, self._audit)], watch)
        with self._factory.create_connection() as connection:
            # Judged by the state at the broker, not by this process's counters: a resumed run did not see all of it.
            books = read_books(connection, self.names)
        return judge_all(self.plan, self._found(books))

    def finish(self) -> None:
        """Delete a run whose outcome was reported; the next call starts a new one."""
        if self.settings.is_kept:
            with self._factory.create_connection() as connection:
                connection.start()
                close_books(connection, self.names)

    def _found(self, books: Books) -> Found:
        entries = books.entries
        return Found(
            lanes=[entries.get(self._lane_account(number), ()) for number in range(self.names.lanes)],
            ledger=entries.get(self.ledger.name, ()),
            board=entries.get(self.board.name, ()),
            attention=entries.get(self.attention.name, ()),
            left_over=self._left_over(),
        )

    def _subscribe(self, stack: ExitStack) -> tuple[Subscriber, ...]:
        """Open the desk and the subscriptions, which must exist before the first message is sent."""
        # Entered first and so closed last: workers use the desk until their end.
        stack.enter_context(open_desk(self._factory, self.plan, self.names, self.settings.workers))
        is_kept = self.settings.is_kept
        ledger = stack.enter_context(closing(Ledger(self._factory, self._account(self.ledger))))
        board = stack.enter_context(closing(Subscriber(self._factory, self._account(self.board), is_durable=is_kept)))
        incomplete = Subscriber(self._factory, self._account(self.attention), "complete = FALSE", is_durable=is_kept)
        return ledger, board, stack.enter_context(closing(incomplete))

    def _account(self, counter: StageCounter) -> Account:
        return Account(counter.name, self.names, counter, counter.before)

    @staticmethod
    def _lane_account(number: int) -> str:
        return f"lane-{number}"

    def _work_off(self, pool: ThreadPoolExecutor, watch: Watch) -> None:
        names, workers = self.names, self.settings.workers
        makers = self._maker_class(self.plan, names)
        by_lane = [(lane.selector, makers.dispatch(lane)) for lane in self.plan.lanes]
        crews = [
            self._crew(pool, self.check, names.intake, [(None, makers.check)] * workers),
            self._crew(pool, self.look_up, names.checked, [(None, makers.look_up)] * workers),
            self._crew(pool, self.dispatch, names.looked_up, by_lane),
        ]
        self._wait([self._start(pool, self._load)], watch)
        for crew in crews:
            # One stage after the other: when a stage has ended, all its sends are committed, and the next one may end
            # with its queue.
            crew.signals.drain.set()
            self._wait(crew.futures, watch)

    def _crew(
        self,
        pool: ThreadPoolExecutor,
        counter: StageCounter,
        source: str,
        posts: Iterable[tuple[str | None, StepMaker]],
    ) -> Crew:
        signals = self._signals()
        workers = [
            Worker(
                factory=self._factory,
                names=self.names,
                source=source,
                selector=selector,
                maker=maker,
                chance=self.settings.chance,
                counter=counter,
                signals=signals,
            )
            for selector, maker in posts
        ]
        return Crew(futures=[self._start(pool, worker.run) for worker in workers], signals=signals)

    def _load(self) -> None:
        """Send the records to the intake, many in one transaction, which also counts them: so none is sent twice."""
        with self._factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            producer = session.create_producer(session.create_queue(self.names.intake))
            stamps = Stamps(session, self.names, self.load.name)
            records = self.plan.table.records
            # The stamp tells how many records are in the intake, and they were sent in the order of the file.
            for first in range(self.load.before, len(records), LOAD_BATCH):
                batch = records[first : first + LOAD_BATCH]
                for record in batch:
                    producer.send(record_message(session, self.plan, record))
                # Before the commit: this batch is rolled back, and loaded by the next run.
                if self._stop.is_set():
                    return
                stamps.put({Happening.DONE: len(batch)})
                session.commit()
                self.load.add(Happening.DONE, len(batch))

    def _audit(self) -> None:
        """Empty the queues of the lanes."""
        rest = self._signals()
        rest.drain.set()
        with self._factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            connection.start()
            for number in range(self.names.lanes):
                queue = self.names.lane(number)
                consumer = session.create_consumer(session.create_queue(queue))
                with closing(Source(session, consumer, self.names.dead_letters_of(queue))) as source:
                    Account(self._lane_account(number), self.names, self.audit).collect(session, source, rest)

    def _left_over(self) -> dict[str, int]:
        """Return how many messages remained in the work queues, and how many of theirs were dead-lettered for good."""
        with self._factory.create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            # Browsed and not taken: a run with a fault must keep the evidence.
            browsers = {queue: session.create_browser(session.create_queue(queue)) for queue in self.names.work}
            dead_letters = session.create_queue(DEAD_LETTERS)
            browsers[DEAD_LETTERS] = session.create_browser(dead_letters, self.names.dead_letters)
            return {queue: sum(1 for _ in browser) for queue, browser in browsers.items()}

    def _start(self, pool: ThreadPoolExecutor, work: Callable[..., None], *arguments: object) -> Future[None]:
        future = pool.submit(work, *arguments)
        self._futures.append(future)
        return future

    def _wait(self, futures: Iterable[Future[None]], watch: Watch) -> None:
        """Wait for these; raise an error of any thread."""
        pending = set(futures)
        while pending:
            _, pending = wait(pending, LOOK_S, FIRST_EXCEPTION)
            # All of them, not only the awaited ones: the others may wait for a thread that failed.
            for future in self._futures:
                if future.done():
                    future.result()
            watch()

    def _signals(self) -> Signals:
        # An embedded broker delivers at once; over a network a queue seems empty while a message is under way.
        local = self.settings.url.startswith("vm:")
        return Signals(stop=self._stop, drain=Event(), idle_ms=IDLE_MS if local else IDLE_REMOTE_MS)
