from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from pyjms_provider.transport.settings import (
    ClientCertificates,
    ListenerKind,
    ListenerSettings,
    ListenerSettingsError,
    TlsSettings,
)
from pyjms_provider.transport.tls import make_context
from tests.provider.transport.certificates import Authority, Identity
from tests.provider.transport.world import (
    AmplifyingEngine,
    Engines,
    Net,
    connect,
    is_cut_off,
    read_exactly,
    read_to_end,
    send_until_full,
)

MIB = 1 << 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Identity:
    return authority.sign("server")


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Identity:
    return authority.sign("alice")


def tls(
    server: Identity, asked: ClientCertificates = ClientCertificates.NONE, trust: Path | None = None
) -> TlsSettings:
    return TlsSettings(
        certificate_file=server.certificate, key_file=server.key, client_certificates=asked, trust_file=trust
    )


@pytest.mark.realises("BJ-NET-4", "BJ-TLS-2")
def test_bytes_go_through_tls(net: Net, authority: Authority, server: Identity) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(tls=tls(server)), engines)
    assert listener.url == f"stomps://127.0.0.1:{listener.port}"
    data = bytes(range(256)) * 4_096
    with authority.client_context().wrap_socket(connect(listener), server_hostname="127.0.0.1") as client:
        assert client.version() == "TLSv1.3"
        for start in range(0, len(data), 32_768):
            client.sendall(data[start : start + 32_768])
            assert read_exactly(client, 32_768) == data[start : start + 32_768]
        peer = engines.next().conduit.peer
        assert (peer.is_secure, peer.certificate, peer.listener) == (True, None, listener.url)


def test_last_words_come_before_the_end_of_tls(net: Net, authority: Authority, server: Identity) -> None:
    listener = net.service.open(ListenerSettings(tls=tls(server)), Engines())
    context = authority.client_context()
    with context.wrap_socket(connect(listener), server_hostname="127.0.0.1", suppress_ragged_eofs=False) as client:
        client.sendall(b"quit")
        assert read_to_end(client) == b"quit", "and then close_notify: a cut connection would be an error"


def test_the_end_of_a_clients_tls_is_the_end(net: Net, authority: Authority, server: Identity) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(tls=tls(server)), engines)
    with authority.client_context().wrap_socket(connect(listener), server_hostname="127.0.0.1") as client:
        client.sendall(b"hello")
        read_exactly(client, 5)
        client.unwrap().close()
    assert engines.next().ends.get(timeout=10) is None


@pytest.mark.realises("BJ-NET-4")
def test_who_shows_a_certificate_is_known_by_it(
    net: Net, authority: Authority, server: Identity, alice: Identity
) -> None:
    engines = Engines()
    settings = ListenerSettings(tls=tls(server, ClientCertificates.REQUIRED, authority.file))
    listener = net.service.open(settings, engines)
    with authority.client_context(alice).wrap_socket(connect(listener), server_hostname="127.0.0.1") as client:
        client.sendall(b"hello")
        read_exactly(client, 5)
        assert engines.next().conduit.peer.certificate == alice.der


@pytest.mark.parametrize("asked", [ClientCertificates.WANTED, ClientCertificates.REQUIRED])
def test_who_shows_none_comes_in_where_none_is_required(
    net: Net, authority: Authority, server: Identity, asked: ClientCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    listener = net.service.open(ListenerSettings(tls=tls(server, asked, authority.file)), Engines())
    with authority.client_context().wrap_socket(connect(listener), server_hostname="127.0.0.1") as client:
        if asked is ClientCertificates.WANTED:
            client.sendall(b"hello")
            assert read_exactly(client, 5) == b"hello"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)certificate.required|reset|broken"):
                read_exactly(client, 5)
            assert "PYJMS-NET-7" in caplog.text
            assert "showed no certificate, which this port requires" in caplog.text


