"""The composite types of AMQP: performatives, SASL frames, termini, delivery states and the sections with fields (parts 2 to 5).

Each is a record, and a row of fields that says how it is read and written: a field that has its default is written as null, nulls
at the end are left out, and a field of another type, or a mandatory one that is missing, is a `DecodeError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum, IntEnum
from operator import attrgetter
from typing import Any, Final

from pyjms.spi.envelope import fact
from pyjms_provider.amqp import codec
from pyjms_provider.amqp.codec import NESTING_MAX, NULL, READERS, Reader, Symbol, ULong, Writer
from pyjms_provider.amqp.errors import DecodeError, EncodeError, LimitError

UINT_MAX: Final = 2**32 - 1
ULONG_MAX: Final = 2**64 - 1
_u32 = struct.Struct(">I").unpack_from


class Role(Enum):
    """Which end of a link a side is (part 2, 2.8.1)."""

    SENDER = False
    RECEIVER = True


class SenderSettleMode(IntEnum):
    """How a sender settles (part 2, 2.8.2)."""

    UNSETTLED = 0
    SETTLED = 1
    MIXED = 2


class ReceiverSettleMode(IntEnum):
    """When a receiver settles (part 2, 2.8.3)."""

    FIRST = 0
    SECOND = 1


class Durability(IntEnum):
    """What of a terminus outlives the connection (part 3, 3.5.5)."""

    NONE = 0
    CONFIGURATION = 1
    UNSETTLED_STATE = 2


class SaslCode(IntEnum):
    """How a SASL negotiation has ended (part 5, 5.3.3.6)."""

    OK = 0
    AUTH = 1
    SYS = 2
    SYS_PERM = 3
    SYS_TEMP = 4


# ------------------------------------------------------------------------------------------------- performatives (2.7)


@fact
class Open:
    """Negotiates the parameters of a connection (part 2, 2.7.1)."""

    container_id: str
    hostname: str | None = None
    max_frame_size: int = UINT_MAX
    channel_max: int = 65535
    idle_time_out: int | None = None
    outgoing_locales: tuple[str, ...] = ()
    incoming_locales: tuple[str, ...] = ()
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: Mapping[str, Any] | None = None


@fact
class Begin:
    """Begins a session on a channel (part 2, 2.7.2)."""

    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = UINT_MAX
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: Mapping[str, Any] | None = None


@fact
class Attach:
    """Attaches a link to a session (part 2, 2.7.3)."""

    name: str
    handle: int
    role: bool
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0
    source: Any = None
    target: Any = None
    unsettled: Mapping[Any, Any] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: Mapping[str, Any] | None = None


@fact
class Flow:
    """Updates the flow state of a session, and of a link (part 2, 2.7.4)."""

    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: Mapping[str, Any] | None = None


@fact
class Transfer:
    """Carries a message, or a part of one (part 2, 2.7.5)."""

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: int | None = None
    state: Any = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


@fact
class Disposition:
    """Tells the state of deliveries (part 2, 2.7.6)."""

    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: Any = None
    batchable: bool = False


@fact
class Detach:
    """Detaches a link, or closes it (part 2, 2.7.7)."""

    handle: int
    closed: bool = False
    error: Error | None = None


@fact
class End:
    """Ends a session (part 2, 2.7.8)."""

    error: Error | None = None


@fact
class Close:
    """Closes a connection (part 2, 2.7.9)."""

    error: Error | None = None


@fact
class Error:
    """The details of an error (part 2, 2.8.14)."""

    condition: str
    description: str | None = None
    info: Mapping[str, Any] | None = None


# ---------------------------------------------------------------------------------------------------------- SASL (5.3)


@fact
class SaslMechanisms:
    """The mechanisms that the server offers (part 5, 5.3.3.1)."""

    mechanisms: tuple[str, ...]


@fact
class SaslInit:
    """The client's choice (part 5, 5.3.3.2)."""

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@fact
class SaslChallenge:
    """A challenge of the server (part 5, 5.3.3.3)."""

    challenge: bytes


