"""Management over AMQP as the OASIS working draft has it, by a client that speaks frame by frame, and the same requests over STOMP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.types import Long
from pyjms_provider.amqp import performatives
from pyjms_provider.amqp.codec import Array, Described, Symbol, Timestamp, UInt, write_value
from pyjms_provider.amqp.errors import Condition
from pyjms_provider.amqp.message import VALUE, Message, write_application_properties, write_section
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Detach,
    Disposition,
    Flow,
    Properties,
    Source,
    Target,
)
from pyjms_provider.management import entities
from pyjms_provider.security.access import parse_rules, rules_to_data
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.serving.management_queues import WANTED
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.protocols.amqp.raw import RawPeer, SocketWire

PASSWORD = "correct horse battery"
RULES = """
allow group:admins all *
allow user:bob connect virtual_host
allow user:bob write,create queue:$management
allow user:bob create,read,write,browse temporary
allow user:bob observe queue:orders
"""
NODE = {"type": "org.amqp.management", "name": "self"}
QUEUE = "org.pyjms.queue"
_numbers = count(1)


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
        port = {"name": "both", "type": "amqp", "protocols": ["amqp", "stomp"], "port": 0, **chosen}
        top.create_child("port", port)
        yield served


class Manager:
    """Asks over AMQP, and waits for the answers."""

    def __init__(self, peer: RawPeer, node: str = "$management", reply_to: str | None = "answers") -> None:
        """`reply_to`: the address of the target of the link for answers; None: that link has a dynamic node."""
        self.peer = peer
        peer.begin()
        peer.attach_sender(node)
        if reply_to is None:
            answered = peer.attach_receiver(Source(dynamic=True), credit=100)
            assert isinstance(answered.source, Source)
            self.reply_to = answered.source.address
        else:
            answered = peer.attach_receiver(node, credit=100, target=Target(reply_to))
            assert isinstance(answered.source, Source)
            assert (answered.source.address, answered.target) == (node, Target(reply_to))
            self.reply_to = reply_to

    def send(self, given: Mapping[str, Any], body: Any = None, **fields: Any) -> None:
        """Send a request."""
        fields = {"message_id": str(next(_numbers)), "reply_to": self.reply_to, **fields}
        self.peer.transfer(
            b"".join(
                (
                    performatives.write(Properties(**fields)),
                    write_application_properties(given),
                    b"" if body is None else write_section(VALUE, write_value(body)),
                )
            )
        )

    def answer(self) -> Message:
        """Take an answer."""
        transfer, data = self.peer.receive(passing=(Flow, Disposition))
        assert transfer.delivery_id is not None
        self.peer.settle(transfer.delivery_id, ACCEPTED)
        return Message(data)

    def ask(self, given: Mapping[str, Any], body: Any = None, status: int = 200, **fields: Any) -> Any:
        """Return the body of the answer, which has that status."""
        self.send(given, body, **fields)
        answer = self.answer()
        told = answer.application_properties
        assert told["statusCode"] == status, (dict(told), answer.body)
        assert isinstance(told["statusDescription"], str)
        return json.loads(answer.body) if isinstance(body, str) else answer.body


class Clients:
    """Connects clients, and closes them."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker
        self._opened = ExitStack()

    def peer(self, user: str = "ann", host: str = "shop") -> RawPeer:
        wire = SocketWire(("127.0.0.1", int(self._broker.addresses()[0].rpartition(":")[2])))
        self._opened.callback(wire.close)
        peer = RawPeer(wire)
        peer.log_in(user, PASSWORD)
        peer.open(f"client-{next(_numbers)}", hostname=host)
        return peer

    def manager(self, user: str = "ann", host: str = "shop", reply_to: str | None = "answers") -> Manager:
        return Manager(self.peer(user, host), reply_to=reply_to)

    def close(self) -> None:
        self._opened.close()


@pytest.fixture
def clients(broker: ServedBroker) -> Iterator[Clients]:
    made = Clients(broker)
    yield made
    made.close()


# ------------------------------------------------------------------------------------------------------------ entities


