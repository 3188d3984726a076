"""Who does not read what an http port answers is hung up on, however the answer is sent; who reads slowly is not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from uvicorn.server import ServerState

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms_provider.serving.http_port import HttpConnection, HttpListeningPort, LimitedConfig
from pyjms_provider.transport.service import NetworkService
from pyjms_provider.transport.settings import ListenerSettings, ListenerSettingsError, TlsSettings
from tests.ports import free_port
from tests.provider.transport.certificates import Authority

PATIENCE_S = 20.0
ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LARGE = 32 * 2**20
"""More than all buffers between two programs of one machine."""


class App:
    """Answers with many bytes, and knows when it is through with that."""

    def __init__(self) -> None:
        self.is_done = Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
        await send({"type": "http.response.body", "body": bytes(LARGE)})
        self.is_done.set()


@dataclass
class World:
    """A network, and what makes and trusts certificates."""

    network: NetworkService
    authority: Authority
    is_secure: bool

    def open(self, app: Any, stalled_timeout_ms: int) -> HttpListeningPort:
        tls = None
        if self.is_secure:
            made = self.authority.sign("broker")
            tls = TlsSettings(certificate_file=made.certificate, key_file=made.key)
        return HttpListeningPort(
            self.network, ListenerSettings(scheme="http", tls=tls, stalled_timeout_ms=stalled_timeout_ms), app
        )

    def connect(self, port: HttpListeningPort) -> socket.socket:
        number = int(port.addresses[0].rpartition(":")[2])
        plain = socket.create_connection(("127.0.0.1", number), PATIENCE_S)
        return (
            self.authority.client_context().wrap_socket(plain, server_hostname="127.0.0.1") if self.is_secure else plain
        )


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    network = NetworkService("test", clock=SystemClock())
    network.start()
    yield World(network, Authority(tmp_path), request.param)
    network.stop()


def test_who_does_not_read_a_large_answer_is_hung_up_on(world: World) -> None:
    app = App()
    port = world.open(app, stalled_timeout_ms=200)
    with world.connect(port) as client:
        client.sendall(ASKED)
        assert app.is_done.wait(PATIENCE_S)
        clock, pause = SystemClock(), Event()
        end_ms = clock.monotonic_ms() + PATIENCE_S * 1000
        while port.connections:
            assert clock.monotonic_ms() < end_ms, "what nobody reads is kept"
            pause.wait(0.01)
    port.close()


def test_who_reads_gets_all_of_a_large_answer(world: World) -> None:
    app = App()
    port = world.open(app, stalled_timeout_ms=60_000)
    found = 0
    with world.connect(port) as client:
        client.sendall(ASKED)
        while data := client.recv(2**20):
            found += len(data)
    assert found > LARGE
    port.close()


def test_a_port_with_a_certificate_that_cannot_be_used_does_not_listen(world: World, tmp_path: Path) -> None:
    number = free_port()
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("rubbish")
    settings = ListenerSettings(scheme="http", port=number, tls=TlsSettings(certificate_file=wrong))
    with pytest.raises(ListenerSettingsError, match=r"wrong\.pem"):
        HttpListeningPort(world.network, settings, App())  # type: ignore[arg-type]  # any application will do
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", number), PATIENCE_S)


def test_a_port_that_comes_too_late_does_not_listen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.serving.http_port._START_S", 0.0)
    number = free_port()
    may_go_on = Event()

    async def be_busy() -> None:
        may_go_on.wait(PATIENCE_S)

    world.network.run(be_busy())
    settings = ListenerSettings(scheme="http", port=number)
    with pytest.raises(ResourceError, match="did not begin to listen within 0 s"):
        HttpListeningPort(world.network, settings, App())  # type: ignore[arg-type]  # the same
    may_go_on.set()
    clock, pause = SystemClock(), Event()
    end_ms = clock.monotonic_ms() + PATIENCE_S * 1000
    while True:
        assert clock.monotonic_ms() < end_ms, "what nobody knows of listens"
        try:
            socket.create_connection(("127.0.0.1", number), PATIENCE_S).close()
        except ConnectionRefusedError:
            break
        except ConnectionResetError:
            pass  # the socket was closed while this connection waited in it
        pause.wait(0.01)


async def _brief(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("asked", [ASKED, ASKED.replace(b"close", b"keep-alive")], ids=["close", "keep-alive"])
def test_a_connection_whose_end_waits_for_its_reader_does_not_wait_for_ever(asked: bytes) -> None:
    async def run() -> None:
        config = LimitedConfig(
            _brief, ListenerSettings(stalled_timeout_ms=10), lifespan="off", log_config=None, timeout_keep_alive=0
        )
        config.load()
        aborted, is_closing = asyncio.Event(), False

        def close() -> None:
            nonlocal is_closing
            is_closing = True  # and what is left in the buffer is read by nobody

        transport = Mock(close=close, is_closing=lambda: is_closing, abort=aborted.set)
        transport.get_extra_info.return_value = None
        connection = HttpConnection(config, ServerState(), {})
        connection.connection_made(transport)
        connection.data_received(asked)
        await asyncio.wait_for(aborted.wait(), PATIENCE_S)
        connection.connection_lost(None)

    asyncio.run(run())
