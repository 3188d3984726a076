"""Queues as managed objects: their attributes are their policy, and operators do things with their messages."""

from __future__ import annotations

import base64
from dataclasses import fields
from typing import Any

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InDoubtError, InvalidSelectorError
from pyjms.types import Byte, Char, Double, Float, Long, Short
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession
from pyjms_provider.management.describing import describe, known_fields
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.errors import (
    InvalidArgumentsError,
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    ObjectInUseError,
    UnknownObjectError,
)
from pyjms_provider.model.managed import ManagedObject, State
from pyjms_provider.model.queue import ALERT_FIELDS, QueueAttributes
from pyjms_provider.model.queue_policy import POLICY_FIELDS, policy_of
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.stores.errors import StoreError
from tests.provider.helpers import HandClock, make_envelope
from tests.provider.model.world import Folder, Recorder


def make(host: VirtualHost, name: str = "q", **attributes: Any) -> ManagedObject:
    return host.create_child("queue", {"name": name, **attributes}, by="me")


def publish(queue: ManagedObject, *texts: str, **message: Any) -> list[str]:
    return [queue.invoke("publish", {"message": {"text": text, **message}}) for text in texts]


def texts(queue: ManagedObject, **arguments: Any) -> list[str]:
    return [each["body"]["text"] for each in queue.invoke("browse", arguments)["messages"]]


def hold(host: VirtualHost, name: str) -> ConsumerSession:
    """Have a consumer hold one message."""
    session = ConsumerSession(ReceiverId("holder"), is_delivering=True)
    target = session.add_target(lambda: None)
    consumer = Consumer(host.embedded.virtual_host.queue(name), target)
    session.add_consumer(consumer)
    assert consumer.pull() is not None
    return session


# Attributes


def test_attributes_are_the_fields_of_the_policy() -> None:
    declared = declarations(QueueAttributes)
    others = {"name", "description", "durable", "context", *ALERT_FIELDS}
    assert set(declared) - others == {each.name for each in fields(QueuePolicy)}
    plain = QueueAttributes(name="q")
    found = {name: declared[name].default for name in POLICY_FIELDS}
    expected = {name: getattr(value := getattr(QueuePolicy(), name), "value", value) for name in POLICY_FIELDS}
    assert found == expected
    assert plain.name == "q"


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"type": "sorted"}, "queue q: type: type=sorted needs key: give the name of a property"),
        ({"max_messages": -1}, "queue q: max_messages: max_messages is -1; give a number from 0"),
        ({"overflow": "ring"}, "queue q: overflow: overflow=ring without a limit does nothing"),
        ({"expiry_queue": "q"}, "queue q: expiry_queue: expiry_queue is 'q', the queue itself.*name another queue"),
        ({"overflow": "flow_to_disk"}, "queue q: overflow: overflow=flow_to_disk without a limit does nothing"),
        ({"colour": 1}, "queue q: colour: there is no such attribute"),
        ({"type": "square"}, "queue q: type: should be 'standard'"),
        ({"max_messages": "${n}"}, "queue q: max_messages: there is no variable 'n'"),
        ({"name": ""}, "name: string should have at least 1 character"),
    ],
)
def test_a_queue_that_cannot_be_is_refused(folder: Folder, attributes: dict[str, Any], says: str) -> None:
    host = folder.host()
    with pytest.raises(InvalidAttributesError, match=says):
        make(host, **{"name": "q", **attributes}) if "name" not in attributes else host.create_child(
            "queue", attributes
        )
    assert host.child_names("queue") == []


def test_a_queue_that_takes_what_has_expired_for_all_may_be_changed(folder: Folder) -> None:
    """It has the policy of all, which names it."""
    host = folder.host(queue_defaults={"expiry_queue": "late"})
    host.embedded.virtual_host.queue("late")
    late = host.child("queue", "late")
    late.set_attributes({"paused": True})
    assert late.attribute_values(["paused", "expiry_queue"]) == {"paused": True, "expiry_queue": None}
    with pytest.raises(InvalidAttributesError, match="expiry_queue is 'late', the queue itself"):
        late.set_attributes({"expiry_queue": "late"})
    assert late.attribute_values(["expiry_queue"]) == {"expiry_queue": None}


