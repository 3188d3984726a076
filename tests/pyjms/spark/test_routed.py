"""Rules on rows, as a worker applies them, without Spark: no row stops a job."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from pyjms.routing import transformers
from pyjms.spark.connecting import close_links, link_of
from pyjms.spark.messages import envelope_of
from pyjms.spark.options import parse_options
from pyjms.spark.planning import pages_of_group
from pyjms.spark.routed import REASON, RulesText, routing_function
from pyjms.spark.schema import COLUMNS, row_of
from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.replay import GroupRequest, ReservedMessage
from tests.pyjms.spark.served import ServedBroker

RULES = '[[rule]]\nname = "all"\nto = ["out"]\n[targets.out]\nqueue = "out"\n'


class Row:
    """A row of Spark's, as far as workers ask it."""

    def __init__(self, **values: Any) -> None:
        self._values = dict.fromkeys(COLUMNS) | values

    def asDict(self) -> dict[str, Any]:
        return dict(self._values)


def routed(*rows: Row, rules: str = RULES) -> tuple[list[dict[str, Any]], list[int]]:
    counts: list[int] = []
    function = routing_function(RulesText(rules, "rules.toml"), "queue:route.undeliverable", counts.append)
    return [dict(zip(COLUMNS, made, strict=True)) for made in function(rows)], counts


def test_a_row_that_is_no_message_goes_aside_whole_with_the_reason() -> None:
    good = Row(seq=2, destination="queue:in", text="fine", kind="text")
    odd = Row(
        seq=1, destination="queue:in", message_id="ID:1", timestamp=5_000, bytes=bytearray(b"\0"), text="é",
        properties={"a": "1"}, property_types={"a": "?"},
    )  # fmt: skip
    (aside, passed), counts = routed(odd, good)
    assert (aside["destination"], aside["message_id"], aside["timestamp"]) == (
        "queue:route.undeliverable",
        "ID:1",
        5_000,
    )
    assert "column property_types has '?'" in aside["properties"][REASON]
    told = json.loads(aside["text"])
    assert (told["text"], told["bytes"], told["properties"]) == ("é", "AA==", {"a": "1"})
    assert envelope_of(aside).destination.name == "route.undeliverable", "the sink takes it"
    assert (passed["destination"], passed["text"], counts) == ("queue:out", "fine", [1, 1])


TRANSFORMING = """
[[rule]]
name = "plain"
to = ["queue:plain"]
[[rule]]
name = "maps"
to = ["queue:mapped"]
transform = [{ use = "%s", fields = { a = "/a" } }]
"""


def test_a_transformer_that_fails_makes_the_message_undeliverable_and_nothing_else() -> None:
    rows = [Row(seq=n, destination="queue:in", text=text, kind="text") for n, text in enumerate(("[" * 100_000, "{}"))]
    (aside, *passed), counts = routed(*rows, rules=TRANSFORMING % "map-json")
    assert (aside["destination"], len(aside["text"]), counts) == ("queue:route.undeliverable", 100_000, [1, 2])
    assert (
        aside["properties"][REASON]
        == "maps: the transformer map-json failed: the body is JSON that is nested too deeply"
    )
    assert [each["destination"] for each in passed] == ["queue:plain", "queue:mapped"]


class OddError(Exception):
    """What a transformer of others may raise."""


def raises(envelope: Envelope) -> Envelope:
    raise OddError


def makes_no_message(envelope: Envelope) -> Envelope:
    return replace(envelope, delivery_mode=7)


@pytest.mark.parametrize(
    ("transformer", "reason"),
    [
        (raises, "maps: the transformer odd failed: OddError"),
        (makes_no_message, "what the rules make of it is no message: KeyError: 7"),
        (lambda envelope: None, "maps: the transformer odd failed: it returned NoneType, no Envelope"),
    ],
)
def test_no_transformer_of_others_stops_a_route(monkeypatch: pytest.MonkeyPatch, transformer: Any, reason: str) -> None:
    point = EntryPoint("odd", "others:odd", transformers.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: lambda settings: transformer)
    monkeypatch.setattr(transformers, "entry_points", lambda group, name=None: [point])
    made, counts = routed(Row(seq=1, destination="queue:in", text="tea", kind="text"), rules=TRANSFORMING % "odd")
    assert [(each["destination"], each["text"], each["properties"][REASON]) for each in made] == [
        ("queue:route.undeliverable", "tea", reason)
    ]
    assert counts == [1]


HEADERS = {
    "1x": "1x:1",
    "a b": "a b:1",
    "null": "null:5",
    "JMSCorrelationID": "JMSCorrelationID:q",
    "char": "JMS_pyjms:1;k=text;p=char/C\nchar:x",
    "\ud800": "JMS_pyjms:1;k=text;p=%ED%A0%80/T\nJMS_pyjms_x_%ED%A0%80:x",
    "JMSType": "JMS_pyjms:1;k=text;p=JMSType/I\nJMSType:4",
    "raw": "JMS_pyjms:1;k=text;p=raw/X\nraw:AA==",
}
"""What a plain client may write, by the property that the broker makes of it."""


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> list[ReservedMessage]:
    """What a reader group of a broker gives of messages with `HEADERS`."""
    with ServedBroker(tmp_path_factory.mktemp("broker")) as broker:
        send(broker.url, list(HEADERS.values()))
        options = parse_options({"url": broker.url, "destination": "queue:in", "readerGroup": "g"})
        request = GroupRequest(name="g", address=Address(AddressKind.QUEUE, "in"))
        opened = link_of(options).call(lambda connection: connection.reader_groups().open(request))
        high = link_of(options).call(
            lambda connection: connection.reader_groups().reserve(
                opened, after=0, max_messages=100, max_bytes=None, wait_ms=0
            )
        )
        found = [each for page in pages_of_group(options, "g", opened.group.generation, 0, high) for each in page]
        close_links()
    return found


def send(url: str, headers: list[str]) -> None:
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 10) as client:
        answers = client.makefile("rb")
        client.sendall(b"CONNECT\naccept-version:1.2\nhost:broker\n\n\0")
        assert b"CONNECTED" in until_nul(answers)
        for each in headers:
            client.sendall(f"SEND\ndestination:/queue/in\n{each}\nreceipt:r\n\nhello\0".encode())
            assert b"RECEIPT" in until_nul(answers)


def until_nul(answers: Any) -> bytes:
    found = b""
    while not found.endswith(b"\0"):
        byte = answers.read(1)
        assert byte, found
        found += byte
    return found


@pytest.mark.parametrize("place", range(len(HEADERS)), ids=lambda place: ascii(list(HEADERS)[place]))
def test_whatever_a_plain_client_sends_passes_the_rules_as_it_was(read: list[ReservedMessage], place: int) -> None:
    message = read[place]
    assert list(message.envelope.properties) == [list(HEADERS)[place]]
    row = row_of(message)
    assert envelope_of(row) == message.envelope
    (made,), counts = routed(Row(**row))
    assert (made["destination"], counts) == ("queue:out", [1])
    assert envelope_of(made).properties == message.envelope.properties
