"""Contract tests: messages arrive unchanged, in order, once, and are redelivered if they were not settled."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind, Body, BodyKind, Envelope, ObjectBody
from pyjms.spi.errors import CapabilityError, ProviderError
from pyjms.types import Byte, Char, Float, Long, Short
from pyjms_tck.spi.environment import Environment, envelope

# Values at the limits of their types, and a text with a zero: Java's strings may hold one.
VALUES = MappingProxyType(
    {
        "boolean": True,
        "byte": Byte(-128),
        "short": Short(32767),
        "int": 2**31 - 1,
        "long": Long(-(2**63)),
        "float": Float(1.1),
        "double": 5e-324,
        "infinite": float("-inf"),
        "string": "Zoë \0",
        "null": None,
    }
)
BODY_VALUES = {**VALUES, "char": Char("ß"), "bytes": b"\0\xff", "empty": b""}
BODIES: dict[BodyKind, list[Body]] = {
    BodyKind.NONE: [None],
    BodyKind.TEXT: ["", "Zoë\n\U0001f375", None],
    BodyKind.BYTES: [b"", bytes(range(256))],
    BodyKind.MAP: [MappingProxyType({}), MappingProxyType(BODY_VALUES)],
    BodyKind.STREAM: [(), tuple(BODY_VALUES.values())],
    BodyKind.OBJECT: [None, ObjectBody(b"\x80\x04N.", local=True)],
}


def kinds_of(values: Body) -> object:
    """Return the types of the values in a body or in properties: a Byte equals the Int that it may arrive as."""
    if isinstance(values, tuple):
        return [type(value) for value in values]
    assert isinstance(values, Mapping)
    return {name: type(value) for name, value in values.items()}


@pytest.mark.parametrize(("kind", "body"), [(kind, body) for kind, bodies in BODIES.items() for body in bodies])
def test_a_message_arrives_as_it_was(environment: Environment, kind: BodyKind, body: Body) -> None:
    queue, session = environment.queue(), environment.session()
    sent = envelope(
        queue,
        body_kind=kind,
        body=body,
        priority=7,
        delivery_mode=2,
        timestamp_ms=1_234_567_890_123,
        correlation_id="C",
        reply_to=Address(AddressKind.TOPIC, "replies"),
        jms_type="order",
        properties=VALUES,
    )
    session.send(sent)
    received = environment.receiver(session, queue).take().envelope
    for name in Envelope.__dataclass_fields__:
        # Field by field, so that a failure names the field; the body has its own comparison below.
        if name != "body":
            assert getattr(received, name) == getattr(sent, name), name
    assert kinds_of(received.properties) == kinds_of(VALUES)
    if isinstance(body, ObjectBody):
        assert isinstance(received.body, ObjectBody)
        assert received.body.data == body.data
    else:
        assert received.body == body
    if kind in (BodyKind.MAP, BodyKind.STREAM):
        assert kinds_of(received.body) == kinds_of(body)


def test_half_of_a_surrogate_pair_arrives_or_is_refused(environment: Environment) -> None:
    """Java's strings may hold one, and UTF-8 cannot say it: a provider whose wire cannot carry it refuses the message."""
    queue, session = environment.queue(), environment.session()
    values = MappingProxyType({"half": "Zoë \ud800"})
    try:
        session.send(envelope(queue, body_kind=BodyKind.MAP, body=values, properties=values))
    except ProviderError:
        environment.send(session, queue, "whole")
        assert environment.receiver(session, queue).take_texts(1) == ["whole"]
    else:
        received = environment.receiver(session, queue).take().envelope
        assert (received.body, received.properties) == (values, values)


