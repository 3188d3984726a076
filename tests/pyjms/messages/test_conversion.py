from __future__ import annotations

import struct
from typing import Any, Protocol

import pytest

from pyjms import errors
from pyjms.messages.bodies import JmsMapMessage, JmsStreamMessage, JmsTextMessage
from pyjms.messages.conversion import STRING, TABLE, written_type
from pyjms.messages.java_text import parse_single
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short
from tests.cases import each_of
from tests.pyjms.messages.support import conversions, received, same

WRITTEN: dict[str, Any] = {
    "boolean": True,
    "byte": Byte(7),
    "short": Short(7),
    "char": Char("7"),
    "int": Int(7),
    "long": Long(7),
    "float": Float(7.5),
    "double": Double(7.5),
    "String": "7",
    "byte[]": b"7",
}
CLASSES = {
    "boolean": bool,
    "byte": Byte,
    "short": Short,
    "char": Char,
    "int": Int,
    "long": Long,
    "float": Float,
    "double": Double,
    "String": str,
    "byte[]": bytes,
}
WORDS = {"String": "string", "byte[]": "bytes", "Object": "object"}
BOXED = {
    "Boolean": "boolean",
    "Byte": "byte",
    "Short": "short",
    "Integer": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Character": "char",
    "String": "String",
}


class Holder(Protocol):
    """Something that values are written into as one type and read from as another."""

    def write(self, kind: str, value: Any) -> None: ...
    def read(self, kind: str) -> Any: ...


class Properties:
    def __init__(self) -> None:
        self.message = JmsTextMessage()

    def write(self, kind: str, value: Any) -> None:
        getattr(self.message, f"set_{WORDS.get(kind, kind)}_property")("x", value)
        self.message = received(self.message)

    def read(self, kind: str) -> Any:
        return getattr(self.message, f"get_{WORDS.get(kind, kind)}_property")("x")


class Map:
    def __init__(self) -> None:
        self.message = JmsMapMessage()

    def write(self, kind: str, value: Any) -> None:
        getattr(self.message, f"set_{WORDS.get(kind, kind)}")("x", value)
        self.message = received(self.message)

    def read(self, kind: str) -> Any:
        return getattr(self.message, f"get_{WORDS.get(kind, kind)}")("x")


class Stream:
    def __init__(self) -> None:
        self.message = JmsStreamMessage()

    def write(self, kind: str, value: Any) -> None:
        getattr(self.message, f"write_{WORDS.get(kind, kind)}")(value)
        self.message = received(self.message)

    def read(self, kind: str) -> Any:
        if kind != "byte[]":
            return getattr(self.message, f"read_{WORDS.get(kind, kind)}")()
        buffer = bytearray(100)
        count = self.message.read_bytes(buffer)
        return None if count < 0 else bytes(buffer[:count])


HOLDERS: dict[str, type[Holder]] = {
    "property_table": Properties,
    "map_message_table": Map,
    "stream_message_table": Stream,
}
CELLS = [
    (holder, written, read, outcome)
    for table, holder in HOLDERS.items()
    for written, row in conversions()[table].items()
    for read, outcome in row.items()
]
EACH_HOLDER = pytest.mark.parametrize("kind_of_holder", HOLDERS.values(), ids=lambda kind: kind.__name__)


def reads(holder: Holder) -> list[str]:
    """Return the types that `holder` may be read as."""
    return [name for name in CLASSES if not (isinstance(holder, Properties) and name in {"char", "byte[]"})]


@pytest.mark.realises("BOIL-PROP-1", "BOIL-PROP-2", "BOIL-PROP-3", "BOIL-PROP-7", "BOIL-CONV-1", "BOIL-CONV-2")
@each_of(CELLS)
def test_every_cell_of_the_conversion_tables(cell: tuple[type[Holder], str, str, str]) -> None:
    kind_of_holder, written, read, outcome = cell
    holder = kind_of_holder()
    holder.write(written, WRITTEN[written])
    if outcome == "MessageFormatException":
        with pytest.raises(errors.MessageFormatException, match=r"cannot be read as|not"):
            holder.read(read)
        assert same(holder.read("Object"), WRITTEN[written])
        return
    value = holder.read(read)
    assert type(value) is (CLASSES[written] if read == "Object" else CLASSES[read])
    expected = {"boolean": "true", "float": "7.5", "double": "7.5"}.get(written, "7")
    if read == "String":
        assert value == expected
    elif read == "boolean":
        assert value is (written == "boolean")
    else:
        assert value == (CLASSES[read](7) if written == "String" and read != "Object" else WRITTEN[written])


@pytest.mark.realises("BOIL-CONV-3", "BOIL-CONV-4")
@EACH_HOLDER
@each_of(conversions()["parse_vectors"])
def test_every_text_is_parsed_in_properties_maps_and_streams(
    vector: dict[str, Any], kind_of_holder: type[Holder]
) -> None:
    for boxed, expected in vector.items():
        if boxed == "input":
            continue
        holder = kind_of_holder()
        holder.write("String", vector["input"])
        if isinstance(expected, str):
            with pytest.raises(getattr(errors, expected)) as raised:
                holder.read(BOXED[boxed])
            assert type(raised.value).__name__ == expected
            assert holder.read("String") == vector["input"]  # a stream has not moved on
            continue
        value = holder.read(BOXED[boxed])
        assert type(value) is CLASSES[BOXED[boxed]]
        if isinstance(expected, dict):
            assert struct.pack(">f" if boxed == "Float" else ">d", value).hex() == expected["bits"]
        else:
            assert value == expected


