"""``pyjms send`` and ``pyjms receive``: bodies, properties, transactions, files, exit codes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pyjms import (
    BytesMessage,
    Connection,
    ConnectionFactory,
    DeliveryMode,
    MapMessage,
    Session,
    StreamMessage,
    TextMessage,
)
from pyjms.types import Float, Short
from pyjms_provider.security.passwords import HashSettings, PasswordHasher
from pyjms_provider.security.user_file import UserFile
from tests.pyjms.commands.conftest import Type
from tests.pyjms.demo.command_line import Run
from tests.system.network.served import port_of, user_broker

Documents: TypeAlias = Callable[..., list[dict[str, Any]]]


def test_what_is_sent_is_received(run_pyjms: Run, jms_broker_url: str) -> None:
    code, out, _ = run_pyjms("send", jms_broker_url, "orders", "one espresso")
    assert (code, out.startswith("sent message ID:")) == (0, True)
    assert run_pyjms("receive", jms_broker_url, "queue:orders") == (0, "one espresso\n", "")


def test_all_that_can_be_chosen_arrives(run_pyjms: Run, jms_broker_url: str, jms_connection: Connection) -> None:
    chosen = ("--priority", "9", "--ttl", "1h", "--non-persistent", "--reply-to", "topic:answers")
    named = ("--correlation-id", "c-1", "--jms-type", "order")
    typed = ("--property", "size:short=7", "--property", "name=a=b", "--property", "hot:boolean=true")
    ids = ("--duplicate-id", "first")
    code, _, err = run_pyjms("send", jms_broker_url, "orders", "x", *chosen, *named, *typed, *ids)
    assert code == 0, err
    session = jms_connection.create_session()
    message = session.create_consumer(session.create_queue("orders")).receive(5000)
    assert message is not None
    assert (message.jms_priority, message.jms_delivery_mode) == (9, DeliveryMode.NON_PERSISTENT)
    assert message.jms_expiration - message.jms_timestamp == 3_600_000
    assert (message.jms_correlation_id, message.jms_type) == ("c-1", "order")
    assert str(message.jms_reply_to) == "topic://answers"
    size = message.get_object_property("size")
    assert (size, type(size)) == (7, Short)
    assert message.get_string_property("name") == "a=b"
    assert message.get_boolean_property("hot") is True
    assert message.get_string_property("JMS_pyjms_duplicateId") == "first"


def test_maps_and_streams_are_written_as_json(
    run_pyjms: Run, jms_broker_url: str, jms_connection: Connection, documents: Documents
) -> None:
    written = {"colour": "red", "size": 3, "sure": True, "none": None, "price": {"type": "float", "value": 1.5}}
    bytes_too = {**written, "blob": {"type": "bytes", "value": base64.b64encode(b"\0\1").decode()}}
    assert run_pyjms("send", jms_broker_url, "q", json.dumps(bytes_too), "--type", "map")[0] == 0
    assert run_pyjms("send", jms_broker_url, "q", json.dumps([1, "two", 2.5]), "--type", "stream")[0] == 0
    session = jms_connection.create_session(True)
    consumer = session.create_consumer(session.create_queue("q"))
    first, second = consumer.receive(5000), consumer.receive(5000)
    assert isinstance(first, MapMessage)
    assert isinstance(second, StreamMessage)
    price = first.get_object("price")
    assert (price, type(price)) == (1.5, Float)
    assert first.get_bytes("blob") == b"\0\1"
    assert [second.read_object() for _ in range(3)] == [1, "two", 2.5]
    session.rollback()
    bodies = [each["body"] for each in documents("receive", jms_broker_url, "q", "--count", "2")]
    assert bodies == [bytes_too, [1, "two", 2.5]]


def test_a_file_of_bytes_comes_out_as_it_went_in(run_pyjms: Run, jms_broker_url: str, tmp_path: Path) -> None:
    picture = bytes(range(256)) * 300
    (tmp_path / "picture").write_bytes(picture)
    assert run_pyjms("send", jms_broker_url, "q", "--file", str(tmp_path / "picture"), "--type", "bytes")[0] == 0
    inbox = tmp_path / "inbox"
    code, out, _ = run_pyjms("receive", jms_broker_url, "q", "--save", str(inbox))
    assert (code, out) == (0, f"{inbox}/000001.bin\n")
    assert (inbox / "000001.bin").read_bytes() == picture


def test_saving_never_overwrites(run_pyjms: Run, jms_broker_url: str, tmp_path: Path) -> None:
    (tmp_path / "000001.txt").write_text("mine")
    run_pyjms("send", jms_broker_url, "q", "theirs", "--count", "2")
    assert run_pyjms("receive", jms_broker_url, "q", "--count", "2", "--save", str(tmp_path))[0] == 0
    assert [each.read_text() for each in sorted(tmp_path.iterdir())] == ["mine", "theirs", "theirs"]


def test_each_line_becomes_a_message(run_pyjms: Run, jms_broker_url: str, type_in: Type, documents: Documents) -> None:
    type_in(b"one\r\ntwo\n\nf\xc3\xbcnf")
    sent = run_pyjms("send", jms_broker_url, "q", "-", "--lines", "--json")
    assert json.loads(sent[1])["sent"] == 4
    received = documents("receive", jms_broker_url, "q", "--count", "4")
    assert [each["body"] for each in received] == ["one", "two", "", "fünf"]


def test_standard_input_is_one_body_without_lines(run_pyjms: Run, jms_broker_url: str, type_in: Type) -> None:
    type_in(b"one\ntwo\n")
    run_pyjms("send", jms_broker_url, "q", "-")
    assert run_pyjms("receive", jms_broker_url, "q")[1] == "one\ntwo\n\n"


def test_a_batch_that_breaks_off_was_never_sent(
    run_pyjms: Run, jms_broker_url: str, type_in: Type, documents: Documents
) -> None:
    type_in(b"1\n2\n3\nnot \xff UTF-8\n")
    code, _, err = run_pyjms("send", jms_broker_url, "q", "-", "--lines", "--batch", "2")
    assert code == 2
    assert "2 messages were sent before that" in err
    assert "--type bytes" in err
    assert [each["body"] for each in documents("browse", jms_broker_url, "q")] == ["1", "2"]


def test_a_transacted_receive_that_breaks_off_took_nothing(
    run_pyjms: Run, jms_broker_url: str, jms_connection: Connection, tmp_path: Path, documents: Documents
) -> None:
    session = jms_connection.create_session()
    producer = session.create_producer(session.create_queue("q"))
    producer.send(session.create_text_message("first"))
    producer.send(session.create_object_message([1]))
    code, _, err = run_pyjms("receive", jms_broker_url, "q", "--count", "2", "--transacted", "--save", str(tmp_path))
    assert (code, "only a program can read" in err) == (1, True)
    assert len(documents("browse", jms_broker_url, "q")) == 2


def test_selectors_choose(run_pyjms: Run, jms_broker_url: str) -> None:
    for size in (1, 2, 3):
        run_pyjms("send", jms_broker_url, "q", f"size {size}", "--property", f"size:int={size}")
    assert run_pyjms("receive", jms_broker_url, "q", "--selector", "size = 2")[1] == "size 2\n"


def test_a_durable_subscription_gathers_between_two_calls(run_pyjms: Run, jms_broker_url: str) -> None:
    subscriber = ("receive", jms_broker_url, "topic:news", "--durable", "desk", "--client-id", "me", "--timeout", "1ms")
    assert run_pyjms(*subscriber)[0] == 1
    run_pyjms("send", jms_broker_url, "topic:news", "it rains")
    assert run_pyjms(*subscriber) == (0, "it rains\n", "")


def test_a_shared_durable_subscription_gathers_without_a_client_id(run_pyjms: Run, jms_broker_url: str) -> None:
    subscriber = ("receive", jms_broker_url, "topic:news", "--shared-durable", "desks", "--timeout", "1ms")
    assert run_pyjms(*subscriber)[0] == 1
    for text in ("it rains", "it pours"):
        run_pyjms("send", jms_broker_url, "topic:news", text)
    assert run_pyjms(*subscriber) == (0, "it rains\n", "")
    assert run_pyjms(*subscriber, "--selector", "TRUE")[0] == 1  # other terms: another subscription


def test_a_shared_subscription_is_divided(
    run_pyjms: Run, jms_broker_url: str, jms_connection_factory: ConnectionFactory
) -> None:
    command = ("receive", jms_broker_url, "topic:news", "--shared", "desks", "--timeout", "1ms")
    with jms_connection_factory.create_connection() as connection:
        connection.start()
        session = connection.create_session()
        topic = session.create_topic("news")
        consumer = session.create_shared_consumer(topic, "desks")
        with session.create_producer(topic) as producer:
            producer.send(session.create_text_message("for one of them"))
        assert run_pyjms(*command) == (0, "for one of them\n", "")
        assert consumer.receive_no_wait() is None
        assert run_pyjms(*command, "--selector", "a = 1")[0] == 1
        assert "close them first" in run_pyjms(*command, "--selector", "a = 1")[2]
    assert run_pyjms(*command) == (1, "", "nothing came in time\n")  # it has ended with its last consumer


def test_a_message_with_a_delay_shows_its_delivery_time(
    run_pyjms: Run, jms_broker_url: str, jms_connection_factory: ConnectionFactory
) -> None:
    for option in (("--delay", "50ms"), ("--deliver-at", "2001-01-31T12:00Z")):
        assert run_pyjms("send", jms_broker_url, "q", "later", *option)[0] == 0
    with jms_connection_factory.create_connection() as connection:
        connection.start()
        session = connection.create_session()
        consumer = session.create_consumer(session.create_queue("q"))
        delays = []
        for _ in range(2):
            message = consumer.receive(10_000)
            assert message is not None
            delays.append(message.jms_delivery_time - message.jms_timestamp)
    assert sorted(delays) == [0, 50]


def test_a_delayed_message_is_not_there_yet(run_pyjms: Run, jms_broker_url: str) -> None:
    assert run_pyjms("send", jms_broker_url, "q", "later", "--delay", "1h")[0] == 0
    assert run_pyjms("send", jms_broker_url, "q", "later", "--deliver-at", "2099-01-31T12:00Z")[0] == 0
    code, out, err = run_pyjms("receive", jms_broker_url, "q", "--timeout", "50ms")
    assert (code, out, err) == (1, "", "nothing came in time\n")


def test_too_few_messages_are_told(run_pyjms: Run, jms_broker_url: str) -> None:
    run_pyjms("send", jms_broker_url, "q", "one")
    code, out, err = run_pyjms("receive", jms_broker_url, "q", "--count", "2", "--timeout", "50ms")
    assert (code, out, err) == (1, "one\n", "1 message came in time\n")


def test_all_that_come_are_enough_for_count_zero(run_pyjms: Run, jms_broker_url: str) -> None:
    run_pyjms("send", jms_broker_url, "q", "one", "--count", "2")
    assert run_pyjms("receive", jms_broker_url, "q", "--count", "0", "--timeout", "50ms")[:2] == (0, "one\none\n")


def test_full_shows_header_and_properties(run_pyjms: Run, jms_broker_url: str) -> None:
    run_pyjms("send", jms_broker_url, "q", "\x1b[31mred", "--property", "size:int=3", "--jms-type", "order")
    _, out, _ = run_pyjms("receive", jms_broker_url, "q", "--full")
    assert "JMSType            order" in out
    assert "size               3" in out
    assert "\\x1b[31mred" in out, "characters that steer a terminal are spelt out"


def test_bytes_that_are_received_can_be_piped_on(
    run_pyjms: Run, jms_broker_url: str, jms_connection: Connection
) -> None:
    session = jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    message = session.create_bytes_message()
    message.write_bytes(b"\x01ab")
    assert isinstance(message, BytesMessage)
    session.create_producer(session.create_queue("q")).send(message)
    assert run_pyjms("receive", jms_broker_url, "q")[1] == "\x01ab\n"


def test_a_listener_gets_plain_text_messages(run_pyjms: Run, jms_broker_url: str, jms_connection: Connection) -> None:
    run_pyjms("send", jms_broker_url, "q", "text")
    session = jms_connection.create_session()
    assert isinstance(session.create_consumer(session.create_queue("q")).receive(5000), TextMessage)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("send", "nonsense", "q", "x"), "no provider URL"),
        (("send", "nope://x", "q", "x"), "no provider is installed for nope://"),
        (("send", "vm://x?colour=red", "q", "x"), "colour"),
        (("send", "vm://x", "topic:", "x"), "names no destination"),
        (("send", "vm://x", "q", "x", "--file", "y"), "give one of them"),
        (("send", "vm://x", "q", "--file", "/no/such/file"), "/no/such/file: No such file"),
        (("send", "vm://x", "q", "x", "--lines", "--count", "2"), "leave it out with --lines"),
        (("send", "vm://x", "q", "--lines"), "--lines needs lines"),
        (("send", "vm://x", "q", "{", "--type", "map"), "written as JSON"),
        (("send", "vm://x", "q", "[" * 100_000, "--type", "map"), "written as JSON"),
        (("send", "vm://x", "q", "[]", "--type", "map"), "is a JSON object"),
        (("send", "vm://x", "q", "{}", "--type", "stream"), "is a JSON list"),
        (("send", "vm://x", "q", "[[1]]", "--type", "stream"), "no lists within"),
        (("send", "vm://x", "q", '[{"type": "int"}]', "--type", "stream"), "an object in it is"),
        (("send", "vm://x", "q", '[{"type": "bytes", "value": "?"}]', "--type", "stream"), "base64"),
        (("send", "vm://x", "q", "x", "--property", "size"), "write NAME=VALUE"),
        (("send", "vm://x", "q", "x", "--property", "size:int=x"), "'x' is no int: a whole number is expected\n"),
        (("send", "vm://x", "q", "x", "--property", "size:float=x"), "'x' is no float: a number is expected\n"),
        (("send", "vm://x", "q", "x", "--property", "size:byte=128"), "outside the range of Byte"),
        (("send", "vm://x", "q", "x", "--property", "size:number=1"), "there is no type 'number'"),
        (
            ("send", "vm://x", "q", "x", "--property", "size:char=1"),
            "there is no type 'char'; there are boolean, byte, short, int, long, float, double, string\n",
        ),
        (("send", "vm://x", "q", "x", "--property", "JMSfoo=1"), "reserved"),
        (("send", "vm://x", "q", "x", "--ttl", "soon"), "is no span of time"),
        (("send", "vm://x", "q", "x", "--deliver-at", "soon"), "is no moment"),
        (("send", "vm://x", "q", "x", "--deliver-at", "1", "--delay", "1s"), "give one of them"),
        (("send", "vm://x", "q", "x", "--priority", "10"), "equal to 9"),
        (("send", "vm://x", "q", "x", "--password-file", "f"), "goes with --user"),
        (("send", "vm://x", "q", "x", "--user", "me"), "set PYJMS_PASSWORD"),
        (("receive", "vm://x", "q", "--selector", "a b"), "expected an operator"),
        (("receive", "vm://x", "q", "--durable", "d"), "--client-id"),
        (("receive", "vm://x", "q", "--durable", "d", "--client-id", "c"), "write topic:q"),
        (("receive", "vm://x", "q", "--shared", "d"), "only topics have shared subscriptions; write topic:q"),
        (("receive", "vm://x", "q", "--shared-durable", "d"), "write topic:q"),
        (("receive", "vm://x", "topic:q", "--shared-durable", "d", "--shared", "d"), "give one of --durable"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    run_pyjms: Run, type_in: Type, arguments: tuple[str, ...], told: str
) -> None:
    type_in(b"")
    code, out, err = run_pyjms(*arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1 or err.startswith("Usage:")


def test_a_broker_that_does_not_run_is_told_in_plain_words(run_pyjms: Run) -> None:
    code, out, err = run_pyjms("send", "stomp://127.0.0.1:1", "q", "x")
    assert (code, out) == (1, "")
    assert "no connection to 127.0.0.1:1: Connection refused; see whether the broker runs" in err


def test_who_does_not_log_in_hears_how_commands_do(run_pyjms: Run, tmp_path: Path) -> None:
    UserFile(tmp_path / "users", hasher=PasswordHasher(HashSettings(memory_kib=64, passes=1))).add(
        "ann", "a right password"
    )
    with user_broker(tmp_path / "users") as served:
        code, _, err = run_pyjms("stats", f"stomp://127.0.0.1:{port_of(served)}")
    assert code == 2
    assert err.endswith(
        "a client certificate or a token; a command logs in with --user NAME, or by the credentials file\n"
    )


def test_a_password_is_never_an_argument(run_pyjms: Run) -> None:
    assert "--password " not in run_pyjms("send", "--help")[1]


def test_help_teaches_with_examples(run_pyjms: Run) -> None:
    for command in ("send", "receive", "browse", "purge", "move", "stats", "bench"):
        code, out, _ = run_pyjms(command, "--help")
        assert code == 0
        assert f"Examples:\n    pyjms {command} " in out
