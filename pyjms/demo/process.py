"""The whole: loader, stages, desk, subscribers and audit, each in its threads, and the order in which they end.

Stages are drained one after the other. When a stage has ended, all that it sent is committed, so the next one may end
as soon as its queue gives nothing more. Nobody counts messages to know when to end: what is lost stays lost and what is
doubled goes on to the end, so that the judgement sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event
from typing import TypeAlias
from uuid import uuid4

from pyjms import ConnectionFactory, Session
from pyjms.demo.chance import Chance
from pyjms.demo.collectors import Account, Ledger, Subscriber
from pyjms.demo.desk import open_desk
from pyjms.demo.outcome import Found, Outcome, judge_all
from pyjms.demo.plan import Plan
from pyjms.demo.stages import Names, StepMaker, StepMakers, record_message
from pyjms.demo.tally import Happening, Tally
from pyjms.demo.workers import Signals, Worker

__all__ = ["Process", "Settings"]

Watch: TypeAlias = Callable[[], None]

LOAD_BATCH = 100
IDLE_MS = 50
IDLE_REMOTE_MS = 2_000
"""A remote broker needs longer until a queue that gives nothing is known to be empty."""
LOOK_S = 0.1
"""How often the screen is told to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user may choose about a run. `workers` counts those of one stage."""

    url: str
    workers: int
    chance: Chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The threads of one stage, and how to tell them that nothing more is coming."""

    futures: list[Future[None]]
    signals: Signals


