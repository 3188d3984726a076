"""Management by messages: through the API, in this process and over STOMP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from pyjms import ConnectionFactory, JMSException, Session
from pyjms.api.connection import Connection
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ResourceError
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.store import PagingMessageStore
from pyjms_provider.security.access import parse_rules, rules_to_data
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.serving.management_queues import WANTED, MessageService
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.helpers import RecordedEvents, make_envelope

PASSWORD = "correct horse battery"
RULES = """
allow group:admins all *
allow user:bob connect virtual_host
allow user:bob write,create queue:$management
allow user:bob create,read,write,browse temporary
allow user:bob observe queue:orders
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    users = UserFile(tmp_path / "users")
    users.add("ann", PASSWORD, ["admins"])
    users.add("bob", PASSWORD, [])
    with ServedBroker.open(name="shop", context={WANTED: "true"}) as served:
        top = served.broker
        top.create_child(
            "authentication_provider", {"name": "users", "type": "user-file", "path": str(tmp_path / "users")}
        )
        top.create_child("access_control", {"name": "access", "rules": rules_to_data(parse_rules(RULES))})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        host = node.create_child("virtual_host", {"name": "shop"})
        host.create_child("queue", {"name": "orders"})
        chosen = {"authentication_providers": ["users"], "access_control": "access"}
        top.create_child("port", {"name": "stomp", "type": "stomp", "port": 0, **chosen})
        yield served


class Manager:
    """Asks by messages, and waits for the answers."""

    def __init__(self, connection: Connection) -> None:
        self.session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self.answers = self.session.create_temporary_queue()
        self.consumer = self.session.create_consumer(self.answers)
        self.producer = self.session.create_producer(self.session.create_queue("$management"))
        connection.start()

    def ask(self, request: Any, status: int = 200) -> Any:
        text = request if isinstance(request, str) else json.dumps(request)
        message = self.session.create_text_message(text)
        message.jms_reply_to = self.answers
        self.producer.send(message)
        answer: Any = self.consumer.receive(10_000)
        assert answer is not None, "there is no answer"
        assert answer.jms_correlation_id == message.jms_message_id
        found = json.loads(answer.text)
        assert found["status"] == answer.get_int_property("pyjms_status") == status, found
        return found["result"] if status == 200 else found["error"]


@pytest.fixture
def connections() -> Iterator[list[Connection]]:
    made: list[Connection] = []
    yield made
    for each in made:
        each.close()


def connect(broker: ServedBroker, connections: list[Connection], user: str = "ann", host: str = "shop") -> Manager:
    address = broker.addresses()[0]
    connection = ConnectionFactory(f"{address}?virtual_host={host}").create_connection(user, PASSWORD)
    connections.append(connection)
    return Manager(connection)


@pytest.mark.realises("BJ-AMQPM-1", "BJ-AMQPM-2", "BJ-AMQPM-5", "BJ-GEN-3")
def test_a_host_is_managed_by_its_queue(broker: ServedBroker, connections: list[Connection]) -> None:
    manager = connect(broker, connections)
    made = manager.ask({"action": "create", "category": "queue", "attributes": {"name": "bulk", "max_messages": 5}})
    assert made["names"] == ["main", "shop", "bulk"]
    assert made["created_by"] == "ann"
    about = {"category": "queue", "names": ["bulk"]}
    assert manager.ask({"action": "change", **about, "attributes": {"paused": True}})["paused"] is True
    assert manager.ask({"action": "get", **about, "fields": ["max_messages"]}) == {"max_messages": 5}
    assert manager.ask({"action": "get", "category": "queue", "id": made["id"]})["name"] == "bulk"
    message = {"operation": "publish", "arguments": {"message": {"text": "one"}}}
    manager.ask({"action": "invoke", **about, **message})
    assert manager.ask({"action": "invoke", **about, "operation": "purge"}) == {"messages": 1}
    listed = manager.ask({"action": "list", "category": "queue", "filter": "paused", "fields": ["name"]})
    assert listed == {"items": [{"name": "bulk"}], "total": 1, "offset": 0}
    manager.ask({"action": "delete", **about})
    assert manager.ask({"action": "get", **about}, 404)["code"] == "PYJMS-MODEL-UNKNOWN"


