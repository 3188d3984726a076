"""The example of the guide to broker plug-ins, installed as a package, in a broker that runs as a user runs it, and used by clients."""

from __future__ import annotations

import base64
import json
import re
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from websockets import Subprotocol
from websockets.sync.client import connect

from pyjms import (
    ConnectionFactory,
    InvalidDestinationException,
    JMSSecurityException,
    ResourceAllocationException,
    Session,
    TextMessage,
)
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.commands.served import PATIENCE_S, BrokerProcess
from tests.provider.model.plugged import packages
from tests.provider.stores.installing import install
from tests.pyjms.spi.folder import GUIDE

pytestmark = pytest.mark.realises("BJ-GEN-4")

TEXT = (GUIDE / "broker-plugins.md").read_text("utf-8")
CONFIGURATION = """
version = 1
[broker]
name = "shop"
[[authentication_provider]]
name = "team"
type = "team"
password = "one for all"
members = ["ann", "bob"]
[[access_control]]
name = "frozen"
type = "frozen"
queues = ["archive.*"]
[[virtual_host_node]]
name = "main"
type = "json"
[[port]]
name = "stomp"
type = "stomp"
port = 0
authentication_providers = ["team"]
access_control = "frozen"
[[port]]
name = "lines"
type = "line"
port = 0
line_max = 100
authentication_providers = ["team"]
access_control = "frozen"
[[port]]
name = "http"
type = "http"
port = 0
authentication_providers = ["team"]
access_control = "frozen"
"""


def points() -> str:
    """Return the entry points that the page shows, in the form of an installed package."""
    (found,) = re.findall(r"```toml\n(\[project\]\n.*?)```", TEXT, re.DOTALL)
    groups: dict[str, dict[str, str]] = tomllib.loads(found)["project"]["entry-points"]
    return "\n".join(
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in named.items())
        for group, named in groups.items()
    )


def put_package(folder: Path) -> Path:
    install(folder, "team-broker", points(), group="")
    (folder / "broker_plugins.py").write_text((GUIDE / "broker_plugins.py").read_text("utf-8"), "utf-8")
    return folder


class Broker:
    """A broker that runs with the package, or without it."""

    def __init__(self, folder: Path, packages: Path | None, *, needs_login: bool = False) -> None:
        self.needs_login = needs_login
        variables = {} if packages is None else {"PYTHONPATH": str(packages)}
        self.process = BrokerProcess(folder, variables=variables)

    def announced(self, *schemes: str) -> None:
        self.urls = dict(zip(schemes, self.process.announced(*schemes), strict=True))

    def rest(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"content-type": "application/json"}
        if self.needs_login:
            headers["authorization"] = f"Basic {base64.b64encode(b'ann:one for all').decode()}"
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.urls['http']}/api/v1/{path}", data, headers, method=method)
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read() or b"null")

    def connection(self, user: str = "ann", password: str = "one for all") -> Any:
        return ConnectionFactory(self.urls["stomp"]).create_connection(user, password)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "broker.toml").write_text(CONFIGURATION, "utf-8")
    broker = Broker(folder, put_package(tmp_path_factory.mktemp("packages")), needs_login=True)
    try:
        broker.announced("stomp", "line", "http")
        broker.rest("PUT", "virtual_host/main/shop", {"store_url": f"sqlite:///{folder}/shop.db"})
        broker.rest("PUT", "queue/main/shop/lifo", {"type": "lifo"})
        yield broker
    finally:
        assert broker.process.end() == 0, broker.process.log


