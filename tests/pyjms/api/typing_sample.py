"""What type checkers should see: each statement is right, or carries the error that mypy must find in it.

mypy --strict reports an ignored error that is none, so this file passes only if each of them is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_type

import pyjms
from pyjms import (
    AcknowledgeMode,
    CompletionListener,
    Connection,
    ConnectionFactory,
    DeliveryMode,
    Destination,
    Enumeration,
    JMSConsumer,
    JMSContext,
    JMSException,
    JMSProducer,
    JMSRuntimeException,
    MapMessage,
    Message,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    Queue,
    QueueSender,
    ServerSession,
    Session,
    TextMessage,
    TopicPublisher,
    XAResource,
    Xid,
)
from pyjms.types import Boxed, Byte, Long


def python_names(connection: Connection) -> None:
    assert_type(connection.client_id, str | None)
    connection.client_id = "till-1"
    session = connection.create_session(True, Session.AUTO_ACKNOWLEDGE)
    assert_type(session, Session)
    assert_type(session.acknowledge_mode, AcknowledgeMode)
    message = session.create_text_message("x")
    assert_type(message, TextMessage)
    assert_type(message.text, str | None)
    assert_type(message.get_long_property("n"), Long)
    assert_type(message.property_names, Enumeration[str])
    with session.create_consumer(session.create_queue("q"), "a > 1", no_local=True) as consumer:
        assert_type(consumer, MessageConsumer)
        assert_type(consumer.receive(1000), Message | None)
    for browsed in session.create_browser(session.create_queue("q")):
        assert_type(browsed, Message)


def contexts(factory: ConnectionFactory, text: TextMessage) -> None:
    with factory.create_context("user", "word", JMSContext.SESSION_TRANSACTED) as context:
        assert_type(context, JMSContext)
        assert_type(factory.createContext(JMSContext.CLIENT_ACKNOWLEDGE), JMSContext)
        queue = context.create_queue("q")
        producer = context.create_producer().set_priority(7).setTimeToLive(1000).set_property("cups", 2)
        assert_type(producer, JMSProducer)
        assert_type(producer.send(queue, "tea").send(queue, text), JMSProducer)
        assert_type(producer.priority, int)
        producer.priority = 9
        producer.priority = "high"  # type: ignore[assignment]
        assert_type(producer.async_, CompletionListener | None)
        consumer = context.createConsumer(queue, "cups > 1")
        assert_type(consumer, JMSConsumer)
        assert_type(consumer.receive_body(str, 1000), str | None)
        assert_type(consumer.receiveBodyNoWait(dict), dict[Any, Any] | None)
        context.transacted = True  # type: ignore[misc]
        assert_type(JMSRuntimeException("why", "E", ValueError()).getErrorCode(), str | None)


def java_names(connection: Connection) -> None:
    assert_type(connection.getClientID(), str | None)
    connection.setClientID("till-1")
    session = connection.createSession(False, Session.CLIENT_ACKNOWLEDGE)
    assert_type(session, Session)
    message = session.createTextMessage("x")
    assert_type(message, TextMessage)
    assert_type(message.getText(), str | None)
    assert_type(message.getByteProperty("n"), Byte)
    assert_type(message.getObjectProperty("n"), Boxed)
    assert_type(message.getPropertyNames().nextElement(), str)
    assert_type(session.createConsumer(session.createQueue("q"), "a > 1", True).receiveNoWait(), Message | None)


def overloads(producer: MessageProducer, sender: QueueSender, publisher: TopicPublisher, message: Message) -> None:
    queue: Queue | None = sender.queue
    assert queue is not None
    producer.send(message)
    producer.send(message, DeliveryMode.PERSISTENT, 4, 0)
    producer.send(queue, message)
    producer.send(queue, message, DeliveryMode.PERSISTENT, 4, 0)
    producer.send(destination=queue, message=message, time_to_live=5000)
    sender.send(queue=queue, message=message)
    sender.send(destination=queue, message=message)
    publisher.publish(message, 1, 4, 0)
    producer.send(queue)  # type: ignore[call-overload]
    producer.send(message, "often")  # type: ignore[call-overload]
    sender.send(topic=queue, message=message)  # type: ignore[call-overload]
    publisher.publish(queue, message)  # type: ignore[call-overload]


def errors_are_found(session: Session, body: MapMessage, consumer: MessageConsumer) -> None:
    session.createTextMessage(1)  # type: ignore[arg-type]
    session.create_text_message(1)  # type: ignore[arg-type]
    session.createTxtMessage("x")  # type: ignore[attr-defined]
    body.setInt("n", "1")  # type: ignore[arg-type]
    body.set_int("n", "1")  # type: ignore[arg-type]
    body.setJMSCorrelationID(1)  # type: ignore[arg-type]
    body.jms_correlation_id = 1  # type: ignore[assignment]
    body.map_names = Enumeration(["a"])  # type: ignore[misc]
    body.setMapNames(["a"])  # type: ignore[attr-defined]
    consumer.receive("1 s")  # type: ignore[arg-type]
    wrong: int = body.getString("n")  # type: ignore[assignment]
    assert wrong


class JavaListener(MessageListener):
    """Implements by the Java name."""

    def onMessage(self, message: Message) -> None:
        assert_type(message.jms_reply_to, Destination | None)


class PythonListener(MessageListener):
    """Implements by the Python name."""

    def on_message(self, message: Message) -> None:
        message.acknowledge()


class WrongListener(MessageListener):
    """Takes what no listener is given."""

    def onMessage(self, message: str) -> None:  # type: ignore[override]
        raise ValueError(message)


def listeners(consumer: MessageConsumer, connection: Connection) -> None:
    consumer.message_listener = JavaListener()
    consumer.setMessageListener(PythonListener())
    consumer.setMessageListener(lambda message: message.acknowledge())
    consumer.setMessageListener(None)
    connection.exception_listener = lambda error: error.setLinkedException(None)
    consumer.setMessageListener("a name")  # type: ignore[arg-type]
    consumer.message_listener = lambda: None  # type: ignore[assignment]


def errors_have_both_names(error: JMSException) -> str:
    assert_type(error.getLinkedException(), BaseException | None)
    assert_type(error.message, str | None)
    error.error_code = "E"  # type: ignore[misc]
    return error.getMessage() or "no reason"


def transactions(resource: XAResource, xid: Xid) -> int:
    assert_type(resource.recover(XAResource.TMSTARTRSCAN), Sequence[Xid])
    assert_type(xid.getGlobalTransactionId(), bytes)
    try:
        return resource.prepare(xid)
    except pyjms.XAException as error:
        assert_type(error.errorCode, int)
        return error.error_code


class ServedByField(ServerSession):
    """Annotates the field that is named as its getter, and has the getter, too."""

    session: Session

    def __init__(self, session: Session) -> None:
        self.session = session

    def getSession(self) -> Session:
        return self.session

    def start(self) -> None:
        self.session.run()


@dataclass
class Branch(Xid):
    """Has fields in place of all getters."""

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes = b""


@dataclass(frozen=True, slots=True)
class FrozenBranch(Xid):
    """Has the same, which cannot be changed."""

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes = b""


class OrderError(JMSException):
    """Has a field that is named as a getter of exceptions."""

    message: str

    def __init__(self, message: str) -> None:
        super().__init__("why")
        self.message = message


class NotAnnotated(ServerSession):
    """Writes a property that the interface has for reading alone."""

    def __init__(self, session: Session) -> None:
        self.session = session  # type: ignore[misc]

    def start(self) -> None: ...


class Hiding(ServerSession):
    """Has a field that hides a method."""

    session: Session
    start: float  # type: ignore[assignment]


def fields(session: Session) -> None:
    served = ServedByField(session)
    assert_type(served.session, Session)
    assert_type(served.getSession(), Session)
    assert_type(Branch(1, b"transaction").getFormatId(), int)
    assert_type(FrozenBranch(1, b"transaction").getGlobalTransactionId(), bytes)
    assert_type(OrderError("no cups").message, str)
    FrozenBranch(1, b"transaction").format_id = 2  # type: ignore[misc]
    served.session = "a name"  # type: ignore[assignment]


ANYTHING: Any = (python_names, contexts, java_names, overloads, errors_are_found, listeners, fields)