@EACH_HOLDER
@each_of(conversions()["to_string_vectors"])
def test_every_value_is_read_as_text_in_properties_maps_and_streams(
    vector: dict[str, Any], kind_of_holder: type[Holder]
) -> None:
    holder = kind_of_holder()
    kind = BOXED[vector["type"]]
    if kind not in reads(holder):
        assert kind == "char"
        return
    value = vector["value"]
    if isinstance(value, dict):
        (value,) = struct.unpack(">f" if kind == "float" else ">d", bytes.fromhex(value["bits"]))
    elif kind == "char":
        value = chr(int(value.removeprefix("U+"), 16))
    holder.write(kind, value)
    assert holder.read("String") == vector.get("jdk19", vector["string"])


@EACH_HOLDER
@each_of(conversions()["float32_vectors"])
def test_every_double_is_rounded_when_it_is_set_as_float(vector: dict[str, Any], kind_of_holder: type[Holder]) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(vector["double_bits"]))
    for read in ("float", "String", "double"):
        holder = kind_of_holder()
        holder.write("float", value)
        result = holder.read(read)
        if read == "float":
            assert struct.pack(">f", result).hex() == vector["float_bits"]
        elif read == "String":
            assert parse_single(result) == parse_single(vector["float_string"]) or result == "NaN"
        else:
            assert STRING.read(float(result), "x", "x") == vector["widened_string"]


@pytest.mark.realises("BOIL-BODY-7", "BOIL-PROP-7")
@EACH_HOLDER
@pytest.mark.parametrize("stored_as", ["String", "Object"])
def test_null_reads_as_valueof_null(kind_of_holder: type[Holder], stored_as: str) -> None:
    for kind, outcome in conversions()["null_handling"]["read_as"].items():
        holder = kind_of_holder()
        if kind != "Object" and kind not in reads(holder):
            continue
        holder.write(stored_as, None)
        if outcome.endswith("Exception"):
            with pytest.raises(getattr(errors, outcome)) as raised:
                holder.read(kind)
            assert type(raised.value).__name__ == outcome
        else:
            assert holder.read(kind) is (False if outcome == "false" else None)


@pytest.mark.realises("BOIL-PROP-7")
@pytest.mark.parametrize("kind_of_holder", [Properties, Map], ids=lambda kind: kind.__name__)
def test_a_name_that_was_never_set_reads_as_null(kind_of_holder: type[Holder]) -> None:
    holder = kind_of_holder()
    for kind, outcome in conversions()["null_handling"]["read_as"].items():
        if kind != "Object" and kind not in reads(holder):
            continue
        if outcome.endswith("Exception"):
            with pytest.raises(getattr(errors, outcome), match="does not exist or is null"):
                holder.read(kind)
        else:
            assert holder.read(kind) is (False if outcome == "false" else None)


@EACH_HOLDER
def test_object_values(kind_of_holder: type[Holder]) -> None:
    table = {Properties: "set_object_property", Map: "map_set_object", Stream: "stream_write_object"}[kind_of_holder]
    accepted = conversions()["object_values"][table]["accepted"]
    values = {**{boxed: WRITTEN[kind] for boxed, kind in BOXED.items()}, "byte[]": b"7", "null": None}
    for name, value in values.items():
        holder = kind_of_holder()
        if name in accepted:
            holder.write("Object", value)
            assert same(holder.read("Object"), value)
        else:
            with pytest.raises(errors.MessageFormatException):
                holder.write("Object", value)
    for value in (object(), [1], {"a": 1}, 1j, 2**63, -(2**63) - 1, 10**5000):
        with pytest.raises(errors.MessageFormatException):
            kind_of_holder().write("Object", value)


def test_the_table_has_a_row_for_each_type() -> None:
    assert [row.written for row in TABLE] == list(CLASSES)
    assert {name: written_type(value) for name, value in WRITTEN.items()} == {name: name for name in CLASSES}
    assert written_type(None) == "null"
    assert written_type(5) == "int"
    assert written_type(5.0) == "double"


def test_reasons_name_the_value_and_both_types() -> None:
    message = JmsTextMessage()
    message.set_long_property("cups", 2)
    message.set_string_property("name", "espresso")
    with pytest.raises(errors.MessageFormatException, match=r"property 'cups' was written as long.* read as int "):
        message.get_int_property("cups")
    with pytest.raises(errors.NumberFormatException, match=r"property 'name': 'espresso' is no int"):
        message.get_int_property("name")
    with pytest.raises(errors.NumberFormatException, match=r"property 'price' does not exist or is null.* int "):
        message.get_int_property("price")
