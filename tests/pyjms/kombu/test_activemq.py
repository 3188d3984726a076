"""Celery and kombu at a real ActiveMQ Classic, which may be killed, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu import Connection, Consumer, Exchange, Queue
from kombu.message import Message

from tests.brokers.running import ActiveMq
from tests.pyjms.kombu.workers import client, task, worker

LONG_S = 30
pytestmark = [pytest.mark.requires("activemq"), pytest.mark.xdist_group("celery-activemq")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveMq]:
    """A broker of these tests' own, as they kill it."""
    running = ActiveMq(tmp_path_factory.mktemp("activemq") / "broker")
    running.start()
    yield running
    running.kill()


@pytest.fixture
def url(broker: ActiveMq) -> str:
    # A busy machine may need longer than the default for what the broker pushes after its receipt.
    return f"pyjms+stomp://guest:guest@127.0.0.1:{broker.ports['stomp']}?grace_ms=5000"


def test_messages_come_as_they_were_sent(url: str) -> None:
    headers = {
        "task": "shop.pay",
        "x-y": [1, None, {"a": 0.5}],
        "long": "€:\n" * 20_000,
        "": True,
        "n": 2**40,
        "odd": "\0:\n\\\r\ud800",
    }
    with Connection(url) as connection:
        queue = connection.default_channel
        for body, encoding in (("crème\0", "utf-8"), (b"\0\xff" * 10_000, "binary")):
            connection.Producer().publish(
                body,
                routing_key="plain",
                content_type="application/x",
                content_encoding=encoding,
                headers=headers,
                correlation_id="\0c:\n",
                reply_to="answers",
                priority=7,
                expiration=60,
            )
            message = queue.basic_get("plain", no_ack=True)
            assert message.body == (body.encode() if isinstance(body, str) else body)
            assert message.headers == headers
            expected = {"correlation_id": "\0c:\n", "reply_to": "answers", "priority": 7, "expiration": "60000"}
            assert message.properties.items() >= expected.items()


def test_each_message_is_settled_by_itself(url: str) -> None:
    queue = Queue("settled", Exchange(""), routing_key="settled")
    with Connection(url) as connection, Connection(url) as other:
        for number in range(4):
            connection.Producer().publish(number, routing_key="settled")
        assert connection.default_channel.queue_declare("settled", passive=True).message_count == 4
        got: list[Message] = []
        channel = connection.channel()
        channel.basic_qos(0, 3, False)
        Consumer(channel, [queue], on_message=got.append).consume()
        for _ in range(3):
            connection.drain_events(timeout=LONG_S)
        got[2].ack()
        got[1].reject()
        connection.release()
        again = [other.default_channel.basic_get("settled") for _ in range(2)]
        assert {message.decode() for message in again} == {0, 3}
        assert [each.delivery_info["redelivered"] for each in again if each.decode() == 0] == [True]
        assert other.default_channel.basic_get("settled") is None
        assert other.default_channel.basic_get("ActiveMQ.DLQ", no_ack=True).decode() == 1


def test_a_worker_outlives_the_broker(url: str, broker: ActiveMq, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with worker(url, log), client(url) as app:
        inspect = app.control.inspect(destination=["one@test"], timeout=LONG_S)
        assert task(app, "add", 1, 2).delay().get(timeout=LONG_S) == 3
        assert inspect.ping() == {"one@test": {"ok": "pong"}}
        broker.kill()
        broker.start()
        assert task(app, "add", 3, 4).delay().get(timeout=LONG_S) == 7
        assert inspect.ping() == {"one@test": {"ok": "pong"}}
    assert "Connection to broker lost" in log.read_text()
