"""Messages as operators see and send them, their rendering, and explanations of selectors."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import Field

from pyjms.spi.envelope import DELIVER_AT, Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.spi.selector.lexical import is_identifier
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored
from pyjms_provider.core.host.admission import DUPLICATE_ID
from pyjms_provider.core.queue.dead_letters import DEAD_PREFIX
from pyjms_provider.model.attributes import ImmutableModel
from pyjms_provider.model.errors import InvalidArgumentsError, Problem

if TYPE_CHECKING:
    from pyjms.spi.selector import Selector
    from pyjms.spi.selector.explain import Explanation


CLIENT_JMSX: Final = {"JMSXGroupID": ("string", str), "JMSXGroupSeq": ("int", int)}
"""The JMSX properties that clients may set, with the name of their type and the type of the stored value."""
_OF_THE_BROKER: Final = "JMS_pyjms"
_SETTABLE: Final = frozenset({DELIVER_AT, DUPLICATE_ID})


def why_not_settable(name: str) -> str:
    """Return the reason why a message cannot have a property of that name; "": it can."""
    if not is_identifier(name):
        return "is no name of a property: an identifier, and no reserved word of selectors (JMS 1.1 §3.5.1, §3.8.1.1)"
    if not name.startswith("JMS") or name in CLIENT_JMSX or name in _SETTABLE:
        return ""
    if name.startswith("JMSX"):
        return f"is set by the broker; of the JMSX names senders set {' and '.join(CLIENT_JMSX)} (JMS 1.1 §3.5.9)"
    if name.startswith(_OF_THE_BROKER):
        return f"is set by the broker; of these senders set {' and '.join(sorted(_SETTABLE))} (JMS 1.1 §3.5.10)"
    return "" if name.startswith("JMS_") else "is no name of a property: JMS reserves it (JMS 1.1 §3.8.1.1)"


_TYPES: Final[Mapping[str, type]] = {
    "boolean": bool,
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": Long,
    "float": Float,
    "double": Double,
    "char": Char,
    "string": str,
}


class TypedValue(ImmutableModel):
    """A value with its Java type: boolean, byte, short, int, long, float, double, char, string, bytes, null."""

    type: str
    value: Any
    """Bytes are in base64; longs beyond 2^53 are strings, as are infinity and NaN: JSON's numbers would not hold them."""


class MessageBody(ImmutableModel):
    """A body. Of one that is too long the first 100,000 characters or bytes are shown; `size` is of the whole: characters of a text, bytes, or
    the number of values.
    """

    kind: str
    size: int
    is_whole: bool
    text: str | None = None
    base64: str | None = None
    """Of bytes, or of the pickled form of an object, which is never unpickled here."""
    map: dict[str, TypedValue] | None = None
    stream: list[TypedValue] | None = None


class MessageView(ImmutableModel):
    """A message that waits in a queue."""

    id: str | None
    destination: str
    timestamp_ms: int
    expiration_ms: int
    delivery_mode: str
    priority: int
    correlation_id: str | None
    reply_to: str | None
    type: str | None
    properties: dict[str, TypedValue]
    is_whole: bool
    """False: headers and properties are too long to be shown; what is beyond 100,000 characters is cut, or left out."""
    body: MessageBody | None
    """None: it was not requested, or other messages have filled the answer already."""
    delivery_count: int | None = None
    """The number of deliveries; None: of a dead letter, whose properties hold it."""


class LetterView(ImmutableModel):
    """A dead letter, with why it is there."""

    message: MessageView
    kind: str | None
    """``rejected``, ``deliveries`` or ``expired``; None: the message is no dead letter."""
    reason: str | None
    came_from: str | None
    subscription: str | None
    deliveries: int | None
    consumer: str | None
    at_ms: int | None


class NewMessage(ImmutableModel):
    """A message that an operator sends."""

    text: str | None = None
    base64: str | None = None
    """In place of a text: a body of bytes."""
    properties: dict[str, bool | int | float | str | TypedValue] = Field(default_factory=dict)
    """A plain number is an int, or a long if it is too large; a plain fraction is a double. Names are those that clients may set."""
    correlation_id: str | None = None
    type: str | None = None
    priority: Annotated[int, Field(ge=0, le=9)] = 4
    persistent: bool = True
    time_to_live_ms: Annotated[int, Field(ge=0, le=Long.maximum)] = 0
    """0: for ever."""


