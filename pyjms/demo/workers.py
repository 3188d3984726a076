"""Transacted workers: each consumes one message and produces what follows from it in one unit of work.

A worker has a connection of its own, as if it were a process of its own. Now and then it fails, after its work and
before the commit: either the unit is rolled back, or the connection is closed in the middle and the worker begins
anew. Both times the broker must undo what was sent and deliver the message again.

A broker sets a message aside that was delivered too often. The one to blame here is the worker and not the message, so
each works off the dead letters of its source, too, when the source gives nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Event

from pyjms import ConnectionFactory, MapMessage, Message, MessageConsumer, Session
from pyjms.demo.books import Stamps
from pyjms.demo.chance import Chance, Fate
from pyjms.demo.names import DEAD_LETTERS, Names
from pyjms.demo.stages import Step, StepMaker, as_map
from pyjms.demo.tally import Happening, Tally

__all__ = ["Signals", "Source", "Worker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """How a thread is told to end: `drain` when nothing more is coming, `stop` at once."""

    stop: Event
    drain: Event
    idle_ms: int
    """A queue that gives nothing for so long, when nothing more is coming, is empty."""

    def is_over(self) -> bool:
        """Whether a thread that receives nothing from now on shall end."""
        return self.drain.is_set() or self.stop.is_set()


class Source:
    """What one party receives: its messages, and those of them that were set aside."""

    def __init__(self, session: Session, consumer: MessageConsumer, dead_letters: str) -> None:
        self._consumer = consumer
        self._set_aside = session.create_consumer(session.create_queue(DEAD_LETTERS), dead_letters)

    def receive(self, timeout_ms: int) -> Message | None:
        """Return the next message; None when nothing has come for so long."""
        message = self._consumer.receive(timeout_ms)
        return self._set_aside.receive_no_wait() if message is None else message

    def close(self) -> None:
        """Close both consumers."""
        self._consumer.close()
        self._set_aside.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker of a stage. `run` is for one thread."""

    factory: ConnectionFactory
    names: Names
    source: str
    selector: str | None
    maker: StepMaker
    chance: Chance
    tally: Tally
    signals: Signals
    unwritten: Counter[Happening] = field(default_factory=Counter)
    """What has happened since this worker's last commit: it is written with the next."""

    def run(self) -> None:
        """Work until the queue is drained or the demo is stopped."""
        while self._serve() is Fate.CRASHED:
            self._note(Happening.CRASHED)

    def _serve(self) -> Fate:
        """Work over one connection. Leaving it closes it; a unit that is not committed is rolled back (§4.3.5)."""
        with self.factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            consumer = session.create_consumer(session.create_queue(self.source), self.selector)
            source = Source(session, consumer, self.names.dead_letters_of(self.source, self.selector))
            stamps = Stamps(session, self.names, self.tally.name)
            step = self.maker(connection, session)
            connection.start()
            return self._work(session, source, step, stamps)

    def _work(self, session: Session, source: Source, step: Step, stamps: Stamps) -> Fate:
        while not self.signals.stop.is_set():
            nothing_more_comes = self.signals.is_over()  # asked first, or what came meanwhile would be left
            message = source.receive(self.signals.idle_ms)
            if message is None:
                if nothing_more_comes:
                    break
                continue
            fate = self._unit(step, as_map(message))
            if fate is Fate.CRASHED:
                return fate
            if fate is Fate.ROLLED_BACK:
                session.rollback()
                self._note(Happening.ROLLED_BACK)
            else:
                self._commit(session, stamps, done=1)
                self.tally.add(Happening.DONE)
        if self.unwritten:
            self._commit(session, stamps)
        return Fate.DONE

    def _unit(self, step: Step, message: MapMessage) -> Fate:
        record_id = message.get_int_property("record_id")
        if message.jms_redelivered:
            self._note(Happening.REDELIVERED)
        elif message.property_exists("JMS_pyjms_deadDestination"):
            self._note(Happening.SET_ASIDE)
        step(message)
        return self.chance.fate(self.tally.name, record_id, self.tally.attempt(record_id))

    def _note(self, happening: Happening) -> None:
        self.tally.add(happening)
        self.unwritten[happening] += 1

    def _commit(self, session: Session, stamps: Stamps, done: int = 0) -> None:
        stamps.put({Happening.DONE: done, **self.unwritten})
        session.commit()
        self.unwritten.clear()
