"""The answering side of requests and replies: a server with several sessions that share one queue of requests."""

from __future__ import annotations

from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    InvalidDestinationException,
    Message,
    MessageListener,
    Session,
)
from pyjms.demo.names import Names
from pyjms.demo.plan import Plan
from pyjms.demo.stages import as_map

__all__ = ["open_desk"]


class Clerk(MessageListener):
    """Answers each request from the reference table of the plan; runs on its session's own thread."""

    def __init__(self, session: Session, plan: Plan) -> None:
        self._session = session
        self._plan = plan
        self._producer = session.create_producer(None)
        self._producer.delivery_mode = DeliveryMode.NON_PERSISTENT

    def on_message(self, message: Message) -> None:
        """Answer one request, to wherever it wants the reply."""
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
            return  # the asker is gone, and its temporary queue with it: nobody waits for this answer


def open_desk(factory: ConnectionFactory, plan: Plan, names: Names, clerks: int) -> Connection:
    """Open the desk with so many clerks; closing the connection closes it."""
    connection = factory.create_connection()
    for _ in range(clerks):
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue(names.desk))
        consumer.message_listener = Clerk(session, plan)
    connection.start()
    return connection