def to_envelope(message: NewMessage, queue: str, message_id: str, now_ms: int, where: str) -> Envelope:
    """Return the envelope of a new message. Raises `InvalidArgumentsError`."""
    if message.text is not None and message.base64 is not None:
        raise _wrong(where, "message", "has a text and bytes; give one of them")
    try:
        # Validated: by default Python leaves out characters that are no base64, and the body would be another one.
        data = None if message.base64 is None else base64.b64decode(message.base64, validate=True)
    except ValueError:
        raise _wrong(where, "message.base64", "is no base64") from None
    body: str | bytes | None = message.text if data is None else data
    kind = BodyKind.BYTES if data is not None else BodyKind.NONE if body is None else BodyKind.TEXT
    return Envelope(
        destination=Address(AddressKind.QUEUE, queue),
        message_id=MessageId(message_id),
        timestamp_ms=now_ms,
        # Java's long: JMSExpiration holds no later time.
        expiration_ms=min(now_ms + message.time_to_live_ms, Long.maximum) if message.time_to_live_ms else 0,
        delivery_mode=2 if message.persistent else 1,
        priority=message.priority,
        correlation_id=message.correlation_id,
        reply_to=None,
        jms_type=message.type,
        properties={name: _stored(name, value, where) for name, value in message.properties.items()},
        body_kind=kind,
        body=body,
    )


def _stored(name: str, value: Any, where: str) -> Stored:
    why_not = why_not_settable(name)
    if why_not:
        raise _wrong(where, f"message.properties.{name}", why_not)
    stored = _typed(name, value, where)
    wanted = CLIENT_JMSX.get(name)
    if wanted is not None and type(stored) is not wanted[1]:
        raise _wrong(where, f"message.properties.{name}", f"is of type {wanted[0]} (JMS 1.1 §3.5.9)")
    return stored


def _typed(name: str, value: Any, where: str) -> Stored:
    if not isinstance(value, TypedValue):
        # JSON has one kind of number; JMS 1.1 §3.5.4 needs to know which integer it is.
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**31) <= value < 2**31:
            value = TypedValue(type="long", value=value)
        else:
            return value  # type: ignore[no-any-return]  # boolean, int, double or String as they are
    kind = _TYPES.get(value.type)
    if kind is None:
        raise _wrong(where, f"message.properties.{name}", f"has no type {value.type!r}; there are: {', '.join(_TYPES)}")
    try:
        # Texts as in views: JSON has neither infinity nor NaN.
        made = kind(float(value.value)) if kind is Float and isinstance(value.value, str) else kind(value.value)
    except (TypeError, ValueError) as error:
        raise _wrong(where, f"message.properties.{name}", str(error)) from error
    # A plain float is a double, and a plain int an int: the envelope has no classes of their own for these two.
    if isinstance(made, Double):
        return float(made)
    return int(made) if isinstance(made, Int) else made


