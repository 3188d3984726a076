"""REST over a real port with TLS: many threads, two brokers on one host, and users who are changed while they are there."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from socket import create_connection
from threading import Event
from typing import Any
from unittest.mock import ANY
from urllib.parse import urlsplit

import pytest

from pyjms import ConnectionFactory, JMSException, Session
from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.security.access import parse_rules, rules_to_data
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.serving.hosts import EmbeddedHost
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.management.world import ROOT, AuditTrail, basic
from tests.provider.transport.certificates import Authority

PASSWORD = "correct horse battery"
PATIENCE_S = 20.0


class Place:
    """A served broker with users, a STOMP port, and an http port with TLS."""

    def __init__(self, served: ServedBroker, folder: Path, authority: Authority) -> None:
        top = self.top = served.broker
        self.folder = folder
        for name in ("ann", "bob"):
            UserFile(folder / "users").add(name, PASSWORD, ["admins"])
        self.users = top.create_child(
            "authentication_provider", {"name": "users", "type": "user-file", "path": str(folder / "users")}
        )
        rules = rules_to_data(parse_rules("allow group:admins all *"))
        top.create_child("access_control", {"name": "access", "rules": rules})
        identity = authority.sign(f"broker-{folder.name}")
        files = {"certificate_file": str(identity.certificate), "key_file": str(identity.key)}
        top.create_child("key_store", {"name": "keys", **files})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        self.host = node.create_child("virtual_host", {"name": "shop"})
        chosen = {"port": 0, "authentication_providers": ["users"], "access_control": "access"}
        self.stomp = _address(top.create_child("port", {"name": "stomp", "type": "stomp", **chosen}))
        tls = {"transports": ["tls"], "key_store": "keys"}
        self.https = _address(top.create_child("port", {"name": "http", "type": "http", **chosen, **tls}))
        self.trust = authority.client_context()

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Ask once; return status, the answer, and its headers."""
        parts = urlsplit(self.https)
        connection = HTTPSConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S, context=self.trust)
        try:
            content = None if body is None else json.dumps(body)
            sent = {"content-type": "application/json"} if body is not None else {}
            connection.request(method, path, content, {**sent, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
            found = {name.lower(): value for name, value in answer.headers.items()}
            return answer.status, json.loads(text) if text else None, found
        finally:
            connection.close()

    def log_in(self, name: str) -> dict[str, str]:
        """Log in; return the cookie as a header."""
        status, _, headers = self.ask("POST", "/api/login", {"user_name": name, "password": PASSWORD})
        assert status == 200
        return {"cookie": headers["set-cookie"].partition(";")[0]}


def _address(port: Any) -> str:
    return str(port.addresses[0])


@contextmanager
def open_place(folder: Path, authority: Authority) -> Iterator[Place]:
    folder.mkdir()
    with ServedBroker.open(name="shop") as served:
        yield Place(served, folder, authority)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def place(tmp_path: Path, authority: Authority) -> Iterator[Place]:
    with open_place(tmp_path / "one", authority) as place:
        yield place


def test_many_threads_create_change_and_delete_over_tls(place: Place) -> None:
    who = {"authorization": basic("ann", PASSWORD)}

    def work(number: int) -> list[int]:
        path = f"{ROOT}/queue/main/shop/q{number}"
        return [
            place.ask("PUT", path, {"max_messages": 5}, who)[0],
            place.ask("PATCH", path, {"description": "x"}, who)[0],
            place.ask("GET", path, None, who)[0],
            place.ask("DELETE", path, None, who)[0],
        ]

    with ThreadPoolExecutor(8) as workers:
        assert list(workers.map(work, range(8))) == [[201, 200, 200, 204]] * 8
    assert [each.name for each in place.host.children("queue")] == []


def test_who_does_not_trust_the_broker_hears_nothing_and_the_port_lives_on(place: Place) -> None:
    trusting, place.trust = place.trust, ssl.create_default_context()
    with pytest.raises(ssl.SSLError):
        place.ask("GET", "/health/live")
    place.trust = trusting
    assert place.ask("GET", "/health/live")[0] == 200


def test_nobody_says_themselves_where_they_come_from(place: Place, trail: AuditTrail) -> None:
    wrong = {"authorization": basic("ann", "guessed"), "x-forwarded-for": "6.6.6.6", "x-forwarded-proto": "http"}
    assert place.ask("GET", "/api/whoami", None, wrong)[0] == 401
    assert [each["peer"] for each in trail.records if each["action"] == "log_in"] == ["127.0.0.1"]


def test_who_begins_no_handshake_is_hung_up_on(place: Place) -> None:
    tls = {"transports": ["tls"], "key_store": "keys", "handshake_timeout_ms": 200}
    with create_connection(_open_http(place, **tls), PATIENCE_S) as silent, suppress(ConnectionResetError):
        assert silent.recv(65_536) == b""


def test_a_handshake_has_its_time(place: Place) -> None:
    address = _open_http(
        place, transports=["tls"], key_store="keys", handshake_timeout_ms=60_000, answer_timeout_ms=200
    )
    with (
        create_connection(address, PATIENCE_S) as plain,
        place.trust.wrap_socket(plain, server_hostname="127.0.0.1") as seen,
    ):
        seen.sendall(ASKED)
        assert seen.recv(65_536).startswith(b"HTTP/1.1 200")


def _open_http(place: Place, **limits: Any) -> tuple[str, int]:
    chosen = {"port": 0, "authentication_providers": ["users"], "access_control": "access", **limits}
    parts = urlsplit(_address(place.top.create_child("port", {"name": "limited", "type": "http", **chosen})))
    return str(parts.hostname), int(parts.port or 0)


ASKED = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _get(address: tuple[str, int], path: str, host: str) -> int:
    """Return the status of what is asked as a host, as a reverse proxy that passes on its reader's does."""
    connection = HTTPConnection(*address, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers={"host": host, "authorization": basic("ann", PASSWORD)})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/console/", "/api/whoami", "/metrics", "/health/ready"])
def test_behind_a_proxy_a_port_answers_as_the_hosts_that_are_named(place: Place, path: str) -> None:
    address = _open_http(place, allowed_hosts=["console.example"])
    assert _get(address, path, "console.example") == 200
    assert _get(address, path, f"127.0.0.1:{address[1]}") == 200
    assert _get(address, path, "evil.example") == 421


def test_a_port_that_answers_as_any_host_says_so_in_the_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    assert _get(_open_http(place), "/api/whoami", "evil.example") == 421
    assert "PYJMS-HTTP-3" not in caplog.text
    place.top.child("port", "limited").delete(by="ann")
    assert _get(_open_http(place, allowed_hosts=["*"]), "/api/whoami", "evil.example") == 200
    assert "PYJMS-HTTP-3" in caplog.text


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "beginning",
    [
        b"G",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
    ],
)
def test_who_never_sends_a_whole_request_is_hung_up_on(place: Place, beginning: bytes, is_first: bool) -> None:
    with create_connection(_open_http(place, login_timeout_ms=500 if is_first else 5_000), PATIENCE_S) as slow:
        if not is_first:
            slow.sendall(ASKED)
            assert slow.recv(65_536).startswith(b"HTTP/1.1 200")
        slow.sendall(beginning)
        with suppress(ConnectionResetError):
            while slow.recv(65_536):
                pass


def test_one_address_has_only_so_many_connections_to_an_http_port(place: Place) -> None:
    address = _open_http(place, max_connections_per_address=2)
    with create_connection(address, PATIENCE_S) as one, create_connection(address, PATIENCE_S) as two:
        for each in (one, two):
            each.sendall(ASKED)
            assert each.recv(65_536).startswith(b"HTTP/1.1 200")
        with create_connection(address, PATIENCE_S) as three, suppress(ConnectionResetError, BrokenPipeError):
            three.sendall(ASKED)
            assert three.recv(65_536) == b""


def test_a_port_that_is_restarted_through_itself_answers_and_listens_again_with_its_new_certificate(
    place: Place, authority: Authority
) -> None:
    who = {"authorization": basic("ann", PASSWORD)}
    newer = authority.sign("renewed")
    files = {"certificate_file": str(newer.certificate), "key_file": str(newer.key)}
    assert place.ask("PATCH", f"{ROOT}/key_store/keys", files, who)[0] == 200
    number = int(place.https.rpartition(":")[2])
    assert place.ask("PATCH", f"{ROOT}/port/http", {"port": number}, who)[0] == 200  # the same one again
    assert place.ask("POST", f"{ROOT}/port/http/restart", {}, who) == (200, {"result": None}, ANY)
    assert place.ask("GET", f"{ROOT}/port/http", None, who)[1]["addresses"] == [place.https]
    with (
        create_connection(("127.0.0.1", number), PATIENCE_S) as plain,
        place.trust.wrap_socket(plain, server_hostname="127.0.0.1") as seen,
    ):
        shown = seen.getpeercert()
    assert shown is not None
    assert (("commonName", "renewed"),) in shown["subject"]


def test_a_port_takes_a_renewed_certificate_through_itself_and_refuses_a_bad_one(
    place: Place, authority: Authority
) -> None:
    who = {"authorization": basic("ann", PASSWORD)}
    newer = authority.sign(f"broker-{place.folder.name}")  # in the same files
    operation = f"{ROOT}/port/http/reload_certificates"
    assert place.ask("POST", operation, {}, who) == (200, {"result": None}, ANY)
    shown = newer.der
    newer.certificate.write_text("rubbish")
    status, answer, _ = place.ask("POST", operation, {}, who)
    assert (status, answer["error"]["code"]) == (422, "PYJMS-MODEL-ATTRIBUTES")
    with (
        create_connection(("127.0.0.1", int(place.https.rpartition(":")[2])), PATIENCE_S) as plain,
        place.trust.wrap_socket(plain, server_hostname="127.0.0.1") as seen,
    ):
        assert seen.getpeercert(binary_form=True) == shown


@pytest.mark.parametrize("ask", [("DELETE", ""), ("POST", "/stop")])
def test_a_port_is_not_ended_through_itself(place: Place, ask: tuple[str, str]) -> None:
    who = {"authorization": basic("ann", PASSWORD)}
    method, operation = ask
    status, answer, _ = place.ask(method, f"{ROOT}/port/http{operation}", None, who)
    assert (status, answer["error"]["code"]) == (409, "PYJMS-MODEL-IN-USE")
    assert "through another port" in answer["error"]["reason"]
    assert place.ask("GET", "/health/ready")[0] == 200


@pytest.mark.realises("BJ-HTTP-5")
def test_two_brokers_on_one_host_do_not_share_cookies(tmp_path: Path, authority: Authority) -> None:
    with open_place(tmp_path / "one", authority) as one, open_place(tmp_path / "two", authority) as two:
        first, second = one.log_in("ann"), two.log_in("ann")
        names = [each["cookie"].partition("=")[0] for each in (first, second)]
        assert len(set(names)) == 2
        assert all(name.startswith("__Host-pyjms_session_") for name in names)
        both = {"cookie": f"{first['cookie']}; {second['cookie']}"}  # as a browser sends them
        for each in (one, two):
            assert each.ask("GET", "/api/whoami", headers=both)[1]["user_name"] == "ann"
        assert two.ask("GET", "/api/whoami", headers=first)[0] == 401


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda user: user.delete(by="ann"), id="deleted"),
        pytest.param(lambda user: user.set_attributes({"password": "another good one"}, by="ann"), id="password"),
        pytest.param(lambda user: user.set_attributes({"groups": []}, by="ann"), id="groups"),
    ],
)
def test_what_a_user_has_open_ends_at_once_when_the_user_is_changed_or_deleted(place: Place, change: Any) -> None:
    bob, ann = place.log_in("bob"), place.log_in("ann")
    lost: list[JMSException] = []
    ended, going_on = Event(), Event()

    def hear(problem: JMSException) -> None:
        lost.append(problem)
        ended.set()

    factory = ConnectionFactory(f"{place.stomp}?reconnect=no")
    with factory.create_connection("bob", PASSWORD) as connection, factory.create_connection("ann", PASSWORD) as other:
        connection.exception_listener = hear
        other.exception_listener = lambda _: going_on.set()
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_consumer(session.create_queue("orders"))
        user: ManagedObject = place.users.child("user", "bob")
        change(user)
        assert place.ask("GET", "/api/whoami", headers=bob)[0] == 401
        assert place.ask("GET", "/api/whoami", headers=ann)[0] == 200
        assert ended.wait(PATIENCE_S)
        assert "bob" in str(lost[0])
        assert not going_on.is_set()
        assert len(list(place.host.children("connection"))) == 1
    with pytest.raises(JMSException):
        ConnectionFactory(place.stomp).create_connection("bob", "never right")


