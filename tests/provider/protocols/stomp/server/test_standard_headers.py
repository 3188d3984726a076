"""Headers of plain STOMP clients: kept as they were sent, shown to JMS where JMS knows their names, and never a forgery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyjms import ConnectionFactory, Message, Session, TextMessage
from pyjms.forwarding.unit import marked
from pyjms.routing.facts import Facts
from pyjms.spi.envelope import SET_BY_PROVIDERS, BodyKind, Envelope, MessageId
from pyjms.types import Int, Stored
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.message_properties import SET_BY_PROTOCOL
from pyjms_provider.protocols.stomp.messages import from_frame, to_frame
from pyjms_provider.protocols.stomp.server.standard import read_standard_message
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stores.codec import decode
from pyjms_provider.stores.codec import encode as stored
from tests.provider.helpers import ORDERS, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client, bench_on
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient
from tests.provider.protocols.stomp.server.test_sending import sends

VERSIONS = ("1.0", "1.1", "1.2")
HEADERS: Mapping[str, str] = {
    **{
        name: f"value of {name}"
        for name in (
            # of STOMP itself, in other frames
            *("accept-version", "heart-beat", "host", "id", "login", "message", "passcode", "receipt-id", "selector"),
            *("server", "session", "version", "request-id", "response-id", "code", "kind"),
            # of other brokers
            *("client-id", "retain", "transformation", "transformation-custom", "transformation-error", "durable"),
            *("activemq.prefetchSize", "activemq.subscriptionName", "activemq.retroactive", "amqMessageId", "filter"),
            *("consumer-window-size", "destination-type", "durable-subscription-name", "durable-subscriber-name"),
            *("no-local", "routing-type", "subscription-type", "amqp-message-id", "app-id", "auto-delete", "requeue"),
            *("cluster-id", "content-encoding", "exclusive", "expiration", "nowait", "prefetch-count", "user-id"),
            *("x-match", "x-message-ttl", "x-tenant", "x-", "_AMQ_GROUP_ID", "__AMQ_CID", "delivery-count"),
            *("ts", "delay", "AMQ_SCHEDULED_DELAY", "JMSXGroupID", "CamelCase", "traceparent", "correlation_id"),
            # no names of JMS properties
            *("a b", "a-b", "a.b", "1x", "TRUE", "like", "JMSPriority", "JMSOther", "JMSXOther", "\u00fc-1", "a'b"),
            "JMS_vendor",
            "gr\u00f6\u00dfe",
        )
    },
    "content-type": "application/json",
}
"""What a client may send, and finds again."""
ESCAPED = {"a:b": "c:d", "a\\b": "c\\d", "a\nb": "c\nd", "a b c": " d "}
"""The same, where names and values can be escaped."""


def headers_for(version: str) -> dict[str, str]:
    return {**HEADERS, **(ESCAPED if version != "1.0" else {})}


def put(bench: Bench, version: str, headers: Mapping[str, str], body: bytes = b"{}") -> Frame:
    """Send a message with such headers, and return the RECEIPT or the ERROR."""
    client = bench.connect(version)
    sent = {"destination": "/queue/orders", "receipt": "r", **headers}
    client.feed(encode(Frame("SEND", sent, body), client.version))
    return client.next()


def taken(bench: Bench, version: str, **headers: str) -> Frame:
    """Consume the one message."""
    client = bench.connect(version)
    client.send("SUBSCRIBE", b"", **{"id": "s", "destination": "/queue/orders", **headers})
    (message,) = client.all()
    client.hang_up()
    return message


@contextmanager
def jms_session(bench: Bench) -> Iterator[Session]:
    with ConnectionFactory(f"vm://{bench.broker.name}").create_connection() as connection:
        connection.start()
        yield connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


def received(session: Session, queue: str = "orders") -> Message:
    consumer = session.create_consumer(session.create_queue(queue))
    message = consumer.receive_no_wait()
    assert message is not None
    consumer.close()
    return message


def test_the_table_has_sixty_names() -> None:
    assert len(headers_for("1.2")) >= 60


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_finds_again_what_was_sent(bench: Bench, version: str) -> None:
    headers = headers_for(version)
    assert put(bench, version, headers).command == "RECEIPT"
    message = taken(bench, version)
    assert {name: message.headers.get(name) for name in headers} == headers
    assert "receipt" not in message.headers
    assert message.body == b"{}"


@pytest.mark.parametrize("sender", VERSIONS)
@pytest.mark.parametrize("reader", VERSIONS)
def test_what_a_version_can_carry_comes_from_any_other(bench: Bench, sender: str, reader: str) -> None:
    put(bench, sender, headers_for(sender))
    message = taken(bench, reader)
    expected = HEADERS if "1.0" in (sender, reader) else headers_for(reader)
    assert {name: message.headers.get(name) for name in expected} == expected
    if reader == "1.0":
        assert not any(":" in name or "\n" in name for name in message.headers)


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_survive_a_restart(tmp_path: Path, version: str) -> None:
    headers = {**headers_for(version), "reply-to": "elsewhere://answers"}
    first = bench_on(tmp_path)
    assert put(first, version, {**headers, "persistent": "true"}).command == "RECEIPT"
    first.close()
    second = bench_on(tmp_path)
    try:
        message = taken(second, version)
        assert {name: message.headers.get(name) for name in headers} == headers
        assert message.headers["persistent"] == "true"
    finally:
        second.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_survive_a_jms_program_that_sends_the_message_on(bench_of_each_store: Bench, version: str) -> None:
    bench = bench_of_each_store
    headers = {**headers_for(version), "reply-to": "elsewhere://answers"}
    put(bench, version, headers)
    with jms_session(bench) as session:
        message = received(session)
        session.create_producer(session.create_queue("others")).send(message)
    again = taken(bench, version, destination="/queue/others")
    assert {name: again.headers.get(name) for name in headers} == headers


@pytest.mark.parametrize("is_packed", [False, True])
def test_headers_survive_a_pyjms_client_elsewhere(bench: Bench, is_packed: bool) -> None:
    headers = headers_for("1.2")
    put(bench, "1.2", {**headers, "persistent": "false"})
    client = PyjmsClient(bench, is_packed=False)
    client.session()
    client.consume()
    (frame,) = client.messages()
    envelope = replace(from_frame(frame, PYJMS), destination=replace(ORDERS, name="others"))
    sender = PyjmsClient(bench, is_packed=is_packed)
    sender.session()
    if is_packed:
        sender.tell(sends(envelope))
    else:
        sender.send(envelope)
    sender.client.settle()
    again = taken(bench, "1.2", destination="/queue/others")
    assert {name: again.headers.get(name) for name in headers} == headers
    assert again.headers["persistent"] == "false"


def test_headers_survive_forwarding() -> None:
    frame = Frame("SEND", {"destination": "/queue/orders", **headers_for("1.2"), "reply-to": "x"}, b"{}")
    envelope = read_standard_message(frame)
    forwarded = marked(envelope, envelope, replace(ORDERS, name="there"), "id", "JMS_pyjms_duplicateId")
    headers = to_frame(forwarded, PYJMS, command="MESSAGE", profile=False).headers
    kept = {
        name: value for name, value in frame.headers.items() if not name.startswith(("JMS_", "_AMQ", "destination"))
    }
    assert {name: headers.get(name) for name in kept} == kept


def test_of_a_repeated_header_the_first_counts(bench: Bench) -> None:
    client = bench.connect()
    client.feed(b"SEND\ndestination:/queue/orders\nx-a:1\nx-a:2\nfilter:3\nfilter:4\n\nx\0")
    client.settle()
    message = taken(bench, "1.2")
    assert (message.headers["x-a"], message.headers["filter"]) == ("1", "3")


# What the protocol sets


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_protocol_sets_is_its_own(bench: Bench, version: str) -> None:
    forged = {
        "message-id": "ID:mine",
        "subscription": "other",
        "ack": "99",
        "redelivered": "true",
        "browser": "end",
        "content-length": "2",
    }
    put(bench, version, forged)
    message = taken(bench, version)
    assert message.headers["message-id"].startswith("ID:stomp-test-")
    assert message.headers["subscription"] == "s"
    assert message.headers.get("ack", "1") == "1"
    assert not {"redelivered", "browser"} & set(message.headers)
    assert message.headers["content-length"] == "2"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("sent", "shown"), [(None, None), ("false", "false"), ("true", "true"), ("no", "no"), ("", "")]
)
def test_persistent_is_written_where_the_client_wrote_it(
    bench: Bench, version: str, sent: str | None, shown: str | None
) -> None:
    put(bench, version, {} if sent is None else {"persistent": sent})
    assert taken(bench, version).headers.get("persistent") == shown


def test_persistent_is_what_a_program_has_made_of_it(bench: Bench) -> None:
    put(bench, "1.2", {"persistent": "false"})
    with jms_session(bench) as session:
        message = received(session)
        assert [name for name in message.property_names if not name.startswith("JMSX")] == []
        session.create_producer(session.create_queue("orders")).send(message)  # PERSISTENT, as JMS has it
    assert taken(bench, "1.2").headers["persistent"] == "true"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "reply_to",
    ["answers", "jms.queue.answers", "/exchange/a/b", "/queue/", "urn:x:1", "/reply-queue/1", "/queue/answers"],
)
def test_reply_to_comes_back_as_it_was(bench: Bench, version: str, reply_to: str) -> None:
    put(bench, version, {"reply-to": reply_to})
    assert taken(bench, version).headers["reply-to"] == reply_to


def test_reply_to_that_names_nothing_of_ours_is_no_destination_for_jms(bench: Bench) -> None:
    put(bench, "1.2", {"reply-to": "answers"})
    with jms_session(bench) as session:
        message = received(session)
        assert message.jms_reply_to is None
        message.jms_reply_to = session.create_queue("ours")
        session.create_producer(session.create_queue("orders")).send(message)
    assert taken(bench, "1.2").headers["reply-to"] == "/queue/ours"


@pytest.mark.parametrize(("headers", "kind"), [({}, BodyKind.TEXT), ({"content-length": "2"}, BodyKind.BYTES)])
@pytest.mark.parametrize("content_type", ["application/json", "text/csv;charset=latin1", "image/png", "x"])
def test_content_type_is_kept(bench: Bench, headers: dict[str, str], kind: BodyKind, content_type: str) -> None:
    put(bench, "1.2", {**headers, "content-type": content_type})
    (waiting,) = QueueManager.of(bench.broker.name).browse("orders")
    assert waiting.body_kind is kind
    assert taken(bench, "1.2").headers["content-type"] == content_type


def test_content_type_goes_with_the_body_that_it_describes(bench: Bench) -> None:
    put(bench, "1.2", {"content-type": "application/json", "content-encoding": "gzip", "x-a": "1"})
    with jms_session(bench) as session:
        message = received(session)
        assert isinstance(message, TextMessage)
        message.clear_body()
        message.text = "no JSON"
        session.create_producer(session.create_queue("orders")).send(message)
    again = taken(bench, "1.2").headers
    assert (again["content-type"], again.get("content-encoding"), again["x-a"]) == (
        "text/plain;charset=utf-8",
        None,
        "1",
    )


def test_connected_answers_request_id(bench: Bench) -> None:
    for version in VERSIONS:
        assert bench_login(bench, version, request_id="7").headers["response-id"] == "7"
        assert "response-id" not in bench_login(bench, version).headers


def bench_login(bench: Bench, version: str, **headers: str) -> Frame:
    return Client(bench, version=version).log_in(**headers)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("expires", value) for value in ("soon", "", "-1", "1e9", " 5 x", "9" * 19, "9" * 20, "\u0665")),
        *(("priority", value) for value in ("99", "10", "-1", "high", "", "\u0664", "4.0")),
        *(("JMSXGroupSeq", value) for value in ("first", "", "2147483648", "-2147483649", "1.5", "9" * 500)),
    ],
)
def test_a_header_that_is_wrong_is_named_in_an_error(bench: Bench, version: str, name: str, value: str) -> None:
    answer = put(bench, version, {name: value})
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "r")
    assert answer.headers["message"].startswith(f"{name} is ")
    assert len(answer.headers["message"]) < 200
    assert "orders" not in QueueManager.of(bench.broker.name).names()


@pytest.mark.parametrize(
    ("name", "value"), [("expires", "0"), ("expires", "9223372036854775807"), ("priority", "0"), ("priority", "9")]
)
def test_the_bounds_are_right(bench: Bench, name: str, value: str) -> None:
    assert put(bench, "1.2", {name: value}).command == "RECEIPT"
    assert taken(bench, "1.2").headers[name] == value


# What JMS sees

FORGED = {
    **dict.fromkeys(("JMSXUserID", "JMSXAppID", "JMSXProducerTXID", "JMSXConsumerTXID"), "boss"),
    **dict.fromkeys(("JMSXDeliveryCount", "JMSXRcvTimestamp", "JMSXState"), "77"),
    "JMS_pyjms_deadDestination": "queue://payroll",
    "JMS_pyjms_deadReason": "because",
    "JMS_pyjms_src": "x",
    "JMS_pyjmsOther": "x",
}


def copy_of(message: Message, session: Session) -> Message:
    """Copy all properties, as programs do."""
    copy = session.create_message()
    for name in message.property_names:
        copy.set_object_property(name, message.get_object_property(name))
    return copy


@pytest.mark.parametrize("version", VERSIONS)
def test_jms_sees_the_headers_whose_names_it_knows(bench_of_each_store: Bench, version: str) -> None:
    bench = bench_of_each_store
    put(bench, version, {**headers_for(version), **FORGED, "JMSXGroupSeq": "3", "persistent": "false"})
    with jms_session(bench) as session:
        message = received(session)
        names = set(message.property_names)
        known = {name for name in HEADERS if name.isidentifier()} - {
            "TRUE",
            "like",
            "JMSPriority",
            "JMSOther",
            "JMSXOther",
        }
        assert names == known | {"JMSXGroupSeq", "JMSXDeliveryCount"}
        assert {name: message.get_string_property(name) for name in known} == {name: HEADERS[name] for name in known}
        assert message.get_object_property("JMSXGroupSeq") == Int(3)
        assert message.get_object_property("JMSXDeliveryCount") == Int(1)
        for hidden in ("x-tenant", "a b", "1x", "TRUE", "JMSPriority", "JMSXOther", "JMSXUserID", "content-type"):
            assert not message.property_exists(hidden)
            assert message.get_object_property(hidden) is None
            assert message.get_string_property(hidden) is None
        copy = copy_of(message, session)
        assert set(copy.property_names) == known | {"JMSXGroupSeq"}
        session.create_producer(session.create_queue("orders")).send(copy)
        assert set(received(session).property_names) == names


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_broker_sets_is_not_taken_from_a_client(bench: Bench, version: str) -> None:
    assert put(bench, version, FORGED).command == "RECEIPT"
    (waiting,) = QueueManager.of(bench.broker.name).browse("orders")
    assert waiting.properties == {}
    assert QueueManager.of(bench.broker.name).replay("orders", dry_run=True).returned == 0
    with jms_session(bench) as session:
        message = received(session)
        assert message.get_int_property("JMSXDeliveryCount") == 1
        session.create_producer(session.create_queue("orders")).send(message)
    assert not set(FORGED) & set(taken(bench, version).headers)


def test_a_profile_header_of_a_plain_client_forges_nothing_either(bench: Bench) -> None:
    types = "JMS_pyjms:1;k=text;p=JMSXDeliveryCount/I,JMSXGroupSeq/I"
    client = bench.connect()
    said = "".join(f"{name}:{value}\n" for name, value in FORGED.items()).replace("queue://", "queue\\c//")
    client.feed(f"SEND\ndestination:/queue/orders\n{types}\n{said}JMSXGroupSeq:3\na:1\n\nx\0".encode())
    client.settle()
    (waiting,) = QueueManager.of(bench.broker.name).browse("orders")
    assert waiting.properties == {"JMSXGroupSeq": 3, "a": "1"}


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_pyjms_client_cannot_forge_what_providers_set(bench_of_each_store: Bench, is_packed: bool) -> None:
    bench = bench_of_each_store
    forged: dict[str, Stored] = {
        "JMSXDeliveryCount": 77,
        "JMSXUserID": "boss",
        "JMSXAppID": "payroll",
        "JMSXGroupID": "g",
        "a": "JMSXUserID",
    }
    envelope = make_envelope("x", properties=forged, persistent=True)
    client = PyjmsClient(bench, is_packed=is_packed)
    client.session()
    for _ in range(2):
        if is_packed:
            client.tell(sends(envelope, make_envelope("y"), envelope))
        else:
            client.send(envelope)
    client.client.settle()
    found = list(QueueManager.of(bench.broker.name).browse("orders"))
    assert [each.properties for each in found if each.body == "x"] == [{"JMSXGroupID": "g", "a": "JMSXUserID"}] * (
        4 if is_packed else 2
    )
    for each in found:
        assert Facts(each, ("JMSXUserID", "JMSXAppID"), 0).sender is None
    with jms_session(bench) as session:
        message = received(session)
        assert message.get_int_property("JMSXDeliveryCount") == 1
        assert message.get_string_property("JMSXDeliveryCount") == "1"


def test_the_delivery_count_of_a_message_that_comes_again_is_true(bench: Bench) -> None:
    put(bench, "1.2", {"JMSXDeliveryCount": "77"})
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")
    first = client.next()
    assert "JMSXDeliveryCount" not in first.headers
    client.send("NACK", id=first.headers["ack"])
    again = client.next()
    assert (again.headers["redelivered"], again.headers["JMSXDeliveryCount"]) == ("true", "2")


# The message-id


@pytest.mark.parametrize("version", VERSIONS)
def test_every_consumer_sees_the_messages_own_id(bench: Bench, version: str) -> None:
    readers = [bench.connect(each) for each in (version, *VERSIONS)]
    for reader in readers:
        reader.send("SUBSCRIBE", id="s", destination="/topic/news")
        reader.settle()
    sender = bench.connect()
    for _ in range(2):
        sender.send("SEND", b"x", destination="/topic/news")
    sender.settle()
    seen = [tuple(frame.headers["message-id"] for frame in reader.all()) for reader in readers]
    assert len(set(seen)) == 1
    assert len(set(seen[0])) == 2
    assert all(each.startswith("ID:") for each in seen[0])


def subscriber(bench: Bench, version: str, *names: str, ack: str = "client-individual") -> Client:
    client = bench.connect(version)
    for name in names:
        client.send("SUBSCRIBE", id=name, destination="/topic/news", ack=ack)
    client.settle()
    return client


def publish(bench: Bench, *bodies: bytes) -> None:
    sender = bench.connect()
    for body in bodies:
        sender.send("SEND", body, destination="/topic/news")
    sender.settle()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_ack_says_which_subscriptions_copy_it_means(bench: Bench, version: str) -> None:
    client = subscriber(bench, version, "a", "b")
    publish(bench, b"x")
    (message_id,) = {frame.headers["message-id"] for frame in client.all()}
    client.send("NACK", message_id=message_id, subscription="b")
    assert [frame.headers["subscription"] for frame in client.all()] == ["b"]
    for name in ("b", "a"):
        answer = client.ask("ACK", message_id=message_id, subscription=name, receipt=name)
        assert (answer.command, answer.headers["receipt-id"]) == ("RECEIPT", name)
    assert client.ask("ACK", message_id=message_id, subscription="a").command == "ERROR"


def test_an_ack_of_1_0_needs_no_subscription(bench: Bench) -> None:
    client = bench.connect("1.0")
    for destination in ("/topic/news", "/topic/news2"):
        client.send("SUBSCRIBE", destination=destination, ack="client")
    client.send("SUBSCRIBE", id="second", destination="/topic/news", ack="client")
    client.settle()
    publish(bench, b"x", b"y")
    first, last = sorted({frame.headers["message-id"] for frame in client.all()})
    for message_id in (last, last):  # each covers one subscription's two messages
        assert client.ask("ACK", message_id=message_id, receipt="r").command == "RECEIPT"
    assert client.ask("ACK", message_id=first, receipt="r").command == "ERROR"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_messages_wait_for_their_ack_again_after_an_abort(bench: Bench, version: str, ack: str) -> None:
    client = subscriber(bench, version, "a", "b", ack=ack)
    publish(bench, b"x", b"y", b"z")
    ids = list(dict.fromkeys(frame.headers["message-id"] for frame in client.all()))
    client.send("BEGIN", transaction="t")
    client.send("ACK", message_id=ids[1], subscription="a", transaction="t")
    client.send("ABORT", transaction="t")
    assert client.all() == []
    for message_id in ids if ack == "client-individual" else ids[2:]:
        for name in ("b", "a"):
            answer = client.ask("ACK", message_id=message_id, subscription=name, receipt="r")
            assert answer.command == "RECEIPT"
    assert client.ask("ACK", message_id=ids[0], subscription="a").command == "ERROR"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_two_messages_of_one_id_are_acknowledged_one_after_the_other(bench: Bench, version: str) -> None:
    client = bench.connect(version)
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client-individual")
    sender = PyjmsClient(bench)
    sender.session()
    message = make_envelope("x")
    for _ in range(2):
        sender.send(message)
    messages = client.all()
    (message_id,) = {frame.headers["message-id"] for frame in messages}
    for _ in messages:
        assert client.ask("ACK", message_id=message_id, subscription="s", receipt="r").command == "RECEIPT"
    assert client.ask("ACK", message_id=message_id, subscription="s").command == "ERROR"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_after_unsubscribe_an_ack_does_not_settle_another_ones_copy(bench: Bench, version: str) -> None:
    client = subscriber(bench, version, "a", "b")
    publish(bench, b"x")
    (message_id,) = {frame.headers["message-id"] for frame in client.all()}
    client.send("UNSUBSCRIBE", id="a")
    assert client.ask("ACK", message_id=message_id, subscription="a", receipt="r").command == "ERROR"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("message_id", ["ID:a\nb", "ID:a\rb", " ID:a ", ""])
def test_an_id_that_a_version_cannot_write_is_a_number_there(bench: Bench, version: str, message_id: str) -> None:
    sender = PyjmsClient(bench)
    sender.session()
    sender.send(replace(make_envelope("x"), message_id=MessageId(message_id) if message_id else None))
    client = bench.connect(version)
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")
    shown = client.next().headers["message-id"]
    assert shown in (message_id, "1")
    assert client.ask("ACK", message_id=shown, subscription="s", receipt="r").command == "RECEIPT"


# Any header at all

_TEXT = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]))
_NUMBERS = {"JMSXGroupSeq", "JMS_pyjms_deliverAt"}
"""Headers that must be numbers, as tests above say."""
_DUPLICATE_ID = "JMS_pyjms_duplicateId"


@example(dict.fromkeys(SET_BY_PROVIDERS, "x"), Version.V1_2)
@example({"JMSXConsumerTXID": ""}, Version.V1_1)
@example({"JMSXGroupSeq": "first", "JMS_pyjms_deliverAt": "soon", _DUPLICATE_ID: "a b"}, Version.V1_2)
@example({"\r": "\r"}, Version.V1_2)
@example({"persistent:": "x", "JMS_pyjms_x_type": "x", "JMS_pyjms_1": "y"}, Version.V1_2)
@given(st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=8), st.sampled_from([Version.V1_1, Version.V1_2]))
def test_any_header_comes_through_wire_store_and_profile(headers: dict[str, str], version: Version) -> None:
    sent = {**headers, "destination": "/queue/orders"}
    for name in (SET_BY_PROTOCOL | _NUMBERS) - {"destination"}:
        sent.pop(name, None)
    (frame,) = FrameDecoder(version=version).feed(encode(Frame("SEND", sent, b"{}"), version))
    assert isinstance(frame, Frame)
    envelope = read_standard_message(frame)
    ways = [
        envelope,
        decode(stored(envelope)),
        over_profile(to_frame(envelope, PYJMS)),
        over_profile(to_frame(decode(stored(envelope)), PYJMS)),
    ]
    settable = {name for name in sent if name == _DUPLICATE_ID or not name.startswith("JMS_pyjms")}
    # Properties that the broker sets are dropped, so that none can be forged.
    expected = {name: sent[name] for name in settable} | dict.fromkeys(SET_BY_PROVIDERS)
    for each in ways:
        written = to_frame(each, PYJMS, command="MESSAGE", version=version, profile=False)
        (arrived,) = FrameDecoder(version=version).feed(encode(written, version))
        assert isinstance(arrived, Frame)
        assert {name: arrived.headers.get(name) for name in expected} == expected
        assert not any(name.startswith("JMS_pyjms") for name in arrived.headers.keys() - settable)


def over_profile(frame: Frame) -> Envelope:
    (arrived,) = FrameDecoder(version=Version.V1_2, lazy=True).feed(encode(frame, Version.V1_2))
    assert isinstance(arrived, Frame)
    return from_frame(arrived, PYJMS)


def test_a_browser_shows_the_same_headers(bench: Bench) -> None:
    put(bench, "1.1", headers_for("1.1"))
    client = bench.connect("1.1")
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", browser="true")
    shown, end = client.all()
    assert {name: shown.headers.get(name) for name in headers_for("1.1")} == headers_for("1.1")
    assert end.headers["browser"] == "end"
