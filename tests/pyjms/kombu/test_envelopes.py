"""Messages of kombu become messages of JMS, and come back as they were; messages of others can be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu import Connection

from pyjms import BytesMessage, ConnectionFactory, Session, TextMessage
from pyjms.kombu.envelopes import ROUTING_KEY, Outgoing, Parts, parts_of
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId

QUEUE = Address(AddressKind.QUEUE, "orders")
TOPIC = Address(AddressKind.TOPIC, "news")
NOW_MS = 1_000_000

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)
names = st.text() | st.sampled_from(
    [
        "task",
        "id",
        "content_type",
        "kombu",
        "kombu_1",
        ROUTING_KEY,
        "JMSXGroupID",
        "JMSPriority",
        "NULL",
        "is",
        "x-y",
        "$a",
    ]
)
texts = st.text(st.characters(exclude_categories=["Cs"]))


def outgoing(**parts: Any) -> Outgoing:
    message: dict[str, Any] = {
        "body": "",
        "content-type": None,
        "content-encoding": None,
        "headers": {},
        "properties": {},
    }
    return Outgoing({**message, **parts}, "exchange", "key")


def sent(message: Outgoing, to: Address = QUEUE) -> Envelope:
    return message.envelope(to, MessageId("ID:1"), NOW_MS)


def received(envelope: Envelope) -> Parts:
    return parts_of(Delivery(envelope, 1, False, None), "orders")


@given(
    body=texts | st.binary(),
    content_type=st.none() | texts,
    content_encoding=st.none() | texts,
    headers=st.dictionaries(names, values),
    properties=st.dictionaries(
        st.sampled_from(["correlation_id", "reply_to", "message_id", "type", "app_id", "user_id", "x"]), values
    ),
)
def test_what_is_sent_comes_back(
    body: str | bytes, content_type: str | None, content_encoding: str | None, headers: Any, properties: Any
) -> None:
    envelope = sent(
        outgoing(
            body=body,
            headers=headers,
            properties=properties,
            **{"content-type": content_type, "content-encoding": content_encoding},
        )
    )
    parts = received(envelope)
    assert parts.body == (body.encode() if isinstance(body, str) else body)
    assert (parts.content_type, parts.content_encoding) == (content_type, content_encoding)
    assert exact(parts.headers) == exact(headers)
    assert exact(parts.properties) == exact({"priority": 0, "delivery_mode": 2, **properties})


def exact(value: Any) -> Any:
    """Return a value that is equal to another one only if the types are, too: True is not 1."""
    if isinstance(value, dict):
        return {key: exact(each) for key, each in value.items()}
    return [exact(each) for each in value] if isinstance(value, list) else (type(value), value)


@given(headers=st.dictionaries(names, st.sampled_from([":", "a", "\u20ac", "\\", "\n"]).map(lambda each: each * 1000)))
def test_no_property_is_more_than_any_broker_takes(headers: Any) -> None:
    properties = sent(outgoing(headers={**headers, "long": ":" * 30_000})).properties
    for name, value in properties.items():
        assert len(f"{name}:{value!s}".replace("\\", "\\\\").replace(":", "\\c").encode()) < 10 * 1024


@given(
    written=st.sampled_from(
        [
            "no JSON",
            "[" * 5_000,
            "{}",
            "[]",
            '{"headers": 1, "properties": {}, "delivery_info": {}}',
            '{"__type__": "datetime", "__value__": 5}',
            '{"__type__": "decimal", "__value__": "x"}',
            '{"__type__": "uuid", "__value__": {}}',
        ]
    )
    | texts
)
def test_what_others_have_written_where_we_write_does_no_harm(written: str) -> None:
    envelope = Envelope(
        QUEUE, None, 0, 0, 2, 4, None, None, None, {"kombu": written, "cups": 2}, BodyKind.TEXT, "espresso"
    )
    parts = received(envelope)
    assert (parts.body, parts.content_type, parts.headers) == (b"espresso", "text/plain", {"cups": 2})


def test_a_plain_header_is_a_property_of_its_own() -> None:
    properties = sent(outgoing(headers={"task": "shop.pay", "retries": 2, "is_last": True, "x-y": 1})).properties
    assert {name: properties[name] for name in ("task", "retries", "is_last")} == {
        "task": "shop.pay",
        "retries": 2,
        "is_last": True,
    }
    assert "x-y" not in properties


@pytest.mark.parametrize(
    ("given", "found"), [(None, 0), (0, 0), (4, 4), (9, 9), (10, 9), (255, 9), (-1, 0), ("7", 7), ("high", 0)]
)
def test_priorities_are_those_of_jms(given: object, found: int) -> None:
    envelope = sent(outgoing(properties={"priority": given}))
    assert envelope.priority == found
    assert received(envelope).properties["priority"] == given


def test_expiration_is_when_the_message_ends() -> None:
    assert sent(outgoing(properties={"expiration": "1500"})).expiration_ms == NOW_MS + 1500
    assert sent(outgoing(properties={"expiration": "0"})).expiration_ms == NOW_MS + 1
    assert sent(outgoing()).expiration_ms == 0
    with pytest.raises(ValueError, match="'soon' is no expiration"):
        outgoing(properties={"expiration": "soon"})


@pytest.mark.parametrize(("given", "found"), [(None, 2), (2, 2), (1, 1), ("1", 1), ("transient", 1)])
def test_delivery_mode(given: object, found: int) -> None:
    assert sent(outgoing(properties={} if given is None else {"delivery_mode": given})).delivery_mode == found


def test_by_a_topic_nothing_is_written_down_and_the_routing_key_is_a_property() -> None:
    envelope = sent(outgoing(properties={"delivery_mode": 2}), TOPIC)
    assert envelope.delivery_mode == 1
    assert envelope.properties[ROUTING_KEY] == "key"
    assert received(envelope).headers == {}


def test_correlation_and_reply_are_headers_of_jms() -> None:
    envelope = sent(outgoing(properties={"correlation_id": "c", "reply_to": "answers"}))
    assert (envelope.correlation_id, envelope.reply_to) == ("c", Address(AddressKind.QUEUE, "answers"))


def test_a_jms_program_reads_what_kombu_sends(host: str, connection: Connection) -> None:
    connection.Producer().publish({"cups": 2}, routing_key="orders", headers={"task": "brew"})
    connection.Producer().publish(b"\0\1", routing_key="orders", content_type="image/x", content_encoding="binary")
    with ConnectionFactory(f"vm://{host}").create_connection() as jms:
        jms.start()
        session = jms.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue("orders"))
        text, data = consumer.receive(5_000), consumer.receive(5_000)
    assert isinstance(text, TextMessage)
    assert text.text == '{"cups": 2}'
    assert text.get_string_property("task") == "brew"
    assert text.get_string_property("content_type") == "application/json"
    assert isinstance(data, BytesMessage)
    assert data.body_length == 2


def test_kombu_reads_what_a_jms_program_sends(host: str, connection: Connection) -> None:
    with ConnectionFactory(f"vm://{host}").create_connection() as jms:
        session = jms.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("orders"))
        text = session.create_text_message('{"cups": 2}')
        text.set_string_property("content_type", "application/json")
        text.set_long_property("number", 2**40)
        text.set_float_property("ratio", 0.5)
        text.jms_correlation_id = "c"
        producer.send(text)
        producer.send(session.create_text_message("crème"))
        data = session.create_bytes_message()
        data.write_bytes(b"\0\1")
        producer.send(data)
        mapped = session.create_map_message()
        mapped.set_long("cups", 2)
        producer.send(mapped)
        stream = session.create_stream_message()
        stream.write_string("a")
        producer.send(stream)
        producer.send(session.create_object_message({"cups": 2}))
    queue = connection.default_channel
    first = queue.basic_get("orders", no_ack=True)
    assert first.decode() == {"cups": 2}
    assert exact(first.headers) == exact({"number": 2**40, "ratio": 0.5})
    assert first.properties["correlation_id"] == "c"
    assert first.delivery_info["routing_key"] == "orders"
    assert [queue.basic_get("orders", no_ack=True).decode() for _ in range(4)] == ["crème", b"\0\1", {"cups": 2}, ["a"]]
    secret = queue.basic_get("orders", no_ack=True)
    assert secret.content_type == "application/vnd.pyjms.object+pickle"  # which kombu decodes for nobody
