"""The API: every type, method, property and constant of JMS 1.1 that ``data/api.json`` lists, on a provider's objects."""

from __future__ import annotations

from typing import Any

import pytest

import pyjms
from pyjms import (
    BytesMessage,
    ConnectionFactory,
    JMSException,
    MessageConsumer,
    Queue,
    QueueConnectionFactory,
    QueueRequestor,
    Session,
    Topic,
    TopicConnectionFactory,
    TopicRequestor,
    XAConnectionFactory,
    XAQueueConnectionFactory,
    XATopicConnectionFactory,
)
from pyjms_tck.checks import Checks, expect
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeFactory
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.members import check_members, check_objects, types
from pyjms_tck.vectors import BODY_TYPES, PROPERTY_TYPES

_INHERITING = {
    "Message": ("Message", "TextMessage", "ObjectMessage", "MapMessage", "StreamMessage", "BytesMessage"),
    "Session": ("Session", "QueueSession", "TopicSession", "XASession", "XAQueueSession", "XATopicSession"),
    "DeliveryMode": ("DeliveryMode",),
}


@requirement("11.1-a")
def test_11_1_a_constants_have_their_values(session: Session) -> None:
    with Checks() as check:
        for owner, heirs in _INHERITING.items():
            for name, value in types()[owner]["constants"].items():
                # In Java an interface inherits the constants of those that it extends, so each heir is asked.
                for heir in heirs:
                    seen = getattr(getattr(pyjms, heir), name, "nothing")
                    check.same(f"{heir}.{name}", seen == value and isinstance(seen, int), True)
        for name, value in types()["Session"]["constants"].items():
            check.same(f"{name} of a session", int(getattr(session, name)), value)


@requirement("11.2-a")
def test_11_2_a_factories_and_connections(connect: Connect, make_factory: MakeFactory) -> None:
    factory = make_factory(ConnectionFactory)
    connection = connect()
    check_objects(ConnectionFactory=factory, Connection=connection, ConnectionMetaData=connection.meta_data)


@requirement("11.2-a")
@pytest.mark.parametrize("domain", ["Queue", pytest.param("Topic", marks=needs("TOPICS"))])
def test_11_2_a_factories_and_connections_of_a_domain(make_factory: MakeFactory, domain: str) -> None:
    kind: Any = {"Queue": QueueConnectionFactory, "Topic": TopicConnectionFactory}[domain]
    factory: Any = make_factory(kind)
    with getattr(factory, f"create{domain}Connection")() as connection:
        check_objects(**{f"{domain}ConnectionFactory": factory, f"{domain}Connection": connection})


@requirement("11.3-a")
def test_11_3_a_sessions(session: Session) -> None:
    check_objects(Session=session)


@requirement("11.3-a")
@pytest.mark.parametrize("domain", ["Queue", pytest.param("Topic", marks=needs("TOPICS"))])
def test_11_3_a_sessions_of_a_domain(make_factory: MakeFactory, domain: str) -> None:
    with _domain_session(make_factory, domain) as session:
        check_objects(**{f"{domain}Session": session})


def _domain_session(make_factory: MakeFactory, domain: str) -> Any:
    """Return a session of a domain, whose connection ends with it."""
    if domain == "Queue":
        return _Owned(make_factory(QueueConnectionFactory).create_queue_connection(), "create_queue_session")
    return _Owned(make_factory(TopicConnectionFactory).create_topic_connection(), "create_topic_session")


class _Owned:
    """A context manager: a session, closed with its connection."""

    def __init__(self, connection: Any, create: str) -> None:
        self._connection = connection
        self._create = create

    def __enter__(self) -> Any:
        return getattr(self._connection, self._create)(False, Session.AUTO_ACKNOWLEDGE)

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@requirement("11.4-a")
def test_11_4_a_producers_and_consumers(session: Session, queue: Queue) -> None:
    check_objects(MessageProducer=session.create_producer(queue), MessageConsumer=session.create_consumer(queue))


@requirement("11.4-a")
@needs("BROWSING")
def test_11_4_a_browsers(session: Session, queue: Queue) -> None:
    check_objects(QueueBrowser=session.create_browser(queue))


@requirement("11.4-a")
def test_11_4_a_senders_and_receivers(make_factory: MakeFactory, queue: Queue) -> None:
    with _domain_session(make_factory, "Queue") as session:
        check_objects(QueueSender=session.create_sender(queue), QueueReceiver=session.create_receiver(queue))


