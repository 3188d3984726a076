"""The data that the suite ships: it is what the project's own tests run on, without what only these need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyjms
from pyjms_tck.vectors import TYPES, load, value_of_bits

SPEC = Path(__file__).parents[1] / "data" / "spec"


def spec(name: str) -> Any:
    return json.loads((SPEC / f"{name}.json").read_text(encoding="utf-8"))


def test_all_selector_vectors_are_shipped() -> None:
    kept = ("id", "selector", "properties", "headers", "expected", "specified", "portable")
    ours = [{key: vector[key] for key in kept if key in vector} for vector in spec("selectors")["vectors"]]
    assert [{key: vector[key] for key in kept if key in vector} for vector in load("selectors")] == ours


def test_all_conversions_are_shipped() -> None:
    ours, theirs = load("conversions"), spec("conversions")
    for name, table in (
        ("property", "property_table"),
        ("body", "map_message_table"),
        ("body", "stream_message_table"),
    ):
        converts = {
            source: [target for target, how in row.items() if how.startswith("ok") and target != "Object"]
            for source, row in theirs[table].items()
        }
        assert ours[name] == converts
    assert len(ours["parse"]) == len(theirs["parse_vectors"]) - 1  # null is a rule of its own
    assert len(ours["to_text"]) == len(theirs["to_string_vectors"])
    assert len(ours["rounding"]) == len(theirs["float32_vectors"])


def test_all_members_of_the_api_are_shipped() -> None:
    ours, theirs = load("api"), spec("jms11-api")["types"]
    assert [type["name"] for type in ours] == [type["name"] for type in theirs]
    for mine, type in zip(ours, theirs, strict=True):
        assert [method["java"] for method in mine.get("methods", [])] == [method["java"] for method in type["methods"]]
        assert mine.get("constants", {}) == {constant["name"]: constant["value"] for constant in type["constants"]}
        assert len(mine.get("constructors", [])) == len(type["constructors"])
        for method, other in zip(mine.get("methods", []), type["methods"], strict=True):
            if method["kind"] == "method":
                assert len(method["overloads"]) == len(other["overloads"])


def test_bits_are_read_by_their_length() -> None:
    assert value_of_bits("3fc00000") == 1.5
    assert value_of_bits("3ff8000000000000") == 1.5


def test_each_type_has_values_of_its_class() -> None:
    for type in TYPES.values():
        assert len({repr(value) for value in type.values}) == len(type.values) >= 2
        for value in type.values:
            assert type.kind(value) == value or value != value  # noqa: PLR0124 - NaN


def test_every_exception_that_the_vectors_name_exists() -> None:
    named = {
        value
        for vector in load("conversions")["parse"]
        for value in vector.values()
        if str(value).endswith("Exception") and value != vector["input"]
    }
    assert named == {"NumberFormatException"}
    for name in named | {value for value in load("conversions")["null"].values() if isinstance(value, str)}:
        assert issubclass(getattr(pyjms, name), Exception)