@pytest.mark.realises("BJ-AMQPM-1", "BJ-AMQPM-2", "BJ-AMQPM-5", "BJ-GEN-3")
@pytest.mark.parametrize("reply_to", ["answers", None], ids=["a link of the node", "a dynamic node"])
def test_entities_are_created_read_changed_and_deleted(clients: Clients, reply_to: str | None) -> None:
    manager = clients.manager(reply_to=reply_to)
    about = {"type": QUEUE, "name": "bulk"}
    made = manager.ask({"operation": "CREATE", **about}, {"max_messages": UInt(5)}, 201)
    assert (made["name"], made["type"], made["created_by"]) == ("bulk", "org.pyjms.queue.standard", "ann")
    assert (made["max_messages"], type(made["max_messages"])) == (5, Long)
    assert made["names"] == ["main", "shop", "bulk"]
    read = manager.ask({"operation": "READ", **about})
    assert read["identity"] == made["identity"]
    by_id = {"operation": "READ", "type": QUEUE, "identity": UUID(made["identity"])}
    assert manager.ask(by_id)["name"] == "bulk"
    changed = manager.ask({"operation": "UPDATE", **about}, {"name": "bulk", "paused": True})
    assert changed["paused"] is True
    assert manager.ask({"operation": "UPDATE", **about}, {"max_messages": None})["max_messages"] != 5
    assert manager.ask({"operation": "DELETE", **about}, status=204) == {}
    assert manager.ask({"operation": "READ", **about}, status=404)["code"] == "PYJMS-MODEL-UNKNOWN"


def test_operations_take_maps_and_lists_and_answer_with_them(clients: Clients) -> None:
    manager = clients.manager()
    about = {"type": QUEUE, "name": "orders"}
    published = manager.ask({"operation": "publish", **about}, {"message": {"text": "one", "properties": {"n": 1}}})
    assert isinstance(published, str)
    # Arguments that are no maps may be application properties, as the draft has it.
    found = manager.ask({"operation": "browse", "limit": 1, **about})
    assert [each["id"] for each in found["messages"]] == [published]
    assert manager.ask({"operation": "browse", **about}, {"message_ids": Array((published,))})["messages"]
    assert manager.ask({"operation": "purge", **about}) == {"messages": 1}
    assert "purge" in manager.ask({"operation": "paint", **about}, status=501)["reason"]
    manager.ask({"operation": "browse", "colour": "red", **about}, status=400)
    assert manager.ask({"operation": "pause", **about}) is None


def test_texts_that_are_no_unicode_are_answered_with_a_sign_in_their_place(
    broker: ServedBroker, clients: Clients
) -> None:
    orders = broker.broker.child("virtual_host_node", "main").child("virtual_host", "shop").child("queue", "orders")
    orders.invoke("publish", {"message": {"text": "half \ud800"}})
    about = {"type": QUEUE, "name": "orders", "operation": "browse", "with_bodies": True}
    (message,) = clients.manager().ask(about)["messages"]
    assert "half ?" in json.dumps(message)


def test_names_of_entities_have_slashes_between_names_and_escaped_in_them(clients: Clients) -> None:
    whole, host = clients.manager(host="$management"), clients.manager()
    made = whole.ask({"operation": "CREATE", "type": QUEUE, "name": "main/shop/a%2Fb%25"}, {}, 201)
    assert (made["name"], made["names"]) == ("main/shop/a%2Fb%25", ["main", "shop", "a/b%"])
    assert host.ask({"operation": "READ", "type": QUEUE, "name": "a%2Fb%25"})["identity"] == made["identity"]
    assert whole.ask({"operation": "READ", "type": "org.pyjms.broker", "name": "shop"})["name"] == "shop"
    whole.ask({"operation": "READ", "type": "org.pyjms.broker", "name": "other"}, status=404)
    read = host.ask({"operation": "READ", "type": "org.pyjms.virtual_host", "name": "shop"})
    assert (read["name"], read["type"]) == ("shop", "org.pyjms.virtual_host.standard")


def test_a_type_below_a_category_is_that_type_alone(clients: Clients) -> None:
    manager = clients.manager()
    made = manager.ask({"operation": "CREATE", "type": f"{QUEUE}.priority", "name": "first"}, {}, 201)
    assert made["type"] == f"{QUEUE}.priority"
    manager.ask({"operation": "READ", "type": f"{QUEUE}.standard", "name": "first"}, status=404)
    assert manager.ask({"operation": "READ", "type": f"{QUEUE}.priority", "name": "first"})["name"] == "first"
    query = {"operation": "QUERY", **NODE, "entityType": f"{QUEUE}.priority"}
    assert manager.ask(query, {"attributeNames": ["name"]})["results"] == [["first"]]


