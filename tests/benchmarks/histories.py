"""Writes histories of any size quickly: whole columns at a time, without a loop over rows.

Clients send to queues, half of them in transactions of ten messages; one consumer at each queue acknowledges, half of them in
transactions; two messages in a thousand come again, with the flag. In the end everything is closed, and each queue is
browsed. Faults are planted: `LOST` messages that nobody got, `AGAIN` that came after their acknowledgement, `SWAPPED`
pairs of one session in the wrong order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyjms.history.events import ACK, BROWSE, CLOSE, COMMIT, DELIVER, OK, RECOVER, SEND, SUBSCRIBE
from pyjms.history.parquet import SCHEMA

__all__ = ["AGAIN", "LOST", "SWAPPED", "write_history"]

LOST, AGAIN, SWAPPED = 10, 7, 12

QUEUES = 40
SESSIONS = 80
BATCH = 10
_CHUNK = 200_000  # messages; a multiple of SESSIONS * BATCH
_START_NS = 1_700_000_000 * 10**9
_STEP_NS = 10_000
_ROW_GROUP = 1 << 18
_EVENTS_A_MESSAGE = 3.155  # send, delivery, acknowledgement; its part of the commits and redeliveries


def write_history(folder: Path, events: int) -> int:
    """Write about so many events into files of `folder`; return how many they are."""
    messages = max(int(events / _EVENTS_A_MESSAGE / _CHUNK + 0.5) * _CHUNK, _CHUNK)
    if events < _CHUNK * _EVENTS_A_MESSAGE:
        messages = -(-int(events / _EVENTS_A_MESSAGE) // (SESSIONS * BATCH)) * SESSIONS * BATCH
    written = 0
    for first in range(0, messages, _CHUNK):
        numbers = pa.array(range(first, min(first + _CHUNK, messages)), pa.int64())
        for role, table in (("p", _sent(numbers, messages)), ("c", _received(numbers, messages))):
            pq.write_table(table, folder / f"{role}-{first:010}.parquet", row_group_size=_ROW_GROUP)
            written += table.num_rows
    table = _around(messages)
    pq.write_table(table, folder / "z-0000000000.parquet")
    return written + int(table.num_rows)


def _rest(numbers: Any, divisor: int) -> Any:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))


def _named(prefix: str, numbers: Any) -> Any:
    return pc.binary_join_element_wise(prefix, pc.cast(numbers, pa.string()), "")


def _planted(messages: int, number: int, offset: int) -> Any:
    """Return messages, far from each other, that belong to sessions without transactions."""
    step = messages // number // SESSIONS * SESSIONS
    return pa.array([place * step + offset for place in range(number)], pa.int64())


def _lost(messages: int) -> Any:
    return _planted(messages, LOST, 3)


def _again(messages: int) -> Any:
    return _planted(messages, AGAIN, 5)


def _swapped(messages: int) -> Any:
    return _planted(messages, SWAPPED, 7)


def _number_in_session(numbers: Any, messages: int) -> Any:
    turn = pc.add(pc.divide(numbers, SESSIONS), 1)
    early = pc.is_in(numbers, _swapped(messages))
    late = pc.is_in(pc.subtract(numbers, SESSIONS), _swapped(messages))
    return pc.if_else(early, pc.add(turn, 1), pc.if_else(late, pc.subtract(turn, 1), turn))


def _is_transacted(sessions: Any) -> Any:
    return pc.equal(_rest(sessions, 2), 0)


def _turns(numbers: Any) -> Any:
    """Return, for each message, which of its session's batches it is in."""
    return pc.divide(pc.divide(numbers, SESSIONS), BATCH)


def _batch_end_ns(numbers: Any) -> Any:
    """Return when the last message of the batches has been sent."""
    return pc.add(pc.multiply(pc.add(_turns(numbers), 1), BATCH * SESSIONS * _STEP_NS), _START_NS)