@pytest.mark.parametrize("stored", [True, False])
def test_a_queue_is_created_changed_and_comes_back(folder: Folder, stored: bool) -> None:
    host = folder.host(stored=stored)
    plain = make(host, "plain", type="priority", priorities=3)
    assert (plain.type, plain.attribute_values(["priorities"])) == ("priority", {"priorities": 3})
    rich = make(host, "rich", max_messages="${most}", context={"most": "9"}, description="d")
    assert rich.attribute_values(["max_messages"]) == {"max_messages": 9}
    assert rich.attribute_values(["max_messages"], actual=True) == {"max_messages": "${most}"}
    rich.set_attributes({"context": {"most": "8"}, "paused": True}, by="you")
    with pytest.raises(ObjectExistsError, match="there is a queue 'rich' already"):
        make(host, "rich")
    for _ in range(2):
        folder.open()
        host = folder.found_host()
        assert host.child_names("queue") == ["plain", "rich"]
        assert host.child("queue", "plain").attribute_values(["type", "priorities"]) == {
            "type": "priority",
            "priorities": 3,
        }
        found = host.child("queue", "rich")
        assert found.attribute_values(["max_messages", "paused", "description"]) == {
            "max_messages": 8,
            "paused": True,
            "description": "d",
        }
        assert (found.id, found.facts()["created_by"], found.facts()["updated_by"]) == (rich.id, "me", "you")
        assert found.is_durable
    kept = (folder.path / "main.json").read_text()
    assert ("plain" in kept) is not stored, "what the messages' store keeps is not kept twice"


def test_a_queue_that_is_not_durable_ends_with_the_broker(folder: Folder) -> None:
    make(folder.host(), durable=False)
    folder.open()
    assert folder.found_host().child_names("queue") == []


def test_a_host_with_a_store_keeps_every_queue(folder: Folder) -> None:
    with pytest.raises(
        InvalidAttributesError, match="durable: the virtual host has a store, which keeps all its queues"
    ):
        make(folder.host(stored=True), durable=False)


def test_queues_made_by_first_use_are_seen_and_can_be_changed(folder: Folder) -> None:
    host = folder.host(stored=True)
    host.embedded.virtual_host.queue("used")
    found = host.child("queue", "used")
    assert (found.facts()["created_by"], found.life_time) == (None, "permanent")
    found.set_attributes({"description": "now I care"})
    folder.open()
    assert folder.found_host().child("queue", "used").attribute_values(["description"]) == {"description": "now I care"}