@requirement("11.4-a")
def test_11_4_a_publishers_and_subscribers(make_factory: MakeFactory, topic: Topic) -> None:
    with _domain_session(make_factory, "Topic") as session:
        check_objects(TopicPublisher=session.create_publisher(topic), TopicSubscriber=session.create_subscriber(topic))


@requirement("11.5-a")
def test_11_5_a_queues(session: Session, queue: Queue) -> None:
    check_objects(Queue=queue, Destination=session.create_queue(queue.queue_name))


@requirement("11.5-a")
def test_11_5_a_topics(topic: Topic) -> None:
    check_objects(Topic=topic)


@requirement("11.5-a")
@needs("TEMPORARY_DESTINATIONS")
def test_11_5_a_temporary_destinations(session: Session) -> None:
    check_objects(TemporaryQueue=session.create_temporary_queue())


@requirement("11.5-a")
@needs("TEMPORARY_DESTINATIONS", "TOPICS")
def test_11_5_a_temporary_topics(session: Session) -> None:
    check_objects(TemporaryTopic=session.create_temporary_topic())


_MESSAGES = ("Message", "TextMessage", "ObjectMessage", "MapMessage", "StreamMessage", "BytesMessage")


@requirement("11.6-a")
@pytest.mark.parametrize("name", _MESSAGES)
def test_11_6_a_messages(session: Session, queue: Queue, waits: Waits, name: str) -> None:
    message = getattr(session, f"create{name}")()
    check_objects(**{name: message})
    session.create_producer(queue).send(message)
    # A received message may be of another class than one that the session makes.
    received = session.create_consumer(queue).receive(waits.something_ms)
    assert received is not None, f"a {name} was sent and not received"
    check_objects(**{name: received})


@requirement("11.6-b")
def test_11_6_b_values_can_be_given_by_name(session: Session) -> None:
    message: Any = session.create_message()
    map: Any = session.create_map_message()
    stream: Any = session.create_stream_message()
    with Checks() as check:
        for type in PROPERTY_TYPES:
            value, word = type.values[0], type.word.lower()
            getattr(message, f"set_{word}_property")(name="it", value=value)
            check.gives(f"get_{word}_property(name=...)", value, getattr(message, f"get_{word}_property"), "it")
            check.same("the same by name", getattr(message, f"get{type.word}Property")(name="it"), value)
        for type in BODY_TYPES:
            value, word = type.values[0], type.word.lower()
            getattr(map, f"set_{word}")(name="it", value=value)
            check.same(f"get_{word}(name=...)", getattr(map, f"get_{word}")(name="it"), value)
            getattr(stream, f"write_{word}")(value=value)
        stream.reset()
        for type in BODY_TYPES:
            check.same(f"{type.name} written by name", stream.readObject(), type.values[0])
        check.same("readBytes(value=..., length=...)", _some(session.create_bytes_message()), b"bc\x00")


def _some(message: BytesMessage) -> bytes:
    message.write_bytes(value=b"abcd", offset=1, length=2)
    message.reset()
    buffer = bytearray(3)
    message.read_bytes(value=buffer, length=2)
    return bytes(buffer)


def _done(*_: object) -> str:
    return "done"


def _on_message(self: object, message: object) -> str:
    return _done(self, message)


def _on_exception(self: object, exception: object) -> str:
    return _done(self, exception)


def _answer(self: object) -> str:
    return _done(self)


_IMPLEMENTED: dict[str, tuple[tuple[str, str, Any], ...]] = {
    "MessageListener": (("onMessage", "on_message", _on_message),),
    "ExceptionListener": (("onException", "on_exception", _on_exception),),
    "ServerSession": (("start", "start", _answer), ("getSession", "session", property(_answer))),
    "ServerSessionPool": (("getServerSession", "get_server_session", _answer),),
}


@requirement("11.7-a")
@pytest.mark.parametrize("style", ["Java", "Python"])
@pytest.mark.parametrize("name", list(_IMPLEMENTED))
def test_11_7_a_either_name_can_be_implemented(name: str, style: str) -> None:
    interface = getattr(pyjms, name)
    body: dict[str, Any] = {}
    for java, python, member in _IMPLEMENTED[name]:
        body[python if style == "Python" else java] = (
            _answer if style == "Java" and isinstance(member, property) else member
        )
    object = type("Implementation", (interface,), body)()
    with Checks() as check:
        check_members(check, name, object)
        for java, python, member in _IMPLEMENTED[name]:
            given = () if member is _answer or isinstance(member, property) else (None,)
            check.gives(f"{name}.{java}, written in {style}'s style", "done", getattr(object, java), *given)
            seen = getattr(object, python)
            check.same(f"{name}.{python}, written in {style}'s style", seen(*given) if callable(seen) else seen, "done")
    # A class that implements neither name is refused at once, not at the first call.
    with pytest.raises(TypeError):
        type("Incomplete", (interface,), {})()