def test_a_client_whose_user_is_deleted_while_it_logs_in_is_not_let_in(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = EmbeddedHost.connect
    user = place.users.child("user", "bob")

    def delete_meanwhile(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        user.delete(by="ann")
        return connect(*arguments, **options)

    monkeypatch.setattr(EmbeddedHost, "connect", delete_meanwhile)
    with pytest.raises(JMSException, match="credentials were refused"):
        ConnectionFactory(f"{place.stomp}?reconnect=no").create_connection("bob", PASSWORD).close()
    assert not list(place.host.children("connection"))


def test_rules_that_would_shut_out_who_puts_them_are_put_if_they_insist(place: Place) -> None:
    who = {"authorization": basic("ann", PASSWORD)}
    rules: dict[str, Any] = {"rules": []}
    status, answer, _ = place.ask("PUT", f"{ROOT}/access_control/access", rules, who)
    assert (status, answer["error"]["code"]) == (409, "PYJMS-LOCK-OUT")
    assert place.ask("PATCH", f"{ROOT}/access_control/access?force=perhaps", rules, who)[0] == 400
    assert place.ask("DELETE", f"{ROOT}/queue/main/shop/none?force=true", None, who)[0] == 400
    assert place.ask("PUT", f"{ROOT}/access_control/access?force=true", rules, who)[0] == 200
    assert place.ask("GET", f"{ROOT}/broker", None, who)[0] == 403