class Process:
    """One run. `run` may be called once."""

    def __init__(self, plan: Plan, settings: Settings, makers: type[StepMakers] = StepMakers) -> None:
        self.plan = plan
        self.settings = settings
        self.names = Names(prefix=f"demo-{uuid4().hex[:8]}")
        records = plan.table.records
        count, incomplete = len(records), sum(not plan.is_complete(record) for record in records)
        self.load, self.check = Tally("load", count), Tally("check", count)
        self.look_up, self.dispatch = Tally("look up", count), Tally("dispatch", count)
        self.ledger, self.board = Tally("ledger", count), Tally("board", count)
        self.attention, self.audit = Tally("attention", incomplete), Tally("audit", count)
        self._makers = makers(plan, self.names)
        self._factory = ConnectionFactory(settings.url)
        self._stop = Event()
        self._futures: list[Future[None]] = []

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """The counts, in the order of the chain."""
        chain = (self.load, self.check, self.look_up, self.dispatch)
        return (*chain, self.ledger, self.board, self.attention, self.audit)

    def reach(self) -> None:
        """Connect once, to see whether the broker is there.

        Raises:
            JMSException: It is not; the text says why.
        """
        self._factory.create_connection().close()

    def run(self, watch: Watch = lambda: None) -> Outcome:
        """Work off all records; call `watch` several times a second.

        Raises:
            JMSException: The broker cannot be reached, or has refused something.
        """
        with ExitStack() as stack:
            ledger, board, attention = self._subscribe(stack)
            pool = stack.enter_context(ThreadPoolExecutor(self._thread_count(), thread_name_prefix="demo"))
            stack.callback(self._stop.set)  # on leaving comes first: the pool waits for its threads
            rest = self._signals()
            receiving = [self._start(pool, receiver.run, rest) for receiver in (ledger, board, attention)]
            self._work_off(pool, watch)
            rest.drain.set()
            self._wait(receiving, watch)
            lanes = [Account(self.audit) for _ in self.plan.lanes]
            left_over: dict[str, int] = {}
            self._wait([self._start(pool, self._audit, lanes, left_over)], watch)
        found = Found(
            lanes=[lane.entries for lane in lanes],
            ledger=ledger.account.entries,
            board=board.account.entries,
            attention=attention.account.entries,
            left_over=left_over,
        )
        return judge_all(self.plan, found)

    def _subscribe(self, stack: ExitStack) -> tuple[Ledger, Subscriber, Subscriber]:
        """Open the desk and the subscriptions: they must be there before the first message is sent."""
        stack.enter_context(open_desk(self._factory, self.plan, self.names, self.settings.workers))
        topic = self.names.dispatched
        ledger = Ledger(self._factory, topic, f"{self.names.prefix}-ledger", self.ledger)
        stack.callback(ledger.connection.close)
        board = Subscriber(self._factory, topic, None, self.board)
        stack.callback(board.connection.close)
        attention = Subscriber(self._factory, topic, "complete = FALSE", self.attention)
        stack.callback(attention.connection.close)
        return ledger, board, attention

    def _work_off(self, pool: ThreadPoolExecutor, watch: Watch) -> None:
        names, makers, workers = self.names, self._makers, self.settings.workers
        by_lane = [(lane.selector, makers.dispatch(lane)) for lane in self.plan.lanes]
        crews = [
            self._crew(pool, self.check, names.intake, [(None, makers.check)] * workers),
            self._crew(pool, self.look_up, names.checked, [(None, makers.look_up)] * workers),
            self._crew(pool, self.dispatch, names.looked_up, by_lane),
        ]
        self._wait([self._start(pool, self._load)], watch)
        for crew in crews:
            crew.signals.drain.set()
            self._wait(crew.futures, watch)

    def _crew(
        self, pool: ThreadPoolExecutor, tally: Tally, source: str, posts: Iterable[tuple[str | None, StepMaker]]
    ) -> Crew:
        signals = self._signals()
        workers = [
            Worker(
                factory=self._factory,
                source=source,
                selector=selector,
                maker=maker,
                chance=self.settings.chance,
                tally=tally,
                signals=signals,
            )
            for selector, maker in posts
        ]
        return Crew(futures=[self._start(pool, worker.run) for worker in workers], signals=signals)

    def _load(self) -> None:
        """Send the records to the intake, many in one transaction."""
        with self._factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            producer = session.create_producer(session.create_queue(self.names.intake))
            records = self.plan.table.records
            for first in range(0, len(records), LOAD_BATCH):
                batch = records[first : first + LOAD_BATCH]
                for record in batch:
                    producer.send(record_message(session, self.plan, record))
                if self._stop.is_set():
                    return
                session.commit()
                self.load.add(Happening.DONE, len(batch))

    def _audit(self, lanes: Iterable[Account], left_over: dict[str, int]) -> None:
        """Empty the queues of the lanes, and see whether anything stayed in the others."""
        rest = self._signals()
        rest.drain.set()
        with self._factory.create_connection() as connection:
            session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
            connection.start()
            for number, lane in enumerate(lanes):
                with session.create_consumer(session.create_queue(self.names.lane(number))) as consumer:
                    lane.collect(consumer, rest)
            for queue in (self.names.intake, self.names.checked, self.names.looked_up, self.names.desk):
                with session.create_consumer(session.create_queue(queue)) as consumer:
                    left_over[queue] = 0
                    while message := consumer.receive(rest.idle_ms):
                        message.acknowledge()
                        left_over[queue] += 1

    def _start(self, pool: ThreadPoolExecutor, work: Callable[..., None], *arguments: object) -> Future[None]:
        future = pool.submit(work, *arguments)
        self._futures.append(future)
        return future

    def _wait(self, futures: Iterable[Future[None]], watch: Watch) -> None:
        """Wait for these; raise what went wrong in any thread."""
        pending = set(futures)
        while pending:
            _, pending = wait(pending, LOOK_S, FIRST_EXCEPTION)
            for future in self._futures:
                if future.done():
                    future.result()
            watch()

    def _signals(self) -> Signals:
        local = self.settings.url.startswith("vm:")
        return Signals(stop=self._stop, drain=Event(), idle_ms=IDLE_MS if local else IDLE_REMOTE_MS)

    def _thread_count(self) -> int:
        return 2 * self.settings.workers + len(self.plan.lanes) + 5
