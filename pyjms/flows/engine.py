"""Carries instances on: takes events from a queue, keeps the next states, asks for the next steps, commits.

The store is written first, then the asking and the events' acknowledgement commit together; all events that are there at once
share both commits. If the engine dies in between, the events come again, marked redelivered: the states have moved on, and what
they wait for is asked for again. Whoever serves a step knows by the key that it has done it. If a time-out was being served, the
next time-out asks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.flows.batch import Arrival, decide
from pyjms.flows.errors import FlowException
from pyjms.flows.instance import Ask, TimeOut
from pyjms.flows.wording import ask_message, read_event
from pyjms.recoverable.pauses import Pauses
from pyjms.spi.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyjms.api.connection import Connection
    from pyjms.api.consumer import MessageConsumer
    from pyjms.api.message import Message
    from pyjms.api.session import Session
    from pyjms.flows.definition import Flow
    from pyjms.flows.store import FlowStore
    from pyjms.runtime.factory import ConnectionFactory

__all__ = ["EVENTS", "FlowEngine"]

EVENTS = "pyjms.flows"
"""The queue of events, unless another name is given."""

_log = logging.getLogger("pyjms.flows")
_BATCH = 50
"""Events of one unit at most: they share one commit of the store, and one of the broker."""
_LONGEST_WAIT_MS = 1_000
"""How long an engine looks at the queue alone: another one may have begun what is overdue soon."""


class FlowEngine:
    """One of any number of engines that share a queue of events and a store. `run` is called by one thread.

    factory: of a provider with transactions. What an event cannot be read from, or concerns no instance, goes to ``EVENTS.bad``.
    on_trouble: told why, instead of the log, each time when the engine has to try again; called by the thread of `run`.
    """

    def __init__(
        self,
        factory: ConnectionFactory,
        store: FlowStore,
        *,
        events: str = EVENTS,
        clock: Clock | None = None,
        on_trouble: Callable[[JMSException], None] | None = None,
    ) -> None:
        self._factory = factory
        self._store = store
        self._events = events
        self._clock = clock or SystemClock()
        self._on_trouble = on_trouble
        self._stopped = threading.Event()
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._due_ms: int | None = None
        self._flows: dict[tuple[str, int], Flow] = {}

    def run(self, *, until_idle: bool = False) -> int:
        """Carry on until `stop`; with `until_idle`, until no event is there and nothing is overdue. Return the events served.

        While no broker is there, at the beginning or later, and while the store fails, tries again with pauses of up to ten
        seconds. Raises `JMSException` when something else is wrong from the beginning, and with `until_idle` at once; all that
        was begun is carried on by the next `run`.
        """
        served, pauses = 0, Pauses(self._stopped)
        while True:
            try:
                for events in self._serve_events(until_idle=until_idle):
                    pauses.has_been_well = True
                    if events:
                        pauses.begin_anew()
                        served += events
            except JMSException as error:
                if self._stopped.is_set():
                    return served
                if until_idle or not pauses.may_heal(error):
                    raise
                self._tell(error)
            else:
                return served
            finally:
                self._close()
            pauses.wait()

    def _serve_events(self, *, until_idle: bool) -> Iterator[int]:
        """Serve one batch after the other; tell each time how many events it had."""
        session = self._open()
        consumer = session.create_consumer(session.create_queue(self._events))
        asking = _Asking(session, self._events)
        is_busy = True
        while not self._stopped.is_set():
            messages = self._take(consumer, 0 if until_idle or is_busy else self._wait_ms())
            if messages:
                self._serve(asking, messages)
            # After the events: of those that come again, a person's was about what its instance waited for then.
            is_busy = self._serve_overdue(asking)
            if until_idle and not messages and not is_busy:
                return
            yield len(messages)

    def _take(self, consumer: MessageConsumer, wait_ms: int) -> list[Message]:
        """Return what is there at once, or comes within the wait."""
        first = consumer.receive(wait_ms) if wait_ms else consumer.receive_no_wait()
        messages = []
        while first is not None:
            messages.append(first)
            first = consumer.receive_no_wait() if len(messages) < _BATCH else None
        return messages

    def stop(self) -> None:
        """End `run`. Any thread; may be repeated."""
        self._stopped.set()
        self._close()

    def _tell(self, error: JMSException) -> None:
        if self._on_trouble is None:
            _log.warning("%s; what was not committed comes again", error)
        else:
            self._on_trouble(error)

    def _open(self) -> Session:
        connection = self._factory.create_connection()
        with self._guard:
            self._connection = connection
        if self._stopped.is_set():  # in the meantime, so that `stop` did not close it
            raise IllegalStateException("this engine was stopped: make another one")
        session = connection.create_session(True, AcknowledgeMode.AUTO_ACKNOWLEDGE)
        connection.start()
        return session

    def _close(self) -> None:
        with self._guard:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _wait_ms(self) -> int:
        due_ms = self._due_ms
        return _LONGEST_WAIT_MS if due_ms is None else min(_LONGEST_WAIT_MS, max(1, due_ms - self._clock.time_ms()))

    def _serve(self, asking: _Asking, messages: Sequence[Message]) -> None:
        """Do all that these events ask for, as one unit."""
        arrivals: list[Arrival] = []
        sources: dict[int, Message] = {}
        for message in messages:
            try:
                instance, event = read_event(message)
            except FlowException as error:
                asking.put_aside(message, error)
                continue
            id_ = message.jms_message_id or ""
            arrival = Arrival(instance=instance, event=event, id=id_, was_delivered=message.jms_redelivered)
            arrivals.append(arrival)
            sources[id(arrival)] = message
        for arrival, why in self._keep(asking, arrivals):
            asking.put_aside(sources[id(arrival)], why)
        asking.commit()

    def _serve_overdue(self, asking: _Asking) -> bool:
        """Tell instances whose answer is overdue; return whether there were any."""
        self._due_ms = self._store.next_due_ms()
        now_ms = self._clock.time_ms()
        if self._due_ms is None or self._due_ms > now_ms:
            return False
        overdue = self._store.overdue(now_ms)
        self._keep(asking, [Arrival(instance=each.id, event=TimeOut(revision=each.revision)) for each in overdue])
        asking.commit()
        return bool(overdue)

    def _keep(self, asking: _Asking, arrivals: Sequence[Arrival]) -> Sequence[tuple[Arrival, FlowException]]:
        """Write what follows, then ask for it; return the events that mean nothing."""
        ids = list(dict.fromkeys(each.instance for each in arrivals))
        self._flows = {(name, version): flow for (name, version), flow in self._flows.items() if version}
        while True:  # until nobody has changed one of them in between
            batch = decide(arrivals, self._store.find_all(ids), self._flow, self._clock.time_ms())
            if not (batch.begun or batch.changed) or self._store.keep(batch.begun, batch.changed):
                break
        for ask in batch.asks:
            asking.ask(ask)
        return batch.refused

    def _flow(self, name: str, version: int) -> Flow:
        """Return a definition. Versions do not change, so they are remembered; which is the newest, for one batch."""
        found = self._flows.get((name, version))
        if found is None:
            found = self._store.flow(name, version)
            self._flows[name, version] = self._flows[name, found.version] = found
        return found


class _Asking:
    """Sends what is asked for, and commits it with the events that asked for it."""

    def __init__(self, session: Session, events: str) -> None:
        self._session = session
        self._events = session.create_queue(events)
        self._bad = session.create_queue(f"{events}.bad")
        self._producer = session.create_producer(None)

    def ask(self, ask: Ask) -> None:
        message = ask_message(self._session, ask)
        message.jms_reply_to = self._events
        self._producer.send(self._session.create_queue(ask.queue), message)

    def put_aside(self, message: Message, why: FlowException) -> None:
        _log.warning("event %s is put aside: %s", message.jms_message_id, why)
        self._producer.send(self._bad, message)

    def commit(self) -> None:
        self._session.commit()