@fact
class SaslResponse:
    """The client's answer to a challenge (part 5, 5.3.3.4)."""

    response: bytes


@fact
class SaslOutcome:
    """How the negotiation has ended (part 5, 5.3.3.5)."""

    code: int
    additional_data: bytes | None = None


# ------------------------------------------------------------------------------ delivery states (part 3, 3.4; part 4, 4.5)


@fact
class Received:
    """How much of a partial delivery has come (part 3, 3.4.1)."""

    section_number: int
    section_offset: int


@fact
class Accepted:
    """The message was processed (part 3, 3.4.2)."""


@fact
class Rejected:
    """The message is invalid and cannot be processed (part 3, 3.4.3)."""

    error: Error | None = None


@fact
class Released:
    """The message was not processed (part 3, 3.4.4)."""


@fact
class Modified:
    """The message was modified, but not processed (part 3, 3.4.5)."""

    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: Mapping[str, Any] | None = None


@fact
class Declared:
    """A transaction was declared (part 4, 4.5.5)."""

    txn_id: bytes


@fact
class TransactionalState:
    """A delivery's state within a transaction (part 4, 4.5.6)."""

    txn_id: bytes
    outcome: Any = None


@fact
class Answered:
    """A command of a pyjms client was done (docs/reference/amqp.md)."""

    headers: Mapping[str, str]
    """What the answer says, or a part of it."""
    more: bool = False
    """Whether another part follows."""


ACCEPTED: Final = Accepted()
RELEASED: Final = Released()
_PLAIN_STATES: Final[Mapping[bytes, Any]] = {b"\x00\x53\x24\x45": ACCEPTED, b"\x00\x53\x26\x45": RELEASED}
"""What nearly all dispositions have, as it is written."""


# ------------------------------------------------------------------------- termini (part 3, 3.5) and transactions (part 4)


@fact
class Source:
    """Where a link's messages come from (part 3, 3.5.3)."""

    address: Any = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: Mapping[str, Any] | None = None
    distribution_mode: str | None = None
    filter: Mapping[str, Any] | None = None
    default_outcome: Any = None
    outcomes: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


@fact
class Target:
    """Where a link's messages go (part 3, 3.5.4)."""

    address: Any = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: Mapping[str, Any] | None = None
    capabilities: tuple[str, ...] = ()


@fact
class Coordinator:
    """The target of a link that controls transactions (part 4, 4.5.1)."""

    capabilities: tuple[str, ...] = ()


@fact
class Declare:
    """Asks for a transaction (part 4, 4.5.2)."""

    global_id: Any = None


@fact
class Discharge:
    """Ends a transaction (part 4, 4.5.3)."""

    txn_id: bytes
    fail: bool | None = None
    """None: not said, which is False. Artemis 2.40 and ActiveMQ Classic 5.18 do not understand a discharge that does not say it."""


# ---------------------------------------------------------------------------------- sections with fields (part 3, 3.2)


@fact
class Header:
    """The section that the hops of a message may change (part 3, 3.2.1)."""

    durable: bool = False
    priority: int = 4
    ttl: int | None = None
    first_acquirer: bool = False
    delivery_count: int = 0


@fact
class Properties:
    """The standard properties of a message (part 3, 3.2.4)."""

    message_id: Any = None
    user_id: bytes | None = None
    to: Any = None
    subject: str | None = None
    reply_to: Any = None
    correlation_id: Any = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


# -------------------------------------------------------------------------------------------------- how fields are read


@dataclass(frozen=True, slots=True)
class _Type:
    """One type of fields: the format codes that are taken, each with its reader, and the writer."""

    name: str
    readers: Mapping[int, Reader]
    write: Writer


