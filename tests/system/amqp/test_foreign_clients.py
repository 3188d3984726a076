"""AMQP clients of Python, Node, Go and Azure that know nothing of our broker: they send, receive, settle in all ways, and are killed."""

from __future__ import annotations

import threading
from itertools import count, islice
from typing import Any

import pytest

from tests.system.amqp.foreign import CLIENTS, PATIENCE_S, Foreign

_numbers = count(1)
WITH_TRANSACTIONS = pytest.param("proton", marks=pytest.mark.requires("proton"))
"""rhea and go-amqp have none."""
ALL = [pytest.param(name, marks=pytest.mark.requires(name)) for name in CLIENTS]

PROPERTIES: dict[str, tuple[str, object]] = {
    "truth": ("boolean", True),
    "byte": ("byte", -128),
    "short": ("short", -32768),
    "int": ("int", -(2**31)),
    "long": ("long", -(2**63)),
    "float": ("float", 0.5),
    "double": ("double", 1e300),
    "text": ("string", "grün"),
    "nothing": ("null", None),
    "ubyte": ("ubyte", 255),
    "ushort": ("ushort", 65535),
    "uint": ("uint", 2**32 - 1),
    "ulong": ("ulong", 2**64 - 1),
    "when": ("timestamp", 1_700_000_000_000),
    "uuid": ("uuid", "12345678-1234-5678-1234-567812345678"),
    "symbol": ("symbol", "sign"),
    "bytes": ("binary", "00ff"),
}
OF_RHEA: dict[str, object] = {"long": -(2**53), "ulong": 2**53, "uuid": "12345678123456781234567812345678"}
"""What rhea writes another way, as JavaScript has no integers of 64 bits, or prints so."""
FIELDS: dict[str, object] = {
    "body": "grün",
    "durable": True,
    "priority": 7,
    "id": "ID:one",
    "user": "anonymous",
    "subject": "order",
    "reply_to": "answers",
    "correlation": "first",
    "content_type": "text/plain",
    "created": 1_700_000_000_000,
    "group": "group",
    "sequence": 7,
    "reply_group": "answers-group",
}


@pytest.fixture
def queue() -> str:
    return f"queue:foreign-{next(_numbers)}"


@pytest.fixture(params=ALL)
def client(request: pytest.FixtureRequest, amqp_url: str) -> Foreign:
    return Foreign(request.param, amqp_url)


@pytest.fixture(params=[WITH_TRANSACTIONS])
def transacting(request: pytest.FixtureRequest, amqp_url: str) -> Foreign:
    return Foreign(request.param, amqp_url)


def bodies(lines: list[dict[str, Any]]) -> list[str]:
    return [line["body"] for line in lines]


def test_what_is_sent_is_accepted_and_comes_in_order(client: Foreign, queue: str) -> None:
    assert client.do("send", queue, 5) == [{"sent": str(number), "outcome": "accepted"} for number in range(5)]
    assert client.drain(queue) == [{"body": str(number), "count": 0, "number": number} for number in range(5)]
    assert client.drain(queue) == []


@pytest.mark.parametrize("name", ALL)
def test_a_drain_is_answered_though_no_credit_is_left(name: str, both_urls: tuple[str, str], queue: str) -> None:
    """As go-amqp drains, whose credit is 0 then, and which waits for the answer; Artemis gives it none."""
    assert Foreign(name, both_urls[0]).do("drain", queue) == []


@pytest.mark.parametrize("outcome", ["accepted", "rejected"])
def test_an_accepted_or_rejected_message_does_not_come_again(client: Foreign, queue: str, outcome: str) -> None:
    client.do("send", queue, 3)
    assert bodies(client.do("receive", queue, 2, outcome)) == ["0", "1"]
    assert client.drain(queue) == [{"body": "2", "count": 0, "number": 2}]


@pytest.mark.parametrize(("outcome", "deliveries"), [("released", 0), ("failed", 1)])
def test_a_released_or_failed_message_comes_again_first(
    client: Foreign, queue: str, outcome: str, deliveries: int
) -> None:
    client.do("send", queue, 3)
    assert bodies(client.do("receive", queue, 1, outcome)) == ["0"]
    found = client.drain(queue)
    assert [(line["body"], line["count"]) for line in found] == [("0", deliveries), ("1", 0), ("2", 0)]


def test_a_selector_chooses(client: Foreign, queue: str) -> None:
    client.do("send", queue, 5)
    assert bodies(client.do("select", queue, 2, "number = 1 OR number = 3")) == ["1", "3"]
    assert bodies(client.drain(queue)) == ["0", "2", "4"]


@pytest.mark.parametrize("sender", ALL)
def test_a_message_stays_as_its_sender_made_it(sender: str, client: Foreign, amqp_url: str, queue: str) -> None:
    """Each client shows what each other has written: all fields, and properties of all types that these know."""
    Foreign(sender, amqp_url).do("types", queue)
    (shown,) = client.do("show", queue)
    properties = shown.pop("properties")
    assert 0 < shown.pop("ttl") <= 3_600_000
    assert shown == FIELDS
    expected = {name: list(pair) for name, pair in PROPERTIES.items()}
    if sender == "rhea":
        expected |= {name: [expected[name][0], value] for name, value in OF_RHEA.items() if name != "uuid"}
    if client.name == "go-amqp":
        expected["symbol"][0] = "string"
    if client.name == "rhea":  # it shows no types
        plain = {name: value for name, (_, value) in expected.items()}
        plain["uuid"] = OF_RHEA["uuid"]
        for name in ("long", "ulong"):  # it cannot say these, or as bytes
            del plain[name]
            del properties[name]
        assert properties == plain
    else:
        assert properties == expected