def test_a_change_that_cannot_be_obeyed_or_kept_changes_nothing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = folder.host()
    queue = make(host, max_messages=5)
    publish(queue, "a")
    with pytest.raises(ObjectInUseError, match="so its type cannot be altered"):
        queue.set_attributes({"type": "sorted", "key": "n", "max_messages": 6})
    with pytest.raises(NotChangeableError, match="queue q: name cannot be changed"):
        queue.set_attributes({"name": "r"})
    with pytest.raises(InvalidAttributesError):
        queue.set_attributes({"max_messages": 6, "priority": 12})

    def fail(_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(host, "write_record", fail)
        with pytest.raises(StoreError):
            queue.set_attributes({"max_messages": 6})
        with pytest.raises(StoreError):
            make(host, "r")
        patched.setattr(host, "remove_record", fail)
        with pytest.raises(StoreError):
            queue.delete()
    assert host.embedded.virtual_host.queue("q").policy.max_messages == 5
    assert queue.attribute_values(["max_messages"]) == {"max_messages": 5}
    assert host.child_names("queue") == ["q"]


def test_a_queue_in_use_is_not_deleted(folder: Folder) -> None:
    host = folder.host()
    queue = make(host)
    publish(queue, "a")
    session = hold(host, "q")
    with pytest.raises(ObjectInUseError, match="has 1 consumer and 1 message that keep"):
        queue.delete()
    assert queue.statistic_values(["held", "consumers", "depth"]) == {"held": 1, "consumers": 1, "depth": 1}
    session.close()
    queue.delete()
    assert queue.state is State.DELETED
    with pytest.raises(UnknownObjectError):
        queue.delete()
    folder.open()
    assert folder.found_host().child_names("queue") == []


def test_a_queue_that_may_be_in_the_store_is_there_with_all_that_was_said_of_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there without its description, and nobody was told of it."""
    host = folder.host()
    recorder = Recorder()
    host.add_listener(recorder, below=True)
    running = host.embedded.virtual_host
    create = running.create_queue

    def create_in_doubt(name: str, policy: QueuePolicy | None) -> bool:
        assert create(name, policy)
        raise InDoubtError("nobody answered")

    with monkeypatch.context() as patched:
        patched.setattr(running, "create_queue", create_in_doubt)
        with pytest.raises(InDoubtError):
            make(host, description="mine")
    assert recorder.heard == [("added", "shop", "q")]
    folder.open()
    assert folder.found_host().child("queue", "q").attribute_values(["description"]) == {"description": "mine"}


def test_a_queue_whose_end_is_in_doubt_is_deleted(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone from its host, so the configuration must not bring it back."""
    host = folder.host()
    queue = make(host)
    running = host.embedded.virtual_host
    destroy = running.destroy_queue

    def destroy_in_doubt(name: str) -> bool:
        assert destroy(name)
        raise InDoubtError("nobody answered")

    with monkeypatch.context() as patched:
        patched.setattr(running, "destroy_queue", destroy_in_doubt)
        with pytest.raises(InDoubtError):
            queue.delete()
    assert queue.state is State.DELETED
    assert host.child_names("queue") == []
    folder.open()
    assert folder.found_host().child_names("queue") == []


def test_a_kept_queue_that_is_wrong_is_errored_and_can_be_mended(folder: Folder) -> None:
    host = folder.host()
    make(host, max_messages="${most}", context={"most": "5"})
    make(host, "other")
    folder.close()
    path = folder.path / "main.json"
    path.write_text(path.read_text().replace('"most": "5"', '"least": "5"'))
    folder.open()
    host = folder.found_host()
    assert (host.state, host.child_names("queue")) == (State.ACTIVE, ["other", "q"])
    queue = host.child("queue", "q")
    assert queue.state is State.ERRORED
    assert str(queue.facts()["error"]).startswith(
        "main.json, object 2: queue q: max_messages: there is no variable 'most'"
    )
    with pytest.raises(ObjectExistsError, match="which could not be made; change it, or delete it"):
        make(host)
    queue.set_attributes({"max_messages": 7})
    assert (queue.state, queue.attribute_values(["max_messages"])) == (State.ACTIVE, {"max_messages": 7})


def test_an_errored_queue_can_be_deleted(folder: Folder) -> None:
    make(folder.host(), max_messages="${most}", context={"most": "5"})
    folder.close()
    path = folder.path / "main.json"
    path.write_text(path.read_text().replace('"most": "5"', '"least": "5"'))
    folder.open()
    folder.found_host().child("queue", "q").delete()
    assert folder.found_host().child_names("queue") == []
    assert '"q"' not in path.read_text()


@pytest.mark.realises("BJ-CFG-3")
def test_listeners_hear_of_queues(folder: Folder) -> None:
    host = folder.host()
    heard, near = Recorder(), Recorder()
    host.add_listener(heard, below=True)
    queue = make(host)
    queue.add_listener(near)
    queue.set_attributes({"max_messages": 1})
    assert host.child("queue", "q") is queue
    queue.delete()
    assert heard.heard == [("added", "shop", "q"), ("attributes", "q", "max_messages"), ("removed", "shop", "q")]
    assert near.heard == [("attributes", "q", "max_messages")]


def test_what_comes_and_goes_is_counted_and_has_a_rate(folder: Folder) -> None:
    clock = HandClock()
    folder.open(clock=clock)
    host = folder.host()
    queue = make(host)
    rates = ["arrival_rate", "delivery_rate", "departure_rate"]
    assert queue.statistic_values(rates) == dict.fromkeys(rates)
    publish(queue, "a", "b", "c", "d")
    queue.invoke("delete_messages", {"message_ids": [queue.invoke("browse", {})["messages"][0]["id"]]})
    hold(host, "q")
    clock.now_ms += 2_000
    assert queue.statistic_values(["arrived", "delivered", "departed", *rates]) == {
        "arrived": 4,
        "delivered": 1,
        "departed": 1,
        "arrival_rate": 2.0,
        "delivery_rate": 0.5,
        "departure_rate": 0.5,
    }


def test_one_statistic_of_all_queues_is_had_at_once(folder: Folder) -> None:
    host = folder.host()
    publish(make(host, "a"), "x", "y")
    make(host, "b")
    assert host.sources()["queue"].columns(["depth"]) == {"depth": {"a": 2, "b": 0}}
    host.embedded.virtual_host.topic("news")
    assert host.sources()["topic"].columns(["waiting"]) == {"waiting": {"news": 0}}


def test_a_column_says_what_each_queue_says_of_itself(folder: Folder) -> None:
    host = folder.host()
    publish(make(host, "a", type="priority", priorities=3, max_messages=7), "x", "y")
    make(host, "b", paused=True, dead_letter="bin")
    source = host.sources()["queue"]
    moves = {"arrival_rate", "delivery_rate", "departure_rate", "oldest_age_ms"}
    fields = [name for name in known_fields("queue") - moves if source.has_column(name)]
    assert {"depth", "consumers", "state", "type", "paused", "dead_letter"} <= set(fields)
    columns = source.columns(fields)
    for name in ("a", "b"):
        told = describe(host.child("queue", name), fields)
        assert {field: columns[field][name] for field in fields} == told


# Messages


def test_messages_are_published_and_browsed_in_pages(folder: Folder) -> None:
    queue = make(folder.host())
    ids = publish(queue, "a", "b", "c", "d", properties={"n": 1})
    page = queue.invoke("browse", {"offset": 1, "limit": 2})
    assert [each["body"]["text"] for each in page["messages"]] == ["b", "c"]
    assert page["has_more"] is True
    assert queue.invoke("browse", {"offset": 2, "limit": 2})["has_more"] is False
    assert texts(queue, message_ids=[ids[3], ids[0], "it's none"]) == ["a", "d"]
    assert texts(queue, message_ids=ids[:2], selector="n = 2") == []
    assert texts(queue, message_ids=[]) == []
    shown = queue.invoke("browse", {"limit": 1, "with_bodies": False})["messages"][0]
    assert (shown["id"], shown["body"], shown["properties"]) == (ids[0], None, {"n": {"type": "int", "value": 1}})
    assert (shown["priority"], shown["delivery_mode"], shown["destination"]) == (4, "PERSISTENT", "queue://q")
    with pytest.raises(InvalidSelectorError):
        queue.invoke("browse", {"selector": "n ="})
    with pytest.raises(InvalidArgumentsError, match="browse of queue main/shop/q: limit: should be less than"):
        queue.invoke("browse", {"limit": 10_000})


def test_properties_keep_their_types(folder: Folder) -> None:
    host = folder.host()
    properties: dict[str, Any] = {
        "flag": True,
        "b": Byte(1),
        "s": Short(2),
        "i": 3,
        "l": Long(4),
        "f": Float(0.5),
        "d": 0.25,
        "nan": float("nan"),
        "t": "text",
    }
    host.embedded.virtual_host.route(make_envelope(destination=_address("in"), properties=properties), None, None)
    queue = host.child("queue", "in")
    shown = queue.invoke("browse", {})["messages"][0]["properties"]
    assert {name: each["type"] for name, each in shown.items()} == {
        "flag": "boolean",
        "b": "byte",
        "s": "short",
        "i": "int",
        "l": "long",
        "f": "float",
        "d": "double",
        "nan": "double",
        "t": "string",
    }
    assert (shown["nan"]["value"], shown["f"]["value"]) == ("nan", 0.5)
    other = make(host, "out")
    given = {name: each for name, each in shown.items() if name != "nan"}
    publish(other, "x", properties={**given, "plain": 2**40, "c": {"type": "char", "value": "x"}})
    (found,) = list(host.queues.manager.browse("out"))
    assert {name: type(value) for name, value in found.properties.items() if name in properties} == {
        name: type(value) for name, value in properties.items() if name != "nan"
    }
    assert isinstance(found.properties["plain"], Long)
    assert isinstance(found.properties["c"], Char)


def test_a_double_is_stored_as_it_is_in_messages(folder: Folder) -> None:
    host = folder.host()
    publish(make(host), "x", properties={"d": {"type": "double", "value": 1}, "i": {"type": "int", "value": "5"}})
    (found,) = list(host.queues.manager.browse("q"))
    assert (type(found.properties["d"]), type(found.properties["i"])) == (float, int)
    assert not isinstance(found.properties["d"], Double)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"text": "a", "base64": "YQ=="}, "message: has a text and bytes"),
        ({"base64": "%"}, "message.base64: is no base64"),
        ({"properties": {"JMSPriority": 1}}, "message.properties.JMSPriority: is no name of a property"),
        ({"properties": {"a-b": 1}}, "message.properties.a-b: is no name"),
        ({"properties": {"like": 1}}, "message.properties.like: is no name"),
        ({"properties": {"JMSXUserID": "boss"}}, "properties.JMSXUserID: is set by the broker; .*JMSXGroupID"),
        ({"properties": {"JMSXGroupSeq": "one"}}, "properties.JMSXGroupSeq: is of type int"),
        ({"properties": {"JMSXGroupSeq": 2**40}}, "properties.JMSXGroupSeq: is of type int"),
        (
            {"properties": {"JMS_pyjms_deadDestination": "queue://payments"}},
            "properties.JMS_pyjms_deadDestination: is set by the broker; .*JMS_pyjms_deliverAt and JMS_pyjms_duplicateId",
        ),
        ({"properties": {"x": {"type": "byte", "value": 300}}}, "properties.x: 300 is outside the range of Byte"),
        ({"properties": {"x": {"type": "shoe", "value": 1}}}, "properties.x: has no type 'shoe'"),
        ({"time_to_live_ms": 2**63}, "message.time_to_live_ms: should be less than or equal to 9223372036854775807"),
        ({"priority": 10}, "message.priority: should be less than or equal to 9"),
        ({"colour": 1}, "message.colour: there is no such name here"),
    ],
)
def test_a_message_that_cannot_be_is_refused(folder: Folder, message: dict[str, Any], says: str) -> None:
    queue = make(folder.host())
    with pytest.raises(InvalidArgumentsError, match=says):
        queue.invoke("publish", {"message": message})
    assert queue.statistic_values(["depth"]) == {"depth": 0}