# ------------------------------------------------------------------------------------------------------------- the node


@pytest.mark.realises("BJ-AMQPM-3", "BJ-AMQPM-4")
def test_the_node_tells_what_can_be_managed(clients: Clients) -> None:
    host, whole = clients.manager(), clients.manager(host="$management")
    types = host.ask({"operation": "GET-TYPES", **NODE})
    assert types[QUEUE] == []
    assert types["org.pyjms.queue.priority"] == [QUEUE]
    assert "org.pyjms.port" not in types
    everywhere = whole.ask({"operation": "GET-TYPES", "type": "org.amqp.management", "identity": "self"})
    assert everywhere["org.pyjms.port.amqp"] == ["org.pyjms.port"]
    assert list(host.ask({"operation": "GET-TYPES", **NODE, "entityType": "org.pyjms.topic"})) == ["org.pyjms.topic"]
    ports = whole.ask({"operation": "GET-ATTRIBUTES", **NODE, "entityType": "org.pyjms.port"})
    assert ports["org.pyjms.port"][:3] == ["identity", "name", "type"]
    assert "protocols" not in ports["org.pyjms.port"]
    assert "protocols" in ports["org.pyjms.port.amqp"]
    operations = host.ask({"operation": "GET-OPERATIONS", **NODE, "entityType": QUEUE})[QUEUE]
    assert {"CREATE", "READ", "UPDATE", "DELETE", "purge"} <= set(operations)
    assert operations["publish"] == ["message"]
    topics = host.ask({"operation": "GET-OPERATIONS", **NODE, "entityType": "org.pyjms.topic"})
    assert list(topics["org.pyjms.topic"]) == ["READ"]
    assert host.ask({"operation": "GET-ANNOTATIONS", **NODE, "entityType": "org.pyjms.topic"}) == {
        "org.pyjms.topic": []
    }
    assert host.ask({"operation": "GET-MGMT-NODES", **NODE}) == []
    for operation in ("REGISTER", "READ"):
        host.ask({"operation": operation, **NODE}, status=501)


def test_queries_are_answered_by_pages(clients: Clients) -> None:
    manager = clients.manager()
    for name in "abc":
        manager.ask({"operation": "CREATE", "type": QUEUE, "name": name}, {}, 201)
    query = {"operation": "QUERY", **NODE, "entityType": QUEUE}
    wanted = {"attributeNames": ["name", "depth", "identity"]}
    found = manager.ask(query, wanted)
    assert found["attributeNames"] == ["name", "depth", "identity"]
    names = [row[0] for row in found["results"]]
    assert {"a", "b", "c", "orders", "$management"} <= set(names)
    manager.send({**query, "offset": 1, "count": UInt(2)}, wanted)
    answer = manager.answer()
    assert answer.application_properties["count"] == 2
    assert [row[0] for row in answer.body["results"]] == names[1:3]
    assert manager.ask({**query, "count": 0}, wanted)["results"] == []
    assert manager.ask({**query, "offset": 100}, wanted)["results"] == []
    every = manager.ask(query)
    assert len(every["results"]) == len(names)
    assert all(len(row) == len(every["attributeNames"]) for row in every["results"])


def test_a_query_without_a_type_goes_through_all_of_them(clients: Clients) -> None:
    manager = clients.manager()
    query = {"operation": "QUERY", **NODE}
    rows = manager.ask(query, {"attributeNames": ["type", "name", "depth"]})["results"]
    kinds = [row[0] for row in rows]
    assert {"org.pyjms.virtual_host.standard", "org.pyjms.queue.standard", "org.pyjms.connection"} <= set(kinds)
    assert ["org.pyjms.virtual_host.standard", "shop", None] in rows
    for offset in range(len(rows)):
        paged = {**query, "offset": offset, "count": 1}
        assert manager.ask(paged, {"attributeNames": ["type"]})["results"] == [[kinds[offset]]]


def test_a_query_without_a_count_has_a_limit(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entities, "QUERY_MAX", 2)
    monkeypatch.setattr(entities, "LIMIT_MAX", 1)
    manager = clients.manager()
    query = {"operation": "QUERY", **NODE, "entityType": QUEUE}
    assert len(manager.ask(query)["results"]) == 2
    manager.ask({"operation": "CREATE", "type": QUEUE, "name": "third"}, {}, 201)
    assert "offset" in manager.ask(query, status=400)["reason"]
    manager.ask({**query, "count": 3}, status=400)
    assert len(manager.ask({**query, "offset": 1, "count": 2})["results"]) == 2


