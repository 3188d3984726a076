"""Receivers of a served broker: the bridge of the how-to page, installed as a package, configured in the model, and seen by operators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest

from pyjms import ConnectionFactory, Session
from pyjms_provider.model.errors import InvalidAttributesError
from pyjms_provider.model.managed import ManagedObject, State
from pyjms_provider.security.access import parse_rules, rules_to_data
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.stores.installing import install, on_the_path
from tests.pyjms.runtime.helpers import eventually

BRIDGE = Path(__file__).parents[3] / "docs" / "how-to" / "files" / "http_bridge.py"
WAIT_S = 20.0


class Service:
    """An HTTP service that notes what is posted to it, and answers with a status that the test sets."""

    def __init__(self) -> None:
        self.posted: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.status = 200
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(service.status)
                self.end_headers()
                service.posted.put(json.loads(body))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/orders"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def next(self) -> dict[str, Any]:
        return self.posted.get(timeout=WAIT_S)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(WAIT_S)
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ManagedObject]:
    """A virtual host of a served broker with a STOMP port, beside which the bridge is installed."""
    install(
        tmp_path / "packages",
        "http-bridge",
        "http = http_bridge:HttpBridgeKind",
        group="pyjms.receivers",
        http_bridge=BRIDGE.read_text("utf-8"),
    )
    with ExitStack() as ends:
        ends.enter_context(on_the_path(tmp_path / "packages"))
        served = ends.enter_context(ServedBroker.open(name="shop"))
        served.broker.create_child("authentication_provider", {"name": "all", "type": "anonymous"})
        node = served.broker.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        made = node.create_child("virtual_host", {"name": "shop", "store_url": f"sqlite:///{tmp_path / 'store.db'}"})
        rules = rules_to_data(parse_rules("allow * all *"))
        served.broker.create_child("access_control", {"name": "access", "rules": rules})
        chosen = {"authentication_providers": ["all"], "access_control": "access"}
        port = {"name": "stomp", "type": "stomp", "port": 0, **chosen}
        served.broker.create_child("port", port)
        yield made


@contextmanager
def client(host: ManagedObject) -> Iterator[Session]:
    assert host.parent is not None
    assert host.parent.parent is not None
    (port,) = host.parent.parent.children("port")
    (address,) = port.statistic_values(["addresses"])["addresses"]
    with ConnectionFactory(f"{address}?virtual_host=shop").create_connection() as connection:
        connection.start()
        yield connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


def send(session: Session, *texts: str) -> None:
    producer = session.create_producer(session.create_queue("orders"))
    for text in texts:
        producer.send(session.create_text_message(text))


def bridge(host: ManagedObject, service: Service, **more: Any) -> ManagedObject:
    settings = {"name": "bridge", "kind": "http", "queue": "orders", "settings": {"url": service.url}}
    return host.create_child("receiver", {**settings, **more})


def values(managed: ManagedObject, *names: str) -> list[Any]:
    found = managed.statistic_values(list(names))
    return [found[name] for name in names]


@pytest.mark.realises("JBM-5.3.a", "JBM-5.3.1.a", "JBM-6.2")
def test_messages_go_to_the_service_and_are_acknowledged_when_it_has_answered(
    host: ManagedObject, service: Service
) -> None:
    with client(host) as session:
        send(session, "a")
        receiver = bridge(host, service)
        send(session, "b")
        assert {service.next()["text"], service.next()["text"]} == {"a", "b"}
        eventually(
            lambda: values(receiver, "handled", "acknowledged", "unacknowledged") == [2, 2, 0], "all are acknowledged"
        )
        queue = host.child("queue", "orders")
        assert values(queue, "depth", "receivers", "unacknowledged_by_receiver") == [0, 1, {"bridge": 0}]


@pytest.mark.realises("JBM-5.3.3.e", "JBM-7.5.a")
def test_what_the_service_refused_is_shown_as_owed_and_comes_again_when_an_operator_asks(
    host: ManagedObject, service: Service
) -> None:
    with client(host) as session:
        service.status = 503
        receiver = bridge(host, service)
        send(session, "a")
        assert service.next() | {"id": ""} == {"id": "", "text": "a", "again": False}
        queue = host.child("queue", "orders")
        eventually(lambda: values(receiver, "handled", "unacknowledged") == [1, 1], "the bridge owes it")
        assert values(queue, "depth", "held", "unacknowledged_by_receiver") == [1, 1, {"bridge": 1}]
        service.status = 200
        receiver.invoke("redeliver", {})
        assert service.next()["again"]
        eventually(lambda: values(receiver, "acknowledged", "unacknowledged") == [1, 0], "it is acknowledged now")
        assert values(queue, "depth", "unacknowledged_by_receiver") == [0, {"bridge": 0}]


def test_a_stopped_receiver_gives_back_what_it_owes_and_goes_on_when_it_is_started(
    host: ManagedObject, service: Service
) -> None:
    with client(host) as session:
        service.status = 503
        receiver = bridge(host, service)
        send(session, "a")
        service.next()
        receiver.invoke("stop", {})
        queue = host.child("queue", "orders")
        assert values(queue, "waiting", "held", "receivers") == [1, 0, 0]
        service.status = 200
        receiver.invoke("start", {})
        assert service.next()["again"]
        eventually(lambda: values(queue, "depth") == [0], "the service has it")


def test_a_topic_pushes_through_a_durable_subscription(host: ManagedObject, service: Service) -> None:
    with client(host) as session:
        receiver = bridge(host, service, queue=None, topic="news", subscription="archive", selector="kind = 'big'")
        receiver.invoke("stop", {})
        producer = session.create_producer(session.create_topic("news"))
        for kind in ("small", "big"):
            message = session.create_text_message(kind)
            message.set_string_property("kind", kind)
            producer.send(message)
        receiver.invoke("start", {})
        assert service.next()["text"] == "big"
        eventually(lambda: values(receiver, "acknowledged", "unacknowledged") == [1, 0], "one was wanted")


def test_a_change_makes_the_receiver_again(host: ManagedObject, service: Service) -> None:
    with client(host) as session:
        receiver = bridge(host, service)
        receiver.set_attributes({"selector": "kind = 'big'"})
        send(session, "small")
        eventually(lambda: values(receiver, "declined")[0] > 0, "it was offered")
        assert values(host.child("queue", "orders"), "waiting") == [1]
        receiver.set_attributes({"selector": None})
        assert service.next()["text"] == "small"
        with pytest.raises(InvalidAttributesError):
            receiver.set_attributes({"selector": "kind ="})
        assert receiver.state is State.ACTIVE


@pytest.mark.parametrize(
    ("attributes", "place"),
    [
        ({"queue": None}, "queue"),
        ({"topic": "news"}, "queue"),
        ({"subscription": "s"}, "subscription"),
        ({"kind": "smoke-signals"}, "kind"),
        ({"settings": {}}, "settings"),
        ({"settings": {"url": "file:///etc/passwd"}}, "settings"),
        ({"settings": {"url": "http://127.0.0.1:1/", "retries": 3}}, "settings"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(
    host: ManagedObject, service: Service, attributes: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidAttributesError) as told:
        bridge(host, service, **attributes)
    assert [each.name for each in told.value.problems] == [place]
