"""An expiry that was recorded excuses that a message is gone, unless the message had time left."""

from __future__ import annotations

import pytest

from pyjms.history import Event, check

NS_PER_MS = 10**6
START_MS = 1_700_000_000_000
EXP_MS = START_MS + 60_000
_PLACE = {"run": "r", "node": "a", "pid": "1", "conn": "c", "sess": "c/1", "consumer": None}


def event(op: str, at_ms: int, **rest: object) -> Event:
    t0 = at_ms * NS_PER_MS
    return Event(**{**_PLACE, "op": op, "ok": "ok", "t0": t0, "t1": t0 + 10, "n": at_ms, **rest})  # type: ignore[arg-type]


def history(expired_at_ms: int, exp: int | None, own_exp: int = EXP_MS) -> list[Event]:
    """A message that is sent, told to have expired, and not in its queue, over which a browser walks at once."""
    of_message = {"mid": "ID:1", "dest": "queue://q"}
    place = {"conn": None, "sess": None}
    return [
        event("send", START_MS, **of_message, mode=2, prio=4, sn=1, exp=own_exp),
        event("expire", expired_at_ms, **of_message, **place, exp=exp),
        event("browse", START_MS + 10_000, consumer="c/1/1", dest="queue://q", note='{"seen":0,"selector":null}'),
    ]


@pytest.mark.parametrize(
    ("expired_at_ms", "exp", "own_exp", "found"),
    [
        pytest.param(START_MS + 100, EXP_MS, EXP_MS, {"lost": 1, "expired-early": 1}, id="too early"),
        pytest.param(
            START_MS + 100, EXP_MS, 0, {"lost": 1, "expired-early": 1}, id="too early, by the provider's time"
        ),
        pytest.param(START_MS + 5000, START_MS + 5900, EXP_MS, {}, id="within the allowance"),
        pytest.param(START_MS + 5000, START_MS + 4000, 0, {}, id="an administrator gave it less time"),
        pytest.param(START_MS + 5000, None, EXP_MS, {}, id="told by a program"),
        pytest.param(START_MS + 5000, 0, EXP_MS, {}, id="told by one that does not know its time"),
    ],
)
def test_an_expiry_excuses_unless_it_is_too_early(
    expired_at_ms: int, exp: int | None, own_exp: int, found: dict[str, int]
) -> None:
    assert check(history(expired_at_ms, exp, own_exp)).counts() == found


def test_how_early_it_was_is_told_by_the_clocks_without_the_allowance() -> None:
    (early,) = (each for each in check(history(START_MS, EXP_MS)).findings if each.rule == "expired-early")
    assert early.text == "ID:1 was let go of as expired at queue://q, 59999 ms before its time was over"