class Lines:
    """A client of the protocol of lines."""

    def __init__(self, broker: Broker) -> None:
        host, port = broker.urls["line"].removeprefix("line://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.file = self.socket.makefile("rw", encoding="utf-8", newline="\n")

    def say(self, *lines: str) -> None:
        self.file.write("".join(f"{line}\n" for line in lines))
        self.file.flush()

    def ask(self, line: str) -> str:
        self.say(line)
        return self.answer()

    def answer(self) -> str:
        return self.file.readline().rstrip("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()


def received(session: Session, queue: str, many: int) -> list[str]:
    consumer = session.create_consumer(session.create_queue(queue))
    texts = []
    for _ in range(many):
        message = consumer.receive(int(PATIENCE_S * 1000))
        assert isinstance(message, TextMessage)
        texts.append(message.text or "")
    consumer.close()
    return texts


def test_a_stomp_client_comes_in_by_a_packages_authentication(broker: Broker) -> None:
    with broker.connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_producer(session.create_queue("orders")).send(session.create_text_message("espresso"))
        assert received(session, "orders", 1) == ["espresso"]
    for user, password in (("ann", "one for none"), ("eve", "one for all")):
        with pytest.raises(JMSSecurityException, match="credentials were refused"):
            broker.connection(user, password)
    found = broker.rest("GET", "authentication_provider/team")
    assert (found["type"], found["password"], found["members"]) == ("team", "********", ["ann", "bob"])


def test_a_packages_access_control_denies_a_send(broker: Broker) -> None:
    with broker.connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(None)
        message = session.create_text_message("x")
        with pytest.raises(JMSSecurityException, match=r"the queue archive\.2025 is frozen: send to it later"):
            producer.send(session.create_queue("archive.2025"), message)
        # A change of its settings counts at once, for connections that are open.
        broker.rest("PATCH", "access_control/frozen", {"queues": ["other"]})
        producer.send(session.create_queue("archive.2025"), message)
        broker.rest("PATCH", "access_control/frozen", {"queues": ["archive.*"]})
        with pytest.raises(JMSSecurityException, match=r"frozen"):
            producer.send(session.create_queue("archive.2025"), message)


def test_another_users_temporary_queue_is_fixed_whatever_the_package_says(broker: Broker) -> None:
    with broker.connection() as own, broker.connection("bob") as other:
        queue = own.create_session(False, Session.AUTO_ACKNOWLEDGE).create_temporary_queue()
        session = other.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_producer(queue).send(session.create_text_message("an answer"))
        with pytest.raises(InvalidDestinationException, match="belongs to another connection"):
            session.create_consumer(queue)


def test_a_packages_protocol_is_spoken_through_a_socket(broker: Broker) -> None:
    with Lines(broker) as lines:
        assert lines.ask("SEND tea one") == "ERROR log in first: LOGIN USER PASSWORD"
        assert lines.ask("LOGIN ann one for all") == "OK"
        assert lines.ask("SEND tea one lump") == "OK"
        assert lines.ask("SEND archive.1 x") == "ERROR the queue archive.1 is frozen: send to it later"
        # Several lines at once are answered in their order.
        lines.say("SEND tea two", "RECEIVE tea", "RECEIVE tea", "RECEIVE tea")
        assert [lines.answer() for _ in range(4)] == ["OK", "MESSAGE one lump", "MESSAGE two", "NONE"]
        (client,) = broker.rest("GET", "connection?filter=protocol%20%3D%20'line'")["items"]
        assert client["user"] == "ann"
        assert broker.rest("GET", "port/lines")["connection_count"] == 1
        assert lines.ask("QUIT") == "BYE"
        assert lines.answer() == ""


def test_messages_go_from_one_protocol_to_the_other(broker: Broker) -> None:
    with Lines(broker) as lines, broker.connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        assert lines.ask("LOGIN bob one for all") == "OK"
        assert lines.ask("SEND both from a line") == "OK"
        assert received(session, "both", 1) == ["from a line"]
        session.create_producer(session.create_queue("both")).send(session.create_text_message("from JMS"))
        assert lines.ask("RECEIVE both") == "MESSAGE from JMS"


def test_a_client_of_the_protocol_that_is_wrong_is_refused(broker: Broker) -> None:
    with Lines(broker) as lines:
        assert lines.ask("LOGIN ann wrong").startswith("ERROR the credentials were refused")
        assert lines.answer() == "", "it hangs up"
    with Lines(broker) as lines:
        lines.say("SEND " + "x" * 200)
        assert lines.answer() == "ERROR the line is too long"
        assert lines.answer() == ""


def test_consumers_see_the_order_of_a_packages_queue_type(broker: Broker) -> None:
    with broker.connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("lifo"))
        for text in ("first", "second", "third"):
            producer.send(session.create_text_message(text))
        assert received(session, "lifo", 3) == ["third", "second", "first"]
    assert broker.rest("GET", "queue/main/shop/lifo")["type"] == "lifo"


def test_a_packages_category_is_in_rest_and_in_the_consoles_tree(broker: Broker) -> None:
    described = {each["category"]: each for each in broker.rest("GET", "description")["categories"]}
    # The console draws its tree, and its forms, from this.
    watch = described["depth_watch"]
    assert (watch["parent"], watch["summary"]) == ("virtual_host", "says whether a queue is too deep")
    (kind,) = watch["kinds"]
    assert {"queue", "most"} <= {each["name"] for each in kind["attributes"]}
    assert "lifo" in described["queue"]["kinds"][0]["types"]
    (allowed,) = [each["allowed"] for each in described["queue"]["kinds"][0]["attributes"] if each["name"] == "type"]
    assert allowed == ["standard", "priority", "last_value", "sorted", "total_order", "lifo"]
    broker.rest("PUT", "depth_watch/main/shop/deep", {"queue": "watched", "most": 1})
    found = broker.rest("GET", "depth_watch/main/shop/deep")
    assert (found["state"], found["most"], found["depth"]) == ("active", 1, None)
    broker.rest("PUT", "queue/main/shop/watched", {})
    for number in range(2):
        broker.rest("POST", "queue/main/shop/watched/publish", {"message": {"text": str(number)}})
    assert broker.rest("GET", "depth_watch/main/shop/deep")["depth"] == 2
    assert broker.rest("POST", "depth_watch/main/shop/deep/is_too_deep", {}) == {"result": True}
    assert (
        "/api/latest/depth_watch/{virtual_host_node}/{virtual_host}/{depth_watch}"
        in broker.rest("GET", "openapi.json")["paths"]
    )
    with pytest.raises(HTTPError, match="4"):
        broker.rest("PUT", "depth_watch/main/shop/wrong", {"queue": "watched", "most": 0})


OPEN_TO_ALL = """
version = 1
[broker]
name = "shop"
[[authentication_provider]]
name = "all"
type = "anonymous"
[[authentication_provider]]
name = "team"
type = "team"
password = "one for all"
members = ["ann"]
[[access_control]]
name = "all"
rules = [{ effect = "allow", who = "*" }]
[[access_control]]
name = "frozen"
type = "frozen"
[[virtual_host_node]]
name = "main"
type = "json"
[[port]]
name = "stomp"
type = "stomp"
port = 0
authentication_providers = ["all"]
access_control = "all"
[[port]]
name = "http"
type = "http"
port = 0
authentication_providers = ["all"]
access_control = "all"
[[port]]
name = "lines"
type = "line"
port = 0
authentication_providers = ["all"]
access_control = "all"
"""


def send(broker: Broker, *texts: str) -> None:
    with ConnectionFactory(broker.urls["stomp"]).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("lifo"))
        for text in texts:
            producer.send(session.create_text_message(text))