@pytest.mark.parametrize("asked", [ClientCertificates.WANTED, ClientCertificates.REQUIRED])
def test_who_shows_a_strangers_certificate_does_not_come_in(
    net: Net, authority: Authority, server: Identity, asked: ClientCertificates, tmp_path: Path
) -> None:
    mallory = Authority(tmp_path, "other").sign("alice")
    listener = net.service.open(ListenerSettings(tls=tls(server, asked, authority.file)), engines := Engines())
    with (
        authority.client_context(mallory).wrap_socket(connect(listener), server_hostname="127.0.0.1") as client,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        read_exactly(client, 5)
    assert engines.none_is_new


def test_who_speaks_no_tls_is_told_so_in_the_log(net: Net, server: Identity, caplog: pytest.LogCaptureFixture) -> None:
    listener = net.service.open(ListenerSettings(tls=tls(server)), engines := Engines())
    with connect(listener) as client:
        client.sendall(b"CONNECT\npasscode:sesame\n\n\x00")
        client.settimeout(10)
        while client.recv(100):
            pass  # an alert, and then the end
    assert "PYJMS-NET-7" in caplog.text
    assert "the client spoke no TLS" in caplog.text
    assert "sesame" not in caplog.text
    assert engines.none_is_new


def test_old_tls_is_refused(net: Net, authority: Authority, server: Identity) -> None:
    listener = net.service.open(ListenerSettings(tls=tls(server)), Engines())
    context = authority.client_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with connect(listener) as client, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(client, server_hostname="127.0.0.1")


def test_a_handshake_that_drips_is_cut_off(net: Net, server: Identity, caplog: pytest.LogCaptureFixture) -> None:
    settings = ListenerSettings(tls=tls(server))
    listener = net.service.open(settings, Engines())
    with connect(listener) as client:
        client.sendall(b"\x16\x03")
        net.clock.await_wait(settings.handshake_timeout_ms)
        net.clock.advance(settings.handshake_timeout_ms // 2)
        client.sendall(b"\x01")
        net.advance(settings.handshake_timeout_ms // 2)
        assert is_cut_off(client)
    assert "PYJMS-NET-8" in caplog.text


def test_a_peer_that_sends_and_never_reads_is_not_read_from_for_ever(
    net: Net, authority: Authority, server: Identity
) -> None:
    engines = Engines(AmplifyingEngine)
    settings = ListenerSettings(tls=tls(server))
    listener = net.service.open(settings, engines)
    with authority.client_context().wrap_socket(connect(listener), server_hostname="127.0.0.1") as client:
        engine = engines.next()
        send_until_full(client)
        assert net.on_loop(lambda: len(engine.out)) <= 10 * 3 * settings.read_buffer_bytes


# ---------------------------------------------------------------------------------------------------- two on one port


@pytest.mark.realises("BJ-TLS-1", "BJ-TLS-2", "BJ-TLS-3")
def test_one_port_serves_plain_and_tls(net: Net, authority: Authority, server: Identity) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(tls=tls(server), plain_and_tls=True), engines)
    plain_url, secure_url = listener.urls
    assert (plain_url.partition(":")[0], secure_url.partition(":")[0]) == ("stomp", "stomps")
    with connect(listener) as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"
        peer = engines.next().conduit.peer
        assert (peer.is_secure, peer.listener) == (False, plain_url)
    with authority.client_context().wrap_socket(connect(listener), server_hostname="127.0.0.1") as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"
        peer = engines.next().conduit.peer
        assert (peer.is_secure, peer.listener) == (True, secure_url)


def test_one_byte_is_enough_to_choose(net: Net, server: Identity) -> None:
    listener = net.service.open(ListenerSettings(tls=tls(server), plain_and_tls=True), Engines())
    with connect(listener) as client:
        client.sendall(b"C")
        assert read_exactly(client, 1) == b"C"


def test_who_never_chooses_is_cut_off(net: Net, server: Identity) -> None:
    settings = ListenerSettings(tls=tls(server), plain_and_tls=True)
    listener = net.service.open(settings, engines := Engines())
    with connect(listener) as client:
        net.advance(settings.handshake_timeout_ms)
        assert is_cut_off(client)
    assert engines.none_is_new


# ------------------------------------------------------------------------------------------------------------------ files


def test_new_files_count_for_who_comes_after_they_were_read(net: Net, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.sign("server")
    listener = net.service.open(ListenerSettings(tls=tls(identity)), Engines())

    def shown() -> bytes | None:
        with authority.client_context().wrap_socket(connect(listener), server_hostname="127.0.0.1") as client:
            return client.getpeercert(binary_form=True)

    before = shown()
    authority.sign("server")
    assert shown() == before
    listener.reload_tls(tls(identity))
    after = shown()
    assert after == identity.der != before
    identity.certificate.write_text("rubbish")
    with pytest.raises(ListenerSettingsError, match=r"server\.pem"):
        listener.reload_tls(tls(identity))
    assert shown() == after


def test_a_listener_without_tls_takes_no_certificate(net: Net, server: Identity) -> None:
    listener = net.service.open(ListenerSettings(), Engines())
    with pytest.raises(ListenerSettingsError, match="opened without TLS; restart the port"):
        listener.reload_tls(tls(server))


def test_files_that_cannot_be_used_are_named(
    authority: Authority, server: Identity, alice: Identity, tmp_path: Path
) -> None:
    encrypted = Authority(tmp_path).sign("server", password="right")
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    wrong: list[TlsSettings] = [
        TlsSettings(certificate_file=tmp_path / "missing.pem"),
        TlsSettings(certificate_file=rubbish, key_file=server.key),
        TlsSettings(certificate_file=server.certificate, key_file=alice.key),
        TlsSettings(certificate_file=encrypted.certificate, key_file=encrypted.key),
        TlsSettings(certificate_file=encrypted.certificate, key_file=encrypted.key, key_password="wrong"),
    ]
    for settings in wrong:
        with pytest.raises(ListenerSettingsError, match=settings.certificate_file.name) as caught:
            make_context(settings, ListenerKind.TCP)
        assert "right" not in str(caught.value)
    with pytest.raises(ListenerSettingsError, match=r"rubbish\.pem"):
        make_context(tls(server, ClientCertificates.REQUIRED, rubbish), ListenerKind.TCP)
    make_context(
        TlsSettings(certificate_file=encrypted.certificate, key_file=encrypted.key, key_password="right"),
        ListenerKind.TCP,
    )


def test_closing_in_the_middle_of_a_handshake(net: Net, server: Identity) -> None:
    listener = net.service.open(ListenerSettings(tls=tls(server)), Engines())
    with connect(listener) as client:
        client.sendall(b"\x16\x03\x01")
        while not net.on_loop(lambda: listener.bytes_in):
            pass
        listener.close(graceful_s=10)
        assert is_cut_off(client)


def test_a_reset_in_the_middle_of_a_handshake(net: Net, server: Identity) -> None:
    listener = net.service.open(ListenerSettings(tls=tls(server)), Engines())
    with connect(listener) as client:
        client.sendall(b"\x16\x03\x01")
        client.shutdown(socket.SHUT_WR)
        assert is_cut_off(client)
    assert net.on_loop(lambda: listener.connection_count) == 0
