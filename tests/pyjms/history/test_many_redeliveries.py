"""A message that comes again and again: the checker's work grows with the deliveries, and its verdicts are those of pairs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from pyjms.history.check import check_flags, check_holders
from pyjms.history.events import (
    ACK,
    CLOSE,
    COLUMNS,
    COMMIT,
    CRASH,
    DELIVER,
    OK,
    RECOVER,
    ROLLBACK,
    SEND,
    UNKNOWN,
    Event,
)
from pyjms.history.facts import Facts, Options

if TYPE_CHECKING:
    from collections.abc import Iterator

MID = "ID:1"
SEEDS = 400


def event(op: str, t0: int, **values: object) -> Event:
    fields: dict[str, object] = {
        **dict.fromkeys(COLUMNS),
        "run": "r",
        "node": "n",
        "pid": "1",
        "conn": "c",
        "sess": "c/1",
        "mid": MID,
        "dest": "queue://q",
        "op": op,
        "ok": OK,
        "t0": t0,
        "t1": t0 + 1,
        "mode": 2,
        "prio": 4,
        "exp": 0,
    }
    return Event(**{**fields, **values})  # type: ignore[arg-type]


def poison(deliveries: int, ends: str, *, redelivered: bool) -> Iterator[Event]:
    for number in range(deliveries):
        t0, sess = 10 * number, f"c/{number}"
        held: dict[str, object] = {"sess": sess, "consumer": f"{sess}/1", "dn": 1}
        yield event(DELIVER, t0, redelivered=redelivered, tx=str(number), **held)
        if ends == ROLLBACK:
            yield event(ACK, t0 + 2, tx=str(number), **held)
            yield event(ROLLBACK, t0 + 4, tx=str(number), sess=sess, mid=None, dest=None)
        elif ends == RECOVER:
            yield event(RECOVER, t0 + 2, **held)
        elif ends == CLOSE:
            yield event(CLOSE, t0 + 2, sess=sess, mid=None, dest=None)


@pytest.mark.parametrize("redelivered", [True, False])
@pytest.mark.parametrize("ends", [RECOVER, ROLLBACK, CLOSE])
def test_the_work_grows_with_the_deliveries_and_not_with_their_pairs(
    ends: str, redelivered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliveries, asked = 500, 0
    facts = Facts(poison(deliveries, ends, redelivered=redelivered), Options())
    precedes, releases = Facts.precedes, Facts.releases

    def ask_precedes(self: Facts, first: Event, second: Event) -> bool:
        nonlocal asked
        asked += 1
        return precedes(self, first, second)

    def ask_releases(self: Facts, delivery: Event) -> Iterator[Event]:
        nonlocal asked
        asked += 1
        return releases(self, delivery)

    monkeypatch.setattr(Facts, "precedes", ask_precedes)
    monkeypatch.setattr(Facts, "releases", ask_releases)
    assert not list(check_holders(facts))
    list(check_flags(facts))
    assert asked <= 6 * deliveries


def random_history(random: Random) -> list[Event]:
    """Deliveries of one message to a few sessions of two machines, whose clocks may step, and what ends them."""
    events = [event(SEND, 0, node=random.choice("mn"), conn="s", sess="s/1")]
    conns = {conn: random.choice("mn") for conn in "ab"}
    step_ns = random.choice((1, 60_000_000))
    for number in range(random.randint(2, 14)):
        conn, t0 = random.choice("ab"), random.randint(0, 40) * step_ns
        op = random.choice((DELIVER, DELIVER, DELIVER, ACK, RECOVER, CLOSE, COMMIT, ROLLBACK, CRASH, SEND))
        t1 = random.choice((None, t0, t0 + step_ns, t0 + 5 * step_ns, t0 + 20 * step_ns, t0 - 3 * step_ns))
        values: dict[str, object] = {"node": conns[conn], "conn": conn, "sess": f"{conn}/1", "t1": t1}
        if op in {DELIVER, ACK, RECOVER}:
            values |= {"consumer": f"{conn}/1/1", "dn": random.randint(1, 4), "redelivered": random.random() < 0.5}
        if op in {ACK, COMMIT, ROLLBACK}:
            values["tx"] = random.choice((None, "t", "u"))
        if op == SEND:
            values["mid"] = f"ID:{number + 2}"
        events.append(event(op, t0, ok=random.choice((OK, OK, UNKNOWN)), **values))
    return events


def held_by_two(facts: Facts) -> Iterator[tuple[Event, Event, Event]]:
    """Compare every pair of deliveries."""
    for deliveries in facts.groups.values():
        for number, second in enumerate(deliveries):
            for first in reversed(deliveries[:number]):
                if facts.precedes(first, second) and all(
                    facts.precedes(second, release) for release in facts.releases(first)
                ):
                    proof = facts.proof_of_life(first, second)
                    if proof is not None:
                        yield first, second, proof
                        break


def test_two_holders_are_found_as_if_every_pair_was_compared() -> None:
    found = 0
    for seed in range(SEEDS):
        facts = Facts(random_history(Random(seed)), Options())
        expected = [list(each) for each in held_by_two(facts)]
        assert [list(each.events) for each in check_holders(facts)] == expected, seed
        found += len(expected)
    assert found > SEEDS // 10