def _plain(code: int) -> Reader:
    """Return a reader of numbers as plain ints: the field's type is known, and a class of its own costs as much as the reading."""
    read = READERS[code]
    sample = read(b"\0" * 8, 0, 1)[0]
    if type(sample) is int or not isinstance(sample, int) or isinstance(sample, bool):
        return read
    unpack = {0x50: ">B", 0x52: ">B", 0x53: ">B", 0x60: ">H", 0x70: ">I", 0x80: ">Q", 0x83: ">q"}.get(code)
    if unpack is None:
        return lambda _data, at, _room: (0, at)
    if unpack == ">B":
        return lambda data, at, _room: (data[at], at + 1)
    unpack_from, width = struct.Struct(unpack).unpack_from, struct.calcsize(unpack)
    return lambda data, at, _room: (unpack_from(data, at)[0], at + width)


def _type(name: str, codes: tuple[int, ...], write: Writer) -> _Type:
    return _Type(name, {code: _plain(code) for code in codes}, write)


_BOOLEAN = _type("boolean", (0x41, 0x42, 0x56), codec.write_boolean)
_UBYTE = _type("ubyte", (0x50,), codec.write_ubyte)
_USHORT = _type("ushort", (0x60,), codec.write_ushort)
_UINT = _type("uint", (0x70, 0x52, 0x43), codec.write_uint)
_ULONG = _type("ulong", (0x80, 0x53, 0x44), codec.write_ulong)
_TIMESTAMP = _type("timestamp", (0x83,), codec.write_timestamp)
_BINARY = _type("binary", (0xA0, 0xB0), codec.write_binary)
_STRING = _type("string", (0xA1, 0xB1), codec.write_string)
_SYMBOL = _type("symbol", (0xA3, 0xB3), codec.write_symbol)


def _write_description(text: str) -> bytes:
    # It is for people: half of a surrogate pair, which UTF-8 cannot say, must not keep the error from its receiver.
    return codec.write_string(text.encode("utf-8", "replace").decode())


_DESCRIPTION = _type("string", (0xA1, 0xB1), _write_description)


def _symbol_map(read: Reader) -> Reader:
    def checked(data: bytes, at: int, room: int) -> tuple[Any, int]:
        value, at = read(data, at, room)
        if not all(type(key) is Symbol for key in value):
            raise DecodeError("the keys of a map of fields are symbols")
        return value, at

    return checked


def _write_symbol_map(value: Mapping[str, Any]) -> bytes:
    return codec.write_map({Symbol(key): item for key, item in value.items()})


_MAP = _Type("map", {code: READERS[code] for code in (0xC1, 0xD1)}, codec.write_map)


def _string_map(read: Reader) -> Reader:
    def checked(data: bytes, at: int, room: int) -> tuple[Any, int]:
        value, at = read(data, at, room)
        if not all(type(text) is str for item in value.items() for text in item):
            raise DecodeError("a map of strings has another value")
        return value, at

    return checked


_STRINGS = _Type("map of strings", {code: _string_map(READERS[code]) for code in (0xC1, 0xD1)}, codec.write_map)
_FIELDS = _Type("map of symbols", {code: _symbol_map(READERS[code]) for code in (0xC1, 0xD1)}, _write_symbol_map)


def _symbols(read: Reader) -> Reader:
    """Return a reader of a field with ``multiple="true"``: one symbol, or an array of them (part 1, 1.4)."""

    def several(data: bytes, at: int, room: int) -> tuple[tuple[str, ...], int]:
        value, at = read(data, at, room)
        if type(value) is Symbol:
            return (value,), at
        if not all(type(item) is Symbol for item in value.items):
            raise DecodeError("a field is a symbol or an array of symbols")
        return value.items, at

    return several


def _write_symbols(value: tuple[str, ...]) -> bytes:
    return codec.write_array(tuple(map(Symbol, value)))


_SYMBOLS = _Type("symbols", {code: _symbols(READERS[code]) for code in (0xA3, 0xB3, 0xE0, 0xF0)}, _write_symbols)


def _read_record(data: bytes, at: int, room: int) -> tuple[Any, int]:
    state = _PLAIN_STATES.get(data[at - 1 : at + 3])
    return read_composite(data, at - 1, room - 1) if state is None or room <= 1 else (state, at + 3)


def _write_any(value: Any) -> bytes:
    return write(value) if type(value) in LAYOUTS else codec.write_value(value)