# -------------------------------------------------------------------------------------------------------- wrong requests


@pytest.mark.parametrize(
    ("given", "body", "status"),
    [
        ({"operation": "READ", "name": "orders"}, None, 400),
        ({"operation": 5, "type": QUEUE}, None, 400),
        ({"operation": "READ", "type": "queue", "name": "orders"}, None, 404),
        ({"operation": "READ", "type": "org.pyjms.colour", "name": "orders"}, None, 404),
        ({"operation": "READ", "type": f"{QUEUE}.red", "name": "orders"}, None, 404),
        ({"operation": "READ", "type": "org.pyjms.port", "name": "both"}, None, 404),
        ({"operation": "READ", "type": "org.pyjms.system_config", "name": "x"}, None, 404),
        ({"operation": "READ", "type": QUEUE}, None, 400),
        ({"operation": "READ", "type": QUEUE, "name": "orders", "identity": "x"}, None, 400),
        ({"operation": "READ", "type": QUEUE, "identity": "x"}, None, 400),
        ({"operation": "READ", "type": QUEUE, "name": "orders", "actual": "yes"}, None, 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "orders"}, {}, 409),
        ({"operation": "CREATE", "type": QUEUE}, {}, 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "x"}, {"name": "y"}, 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "x"}, {"type": "y"}, 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "x"}, {"colour": "red"}, 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "x"}, ["a"], 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "x"}, "no JSON", 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "x"}, {1: 2}, 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "x"}, {"a": Described(Symbol("d"), 1)}, 400),
        ({"operation": "CREATE", "type": QUEUE, "name": "x"}, b"bytes", 400),
        ({"operation": "CREATE", "type": "org.pyjms.topic", "name": "x"}, {}, 501),
        ({"operation": "UPDATE", "type": QUEUE, "name": "orders"}, {"name": "others"}, 400),
        ({"operation": "UPDATE", "type": QUEUE, "name": "orders"}, {"max_messages": "many"}, 400),
        ({"operation": "QUERY", **NODE}, {"attributeNames": "name"}, 400),
        ({"operation": "QUERY", **NODE, "entityType": QUEUE}, {"attributeNames": ["colour"]}, 400),
        ({"operation": "QUERY", **NODE, "offset": -1}, None, 400),
        ({"operation": "QUERY", **NODE, "count": True}, None, 400),
        ({"operation": "QUERY", **NODE, "entityType": "org.pyjms.port"}, None, 404),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(
    clients: Clients, given: Mapping[str, Any], body: Any, status: int
) -> None:
    manager = clients.manager()
    assert manager.ask(given, body, status)["reason"]
    assert manager.ask({"operation": "READ", "type": QUEUE, "name": "orders"})["name"] == "orders"