def test_a_request_is_answered_at_a_dynamic_node(client: Foreign, queue: str) -> None:
    with client.doing("serve", queue, 2) as served:
        assert next(served) == {"serving": queue}
        for body in ("one", "two"):
            assert client.do("request", queue, body) == [{"reply": f"re: {body}", "correlation": "asked"}]
            assert next(served) == {"replied": True}


def test_a_topic_gives_each_receiver_a_copy(client: Foreign, queue: str) -> None:
    topic = queue.replace("queue:", "topic:")
    with client.doing("hold", topic, 2) as one, client.doing("hold", topic, 2) as two:
        found: list[list[dict[str, Any]]] = [[], []]
        readers = [
            threading.Thread(target=lambda lines=lines, into=into: into.extend(islice(lines, 2)))
            for lines, into in zip((one, two), found, strict=True)
        ]
        for reader in readers:
            reader.start()
        tries = 0
        while not all(found) and tries < 20:  # a receiver gets what is sent once it is there
            client.do("send", topic, 1)
            tries += 1
        client.do("send", topic, 1)
        for reader in readers:
            reader.join(PATIENCE_S)
        assert [bodies(each) for each in found] == [["0", "0"], ["0", "0"]]


# Transactions


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_moves_messages_or_none(transacting: Foreign, queue: str, end: str) -> None:
    target = f"{queue}-target"
    transacting.do("send", queue, 3)
    told = {"commit": "committed", "rollback": "rolled back"}[end]
    moved = transacting.do("transact", queue, target, 2, end)
    assert moved == [{"body": "0", "count": 0}, {"body": "1", "count": 0}, {"transaction": told}]
    left, arrived = bodies(transacting.drain(queue)), bodies(transacting.drain(target))
    assert (left, arrived) == ((["2"], ["0", "1"]) if end == "commit" else (["0", "1", "2"], []))


# Killed in the middle


def test_what_a_killed_receiver_had_comes_again(client: Foreign, queue: str) -> None:
    client.do("send", queue, 4)
    with client.doing("hold", queue, 3) as held:
        assert bodies(list(islice(held, 3))) == ["0", "1", "2"]
    assert bodies(client.drain(queue)) == ["0", "1", "2", "3"]


def test_what_a_killed_sender_was_told_is_there(client: Foreign, queue: str) -> None:
    with client.doing("flood", queue) as sending:
        told = [line["sent"] for line in islice(sending, 50)]
    found = bodies(client.drain(queue))
    assert found[:50] == told
    assert found == [str(number) for number in range(len(found))], "in order, and none twice"


def test_the_transaction_of_a_killed_client_is_rolled_back(transacting: Foreign, queue: str) -> None:
    target = f"{queue}-target"
    transacting.do("send", queue, 3)
    with transacting.doing("transact", queue, target, 2, "hold") as moved:
        assert bodies(list(islice(moved, 2))) == ["0", "1"]
    assert bodies(transacting.drain(queue)) == ["0", "1", "2"]
    assert transacting.drain(target) == []


# The SDK of Azure Service Bus, which shows a token at $cbs first, and which Artemis has no answer for


@pytest.fixture
def azure(both_urls: tuple[str, str]) -> Foreign:
    return Foreign("azure", both_urls[0])


@pytest.mark.requires("azure")
def test_the_sdk_of_azure_sends_and_receives(azure: Foreign, queue: str) -> None:
    assert azure.do("send", queue, 3) == [{"sent": str(number), "outcome": "accepted"} for number in range(3)]
    assert azure.drain(queue) == [{"body": str(number), "count": 0, "number": number} for number in range(3)]


@pytest.mark.requires("azure", "proton")
@pytest.mark.parametrize("outcome", ["accepted", "rejected", "failed", "undeliverable"])
def test_the_sdk_of_azure_settles(azure: Foreign, both_urls: tuple[str, str], queue: str, outcome: str) -> None:
    """It calls these: complete, dead-letter, abandon, defer. Dead letters are in a queue of their own."""
    azure.do("send", queue, 2)
    assert bodies(azure.do("receive", queue, 1, outcome)) == ["0"]
    found = [(line["body"], line["count"]) for line in Foreign("proton", both_urls[0]).drain(queue)]
    assert found == ([("0", 1), ("1", 0)] if outcome == "failed" else [("1", 0)])


@pytest.mark.requires("azure")
def test_what_a_killed_receiver_of_azure_had_comes_again(azure: Foreign, queue: str) -> None:
    azure.do("send", queue, 3)
    with azure.doing("hold", queue, 2) as held:
        assert bodies(list(islice(held, 2))) == ["0", "1"]
    assert bodies(azure.drain(queue)) == ["0", "1", "2"]


@pytest.mark.requires("azure")
def test_what_a_killed_sender_of_azure_was_told_is_there(azure: Foreign, queue: str) -> None:
    with azure.doing("flood", queue) as sending:
        told = [line["sent"] for line in islice(sending, 20)]
    found = bodies(azure.drain(queue))
    assert found[:20] == told
    assert found == [str(number) for number in range(len(found))]


@pytest.mark.requires("azure")
def test_a_list_of_the_sdk_of_azure_is_refused_and_it_hears_why(azure: Foreign, queue: str) -> None:
    (line,) = azure.do("list", queue)
    assert "amqp:not-implemented" in line["error"]
