"""Tokens that a client shows after its login, at ``$cbs`` (claims-based security)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from pyjms_provider.amqp import performatives
from pyjms_provider.amqp.codec import write_value
from pyjms_provider.amqp.errors import Condition
from pyjms_provider.amqp.message import VALUE, Message, write_application_properties, write_section
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Disposition,
    Flow,
    Properties,
    Rejected,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
)
from pyjms_provider.protocols.amqp.frames import ProtocolId
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.protocols.amqp.raw import RawPeer, SocketWire
from tests.system.network.served import port_of, user_broker

KEY = rsa.generate_private_key(65537, 2048)
ISSUER, AUDIENCE = "https://id.example.com/", "pyjms-shop"
PASSWORD = "correct horse battery"


def token(user: str = "alice", lives_s: int = 60) -> str:
    now_s = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "exp": now_s + lives_s, "iat": now_s - 100}
    return jwt.encode(claims, KEY, "RS256", {"kid": "k"})


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{**json.loads(RSAAlgorithm.to_jwk(KEY.public_key())), "kid": "k"}]}))
    with ServedBroker.open(name="broker") as served:
        top = served.broker
        settings = {"issuer": ISSUER, "audience": AUDIENCE, "keys_file": str(keys)}
        top.create_child("authentication_provider", {"name": "tokens", "type": "jwt", **settings})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        node.create_child("virtual_host", {"name": "shop"})
        chosen = {"authentication_providers": ["tokens"], "access_control": "access"}
        top.create_child("port", {"name": "amqp", "type": "amqp", "port": 0, **chosen})
        yield served


class Client:
    """A client of ``$cbs``."""

    def __init__(self, served: ServedBroker, *, is_dynamic: bool = False) -> None:
        self.peer = RawPeer(SocketWire(("127.0.0.1", port_of(served))))
        self._is_dynamic = is_dynamic
        self.reply_to: str | None = None

    def log_in(self, shown: str) -> None:
        peer = self.peer
        peer.header(ProtocolId.SASL)
        peer.expect_header(ProtocolId.SASL)
        assert "XOAUTH2" in peer.expect(SaslMechanisms).mechanisms
        peer.send_sasl(SaslInit("XOAUTH2", f"user=x\x01auth=Bearer {shown}\x01\x01".encode()))
        assert peer.expect(SaslOutcome).code == SaslCode.OK

    def attach(self) -> None:
        """Attach as clients of Azure do, or with a dynamic node."""
        self.peer.open()
        self.peer.begin()
        answered = self.peer.attach_receiver(Source(dynamic=True) if self._is_dynamic else "$cbs", credit=100)
        if self._is_dynamic:
            assert isinstance(answered.source, Source)
            self.reply_to = answered.source.address
        self.peer.attach_sender("$cbs")

    def put(self, body: Any, status: int, **given: Any) -> str:
        """Show a token; return the description of the answer, which has that status."""
        properties = {"operation": "put-token", "type": "jwt", "name": "amqp://shop", **given}
        self.peer.transfer(_request(body, properties, reply_to=self.reply_to))
        transfer, data = self.peer.receive(passing=(Flow, Disposition))
        assert transfer.delivery_id is not None
        self.peer.settle(transfer.delivery_id, ACCEPTED)
        answer = Message(data)
        told = answer.application_properties
        assert told["status-code"] == status, dict(told)
        assert (answer.properties.correlation_id, answer.properties.to) == ("one", self.reply_to)
        return str(told["status-description"])


def _request(body: Any, given: dict[str, Any], **fields: Any) -> bytes:
    return b"".join(
        (
            performatives.write(Properties(message_id="one", **fields)),
            write_application_properties(given),
            write_section(VALUE, write_value(body)),
        )
    )


@pytest.fixture
def client(broker: ServedBroker) -> Iterator[Client]:
    made = Client(broker)
    made.log_in(token())
    made.attach()
    yield made
    made.peer.wire.close()


def test_a_token_of_the_same_user_is_accepted(client: Client) -> None:
    for kind in ("jwt", "amqp:jwt") * 10:  # more than the link has credit at once
        assert client.put(token(), 202, type=kind) == "Accepted"
    client.peer.attach_sender("orders", name="orders", handle=5)
    client.peer.close()


def test_answers_may_come_to_a_dynamic_node(broker: ServedBroker) -> None:
    client = Client(broker, is_dynamic=True)
    client.log_in(token())
    client.attach()
    assert client.put(token(), 202) == "Accepted"
    client.peer.wire.close()


def test_a_token_of_another_user_changes_nothing_and_is_audited(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert "another user" in client.put(token("mallory"), 401)
    assert client.put(token(), 202)
    told = [each.getMessage() for each in caplog.records if each.name == "pyjms.audit"]
    assert any("another user" in each for each in told)


@pytest.mark.parametrize(
    ("body", "status", "given"),
    [
        ("no token", 401, {}),
        (token(lives_s=-90), 401, {}),
        ("", 400, {}),
        (b"bytes", 400, {}),
        (token(), 400, {"name": None}),
        ("SharedAccessSignature sr=x", 501, {"type": "servicebus.windows.net:sastoken"}),
        (token(), 501, {"type": None}),
        (token(), 501, {"operation": "delete-token"}),
    ],
    ids=["none", "expired", "empty", "bytes", "no audience", "SAS", "no type", "another operation"],
)
def test_what_is_no_token_is_refused_with_the_reason(
    client: Client, body: Any, status: int, given: dict[str, Any]
) -> None:
    reason = client.put(body, status, **given)
    assert reason
    assert str(body)[-20:] not in reason or not body


def test_a_port_without_tokens_says_so(tmp_path: Path) -> None:
    UserFile(tmp_path / "users").add("ann", PASSWORD)
    with user_broker(tmp_path / "users", port={"type": "amqp", "name": "amqp"}) as served:
        client = Client(served)
        client.peer.log_in("ann", PASSWORD)
        client.attach()
        assert "takes tokens" in client.put(token("ann"), 501)
        client.peer.wire.close()


def test_a_token_stays_in_no_queue(client: Client) -> None:
    peer = client.peer
    peer.attach_sender(Target(), name="relay", handle=5)
    state = peer.outcome(_request(token(), {}, to="$cbs"), handle=5)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == Condition.NOT_IMPLEMENTED


def test_a_request_that_cannot_be_answered_is_rejected(client: Client) -> None:
    state = client.peer.outcome(_request(token(), {"operation": "put-token"}, reply_to="temp-queue://gone"))
    assert isinstance(state, Rejected)
    assert client.put(token(), 202)