def test_the_story_of_a_message_is_asked_for_by_messages(
    broker: ServedBroker, connections: list[Connection], tmp_path: Path
) -> None:
    node = broker.broker.create_child("virtual_host_node", {"name": "second", "type": "memory"})
    chosen = {"name": "told", "story": "all", "story_directory": str(tmp_path / "stories")}
    orders = node.create_child("virtual_host", chosen).create_child("queue", {"name": "orders"})
    message_id = orders.invoke("publish", {"message": {"text": "one"}})
    connections.append(
        ConnectionFactory(f"{broker.addresses()[0]}?virtual_host=told").create_connection("ann", PASSWORD)
    )
    manager = Manager(connections[-1])
    request = {"action": "invoke", "category": "virtual_host", "names": [], "operation": "story"}
    told = manager.ask({**request, "arguments": {"id": message_id}})
    (story,) = told["stories"]
    assert [(each["what"], each["where"]) for each in story["steps"]] == [("accepted", "queue://orders")]
    assert manager.ask({**request, "arguments": {}}, 422)


@pytest.mark.realises("BJ-AMQPM-3", "BJ-AMQPM-4")
def test_what_can_be_asked_is_discovered_in_a_host_and_in_the_broker(
    broker: ServedBroker, connections: list[Connection]
) -> None:
    host, whole = connect(broker, connections), connect(broker, connections, host="$management")
    here = [each["category"] for each in host.ask({"action": "discover"})["categories"]]
    everywhere = [each["category"] for each in whole.ask({"action": "discover"})["categories"]]
    assert here[:2] == ["virtual_host", "store"]
    assert {"broker", "port", "user", "queue"} <= set(everywhere)
    assert whole.ask({"action": "get", "category": "queue", "names": ["main", "shop", "orders"]})["name"] == "orders"
    assert whole.ask({"action": "list", "category": "port"})["total"] == 1
    host.ask({"action": "list", "category": "port"}, 404)
    host.ask({"action": "get", "category": "user", "names": []}, 404)
    port = whole.ask({"action": "list", "category": "port"})["items"][0]["id"]
    host.ask({"action": "get", "category": "port", "id": port}, 404)


def test_who_sent_a_message_may_do_what_rules_let_them_and_no_more(
    broker: ServedBroker, connections: list[Connection]
) -> None:
    bob = connect(broker, connections, "bob")
    about = {"category": "queue", "names": ["orders"]}
    assert bob.ask({"action": "get", **about})["name"] == "orders"
    assert bob.ask({"action": "change", **about, "attributes": {"paused": True}}, 403)
    assert bob.ask({"action": "create", "category": "queue", "attributes": {"name": "x"}}, 403)
    assert bob.ask({"action": "list", "category": "queue"})["total"] == 1


@pytest.mark.parametrize(("host", "there", "more"), [("shop", "secret", ["x"]), ("$management", "main", [])])
def test_names_that_are_no_address_do_not_tell_what_is_there(
    broker: ServedBroker, connections: list[Connection], host: str, there: str, more: list[str]
) -> None:
    main = broker.broker.child("virtual_host_node", "main")
    main.child("virtual_host", "shop").create_child("queue", {"name": "secret"})
    bob = connect(broker, connections, "bob", host)

    def heard(name: str) -> list[str]:
        about = {"category": "queue", "names": [name, *more]}
        told = [bob.ask({"action": "get", **about}, 404)["reason"]]
        told += [bob.ask({"action": "list", **about}, 404)["reason"]] if more else []
        return [each.replace(name, "gone") for each in told]

    assert heard(there) == heard("gone")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("no JSON", 400),
        ("[]", 400),
        ("{}", 400),
        ({"action": "explode"}, 400),
        ({"action": "get"}, 400),
        ({"action": "get", "colour": "red"}, 400),
        ({"action": "get", "category": "queue", "names": [1]}, 400),
        ({"action": "list", "category": "queue", "limit": True}, 400),
        ({"action": "list", "category": "queue", "limit": 0}, 400),
        ({"action": "list", "category": "queue", "offset": -3}, 400),
        ({"action": "list", "category": "queue", "offset": 2**63}, 400),
        ({"action": "get", "category": "queue", "id": "x"}, 400),
        ({"action": "get", "category": "colour"}, 404),
        ({"action": "invoke", "category": "queue", "names": ["orders"], "operation": "paint"}, 404),
        (
            {
                "action": "invoke",
                "category": "queue",
                "names": ["orders"],
                "operation": "browse",
                "arguments": {"a": 1},
            },
            422,
        ),
        ({"action": "create", "category": "queue", "attributes": {"name": "orders"}}, 409),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(
    broker: ServedBroker, connections: list[Connection], request_: Any, status: int
) -> None:
    assert connect(broker, connections).ask(request_, status)["reason"]


