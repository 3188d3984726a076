"""Bodies as objects (20.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pyjms import Message, MessageFormatException, Queue, Session
from pyjms_tck.checks import Checks
from pyjms_tck.environment import Waits
from pyjms_tck.requirements import requirement

NAMES = ["text", "map", "bytes", "object", "empty", "stream"]


def messages(session: Session) -> dict[str, Message]:
    """Return a message of each type with a body; `empty` has none."""
    mapping = session.create_map_message()
    mapping.set_string("name", "value")
    mapping.set_int("number", 7)
    data = session.create_bytes_message()
    data.write_bytes(b"bytes")
    stream = session.create_stream_message()
    stream.write_string("text")
    return {
        "text": session.create_text_message("text"),
        "map": mapping,
        "bytes": data,
        "object": session.create_object_message([1, "two"]),
        "empty": session.create_message(),
        "stream": stream,
    }


GOOD: list[tuple[str, Any, Any]] = [
    ("text", str, "text"),
    ("text", object, "text"),
    ("map", dict, {"name": "value", "number": 7}),
    ("map", Mapping, {"name": "value", "number": 7}),
    ("map", object, {"name": "value", "number": 7}),
    ("bytes", bytes, b"bytes"),
    ("bytes", object, b"bytes"),
    ("object", list, [1, "two"]),
    ("object", object, [1, "two"]),
    ("empty", str, None),
    ("empty", dict, None),
]
BAD: list[tuple[str, Any]] = [
    ("text", bytes),
    ("text", dict),
    ("map", str),
    ("bytes", str),
    ("object", dict),
    ("stream", str),
    ("stream", list),
]


def received(session: Session, queue: Queue, waits: Waits, message: Message) -> Message:
    """Send a message and return what arrives."""
    session.create_producer(queue).send(message)
    found = session.create_consumer(queue).receive(waits.something_ms)
    assert found is not None, "the message came"
    return found


@requirement("20.5-a")
@pytest.mark.parametrize("name", NAMES[:-1])
def test_20_5_a_a_body_is_returned_as_its_types(session: Session, queue: Queue, waits: Waits, name: str) -> None:
    message = received(session, queue, waits, messages(session)[name])
    with Checks() as check:
        for each, kind, body in GOOD:
            if each == name:
                check.gives(f"the body as {kind.__name__}", body, message.get_body, kind)


@requirement("20.5-b")
@pytest.mark.parametrize("name", ["text", "map", "bytes", "object", "stream"])
def test_20_5_b_a_body_is_of_its_types_alone(session: Session, queue: Queue, waits: Waits, name: str) -> None:
    message = received(session, queue, waits, messages(session)[name])
    with Checks() as check:
        for each, kind in BAD:
            if each == name:
                check.fails(f"the body as {kind.__name__}", MessageFormatException, message.getBody, kind)


@requirement("20.5-c")
def test_20_5_c_an_object_that_cannot_be_made_is_told(
    session: Session, queue: Queue, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type("Gone", (), {"__module__": __name__, "__qualname__": "Gone"})
    monkeypatch.setitem(globals(), "Gone", kind)
    session.create_producer(queue).send(session.create_object_message(kind()))
    # The receiver does not have the class any more.
    monkeypatch.undo()
    message = session.create_consumer(queue).receive(waits.something_ms)
    assert message is not None, "the message came"
    with pytest.raises(MessageFormatException):
        message.get_body(object)


@requirement("20.5-d")
@pytest.mark.parametrize("name", NAMES)
def test_20_5_d_it_is_told_whether_the_body_is_of_a_type(
    session: Session, queue: Queue, waits: Waits, name: str
) -> None:
    message = received(session, queue, waits, messages(session)[name])
    with Checks() as check:
        for each, kind, _ in GOOD:
            if each == name:
                check.gives(f"whether the body is a {kind.__name__}", True, message.isBodyAssignableTo, kind)
        for each, kind in BAD:
            if each == name:
                check.gives(f"whether the body is a {kind.__name__}", False, message.is_body_assignable_to, kind)
