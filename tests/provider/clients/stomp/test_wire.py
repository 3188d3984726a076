"""Each thing that stomp.py does and that would hurt is guarded against."""

from __future__ import annotations

import errno
import logging
import os
import random
import socket
import ssl
import subprocess
import sys
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from threading import Event, Thread

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.network.calls import ConnectionLostInCallError
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.sockets import ClientSocket
from pyjms_provider.clients.stomp.options import StompSettings, read_url
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection, RefusedError
from pyjms_provider.clients.stomp.sockets import connect
from pyjms_provider.clients.stomp.transport import HeartBeat
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker, Silent
from tests.provider.transport.certificates import Authority


class Recorder(Silent):
    """The events of a wire; may raise from `on_message`."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.came = Event()
        self.ended = Event()
        self.reason = ""
        self.fault: Exception | None = None

    def on_message(self, physical: object, frame: Frame) -> None:
        self.frames.append(frame)
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        self.came.set()

    def on_ended(self, physical: object, reason: str) -> None:
        self.reason = reason
        self.ended.set()


def make_wire(url: str) -> tuple[PhysicalConnection, Recorder]:
    settings, recorder = read_url(ProviderUrl.parse(url)), Recorder()
    return PhysicalConnection(1, settings.endpoints[0], settings, SystemClock(), recorder), recorder


def open_wire(url: str) -> tuple[PhysicalConnection, Recorder]:
    wire, recorder = make_wire(url)
    wire.open({})
    return wire, recorder


def end(wire: PhysicalConnection) -> None:
    wire.close()
    wire.join(PATIENCE_S)


def test_a_body_that_is_no_text_arrives_as_it_is() -> None:
    body = bytes(range(256)) + b"\xff\xfe\0"
    with FakeBroker() as broker:
        wire, recorder = open_wire(broker.url)
        broker.push(Frame("MESSAGE", {"content-length": str(len(body))}, body))
        assert recorder.came.wait(PATIENCE_S)
        assert recorder.frames[0].body == body
        end(wire)


def test_a_large_body_full_of_nuls_arrives_in_time() -> None:
    body = b"\0" * (48 * 1024 * 1024)  # stomp.py takes 39 seconds for it
    with FakeBroker() as broker:
        wire, recorder = open_wire(broker.url)
        broker.push(Frame("MESSAGE", {"content-length": str(len(body))}, body))
        assert recorder.came.wait(PATIENCE_S)
        assert recorder.frames[0].body == body
        end(wire)


def test_no_content_length_is_made_up() -> None:
    with FakeBroker() as broker:
        wire, _ = open_wire(broker.url)
        wire.post(Frame("SEND", {"destination": "/queue/a"}, b"text"))
        wire.post(Frame("SEND", {"destination": "/queue/a", "content-length": "0"}))
        assert "content-length" not in broker.wait_for("SEND").headers
        assert broker.wait_for("SEND", 2).headers["content-length"] == "0"
        end(wire)


def test_names_and_values_of_headers_are_escaped() -> None:
    headers = {"a:b": "c:d", "line\nend": "\r\n\\", "destination": "/queue/a"}
    with FakeBroker() as broker:
        wire, _ = open_wire(broker.url)
        wire.post(Frame("SEND", dict(headers)))
        assert broker.wait_for("SEND").headers == headers
        end(wire)


def test_a_header_that_cannot_be_written_is_refused_and_nothing_is_sent() -> None:
    with FakeBroker() as broker:
        wire, _ = open_wire(broker.url)
        with pytest.raises(ProviderError, match="cannot be sent over STOMP"):
            wire.post(Frame("SEND", {"destination": "/queue/a\0"}))
        wire.post(Frame("BEGIN", {"transaction": "t"}))
        broker.wait_for("BEGIN")
        assert broker.of("SEND") == []
        end(wire)


def test_an_escape_that_means_nothing_ends_the_connection() -> None:
    with FakeBroker() as broker:
        wire, recorder = open_wire(broker.url)
        broker.push_bytes(b"MESSAGE\nname:\\t\n\n\0")
        assert recorder.ended.wait(PATIENCE_S)
        assert "escape" in recorder.reason
        end(wire)


def test_a_callback_that_raises_is_logged_and_the_next_frame_comes(caplog: pytest.LogCaptureFixture) -> None:
    with FakeBroker() as broker:
        wire, recorder = open_wire(broker.url)
        recorder.fault = ValueError("a fault of ours")
        broker.push(Frame("MESSAGE", {"n": "1"}))
        broker.push(Frame("MESSAGE", {"n": "2"}))
        assert recorder.came.wait(PATIENCE_S)
        assert [frame.headers["n"] for frame in recorder.frames] == ["1", "2"]
        assert "a fault of ours" in caplog.text
        end(wire)


def test_a_broker_that_does_not_answer_connect_is_given_up() -> None:
    with FakeBroker(unanswered={"CONNECT"}) as broker:
        wire, _ = make_wire(f"{broker.url}?connect_timeout_ms=50")
        with pytest.raises(ResourceError, match="did not answer CONNECT for 50 ms"):
            wire.open({})
        wire.join(PATIENCE_S)


def test_a_broker_that_hangs_up_on_connect_is_told() -> None:
    with FakeBroker(cut_before=("CONNECT", 1)) as broker:
        wire, _ = make_wire(broker.url)
        with pytest.raises(ConnectionLostInCallError):
            wire.open({})


def test_a_refused_connect_has_the_brokers_words() -> None:
    with FakeBroker(unanswered={"CONNECT"}) as broker:
        broker.on_frame = lambda number, frame: broker.push(Frame("ERROR", {"message": "not you"}))
        wire, _ = make_wire(broker.url)
        with pytest.raises(RefusedError, match="not you"):
            wire.open({})


def test_a_port_where_nothing_listens_is_told_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    with FakeBroker() as broker:
        url = broker.url
    state = random.getstate()
    with pytest.raises(ResourceError, match="refused"):
        make_wire(url)
    assert random.getstate() == state  # stomp.py draws from them the length of a pause
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]  # the error says it


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> list[ClientSocket]:
    """What connections are made on."""
    made: list[ClientSocket] = []

    def connect_and_note(endpoint: Endpoint, settings: StompSettings) -> ClientSocket:
        made.append(connect(endpoint, settings))
        return made[-1]

    monkeypatch.setattr("pyjms_provider.clients.stomp.physical_connection.connect", connect_and_note)
    return made


@pytest.mark.parametrize(("what", "number"), [("socket.socketpair", 1), ("select.epoll", 1), ("socket.socketpair", 2)])
def test_a_process_that_may_open_no_more_is_told_and_keeps_nothing_open(
    monkeypatch: pytest.MonkeyPatch, channels: list[ClientSocket], what: str, number: int
) -> None:
    pairs, calls = [], count(1)
    make_pair, make = socket.socketpair, resolve_name(what)

    def pair_and_note() -> tuple[socket.socket, socket.socket]:
        pairs.append(make_pair())
        return pairs[-1]

    def lack() -> object:
        if next(calls) == number:
            raise OSError(errno.EMFILE, "Too many open files")
        return pair_and_note() if make is make_pair else make()

    with FakeBroker() as broker:
        monkeypatch.setattr("socket.socketpair", pair_and_note)
        monkeypatch.setattr(what, lack)
        with pytest.raises(ResourceError, match="Too many open files"):
            make_wire(broker.url)
        assert [channel.fileno() for channel in channels] == [-1]
        assert {each.fileno() for pair in pairs for each in pair} <= {-1}


def test_a_connection_that_gets_no_thread_is_told_and_closed(
    monkeypatch: pytest.MonkeyPatch, channels: list[ClientSocket]
) -> None:
    class Scarce(Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr("pyjms_provider.clients.network.io_thread.Thread", Scarce)
    with FakeBroker() as broker:
        wire, _ = make_wire(broker.url)
        with pytest.raises(ResourceError, match="can't start new thread"):
            wire.open({})
        assert [channel.fileno() for channel in channels] == [-1]


def test_small_frames_are_not_held_back(channels: list[ClientSocket]) -> None:
    with FakeBroker() as broker:
        wire, _ = open_wire(broker.url)
        (channel,) = channels
        with socket.socket(fileno=os.dup(channel.fileno())) as same:
            assert same.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        end(wire)


def test_a_broker_that_does_not_read_stops_the_sender_after_a_while() -> None:
    with FakeBroker() as broker:
        wire, _ = open_wire(f"{broker.url}?timeout_ms=50")
        stuck = Event()
        broker.on_frame = lambda number, frame: (stuck.wait(PATIENCE_S), None)[1]
        piece = Frame("SEND", {"destination": "/queue/a"}, b"x" * 2_000_000)
        with pytest.raises(ResourceError, match="has not read"):
            for _ in range(50):
                wire.post(piece)
        stuck.set()
        end(wire)


def test_heart_beats_go_out_and_silence_is_noticed() -> None:
    with FakeBroker(heart_beat="20,20") as broker:
        wire, recorder = open_wire(f"{broker.url}?heart_beat_ms=20")
        broker.wait_for_beats(3)
        assert recorder.ended.wait(PATIENCE_S)
        assert "silent" in recorder.reason
        end(wire)


def test_a_heart_beat_that_is_due_while_the_connection_is_closed_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeBroker(heart_beat="0,20") as broker:  # it is silent, and may be
        wire, recorder = open_wire(f"{broker.url}?heart_beat_ms=20")
        is_due = HeartBeat.is_due

        def close_first(beats: HeartBeat, now_ms: float) -> bool:
            if due := is_due(beats, now_ms):
                wire.close()
            return due

        monkeypatch.setattr(HeartBeat, "is_due", close_first)
        assert recorder.ended.wait(PATIENCE_S)
        wire.join(PATIENCE_S)
    assert recorder.reason == "it was closed"
    assert "PYJMS-STOMP" not in caplog.text


def test_no_host_name_is_looked_up_when_the_provider_is_imported() -> None:
    program = (
        "import socket\n"
        "def refuse(*names): raise SystemExit(f'looked up {names}')\n"
        "socket.gethostbyname = socket.getfqdn = socket.gethostname = refuse\n"
        "import pyjms_provider.clients.stomp.physical_connection, stomp.utils\n"
        "print(stomp.utils.LOCALHOST_NAMES)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['localhost', '127.0.0.1']", done.stderr


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    identity = authority.sign("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


def test_a_certificate_of_a_trusted_authority_is_accepted(authority: Authority, context: ssl.SSLContext) -> None:
    with FakeBroker(tls=context) as broker:
        wire, recorder = open_wire(f"{broker.url}?ca_file={authority.file}")
        # Answered on the thread that reads: two threads on one TLS socket are what a client must not be, either.
        broker.on_frame = lambda number, frame: broker.push(
            Frame("MESSAGE", {"content-length": str(len(frame.body))}, frame.body)
        )
        for size in (1, 100_000, 3_000_000):  # TLS cuts it into records
            recorder.came.clear()
            wire.post(Frame("SEND", {"destination": "/queue/a", "content-length": str(size)}, b"\0" * size))
            assert recorder.came.wait(PATIENCE_S)
        assert [len(frame.body) for frame in recorder.frames] == [1, 100_000, 3_000_000]
        assert len(broker.wait_for("SEND", 3).body) == 3_000_000
        end(wire)


def test_the_end_of_a_tls_connection_is_noticed(authority: Authority, context: ssl.SSLContext) -> None:
    with FakeBroker(tls=context) as broker:
        wire, recorder = open_wire(f"{broker.url}?ca_file={authority.file}")
        broker.cut()
        assert recorder.ended.wait(PATIENCE_S)
        end(wire)


def test_an_unknown_authority_is_refused_with_the_reason(context: ssl.SSLContext) -> None:
    with FakeBroker(tls=context) as broker, pytest.raises(ResourceError, match="certificate verify failed"):
        make_wire(broker.url)


def test_a_certificate_for_another_host_is_refused(authority: Authority, context: ssl.SSLContext) -> None:
    with FakeBroker(tls=context) as broker, pytest.raises(ResourceError, match="localhost"):
        make_wire(f"stomps://localhost:{broker.port}?ca_file={authority.file}")


def test_only_a_named_option_turns_the_check_off_and_it_warns(
    context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeBroker(tls=context) as broker, caplog.at_level(logging.WARNING, "pyjms.stomp"):
        wire, _ = open_wire(f"{broker.url}?verify=no")
        assert "PYJMS-TLS verify=no" in caplog.text
        end(wire)


def test_a_broker_without_tls_is_never_spoken_to_in_the_clear(caplog: pytest.LogCaptureFixture) -> None:
    with FakeBroker() as broker:
        with pytest.raises(ResourceError, match="no connection"):
            make_wire(f"stomps://127.0.0.1:{broker.port}?connect_timeout_ms=200")
        assert broker.of("CONNECT") == []


def test_a_socket_that_is_not_tls_is_dropped_though_stomp_py_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeBroker() as broker:
        monkeypatch.setattr("stomp.transport.Transport.set_ssl", lambda *arguments, **more: None)
        with pytest.raises(ResourceError, match="not encrypted"):
            make_wire(f"stomps://127.0.0.1:{broker.port}")
        assert broker.of("CONNECT") == []


def test_the_names_of_files_that_are_not_there_are_told() -> None:
    with FakeBroker() as broker, pytest.raises(ResourceError, match=r"nowhere\.pem"):
        make_wire(f"stomps://127.0.0.1:{broker.port}?ca_file={Path('/nowhere.pem')}")
