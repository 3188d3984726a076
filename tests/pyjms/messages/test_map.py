from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import IllegalArgumentException, IndexOutOfBoundsException, MessageFormatException
from pyjms.messages.bodies import JmsMapMessage
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short
from tests.pyjms.messages.support import BODY_VALUES, frozen, received, same

SETTERS: dict[str, tuple[Any, Any]] = {
    "boolean": (True, bool),
    "byte": (1, Byte),
    "short": (1, Short),
    "char": ("c", Char),
    "int": (1, Int),
    "long": (1, Long),
    "float": (0.5, Float),
    "double": (0.1, Double),
    "string": ("1", str),
    "bytes": (b"1", bytes),
    "object": (2**40, Long),
}


@pytest.mark.realises("BOIL-BODY-1")
@pytest.mark.parametrize("java", [False, True], ids=["python", "java"])
@pytest.mark.parametrize("kind", SETTERS)
def test_each_setter_and_its_getter(kind: str, java: bool) -> None:
    value, expected = SETTERS[kind]
    message = JmsMapMessage()
    getattr(message, f"set{kind.title()}" if java else f"set_{kind}")("x", value)
    for each in (message, received(message)):
        for read in (f"get{kind.title()}" if java else f"get_{kind}", "get_object"):
            assert type(getattr(each, read)("x")) is expected
            assert getattr(each, read)("x") == value


@given(st.dictionaries(st.text(min_size=1), BODY_VALUES, max_size=8))
def test_any_map_arrives_as_it_was_set(values: dict[str, Any]) -> None:
    message = JmsMapMessage()
    for name, value in values.items():
        message.set_object(name, value)
    for each in (message, received(message), received(received(message))):
        assert set(each.map_names) == set(values)
        assert all(same(each.get_object(name), value) for name, value in values.items())
        assert all(each.item_exists(name) for name in values)


def test_any_text_is_a_name() -> None:
    message = JmsMapMessage()
    for name in ("a b", "1", "JMSX", "null", "größe", " "):
        message.set_int(name, 1)
    names = message.getMapNames()
    assert names.hasMoreElements()
    assert sorted([names.nextElement(), *names]) == sorted(["a b", "1", "JMSX", "null", "größe", " "])


@pytest.mark.parametrize("kind", SETTERS)
@pytest.mark.parametrize("name", [None, "", 5, b"x"])
def test_a_name_is_not_empty(kind: str, name: Any) -> None:
    message = JmsMapMessage()
    with pytest.raises(IllegalArgumentException, match=r"needs a name|a name is a str"):
        getattr(message, f"set_{kind}")(name, SETTERS[kind][0])
    assert not list(message.map_names)


def test_what_is_not_there() -> None:
    message = JmsMapMessage()
    message.set_string("null", None)
    assert message.item_exists("null")
    assert message.itemExists("other") is False
    assert message.get_object("null") is message.get_object("other") is None
    assert message.get_string("other") is None
    assert message.get_bytes("other") is None
    assert message.get_boolean("other") is False


@pytest.mark.realises("BOIL-BODY-7", "BOIL-BODY-8")
def test_bytes_are_copied_in_and_out() -> None:
    buffer = bytearray(b"abcdef")
    message = JmsMapMessage()
    message.set_bytes("all", buffer)
    message.setBytes("part", buffer, 1, 3)
    message.set_bytes("rest", memoryview(buffer), offset=4)
    message.set_object("object", buffer)
    message.set_bytes("none", None)
    message.set_bytes("none, too", None, 0, 0)
    buffer[:] = b"......"
    assert message.get_bytes("all") == message.get_object("object") == b"abcdef"
    assert (message.get_bytes("part"), message.get_bytes("rest")) == (b"bcd", b"ef")
    assert message.get_bytes("none") is message.get_bytes("none, too") is None
    assert type(message.get_bytes("all")) is bytes  # immutable: shared
    with pytest.raises(IndexOutOfBoundsException):
        message.set_bytes("all", b"abc", 2, 2)
    assert message.get_bytes("all") == b"abcdef"


def test_a_failed_setter_changes_nothing() -> None:
    message = JmsMapMessage()
    message.set_int("x", 5)
    for kind, value in (
        ("byte", 300),
        ("short", 70000),
        ("int", "6"),
        ("char", "ab"),
        ("bytes", "abc"),
        ("object", []),
    ):
        for name in ("x", "y"):
            with pytest.raises(MessageFormatException, match=f"map entry '{name}'"):
                getattr(message, f"set_{kind}")(name, value)
    assert list(message.map_names) == ["x"]
    assert message.get_int("x") == 5


@pytest.mark.realises("BOIL-BODY-2")
def test_a_sender_may_go_on_writing_after_a_send() -> None:
    message = JmsMapMessage()
    message.set_int("x", 1)
    first = frozen(message)
    assert frozen(message).body is first.body
    message.set_int("x", 2)
    second = frozen(message)
    message.clear_body()
    assert not list(message.map_names)
    message.set_string("y", "z")
    assert [first.body, second.body, frozen(message).body] == [{"x": 1}, {"x": 2}, {"y": "z"}]


def test_clearing_a_received_map_leaves_the_original() -> None:
    message = JmsMapMessage()
    message.set_int("x", 1)
    envelope = frozen(message)
    arrived = received(message)
    arrived.clear_body()
    arrived.set_int("y", 2)
    assert (envelope.body, list(arrived.map_names)) == ({"x": 1}, ["y"])
