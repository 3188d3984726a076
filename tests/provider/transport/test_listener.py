from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.transport import listener as listener_module
from pyjms_provider.transport.reports import Report
from pyjms_provider.transport.settings import ListenerKind, ListenerSettings, ListenerSettingsError, TlsSettings
from tests.provider.transport.world import (
    PATIENCE_S,
    EchoEngine,
    Engines,
    FloodEngine,
    Net,
    connect,
    is_cut_off,
    read_exactly,
    read_to_end,
)


def test_the_url_has_the_port_that_the_system_picked(net: Net) -> None:
    listener = net.service.open(ListenerSettings(), Engines())
    assert listener.port > 0
    assert listener.url == f"stomp://127.0.0.1:{listener.port}"
    assert listener.urls == (listener.url,)


def test_the_url_of_a_websocket_has_its_path(net: Net) -> None:
    listener = net.service.open(ListenerSettings(kind=ListenerKind.WEB_SOCKET, scheme="stomp+ws"), Engines())
    assert listener.url == f"stomp+ws://127.0.0.1:{listener.port}/stomp"


def test_ipv6_has_its_brackets(net: Net) -> None:
    listener = net.service.open(ListenerSettings(host="::1"), Engines())
    assert listener.url == f"stomp://[::1]:{listener.port}"
    with socket.create_connection(("::1", listener.port), timeout=PATIENCE_S) as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"


def test_a_port_that_is_taken_is_named_with_what_to_do(net: Net) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ResourceError, match=f"127.0.0.1:{port}: Address already in use; another program.*choose"):
            net.service.open(ListenerSettings(port=port), Engines())


@pytest.mark.parametrize(
    ("host", "advice"),
    [("192.0.2.1", "no such address: use one of its own"), ("no.such.host.invalid", "cannot be resolved")],
)
def test_an_address_that_is_not_ours_is_named_with_what_to_do(net: Net, host: str, advice: str) -> None:
    with pytest.raises(ResourceError, match=advice):
        net.service.open(ListenerSettings(host=host), Engines())


