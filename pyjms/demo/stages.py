"""The work of one unit at each stage: what is done with one message between its receipt and the commit.

A stage's maker is called with a worker's connection and its transacted session; it returns the step, which is called
with each message. Sending through the transacted session is all that a step does to the world, so undoing is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyjms import Connection, DeliveryMode, MapMessage, Message, MessageProducer, Session
from pyjms.demo.names import Names
from pyjms.demo.plan import Lane, Plan
from pyjms.demo.records import Record, Value

__all__ = ["Step", "StepMaker", "StepMakers", "as_map", "record_message"]

Step: TypeAlias = Callable[[MapMessage], None]
StepMaker: TypeAlias = Callable[[Connection, Session], Step]

ANSWER_WITHIN_MS = 30_000


class StepMakers:
    """The makers of the three stages' steps; a subclass may do one of them otherwise."""

    def __init__(self, plan: Plan, names: Names) -> None:
        self.plan = plan
        self.names = names

    def check(self, connection: Connection, session: Session) -> Step:
        """Each record is marked as complete or not."""
        producer = session.create_producer(session.create_queue(self.names.checked))

        def step(message: MapMessage) -> None:
            complete = all(message.get_object(name) is not None for name in message.map_names)
            self.send_on(producer, message, complete=complete)

        return step

    def look_up(self, connection: Connection, session: Session) -> Step:
        """Each record is labelled with what the desk answers."""
        producer = session.create_producer(session.create_queue(self.names.looked_up))
        enquiry = Enquiry(connection, self.names)
        route = [self.plan.properties[column] for column in self.plan.route]

        def step(message: MapMessage) -> None:
            answer = enquiry.ask([message.get_string_property(name) for name in route])
            self.send_on(producer, message, label=answer.get_string("label"))

        return step

    def dispatch(self, lane: Lane) -> StepMaker:
        """Each record goes to its lane's queue and, in the same unit, to the topic."""

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
        """Send a received message on with more properties. Its body goes as it came.

        The properties of a received message are read-only until they are cleared (JMS 1.1 §3.10), so they are taken
        out, cleared, and set again; those of the provider, whose names begin with JMS, are its own business.
        """
        kept = {name: message.get_object_property(name) for name in message.property_names if name[:3] != "JMS"}
        message.clear_properties()
        for name, value in {**kept, **properties}.items():
            message.set_object_property(name, value)
        producer.send(message)


class Enquiry:
    """The asking side of requests and replies, over a temporary queue.

    It has a session of its own that is not transacted: a request sent through the worker's transacted session would
    stay invisible until the commit, which waits for the answer. Asking twice does no harm, so requests and replies are
    not PERSISTENT: who dies while it waits asks again.
    """

    def __init__(self, connection: Connection, names: Names) -> None:
        self._session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self._reply_to = self._session.create_temporary_queue()
        self._replies = self._session.create_consumer(self._reply_to)
        self._requests = self._session.create_producer(self._session.create_queue(names.desk))
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