def test_bytes_and_nothing_can_be_published(folder: Folder) -> None:
    queue = make(folder.host())
    queue.invoke("publish", {"message": {"base64": base64.b64encode(b"\x00\xff").decode()}})
    queue.invoke("publish", {"message": {}})
    bodies = [each["body"] for each in queue.invoke("browse", {})["messages"]]
    assert [(each["kind"], each["size"], each["base64"]) for each in bodies] == [
        ("bytes", 2, "AP8="),
        ("none", 0, None),
    ]


@pytest.mark.parametrize("policy", [{}, {"min_time_to_live_ms": 2**63 - 1}])
def test_a_message_that_lives_longer_than_time_goes_is_kept(folder: Folder, policy: dict[str, Any]) -> None:
    queue = make(folder.host(stored=True), **policy)
    publish(queue, "old", time_to_live_ms=2**63 - 1)
    (shown,) = queue.invoke("browse", {})["messages"]
    assert (shown["body"]["text"], shown["expiration_ms"]) == ("old", 2**63 - 1)


@pytest.mark.parametrize("offset", [10**9, 2**63 - 10, 2**63, 10**40])
def test_a_place_that_no_list_has_is_refused(folder: Folder, offset: int) -> None:
    host = folder.host()
    make(host, "dead")
    queue = make(host, dead_letter="dead")
    for managed, name in ((queue, "browse"), (host.child("dead_letter", "dead"), "list_letters")):
        with pytest.raises(InvalidArgumentsError, match="offset: should be less than or equal to 999999999"):
            managed.invoke(name, {"offset": offset})
        assert managed.invoke(name, {"offset": 999_999_999})["has_more"] is False


