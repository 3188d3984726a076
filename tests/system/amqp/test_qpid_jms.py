"""Qpid JMS, the JMS client of Java, in two versions: what programs expect of JMS 2.0, and what pyjms and Java write for each other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from pyjms import BytesMessage, ConnectionFactory, MapMessage, Message, Session, StreamMessage, TextMessage
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short
from tests.peers.building import SOURCES, java_program

PATIENCE_S = 170.0
PROGRAM = SOURCES / "qpid_jms" / "Checks.java"
OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
VERSIONS = {"1.15, javax": "joram_amqp", "2.10, jakarta": "qpid_jms"}
"""The folders with the libraries of each."""


def checks(version: str, url: str, *names: str) -> dict[str, str]:
    """Run the checks of Qpid JMS against a broker; return what became of each."""
    replacing = ("jakarta.jms", "javax.jms") if "javax" in version else ("", "")
    class_path = java_program(VERSIONS[version], PROGRAM, replacing=replacing)
    done = subprocess.run(
        ["java", *OPTIONS, "-cp", class_path, "Checks", url, *names],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: outcome for name, _, outcome in (line.partition("\t") for line in done.stdout.splitlines())}


@pytest.mark.requires("qpid-jms")
@pytest.mark.parametrize("version", VERSIONS)
def test_programs_of_java_find_what_they_expect(version: str, amqp_url: str) -> None:
    found = checks(version, amqp_url)
    assert len(found) >= 39
    assert {name: outcome for name, outcome in found.items() if outcome.strip() != "passed"} == {}


# What pyjms and Java write for each other, through the broker: pyjms speaks STOMP, Java AMQP

PROPERTIES: dict[str, Any] = {
    "truth": True,
    "aByte": Byte(-128),
    "aShort": Short(-32768),
    "anInt": Int(-(2**31)),
    "aLong": Long(-(2**63)),
    "aFloat": Float(0.5),
    "aDouble": Double(1e300),
    "aString": "grün",
    "nothing": None,
}
VALUES: dict[str, Any] = {
    "truth": True,
    "aByte": Byte(1),
    "aShort": Short(2),
    "aChar": Char("ü"),
    "anInt": Int(3),
    "aLong": Long(4),
    "aFloat": Float(0.5),
    "aDouble": Double(1e300),
    "aString": "grün",
    "bytes": b"\x00\xff",
}


def types(version: str, url: str, action: str, queue: str) -> None:
    """Have Qpid JMS send a message of each type, or check those that come."""
    replacing = ("jakarta.jms", "javax.jms") if "javax" in version else ("", "")
    class_path = java_program(VERSIONS[version], PROGRAM, PROGRAM.with_name("Types.java"), replacing=replacing)
    done = subprocess.run(
        ["java", *OPTIONS, "-cp", class_path, "Types", url, action, queue],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.endswith("all done\n"), done.stdout + done.stderr


@pytest.fixture
def session(both_urls: tuple[str, str]) -> Iterator[Session]:
    """Return the session of a program that uses pyjms."""
    with ConnectionFactory(both_urls[1]).create_connection() as connection:
        connection.start()
        yield connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


def with_types(value: Any) -> Any:
    return {name: (type(each), each) for name, each in value.items()}


def properties_of(message: Message) -> dict[str, object]:
    found = {name: message.get_object_property(name) for name in message.property_names}
    return {name: value for name, value in found.items() if not name.startswith("JMS")}


@pytest.mark.requires("qpid-jms")
@pytest.mark.parametrize("version", VERSIONS)
def test_pyjms_reads_what_java_writes(version: str, both_urls: tuple[str, str], session: Session) -> None:
    name = f"from-java-{version[:4]}"
    types(version, both_urls[0], "send", name)
    with session.create_consumer(session.create_queue(name)) as consumer:
        text, data, values, stream, plain, none = [consumer.receive(10_000) for _ in range(6)]
    for each in (text, data, values, stream, plain, none):
        assert each is not None
        assert with_types(properties_of(each)) == with_types(PROPERTIES)
    assert isinstance(text, TextMessage)
    assert text.text == "grün"
    assert isinstance(data, BytesMessage)
    assert (data.body_length, data.read_int(), data.read_utf()) == (9, 7, "tea")
    assert isinstance(values, MapMessage)
    assert with_types({each: values.get_object(each) for each in values.map_names}) == with_types(VALUES)
    assert isinstance(stream, StreamMessage)
    assert [(type(each), each) for each in (stream.read_object() for _ in VALUES)] == list(with_types(VALUES).values())
    assert not isinstance(plain, TextMessage | BytesMessage | MapMessage | StreamMessage)
    assert isinstance(none, TextMessage)
    assert none.text is None


@pytest.mark.requires("qpid-jms")
@pytest.mark.parametrize("version", VERSIONS)
def test_java_reads_what_pyjms_writes(version: str, both_urls: tuple[str, str], session: Session) -> None:
    name = f"to-java-{version[:4]}"
    data = session.create_bytes_message()
    data.write_int(7)
    data.write_utf("tea")
    values, stream = session.create_map_message(), session.create_stream_message()
    for each, value in VALUES.items():
        values.set_object(each, value)
        stream.write_object(value)
    messages = [session.create_text_message("grün"), data, values, stream, session.create_message()]
    producer = session.create_producer(session.create_queue(name))
    for message in (*messages, session.create_text_message()):
        for each, value in PROPERTIES.items():
            message.set_object_property(each, value)
        producer.send(message)
    types(version, both_urls[0], "check", name)