def _mids(numbers: Any) -> Any:
    return _named("ID:producer-host-42-1700000000-", numbers)


def _transactions(kind: str, sessions: Any, turns: Any) -> Any:
    both = pc.binary_join_element_wise(pc.cast(sessions, pa.string()), pc.cast(turns, pa.string()), "#")
    return pc.binary_join_element_wise(kind, both, "/")


def _table(rows: int, columns: dict[str, Any]) -> pa.Table:
    fixed = {"run": "big", "node": "a", "ok": OK}
    arrays = []
    for field in SCHEMA:
        value = columns.get(field.name, fixed.get(field.name))
        if not isinstance(value, pa.Array | pa.ChunkedArray):
            value = pa.repeat(pa.scalar(value, field.type), rows)
        arrays.append(value.cast(field.type))
    return pa.table(arrays, schema=SCHEMA)


def _sent(numbers: Any, messages: int) -> pa.Table:
    sessions = _rest(numbers, SESSIONS)
    t0 = pc.add(pc.multiply(numbers, _STEP_NS), _START_NS)
    is_transacted = _is_transacted(sessions)
    tx = pc.if_else(is_transacted, _transactions("p", sessions, _turns(numbers)), pa.scalar(None, pa.string()))
    sends = {
        "op": SEND,
        "pid": "1",
        "conn": _named("p", sessions),
        "sess": _named("p/", sessions),
        "t0": t0,
        "t1": pc.add(t0, 4000),
        "n": numbers,
        "mid": _mids(numbers),
        "dest": _named("queue://q", _rest(numbers, QUEUES)),
        "mode": 2,
        "prio": 4,
        "sn": _number_in_session(numbers, messages),
        "tx": tx,
        "exp": 0,
        "sha": _named("5ha-", pc.multiply(numbers, 2654435761)),
    }
    lasts = pc.and_(is_transacted, pc.equal(_rest(pc.divide(numbers, SESSIONS), BATCH), BATCH - 1))
    last = numbers.filter(lasts)
    ends = pc.add(_batch_end_ns(last), 1000)
    commits = {
        "op": COMMIT,
        "pid": "1",
        "conn": _named("p", _rest(last, SESSIONS)),
        "sess": _named("p/", _rest(last, SESSIONS)),
        "t0": ends,
        "t1": pc.add(ends, 1000),
        "n": last,
        "tx": tx.filter(lasts),
    }
    return pa.concat_tables([_table(len(numbers), sends), _table(len(last), commits)])


def _received(numbers: Any, messages: int) -> pa.Table:
    numbers = numbers.filter(pc.invert(pc.is_in(numbers, _lost(messages))))
    usual = _deliveries(numbers, messages, shift=0)
    back = numbers.filter(pc.equal(_rest(numbers, 500), 17))
    first = {**_deliveries(back, messages, shift=-1), "redelivered": False, "count": 1}
    recovered = {**first, "op": RECOVER, "t0": pc.add(first["t1"], 100), "t1": pc.add(first["t1"], 200)}
    twice = numbers.filter(pc.is_in(numbers, _again(messages)))
    again = {**_deliveries(twice, messages, shift=1), "redelivered": True, "count": 2}
    again |= {"t0": pc.add(again["t0"], 10**9), "t1": pc.add(again["t1"], 10**9)}
    tables = [_table(len(numbers), usual)]
    tables += [_table(len(back), first), _table(len(back), _settled(recovered))]
    tables += [_table(len(twice), again), _table(len(twice), _acknowledged(again))]
    tables.append(_table(len(numbers), _acknowledged(usual)))
    return pa.concat_tables([*tables, _commits_of(numbers)])


