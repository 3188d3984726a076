"""Transacted workers: each consumes one message and produces what follows from it in one unit of work.

Each worker has its own connection, as if it were a process. Sometimes it fails, after its work and before the commit:
either the unit is rolled back, or the connection is closed and the worker starts again. In both cases the broker must
undo the sends and redeliver the message.

A broker dead-letters a message that was delivered too often. Here the worker is at fault and not the message, so each
worker also processes the dead letters of its source, when the source is empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from threading import Event
from typing import TypeAlias

from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    InvalidDestinationException,
    MapMessage,
    Message,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    Session,
)
from pyjms.demo.books import Happening, Pages, StageCounter, Stamps
from pyjms.demo.plan import DEAD_LETTERS, Lane, Names, Plan, Record, Value
from pyjms.demo.settings import Chance, Fate

# The work of one unit at each stage: the processing of one message between its receipt and the commit. A stage's maker
# is called with a worker's connection and its transacted session; it returns the step, which is called with each
# message. A step's only effect is sending through the transacted session, so a rollback undoes it completely.

Step: TypeAlias = Callable[[MapMessage], None]
StepMaker: TypeAlias = Callable[[Connection, Session], Step]

ANSWER_WITHIN_MS = 30_000


class StepMakers:
    """The factories of the three stages' steps; a subclass may override one."""

    def __init__(self, plan: Plan, names: Names) -> None:
        self.plan = plan
        self.names = names

    def check(self, connection: Connection, session: Session) -> Step:
        """Return a step that marks each record as complete or not."""
        producer = session.create_producer(session.create_queue(self.names.checked))

        def step(message: MapMessage) -> None:
            complete = all(message.get_object(name) is not None for name in message.map_names)
            self.send_on(producer, message, complete=complete)

        return step

    def look_up(self, connection: Connection, session: Session) -> Step:
        """Return a step that labels each record with the desk's answer."""
        producer = session.create_producer(session.create_queue(self.names.looked_up))
        enquiry = Enquiry(connection, self.names)
        route = [self.plan.properties[column] for column in self.plan.route]

        def step(message: MapMessage) -> None:
            answer = enquiry.ask([message.get_string_property(name) for name in route])
            self.send_on(producer, message, label=answer.get_string("label"))

        return step

    def dispatch(self, lane: Lane) -> StepMaker:
        """Return a step that sends each record to its lane's queue and, in the same unit, to the topic."""

        def maker(_connection: Connection, session: Session) -> Step:
            number = self.plan.lanes.index(lane)
            to_lane = session.create_producer(session.create_queue(self.names.lane(number)))
            to_all = session.create_producer(session.create_topic(self.names.dispatched))

            def step(message: MapMessage) -> None:
                self.send_on(to_lane, message, lane=lane.name)
                to_all.send(message)

            return step

        return maker

    def send_on(self, producer: MessageProducer, message: MapMessage, **properties: Value) -> None:
        """Forward a received message with more properties and the same body.

        The properties of a received message are read-only until they are cleared (JMS 1.1 §3.10), so they are copied,
        cleared, and set again, without the provider's, whose names begin with JMS.
        """
        # Received properties are read-only until they are cleared (JMS 1.1 §3.10), so they are copied and set again.
        # Names with JMS are the provider's.
        kept = {name: message.get_object_property(name) for name in message.property_names if name[:3] != "JMS"}
        message.clear_properties()
        for name, value in {**kept, **properties}.items():
            message.set_object_property(name, value)
        producer.send(message)


