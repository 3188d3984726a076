"""AMQP ports: over TCP, TLS and WebSocket, and together with STOMP on one port."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import ClientConnection, connect

from pyjms import ConnectionFactory, DeliveryMode, Session
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import ACCEPTED, SaslCode, SaslInit, SaslMechanisms, SaslOutcome, Source, Target
from pyjms_provider.model.errors import InvalidAttributesError
from pyjms_provider.protocols.amqp.frames import ProtocolId
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.protocols.amqp.raw import RawPeer, text
from tests.provider.transport.certificates import Authority
from tests.system.network.raw import Raw as RawStomp
from tests.system.network.served import anonymous_broker, port_of, stored_broker

_WAIT_S = 10.0
BOTH: dict[str, Any] = {"type": "amqp", "name": "both", "protocols": ["amqp", "stomp"]}


class StreamWire:
    """A client's side of bytes over a socket or a WebSocket."""

    def __init__(self, send: Any, receive: Any, close: Any) -> None:
        self.write, self.read, self.close = send, receive, close


@contextmanager
def amqp(served: ServedBroker, tls: ssl.SSLContext | None = None) -> Iterator[RawPeer]:
    """Connect to its port over TCP or TLS, without SASL."""
    with ExitStack() as opened:
        wire = opened.enter_context(socket.create_connection(("127.0.0.1", port_of(served)), _WAIT_S))
        if tls is not None:
            wire = opened.enter_context(tls.wrap_socket(wire, server_hostname="127.0.0.1"))
        yield RawPeer(StreamWire(wire.sendall, lambda: wire.recv(65536), wire.close))


def offered(client: RawPeer) -> tuple[str, ...]:
    """Begin SASL, and return the mechanisms that are offered."""
    client.header(ProtocolId.SASL)
    client.expect_header(ProtocolId.SASL)
    return client.expect(SaslMechanisms).mechanisms


def say_hello(client: RawPeer, address: str = "q") -> None:
    """Send a message, and get it back."""
    client.open()
    client.begin()
    client.attach_sender(Target(address, capabilities=("queue",)))
    assert client.outcome(text("hello")) == ACCEPTED
    client.attach_receiver(Source(address, capabilities=("queue",)), credit=1)
    _, data = client.receive()
    assert Message(data).body == "hello"
    client.settle(0, ACCEPTED)
    client.close()


def test_amqp_over_tcp() -> None:
    with anonymous_broker(**BOTH) as served, amqp(served) as client:
        assert served.addresses()[0].startswith("amqp://127.0.0.1:")
        say_hello(client)


def test_amqp_over_tls_by_the_certificate_of_the_client(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client_identity = authority.sign("server"), authority.sign("ann")
    with ServedBroker.open(name="broker") as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "who", "type": "certificate"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "user:ann"}]})
        files = {"certificate_file": str(server.certificate), "key_file": str(server.key)}
        top.create_child("key_store", {"name": "keys", **files})
        top.create_child("trust_store", {"name": "trust", "certificate_file": str(authority.file)})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        node.create_child("virtual_host", {"name": "shop"})
        top.create_child(
            "port",
            {
                "name": "amqps",
                "type": "amqp",
                "port": 0,
                "transports": ["tls"],
                "key_store": "keys",
                "trust_store": "trust",
                "client_certificates": "wanted",
                "authentication_providers": ["who"],
                "access_control": "access",
            },
        )
        assert served.addresses()[0].startswith("amqps://")
        context = ssl.create_default_context(cafile=str(authority.file))
        context.load_cert_chain(client_identity.certificate, client_identity.key)
        with amqp(served, context) as client:
            assert offered(client) == ("EXTERNAL",)
            client.send_sasl(SaslInit("EXTERNAL", b""))
            assert client.expect(SaslOutcome).code == SaslCode.OK
            say_hello(client)
        with amqp(served, ssl.create_default_context(cafile=str(authority.file))) as stranger:
            assert offered(stranger) == ()


@pytest.mark.parametrize("subprotocols", [["amqp"], None], ids=["by name", "without a name"])
def test_amqp_over_a_web_socket(subprotocols: Any) -> None:
    with anonymous_broker(type="amqp", name="ws", transports=["websocket"]) as served:
        (url,) = served.addresses()
        assert url.startswith("amqp+ws://")
        with connect(url.replace("amqp+ws", "ws"), subprotocols=subprotocols, compression=None) as wire:
            assert wire.subprotocol == (subprotocols[0] if subprotocols else None)
            say_hello(RawPeer(StreamWire(wire.send, partial(_read, wire), wire.close)))


def _read(wire: ClientConnection) -> bytes:
    try:
        data = wire.recv(_WAIT_S)
    except ConnectionClosedOK:
        return b""
    assert isinstance(data, bytes)
    return data