def test_messages_are_found_by_id_in_whatever_queue(folder: Folder) -> None:
    host = folder.host()
    first, second = publish(make(host, "a"), "x", "y")
    (third,) = publish(make(host, "b"), "z")
    found = host.invoke("find_messages", {"message_ids": [first, third, "none"], "with_bodies": True})
    assert [(each["queue"], each["message"]["body"]["text"]) for each in found] == [("a", "x"), ("b", "z")]
    assert host.invoke("find_messages", {"message_ids": [second]})[0]["message"]["body"] is None
    assert host.invoke("find_messages", {"message_ids": [third]}, progress=lambda done, _: done < 1) == []


def test_messages_are_moved_copied_and_deleted(folder: Folder) -> None:
    host = folder.host()
    queue, other = make(host), make(host, "other")
    publish(queue, "a", "b", "c", "d")
    ids = [each["id"] for each in queue.invoke("browse", {})["messages"]]
    assert queue.invoke("copy_messages", {"target": "other", "message_ids": ids[:1]}) == {"messages": 1}
    assert queue.invoke("move_messages", {"target": "other", "most": 2}) == {"messages": 2}
    assert (texts(queue), texts(other)) == (["c", "d"], ["a", "a", "b"])
    assert queue.invoke("delete_messages", {"message_ids": ids[2:3]}) == {"messages": 1}
    assert other.invoke("purge", {}) == {"messages": 3}
    assert (texts(queue), texts(other)) == (["d"], [])


