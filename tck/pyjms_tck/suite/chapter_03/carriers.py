"""A common interface to the three places for typed values: properties, a MapMessage, a StreamMessage.

The conversion tables are judged on a message before it is sent and on the one that is received, since a provider may
lose the type of a value on the way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

import pyjms
from pyjms import Message, Session
from pyjms_tck.checks import Checks, attempt
from pyjms_tck.requirements import requirement
from pyjms_tck.vectors import NUMBERS, TYPES, load, value_of_bits

RoundTrip = Callable[[Any], Any]
_BUFFER = 300


class Carrier(ABC):
    """Holds typed values that have numbers."""

    table: str
    """Which table of ``conversions.json`` it follows."""
    title: str

    @abstractmethod
    def create(self, session: Session) -> Any:
        """Return an empty message."""

    @abstractmethod
    def put(self, message: Any, number: int, type: str, value: Any) -> None:
        """Store the value with this number, which are put in ascending order from 0."""

    @abstractmethod
    def get(self, message: Any, number: int, type: str) -> Any:
        """Return the value with this number, read as `type`."""


class _Properties(Carrier):
    table = "property"
    title = "property"

    def create(self, session: Session) -> Message:
        return session.create_message()

    def put(self, message: Message, number: int, type: str, value: Any) -> None:
        getattr(message, f"set{TYPES[type].word}Property")(f"p{number}", value)

    def get(self, message: Message, number: int, type: str) -> Any:
        return getattr(message, f"get{TYPES[type].word}Property")(f"p{number}")


class _Map(Carrier):
    table = "body"
    title = "MapMessage entry"

    def create(self, session: Session) -> Message:
        return session.createMapMessage()

    def put(self, message: Message, number: int, type: str, value: Any) -> None:
        getattr(message, f"set{TYPES[type].word}")(f"p{number}", value)

    def get(self, message: Message, number: int, type: str) -> Any:
        return getattr(message, f"get{TYPES[type].word}")(f"p{number}")


class _Stream(Carrier):
    table = "body"
    title = "StreamMessage value"

    def create(self, session: Session) -> Message:
        return session.createStreamMessage()

    def put(self, message: Any, number: int, type: str, value: Any) -> None:
        getattr(message, f"write{TYPES[type].word}")(value)

    def get(self, message: Any, number: int, type: str) -> Any:
        # A stream can only be read in order: earlier values are read and dropped.
        message.reset()
        for _ in range(number):
            message.readObject()
        if type != "byte[]":
            return getattr(message, f"read{TYPES[type].word}")()
        buffer = bytearray(_BUFFER)
        count = message.readBytes(buffer)
        return None if count == -1 else bytes(buffer[:count])


PROPERTIES, MAP, STREAM = _Properties(), _Map(), _Stream()


def _written(carrier: Carrier, session: Session, type: str, values: Iterable[Any]) -> Any:
    message = carrier.create(session)
    for number, value in enumerate(values):
        carrier.put(message, number, type, value)
    return message


def _new_and_received(message: Any, roundtrip: RoundTrip) -> Iterator[tuple[str, Any]]:
    """Yield the message as received, then as written: a StreamMessage can be read only after it was sent."""
    yield "received", roundtrip(message)
    yield "sent", message


def table_rows(section: str, letters: str, types: Sequence[str]) -> list[Any]:
    """Return the cases of a conversion table: for each type what it converts to, then what it does not.

    Each case checks a requirement of its own, the section with the next of `letters`; a table may end with what converts.
    """
    rows = [(type, converts) for type in types for converts in (True, False)]
    return [
        pytest.param(type, converts, marks=requirement(f"{section}-{letter}"), id=f"{type}-{converts}")
        for letter, (type, converts) in zip(letters, rows, strict=False)
    ]


def check_row(
    session: Session, roundtrip: RoundTrip, type: str, carriers: Sequence[Carrier], *, converts: bool
) -> None:
    """Judge one row of the conversion table: a value set as `type`, read as each type that does (not) convert."""
    with Checks() as check:
        for carrier in carriers:
            table = load("conversions")[carrier.table]
            targets = [target for target in table if (target in table[type]) == converts]
            if converts:
                for target in targets:
                    _check_conversion(check, session, roundtrip, carrier, type, target)
            else:
                _check_refusals(check, session, roundtrip, carrier, type, targets)


def _check_refusals(
    check: Checks, session: Session, roundtrip: RoundTrip, carrier: Carrier, type: str, targets: Sequence[str]
) -> None:
    # Two values suffice: the type of a value decides about a refusal, not the value (§3.11.3).
    message = _written(carrier, session, type, TYPES[type].values[:2])
    for state, seen in _new_and_received(message, roundtrip):
        for number, value in enumerate(TYPES[type].values[:2]):
            for target in targets:
                check.fails(
                    f"{carrier.title} {type} {value!r} read as {target} ({state} message)",
                    pyjms.MessageFormatException,
                    carrier.get,
                    seen,
                    number,
                    target,
                )


def _check_conversion(
    check: Checks, session: Session, roundtrip: RoundTrip, carrier: Carrier, type: str, target: str
) -> None:
    pairs = list(_conversions(type, target))
    message = _written(carrier, session, type, (value for value, _ in pairs))
    for state, seen in _new_and_received(message, roundtrip):
        for number, (value, accepted) in enumerate(pairs):
            what = f"{carrier.title} {type} {value!r} read as {target} ({state} message)"
            # One accepted value is compared strictly: `in` would take 1 for True, and would not find a NaN.
            read = attempt(carrier.get, seen, number, target)
            check.same(what, read, read if read in accepted and len(accepted) > 1 else accepted[0])


def _conversions(type: str, target: str) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield values of `type`, each with the permitted results for `target`; Java's versions differ on a few texts."""
    vectors = load("conversions")
    if type == "String" and target != "String":
        for vector in vectors["parse"]:
            if not str(vector[target]).endswith("Exception"):
                yield vector["input"], (_number(target, vector[target]),)
    elif target == "String" and type != "String":
        for vector in vectors["to_text"]:
            if vector["type"] == type:
                # Java 19 shortened the texts of some floating numbers (JDK-4511638); a vector has both.
                yield _number(type, vector["value"]), tuple(vector["texts"])
    else:
        for value in TYPES[type].values:
            yield value, (value,)
        if type == "float":
            for vector in vectors["rounding"]:
                yield value_of_bits(vector["double_bits"]), (value_of_bits(vector["float_bits"]),)


