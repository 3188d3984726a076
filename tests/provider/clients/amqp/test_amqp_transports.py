"""The provider over TCP, TLS and WebSocket, at the pyjms broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pyjms import (
    ConnectionFactory,
    JMSException,
    JMSSecurityException,
    ResourceAllocationException,
    Session,
    TextMessage,
)
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.transport.certificates import Authority
from tests.system.network.served import anonymous_broker

TRANSPORTS = {"tcp": "amqp", "tls": "amqps", "websocket": "amqp+ws", "secure_websocket": "amqp+wss"}


def is_secure(transport: str) -> bool:
    return TRANSPORTS[transport] in ("amqps", "amqp+wss")


@contextmanager
def served(transport: str, authority: Authority) -> Iterator[str]:
    """Give the URL of a broker; over TLS it asks for a certificate, and is the only way to log in."""
    if not is_secure(transport):
        with anonymous_broker(type="amqp", name="port", transports=[transport]) as opened:
            yield opened.addresses()[0]
        return
    identity = authority.sign("server")
    with ServedBroker.open(name="broker") as opened:
        top = opened.broker
        top.create_child("authentication_provider", {"name": "who", "type": "certificate"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "user:ann"}]})
        files = {"certificate_file": str(identity.certificate), "key_file": str(identity.key)}
        top.create_child("key_store", {"name": "keys", **files})
        top.create_child("trust_store", {"name": "trust", "certificate_file": str(authority.file)})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        node.create_child("virtual_host", {"name": "shop"})
        top.create_child(
            "port",
            {
                "name": "port",
                "type": "amqp",
                "port": 0,
                "transports": [transport],
                "key_store": "keys",
                "trust_store": "trust",
                "client_certificates": "wanted",
                "authentication_providers": ["who"],
                "access_control": "access",
            },
        )
        yield opened.addresses()[0]


def options(authority: Authority) -> str:
    ann = authority.sign("ann")
    return f"ca_file={authority.file}&certificate_file={ann.certificate}&key_file={ann.key}"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_messages_go_over_each_transport(transport: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with served(transport, authority) as url:
        assert urlsplit(url).scheme == TRANSPORTS[transport]
        with_files = f"{url}?{options(authority)}" if is_secure(transport) else url
        with ConnectionFactory(with_files).create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            queue = session.create_queue("orders")
            texts = ["espresso", "x" * 500_000]
            producer, consumer = session.create_producer(queue), session.create_consumer(queue)
            for text in texts:
                producer.send(session.create_text_message(text))
            for text in texts:
                received = consumer.receive(10_000)
                assert isinstance(received, TextMessage)
                assert received.text == text


def test_a_certificate_that_nobody_trusts_is_refused_with_advice(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with served("tls", authority) as url, pytest.raises(ResourceAllocationException, match="ca_file=FILE"):
        ConnectionFactory(url).create_connection()


def test_a_client_without_a_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with served("tls", authority) as url, pytest.raises(JMSSecurityException):
        ConnectionFactory(f"{url}?ca_file={authority.file}").create_connection()


def test_a_port_without_tls_is_told_from_one_with_it(tmp_path: Path) -> None:
    with served("tcp", Authority(tmp_path)) as url, pytest.raises(JMSException, match="does it speak TLS there"):
        ConnectionFactory(f"{url.replace('amqp:', 'amqps:')}?connect_timeout_ms=2000").create_connection()
