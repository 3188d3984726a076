"""A URL that does not fit the port, or a file that is none: the error says what to write instead."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.provider import ConnectRequest
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.stomp.provider import StompProvider
from pyjms_provider.clients.stomp.sockets import advice
from tests.provider.clients.stomp.fake_broker import FakeBroker
from tests.provider.clients.stomp.world import Events
from tests.provider.transport.certificates import Authority
from tests.system.network.served import anonymous_broker, port_of


def attempt(url: str) -> str:
    """Return what a connection there is refused with."""
    request = ConnectRequest(
        url=ProviderUrl.parse(url), user_name=None, password=None, client_id=None, clock=SystemClock()
    )
    with pytest.raises(ResourceError) as raised:
        StompProvider().connect(request, Events())
    return raised.value.reason


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    identity = authority.sign("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


def test_tls_at_a_port_of_ours_without_it() -> None:
    """It hears so at once, not when its time to connect is over."""
    with anonymous_broker() as broker:
        place = f"127.0.0.1:{port_of(broker)}"
        assert f"For a port without TLS write stomp://{place}" in attempt(f"stomps://{place}?connect_timeout_ms=60000")


def test_a_web_socket_at_a_port_of_ours_without_them() -> None:
    with anonymous_broker() as broker:
        place = f"127.0.0.1:{port_of(broker)}"
        assert (
            f"does it open WebSockets there, without TLS? For a port of plain STOMP write stomp://{place}"
            in attempt(f"stomp+ws://{place}")
        )


def test_tls_at_a_port_that_waits_for_a_line() -> None:
    with FakeBroker() as broker:
        place = f"127.0.0.1:{broker.port}"
        assert f"write stomp://{place}" in attempt(f"stomps://{place}?connect_timeout_ms=200")


def test_plain_stomp_at_a_port_with_tls(context: ssl.SSLContext) -> None:
    with FakeBroker(tls=context) as broker:
        place = f"127.0.0.1:{broker.port}"
        assert f"For a port with TLS write stomps://{place}" in attempt(f"stomp://{place}")


def test_an_authority_that_is_unknown_here(context: ssl.SSLContext) -> None:
    with FakeBroker(tls=context) as broker:
        assert "ca_file=FILE.pem" in attempt(broker.url)


def garbage(folder: Path, authority: Authority) -> str:
    file = folder / "notes.txt"
    file.write_text("no certificate")
    return f"ca_file={file}"


def no_certificate(folder: Path, authority: Authority) -> str:
    file = folder / "notes.txt"
    file.write_text("no certificate")
    return f"certificate_file={file}"


def anothers_key(folder: Path, authority: Authority) -> str:
    one, other = (authority.sign(name) for name in ("alice", "bob"))
    return f"certificate_file={one.certificate}&key_file={other.key}"


def encrypted_key(folder: Path, authority: Authority) -> str:
    identity = authority.sign("carol", password="secret")
    return f"certificate_file={identity.certificate}&key_file={identity.key}"


@pytest.mark.parametrize("options", [garbage, no_certificate, anothers_key, encrypted_key])
def test_a_file_that_cannot_be_used_is_named_before_anything_is_connected(
    options: Callable[[Path, Authority], str], tmp_path: Path, authority: Authority
) -> None:
    named = options(tmp_path, authority)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        said = attempt(f"stomps://127.0.0.1:{listener.getsockname()[1]}?{named}")
        assert f"{named.partition('&')[0]} " in said
        assert "cannot be used" in said
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", "a new certificate"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate", "ca_file=FILE.pem"),
        ("a closed: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert", "certificate_file=FILE.pem"),
        ("Connection refused", "see whether the broker runs, and whether the URL names its host and port"),
        ("certificate verify failed: Hostname mismatch", ""),
    ],
)
def test_what_has_another_cause_gets_other_advice_or_none(why: str, expected: str) -> None:
    said = advice("stomps", Endpoint("shop", 61614), why)
    assert expected in said
    assert bool(said) == bool(expected)


def test_a_web_socket_whose_handshake_comes_byte_by_byte() -> None:
    """Each byte comes in time; all of them do not."""
    has_ended = Event()

    def trickle(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer, suppress(OSError):
            peer.recv(4096)
            for byte in b"HTTP/1.1 101 Switching Protocols\r\nx: " + b"y" * 100:
                peer.sendall(bytes([byte]))
                has_ended.wait(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Thread(target=trickle, args=(listener,))
        server.start()
        said = attempt(f"stomp+ws://127.0.0.1:{listener.getsockname()[1]}?connect_timeout_ms=300")
        has_ended.set()
        server.join()
    assert "timed out" in said
    assert "does it open WebSockets there" in said


@pytest.fixture
def no_log() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("no_log")
def test_the_reason_and_the_advice_do_not_depend_on_what_the_application_logs(context: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        unused = listener.getsockname()[1]
    assert "refused" in attempt(f"stomp://127.0.0.1:{unused}")
    assert "refused" in attempt(f"stomp+ws://127.0.0.1:{unused}")
    with FakeBroker(tls=context) as broker:
        assert "ca_file=FILE.pem" in attempt(broker.url)
        assert "For a port of plain STOMP" in attempt(f"stomp+ws://127.0.0.1:{broker.port}")