def test_what_a_client_left_out_stays_out(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    session.send(envelope(queue, message_id=None, timestamp_ms=0, correlation_id=b"\0\1"))
    received = environment.receiver(session, queue).take().envelope
    assert (received.message_id, received.timestamp_ms, received.correlation_id) == (None, 0, b"\0\1")
    assert (received.reply_to, received.jms_type, dict(received.properties)) == (None, None, {})


def test_messages_of_a_session_arrive_in_order(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    texts = [str(number) for number in range(30)]
    environment.send(session, queue, *texts)
    assert environment.receiver(environment.session(), queue).take_texts(30) == texts


def test_higher_priorities_overtake_within_each_the_order_stays(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    for number in range(12):
        # PERSISTENT ones have arrived when `send` returns: all are there before the first is received.
        environment.send(session, queue, str(number), priority=number % 3 + 4, delivery_mode=2)
    texts = environment.receiver(environment.session(), queue).take_texts(12)
    connection = environment.connect()
    if Capability.PRIORITIES in connection.capabilities:
        assert texts == ["2", "5", "8", "11", "1", "4", "7", "10", "0", "3", "6", "9"]
    else:
        assert texts == [str(number) for number in range(12)]


def test_a_message_goes_to_one_consumer(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    environment.send(session, queue, "one", "two")
    first, second = (environment.receiver(environment.session(), queue) for _ in range(2))
    assert {first.take().envelope.body, second.take().envelope.body} == {"one", "two"}
    assert (first.consumer.poll(), second.consumer.poll()) == (None, None)


def test_what_is_acknowledged_never_comes_again(environment: Environment) -> None:
    queue, connection = environment.queue(), environment.connect()
    session = connection.open_session(transacted=False)
    environment.send(session, queue, "done", "done too", "open")
    receiver = environment.receiver(session, queue)
    session.acknowledge([receiver.take(), receiver.take()])
    # Closing requeues unsettled messages: the first message received shows which.
    connection.close()
    delivery = environment.receiver(environment.session(), queue).take()
    assert (delivery.envelope.body, delivery.redelivered, delivery.count) == ("open", False, 1)


def test_what_was_delivered_is_acknowledged_also_when_its_consumer_is_closed(environment: Environment) -> None:
    queue, connection = environment.queue(), environment.connect()
    session = connection.open_session(transacted=False)
    environment.send(session, queue, "done", "open")
    receiver = environment.receiver(session, queue)
    delivery = receiver.take()
    receiver.consumer.close()
    assert environment.receiver(environment.session(), queue).take_texts(1) == ["open"]  # it stays with its session
    # Deliveries belong to the session, so the close of their consumer does not end them.
    session.acknowledge([delivery])
    environment.send(session, queue, "new")
    connection.close()
    assert environment.receiver(environment.session(), queue).take_texts(1) == ["new"]


def test_what_is_recovered_comes_again_in_its_old_place_and_marked(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    environment.send(session, queue, "a", "b", "c", "d")
    receiver = environment.receiver(session, queue)
    a, b, c = receiver.take(), receiver.take(), receiver.take()
    assert [delivery.redelivered for delivery in (a, b, c)] == [False] * 3
    session.acknowledge([b])
    session.recover([a, c])
    again = [receiver.take() for _ in range(3)]
    assert [(delivery.envelope.body, delivery.redelivered) for delivery in again] == [
        ("a", True),
        ("c", True),
        ("d", False),
    ]


def test_recovering_concerns_what_is_named_only(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    environment.send(session, queue, "kept", "returned")
    receiver = environment.receiver(session, queue)
    kept, returned = receiver.take(), receiver.take()
    session.recover([returned])
    assert receiver.take().envelope.body == "returned"
    # The message that was not named stays with the session.
    assert receiver.consumer.poll() is None
    session.acknowledge([kept])


def test_deliveries_are_counted(environment: Environment) -> None:
    connection, queue = environment.connect(), environment.queue()
    session = connection.open_session(transacted=False)
    environment.send(session, queue, "again")
    counts, marks = [], []
    for _ in range(4):
        receiver = environment.receiver(session, queue)
        delivery = receiver.take()
        counts.append(delivery.count)
        marks.append(delivery.redelivered)
        session.close()  # a closed session releases them, too
        session = connection.open_session(transacted=False)
    assert marks == [False, True, True, True]
    assert counts[0] == 1
    # Without the capability the first count must be right, and the mark.
    if Capability.REDELIVERY_COUNT in connection.capabilities:
        assert counts == [1, 2, 3, 4]


def test_what_is_rejected_is_settled(environment: Environment) -> None:
    connection, queue = environment.connect(), environment.queue()
    session = connection.open_session(transacted=False)
    environment.send(session, queue, "poison", "food")
    receiver = environment.receiver(session, queue)
    delivery = receiver.take()
    if Capability.DEAD_LETTERS in connection.capabilities:
        session.reject(delivery, "it cannot be eaten: \ud800")
        session.close()
        assert environment.receiver(environment.session(), queue).take_texts(1) == ["food"]
    else:
        with pytest.raises(CapabilityError):
            session.reject(delivery, "it cannot be eaten")


def test_names_of_queues_are_taken_as_they_are(environment: Environment) -> None:
    session = environment.session()
    names = ["a/b", "../up", "..", ".", "A", "a", "Zoë", " ", "x?y=%2f#", "a.b", "a\\b", "con:", "-"]
    queues = [Address(AddressKind.QUEUE, name) for name in names]
    # Sent to all queues before any is read: two names that a file system takes for one would share their messages.
    for queue in queues:
        environment.send(session, queue, f"for {queue.name}")
    for queue in queues:
        delivery = environment.receiver(session, queue).take()
        assert (delivery.envelope.destination, delivery.envelope.body) == (queue, f"for {queue.name}")