class Enquiry:
    """The client of requests and replies, over a temporary queue.

    It has a session of its own that is not transacted: a request sent through the worker's transacted session would
    stay invisible until the commit, which waits for the answer. Asking twice does no harm, so requests and replies are
    not PERSISTENT: after a crash a worker asks again.
    """

    def __init__(self, connection: Connection, names: Names) -> None:
        # Not the worker's session: a request sent in its transaction would stay invisible until the commit, which waits
        # for the answer.
        self._session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self._reply_to = self._session.create_temporary_queue()
        self._replies = self._session.create_consumer(self._reply_to)
        self._requests = self._session.create_producer(self._session.create_queue(names.desk))
        # Asking twice does no harm, so a lost request costs one more question and no write to the disk.
        self._requests.delivery_mode = DeliveryMode.NON_PERSISTENT

    def ask(self, key: list[str | None]) -> MapMessage:
        """Return the desk's answer about `key`.

        Raises:
            TimeoutError: It does not answer.
        """
        request = self._session.create_map_message()
        for number, value in enumerate(key):
            request.set_string(str(number), value)
        request.jms_reply_to = self._reply_to
        self._requests.send(request)
        while reply := self._replies.receive(ANSWER_WITHIN_MS):
            if reply.jms_correlation_id == request.jms_message_id:
                return as_map(reply)
        raise TimeoutError(f"the desk has not answered for {ANSWER_WITHIN_MS // 1000} seconds")


def record_message(session: Session, plan: Plan, record: Record) -> MapMessage:
    """Return the message of one record: every column in the body, typed, and as a property where it has a value."""
    message = session.create_map_message()
    for column, value in zip(plan.table.columns, record.values, strict=True):
        message.set_object(column, value)
    for name, value in plan.properties_of(record).items():
        message.set_object_property(name, value)
    message.set_int_property("record_id", record.id)
    message.set_object_property("amount", plan.amount_of(record))
    return message


def as_map(message: Message) -> MapMessage:
    """Return the message, which was sent as a map message and must have come as one."""
    if not isinstance(message, MapMessage):
        raise TypeError(f"a {type(message).__name__} came where map messages were sent")
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Signals to end a thread: `drain` when nothing more will arrive, `stop` at once."""

    stop: Event
    drain: Event
    idle_ms: int
    """How long a queue must be silent to count as empty, when nothing more will arrive."""

    def is_over(self) -> bool:
        """Whether a thread that receives nothing from now on must end."""
        return self.drain.is_set() or self.stop.is_set()


class Source:
    """The source of one receiver: its messages, and its dead letters."""

    def __init__(self, session: Session, consumer: MessageConsumer, dead_letters: str) -> None:
        self._consumer = consumer
        self._set_aside = session.create_consumer(session.create_queue(DEAD_LETTERS), dead_letters)

    def receive(self, timeout_ms: int) -> Message | None:
        """Return the next message; None after `timeout_ms` without one."""
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
    counter: StageCounter
    signals: Signals
    unwritten: Counter[Happening] = field(default_factory=Counter)
    """The events since this worker's last commit: they are recorded with the next."""

    def run(self) -> None:
        """Work until the queue is drained or the demo is stopped."""
        while self._serve() is Fate.CRASHED:
            self._note(Happening.CRASHED)

    def _serve(self) -> Fate:
        """Work on one connection. Leaving it closes it; an uncommitted unit is rolled back (§4.3.5)."""
        # A connection for each life of a worker, as if it were a process: closing it in the middle of a unit is the
        # crash.
        with self.factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            consumer = session.create_consumer(session.create_queue(self.source), self.selector)
            # In the worker's own session, so that a dead letter is processed in one unit, too.
            source = Source(session, consumer, self.names.dead_letters_of(self.source, self.selector))
            stamps = Stamps(session, self.names, self.counter.name)
            step = self.maker(connection, session)
            connection.start()
            return self._work(session, source, step, stamps)

    def _work(self, session: Session, source: Source, step: Step, stamps: Stamps) -> Fate:
        while not self.signals.stop.is_set():
            # checked first; otherwise messages that arrive meanwhile would remain
            nothing_more_comes = self.signals.is_over()
            message = source.receive(self.signals.idle_ms)
            if message is None:
                if nothing_more_comes:
                    break
                continue
            # The fate is known after the work and before the commit, where a failure has the most to undo.
            fate = self._unit(step, as_map(message))
            if fate is Fate.CRASHED:
                return fate
            if fate is Fate.ROLLED_BACK:
                session.rollback()
                self._note(Happening.ROLLED_BACK)
            else:
                # The stamp is in the same transaction as the work: a killed run counts neither too much nor too little.
                self._commit(session, stamps, done=1)
                self.counter.add(Happening.DONE)
        # Failures after the last commit would otherwise be missing in the counts of a resumed run.
        if self.unwritten:
            self._commit(session, stamps)
        return Fate.DONE

    def _unit(self, step: Step, message: MapMessage) -> Fate:
        record_id = message.get_int_property("record_id")
        if message.jms_redelivered:
            self._note(Happening.REDELIVERED)
        # A dead letter arrives as a new message, without the redelivered flag.
        elif message.property_exists("JMS_pyjms_deadDestination"):
            self._note(Happening.SET_ASIDE)
        step(message)
        return self.chance.fate(self.counter.name, record_id, self.counter.attempt(record_id))

    def _note(self, happening: Happening) -> None:
        self.counter.add(happening)
        # Counted at once for the screen, and recorded with the next commit: a rollback must not undo it.
        self.unwritten[happening] += 1

    def _commit(self, session: Session, stamps: Stamps, done: int = 0) -> None:
        stamps.put({Happening.DONE: done, **self.unwritten})
        session.commit()
        self.unwritten.clear()


