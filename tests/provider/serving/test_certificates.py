"""Certificates of ports: renewed while clients are connected, or such that cannot be used."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.model.errors import InvalidAttributesError, WrongStateError
from pyjms_provider.model.managed import State
from pyjms_provider.serving.served_broker import ServedBroker
from tests.ports import free_port
from tests.provider.transport.certificates import Authority, Identity

PATIENCE_S = 20.0
GREETINGS = {
    "stomp": (b"CONNECT\naccept-version:1.2\nhost:shop\n\n\0", b"CONNECTED"),
    "http": (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200 OK"),
}
"""What a client says first, and how the answer begins."""


class World:
    """A broker in a folder, with one port of one kind that has TLS, and one that has none."""

    def __init__(self, folder: Path, kind: str, transport: str) -> None:
        self.folder = folder
        self.kind = kind
        self.authority = Authority(folder)
        self.identity = self.authority.sign("server")
        self._opened = ExitStack()
        self.open()
        top = self.served.broker
        top.create_child("authentication_provider", {"name": "who", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        files = {"certificate_file": str(self.identity.certificate), "key_file": str(self.identity.key)}
        top.create_child("key_store", {"name": "keys", **files})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "json"})
        node.create_child("virtual_host", {"name": "shop"})
        chosen = {"type": kind, "authentication_providers": ["who"], "access_control": "access"}
        top.create_child("port", {"name": "plain", "port": 0, **chosen})
        self.number = free_port()
        secure = {"name": "secure", "port": self.number, "transports": [transport], "key_store": "keys"}
        top.create_child("port", {**secure, **chosen})

    def open(self) -> None:
        """Open the broker, or open it again."""
        self._opened.close()
        configuration = TomlConfigurationStore(self.folder / "broker.toml")
        served = ServedBroker.open(configuration, context={"pyjms.work_dir": str(self.folder)})
        self.served = self._opened.enter_context(served)

    def close(self) -> None:
        self._opened.close()

    def find(self, name: str, category: str = "port") -> Any:
        return self.served.broker.child(category, name)

    def renew(self) -> Identity:
        self.identity = self.authority.sign("server")
        return self.identity

    def spoil(self) -> None:
        self.identity.certificate.write_text("rubbish")

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.number), PATIENCE_S)
        return self.authority.client_context().wrap_socket(plain, server_hostname="127.0.0.1")

    def shown(self) -> bytes | None:
        """Return the certificate that a new client sees."""
        with self.connect() as client:
            self.talk(client)
            return client.getpeercert(binary_form=True)

    def talk(self, client: ssl.SSLSocket) -> None:
        """Find the port at the other end."""
        asked, answer = GREETINGS[self.kind]
        client.sendall(asked)
        found = b""
        while len(found) < len(answer):
            data = client.recv(65_536)
            assert data, "the port has hung up"
            found += data
        assert found.startswith(answer)


@pytest.fixture(params=["stomp", "http"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, request.param, "tls")
    yield made
    made.close()


def test_renewed_certificates_are_shown_to_who_comes_and_nobody_has_to_go(world: World) -> None:
    port, first = world.find("secure"), world.identity.der
    with world.connect() as early, world.connect() as late:
        second = world.renew().der
        assert world.shown() == first
        port.invoke("reload_certificates", {})
        assert world.shown() == second != first
        world.talk(early)
        world.spoil()
        with pytest.raises(InvalidAttributesError, match=r"key_store: certificate .*server\.pem with key"):
            port.invoke("reload_certificates", {})
        assert (port.state, world.shown()) == (State.ACTIVE, second)
        third = world.renew().der
        port.invoke("reload_certificates", {})
        assert world.shown() == third
        world.talk(late)
    port.invoke("stop", {})
    with pytest.raises(ConnectionRefusedError):
        world.connect()
    with pytest.raises(WrongStateError, match="port secure is stopped; start it"):
        port.invoke("reload_certificates", {})


def test_a_port_of_another_key_store_shows_that_ones_certificate(world: World) -> None:
    other = world.authority.sign("other")
    files = {"certificate_file": str(other.certificate), "key_file": str(other.key)}
    world.served.broker.create_child("key_store", {"name": "others", **files})
    world.find("secure").set_attributes({"key_store": "others"})
    world.find("secure").invoke("reload_certificates", {})
    assert world.shown() == other.der


def test_a_port_without_tls_takes_no_certificate(world: World) -> None:
    plain = world.find("plain")
    with pytest.raises(WrongStateError, match="port plain has no TLS"):
        plain.invoke("reload_certificates", {})
    plain.set_attributes({"transports": ["tls"], "key_store": "keys"})
    with pytest.raises(InvalidAttributesError, match="was opened without TLS; restart the port"):
        plain.invoke("reload_certificates", {})


def test_a_restart_with_a_certificate_that_cannot_be_used_is_refused_and_the_port_goes_on(world: World) -> None:
    port, before = world.find("secure"), world.identity.der
    with world.connect() as client:
        world.spoil()
        with pytest.raises(InvalidAttributesError, match=r"key_store: certificate .*server\.pem with key"):
            port.invoke("restart", {})
        assert (port.state, world.shown()) == (State.ACTIVE, before)
        world.talk(client)
    after = world.renew().der
    port.invoke("restart", {})
    assert world.shown() == after


def test_a_broker_starts_with_a_certificate_that_cannot_be_used_and_its_port_can_be_started_once_it_is_mended(
    world: World,
) -> None:
    world.spoil()
    world.open()
    assert world.find("plain").state is State.ACTIVE
    port = world.find("secure")
    assert port.state is State.ERRORED
    with pytest.raises(ConnectionRefusedError):
        world.connect()
    assert "server.pem" in str(port.snapshot.error)
    after = world.renew().der
    port.invoke("start", {})
    assert (port.state, world.shown()) == (State.ACTIVE, after)


def test_a_port_of_web_sockets_takes_renewed_certificates(tmp_path: Path) -> None:
    world = World(tmp_path, "stomp", "secure_websocket")
    try:
        after = world.renew().der
        world.find("secure").invoke("reload_certificates", {})
        with world.connect() as client:
            assert client.getpeercert(binary_form=True) == after
    finally:
        world.close()