_RECORD = _Type("composite", {0x00: _read_record}, _write_any)
_ANY = _Type(
    "any", {code: read for code, read in enumerate(READERS) if code != 0x40} | {0x00: _read_record}, _write_any
)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    readers: Mapping[int, Reader]
    write: Writer
    default: Any
    is_mandatory: bool
    is_always_written: bool


@dataclass(frozen=True, slots=True)
class _Layout:
    """How one composite is read and written."""

    kind: Callable[..., Any]
    name: str
    prefix: bytes
    """The descriptor, as it is written."""
    fields: tuple[_Field, ...]
    reading: tuple[tuple[Mapping[int, Reader], Any], ...]
    """Of each field the readers, and the default or `_MANDATORY`."""
    writing: tuple[tuple[Writer, Any], ...]
    """Of each field the writer, and the default or `_MANDATORY`."""
    values: Callable[[Any], tuple[Any, ...]]
    mandatory: int
    """How many fields a list has at least: up to the last mandatory one."""
    read_common: Callable[[bytes, int, int, int], Any] | None
    """Reads what nearly all peers send, from bytes, position, count of fields and end; returns None for anything else."""
    write_common: Callable[[Any], bytes | None] | None
    """Writes what is sent for every message; returns None for anything else."""


_MANDATORY: Final = object()
LAYOUTS: dict[type, _Layout] = {}
_BY_CODE: dict[int, _Layout] = {}
_BY_NAME: dict[str, _Layout] = {}


# Transfers and dispositions are there for each message. What most of them have is read and written here; everything else, and what is
# wrong in any way, is left to `read_composite` and `write`.


def _read_transfer(data: bytes, at: int, count: int, end: int) -> Transfer | None:
    if not 4 <= count <= 6:
        return None
    code = data[at]
    if code == 0x52:
        handle = data[at + 1]
        at += 2
    elif code == 0x43:
        handle = 0
        at += 1
    else:
        return None
    code = data[at]
    if code == 0x70:
        delivery_id = _u32(data, at + 1)[0]
        at += 5
    elif code == 0x52:
        delivery_id = data[at + 1]
        at += 2
    else:
        return None
    if data[at] != 0xA0:
        return None
    start = at + 2
    at = start + data[at + 1]
    ending = _ENDINGS_OF_TRANSFERS.get(data[at:end])
    if ending is None or count != ending[0]:
        return None
    return Transfer(handle, delivery_id, data[start:at], 0, ending[1], ending[2])


_OCTETS_OF_FLAGS: Final = ((b"\x40", None), (b"\x41", True), (b"\x42", False))
_ENDINGS_OF_TRANSFERS: Final[Mapping[bytes, tuple[int, bool | None, bool]]] = {
    b"\x43": (4, None, False),
    **{b"\x43" + octet: (5, settled, False) for octet, settled in _OCTETS_OF_FLAGS},
    **{
        b"\x43" + octet + other: (6, settled, bool(more))
        for octet, settled in _OCTETS_OF_FLAGS
        for other, more in _OCTETS_OF_FLAGS
    },
}
"""From the message format on, which is 0: the count of fields, and whether the delivery is settled and has more frames."""


def _write_transfer(transfer: Transfer) -> bytes | None:
    tag, settled = transfer.delivery_tag, transfer.settled
    if (
        transfer.more
        or transfer.state is not None
        or transfer.delivery_id is None
        or tag is None
        or transfer.message_format != 0
        or transfer.rcv_settle_mode is not None
        or transfer.resume
        or transfer.aborted
        or transfer.batchable
    ):
        return None
    head = codec.write_uint(transfer.handle) + codec.write_uint(transfer.delivery_id) + codec.write_binary(tag)
    if settled is None:
        return b"\x00\x53\x14" + codec.write_compound(0xC0, 4, head + b"\x43")
    return b"\x00\x53\x14" + codec.write_compound(0xC0, 5, head + (b"\x43\x41" if settled else b"\x43\x42"))


