"""Conversion of recorded calls to rows of the file. Nothing here waits or touches a file.

A `Call` is recorded when a client calls, and becomes one row, or one for each delivery of an acknowledgement. A row is a
list in the order of `ROW`, so that its outcome can be filled in when the call returns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import count
from typing import NamedTuple, TypeAlias

from pyjms.history.events import ACK, BRANCH, BROWSE, COLUMNS, DELIVER, RECOVER, SEND, UNKNOWN
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import DELIVER_AT, Address, BodyKind, Envelope, ObjectBody
from pyjms.spi.provider import ExpiredMessage
from pyjms.spi.selector import Selector
from pyjms.spi.xid import Xid
from pyjms.types import Stored

CONSTANT = ("run", "node")
ROW: tuple[str, ...] = tuple(name for name in COLUMNS if name not in CONSTANT)
"""The columns of a row; run and node are those of the whole file."""
OK_AT = ROW.index("ok")
T1_AT = ROW.index("t1")

Row: TypeAlias = list[object]

_RESERVED = "JMS"
_DIGEST_LENGTH = 32


class Scope:
    """The place of events: a connection, a session or a consumer, with its numbers."""

    __slots__ = ("conn", "consumer", "dest", "numbers", "pid", "selector", "sends", "sess", "sub")

    def __init__(
        self,
        pid: str,
        conn: str | None,
        sess: str | None = None,
        consumer: str | None = None,
        *,
        dest: str | None = None,
        sub: str | None = None,
        selector: Selector | None = None,
        session: Scope | None = None,
    ) -> None:
        self.pid = pid
        self.conn = conn
        self.sess = sess
        self.consumer = consumer
        self.dest = dest
        self.sub = sub
        self.selector = selector
        # Shared with the session, since the column n orders all events of a session, of any consumer.
        self.numbers: count[int] = count(1) if session is None else session.numbers
        self.sends: dict[Address, tuple[str, int]] = {} if session is None else session.sends


def branch_name(xid: Xid) -> str:
    """Return the name of a branch of a distributed transaction in the column `tx`."""
    return f"{BRANCH}{xid}"


class Held(NamedTuple):
    """The tag of a delivery that passed the recorder: the provider's delivery, its receiver, and its number."""

    inner: Delivery
    scope: Scope
    number: int


class Call(NamedTuple):
    """The record of one call, made on the thread of the call."""

    op: str
    scope: Scope
    t0: int
    tx: str | None
    payload: object
    """An `Envelope` of a send; a `Held` of a delivery; a tuple of deliveries with `Held` tags of an ack or
    recover; a delivery of a browse; a message that expired, or its id; otherwise None."""
    note: Mapping[str, object] | None = None


class Digests:
    """The digests of the latest envelopes: where a broker passes on the sent envelope itself, one is enough."""

    __slots__ = ("_known",)

    _LIMIT = 512

    def __init__(self) -> None:
        self._known: dict[int, tuple[Envelope, str]] = {}

    def of(self, envelope: Envelope) -> str:
        """Return `digest(envelope)`."""
        # By identity, as equality would compare whole bodies. The entry holds the envelope, so that its id is not given
        # to another one.
        known = self._known.get(id(envelope))
        if known is None:
            if len(self._known) >= self._LIMIT:
                # All at once: keeping an order of use would cost more for each event.
                self._known.clear()
            known = self._known[id(envelope)] = envelope, digest(envelope)
        return known[1]


def rows_of(digests: Digests, call: Call, ok: str = UNKNOWN, t1: int | None = None) -> list[Row]:
    """Return the rows of `call`. To be called once for each call, in the order of calls of a session."""
    payload = call.payload
    if call.op == SEND:
        assert isinstance(payload, Envelope)
        return [_send(digests, call, payload, ok, t1)]
    if call.op == DELIVER:
        assert isinstance(payload, Held)
        return [_deliver(digests, call, payload, ok, t1)]
    if isinstance(payload, ExpiredMessage):
        return [_expire(call, payload, ok, t1)]
    if call.op in {ACK, RECOVER}:
        assert isinstance(payload, tuple)
        return [_settle(call, delivery, ok, t1) for delivery in payload]
    if call.op == BROWSE and payload is not None:
        assert isinstance(payload, Delivery)
        return [_see(digests, call, payload, ok, t1)]
    scope = call.scope
    mid = payload if isinstance(payload, str) else None
    return [_row(call, scope, ok, t1, mid, scope.dest, scope.sub)]


def _row(call: Call, scope: Scope, ok: str, t1: int | None, mid: str | None, dest: str | None, sub: str | None) -> Row:
    own = call.scope
    note = None if call.note is None else _json(call.note)
    return [
        *(own.pid, own.conn, own.sess, scope.consumer, call.op, ok, call.t0, t1, next(own.numbers), mid, dest, sub),
        *(None, None, None, None, call.tx, None, None, None, None, note),
    ]


_MODE, _PRIO, _SN, _DN = (ROW.index(name) for name in ("mode", "prio", "sn", "dn"))
_REDELIVERED, _COUNT, _EXP, _SHA, _NOTE = (ROW.index(name) for name in ("redelivered", "count", "exp", "sha", "note"))


