"""Logins at ports that let in everybody: accepted and noted as unchecked there, and judged wherever anybody can judge them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyjms_provider.model.port import Port
from pyjms_provider.model.security import AuthenticationProvider
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.serving.served_broker import ServedBroker
from tests.system.network.raw import Raw
from tests.system.network.served import anonymous_broker, port_of, user_broker

PASSWORD = "a good secret"


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def log_in(served: ServedBroker, *headers: str) -> Frame:
    with Raw.shaking(port_of(served)) as client:
        client.say("\n".join(["CONNECT", "accept-version:1.2", "host:", *headers, "", ""]))
        return client.next()


def connections_of(served: ServedBroker) -> list[dict[str, Any]]:
    (node,) = served.broker.children("virtual_host_node")
    (host,) = node.children("virtual_host")
    return [each.statistic_values() for each in host.children("connection")]


@pytest.mark.parametrize(
    ("headers", "login"),
    [
        ((), None),
        (("login:", "passcode:"), None),
        (("login:guest", "passcode:guest"), "guest"),
        (("login:guest",), "guest"),
        (("passcode:guest",), ""),
        (("login:oauth2", "passcode:a.b.c"), "oauth2"),
    ],
)
def test_a_port_that_only_lets_in_everybody_takes_any_login_and_notes_it(
    audit: pytest.LogCaptureFixture, headers: tuple[str, ...], login: str | None
) -> None:
    with anonymous_broker() as served, Raw.shaking(port_of(served)) as client:
        client.say("\n".join(["CONNECT", "accept-version:1.2", "host:", *headers, "", ""]))
        assert client.next().command == "CONNECTED"
        (connection,) = connections_of(served)
        assert (connection["user"], connection["unchecked_login"]) == ("anonymous", login)
    lines = [each.getMessage() for each in audit.records if "PYJMS-STOMP-7" in each.getMessage()]
    assert len(lines) == (0 if login is None else 1)
    assert all("not checked" in line and repr(login) in line for line in lines)


def test_a_long_or_strange_user_name_does_not_spoil_the_log(audit: pytest.LogCaptureFixture) -> None:
    with anonymous_broker() as served:
        assert log_in(served, f"login:\u2028{'x' * 5_000}", "passcode:secret").command == "CONNECTED"
    (line,) = [each.getMessage() for each in audit.records if "PYJMS-STOMP-7" in each.getMessage()]
    assert line.isascii()
    assert len(line) < 300
    assert "secret" not in audit.text


def test_the_audit_log_says_that_a_login_was_not_checked(audit: pytest.LogCaptureFixture) -> None:
    with anonymous_broker() as served:
        log_in(served, "login:guest", "passcode:guest")
    (line,) = [
        each.getMessage() for each in audit.records if each.name == "pyjms.audit" and "guest" in each.getMessage()
    ]
    assert "not checked" in line


@pytest.fixture(params=["before", "after"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServedBroker]:
    """Return a broker whose port is served by users' passwords, and lets in who sends none."""
    with anonymous_broker() as served:
        users = served.broker.create_child(
            "authentication_provider", {"name": "users", "type": "user-file", "path": str(tmp_path / "users")}
        )
        users.create_child("user", {"name": "alice", "password": PASSWORD})
        (port,) = served.broker.children("port")
        port.set_attributes(
            {"authentication_providers": ["users", "who"] if request.param == "before" else ["who", "users"]}
        )
        assert isinstance(port, Port)
        port.restart()
        yield served


def test_where_passwords_are_checked_a_wrong_one_is_refused_as_before(mixed: ServedBroker) -> None:
    assert log_in(mixed).command == "CONNECTED"
    assert log_in(mixed, "login:alice", f"passcode:{PASSWORD}").command == "CONNECTED"
    for login, passcode in (("alice", "wrong"), ("guest", "guest"), ("alice", "")):
        answer = log_in(mixed, f"login:{login}", f"passcode:{passcode}")
        assert answer.command == "ERROR"
        assert "credentials were refused" in answer.headers["message"]


def test_a_login_is_refused_while_who_could_check_it_is_stopped(mixed: ServedBroker) -> None:
    (users,) = [each for each in mixed.broker.children("authentication_provider") if each.name == "users"]
    (port,) = mixed.broker.children("port")
    assert isinstance(users, AuthenticationProvider)
    assert isinstance(port, Port)
    users.stop()
    for _ in range(2):
        assert log_in(mixed).command == "CONNECTED"
        assert log_in(mixed, "login:alice", f"passcode:{PASSWORD}").command == "ERROR"
        port.restart()


def test_a_port_with_users_alone_lets_in_nobody_else(tmp_path: Path) -> None:
    with user_broker(tmp_path / "users") as served:
        assert log_in(served).command == "ERROR"
        assert log_in(served, "login:guest", "passcode:guest").command == "ERROR"
