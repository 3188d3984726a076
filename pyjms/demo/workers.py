"""Transacted workers: each consumes one message and produces what follows from it in one unit of work.

A worker has a connection of its own, as if it were a process of its own. Now and then it fails, after its work and
before the commit: either the unit is rolled back, or the connection is closed in the middle and the worker begins
anew. Both times the broker must undo what was sent and deliver the message again.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event

from pyjms import ConnectionFactory, MapMessage, MessageConsumer, Session
from pyjms.demo.chance import Chance, Fate
from pyjms.demo.stages import Step, StepMaker, as_map
from pyjms.demo.tally import Happening, Tally

__all__ = ["Signals", "Worker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """How a thread is told to end: `drain` when nothing more is coming, `stop` at once."""

    stop: Event
    drain: Event
    idle_ms: int
    """A queue that gives nothing for so long, when nothing more is coming, is empty."""

    def is_over(self) -> bool:
        """Whether a thread that has just received nothing shall end."""
        return self.drain.is_set() or self.stop.is_set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker of a stage. `run` is for one thread."""

    factory: ConnectionFactory
    source: str
    selector: str | None
    maker: StepMaker
    chance: Chance
    tally: Tally
    signals: Signals

    def run(self) -> None:
        """Work until the queue is drained or the demo is stopped."""
        while self._serve() is Fate.CRASHED:
            self.tally.add(Happening.CRASHED)

    def _serve(self) -> Fate:
        """Work over one connection. Leaving it closes it; a unit that is not committed is rolled back (§4.3.5)."""
        with self.factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            consumer = session.create_consumer(session.create_queue(self.source), self.selector)
            step = self.maker(connection, session)
            connection.start()
            return self._work(session, consumer, step)

    def _work(self, session: Session, consumer: MessageConsumer, step: Step) -> Fate:
        while not self.signals.stop.is_set():
            message = consumer.receive(self.signals.idle_ms)
            if message is None:
                if self.signals.is_over():
                    break
                continue
            fate = self._unit(step, as_map(message))
            if fate is Fate.CRASHED:
                return fate
            if fate is Fate.ROLLED_BACK:
                session.rollback()
                self.tally.add(Happening.ROLLED_BACK)
            else:
                session.commit()
                self.tally.add(Happening.DONE)
        return Fate.DONE

    def _unit(self, step: Step, message: MapMessage) -> Fate:
        record_id = message.get_int_property("record_id")
        if message.jms_redelivered:
            self.tally.add(Happening.REDELIVERED)
        step(message)
        return self.chance.fate(self.tally.name, record_id, self.tally.attempt(record_id))