def test_what_needs_a_package_that_is_gone_is_in_error_and_no_message_is_lost(tmp_path: Path) -> None:
    packages = put_package(tmp_path / "packages")
    (tmp_path / "broker.toml").write_text(OPEN_TO_ALL, "utf-8")
    broker = Broker(tmp_path, packages)
    try:
        broker.announced("stomp", "http", "line")
        broker.rest("PUT", "virtual_host/main/shop", {"store_url": f"sqlite:///{tmp_path}/shop.db"})
        broker.rest("PUT", "queue/main/shop/lifo", {"type": "lifo", "description": "newest first"})
        broker.rest("PUT", "depth_watch/main/shop/deep", {"queue": "lifo", "most": 1})
        send(broker, "first", "second", "third")
    finally:
        assert broker.process.end() == 0
    broker = Broker(tmp_path, None)
    try:
        broker.announced("stomp", "http")
        for path, kind in (
            ("port/lines", "port of the type 'line'"),
            ("authentication_provider/team", "authentication_provider of the type 'team'"),
            ("access_control/frozen", "access_control of the type 'frozen'"),
        ):
            found = broker.rest("GET", path)
            assert found["state"] == "errored"
            assert f"there is no {kind}" in found["error"]
            assert "install the package that brings it" in found["error"]
        assert "depth_watch main/shop/deep could not be opened" in broker.process.log
        queue = broker.rest("GET", "queue/main/shop/lifo")
        assert (queue["state"], queue["depth"]) == ("errored", 3)
        assert "no package brings the queue type 'lifo': install it" in queue["error"]
        assert "PYJMS-BROKER-33" in broker.process.log
        send(broker, "fourth")
        with ConnectionFactory(broker.urls["stomp"]).create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            with pytest.raises(ResourceAllocationException, match="no package brings the queue type 'lifo'") as caught:
                session.create_consumer(session.create_queue("lifo"))
            assert caught.value.error_code == "PYJMS-QUEUE-TYPE"
        with pytest.raises(HTTPError, match=r"422|400|409"):
            broker.rest("POST", "queue/main/shop/lifo/resume", {})
        with pytest.raises(HTTPError, match=r"422|400|409"):
            broker.rest("PUT", "queue/main/shop/other", {"type": "lifo"})
    finally:
        assert broker.process.end() == 0
    broker = Broker(tmp_path, packages)
    try:
        broker.announced("stomp", "http", "line")
        assert broker.rest("GET", "depth_watch/main/shop/deep")["depth"] == 4
        assert broker.rest("GET", "queue/main/shop/lifo")["state"] == "active"
        with ConnectionFactory(broker.urls["stomp"]).create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            assert received(session, "lifo", 4) == ["fourth", "third", "second", "first"]
    finally:
        assert broker.process.end() == 0


