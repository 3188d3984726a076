"""JMS 1.1 §3.11: MapMessage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pyjms import IllegalArgumentException, MessageFormatException, Session
from pyjms_tck.checks import Checks, expect
from pyjms_tck.requirements import requirement
from pyjms_tck.vectors import BODY_TYPES, JavaType

RoundTrip = Callable[[Any], Any]
_ALL = [(f"{type.word}_{number}", type, value) for type in BODY_TYPES for number, value in enumerate(type.values)]


def _entries_arrive(
    session: Session, roundtrip: RoundTrip, write: Callable[..., None], read: Callable[..., Any]
) -> None:
    message = session.create_map_message()
    for name, type, value in _ALL:
        write(message, name, type, value)
    with Checks() as check:
        for state, seen in (("sent", message), ("received", roundtrip(message))):
            for name, type, value in _ALL:
                check.gives(f"{type.name} entry {value!r}, {state}", value, read, seen, name, type)


@requirement("3.11-f")
def test_3_11_f_entries_of_each_type_arrive(session: Session, roundtrip: RoundTrip) -> None:
    def write(message: Any, name: str, type: JavaType, value: Any) -> None:
        getattr(message, f"set{type.word}")(name, value)

    def read(message: Any, name: str, type: JavaType) -> Any:
        return getattr(message, f"get{type.word}")(name)

    _entries_arrive(session, roundtrip, write, read)


@requirement("3.11-g")
def test_3_11_g_objects_of_each_type_arrive(session: Session, roundtrip: RoundTrip) -> None:
    def write(message: Any, name: str, type: JavaType, value: Any) -> None:
        message.setObject(name, type.kind(value))

    def read(message: Any, name: str, type: JavaType) -> Any:
        value = message.getObject(name)
        seen = value.__class__.__name__
        assert seen == type.kind.__name__, f"the class of {name}: expected {type.kind.__name__}, saw {seen}"
        return value

    _entries_arrive(session, roundtrip, write, read)
    message = session.create_map_message()
    message.set_object("nothing", None)
    expect("getObject of an entry that is null, as received", roundtrip(message).get_object("nothing"), None)


@requirement("3.11-h")
def test_3_11_h_objects_of_other_classes_are_refused(session: Session) -> None:
    message = session.create_map_message()
    wrong: tuple[Any, ...] = (["list"], {"a": 1}, (1,), object(), timedelta(1), 1j)
    with Checks() as check:
        for value in wrong:
            what = f"MapMessage.setObject of a {type(value).__name__}"
            check.fails(what, MessageFormatException, message.setObject, "entry", value)
        check.same("itemExists afterwards", message.itemExists("entry"), False)


@requirement("3.11-i")
def test_3_11_i_a_part_of_bytes_can_be_stored(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_map_message()
    message.setBytes("middle", b"abcdef", 1, 3)
    message.set_bytes("none", b"abcdef", offset=6, length=0)
    received = roundtrip(message)
    expect("setBytes with offset 1 and length 3 of abcdef, as received", received.getBytes("middle"), b"bcd")
    expect("setBytes with length 0, as received", received.get_bytes("none"), b"")


@requirement("3.11-j")
def test_3_11_j_all_names_are_enumerated(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_map_message()
    expect("the names of a new MapMessage", list(message.map_names), [])
    names = ["one", "caf\u00e9", "with a blank", "JMSX", "null"]
    for name in names:
        message.set_string(name, None if name == "null" else name)
    with Checks() as check:
        for state, seen in (("sent", message), ("received", roundtrip(message))):
            check.same(f"the map's names, {state}", sorted(seen.map_names), sorted(names))
            enumeration, listed = seen.getMapNames(), []
            while enumeration.hasMoreElements():
                listed.append(enumeration.nextElement())
            check.same(f"the enumeration of the map's names, {state}", sorted(listed), sorted(names))


@requirement("3.11-k")
def test_3_11_k_item_exists_tells_whether_an_entry_is_there(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_map_message()
    message.set_int("number", 1)
    message.set_string("null", None)
    message.set_int_property("property", 1)
    with Checks() as check:
        for state, seen in (("sent", message), ("received", roundtrip(message))):
            check.same(f"itemExists of an entry, {state}", seen.itemExists("number"), True)
            check.same(f"itemExists of an entry that is null, {state}", seen.item_exists("null"), True)
            check.same(f"itemExists of no entry, {state}", seen.itemExists("nowhere"), False)
            check.same(f"itemExists of a property, {state}", seen.item_exists("property"), False)


@requirement("3.11-l")
def test_3_11_l_an_entry_needs_a_name(session: Session) -> None:
    message: Any = session.create_map_message()
    with Checks() as check:
        for name in ("", None):
            for type in BODY_TYPES:
                setter = getattr(message, f"set{type.word}")
                what = f"set{type.word} with the name {name!r}"
                check.fails(what, IllegalArgumentException, setter, name, type.values[0])
            check.fails(f"setObject with the name {name!r}", IllegalArgumentException, message.setObject, name, 1)
            what = f"setBytes with offset and the name {name!r}"
            check.fails(what, IllegalArgumentException, message.setBytes, name, b"abc", 1, 1)