# The receivers at the end: subscribers of the topic, and the auditor that empties the queues afterwards. Receipts are
# recorded in the same unit of work, so an entry is in the books exactly when its message will not be redelivered.

BATCH = 50


@dataclass(slots=True)
class Account:
    """The number of messages of one collector. For one thread."""

    name: str
    names: Names
    counter: StageCounter
    count: int = 0

    def collect(self, session: Session, source: Source, signals: Signals, enough: int | None = None) -> None:
        """Receive until nothing more arrives, committing in batches; or until there is enough, which then stays
        uncommitted.
        """
        pages = Pages(session, self.names, self.name)
        batch: list[Message] = []
        while not signals.stop.is_set():
            nothing_more_comes = signals.is_over()
            message = source.receive(signals.idle_ms)
            if message is not None:
                batch.append(message)
                # The batch is not committed: closing the connection requeues it, as in a crash.
                if enough is not None and self.count + len(batch) >= enough:
                    return
            if batch and (message is None or len(batch) == BATCH):
                pages.put(batch)
                session.commit()
                # After the commit, so that the counts never include messages that will be redelivered.
                self._count(batch)
                batch = []
            if message is None and nothing_more_comes:
                return

    def _count(self, batch: list[Message]) -> None:
        self.count += len(batch)
        self.counter.add(Happening.DONE, len(batch))
        self.counter.add(Happening.REDELIVERED, sum(message.jms_redelivered for message in batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A connection to the topic, and its messages."""

    connection: Connection
    session: Session
    source: Source


class Subscriber:
    """A subscriber to the topic. Opened by one thread, run by another.

    An ordinary one gets messages published while it is connected. One that must outlive its process is durable.
    """

    def __init__(
        self, factory: ConnectionFactory, account: Account, selector: str | None = None, *, is_durable: bool
    ) -> None:
        self.account = account
        self._factory = factory
        self._selector = selector
        self._is_durable = is_durable
        # Subscribed in the constructor: an ordinary subscription gets only messages published afterwards.
        self._first: Visit | None = self._visit()

    def run(self, signals: Signals) -> None:
        """Receive until nothing more arrives, and end the subscription."""
        self.stay(signals, enough=None)

    def stay(self, signals: Signals, enough: int | None) -> None:
        """Receive until there is enough, or until nothing more arrives: then the subscription ends."""
        visit, self._first = self._first or self._visit(), None
        with closing(visit.connection):
            self.account.collect(visit.session, visit.source, signals, enough)
            if self._is_durable and enough is None and not signals.stop.is_set():
                # JMS refuses to delete a subscription with an active subscriber.
                visit.source.close()
                visit.session.unsubscribe(self.account.name)

    def close(self) -> None:
        """Close the connection, if it was not used."""
        visit, self._first = self._first, None
        if visit is not None:
            visit.connection.close()

    def _visit(self) -> Visit:
        with ExitStack() as undo:
            connection = self._factory.create_connection()
            undo.callback(connection.close)
            visit = self._subscribe(connection)
            undo.pop_all()
        return visit

    def _subscribe(self, connection: Connection) -> Visit:
        names, name = self.account.names, self.account.name
        if self._is_durable:
            # Before any other use of the connection (JMS 1.1 §4.3.2).
            connection.client_id = names.client_id(name)
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        topic = session.create_topic(names.dispatched)
        consumer: MessageConsumer = (
            session.create_durable_subscriber(topic, name, self._selector, False)
            if self._is_durable
            else session.create_consumer(topic, self._selector)
        )
        source = Source(session, consumer, names.dead_letters_for(name))
        connection.start()
        return Visit(connection=connection, session=session, source=source)


class Ledger(Subscriber):
    """A durable subscriber that disconnects halfway and reconnects when all others are done.

    It disconnects in the middle of a batch. Its uncommitted messages are redelivered, marked so, and messages published
    while it is disconnected are stored for it.
    """

    def __init__(self, factory: ConnectionFactory, account: Account) -> None:
        super().__init__(factory, account, is_durable=True)

    def run(self, signals: Signals) -> None:
        """Receive half, disconnect, reconnect, receive the rest, and end the subscription."""
        half = self.account.counter.total // 2
        # In the middle of a batch, so that some messages are redelivered, marked so.
        enough = half - half % BATCH + min(half, BATCH // 2)
        if self.account.count < enough:
            self.stay(signals, enough)
        else:
            self.close()  # it was disconnected when the process ended
        # Disconnected until all others are done: messages published meanwhile must be stored for the subscription.
        while not signals.is_over():
            signals.drain.wait(signals.idle_ms / 1000)
        self.stay(signals, enough=None)


# The server of requests and replies, with several sessions that share one queue of requests.


class Clerk(MessageListener):
    """Answers each request from the plan's reference table; runs on its session's own thread."""

    def __init__(self, session: Session, plan: Plan) -> None:
        self._session = session
        self._plan = plan
        # Without a destination, as each request names the queue of its reply.
        self._producer = session.create_producer(None)
        self._producer.delivery_mode = DeliveryMode.NON_PERSISTENT

    def on_message(self, message: Message) -> None:
        """Answer one request, to its JMSReplyTo."""
        request = as_map(message)
        key = tuple(request.get_string(str(number)) for number in range(len(self._plan.route)))
        kind = self._plan.kinds[key]
        reply = self._session.create_map_message()
        reply.set_string("label", kind.label)
        reply.set_int("records", kind.records)
        reply.set_double("total", kind.total)
        reply.jms_correlation_id = request.jms_message_id
        assert request.jms_reply_to is not None, "Enquiry always says where it waits"
        try:
            self._producer.send(request.jms_reply_to, reply)
        except InvalidDestinationException:
            return  # the client has closed, and with it its temporary queue: this answer is no longer needed


def open_desk(factory: ConnectionFactory, plan: Plan, names: Names, clerks: int) -> Connection:
    """Open the desk with `clerks` sessions; closing the connection closes it."""
    with ExitStack() as undo:
        connection = factory.create_connection()
        undo.callback(connection.close)
        for _ in range(clerks):
            # A session for each clerk: its listener runs on the session's own thread, so that clerks work in parallel.
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            consumer = session.create_consumer(session.create_queue(names.desk))
            consumer.message_listener = Clerk(session, plan)
        connection.start()
        undo.pop_all()
    return connection
