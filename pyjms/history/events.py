"""One recorded event: the request of a client, its time, and its outcome.

The fields are the columns of the Parquet files, in their order (docs/reference/history.md). A field that does not
concern an operation is None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

SEND = "send"
BEGIN_TX = "begin_tx"
COMMIT = "commit"
ROLLBACK = "rollback"
DELIVER = "deliver"
ACK = "ack"
RECOVER = "recover"
SUBSCRIBE = "subscribe"
UNSUBSCRIBE = "unsubscribe"
CLOSE = "close"
BROWSE = "browse"
CRASH = "crash"
EXPIRE = "expire"
CLOCK = "clock"

OPERATIONS = frozenset(
    {
        *(
            SEND,
            BEGIN_TX,
            COMMIT,
            ROLLBACK,
            DELIVER,
            ACK,
            RECOVER,
            SUBSCRIBE,
            UNSUBSCRIBE,
            CLOSE,
            BROWSE,
            CRASH,
            EXPIRE,
        ),
        CLOCK,
    }
)

OK = "ok"
FAIL = "fail"
UNKNOWN = "unknown"
OUTCOMES = frozenset({OK, FAIL, UNKNOWN})

BRANCH = "xa:"
"""The beginning of the name of a distributed transaction in the column `tx`."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row. Times are nanoseconds since 1970 by the clock of the node that recorded it."""

    run: str
    """The run to which the event belongs, as the recording was named."""
    node: str
    """The machine."""
    pid: str
    """The process; of a crash: the process that died, or "" when the broker did."""
    conn: str | None
    """The connection's id."""
    sess: str | None
    """The session's name, unique in the run."""
    consumer: str | None
    """The consumer's name, unique in the run; of an ack or recover: that of the delivery; of a browse: the walk's."""
    op: str
    """One of `OPERATIONS`."""
    ok: str
    """Its outcome, one of `OUTCOMES`: done, surely not done, or unknown."""
    t0: int
    """The time of the client's call."""
    t1: int | None
    """The time when the call returned; None: it was never seen to return."""
    n: int | None = None
    """The order of events within the session; without a session, within the connection."""
    mid: str | None = None
    """The message's id; None when the client asked for none, or when the event concerns no message."""
    dest: str | None = None
    """The destination, such as ``queue://orders``: of a send, the message's; otherwise that of the consumer or walk."""
    sub: str | None = None
    """The subscription of a topic: CLIENT-ID/NAME of a durable one, #CLIENT-ID/NAME of a shared one that is not durable, the consumer's name
    otherwise. None on queues.
    """
    mode: int | None = None
    """The delivery mode: 1 NON_PERSISTENT, 2 PERSISTENT."""
    prio: int | None = None
    """The priority, 0 to 9."""
    sn: int | None = None
    """The number of a send within its session and destination, from 1."""
    dn: int | None = None
    """The number of a delivery within its consumer, from 1; of an ack or recover: that of the delivery."""
    tx: str | None = None
    """The transaction that the event is part of; unique in the run."""
    redelivered: bool | None = None
    """JMSRedelivered, of a delivery."""
    count: int | None = None
    """The delivery count reported by the provider, this time included."""
    exp: int | None = None
    """JMSExpiration in milliseconds since 1970; 0: never. Of an expire: as the provider knows it, None: unknown."""
    sha: str | None = None
    """A digest of the body and the properties set by the application."""
    note: str | None = None
    """All facts without a column of their own, as a JSON object: see docs/reference/history.md."""


COLUMNS: tuple[str, ...] = tuple(Event.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The events of a run, and the processes whose recording was cut off."""

    events: tuple[Event, ...]
    cut_off: tuple[str, ...] = ()
    """The processes whose buffered recording was not closed."""


_NOTHING: Mapping[str, object] = MappingProxyType({})


def note_of(event: Event) -> Mapping[str, object]:
    """Return the entries of the event's note; empty if it has no note, or one that is no JSON object."""
    return _NOTHING if event.note is None else _read(event.note)


@lru_cache(maxsize=4096)
def _read(text: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return _NOTHING
    return MappingProxyType(found) if isinstance(found, dict) else _NOTHING