def test_a_request_of_this_process_with_half_of_a_surrogate_pair_is_no_fault(
    broker: ServedBroker, connections: list[Connection], caplog: pytest.LogCaptureFixture
) -> None:
    host: Any = broker.broker.child("virtual_host_node", "main").child("virtual_host", "shop")
    sender = VmConnection(host.embedded, RecordedEvents())
    request = replace(make_envelope('{"action": "\ud800"}'), destination=Address(AddressKind.QUEUE, "$management"))
    host.embedded.virtual_host.route(request, sender.connection_id, None)
    connect(broker, connections).ask({"action": "discover"})  # requests are served in their order
    sender.close()
    assert "PYJMS-MANAGE" not in caplog.text


def test_a_request_that_wants_no_answer_is_done_all_the_same(
    broker: ServedBroker, connections: list[Connection]
) -> None:
    manager = connect(broker, connections)
    create = {"action": "create", "category": "queue", "attributes": {"name": "quiet"}}
    manager.producer.send(manager.session.create_text_message(json.dumps(create)))
    assert manager.ask({"action": "get", "category": "queue", "names": ["quiet"]})["name"] == "quiet"


def test_answers_go_only_where_the_asker_may_send(broker: ServedBroker, connections: list[Connection]) -> None:
    bob = connect(broker, connections, "bob")
    message = bob.session.create_text_message(json.dumps({"action": "discover"}))
    message.jms_reply_to = bob.session.create_queue("orders")
    bob.producer.send(message)
    bob.ask({"action": "discover"})  # requests are served in their order
    host: Any = broker.broker.child("virtual_host_node", "main").child("virtual_host", "shop")
    assert host.child("queue", "orders").depth == 0


@pytest.mark.parametrize(
    ("name", "is_topic"),
    [("bob.\r\nforged line", False), ("bob." + "x" * 300, False), ("bob.new", True), ("bob.\n", True)],
    ids=["lines", "long", "topic", "topic of two lines"],
)
def test_answers_make_no_destination_that_their_asker_could_not_make(
    broker: ServedBroker, connections: list[Connection], caplog: pytest.LogCaptureFixture, name: str, is_topic: bool
) -> None:
    rules = f"{RULES}allow user:bob create,write queue:bob.*\nallow user:bob write topic:bob.*\n"
    broker.broker.child("access_control", "access").set_attributes({"rules": rules_to_data(parse_rules(rules))})
    bob = connect(broker, connections, "bob")
    message = bob.session.create_text_message(json.dumps({"action": "discover"}))
    message.jms_reply_to = bob.session.create_topic(name) if is_topic else bob.session.create_queue(name)
    bob.producer.send(message)
    bob.ask({"action": "discover"})  # requests are served in their order
    host: Any = broker.broker.child("virtual_host_node", "main").child("virtual_host", "shop")
    assert [each for each in (*host.child_names("queue"), *host.child_names("topic")) if each.startswith("bob.")] == []
    (told,) = [each.getMessage() for each in caplog.records if "PYJMS-MANAGE-3" in each.getMessage()]
    assert "\n" not in told
    assert len(told) < 1000


def test_an_answer_that_finds_no_room_keeps_nobody_from_theirs(
    broker: ServedBroker, connections: list[Connection], caplog: pytest.LogCaptureFixture
) -> None:
    manager = connect(broker, connections)
    full = {"name": "full", "max_messages": 1, "overflow": "block"}
    manager.ask({"action": "create", "category": "queue", "attributes": full})
    for _ in range(2):  # the first answer fills it
        message = manager.session.create_text_message(json.dumps({"action": "discover"}))
        message.jms_reply_to = manager.session.create_queue("full")
        manager.producer.send(message)
    assert manager.ask({"action": "discover"})["categories"]
    assert "PYJMS-MANAGE-3 an answer to queue://full could not be sent" in caplog.text


