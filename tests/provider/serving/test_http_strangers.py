"""Who breaks the rules of HTTP, or goes in the midst of a request, is hung up on, and costs the log one line in five seconds at most."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, TypeAlias

import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.serving import http_port as http_connection
from pyjms_provider.serving.http_port import HttpListeningPort
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.transport.listener import KEPT_FROM_OPERATORS
from pyjms_provider.transport.service import NetworkService
from pyjms_provider.transport.settings import ListenerSettings

PATIENCE_S = 20.0
_HEAD = b"POST /api HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
_WRONG = b"no length of a chunk\r\n"


class App:
    """Begins its answer `early`, hears of the request to its end, and then says the rest; `whole`: all of the answer comes early."""

    def __init__(self, *, early: bool, whole: bool) -> None:
        self._early, self._whole = early, whole
        self.begun, self.is_done = Event(), Event()
        self.heard: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        first = {"type": "http.response.body", "body": b"ok" if self._whole else b"o", "more_body": not self._whole}
        rest = [] if self._whole else [{"type": "http.response.body", "body": b"k"}]
        if self._early:
            await send(start)
            await send(first)
        self.begun.set()
        while not self._whole:
            message = await receive()
            self.heard.append(message["type"])
            if message["type"] == "http.disconnect" or not message["more_body"]:
                break
        for each in rest if self._early else [start, first, *rest]:
            await send(each)
        self.is_done.set()


Open: TypeAlias = Callable[..., int]


@pytest.fixture
def open_port() -> Iterator[Open]:
    """Opens a port with these limits for an application, and returns its number."""
    network = NetworkService("test", clock=SystemClock())
    network.start()
    made: list[HttpListeningPort] = []

    def opened(app: Any, **limits: int) -> int:
        settings = ListenerSettings(scheme="http", stalled_timeout_ms=60_000, **limits)  # type: ignore[arg-type]
        made.append(HttpListeningPort(network, settings, app))
        return int(made[-1].addresses[0].rpartition(":")[2])

    yield opened
    for each in made:
        each.close()
    network.stop()


def all_of(client: socket.socket) -> bytes:
    found = b""
    try:
        while data := client.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("early", "whole"), [(False, False), (True, False), (True, True)], ids=["unanswered", "answering", "answered"]
)
def test_who_breaks_the_rules_in_mid_request_is_hung_up_on_and_no_fault_of_ours_is_told(
    open_port: Open, caplog: pytest.LogCaptureFixture, *, early: bool, whole: bool
) -> None:
    app = App(early=early, whole=whole)
    number = open_port(app)
    with socket.create_connection(("127.0.0.1", number), PATIENCE_S) as client:
        client.sendall(_HEAD)
        assert app.begun.wait(PATIENCE_S)
        client.sendall(_WRONG)
        answer = all_of(client)
    assert app.is_done.wait(PATIENCE_S)
    assert answer.startswith(b"HTTP/1.1 200" if early else b"HTTP/1.1 400")
    assert whole or app.heard[-1] == "http.disconnect"
    assert faults(caplog) == []


def test_who_breaks_the_rules_before_anybody_looks_at_the_request_hears_nothing_else(
    open_port: Open, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(early=True, whole=True)
    number = open_port(app)
    with socket.create_connection(("127.0.0.1", number), PATIENCE_S) as client:
        client.sendall(_HEAD + _WRONG)
        answer = all_of(client)
    assert app.is_done.wait(PATIENCE_S)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert faults(caplog) == []


@pytest.mark.parametrize(
    "said",
    [b"rubbish\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"],
    ids=["rubbish", "upgrade"],
)
def test_many_strangers_are_told_of_in_one_line(open_port: Open, caplog: pytest.LogCaptureFixture, said: bytes) -> None:
    number = open_port(App(early=True, whole=True))
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", number), PATIENCE_S) as client:
            client.sendall(said)
            assert all_of(client).startswith(b"HTTP/1.1")
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert 1 <= len(warnings) <= 4, "on a machine that is so busy that it takes fifteen seconds"
    assert all(line.startswith("PYJMS-HTTP-5 ") for line in warnings)
    assert not any("pip install" in line for line in warnings)


def test_who_goes_before_all_of_its_request_is_there_is_no_fault_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    with ServedBroker.open(name="broker") as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "who", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        chosen = {"authentication_providers": ["who"], "access_control": "access"}
        top.create_child("port", {"name": "http", "type": "http", "host": "127.0.0.1", "port": 0, **chosen})
        number = int(served.addresses()[0].rpartition(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", number), PATIENCE_S) as client:
            head = f"PATCH /api/v1/port/x HTTP/1.1\r\nHost: 127.0.0.1:{number}\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Content-Length: 100\r\nExpect: 100-continue\r\n\r\n".encode())
            assert client.recv(65536).startswith(b"HTTP/1.1 100"), "the body is not waited for"
    assert faults(caplog) == []


def test_the_last_files_of_the_process_are_not_for_strangers(
    open_port: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port = open_port(App(early=False, whole=True))
    with monkeypatch.context() as few:
        few.setattr(http_connection, "is_kept", lambda _, kept: kept == KEPT_FROM_OPERATORS)
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
                assert all_of(client) == b""
    assert caplog.text.count("PYJMS-NET-19") == 1
    assert f"127.0.0.1 at http://127.0.0.1:{port}" in caplog.text
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert all_of(client).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("limit", "told"), [("max_connections", "PYJMS-NET-5"), ("max_connections_per_address", "PYJMS-NET-6")]
)
def test_who_comes_too_often_is_told_of_and_who_came_in_time_is_served(
    open_port: Open, caplog: pytest.LogCaptureFixture, limit: str, told: str
) -> None:
    port = open_port(App(early=True, whole=True), **{limit: 1})
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as first:
        first.sendall(request := b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert first.recv(65536).startswith(b"HTTP/1.1 200")
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
                assert all_of(client) == b""
        first.sendall(request)
        assert first.recv(65536).startswith(b"HTTP/1.1 200")
    assert caplog.text.count(told) == 1