def test_long_work_reports_and_can_be_ended_half_way(folder: Folder) -> None:
    host = folder.host()
    queue = make(host)
    publish(queue, *"abcde")
    heard: list[tuple[int, int | None]] = []

    def progress(done: int, total: int | None) -> bool:
        heard.append((done, total))
        return done < 2

    assert queue.invoke("purge", {}, progress=progress) == {"messages": 2}
    assert heard == [(0, 5), (1, 5), (2, 5), (2, 2)]
    make(host, "other")
    for name, done in (("copy_messages", 2), ("move_messages", 2)):
        assert queue.invoke(name, {"target": "other"}, progress=progress) == {"messages": done}


def test_a_queue_is_paused_and_resumed(folder: Folder) -> None:
    host = folder.host()
    queue = make(host)
    publish(queue, "a")
    queue.invoke("pause", {}, by="me")
    with pytest.raises(AssertionError):
        hold(host, "q")
    assert queue.facts()["updated_by"] == "me"
    queue.invoke("resume", {})
    hold(host, "q").close()


def test_what_a_policy_says_is_what_attributes_say(folder: Folder) -> None:
    queue = make(folder.host(), type="last_value", key="k", max_bytes="1MB", overflow="ring")
    assert isinstance(queue.attributes, QueueAttributes)
    policy = policy_of(queue.attributes, "q")
    assert (policy.max_bytes, policy.type.value, policy.overflow.value) == (1_000_000, "last_value", "ring")
    assert queue.statistic_values(["bytes"]) == {"bytes": 0}


def _address(name: str) -> Address:
    return Address(AddressKind.QUEUE, name)