def _read_disposition(data: bytes, at: int, count: int, end: int) -> Disposition | None:
    role = _FLAGS.get(data[at])
    if role is None or count != 5 or data[at + 1] != 0x70:
        return None
    first, last = _u32(data, at + 2)[0], None
    at += 6
    if data[at] == 0x70:
        last = _u32(data, at + 1)[0]
        at += 5
    elif data[at] == 0x40:
        at += 1
    else:
        return None
    settled, state = _FLAGS.get(data[at]), _PLAIN_STATES.get(data[at + 1 : end])
    return None if settled is None or state is None else Disposition(role, first, last, settled, state)


_FLAGS: Final[Mapping[int, bool]] = {0x41: True, 0x42: False}


def _write_disposition(disposition: Disposition) -> bytes | None:
    state = _WRITTEN_STATES.get(type(disposition.state))
    if state is None or disposition.batchable or disposition.first is None:
        return None
    last = disposition.last
    fields = b"".join(
        (
            b"\x41" if disposition.role else b"\x42",
            codec.write_uint(disposition.first),
            NULL if last is None else codec.write_uint(last),
            b"\x41" if disposition.settled else b"\x42",
            state,
        )
    )
    return b"\x00\x53\x15" + codec.write_compound(0xC0, 5, fields)


_WRITTEN_STATES: Final[Mapping[type, bytes]] = {type(state): data for data, state in _PLAIN_STATES.items()}
_COMMON: Final[Mapping[type, tuple[Callable[[bytes, int, int, int], Any], Callable[[Any], bytes | None]]]] = {
    Transfer: (_read_transfer, _write_transfer),
    Disposition: (_read_disposition, _write_disposition),
}


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) < 2:  # `attrgetter` returns a bare value for one name
        return lambda record: tuple(getattr(record, name) for name in names)
    return attrgetter(*names)


def _define(
    kind: type,
    code: int | Symbol,
    name: str,
    *types: _Type,
    mandatory: tuple[str, ...] = (),
    written: tuple[str, ...] = (),
) -> None:
    """Define a composite; `code` is its descriptor: a number of the standard, or a symbol of pyjms's own."""
    columns = []
    for field, each in zip(fields(kind), types, strict=True):
        default = None if field.default is MISSING else field.default
        is_mandatory = field.name in mandatory
        is_written = is_mandatory or field.name in written
        columns.append(_Field(field.name, each.readers, each.write, default, is_mandatory, is_written))
    last = max((index + 1 for index, field in enumerate(columns) if field.is_mandatory), default=0)
    defaults = [_MANDATORY if each.is_mandatory else each.default for each in columns]
    left_out = [_MANDATORY if each.is_always_written else each.default for each in columns]
    layout = _Layout(
        kind,
        name,
        b"\x00" + (codec.write_symbol(code) if isinstance(code, Symbol) else codec.write_ulong(code)),
        tuple(columns),
        tuple(zip([each.readers for each in columns], defaults, strict=True)),
        tuple(zip([each.write for each in columns], left_out, strict=True)),
        _getter([each.name for each in columns]),
        last,
        *_COMMON.get(kind, (None, None)),
    )
    LAYOUTS[kind] = layout
    if isinstance(code, Symbol):
        _BY_NAME[code] = layout
    else:
        _BY_CODE[code] = _BY_NAME[f"amqp:{name}:list"] = layout