def _send(digests: Digests, call: Call, envelope: Envelope, ok: str, t1: int | None) -> Row:
    scope, address = call.scope, envelope.destination
    known = scope.sends.get(address)
    dest, number = (str(address), 1) if known is None else (known[0], known[1] + 1)
    # Numbered for each destination, as JMS orders the messages of one session and one destination (JMS 1.1 §4.4.10.2).
    # The text is kept with it.
    scope.sends[address] = dest, number
    row = _row(call, scope, ok, t1, envelope.message_id, dest, None)
    _describe(digests, row, envelope)
    row[_SN] = number
    if envelope.deliver_at_ms or DELIVER_AT in envelope.properties:
        # A scheduled message arrives when it is due: the checks of order and of losses must skip it.
        row[_NOTE] = _json({"scheduled": True})
    return row


def _deliver(digests: Digests, call: Call, held: Held, ok: str, t1: int | None) -> Row:
    scope, delivery = call.scope, held.inner
    row = _row(call, scope, ok, t1, delivery.envelope.message_id, scope.dest, scope.sub)
    _describe(digests, row, delivery.envelope)
    row[_DN], row[_REDELIVERED], row[_COUNT] = held.number, delivery.redelivered, delivery.count
    # The values that the selector has read are written with the delivery, as the file does not have the properties of messages.
    if scope.selector is not None:
        row[_NOTE] = _json(_selected(scope.selector, delivery.envelope))
    return row


def _expire(call: Call, expired: ExpiredMessage, ok: str, t1: int | None) -> Row:
    row = _row(call, call.scope, ok, t1, expired.message_id, call.scope.dest, call.scope.sub)
    row[_EXP] = expired.expiration_ms
    return row


def _see(digests: Digests, call: Call, delivery: Delivery, ok: str, t1: int | None) -> Row:
    row = _row(call, call.scope, ok, t1, delivery.envelope.message_id, call.scope.dest, None)
    _describe(digests, row, delivery.envelope)
    row[_REDELIVERED], row[_COUNT] = delivery.redelivered, delivery.count
    return row


def _settle(call: Call, delivery: Delivery, ok: str, t1: int | None) -> Row:
    held = delivery.tag
    assert isinstance(held, Held)
    row = _row(call, held.scope, ok, t1, delivery.envelope.message_id, held.scope.dest, held.scope.sub)
    row[_DN], row[_COUNT] = held.number, delivery.count
    return row


def _describe(digests: Digests, row: Row, envelope: Envelope) -> None:
    row[_MODE], row[_PRIO], row[_EXP] = envelope.delivery_mode, envelope.priority, envelope.expiration_ms
    row[_SHA] = digests.of(envelope)


def digest(envelope: Envelope) -> str:
    """Return 32 hexadecimal digits that identify what the application put into a message.

    Body, type, a textual correlation id and the properties; without those that providers add (names that begin with JMS),
    or may translate (destinations, a correlation id of bytes).
    """
    body: object = envelope.body
    if envelope.body_kind is BodyKind.MAP and isinstance(body, Mapping):
        body = tuple(sorted(body.items()))  # a map has no order
    elif isinstance(body, ObjectBody):
        body = body.data
    own = [item for item in envelope.properties.items() if item[0][:3] != _RESERVED]
    # The order of properties means nothing, and providers change it.
    own.sort()
    correlation = envelope.correlation_id if isinstance(envelope.correlation_id, str) else None
    # The type's name is included: a body that arrived as bytes instead of text is not the same.
    head = repr((int(envelope.body_kind), type(body).__name__, own, envelope.jms_type, correlation))
    # Never fails for half of a surrogate pair: a sent message must be recorded with any text.
    summed = hashlib.sha256(head.encode("utf-8", "backslashreplace"))
    # plain text and bytes as they are: `repr` of a long text takes most of the time
    text = body if isinstance(body, (str, bytes)) else repr(body)
    summed.update(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return summed.hexdigest()[:_DIGEST_LENGTH]


def _selected(selector: Selector, envelope: Envelope) -> dict[str, object]:
    """Return the values of a message that a selector read, so that it can be judged again."""
    headers: dict[str, object] = {"JMSTimestamp": envelope.timestamp_ms, "JMSType": envelope.jms_type}
    if isinstance(envelope.correlation_id, str):
        headers["JMSCorrelationID"] = envelope.correlation_id
    wanted = selector.identifiers
    read: dict[str, object] = {name: value for name, value in headers.items() if name in wanted and value is not None}
    properties = {name: _typed(value) for name, value in envelope.properties.items() if name in wanted}
    return {"selector": selector.text, "headers": read, "properties": properties}


def _typed(value: Stored) -> object:
    # With its type: the selector must compare it again in the same way, a float as a float.
    return [type(value).__name__, str(value)] if isinstance(value, (float, int)) else value


def column(value: object) -> object:
    """Return `value` in the form of columns: half of a surrogate pair, which UTF-8 does not have, as backslash, u and digits."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _json(value: object) -> str:
    # ASCII only, so that a lone surrogate is escaped, which UTF-8 could not encode.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