def _deliveries(numbers: Any, messages: int, *, shift: int) -> dict[str, Any]:
    queues = _rest(numbers, QUEUES)
    t0 = pc.add(
        _batch_end_ns(numbers), pc.add(pc.multiply(_rest(numbers, SESSIONS * BATCH), 1000), 10_000 + shift * 500)
    )
    return {
        "op": DELIVER,
        "pid": "2",
        "conn": _named("c", queues),
        "sess": _named("c/", queues),
        "consumer": _named("c//", queues),
        "t0": t0,
        "t1": pc.add(t0, 100),
        "n": numbers,
        "mid": _mids(numbers),
        "dest": _named("queue://q", queues),
        "mode": 2,
        "prio": 4,
        "dn": pc.add(pc.multiply(pc.divide(numbers, QUEUES), 3), 2 + shift),
        "tx": pc.if_else(
            _is_transacted(queues), _transactions("c", queues, _turns(numbers)), pa.scalar(None, pa.string())
        ),
        "redelivered": pc.equal(_rest(numbers, 500), 17),
        "count": pc.if_else(pc.equal(_rest(numbers, 500), 17), 2, 1),
        "exp": 0,
        "sha": _named("5ha-", pc.multiply(numbers, 2654435761)),
    }


def _settled(delivered: dict[str, Any]) -> dict[str, Any]:
    left_out = {"mode", "prio", "redelivered", "count", "exp", "sha", "tx"}
    return {name: value for name, value in delivered.items() if name not in left_out}


def _acknowledged(delivered: dict[str, Any]) -> dict[str, Any]:
    times = {"t0": pc.add(delivered["t1"], 100), "t1": pc.add(delivered["t1"], 200)}
    return {**_settled(delivered), "op": ACK, "tx": delivered["tx"], **times}


def _commits_of(numbers: Any) -> pa.Table:
    """Return the commits of the consumers: one for each batch of all sessions."""
    if not len(numbers):
        return _table(0, {})
    turns = pc.unique(_turns(numbers))
    queues = pa.array([queue for queue in range(0, QUEUES, 2) for _ in range(len(turns))], pa.int64())
    turns = pa.concat_arrays([turns] * (QUEUES // 2))
    ends = pc.add(pc.multiply(pc.add(turns, 2), BATCH * SESSIONS * _STEP_NS), _START_NS)
    commits = {
        "op": COMMIT,
        "pid": "2",
        "conn": _named("c", queues),
        "sess": _named("c/", queues),
        "t0": ends,
        "t1": pc.add(ends, 1000),
        "n": turns,
        "tx": _transactions("c", queues, turns),
    }
    return _table(len(queues), commits)


def _around(messages: int) -> pa.Table:
    """Return what clients did beside their messages: subscribing, closing, and looking at the queues in the end."""
    queues = pa.array(range(QUEUES), pa.int64())
    end = _START_NS + (messages + 4 * BATCH * SESSIONS) * _STEP_NS + 2 * 10**9
    of_consumer = {"pid": "2", "conn": _named("c", queues), "n": 0}
    subscribed = {
        **of_consumer,
        "op": SUBSCRIBE,
        "sess": _named("c/", queues),
        "consumer": _named("c//", queues),
        "dest": _named("queue://q", queues),
        "t0": _START_NS - 2000,
        "t1": _START_NS - 1000,
        "note": '{"durable":false}',
    }
    producers = pa.array(range(SESSIONS), pa.int64())
    walked = {
        "op": BROWSE,
        "pid": "3",
        "conn": "b",
        "sess": "b/1",
        "consumer": _named("b/1/", queues),
        "dest": _named("queue://q", queues),
        "t0": end + 10_000,
        "t1": end + 20_000,
        "n": queues,
        "note": '{"seen":0,"selector":null}',
    }
    return pa.concat_tables(
        [
            _table(QUEUES, subscribed),
            _table(QUEUES, {**of_consumer, "op": CLOSE, "t0": end, "t1": end + 1000}),
            _table(SESSIONS, {"op": CLOSE, "pid": "1", "conn": _named("p", producers), "t0": end, "t1": end + 1000, "n": 0}),
            _table(QUEUES, walked),
        ]
    )  # fmt: skip