_define(
    Open,
    0x10,
    "open",
    _STRING,
    _STRING,
    _UINT,
    _USHORT,
    _UINT,
    _SYMBOLS,
    _SYMBOLS,
    _SYMBOLS,
    _SYMBOLS,
    _FIELDS,
    mandatory=("container_id",),
)
_define(
    Begin, 0x11, "begin", _USHORT, _UINT, _UINT, _UINT, _UINT, _SYMBOLS, _SYMBOLS, _FIELDS,
    mandatory=("next_outgoing_id", "incoming_window", "outgoing_window"),
)  # fmt: skip
_define(
    Attach, 0x12, "attach", _STRING, _UINT, _BOOLEAN, _UBYTE, _UBYTE, _RECORD, _RECORD, _MAP, _BOOLEAN, _UINT, _ULONG, _SYMBOLS, _SYMBOLS, _FIELDS,
    mandatory=("name", "handle", "role"),
)  # fmt: skip
_define(
    Flow, 0x13, "flow", _UINT, _UINT, _UINT, _UINT, _UINT, _UINT, _UINT, _UINT, _BOOLEAN, _BOOLEAN, _FIELDS,
    mandatory=("incoming_window", "next_outgoing_id", "outgoing_window"),
)  # fmt: skip
_define(
    Transfer, 0x14, "transfer", _UINT, _UINT, _BINARY, _UINT, _BOOLEAN, _BOOLEAN, _UBYTE, _RECORD, _BOOLEAN, _BOOLEAN, _BOOLEAN,
    mandatory=("handle",),
)  # fmt: skip
_define(
    Disposition, 0x15, "disposition", _BOOLEAN, _UINT, _UINT, _BOOLEAN, _RECORD, _BOOLEAN,
    mandatory=("role", "first"), written=("settled",),
)  # fmt: skip
_define(Detach, 0x16, "detach", _UINT, _BOOLEAN, _RECORD, mandatory=("handle",))
_define(End, 0x17, "end", _RECORD)
_define(Close, 0x18, "close", _RECORD)
_define(Error, 0x1D, "error", _SYMBOL, _DESCRIPTION, _FIELDS, mandatory=("condition",))
_define(Received, 0x23, "received", _UINT, _ULONG, mandatory=("section_number", "section_offset"))
_define(Accepted, 0x24, "accepted")
_define(Rejected, 0x25, "rejected", _RECORD)
_define(Released, 0x26, "released")
_define(Modified, 0x27, "modified", _BOOLEAN, _BOOLEAN, _FIELDS)
_define(
    Source,
    0x28,
    "source",
    _ANY,
    _UINT,
    _SYMBOL,
    _UINT,
    _BOOLEAN,
    _FIELDS,
    _SYMBOL,
    _FIELDS,
    _RECORD,
    _SYMBOLS,
    _SYMBOLS,
)
_define(Target, 0x29, "target", _ANY, _UINT, _SYMBOL, _UINT, _BOOLEAN, _FIELDS, _SYMBOLS)
_define(Coordinator, 0x30, "coordinator", _SYMBOLS)
_define(Declare, 0x31, "declare", _ANY)
# Artemis 2.40 rejects a discharge that leaves its default out; a test of Broker-J asks the same of dispositions.
_define(Discharge, 0x32, "discharge", _BINARY, _BOOLEAN, mandatory=("txn_id",), written=("fail",))
_define(Declared, 0x33, "declared", _BINARY, mandatory=("txn_id",))
_define(TransactionalState, 0x34, "transactional-state", _BINARY, _RECORD, mandatory=("txn_id",))
_define(Answered, Symbol("pyjms:answered:list"), "answered", _STRINGS, _BOOLEAN, mandatory=("headers",))
_define(SaslMechanisms, 0x40, "sasl-mechanisms", _SYMBOLS, mandatory=("mechanisms",))
_define(SaslInit, 0x41, "sasl-init", _SYMBOL, _BINARY, _STRING, mandatory=("mechanism",))
_define(SaslChallenge, 0x42, "sasl-challenge", _BINARY, mandatory=("challenge",))
_define(SaslResponse, 0x43, "sasl-response", _BINARY, mandatory=("response",))
_define(SaslOutcome, 0x44, "sasl-outcome", _UBYTE, _BINARY, mandatory=("code",))
_define(Header, 0x70, "header", _BOOLEAN, _UBYTE, _UINT, _BOOLEAN, _UINT)
_define(
    Properties, 0x73, "properties", _ANY, _BINARY, _ANY, _STRING, _ANY, _ANY, _SYMBOL, _SYMBOL, _TIMESTAMP, _TIMESTAMP, _STRING, _UINT, _STRING,
)  # fmt: skip