def _number(type: str, value: Any) -> Any:
    return value_of_bits(value) if type in {"float", "double"} else value


def check_parsing(session: Session, roundtrip: RoundTrip, carriers: Sequence[Carrier]) -> None:
    """Judge which texts read as which numbers: the whole list of vectors, for each numeric type."""
    vectors = load("conversions")["parse"]
    with Checks() as check:
        for carrier in carriers:
            message = _written(carrier, session, "String", (vector["input"] for vector in vectors))
            received = roundtrip(message)
            for number, vector in enumerate(vectors):
                for target in NUMBERS:
                    _check_text(check, carrier, received, number, vector, target)


def _check_text(check: Checks, carrier: Carrier, message: Any, number: int, vector: Any, target: str) -> None:
    what = f"{carrier.title} String {vector['input']!r} read as {target}"
    wanted = vector[target]
    if str(wanted).endswith("Exception"):
        check.fails(what, getattr(pyjms, wanted), carrier.get, message, number, target)
    else:
        check.gives(what, _number(target, wanted), carrier.get, message, number, target)


def check_null(check: Checks, what: str, read: Callable[[str], Any], types: Iterable[str]) -> None:
    """Judge the result of reading a null value: `read` reads it as a type."""
    for type in types:
        wanted = load("conversions")["null"][type]

        if isinstance(wanted, str):
            check.fails(f"{what} read as {type}", getattr(pyjms, wanted), read, type)
        else:
            check.gives(f"{what} read as {type}", wanted, read, type)
