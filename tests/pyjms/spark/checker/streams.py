"""A history with one stream: one session sends, one consumer receives, in an order that is given."""

from __future__ import annotations

from typing import Any

from pyjms.history import Event

__all__ = ["NS", "one_stream"]

NS = 1_700_000_000 * 10**9


def one_stream(order: list[int], prio: dict[int, int], messages: int) -> tuple[Event, ...]:
    """One session sends to one consumer, which gets the messages in this order."""
    base: dict[str, Any] = {
        "run": "r",
        "node": "a",
        "pid": "1",
        "ok": "ok",
        "dest": "queue://q",
        "mode": 2,
        "exp": 0,
        "sha": "x",
    }
    sends = [
        Event(**base, conn="p", sess="p/1", consumer=None, op="send", t0=NS + place, t1=NS + place, mid=f"ID:{place}",
              sn=place, prio=prio.get(place, 4), n=place)
        for place in range(1, messages + 1)
    ]  # fmt: skip
    come = [
        Event(**base, conn="c", sess="c/1", consumer="c/1/1", op=op, t0=NS + 10_000 + 4 * dn + at, t1=NS + 10_001 + 4 * dn + at,
              mid=f"ID:{place}", prio=prio.get(place, 4), dn=dn, redelivered=False, count=1, n=2 * dn + at)
        for dn, place in enumerate(order, 1)
        for at, op in enumerate(("deliver", "ack"))
    ]  # fmt: skip
    return (*sends, *come)
