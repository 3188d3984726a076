"""What the tests of management share: a broker in memory, people who may do this and that, and clients of its REST API."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
from starlette.testclient import TestClient

from pyjms.spi.clock import Clock
from pyjms.spi.errors import AccessDeniedError
from pyjms.testing import VirtualClock
from pyjms_provider.management.rest.app import RestSettings, make_app
from pyjms_provider.management.service import Caller, ManagementService
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.contracts import Services
from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.security.access import RuleAccessPolicy, parse_rules
from pyjms_provider.security.audit import AuditLog
from pyjms_provider.security.contracts import (
    Authenticator,
    Credentials,
    PasswordCredentials,
    Principal,
    TokenCredentials,
)
from pyjms_provider.transport.settings import TlsSettings

ROOT: Final = "/api/latest"
RULES: Final = """
allow group:admins all *
allow user:bob observe,browse queue:orders*
allow user:bob observe virtual_host:shop
allow user:bob create queue:bob.*
allow user:carol administer,observe queue:orders
allow user:carol observe *
"""


class People(Authenticator):
    """Ann is an operator, Bob and Carol may do little; who shows nothing is refused."""

    def __init__(self) -> None:
        self.passwords = {"ann": "ann's-password", "bob": "bob's-password", "carol": "carol's-password"}
        self.tokens = {"ann's-token": "ann"}
        self.provider = "people"

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        name: str | None = None
        if isinstance(credentials, PasswordCredentials):
            known = self.passwords.get(credentials.user_name)
            name = credentials.user_name if known is not None and known == credentials.password else None
        elif isinstance(credentials, TokenCredentials):
            name = self.tokens.get(credentials.token)
        if name is None:
            raise AccessDeniedError("the user name or the password is wrong")
        groups = frozenset({"admins"}) if name == "ann" else frozenset[str]()
        return Principal(name=name, groups=groups, provider=self.provider)


@dataclass
class PretendedPort:
    """A port that is open in name only."""

    addresses: tuple[str, ...] = ("pretended://here",)
    connections: int = 0

    def reload_certificates(self, tls: TlsSettings) -> None:
        """Do nothing."""

    def close(self, *, lingers: bool = False) -> None:
        """Do nothing."""


@dataclass
class Site:
    """A broker ``shop`` with one virtual host ``main/shop`` in memory, and its REST API without a network."""

    rules: str = RULES
    settings: RestSettings = field(default_factory=RestSettings)
    clock: Clock = field(default_factory=VirtualClock)

    def __post_init__(self) -> None:
        openers = {"stomp": _pretend, "http": _pretend}
        self.system = SystemConfig.opened(
            broker={"name": "shop"}, clock=self.clock, services=Services(port_openers=openers)
        )
        node = self.system.broker.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        host = node.create_child("virtual_host", {"name": "shop"})
        assert isinstance(host, VirtualHost)
        self.host = host
        self.people = People()
        self.access = RuleAccessPolicy(parse_rules(self.rules))
        self.audit = AuditLog(self.clock)
        self.management = ManagementService(self.system, self.audit)
        self.app = make_app(self.management, self.people, self.access, self.settings, [])

    def queue(self, name: str = "orders", **attributes: Any) -> ManagedObject:
        return self.host.create_child("queue", {"name": name, **attributes})

    def publish(self, queue: str, *texts: str) -> None:
        for text in texts:
            self.host.child("queue", queue).invoke("publish", {"message": {"text": text}})

    def caller(self, name: str = "ann") -> Caller:
        credentials = PasswordCredentials(user_name=name, password=self.people.passwords[name])
        return Caller(principal=self.people.authenticate(credentials), access=self.access, peer="127.0.0.1")

    def client(self, user: str | None = "ann") -> TestClient:
        """Return a client that shows the user's password with each request; None: it shows nothing."""
        headers = {} if user is None else {"authorization": basic(user, self.people.passwords[user])}
        return TestClient(self.app, base_url="http://localhost", headers=headers, raise_server_exceptions=False)

    def close(self) -> None:
        self.management.close()
        self.system.close()


def _pretend(_: ManagedObject) -> PretendedPort:
    return PretendedPort()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def error_of(response: httpx2.Response, status: int) -> dict[str, Any]:
    """Return the error that an answer tells of, which has that status."""
    assert response.status_code == status, (response.status_code, response.text)
    found: Mapping[str, Any] = response.json()["error"]
    assert found["code"].startswith("PYJMS-")
    assert found["reason"]
    return dict(found)


def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, (response.status_code, response.text)
    return response.json() if response.content else None


class AuditTrail(logging.Handler):
    """Keeps what the audit log says."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(json.loads(record.getMessage().partition(" ")[2]))
