"""Runs instances: receives events from a queue, stores the next states, requests the next steps, and commits.

The store is written first; then the requests and the acknowledgement of the events commit together. All events that are
available at once share both commits. If the engine crashes in between, the events are redelivered, marked so: the
states have changed already, and their requests are sent again. The server of a step recognises a repeated request by
its key. If a time-out was being handled, the next time-out repeats the request.

A request that the queue of a step refuses, as it is full or forbidden, is repeated each second; other instances continue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyjms.api.session import AcknowledgeMode
from pyjms.errors import JMSException, TransactionRolledBackException
from pyjms.flows.codec import Start, ask_message, read_event
from pyjms.flows.definition import Flow, FlowException, FlowStoreException, UnknownInstanceException
from pyjms.flows.instance import Ask, Event, Instance, Retry, Suspend, TimeOut, advance, apply_command, asked, begin
from pyjms.recoverable.server import Pauses, PresentConnection
from pyjms.spi.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyjms.api.consumer import MessageConsumer
    from pyjms.api.message import Message
    from pyjms.api.session import Session
    from pyjms.flows.store import FlowStore
    from pyjms.runtime.factory import ConnectionFactory


Changed: TypeAlias = tuple[Instance, int]
"""The next state of an instance, and the revision of the one that it replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One event for one instance."""

    instance: str
    event: Start | Event
    id: str = ""
    """The message's id; "": it has none."""
    was_delivered: bool = False
    """It was delivered before, and the engine that had it may have died after the store was written: the awaited
    request is sent again.
    """


@dataclass(slots=True)
class Batch:
    """The states to write, and the requests to send then."""

    begun: list[Instance] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    refused: list[tuple[Arrival, FlowException]] = field(default_factory=list)
    """Events without effect, with the reason."""


def decide(
    arrivals: Iterable[Arrival], known: Mapping[str, Instance], flow: Callable[[str, int], Flow], now_ms: int
) -> Batch:
    """Return the effects of events. known: the existing instances among those concerned. flow: see `FlowStore.flow`.

    Raises `FlowStoreException` of `flow`.
    """
    # Several events of one batch may concern one instance: each is decided by the state after the one before it.
    present = dict(known)
    asks: dict[str, Ask] = {}
    batch = Batch()
    for arrival in arrivals:
        try:
            following, ask = _obey(arrival, present.get(arrival.instance), flow, now_ms)
        # A subclass of FlowException that does not concern the event: the database failed, and the whole batch is
        # redelivered.
        except FlowStoreException:
            raise
        except FlowException as error:
            batch.refused.append((arrival, error))
            continue
        present[arrival.instance] = following
        if ask is not None:
            # Of two requests for the same step the later one counts; the earlier one is removed, so that the later one
            # is also last in order.
            asks.pop(ask.key, None)
            asks[ask.key] = ask
    batch.begun = [each for id_, each in present.items() if id_ not in known]
    batch.changed = [(present[id_], each.revision) for id_, each in known.items() if present[id_] is not each]
    batch.asks = list(asks.values())
    return batch


def _obey(
    arrival: Arrival, instance: Instance | None, flow: Callable[[str, int], Flow], now_ms: int
) -> tuple[Instance, Ask | None]:
    event = arrival.event
    if isinstance(event, Start):
        # An id that exists has started: the same start may arrive twice.
        if instance is None:
            return begin(flow(event.flow, event.version), arrival.instance, event.data, now_ms)
        following, ask = instance, None
    elif instance is None:
        raise UnknownInstanceException(f"there is no instance {arrival.instance}")
    elif isinstance(event, Retry | Suspend):
        following, ask = apply_command(flow(instance.flow, instance.version), instance, event, arrival.id, now_ms)
    else:
        following, ask = advance(flow(instance.flow, instance.version), instance, event, now_ms)
    # The event changes nothing, as an engine that died has written its effect. That engine may not have sent the
    # request, so it is sent again (decision 0920).
    if following is instance and arrival.was_delivered:
        return instance, asked(flow(instance.flow, instance.version), instance)
    return following, ask