def test_who_listens_for_everybody_without_tls_is_warned(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    net.service.open(ListenerSettings(), Engines())
    assert "PYJMS-NET-13" not in caplog.text
    net.service.open(ListenerSettings(host="0.0.0.0"), Engines())
    assert "PYJMS-NET-13" in caplog.text


def test_who_comes_when_there_are_too_many_is_hung_up_on(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(max_connections=2), engines)
    with connect(listener) as first, connect(listener):
        engines.next(), engines.next()
        with connect(listener) as third:
            assert read_to_end(third) == b""
        assert "PYJMS-NET-5" in caplog.text
        assert listener.statistics.refused == 1
        first.sendall(b"hello")
        assert read_exactly(first, 5) == b"hello"


def test_a_place_becomes_free_when_somebody_leaves(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(max_connections=1), engines)
    for _ in range(3):
        with connect(listener) as client:
            client.sendall(b"hello")
            assert read_exactly(client, 5) == b"hello"
        engines.next().ends.get(timeout=PATIENCE_S)
        assert net.on_loop(lambda: listener.connection_count) == 0


def test_one_address_cannot_take_all_places(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    listener = net.service.open(ListenerSettings(max_connections_per_address=1), Engines())
    with connect(listener) as first, connect(listener) as second:
        assert read_to_end(second) == b""
        first.sendall(b"hello")
        assert read_exactly(first, 5) == b"hello"
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            other.settimeout(PATIENCE_S)
            other.connect(("127.0.0.1", listener.port))
            other.sendall(b"hello")
            assert read_exactly(other, 5) == b"hello"
    assert "PYJMS-NET-6" in caplog.text


def test_a_stranger_cannot_fill_the_log(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    listener = net.service.open(ListenerSettings(max_connections=1), Engines())

    def refused(count: int) -> None:
        for _ in range(count):
            with connect(listener) as client:
                assert read_to_end(client) == b""

    with connect(listener):
        refused(5)
        assert caplog.text.count("PYJMS-NET-5") == 1
        net.clock.advance(5_000)
        refused(1)
        assert caplog.text.count("PYJMS-NET-5") == 2
        assert "and 4 more since" in caplog.text


class _Poor:
    """A listening socket whose system has no descriptor left for a while."""

    def __init__(self, real: socket.socket, failures: int) -> None:
        self.real = real
        self.failures = failures

    def accept(self) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self.real.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def listens_with(monkeypatch: pytest.MonkeyPatch, make: Callable[[socket.socket], _Poor]) -> None:
    """Have each listener accept from what is made of its socket."""

    def bind(settings: ListenerSettings) -> Any:
        return make(listener_module.bind(settings))

    monkeypatch.setattr("pyjms_provider.transport.service.bind", bind)


def test_a_system_without_descriptors_is_asked_again(
    net: Net, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    listens_with(monkeypatch, lambda real: _Poor(real, failures=2))
    listener = net.service.open(ListenerSettings(), Engines())
    with connect(listener) as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"
    assert "PYJMS-NET-4" in caplog.text
    assert "Too many open files" in caplog.text


def test_the_last_files_of_the_process_are_not_for_clients(
    net: Net, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers may hold as many as there are: the broker could not reach its store again, nor read a file of it."""
    listener = net.service.open(ListenerSettings(), Engines())
    with connect(listener) as first:
        first.sendall(b"hello")
        assert read_exactly(first, 5) == b"hello"
        with monkeypatch.context() as few:
            few.setattr(listener_module, "is_kept", lambda _: True)
            for _ in range(3):
                with connect(listener) as other:
                    assert read_to_end(other) == b""
        assert caplog.text.count("PYJMS-NET-19") == 1
        assert listener.statistics.refused == 3
        first.sendall(b"again")
        assert read_exactly(first, 5) == b"again"
    with connect(listener) as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"


def test_who_gave_up_before_he_was_accepted_harms_nobody(
    net: Net, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted = Event()

    class Aborted(_Poor):
        def accept(self) -> Any:
            if self.failures:
                self.failures -= 1
                aborted.set()
                raise ConnectionAbortedError
            return self.real.accept()

    listens_with(monkeypatch, lambda real: Aborted(real, failures=1))
    listener = net.service.open(ListenerSettings(), Engines())
    with connect(listener) as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"
    assert aborted.is_set()
    assert "PYJMS-NET-4" not in caplog.text, "it is no lack of the system"


# --------------------------------------------------------------------------------------------------------------- closing


def test_closing_lets_engines_say_their_last(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        engine = engines.next()
        closing = listener.begin_close(PATIENCE_S)
        assert read_to_end(client) == b"bye"
        client.close()
        closing.result(PATIENCE_S)
        assert engine.ends.get(timeout=PATIENCE_S) is None
    assert listener.connection_count == 0
    with pytest.raises(ConnectionRefusedError):
        connect(listener)


def test_closing_waits_for_what_is_being_done(net: Net) -> None:
    class Busy(EchoEngine):
        def stop(self, reason: str) -> None:
            self.conduit.work(self.wait, self.ended)

        def wait(self) -> None:
            begun.set()
            gate.wait(PATIENCE_S)

        def ended(self, *_: object) -> None:
            self.out += b"done"
            self.is_ending = True

    begun, gate = Event(), Event()
    engines = Engines(Busy)
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        engines.next()
        closing = listener.begin_close(PATIENCE_S)
        assert begun.wait(PATIENCE_S)
        assert not closing.done()
        gate.set()
        assert read_to_end(client) == b"done"
        client.close()
        closing.result(PATIENCE_S)


def test_closing_never_hangs_on_engines_that_do_not_stop_or_peers_that_do_not_read(net: Net) -> None:
    class Stubborn(FloodEngine):
        def stop(self, reason: str) -> None:
            self.events.put("stop")

    engines = Engines(Stubborn)
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener), connect(listener):
        first, second = engines.next(), engines.next()
        listener.close(graceful_s=0.05)
        assert listener.connection_count == 0
        for engine in (first, second):
            assert engine.events.get(timeout=PATIENCE_S) == "stop"
            engine.ends.get(timeout=PATIENCE_S)


def test_closing_ends_handshakes_at_once(net: Net) -> None:
    listener = net.service.open(ListenerSettings(kind=ListenerKind.WEB_SOCKET), Engines())
    with connect(listener) as client:
        client.sendall(b"GET /stomp HTTP/1.1\r\n")
        while not net.on_loop(lambda: listener.bytes_in):
            pass
        listener.close(graceful_s=PATIENCE_S)
        assert is_cut_off(client)


def test_closing_twice_is_closing_once(net: Net) -> None:
    listener = net.service.open(ListenerSettings(), Engines())
    listener.close()
    listener.close()
    assert net.service.listeners == ()


def test_an_engine_that_cannot_be_made_hangs_up(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: object) -> EchoEngine:
        raise RuntimeError("no engine today")

    listener = net.service.open(ListenerSettings(), refuse)
    with connect(listener) as client:
        assert is_cut_off(client)
    assert "PYJMS-NET-10" in caplog.text
    assert net.on_loop(lambda: listener.connection_count) == 0


def test_the_log_never_has_what_was_sent(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for kind in ListenerKind:
        listener = net.service.open(ListenerSettings(kind=kind), Engines())
        with connect(listener) as client:
            client.sendall(b"CONNECT\npasscode:sesame\n\n\x00quit")
            client.shutdown(socket.SHUT_WR)
            read_to_end(client)
        listener.close()
    assert "PYJMS-NET-14" in caplog.text
    assert "sesame" not in caplog.text


def test_codes_are_unique_and_explained() -> None:
    page = Path(__file__).parents[3] / "docs/reference/network-log.md"
    explained = [
        line.split("|")[1].strip() for line in page.read_text(encoding="utf-8").splitlines() if "| PYJMS-" in line
    ]
    assert explained == [report.code for report in Report]


def test_settings_errors_of_files_leave_the_port_free(net: Net) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    tls = TlsSettings(certificate_file=Path("no-such.pem"))
    with pytest.raises(ListenerSettingsError, match=r"no-such\.pem"):
        net.service.open(ListenerSettings(port=port, tls=tls), Engines())
    net.service.open(ListenerSettings(port=port), Engines())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "localhost", "::1"])
def test_an_address_of_this_machine_alone_is_not_reached_from_elsewhere(host: str) -> None:
    assert not listener_module.is_reached_from_elsewhere(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "no-such-host.invalid"])
def test_any_other_address_is_reached_from_elsewhere(host: str) -> None:
    assert listener_module.is_reached_from_elsewhere(host)