def write(record: Any) -> bytes:
    """Return the bytes of a record of this module, with its descriptor.

    Raises:
        EncodeError: a value is not one of its field's type.
    """
    layout = LAYOUTS[type(record)]
    if layout.write_common is not None:
        try:
            data = layout.write_common(record)
        except (struct.error, TypeError):
            data = None  # the field that is wrong is found below
        if data is not None:
            return data
    values = layout.values(record)
    parts: list[bytes] = []
    used = 0
    try:
        for (write_field, default), value in zip(layout.writing, values, strict=True):
            if value == default or (value is None and default is not _MANDATORY):
                parts.append(NULL)
            else:
                parts.append(write_field(value))
                used = len(parts)
    except (struct.error, IndexError, UnicodeEncodeError, AttributeError, TypeError) as error:
        name, given = layout.fields[len(parts)].name, type(values[len(parts)]).__name__
        raise EncodeError(f"the field {name} of {layout.name} cannot be {given}: {error}") from None
    if not used:
        return layout.prefix + b"\x45"
    return layout.prefix + codec.write_compound(0xC0, used, b"".join(parts[:used]))


def read_composite(data: bytes, at: int, room: int = NESTING_MAX) -> tuple[Any, int]:
    """Return the record at `at`, which is at its descriptor's first byte, and the position behind it.

    A descriptor that no record of this module has, makes a `Described`. The errors of Python that readers meet at the end of the bytes
    are for the caller to map: `codec.as_decode_error`.
    """
    if room <= 0:
        raise LimitError("values are nested more deeply than is taken here")
    # Nearly every descriptor is a ulong in its short form.
    if data[at + 1] == 0x53:
        layout = _BY_CODE.get(data[at + 2])
        start = at + 3
    else:
        descriptor, start = READERS[data[at + 1]](data, at + 2, room)
        layout = (
            _BY_NAME.get(descriptor)
            if type(descriptor) is Symbol
            else _BY_CODE.get(descriptor)
            if type(descriptor) is ULong
            else None
        )
    if layout is None:
        return READERS[0](data, at + 1, room)
    code = data[start]
    if code == 0xC0:
        end, count, at = start + 2 + data[start + 1], data[start + 2], start + 3
    elif code == 0x45:
        end = at = start + 1
        count = 0
    elif code == 0xD0:
        size, count = struct.unpack_from(">II", data, start + 1)
        end, at = start + 5 + size, start + 9
    else:
        raise DecodeError(f"the fields of {layout.name} are no list")
    if not layout.mandatory <= count <= len(layout.fields):
        raise DecodeError(f"{layout.name} has {count} fields")
    if layout.read_common is not None:
        record = layout.read_common(data, at, count, end)
        if record is not None:
            return record, end
    values: list[Any] = []
    for readers, default in layout.reading[:count]:
        code = data[at]
        at += 1
        if code == 0x40:
            if default is _MANDATORY:
                raise DecodeError(f"the field {layout.fields[len(values)].name} of {layout.name} is missing")
            values.append(default)
        else:
            reader = readers.get(code)
            if reader is None:
                name = layout.fields[len(values)].name
                raise DecodeError(
                    f"the field {name} of {layout.name} has the format code {code:#04x}, which is not its type's"
                )
            value, at = reader(data, at, room)
            values.append(value)
    if at != end:
        raise DecodeError(f"the fields of {layout.name} do not end where its size says")
    return layout.kind(*values), at


def read(data: bytes, at: int = 0, nesting_max: int = NESTING_MAX) -> tuple[Any, int]:
    """Return the record at a position, and the position behind it.

    Raises:
        DecodeError: there is no record, or a field is not what its definition says.
        LimitError: a value is nested more deeply than is taken here.
    """
    try:
        if data[at] != 0:
            raise DecodeError("a performative begins with its descriptor")
        record, end = read_composite(data, at, nesting_max)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise codec.as_decode_error(error) from None
    if end > len(data):
        raise DecodeError("the bytes end within a performative")
    return record, end


def is_outcome(state: Any) -> bool:
    """Whether a delivery state is final (part 3, 3.4)."""
    return isinstance(state, Accepted | Rejected | Released | Modified | Declared) or (
        isinstance(state, Answered) and not state.more
    )