@pytest.mark.realises("BJ-GEN-2", "BJ-PE-5")
def test_stomp_and_amqp_share_a_port_and_their_messages() -> None:
    with anonymous_broker(**BOTH) as served, RawStomp.shaking(port_of(served)) as stomp, amqp(served) as client:
        stomp.say("CONNECT\naccept-version:1.2\nhost:\n\n")
        assert stomp.next().command == "CONNECTED"
        stomp.say("SEND\ndestination:/queue/q\ncolour:red\nreceipt:1\n\nfrom STOMP")
        assert stomp.next().command == "RECEIPT"
        client.open()
        client.begin()
        client.attach_receiver("q", credit=1)
        _, data = client.receive()
        message = Message(data)
        assert (message.body, message.application_properties["colour"]) == ("from STOMP", "red")
        client.settle(0, ACCEPTED)
        client.attach_sender("q", handle=2, name="out")
        assert client.outcome(text("from AMQP"), handle=2) == ACCEPTED
        stomp.say("SUBSCRIBE\nid:1\ndestination:/queue/q\n\n")
        frame = stomp.next()
        assert (frame.command, bytes(frame.body)) == ("MESSAGE", b"from AMQP")


def test_the_bare_message_is_the_same_bytes_after_a_restart(tmp_path: Path) -> None:
    # A text in the long form of its type, and no properties: what is written anew would look otherwise.
    annotations = b"\x00\x53\x72\xc1\x0b\x02\xa3\x05x-opt\xa1\x01v"
    bare = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x77\xb1\x00\x00\x00\x05hello"
    header = b"\x00\x53\x70\xc0\x02\x01\x41"
    store, port = f"sqlite:///{tmp_path / 'broker.db'}", {"type": "amqp", "name": "amqp"}
    with stored_broker(store, port=port) as served, amqp(served) as client:
        client.open()
        client.begin()
        client.attach_sender("q")
        assert client.outcome(header + annotations + bare) == ACCEPTED
        client.close()
    with stored_broker(store, port=port) as served, amqp(served) as client:
        client.open()
        client.begin()
        client.attach_receiver("q", credit=1)
        _, data = client.receive()
        assert data.endswith(annotations + bare)
        client.settle(0, ACCEPTED)
        client.close()


@pytest.mark.realises("BJ-PE-3")
def test_the_first_bytes_may_come_one_by_one() -> None:
    with anonymous_broker(**BOTH) as served:
        with socket.create_connection(("127.0.0.1", port_of(served)), _WAIT_S) as wire:
            for byte in b"AMQP\x00\x01\x00\x00":
                wire.sendall(bytes((byte,)))
            assert wire.recv(8) == b"AMQP\x00\x01\x00\x00"
        with socket.create_connection(("127.0.0.1", port_of(served)), _WAIT_S) as wire:
            for byte in b"CONNECT\naccept-version:1.2\nhost:\n\n\0":
                wire.sendall(bytes((byte,)))
            assert wire.recv(9) == b"CONNECTED"


def test_a_port_for_amqp_alone_refuses_other_protocols() -> None:
    with (
        anonymous_broker(type="amqp", name="amqp") as served,
        socket.create_connection(("127.0.0.1", port_of(served)), _WAIT_S) as wire,
    ):
        wire.sendall(b"CONNECT\naccept-version:1.2\nhost:\n\n\0")
        assert wire.recv(100) == b"AMQP\x00\x01\x00\x00"
        assert wire.recv(100) == b""


def test_a_port_needs_a_protocol() -> None:
    with anonymous_broker() as served, pytest.raises(InvalidAttributesError, match="protocols"):
        served.broker.create_child("port", {"name": "none", "type": "amqp", "port": 0, "protocols": []})


@pytest.mark.parametrize("is_chosen", [False, True])
def test_a_client_hears_whether_messages_that_may_be_lost_are_stored(tmp_path: Path, is_chosen: bool) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    with stored_broker(store, port=BOTH, persist_all=is_chosen) as served, amqp(served) as client:
        assert ("pyjms:non-persistent-in-memory" in client.open().offered_capabilities) is not is_chosen


def test_messages_without_a_wait_come_whole_with_the_close_of_the_connection() -> None:
    with anonymous_broker(**BOTH) as served:
        url = f"amqp://127.0.0.1:{port_of(served)}"
        with ConnectionFactory(url).create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            producer = session.create_producer(session.create_queue("orders"))
            producer.delivery_mode = DeliveryMode.NON_PERSISTENT
            for number in range(1000):
                producer.send(session.create_text_message(str(number)))
        with ConnectionFactory(url).create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            consumer = session.create_consumer(session.create_queue("orders"))
            got = [getattr(consumer.receive_no_wait(), "text", None) for _ in range(1000)]
    assert got == [str(number) for number in range(1000)]