def test_a_fault_in_the_broker_is_told_as_one(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(entities.EntityRequest, "run", fail)
    assert "PYJMS-MANAGE-2" in clients.manager().ask({"operation": "READ", "type": QUEUE}, status=500)["reason"]
    assert "PYJMS-MANAGE-2" in caplog.text


# --------------------------------------------------------------------------------------------------- rights and replies


def test_a_user_may_do_by_messages_what_the_rules_say(clients: Clients) -> None:
    bob = clients.manager("bob")
    about = {"type": QUEUE, "name": "orders"}
    assert bob.ask({"operation": "READ", **about})["name"] == "orders"
    bob.ask({"operation": "UPDATE", **about}, {"paused": True}, 403)
    bob.ask({"operation": "purge", **about}, status=403)
    bob.ask({"operation": "CREATE", "type": QUEUE, "name": "x"}, {}, 403)
    query = {"operation": "QUERY", **NODE, "entityType": QUEUE}
    assert bob.ask(query, {"attributeNames": ["name"]})["results"] == [["orders"]]


@pytest.mark.parametrize("correlation", ["mine", UUID(int=7), b"\x01\x02", None])
def test_an_answer_has_the_correlation_id_of_its_request_or_else_its_message_id(
    clients: Clients, correlation: Any
) -> None:
    manager = clients.manager()
    given = {"operation": "GET-MGMT-NODES", **NODE}
    manager.send(given, message_id="first", correlation_id=correlation)
    answer = manager.answer()
    assert answer.properties.correlation_id == ("first" if correlation is None else correlation)
    assert answer.properties.to == "answers"


def test_answers_go_to_the_connection_that_has_asked_though_links_of_others_have_the_same_address(
    clients: Clients,
) -> None:
    first, second = clients.manager(), clients.manager()
    for each in (first, second):
        assert each.ask({"operation": "READ", "type": QUEUE, "name": "orders"})["name"] == "orders"
    assert second.peer.received_by_now() == []


def test_a_request_without_reply_to_is_answered_on_the_link_for_answers(clients: Clients) -> None:
    manager = clients.manager()
    assert manager.ask({"operation": "GET-MGMT-NODES", **NODE}, reply_to=None) == []


def test_requests_may_go_through_the_anonymous_relay(clients: Clients) -> None:
    manager = clients.manager()
    peer = manager.peer
    peer.attach_sender(Target(), name="relay", handle=5)
    sections = performatives.write(Properties(message_id="1", to="$management", reply_to="answers"))
    given = write_application_properties({"operation": "GET-MGMT-NODES", **NODE})
    peer.transfer(sections + given, handle=5)
    assert manager.answer().body == []


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_link_for_answers_ends_with_its_queue(clients: Clients, is_closed: bool) -> None:
    manager = clients.manager()
    consumers = {"operation": "QUERY", **NODE, "entityType": "org.pyjms.consumer"}
    ((address,),) = manager.ask(consumers, {"attributeNames": ["source"]})["results"]
    peer = manager.peer
    peer.received_by_now()  # its acknowledgement
    assert address.startswith("temp-queue://")
    assert peer.attach_sender(address, name="its", handle=7).target is not None
    peer.send(Detach(1, closed=is_closed))
    peer.expect(Detach)
    assert peer.attach_sender(address, name="gone", handle=8).target is None
    peer.expect(Detach)
    peer.attach_receiver("$management", name="again", handle=1, credit=1, target=Target("answers"))
    assert manager.ask({"operation": "GET-MGMT-NODES", **NODE}) == []


def test_a_host_without_the_queue_has_no_links_for_its_answers(tmp_path: Path) -> None:
    users = UserFile(tmp_path / "users")
    users.add("ann", PASSWORD, ["admins"])
    with ServedBroker.open(name="shop") as served:
        top = served.broker
        top.create_child(
            "authentication_provider", {"name": "users", "type": "user-file", "path": str(tmp_path / "users")}
        )
        top.create_child("access_control", {"name": "access", "rules": rules_to_data(parse_rules(RULES))})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        node.create_child("virtual_host", {"name": "shop"})
        chosen = {"authentication_providers": ["users"], "access_control": "access"}
        top.create_child("port", {"name": "amqp", "type": "amqp", "port": 0, **chosen})
        clients = Clients(served)
        try:
            peer = clients.peer()
            peer.begin()
            answered = peer.attach_receiver("$management", target=Target("answers"))
            assert answered.source is None
            error = peer.expect(Detach).error
            assert error is not None
            assert error.condition == Condition.NOT_FOUND
        finally:
            clients.close()


def test_a_text_with_json_is_a_request_over_amqp_too(clients: Clients) -> None:
    manager = clients.manager()
    request = json.dumps({"action": "get", "category": "queue", "names": ["orders"], "fields": ["name"]})
    manager.send({}, request)
    answer = manager.answer()
    assert json.loads(answer.body) == {"status": 200, "result": {"name": "orders"}}
    assert answer.application_properties["pyjms_status"] == 200


def test_a_request_with_a_text_is_answered_with_a_text(clients: Clients) -> None:
    manager = clients.manager()
    about = {"type": QUEUE, "name": "bulk"}
    made = manager.ask({"operation": "CREATE", **about}, json.dumps({"max_messages": 5}), 201)
    assert (made["name"], made["max_messages"]) == ("bulk", 5)
    manager.send({"operation": "READ", **about}, "{}", correlation_id="mine")
    answer = manager.answer()
    assert json.loads(answer.body)["names"] == ["main", "shop", "bulk"]
    assert answer.properties.correlation_id == "mine"


# ------------------------------------------------------------------------------------------------------ other protocols


@pytest.mark.realises("BJ-AMQPM-2")
def test_the_same_requests_are_taken_over_stomp_as_maps_and_as_texts(broker: ServedBroker) -> None:
    port = broker.addresses()[0].rpartition(":")[2]
    url = f"stomp://127.0.0.1:{port}?virtual_host=shop"
    with ConnectionFactory(url).create_connection("ann", PASSWORD) as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        answers = session.create_temporary_queue()
        consumer = session.create_consumer(answers)
        producer = session.create_producer(session.create_queue("$management"))
        connection.start()

        def ask(message: Any, status: int, **properties: str) -> Any:
            for name, value in properties.items():
                message.set_string_property(name, value)
            message.jms_reply_to = answers
            producer.send(message)
            answer: Any = consumer.receive(10_000)
            assert answer.jms_correlation_id == message.jms_message_id
            assert answer.get_int_property("statusCode") == status, answer.text
            return json.loads(answer.text)

        create = session.create_map_message()
        create.set_int("max_messages", 5)
        made = ask(create, 201, operation="CREATE", type=QUEUE, name="bulk")
        assert (made["name"], made["max_messages"]) == ("bulk", 5)
        publish = session.create_text_message(json.dumps({"message": {"text": "one"}}))
        ask(publish, 200, operation="publish", type=QUEUE, name="bulk")
        assert ask(session.create_message(), 200, operation="READ", type=QUEUE, name="bulk")["depth"] == 1
        refused = ask(session.create_bytes_message(), 400, operation="READ", type=QUEUE, name="bulk")
        assert refused["code"] == "PYJMS-REQUEST-TYPE"


def test_times_and_numbers_of_amqp_are_numbers(clients: Clients) -> None:
    manager = clients.manager()
    about = {"type": QUEUE, "name": "orders", "operation": "history"}
    assert isinstance(manager.ask(about, {"since_ms": Timestamp(0)}), dict | list)


@pytest.mark.requires("proton")
@pytest.mark.parametrize("host", ["$management", "shop"])
def test_a_client_of_proton_manages_the_broker(broker: ServedBroker, host: str) -> None:
    from proton import Message as ProtonMessage
    from proton.utils import BlockingConnection, SyncRequestResponse

    port = broker.addresses()[0].rpartition(":")[2]
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{port}", timeout=10, user="ann", password=PASSWORD, virtual_host=host
    )
    try:
        client = SyncRequestResponse(connection, "$management")

        def ask(status: int, body: Any = None, **given: Any) -> Any:
            answer = client.call(ProtonMessage(properties=given, body=body))
            assert answer.properties["statusCode"] == status, answer
            return answer.body

        queue = {"type": QUEUE, "name": "main/shop/bulk" if host == "$management" else "bulk"}
        ask(201, {"max_messages": 5}, operation="CREATE", **queue)
        ask(200, {"message": {"text": "one"}}, operation="publish", **queue)
        read = ask(200, operation="READ", **queue)
        assert (read["name"], read["depth"], read["names"]) == (queue["name"], 1, ["main", "shop", "bulk"])
        wanted = {"attributeNames": ["name", "depth"]}
        found = ask(200, wanted, operation="QUERY", **NODE, entityType=QUEUE)
        assert [queue["name"], 1] in found["results"]
        assert ask(200, operation="GET-TYPES", **NODE)[QUEUE] == []
        ask(204, operation="DELETE", **queue)
        assert ask(404, operation="READ", **queue)["code"] == "PYJMS-MODEL-UNKNOWN"
    finally:
        connection.close()


@pytest.mark.requires("proton")
def test_a_client_of_proton_names_the_target_of_its_link_for_answers(broker: ServedBroker) -> None:
    from proton import Message as ProtonMessage
    from proton.reactor import LinkOption
    from proton.utils import BlockingConnection

    class WithTarget(LinkOption):  # type: ignore[misc]  # proton has no types
        def apply(self, link: Any) -> None:
            link.target.address = "mine"

    port = broker.addresses()[0].rpartition(":")[2]
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{port}", timeout=10, user="ann", password=PASSWORD, virtual_host="shop"
    )
    try:
        receiver = connection.create_receiver("$management", credit=1, options=WithTarget())
        sender = connection.create_sender("$management")
        given = {"operation": "READ", "type": QUEUE, "name": "orders"}
        sender.send(ProtonMessage(id=UUID(int=5), reply_to="mine", properties=given))
        answer = receiver.receive(timeout=10)
        receiver.accept()
        assert (answer.correlation_id, answer.body["name"], answer.address) == (UUID(int=5), "orders", "mine")
    finally:
        connection.close()