def test_a_packages_port_has_the_transports_and_the_time_for_the_login_of_any_port(tmp_path: Path) -> None:
    with packages(tmp_path / "packages") as folder:
        put_package(folder)
        with ServedBroker.open() as served:
            top = served.broker
            team = {"name": "team", "type": "team", "password": "one for all", "members": ["ann"]}
            top.create_child("authentication_provider", team)
            top.create_child("access_control", {"name": "frozen", "type": "frozen"})
            node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
            node.create_child("virtual_host", {"name": "shop"})
            chosen = {"port": 0, "authentication_providers": ["team"], "access_control": "frozen"}
            port = top.create_child("port", {"name": "p", "type": "line", "transports": ["websocket"], **chosen})
            (url,) = served.addresses()
            assert url.startswith("line+ws://127.0.0.1:")
            with connect(url.replace("line+ws", "ws"), subprotocols=[Subprotocol("line")]) as web_socket:
                for line, answer in (
                    ("LOGIN ann one for all", b"OK\n"),
                    ("SEND q hi", b"OK\n"),
                    ("RECEIVE q", b"MESSAGE hi\n"),
                ):
                    web_socket.send(f"{line}\n".encode())
                    assert web_socket.recv(PATIENCE_S) == answer
            port.set_attributes({"transports": ["tcp"], "login_timeout_ms": 300})
            port.invoke("restart", {})
            (url,) = served.addresses()
            place = ("127.0.0.1", int(url.rpartition(":")[2]))
            with socket.create_connection(place, timeout=PATIENCE_S) as client, client.makefile("rb") as file:
                assert list(file) == [b"ERROR nobody logged in\n"], "it hangs up then"
