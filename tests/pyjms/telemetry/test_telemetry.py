"""OpenTelemetry: spans of messages, and their context on the way through brokers."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pyjms import (
    CompletionListener,
    Connection,
    ConnectionFactory,
    InvalidDestinationException,
    JMSException,
    Message,
    QueueConnectionFactory,
    QueueRequestor,
    Session,
    TextMessage,
    TopicConnectionFactory,
    TopicRequestor,
)
from pyjms.runtime.producer import JmsQueueSender
from pyjms.telemetry import context_of, instrument, instrument_if_wanted, processing, uninstrument
from pyjms.testing import Fault, Faults
from pyjms_provider.broker import stop_broker
from pyjms_provider.model.broker import manage, managed_host
from tests.needs.declaring import needing
from tests.pyjms.messages.foreign import JavaTextMessage


class Traced:
    """A program whose messages are traced, and what its exporter was given."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        instrument(self.provider)
        self.tracer = self.provider.get_tracer("application")

    def spans(self, operation: str) -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if each.name.startswith(operation)]


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    yield made
    uninstrument()
    made.provider.shutdown()


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = ConnectionFactory("vm://traced").create_connection()
    made.start()
    yield made
    made.close()
    stop_broker("traced")


class Domain:
    """A connection of the queue domain, or of the topic domain, to the same broker."""

    def __init__(self, kind: str, connection: Any) -> None:
        self.kind = kind
        self._connection = connection

    def session(self) -> Any:
        return getattr(self._connection, f"create_{self.kind}_session")(False, Session.AUTO_ACKNOWLEDGE)

    def destination(self, name: str) -> Any:
        return getattr(self.session(), f"create_{self.kind}")(name)

    def producer(self, session: Any, destination: Any) -> Any:
        return (session.create_sender if self.kind == "queue" else session.create_publisher)(destination)


@pytest.fixture
def domain(kind: str, connection: Connection) -> Iterator[Domain]:
    factory: Any = QueueConnectionFactory if kind == "queue" else TopicConnectionFactory
    with getattr(factory("vm://traced"), f"create_{kind}_connection")() as made:
        made.start()
        yield Domain(kind, made)