@requirement("11.7-b")
def test_11_7_b_callables_serve_as_listeners(connect: Connect, session: Session, queue: Queue, waits: Waits) -> None:
    connection = connect()
    problems: list[JMSException] = []
    connection.exception_listener = problems.append
    expect("the exception listener", connection.exception_listener == problems.append, True)
    seen: list[Any] = []
    consumer: MessageConsumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
    consumer.setMessageListener(seen.append)
    connection.start()
    session.create_producer(queue).send(session.create_text_message("hello"))
    waits.until(lambda: seen, "a plain function that is a MessageListener is called")
    expect("what it was called with", seen[0].text, "hello")


@requirement("11.8-a")
@needs("TEMPORARY_DESTINATIONS")
def test_11_8_a_queue_requestors(make_factory: MakeFactory, queue: Queue) -> None:
    with _domain_session(make_factory, "Queue") as session:
        check_objects(QueueRequestor=QueueRequestor(session=session, queue=queue))


@requirement("11.8-a")
@needs("TEMPORARY_DESTINATIONS")
def test_11_8_a_topic_requestors(make_factory: MakeFactory, topic: Topic) -> None:
    with _domain_session(make_factory, "Topic") as session:
        check_objects(TopicRequestor=TopicRequestor(session=session, topic=topic))


@requirement("11.9-a")
def test_11_9_a_exceptions_form_a_tree() -> None:
    with Checks() as check:
        for name, type in types().items():
            if type["kind"] != "exception":
                continue
            exception = getattr(pyjms, name)
            base = Exception if type["extends"] == ["Exception"] else getattr(pyjms, type["extends"][0])
            check.same(f"whether {name} is a {base.__name__}", issubclass(exception, base), True)
            check_members(check, name, exception("the reason"))
            for parameters in type["constructors"]:
                given = dict.fromkeys(parameters, "text")
                check.gives(
                    f"{name} made by name", "text", lambda exception, given: str(exception(**given)), exception, given
                )


_JAVA_ERRORS = (
    "IllegalArgumentException",
    "IndexOutOfBoundsException",
    "NullPointerException",
    "NumberFormatException",
    "UnsupportedOperationException",
)


@requirement("11.9-b")
def test_11_9_b_java_exceptions_exist_and_are_no_jms_exceptions() -> None:
    with Checks() as check:
        for name in _JAVA_ERRORS:
            exception = getattr(pyjms, name, None)
            check.same(f"whether there is {name}", exception is not None, True)
            if exception is not None:
                check.same(f"whether {name} is a JMSException", issubclass(exception, JMSException), False)
        related = issubclass(pyjms.NumberFormatException, pyjms.IllegalArgumentException)
        check.same("whether NumberFormatException is an IllegalArgumentException", related, True)


@requirement("11.10-a")
def test_11_10_a_xa(make_factory: MakeFactory) -> None:
    factory: Any = make_factory(XAConnectionFactory)
    with factory.create_xa_connection() as connection:
        session = connection.create_xa_session()
        check_objects(XAConnectionFactory=factory, XAConnection=connection, XASession=session)


@requirement("11.10-a")
@pytest.mark.parametrize("domain", ["Queue", pytest.param("Topic", marks=needs("TOPICS"))])
def test_11_10_a_xa_of_a_domain(make_factory: MakeFactory, domain: str) -> None:
    kind: Any = {"Queue": XAQueueConnectionFactory, "Topic": XATopicConnectionFactory}[domain]
    factory: Any = make_factory(kind)
    with getattr(factory, f"createXA{domain}Connection")() as connection:
        session = getattr(connection, f"createXA{domain}Session")()
        check_objects(
            **{
                f"XA{domain}ConnectionFactory": factory,
                f"XA{domain}Connection": connection,
                f"XA{domain}Session": session,
            }
        )


class _Pool(pyjms.ServerSessionPool):
    """A pool that has no session."""

    def get_server_session(self) -> Any:
        raise JMSException("no message is sent to this queue, so nobody asks")


@requirement("11.11-a")
def test_11_11_a_connection_consumers(connect: Connect, queue: Queue) -> None:
    with connect().create_connection_consumer(queue, None, _Pool(), 1) as consumer:
        check_objects(ConnectionConsumer=consumer)