@pytest.mark.parametrize(
    ("kind", "method", "error", "told"),
    [
        (Queue, "acknowledge", ResourceError("the disk is full"), "PYJMS-MANAGE-4"),
        (PagingMessageStore, "fetch", ResourceError("the message cannot be read"), "PYJMS-RECEIVER-2"),
        (MessageService, "_answer", ResourceError("the disk is full"), "PYJMS-MANAGE-3"),
        (MessageService, "_answer", RuntimeError("a fault"), "PYJMS-MANAGE-3"),
    ],
)
def test_a_fault_in_one_request_keeps_nobody_else_from_an_answer(
    broker: ServedBroker,
    connections: list[Connection],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type,
    method: str,
    error: Exception,
    told: str,
) -> None:
    manager, errors, works = connect(broker, connections), [error], getattr(kind, method)

    def fail_once(*arguments: Any) -> Any:
        if errors and current_thread().name == "pyjms receivers queue://$management":
            raise errors.pop()
        return works(*arguments)

    monkeypatch.setattr(kind, method, fail_once)
    manager.producer.send(manager.session.create_text_message(json.dumps({"action": "discover"})))
    assert manager.ask({"action": "discover"})["categories"]
    assert not errors
    assert told in caplog.text


def _about_port(broker: ServedBroker, connections: list[Connection]) -> tuple[Manager, dict[str, Any]]:
    """Return who asks about the very port that they come in by."""
    return connect(broker, connections, host="$management"), {"category": "port", "names": ["stomp"]}


@pytest.mark.parametrize("asked", [{"action": "invoke", "operation": "stop"}, {"action": "delete"}])
def test_a_port_is_not_ended_by_a_message_that_comes_through_it(
    broker: ServedBroker, connections: list[Connection], asked: dict[str, Any]
) -> None:
    manager, port = _about_port(broker, connections)
    assert manager.ask({**asked, **port}, 409)["code"] == "PYJMS-MODEL-IN-USE"
    assert manager.ask({"action": "get", **port})["state"] == "active"


def test_no_message_makes_or_ends_what_lasts_as_long_as_the_process(
    broker: ServedBroker, connections: list[Connection]
) -> None:
    manager = connect(broker, connections, host="$management")
    host = {"category": "virtual_host", "names": ["main", "shop"]}
    manager.ask({"action": "invoke", **host, "operation": "stop"})  # else its connections would keep it
    own = manager.ask({"action": "get", "category": "broker"})["id"]
    assert manager.ask({"action": "delete", "category": "broker"}, 409)["code"] == "PYJMS-MODEL-IN-USE"
    assert manager.ask({"action": "delete", "category": "broker", "id": own}, 409)
    assert manager.ask({"action": "create", "category": "broker", "attributes": {"name": "second"}}, 404)
    for action in ("delete", "create", "change", "get", "list"):
        assert manager.ask({"action": action, "category": "system_config"}, 404)
    manager.ask({"action": "invoke", **host, "operation": "start"})
    store = {"category": "store", "names": ["main", "shop"]}
    assert manager.ask({"action": "create", **store, "attributes": {"name": "second"}}, 404)
    (found,) = manager.ask({"action": "list", **store})["items"]
    for action in ("delete", "change"):  # REST has no such methods for what is observed
        assert manager.ask({"action": action, **store, "id": found["id"]}, 409)["code"] == "PYJMS-MODEL-FIXED"
    assert manager.ask({"action": "get", "category": "broker"})["state"] == "active"


@pytest.mark.parametrize("changes", [{"access_control": None}, {"authentication_providers": []}])
def test_a_port_goes_on_to_let_in_who_changes_it_by_a_message(
    broker: ServedBroker, connections: list[Connection], changes: dict[str, Any]
) -> None:
    manager, port = _about_port(broker, connections)
    change = {"action": "change", **port, "attributes": changes}
    assert manager.ask(change, 409)["code"] == "PYJMS-LOCK-OUT"
    manager.ask({**change, "force": True})


def test_a_host_without_the_variable_has_no_such_queue(tmp_path: Path) -> None:
    with ServedBroker.open(name="shop") as served:
        node = served.broker.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        host = node.create_child("virtual_host", {"name": "shop"})
        assert host.child_names("queue") == []


def test_the_queue_is_served_again_when_its_host_is_started_again(
    broker: ServedBroker, connections: list[Connection]
) -> None:
    host = broker.broker.child("virtual_host_node", "main").child("virtual_host", "shop")
    host.invoke("stop", {})
    with pytest.raises(JMSException):
        connect(broker, connections)
    host.invoke("start", {})
    assert connect(broker, connections).ask({"action": "list", "category": "queue"})["total"] >= 1