EVENTS = "pyjms.flows"
"""The queue of events, unless another name is given."""

_log = logging.getLogger("pyjms.flows")

# One event at a time costs two forced writes each, and reached a third of the rate of plain transacted hops (decision
# 0920).
_BATCH = 50
"""The maximum number of events in one unit: they share one commit of the store, and one of the broker."""

_LONGEST_WAIT_MS = 1_000
"""The longest wait for an event before the store is checked: another engine may have started instances that are due
soon.
"""

_AGAIN_MS = 1_000
"""The interval at which a queue is tried again after a refusal."""


class FlowEngine:
    """One of any number of engines that share a queue of events and a store. `run` is called by one thread.

    factory: of a provider with transactions. A message that is no event, or concerns no instance, goes to
    ``EVENTS.bad``. on_trouble: called with the reason, instead of a log entry, each time the engine has to retry;
    called by the thread of `run`.
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
        self._store = store
        self._events = events
        self._clock = clock or SystemClock()
        self._on_trouble = on_trouble
        self._stopped = threading.Event()
        self._connection = PresentConnection(factory, self._stopped)
        self._due_ms: int | None = None
        self._flows: dict[tuple[str, int], Flow] = {}
        self._postponed: Postponed = {}
        self._refusal: JMSException | None = None
        self._again_ms = 0.0

    def run(self, *, until_idle: bool = False) -> int:
        """Run instances until `stop`; with `until_idle`, until there is no event and nothing is overdue. Return the
        number of events served.

        While the broker is unreachable, at the start or later, and while the store fails, retries with pauses of up to
        ten seconds. Raises `JMSException` for other errors at the start, and with `until_idle` at once, or at the end
        if the queue of a step has refused a request; the next `run` continues all work in progress.
        """
        served, pauses = 0, Pauses(self._stopped)
        while True:
            try:
                for events in self._serve_events(until_idle=until_idle):
                    pauses.has_been_well = True
                    if events:
                        pauses.reset()
                        served += events
            except JMSException as error:
                if self._stopped.is_set():
                    return served
                # A run until idle belongs to a script or a test: it raises at once, instead of waiting for a broker.
                if until_idle or not pauses.may_heal(error):
                    raise
                self._tell(error)
            else:
                return served
            finally:
                # Whatever ended the loop, its received and uncommitted events are requeued.
                self._connection.close()
            pauses.wait()

    def _serve_events(self, *, until_idle: bool) -> Iterator[int]:
        """Serve one batch after the other; yield the number of events in each."""
        session = self._open()
        consumer = session.create_consumer(session.create_queue(self._events))
        # Postponed requests outlive the connection: the queues that refused may still refuse.
        dispatcher = RequestDispatcher(session, self._events, self._postponed)
        is_busy = True
        self._again_ms = 0
        while not self._stopped.is_set():
            # While there is work, the queue is only polled: a wait would delay overdue instances.
            messages = self._take(consumer, 0 if until_idle or is_busy else self._wait_ms())
            is_served = not messages or self._serve(dispatcher, messages)
            # After the events: a redelivered command of an operator was about the step that its instance awaited then.
            is_busy = self._serve_overdue(dispatcher) or not is_served
            if is_served:  # otherwise the same events come first, and would send requests once more
                is_busy |= self._retry_postponed(dispatcher)
            if until_idle and not messages and not is_busy:
                if self._postponed and self._refusal is not None:
                    raise self._refusal
                return
            yield len(messages) if is_served else 0

    def _take(self, consumer: MessageConsumer, wait_ms: int) -> list[Message]:
        """Return the available messages, or those that arrive within the wait."""
        first = consumer.receive(wait_ms) if wait_ms else consumer.receive_no_wait()
        # A batch never waits to be full, so a lone event is served at once.
        messages = []
        while first is not None:
            messages.append(first)
            first = consumer.receive_no_wait() if len(messages) < _BATCH else None
        return messages

    def stop(self) -> None:
        """End `run`. Any thread; may be repeated."""
        # The flag comes before the close: the engine's thread would otherwise connect again.
        self._stopped.set()
        self._connection.close()

    def _tell(self, error: JMSException) -> None:
        if self._on_trouble is None:
            _log.warning("%s; what was not committed comes again", error)
        else:
            self._on_trouble(error)

    def _open(self) -> Session:
        connection = self._connection.open()
        session = connection.create_session(True, AcknowledgeMode.AUTO_ACKNOWLEDGE)
        connection.start()
        return session

    def _wait_ms(self) -> int:
        due_ms = self._due_ms
        return _LONGEST_WAIT_MS if due_ms is None else min(_LONGEST_WAIT_MS, max(1, due_ms - self._clock.time_ms()))

    def _serve(self, dispatcher: RequestDispatcher, messages: Sequence[Message]) -> bool:
        """Serve these events as one unit; return False if they will be redelivered."""
        arrivals: list[Arrival] = []
        sources: dict[int, Message] = {}
        for message in messages:
            try:
                instance, event = read_event(message)
            except FlowException as error:
                # In the same transaction: a message that is no event must neither block the others nor be redelivered.
                dispatcher.quarantine(message, error)
                continue
            id_ = message.jms_message_id or ""
            arrival = Arrival(instance=instance, event=event, id=id_, was_delivered=message.jms_redelivered)
            arrivals.append(arrival)
            # By identity: two arrivals may be equal, if an event arrived twice.
            sources[id(arrival)] = message
        # The store commits before the queue. The other order would lose the effects of an event if the engine died in
        # between (decision 0920).
        batch = self._store_effects(arrivals)
        for arrival, why in batch.refused:
            dispatcher.quarantine(sources[id(arrival)], why)
        return self._commit(dispatcher, batch.asks)

    def _commit(self, dispatcher: RequestDispatcher, asks: Sequence[Ask]) -> bool:
        refusal = dispatcher.commit(asks)
        if refusal is None:
            return True
        self._refusal = refusal
        self._again_ms = 0
        self._tell(refusal)
        return False

    def _retry_postponed(self, dispatcher: RequestDispatcher) -> bool:
        """Send postponed requests, if it is time; return whether more may be accepted now."""
        now_ms = self._clock.monotonic_ms()
        if not self._postponed or now_ms < self._again_ms:
            return False
        refusal = dispatcher.retry_postponed(self._waited_for)
        if refusal is None:
            return bool(self._postponed)
        self._refusal = refusal  # the first refusal was reported
        self._again_ms = now_ms + _AGAIN_MS
        return False

    def _waited_for(self, instance_id: str) -> Ask | None:
        instance = self._store.find(instance_id)
        return None if instance is None else asked(self._flow(instance.flow, instance.version), instance)

    def _serve_overdue(self, dispatcher: RequestDispatcher) -> bool:
        """Handle instances whose answer is overdue; return whether there were any."""
        # One index lookup: most of the time nothing is overdue, and the next wait ends when something will be.
        self._due_ms = self._store.next_due_ms()
        now_ms = self._clock.time_ms()
        if self._due_ms is None or self._due_ms > now_ms:
            return False
        overdue = self._store.overdue(now_ms)
        # The revision is checked: an instance that has changed since the query is no longer overdue.
        batch = self._store_effects(
            [Arrival(instance=each.id, event=TimeOut(revision=each.revision)) for each in overdue]
        )
        # A refusal is reported and postponed in there; the instance is in the store, so its next time-out would also
        # repeat the request.
        self._commit(dispatcher, batch.asks)
        return bool(overdue)

    def _store_effects(self, arrivals: Sequence[Arrival]) -> Batch:
        """Write the effects of events, and return them: the requests to send, and the events without effect."""
        ids = list(dict.fromkeys(each.instance for each in arrivals))
        # Version 0 means the newest, which a deployment may have changed since the last batch.
        self._flows = {(name, version): flow for (name, version), flow in self._flows.items() if version}
        while True:  # until no other engine has changed one of them in between
            batch = decide(arrivals, self._store.find_all(ids), self._flow, self._clock.time_ms())
            # Another engine was quicker with one of them: all are read and decided again, as the batch is written as a
            # whole.
            if not (batch.begun or batch.changed) or self._store.keep(batch.begun, batch.changed):
                return batch

    def _flow(self, name: str, version: int) -> Flow:
        """Return a definition. Versions do not change, so they are cached; the number of the newest one, for one batch."""
        found = self._flows.get((name, version))
        if found is None:
            found = self._store.flow(name, version)
            self._flows[name, version] = self._flows[name, found.version] = found
        return found


_POSTPONED_MAX = 10_000
"""The maximum number of postponed instances per queue; the time-outs of the others repeat their requests."""
_AT_ONCE = 50
"""The maximum number of requests to a queue that accepts them again, before events get their turn."""

Postponed = dict[str, dict[str, None]]
"""The queues that have refused a request, each with the instances whose request is postponed, in order."""


class RequestDispatcher:
    """Sends the requests of one transacted session; `postponed` outlives it."""

    def __init__(self, session: Session, events: str, postponed: Postponed) -> None:
        self._session = session
        self._events = session.create_queue(events)
        self._bad = session.create_queue(f"{events}.bad")
        self._producer = session.create_producer(None)
        self._postponed = postponed

    def quarantine(self, message: Message, why: FlowException) -> None:
        """Move an event without effect to the queue of bad events, once the transaction is committed."""
        _log.warning("event %s is put aside: %s", message.jms_message_id, why)
        self._producer.send(self._bad, message)

    def commit(self, asks: Sequence[Ask]) -> JMSException | None:
        """Send requests, and commit; return the reason if all was rolled back: then the requests are postponed, and the
        received events redelivered.

        Some brokers report only that a commit failed, and not for which queue, so these requests are not sent together
        again. Raises errors of the provider that do not concern the requests.
        """
        refusal: JMSException
        is_asking = False
        try:
            for ask in asks:
                # A queue that has refused gets no request in a batch: its refusal would roll all the others back again.
                if ask.queue in self._postponed:
                    self._postpone(ask)
                else:
                    is_asking = True
                    self._send(ask)
        except JMSException as error:
            self._session.rollback()  # raises if the connection fails
            refusal = error
        else:
            try:
                self._session.commit()
            except TransactionRolledBackException as error:
                # No request was sent, so no step's queue refused it: the broker or the connection is in trouble.
                if not is_asking:
                    raise
                refusal = error
            else:
                return None
        for ask in asks:
            self._postpone(ask)
        return refusal

    def retry_postponed(self, waited_for: Callable[[str], Ask | None]) -> JMSException | None:
        """Send postponed requests, one by one, until their queue refuses; return the last refusal. Raises as `commit`
        does.
        """
        refusal = None
        for queue in list(self._postponed):
            # Removed meanwhile, so that commit sends to this queue instead of postponing again.
            waiting = self._postponed.pop(queue)
            try:
                for instance in list(waiting)[:_AT_ONCE]:
                    # From the store, as the instance may have advanced, or have been cancelled, since its request was
                    # refused.
                    ask = waited_for(instance)
                    refused = self.commit([ask]) if ask is not None and ask.queue == queue else None
                    del waiting[instance]
                    if refused is not None:
                        waiting[instance] = None  # moved to the end: perhaps only this request is refused
                        refusal = refused
                        break
            finally:
                if waiting:
                    self._postponed[queue] = waiting
        return refusal

    def _send(self, ask: Ask) -> None:
        message = ask_message(self._session, ask)
        message.jms_reply_to = self._events
        self._producer.send(self._session.create_queue(ask.queue), message)

    def _postpone(self, ask: Ask) -> None:
        waiting = self._postponed.setdefault(ask.queue, {})
        # A dictionary keeps the order and each instance once, however often it is refused.
        if len(waiting) < _POSTPONED_MAX:
            waiting[ask.instance] = None
