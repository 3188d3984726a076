"""JMS 1.1 §3.11: TextMessage and ObjectMessage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms import MessageFormatException, Session
from pyjms_tck.checks import Checks, expect, expect_error
from pyjms_tck.requirements import requirement
from pyjms_tck.vectors import TYPES

RoundTrip = Callable[[Any], Any]
_OBJECTS: tuple[Any, ...] = (
    None, True, 0, -1, 2**80, 1.5, "", "caf\u00e9", b"\x00\xff", [], [1, [2, {"three": (4, 5)}]], {"a": None}, (1, "2"),
)  # fmt: skip


@requirement("3.11-b")
def test_3_11_b_a_text_is_stored_and_arrives(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_text_message()
    expect("getText of a new TextMessage", message.getText(), None)
    with Checks() as check:
        for text in (*TYPES["String"].values, "x" * 100_000, "\u0000\u0001\ufffd", None):
            message.setText(text)
            check.same("getText after setText", message.getText(), text)
            check.same("getText, as received", roundtrip(message).getText(), text)


@requirement("3.11-c")
def test_3_11_c_an_object_is_stored_and_arrives(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_object_message()
    expect("getObject of a new ObjectMessage", message.getObject(), None)
    with Checks() as check:
        for value in _OBJECTS:
            message.setObject(value)
            check.same("getObject after setObject", message.getObject(), value)
            received = roundtrip(message)
            check.same("getObject, as received", received.getObject(), value)
            check.same("its class", type(received.object).__name__, type(value).__name__)
        changing = ["as it was"]
        message.setObject(changing)
        changing.append("changed afterwards")
        check.same("getObject of what was changed after setObject", message.getObject(), ["as it was"])


@requirement("3.11-d")
def test_3_11_d_an_object_that_cannot_be_serialized_is_refused(session: Session) -> None:
    message = session.create_object_message()
    generator = (number for number in range(3))
    expect_error("setObject of a generator", MessageFormatException, message.setObject, generator)
    expect_error(
        "create_object_message of a function", MessageFormatException, session.create_object_message, lambda: 1
    )
