from __future__ import annotations

from pathlib import Path
from ssl import TLSVersion

import pytest

from pyjms_provider.transport.settings import (
    ClientCertificates,
    ListenerSettings,
    ListenerSettingsError,
    TlsSettings,
    WebSocketSettings,
)

HERE = Path("server.pem")


def test_a_listener_is_on_loopback_unless_told_otherwise() -> None:
    assert ListenerSettings().host == "127.0.0.1"


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"host": ""}, "0.0.0.0 for all"),
        ({"port": 65_536}, "up to 65535"),
        ({"port": -1}, "write 0 for a free one"),
        ({"plain_and_tls": True}, "needs tls"),
        ({"read_buffer_bytes": 10}, "read_buffer_bytes is 10"),
        ({"write_buffer_bytes": 10}, "at least 1024"),
        ({"max_connections": 0}, "at least 1"),
        ({"max_connections_per_address": 0}, "at least 1"),
        ({"stalled_timeout_ms": 0}, "at least 1"),
        ({"handshake_timeout_ms": 0}, "at least 1"),
        ({"closing_timeout_ms": 0}, "at least 1"),
        ({"login_timeout_ms": 0}, "at least 1"),
        ({"backlog": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(wrong: dict[str, object], advice: str) -> None:
    with pytest.raises(ListenerSettingsError, match=advice):
        ListenerSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "version", [TLSVersion.TLSv1, TLSVersion.TLSv1_1, TLSVersion.SSLv3, TLSVersion.MINIMUM_SUPPORTED]
)
def test_old_versions_of_tls_are_refused(version: TLSVersion) -> None:
    with pytest.raises(ListenerSettingsError, match=r"before 1\.2"):
        TlsSettings(certificate_file=HERE, minimum_version=version)


@pytest.mark.parametrize("wanted", [ClientCertificates.WANTED, ClientCertificates.REQUIRED])
def test_who_asks_for_certificates_says_whom_he_trusts(wanted: ClientCertificates) -> None:
    with pytest.raises(ListenerSettingsError, match="set trust_file"):
        TlsSettings(certificate_file=HERE, client_certificates=wanted)


def test_a_password_is_not_shown() -> None:
    settings = ListenerSettings(tls=TlsSettings(certificate_file=HERE, key_password="secret"))
    assert "secret" not in repr(settings)


@pytest.mark.parametrize("wrong", [{"path": "stomp"}, {"max_message_bytes": 0}])
def test_a_websockets_settings_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ListenerSettingsError):
        WebSocketSettings(**wrong)  # type: ignore[arg-type]
