"""`pyjms broker run --trace` tells each step of a message from its arrival to the buffer of a socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms_provider.core.queue.statistics import Step
from pyjms_provider.serving.steps import NetworkStep
from tests.provider.commands.served import BrokerProcess

STEPS = [
    Step.ARRIVED,
    Step.QUEUE_NOTIFIED,
    Step.CONSUMER_NOTIFIED,
    Step.TARGET_NOTIFIED,
    NetworkStep.CONNECTION_TOLD,
    NetworkStep.CONNECTION_SCHEDULED,
    NetworkStep.CONNECTION_SERVICED,
    NetworkStep.SESSIONS_PULLED,
    NetworkStep.SESSION_PULLED,
    NetworkStep.CONSUMER_PULLED,
    NetworkStep.BUFFERED,
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path, "--listen", "stomp://127.0.0.1:0", "--anonymous", "--trace")
    yield process
    process.end()


def say(connection: socket.socket, text: str, until: bytes) -> None:
    connection.sendall(text.encode() + b"\n\n\0")
    hear(connection, until)


def hear(connection: socket.socket, until: bytes) -> None:
    heard = b""
    while until not in heard:
        data = connection.recv(4096)
        assert data, f"it hung up after {heard!r}"
        heard += data


@pytest.mark.realises("QCM-12", "QCM-13", "QCM-14", "QCM-15", "QCM-16", "QCM-17", "QCM-18", "QCM-19", "QCM-20")
@pytest.mark.realises("QCM-22", "QCM-23")
def test_each_step_is_told_in_its_order(broker: BrokerProcess) -> None:
    (url,) = broker.announced("stomp")
    place = ("127.0.0.1", int(url.rpartition(":")[2]))
    with socket.create_connection(place, timeout=20) as reader, socket.create_connection(place, timeout=20) as sender:
        for each in (reader, sender):
            say(each, "CONNECT\naccept-version:1.2\nhost:", b"CONNECTED")
        say(reader, "SUBSCRIBE\nid:s\ndestination:/queue/orders\nack:client\nreceipt:r", b"receipt-id:r")
        sender.sendall(b"SEND\ndestination:/queue/orders\n\nespresso\0")
        hear(reader, b"espresso")  # whoever says something now has its connection serviced for that
    broker.end()
    told = [line.partition("pyjms_provider.steps ")[2] for line in broker.log.splitlines()]
    texts = [line.rpartition(": ")[0] for line in told if line]
    begin = texts.index(Step.ARRIVED.value)
    assert list(dict.fromkeys(texts[begin:]))[: len(STEPS)] == [step.value for step in STEPS]
    assert any("Connection " in line for line in told)