def trace_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def test_a_send_and_a_receive_have_spans_of_one_story(traced: Traced, connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    consumer = session.create_consumer(queue)
    message = session.create_text_message("one")
    message.jms_correlation_id = "c-1"
    with traced.tracer.start_as_current_span("request"):
        session.create_producer(queue).send(message)
    received = consumer.receive(5_000)
    assert received is not None
    (sent,), (got,) = traced.spans("send"), traced.spans("receive")
    assert (sent.name, sent.kind) == ("send orders", SpanKind.PRODUCER)
    assert sent.attributes == {
        "messaging.system": "jms",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": message.jms_message_id,
        "messaging.message.conversation_id": "c-1",
    }
    assert (got.name, got.kind) == ("receive orders", SpanKind.CLIENT)
    assert [link.context.span_id for link in got.links] == [sent.get_span_context().span_id]  # type: ignore[union-attr]
    assert trace_of(sent) == trace_of(traced.spans("request")[0])
    with processing(received):
        trace.get_current_span().set_attribute("mine", 1)
    (processed,) = traced.spans("process")
    assert processed.attributes is not None
    assert processed.attributes["mine"] == 1
    assert trace_of(processed) == trace_of(sent)
    assert trace.get_current_span(context_of(received)).get_span_context().trace_id == trace_of(sent)


@pytest.mark.parametrize(
    "create", ["create_durable_consumer", "create_shared_consumer", "create_shared_durable_consumer"]
)
@pytest.mark.parametrize("operation", ["receive", "process"])
def test_a_subscription_is_named(traced: Traced, create: str, operation: str) -> None:
    with ConnectionFactory("vm://traced", client_id="desk").create_connection() as connection:
        connection.start()
        session = connection.create_session()
        topic = session.create_topic("prices")
        named, plain = getattr(session, create)(topic, "all"), connection.create_session().create_consumer(topic)
        came = [Event(), Event()]
        with session.create_producer(topic) as producer:
            producer.send(session.create_text_message("1.80"))
        for consumer, event in zip((named, plain), came, strict=True):
            if operation == "receive":
                assert consumer.receive(5_000) is not None
            else:
                consumer.message_listener = lambda _, event=event: event.set()
                assert event.wait(5)
    stop_broker("traced")
    name = "messaging.destination.subscription.name"
    assert [(each.attributes or {}).get(name) for each in traced.spans(operation)] == ["all", None]
    assert [name in (each.attributes or {}) for each in traced.spans("send")] == [False]


def test_the_message_that_was_sent_shows_nothing_of_it(traced: Traced, connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    message = session.create_text_message("one")
    message.set_string_property("mine", "1")
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)
    producer.send(message)
    message.set_string_property("mine", "2")
    producer.send(message)
    assert list(message.property_names) == ["mine"]
    first, second = consumer.receive(5_000), consumer.receive(5_000)
    assert first is not None
    assert second is not None
    assert [each.get_string_property("mine") for each in (first, second)] == ["1", "2"]
    assert {"mine", "traceparent"} <= set(first.property_names)
    assert first.get_string_property("traceparent") != second.get_string_property("traceparent")
    producer.send(first)  # read-only, and traced all the same
    third = consumer.receive(5_000)
    assert third is not None
    assert third.get_string_property("traceparent") != first.get_string_property("traceparent")


def test_a_listener_works_within_the_trace_of_the_sender(traced: Traced, connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    seen: list[int] = []
    done = Event()

    def work(message: Message) -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)
        done.set()

    session.create_consumer(queue).setMessageListener(work)
    sender = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    sender.create_producer(queue).send(sender.create_text_message("one"))
    assert done.wait(10)
    session.close()
    (sent,), (processed,) = traced.spans("send"), traced.spans("process")
    assert seen == [trace_of(sent)]
    assert processed.kind is SpanKind.CONSUMER
    assert processed.parent is not None
    assert processed.parent.span_id == sent.get_span_context().span_id  # type: ignore[union-attr]


def test_failures_are_on_their_spans(traced: Traced, connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    failed = Event()

    def work(message: Message) -> None:
        failed.set()
        raise ValueError("no such order")

    consumer = session.create_consumer(queue, "JMSPriority > 4")
    consumer.message_listener = work
    sender = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    producer = sender.create_producer(queue)
    producer.priority = 9
    producer.send(sender.create_text_message("one"))
    assert failed.wait(10)
    session.close()
    temporary = sender.create_temporary_queue()
    lost = sender.create_producer(temporary)
    temporary.delete()
    with pytest.raises((InvalidDestinationException, JMSException)):
        lost.send(sender.create_text_message("two"))
    processed, refused = traced.spans("process")[0], traced.spans("send")[-1]
    assert [each.status.status_code for each in (processed, refused)] == [StatusCode.ERROR] * 2
    assert processed.attributes is not None
    assert processed.attributes["error.type"] == "builtins.ValueError"
    assert refused.attributes is not None
    assert refused.attributes["messaging.destination.temporary"] is True


def test_nothing_received_is_no_span(traced: Traced, connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(session.create_queue("orders"))
    assert consumer.receive_no_wait() is None
    assert traced.exporter.get_finished_spans() == ()


def test_the_context_outlives_dead_letter_and_replay(traced: Traced, connection: Connection) -> None:
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    queue = session.create_queue("orders")
    system = manage("traced")
    host = managed_host(system)
    host.create_child("queue", {"name": "orders", "max_deliveries": 1})
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)
    producer.send(session.create_text_message("one"))
    session.commit()
    first = consumer.receive(5_000)
    assert first is not None
    session.rollback()
    letters = host.child("dead_letter", "DLQ")
    assert letters.statistic_values(["letters"]) == {"letters": 1}
    letters.invoke("replay", {})
    again = consumer.receive(5_000)
    assert isinstance(again, TextMessage)
    assert again.get_string_property("traceparent") == first.get_string_property("traceparent")
    session.commit()
    system.close()


@pytest.mark.parametrize("kind", [needing("activemq"), needing("rabbitmq")])
def test_the_context_outlives_a_foreign_broker(request: pytest.FixtureRequest, traced: Traced, kind: str) -> None:
    ports: dict[str, int] = request.getfixturevalue(kind)
    factory = ConnectionFactory(f"stomp://127.0.0.1:{ports['stomp']}", user_name="guest", password="guest")
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue(f"traced-{uuid4().hex}")
        consumer = session.create_consumer(queue)
        session.create_producer(queue).send(session.create_text_message("one"))
        received = consumer.receive(10_000)
    assert received is not None
    (sent,) = traced.spans("send")
    assert trace.get_current_span(context_of(received)).get_span_context().span_id == sent.get_span_context().span_id  # type: ignore[union-attr]


def test_a_context_that_makes_no_sense_is_no_context(traced: Traced, connection: Connection) -> None:
    uninstrument()
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    producer = session.create_producer(queue)
    for bad in ("nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"):
        message = session.create_text_message("one")
        message.set_string_property("traceparent", bad)
        producer.send(message)
    message = session.create_text_message("one")
    message.set_boolean_property("tracestate", True)
    producer.send(message)
    consumer = session.create_consumer(queue)
    for _ in range(3):
        received = consumer.receive(5_000)
        assert received is not None
        assert not trace.get_current_span(context_of(received)).get_span_context().is_valid


class TestDomains:
    """Senders, publishers and requestors: the older names of JMS 1.1 §5 and §6."""

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    @pytest.mark.parametrize("is_named", [True, False], ids=["destination", "none"])
    def test_a_sender_and_a_publisher_tell_of_each_send(self, traced: Traced, domain: Domain, is_named: bool) -> None:
        session, destination = domain.session(), domain.destination("orders")
        consumer = session.create_consumer(destination)
        producer: Any = domain.producer(session, destination if is_named else None)
        message = session.create_text_message("one")
        send = producer.send if domain.kind == "queue" else producer.publish
        send(message) if is_named else send(destination, message)
        received = consumer.receive(5_000)
        assert received is not None
        (sent,) = traced.spans("send")
        assert sent.name == "send orders"
        span = trace.get_current_span(context_of(received)).get_span_context()
        assert span.span_id == sent.get_span_context().span_id  # type: ignore[union-attr]

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    def test_they_refuse_the_other_domain_all_the_same(
        self, traced: Traced, domain: Domain, connection: Connection
    ) -> None:
        session, other = domain.session(), connection.create_session()
        wrong = other.create_topic("prices") if domain.kind == "queue" else other.create_queue("orders")
        with pytest.raises(InvalidDestinationException):
            domain.producer(session, wrong)
        with pytest.raises(InvalidDestinationException):
            domain.producer(session, None).send(wrong, session.create_text_message("one"))

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    def test_a_request_and_its_reply_are_one_story(self, traced: Traced, domain: Domain) -> None:
        session, answering = domain.session(), domain.session()
        destination = domain.destination("orders")
        replies = domain.producer(answering, None)

        def answer(request: Message) -> None:
            reply_to = request.jms_reply_to
            assert reply_to is not None
            replies.send(reply_to, answering.create_text_message("done"))

        answering.create_consumer(destination).message_listener = answer
        requestor: Any = (QueueRequestor if domain.kind == "queue" else TopicRequestor)(session, destination)
        with traced.tracer.start_as_current_span("request"):
            assert requestor.request(session.create_text_message("one")) is not None
        answering.close()
        asked, replied = sorted(traced.spans("send"), key=lambda span: span.name != "send orders")
        assert (asked.name, replied.name != asked.name) == ("send orders", True)
        assert {trace_of(asked), trace_of(replied)} == {trace_of(traced.spans("request")[0])}
        (got,) = traced.spans("receive")
        assert [link.context.span_id for link in got.links] == [replied.get_span_context().span_id]  # type: ignore[union-attr]


def test_who_is_not_traced_has_the_plain_classes(connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    assert type(session.create_producer(session.create_queue("orders"))) is JmsQueueSender


def test_nothing_of_opentelemetry_is_imported_unless_it_is_asked_for() -> None:
    program = (
        "import sys, pyjms; c = pyjms.ConnectionFactory('vm://x').create_connection(); c.close();"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    for wanted, told in (("", "False\n"), ("1", "True\n")):
        done = subprocess.run(
            [sys.executable, "-c", program], env={"PYJMS_OTEL": wanted}, capture_output=True, text=True, check=True
        )
        assert done.stdout == told


def test_without_the_extra_it_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "pyjms.telemetry.tracer", None)
    with pytest.raises(ImportError, match=r"pyjms-messaging\[otel\]"):
        instrument()
    with caplog.at_level(logging.WARNING):
        instrument_if_wanted({"PYJMS_OTEL": "1"})
    assert "PYJMS-OTEL-1" in caplog.text


class Heard(CompletionListener):
    """Says when the outcome was told."""

    def __init__(self) -> None:
        self.told = Event()

    def on_completion(self, message: Message) -> None:
        self.told.set()

    def on_exception(self, message: Message, exception: Exception) -> None:
        self.told.set()


class TestAsynchronousSends:
    def test_the_span_ends_with_the_outcome(self, traced: Traced, connection: Connection) -> None:
        session, heard = connection.create_session(), Heard()
        queue = session.create_queue("async")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        message = session.create_text_message("espresso")
        with traced.tracer.start_as_current_span("order") as order:
            producer.send(message, heard)
        assert heard.told.wait(30)
        (span,) = traced.spans("send async")
        assert span.kind is SpanKind.PRODUCER
        assert span.parent is not None
        assert span.parent.span_id == order.get_span_context().span_id
        assert span.attributes is not None
        assert span.attributes["messaging.message.id"] == message.jms_message_id
        received = consumer.receive(10_000)
        assert received is not None
        assert trace.get_current_span(context_of(received)).get_span_context().span_id == span.context.span_id
        assert list(message.property_names) == []

    def test_a_failure_is_the_span_s(self, traced: Traced) -> None:
        with Faults("vm://traced-faults") as faults, ConnectionFactory(faults.url).create_connection() as made:
            session, heard = made.create_session(), Heard()
            faults.inject(Fault.SEND_REFUSED)
            session.create_producer(session.create_queue("async")).send(session.create_message(), heard)
            assert heard.told.wait(30)
        (span,) = traced.spans("send async")
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes is not None
        assert str(span.attributes["error.type"]).endswith("ResourceAllocationException")
        stop_broker("traced-faults")

    def test_a_send_that_is_refused_at_once_ends_its_span(self, traced: Traced, connection: Connection) -> None:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("async"))
        message = JavaTextMessage()
        message.properties["wrong"] = object()
        with pytest.raises(JMSException):
            producer.send(message, Heard())
        (span,) = traced.spans("send async")
        assert span.status.status_code is StatusCode.ERROR
