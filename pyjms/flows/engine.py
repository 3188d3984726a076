"""Carries instances on: takes events from a queue, keeps the next state, asks for the next step, commits.

The store is written first, then the asking and the event's acknowledgement commit together. If the engine dies in between, the
event comes again, marked redelivered: the state has moved on, and what it waits for is asked for again. Whoever serves a step knows
by the key that it has done it. If a time-out was being served, the next time-out asks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.flows.errors import FlowException, FlowStoreException, UnknownInstanceException
from pyjms.flows.instance import Ask, Event, TimeOut, advance, asked, begin
from pyjms.flows.wording import Start, ask_message, read_event
from pyjms.recoverable.pauses import Pauses
from pyjms.spi.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyjms.api.connection import Connection
    from pyjms.api.message import Message
    from pyjms.api.session import Session
    from pyjms.flows.store import FlowStore
    from pyjms.runtime.factory import ConnectionFactory

__all__ = ["EVENTS", "FlowEngine"]

EVENTS = "pyjms.flows"
"""The queue of events, unless another name is given."""

_log = logging.getLogger("pyjms.flows")
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

    def run(self, *, until_idle: bool = False) -> int:
        """Carry on until `stop`; with `until_idle`, until no event is there and nothing is overdue. Return the events served.

        While no broker is there, at the beginning or later, and while the store fails, tries again with pauses of up to ten
        seconds. Raises `JMSException` when something else is wrong from the beginning, and with `until_idle` at once; all that
        was begun is carried on by the next `run`.
        """
        served, pauses = 0, Pauses(self._stopped)
        while True:
            try:
                for is_served in self._serve_events(until_idle=until_idle):
                    pauses.has_been_well = True
                    if is_served:
                        pauses.begin_anew()
                        served += 1
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

    def _serve_events(self, *, until_idle: bool) -> Iterator[bool]:
        """Serve one thing after the other; tell each time whether it was an event."""
        session = self._open()
        consumer = session.create_consumer(session.create_queue(self._events))
        while not self._stopped.is_set():
            overdue = self._serve_overdue(session)
            message = consumer.receive_no_wait() if until_idle else consumer.receive(self._wait_ms())
            if message is not None:
                self._serve(session, message)
            elif until_idle and not overdue:
                return
            yield message is not None

    def _tell(self, error: JMSException) -> None:
        if self._on_trouble is None:
            _log.warning("%s; what was not committed comes again", error)
        else:
            self._on_trouble(error)

    def stop(self) -> None:
        """End `run`. Any thread; may be repeated."""
        self._stopped.set()
        self._close()

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
        due_ms = self._store.next_due_ms()
        return _LONGEST_WAIT_MS if due_ms is None else min(_LONGEST_WAIT_MS, max(1, due_ms - self._clock.time_ms()))

    def _serve(self, session: Session, message: Message) -> None:
        try:
            instance_id, event = read_event(message)
            if isinstance(event, Start):
                self._begin(session, instance_id, event, was_delivered=message.jms_redelivered)
            else:
                self._carry_on(session, instance_id, event, was_delivered=message.jms_redelivered)
        except FlowStoreException:
            raise
        except FlowException as error:
            _log.warning("event %s is put aside: %s", message.jms_message_id, error)
            _send(session, f"{self._events}.bad", message)
        session.commit()

    def _begin(self, session: Session, instance_id: str, start: Start, *, was_delivered: bool) -> None:
        flow = self._store.flow(start.flow, start.version)
        instance, ask = begin(flow, instance_id, start.data, self._clock.time_ms())
        if self._store.add(instance):
            self._ask(session, ask)
        elif was_delivered:
            self._ask_again(session, instance_id)

    def _carry_on(self, session: Session, instance_id: str, event: Event, *, was_delivered: bool = False) -> None:
        while True:  # until no other engine has changed it in between
            instance = self._store.find(instance_id)
            if instance is None:
                raise UnknownInstanceException(f"there is no instance {instance_id}")
            flow = self._store.flow(instance.flow, instance.version)
            following, ask = advance(flow, instance, event, self._clock.time_ms())
            if following is instance:
                if was_delivered:
                    self._ask_again(session, instance_id)
                return
            if self._store.replace(following, instance.revision):
                self._ask(session, ask)
                return

    def _ask_again(self, session: Session, instance_id: str) -> None:
        instance = self._store.find(instance_id)
        if instance is not None:
            self._ask(session, asked(self._store.flow(instance.flow, instance.version), instance))

    def _serve_overdue(self, session: Session) -> int:
        overdue = self._store.overdue(self._clock.time_ms())
        for instance in overdue:
            self._carry_on(session, instance.id, TimeOut(revision=instance.revision))
            session.commit()
        return len(overdue)

    def _ask(self, session: Session, ask: Ask | None) -> None:
        if ask is None:
            return
        message = ask_message(session, ask)
        message.jms_reply_to = session.create_queue(self._events)
        _send(session, ask.queue, message)


def _send(session: Session, queue: str, message: Message) -> None:
    producer = session.create_producer(session.create_queue(queue))
    try:
        producer.send(message)
    finally:
        producer.close()