def _wrong(where: str, name: str, text: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(f"publish of {where}", (Problem(name=name, text=text),))


_V = TypeVar("_V")
_M = TypeVar("_M")

_LONGEST: Final = 100_000
"""The most characters, or bytes, shown of a body, and of all the rest of a message."""
_LONGEST_BY_ITSELF: Final = 1_000
_LONGEST_PAGE: Final = 4_000_000
_EACH: Final = 40
"""The size that a value adds to an answer beside its characters."""
_EXACT: Final = 2**53
"""Larger numbers are altered by programs that read JSON's numbers as doubles, as browsers do."""
_NUMBER_TYPES: Final[tuple[tuple[str, type], ...]] = (
    ("byte", Byte),
    ("short", Short),
    ("long", Long),
    ("float", Float),
)


class MessageRenderer:
    """Renders the messages of one answer."""

    def __init__(self, *, with_bodies: bool = True) -> None:
        self._with_bodies = with_bodies
        self._taken = 0

    @property
    def is_full(self) -> bool:
        """Whether the answer is so long that no messages may be added."""
        return self._taken >= _LONGEST_PAGE

    def page(self, found: Iterable[_M], view: Callable[[_M], _V], offset: int, limit: int) -> tuple[list[_V], bool]:
        """Return the messages from `offset` on as rendered by `view`, `limit` or fewer, and whether there are more.

        One by one, so that one whole message at a time is in memory.
        """
        shown: list[_V] = []
        # The queue is read lazily: one whole message at a time is in memory.
        for message in islice(found, offset, None):
            if len(shown) == limit or self.is_full:
                return shown, True
            shown.append(view(message))
        return shown, False

    def counted(self, message: tuple[Envelope, int]) -> MessageView:
        """Return the view of a message, with its delivery count."""
        envelope, delivery_count = message
        return self.message(envelope, delivery_count)

    def message(self, envelope: Envelope, delivery_count: int | None = None) -> MessageView:
        """Return the view of a message."""
        # Once the answer is full, the remaining messages are listed without properties rather than left out.
        cutter = _Cutter(0 if self.is_full else _LONGEST)
        correlation = envelope.correlation_id
        destination = str(envelope.destination)
        reply_to = None if envelope.reply_to is None else str(envelope.reply_to)
        view = MessageView(
            id=envelope.message_id,
            destination=destination,
            timestamp_ms=envelope.timestamp_ms,
            expiration_ms=envelope.expiration_ms,
            delivery_mode="PERSISTENT" if envelope.delivery_mode == 2 else "NON_PERSISTENT",
            priority=envelope.priority,
            correlation_id=cutter.header(correlation.hex() if isinstance(correlation, bytes) else correlation),
            reply_to=reply_to,
            type=cutter.header(envelope.jms_type),
            properties=cutter.values(envelope.properties),
            is_whole=cutter.is_whole,
            body=self._body(envelope) if self._with_bodies and not self.is_full else None,
            delivery_count=delivery_count,
        )
        # These are never cut: a shortened id or address could not be looked up.
        self._taken += (
            cutter.taken + sum(len(each or "") for each in (envelope.message_id, destination, reply_to)) + _EACH
        )
        return view

    def letter(self, envelope: Envelope) -> LetterView:
        """Return the view of a dead letter."""
        facts = {name.removeprefix(DEAD_PREFIX): value for name, value in envelope.properties.items()}

        def text(name: str) -> str | None:
            value = facts.get(name)
            return cutter.header(value) if isinstance(value, str) else None

        def number(name: str) -> int | None:
            value = facts.get(name)
            return int(value) if isinstance(value, int) else None

        cutter = _Cutter(0 if self.is_full else _LONGEST)
        view = LetterView(
            message=self.message(envelope),
            kind=text("Kind"),
            reason=text("Reason"),
            came_from=text("Destination"),
            subscription=text("Subscription"),
            deliveries=number("Count"),
            consumer=text("Consumer"),
            at_ms=number("Time"),
        )
        self._taken += cutter.taken
        return view

    def _body(self, envelope: Envelope) -> MessageBody:
        body, kind, cutter = envelope.body, envelope.body_kind.name.lower(), _Cutter()
        shown: dict[str, Any] = {}
        # The size of the whole body: the reader must see how much was cut.
        size = 0 if body is None else len(body.data if isinstance(body, ObjectBody) else body)
        if isinstance(body, str):
            shown["text"] = cutter.text(body)
        elif isinstance(body, (bytes, ObjectBody)):
            shown["base64"] = cutter.data(body if isinstance(body, bytes) else body.data)
        elif isinstance(body, Mapping):
            shown["map"] = cutter.values(body)
        elif body is not None:
            shown["stream"] = cutter.stream(body)
        self._taken += cutter.taken
        return MessageBody(kind=kind, size=size, is_whole=cutter.is_whole, **shown)


def view_value(value: Stored) -> TypedValue:
    """Return the view of a single value, cut if it is long."""
    return _Cutter(_LONGEST_BY_ITSELF).value(value)


class _Cutter:
    """Cuts the values of one message to a common limit."""

    def __init__(self, longest: int = _LONGEST) -> None:
        self._longest = longest
        self.taken = 0
        self.is_whole = True

    def text(self, value: str) -> str:
        return value[: self._take(len(value))]

    def header(self, value: str | None) -> str | None:
        # Cut to nothing is shown as None; an empty text of the sender stays an empty text.
        return None if value is None else self.text(value) or (None if value else "")

    def data(self, value: bytes) -> str:
        return base64.b64encode(value[: self._take(len(value))]).decode()

    def values(self, values: Mapping[str, Stored]) -> dict[str, TypedValue]:
        shown: dict[str, TypedValue] = {}
        for name, value in values.items():
            # Whole entries are left out: a name without its value would look like null.
            if self.taken + len(name) + _EACH > self._longest:
                self.is_whole = False
                break
            self.taken += len(name)
            shown[name] = self.value(value)
        return shown

    def stream(self, values: Iterable[Stored]) -> list[TypedValue]:
        shown: list[TypedValue] = []
        for value in values:
            if self.taken + _EACH > self._longest:
                self.is_whole = False
                break
            shown.append(self.value(value))
        return shown

    def value(self, value: Stored) -> TypedValue:
        """Return the view of a value of a property, a map or a stream."""
        self.taken += _EACH
        if value is None:
            return TypedValue(type="null", value=None)
        if isinstance(value, bytes):
            return TypedValue(type="bytes", value=self.data(value))
        # Before the numbers, as Python's bool is an int.
        if isinstance(value, bool):
            return TypedValue(type="boolean", value=value)
        # Before text, as Char is a str.
        if isinstance(value, Char):
            return TypedValue(type="char", value=str(value))
        if isinstance(value, str):
            return TypedValue(type="string", value=self.text(value))
        plain = "int" if isinstance(value, int) else "double"
        return TypedValue(
            type=next((name for name, kind in _NUMBER_TYPES if isinstance(value, kind)), plain), value=_number(value)
        )

    def _take(self, wanted: int) -> int:
        """Take up to `wanted` characters or bytes from the limit, and return how many there were."""
        given = min(wanted, max(0, self._longest - self.taken))
        self.taken += given
        if given < wanted:
            self.is_whole = False
        return given


def _number(value: Any) -> int | float | str:
    if isinstance(value, int):
        # As a text beyond 2**53: browsers read JSON's numbers as doubles, and would show another number.
        return int(value) if -_EXACT <= value <= _EXACT else str(int(value))
    number = float(value)
    # JSON has neither infinity nor NaN.
    return number if number - number == 0 else str(number)


class ClauseView(ImmutableModel):
    """A clause of a selector with its value for one message (JMS 1.1 §3.8.1.2)."""

    text: str
    """The text in the selector."""
    value: bool | None
    """None: unknown."""
    decides: bool
    """Whether it is one of the smallest clauses that determine the value of the whole."""
    reads: dict[str, TypedValue]
    """The names that it reads, with their values."""
    clauses: list[ClauseView]
    """The operands of AND, OR or NOT."""


class ExplainedMessage(ImmutableModel):
    """The result of a selector for one message."""

    message_id: str | None
    matches: bool
    explanation: ClauseView


def explain_message(selector: Selector, envelope: Envelope) -> ExplainedMessage:
    """Return the selector's result for the message."""
    found = selector.explain(envelope)
    # By identity: one selector may contain the same clause twice, and only one of them decides.
    deciding = frozenset(id(clause) for clause in found.deciding)
    return ExplainedMessage(
        message_id=envelope.message_id, matches=found.value is True, explanation=_view(found, deciding)
    )


def _view(clause: Explanation, deciding: frozenset[int]) -> ClauseView:
    return ClauseView(
        text=clause.text,
        value=clause.value,
        decides=id(clause) in deciding,
        reads={name: view_value(value) for name, value in clause.read},
        clauses=[_view(inner, deciding) for inner in clause.clauses],
    )
