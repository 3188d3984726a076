"""Factories whose contexts reach a broker of their own, by each of the bundled providers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyjms import JMSConsumer, JMSContext, Message
from pyjms.spi import ProviderUrl, find_provider
from tests.pyjms.runtime.helpers import PATIENCE_MS, text_of
from tests.system.network.served import anonymous_broker, port_of

PROVIDERS = ("vm", "sqlite", "stomp", "amqp")


@contextmanager
def url_of(provider: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a fresh broker, which ends with the block."""
    if provider in {"stomp", "amqp"}:
        with anonymous_broker(name=provider, type=provider) as broker:
            yield f"{provider}://127.0.0.1:{port_of(broker)}"
        return
    url = f"vm://contexts-{uuid.uuid4().hex}"
    yield f"{url}?store=sqlite:///{folder / 'contexts.db'}" if provider == "sqlite" else url
    find_provider("vm").stop_broker(ProviderUrl.parse(url))


def received(consumer: JMSConsumer) -> Message:
    """Receive a message that must come."""
    message = consumer.receive(PATIENCE_MS)
    assert message is not None, "no message came"
    return message


def received_texts(consumer: JMSConsumer, number: int) -> list[str | None]:
    """Receive `number` text messages that must come."""
    return [text_of(received(consumer)) for _ in range(number)]


def send_texts(context: JMSContext, name: str, *texts: str) -> None:
    """Send text messages to a queue, in this order."""
    producer = context.create_producer()
    for text in texts:
        producer.send(context.create_queue(name), text)
