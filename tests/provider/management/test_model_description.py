"""The model as data: enough to show and to change any object without knowing it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyjms_provider.management.describing import describe_model
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.operations import operations_of, statistics_of


@pytest.fixture(scope="module")
def described() -> dict[str, dict[str, Any]]:
    found: dict[str, Any] = json.loads(json.dumps(describe_model()))
    return {each["category"]: each for each in found["categories"]}


@pytest.mark.realises("BJ-AMQPM-3", "BJ-WEB-1")
def test_every_type_of_every_category_tells_its_attributes_statistics_and_operations(
    described: dict[str, dict[str, Any]],
) -> None:
    assert list(described) == [category for category in tree.TREE if category != tree.ROOT]
    for category, shown in described.items():
        types = [name for kind in shown["kinds"] for name in kind["types"]]
        assert sorted(types) == sorted(tree.types_of(category))
        for kind in shown["kinds"]:
            implementation = tree.class_of(category, kind["types"][0])[1]
            assert [each["name"] for each in kind["attributes"]] == list(declarations(implementation.attributes_class))
            assert [each["name"] for each in kind["statistics"]] == list(statistics_of(implementation))
            assert [each["name"] for each in kind["operations"]] == list(operations_of(implementation))


def test_the_tree_can_be_walked_from_the_broker(described: dict[str, dict[str, Any]]) -> None:
    assert described["broker"]["parent"] is None
    assert described["broker"]["address"] == []
    assert described["queue"]["parent"] == "virtual_host"
    assert described["queue"]["address"] == ["virtual_host_node", "virtual_host", "queue"]
    assert all(each["parent"] in described for each in described.values() if each["category"] != "broker")


def test_secrets_references_and_what_stays_are_told(described: dict[str, dict[str, Any]]) -> None:
    user = {each["name"]: each for each in described["user"]["kinds"][0]["attributes"]}
    assert user["password"]["is_secure"]
    assert user["name"]["is_mandatory"]
    assert not user["name"]["is_mutable"]
    port = {each["name"]: each for each in described["port"]["kinds"][0]["attributes"]}
    assert port["key_store"]["refers_to"] == "key_store"


def test_a_schema_brings_the_definitions_that_it_refers_to_and_no_others(described: dict[str, dict[str, Any]]) -> None:
    operations = {each["name"]: each for each in described["queue"]["kinds"][0]["operations"]}
    assert set(operations["publish"]["parameters"]["$defs"]) == {"NewMessage", "TypedValue"}
    assert "$defs" not in operations["browse"]["parameters"]
    port = {each["name"]: each for each in described["port"]["kinds"][0]["attributes"]}
    assert set(port["transports"]["schema"]["$defs"]) == {"Transport"}
    assert "$defs" not in port["host"]["schema"]
