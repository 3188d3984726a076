"""Logins of AMQP clients at a port: by each mechanism, and what is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyjms_provider.amqp.performatives import Open
from pyjms_provider.protocols.amqp.connection import (
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    ConnectionSettings,
    Event,
    LoginEnded,
)
from pyjms_provider.protocols.amqp.sasl import Anonymous, ClientMechanism, Plain, ScramSha256
from pyjms_provider.security.passwords import HashSettings, PasswordHasher, Scheme
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.serving.served_broker import ServedBroker
from tests.system.network.served import anonymous_broker, port_of, user_broker

PASSWORD = "a good secret"


@contextmanager
def connected(
    served: ServedBroker, mechanisms: Sequence[ClientMechanism], container: str = "c"
) -> Iterator[list[Event]]:
    """Connect, log in and open; yield all that has happened."""
    machine = Connection(ConnectionSettings(), mechanisms)
    events: list[Event] = []
    with socket.create_connection(("127.0.0.1", port_of(served)), 10) as wire:
        machine.start()
        if not mechanisms:
            machine.open(Open(container))
        while not any(isinstance(each, ConnectionOpened | ConnectionClosed | ConnectionFailed) for each in events):
            wire.sendall(machine.take())
            data = wire.recv(65536)
            if not data:
                break
            for event in machine.receive(data):
                events.append(event)
                if isinstance(event, LoginEnded):
                    machine.open(Open(container))
        yield events


def users(path: Path, scheme: Scheme) -> Path:
    """Make a user file with one user."""
    hasher = PasswordHasher(HashSettings(scheme=scheme, memory_kib=64, passes=1, iterations=4096))
    UserFile(path, hasher=hasher).add("ann", PASSWORD)
    return path


AMQP: dict[str, Any] = {"type": "amqp", "name": "amqp"}


@pytest.mark.parametrize(
    "mechanisms", [(), (Anonymous(),), (Plain("guest", "guest"),)], ids=["no SASL", "ANONYMOUS", "PLAIN"]
)
def test_a_port_that_lets_in_everybody_takes_any_login(mechanisms: tuple[ClientMechanism, ...]) -> None:
    with anonymous_broker(**AMQP) as served, connected(served, mechanisms) as events:
        assert isinstance(events[-1], ConnectionOpened)
        assert events[-1].open.properties is not None
        assert events[-1].open.properties["product"] == "pyjms"


@pytest.mark.parametrize("scheme", Scheme)
def test_a_user_logs_in_by_password(tmp_path: Path, scheme: Scheme) -> None:
    with user_broker(users(tmp_path / "users", scheme), port=AMQP) as served:
        with connected(served, [Plain("ann", PASSWORD)]) as events:
            assert isinstance(events[-1], ConnectionOpened)
        with connected(served, [Plain("ann", "another one")]) as events:
            assert isinstance(events[-1], ConnectionFailed)
        with connected(served, [Anonymous()]) as events:
            assert isinstance(events[-1], ConnectionFailed)
        with connected(served, []) as events:
            assert isinstance(events[-1], ConnectionFailed)


def test_a_user_with_a_scram_verifier_logs_in_without_sending_the_password(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with user_broker(users(tmp_path / "users", Scheme.SCRAM_SHA_256), audit, port=AMQP) as served:
        with connected(served, [ScramSha256("ann", PASSWORD)]) as events:
            assert isinstance(events[-1], ConnectionOpened)
        for user, password in (("ann", "another one"), ("bob", PASSWORD)):
            with connected(served, [ScramSha256(user, password)]) as events:
                assert isinstance(events[-1], ConnectionFailed)
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    logins = [(each["result"], each.get("who"), each.get("target")) for each in lines if each["action"] == "log_in"]
    assert [result for result, *_ in logins] == ["done", "refused", "refused"]
    assert {"ann", "bob"} <= {target for _, _, target in logins}


def test_scram_is_offered_only_where_every_user_can_log_in_by_it(tmp_path: Path) -> None:
    with (
        user_broker(users(tmp_path / "users", Scheme.ARGON2ID), port=AMQP) as served,
        connected(served, [ScramSha256("ann", PASSWORD)]) as events,
    ):
        assert isinstance(events[-1], ConnectionFailed)


def test_wrong_proofs_of_scram_are_limited_as_wrong_passwords_are(tmp_path: Path) -> None:
    with user_broker(users(tmp_path / "users", Scheme.SCRAM_SHA_256), port=AMQP) as served:
        for _ in range(40):
            with connected(served, [ScramSha256("ann", "another one")]) as events:
                assert isinstance(events[-1], ConnectionFailed)
        # The right password is refused now as well, as after as many wrong passwords.
        with connected(served, [ScramSha256("ann", PASSWORD)]) as events:
            assert isinstance(events[-1], ConnectionFailed)
        with connected(served, [Plain("ann", PASSWORD)]) as events:
            assert isinstance(events[-1], ConnectionFailed)
