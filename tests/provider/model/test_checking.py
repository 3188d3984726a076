"""Judging a configuration without running it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pyjms_provider.model.checking import check_configuration
from pyjms_provider.security.secrets import SecretBox
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord
from tests.provider.model.certificates import write_certificate


def record(category: str, parent: ObjectRecord | None, **attributes: Any) -> ObjectRecord:
    """Return an object as a store keeps it."""
    return ObjectRecord(
        id=ObjectId(uuid4()),
        category=category,
        parent=None if parent is None else parent.id,
        attributes=attributes,
        source=f"here, {attributes['name']}",
    )


BROKER = record("broker", None, name="b")


def found(*records: ObjectRecord, context: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Return object and attribute of all that is wrong."""
    return [(each.path, each.attribute) for each in check_configuration([BROKER, *records], context or {})]


def test_nothing_is_wrong_with_a_broker_alone() -> None:
    assert found() == []


def test_each_finding_says_where_the_object_stands() -> None:
    [finding] = check_configuration([BROKER, record("port", BROKER, name="p", type="stomp", port="x")], {})
    assert (finding.source, finding.path, finding.attribute) == ("here, p", "port p", "port")
    assert finding.text == "should be a whole number"


def test_all_attributes_that_are_wrong_are_told_at_once() -> None:
    wrong = record(
        "port", BROKER, name="p", type="stomp", port=-1, prot=1, access_control="none", heart_beat_ms="${no}"
    )
    assert sorted(found(wrong)) == [
        (f"port {'p'}", each) for each in ("access_control", "heart_beat_ms", "port", "prot")
    ]


def test_an_object_that_is_wrong_can_be_named_by_others() -> None:
    keys = record("key_store", BROKER, name="k", certificate_file="/no/such/file.pem")
    port = record("port", BROKER, name="p", type="stomp", transports=["tls"], key_store="k")
    assert found(keys, port) == [("key_store k", "certificate_file")]


def test_variables_come_from_the_context() -> None:
    port = record("port", BROKER, name="p", type="stomp", port="${my.port}")
    assert found(port, context={"my.port": "61613"}) == []
    assert found(port) == [("port p", "port")]


def test_no_port_and_no_store_is_opened(tmp_path: Path) -> None:
    node = record("virtual_host_node", BROKER, name="n", type="json", path=str(tmp_path / "node.json"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = record("port", BROKER, name="p", type="stomp", port=taken.getsockname()[1])
        assert found(node, port) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "text"),
    [("nonsense://x", "no store is installed for nonsense://"), ("shop.db", "write for instance sqlite:///shop.db")],
)
def test_a_store_of_which_there_is_no_kind_is_a_finding(url: str, text: str) -> None:
    memory = record("virtual_host_node", BROKER, name="n", type="memory")
    host = record("virtual_host", memory, name="h", type="standard", store_url=url)
    node = record("virtual_host_node", BROKER, name="s", type="store", url=url)
    findings = check_configuration([BROKER, memory, host, node], {})
    assert sorted((each.path, each.attribute) for each in findings) == [
        ("virtual_host n/h", "store_url"),
        ("virtual_host_node s", "url"),
    ]
    assert all(text in each.text for each in findings)


def test_known_stores_are_not_opened(tmp_path: Path) -> None:
    for url in ("sqlite:///${folder}/a.db", "postgresql+psycopg://me@127.0.0.1:1/none"):
        node = record("virtual_host_node", BROKER, name="n", type="memory")
        host = record("virtual_host", node, name="h", type="standard", store_url=url)
        assert found(node, host, context={"folder": str(tmp_path)}) == []
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_of_a_node_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text("{")
    node = record("virtual_host_node", BROKER, name="n", type="json", path=str(tmp_path / "node.json"))
    assert found(node) == [("virtual_host_node n", "")]


def test_users_that_cannot_be_read_are_a_finding(tmp_path: Path) -> None:
    users = record("authentication_provider", BROKER, name="u", type="user-file", path=str(tmp_path / "none"))
    assert [path for path, _ in found(users)] == ["authentication_provider u"]
    assert list(tmp_path.iterdir()) == [], "the file is not made"


def test_queues_are_judged_as_their_host_would(tmp_path: Path) -> None:
    node = record("virtual_host_node", BROKER, name="n", type="memory")
    host = record("virtual_host", node, name="h", context={"most": "7"})
    queues = [
        record("queue", host, name="few", max_messages=-1),
        record("queue", host, name="sorted", type="sorted"),
        record("queue", host, name="typo", max_mesages=1),
        record("queue", host, name="late", expiry_queue="late"),
        record(
            "queue",
            host,
            name="good",
            max_messages="${most}",
            description="${this:name} of ${mine}",
            context={"mine": "us"},
        ),
    ]
    assert sorted(found(node, host, *queues)) == [
        ("queue n/h/few", "max_messages"),
        ("queue n/h/late", "expiry_queue"),
        ("queue n/h/sorted", "type"),
        ("queue n/h/typo", "max_mesages"),
    ]


def test_variables_that_lead_back_to_themselves_are_found_before_anybody_uses_them() -> None:
    odd = record(
        "virtual_host_node", BROKER, name="n", type="memory", context={"a": "${b}", "b": "${a}", "c": "${later}"}
    )
    assert found(odd) == [("virtual_host_node n", "context.a"), ("virtual_host_node n", "context.b")]


def test_what_is_encrypted_is_judged_as_what_it_is(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path, password=b"s3cret")
    box = SecretBox.open(tmp_path / "key")
    keys = record("key_store", BROKER, name="k", certificate_file=certificate, key_file=key)
    sealed = box.encrypt("s3cret", context=f"{keys.id}/key_password")
    keys = replace(keys, attributes={**keys.attributes, "key_password": sealed})
    assert check_configuration([BROKER, keys], {}, box) == []
    told = check_configuration([BROKER, keys], {})
    assert (told[0].attribute, "there is no key file" in told[0].text) == ("key_password", True)
    [moved, *_] = check_configuration([BROKER, replace(keys, id=ObjectId(uuid4()))], {}, box)
    assert (moved.attribute, "belongs to another object" in moved.text) == ("key_password", True)
