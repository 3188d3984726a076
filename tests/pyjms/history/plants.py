"""Faults to plant into correct histories: for each rule, how a history looks in which a provider broke it.

A plant takes the events of a correct history and a source of chance, and returns the events with the fault and the id of
the message concerned; None where this history has no place for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

from pyjms.history.events import ACK, BROWSE, CLOSE, DELIVER, EXPIRE, OK, RECOVER, SEND, UNSUBSCRIBE, Event, note_of
from pyjms.history.facts import Facts, Outcome
from tests.pyjms.history.model import RandomHistory

__all__ = ["PLANTS", "Plant", "Planted"]

Planted = tuple[list[Event], str]
Plant = Callable[[RandomHistory, Facts, Random], Planted | None]

NS_PER_MS = 1_000_000
_OF_A_DELIVERY = {DELIVER, ACK, RECOVER, BROWSE}


def _pick(rng: Random, events: Sequence[Event]) -> Event | None:
    return rng.choice(events) if events else None


def _swap(events: Sequence[Event], old: Event, new: Event) -> list[Event]:
    return [new if event is old else event for event in events]


def _is_calm(history: RandomHistory) -> bool:
    """Everybody closed in order, so that it is known who held what."""
    closed = {event.conn for event in history.events if event.op == CLOSE and event.ok == OK and event.sess is None}
    trouble = history.features.keys() & {"cut", "killed", "crashed"}
    return history.is_drained and not trouble and {event.conn for event in history.events if event.conn} == closed


def _stranger(event: Event, *, t0: int, t1: int, dn: int = 1, **changes: Any) -> Event:
    """The same message with another client."""
    place: dict[str, Any] = {"conn": "z", "sess": "z/1", "pid": "9", "consumer": "z/1/1", "tx": None, "note": None}
    return replace(event, **{**place, "t0": t0, "t1": t1, "dn": dn, **changes})


def _is_clear(history: RandomHistory) -> bool:
    """No broker crashed at a time that clocks which differ leave open."""
    return not history.features["crashed"] or len({event.node for event in history.events}) == 1


def _consumed(facts: Facts) -> list[Event]:
    """Deliveries that were acknowledged at once, in no transaction, and were not moved."""
    return [
        event
        for event in facts.deliveries
        if event.tx is None
        and event.mid is not None
        and facts.moved_ns(event.mid) is None
        and facts.consumed(event)[0] is Outcome.SURE
    ]


def lose(history: RandomHistory, facts: Facts, rng: Random, mode: int = 2) -> Planted | None:
    """A queue forgets a message."""
    sends = [
        sent
        for mid in facts.sends
        if (sent := facts.sent(mid)) and sent.mode == mode and not sent.exp and facts.surely_sent(sent)
        if str(sent.dest).startswith("queue://") and facts.moved_ns(mid) is None
    ]
    sent = _pick(rng, sends)
    if sent is None or sent.mid is None or not _is_calm(history):
        return None
    return [event for event in history.events if event.mid != sent.mid or event.op not in _OF_A_DELIVERY], sent.mid


def lose_nonpersistent(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A queue forgets a NON_PERSISTENT message without a crash."""
    return lose(history, facts, rng, mode=1)


def skip(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A subscription leaves out a message and goes on."""
    found = []
    for deliveries in facts.by_consumer.values():
        firsts = [event for event in deliveries if event.sub and not event.redelivered]
        for earlier, later in pairwise(firsts):
            one, two = facts.sent(earlier.mid), facts.sent(later.mid)
            begun = facts.subscribes[str(earlier.consumer)]
            if one is None or two is None or one.exp or not facts.surely_sent(one) or "no_local" in str(begun.note):
                continue
            same = (one.sess, one.dest, one.prio, one.mode) == (two.sess, two.dest, two.prio, two.mode)
            first_life = facts.subscriptions[str(earlier.sub)][0]
            if first_life.ok != OK or (not note_of(first_life).get("durable") and facts.broke(first_life, later)):
                continue  # nobody knows whether it was there already, or it may have subscribed anew in between
            if same and (one.sn or 0) < (two.sn or 0) and facts.precedes(first_life, one):
                ends = facts.unsubscribes.get(str(earlier.sub), ())
                if all(facts.precedes(later, end) for end in ends) and one.mode == 2:
                    found.append(earlier)
    lost = _pick(rng, found)
    if lost is None or lost.mid is None or facts.moved_ns(lost.mid) is not None:
        return None
    gone = [event for event in history.events if event.mid == lost.mid and event.sub == lost.sub and event.op != SEND]
    return [event for event in history.events if event not in gone], lost.mid


def never_sent(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message comes from nowhere."""
    event = _pick(rng, facts.deliveries)
    if event is None or event.mid is None:
        return None
    return [each for each in history.events if each.mid != event.mid or each.op != SEND], event.mid


def too_early(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message comes before its send."""
    event = _pick(rng, [each for each in facts.deliveries if (sent := facts.sent(each.mid)) and sent.node == each.node])
    sent = facts.sent(event.mid) if event else None
    if event is None or sent is None or len([each for each in facts.deliveries if each.mid == event.mid]) > 1:
        return None
    early = replace(event, t0=sent.t0 - 20, t1=sent.t0 - 10)
    return _swap(history.events, event, early), str(event.mid)


def change(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message changes on its way."""
    event = _pick(rng, facts.deliveries)
    return None if event is None else (_swap(history.events, event, replace(event, sha="other")), str(event.mid))


def refuse(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A send is refused, and done."""
    event = _pick(rng, facts.deliveries)
    sent = facts.sent(event.mid) if event else None
    return None if sent is None else (_swap(history.events, sent, replace(sent, ok="fail")), str(sent.mid))


def double(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """Two consumers get a message at one time, and both acknowledge it."""
    first = _pick(rng, _consumed(facts))
    if first is None:
        return None
    ack = facts.consumed(first)[1][0]
    second = _stranger(first, t0=ack.t0, t1=ack.t0 + 1, redelivered=True)
    other = _stranger(ack, t0=ack.t0 + 2, t1=ack.t0 + 3)
    return [*history.events, second, other], str(first.mid)


def again(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """An acknowledged message comes again."""
    first = _pick(rng, [each for each in facts.deliveries if facts.consumed(each)[0] is Outcome.SURE])
    if first is None or facts.moved_ns(str(first.mid)) is not None or not _is_clear(history):
        return None
    end = facts.consumed(first)[1][-1]
    after = (end.t1 or 0) + 1
    second = _stranger(first, node=end.node, t0=after, t1=after + 1, redelivered=True)
    ack = _stranger(facts.consumed(first)[1][0], node=end.node, t0=after + 2, t1=after + 3)
    return [*history.events, second, ack], str(first.mid)


def share(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message is in two pairs of hands."""
    first = _pick(rng, _consumed(facts))
    if first is None or first.t1 is None or not _is_clear(history):
        return None
    second = _stranger(first, t0=first.t1 + 1, t1=first.t1 + 2, redelivered=True)
    if not all(facts.precedes(second, release) for release in facts.releases(first)):
        return None
    return [*history.events, second], str(first.mid)


def forget_flag(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A redelivery does not say so."""
    found = [
        event
        for (channel, mid), deliveries in facts.groups.items()
        for event in deliveries
        if event.redelivered and facts.proof_of_life(event, event) and facts.moved_ns(mid) is None
        if any(facts.precedes(other, event) for other in deliveries)
    ]
    event = _pick(rng, found)
    return None if event is None else (_swap(history.events, event, replace(event, redelivered=False)), str(event.mid))


def raise_flag(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A first delivery says that it is none."""
    found = [each[0] for (_, mid), each in facts.groups.items() if len(each) == 1 and facts.moved_ns(mid) is None]
    event = _pick(rng, [each for each in found if not each.redelivered])
    return None if event is None else (_swap(history.events, event, replace(event, redelivered=True)), str(event.mid))


def overtake(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """Two messages of one session change places."""
    pairs = []
    for deliveries in facts.by_consumer.values():
        firsts = [event for event in deliveries if not event.redelivered and facts.sent(event.mid)]
        for earlier, later in pairwise(firsts):
            one, two = facts.sent(earlier.mid), facts.sent(later.mid)
            if one is None or two is None or not one.dest == two.dest == earlier.dest:
                continue
            if (one.sess, one.prio, one.mode) == (two.sess, two.prio, two.mode):
                pairs.append((earlier, later))
    if not pairs:
        return None
    earlier, later = rng.choice(pairs)
    events = _swap(history.events, earlier, replace(earlier, mid=later.mid, sha=later.sha, exp=later.exp))
    return _swap(events, later, replace(later, mid=earlier.mid, sha=earlier.sha, exp=earlier.exp)), str(earlier.mid)


def expire(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message comes long after it has expired."""
    event = _pick(rng, facts.deliveries)
    if event is None:
        return None
    late = replace(event, exp=event.t0 // NS_PER_MS - 5000)
    return _swap(history.events, event, late), str(event.mid)


def show_early(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message is delivered before its transaction is committed."""
    event = _pick(rng, [each for each in facts.deliveries if (sent := facts.sent(each.mid)) and sent.tx])
    sent = facts.sent(event.mid) if event else None
    commit = facts.commit_of(sent.tx) if sent and sent.tx else None
    if event is None or event.t1 is None or commit is None or commit.node != event.node:
        return None
    others = [each.t1 or 0 for each in facts.deliveries if each.mid == event.mid]
    late = replace(commit, t0=max(others) + 1, t1=max(others) + 2)
    return _swap(history.events, commit, late), str(event.mid)


def show_rolled_back(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message is delivered that was rolled back."""
    event = _pick(rng, [each for each in facts.deliveries if (sent := facts.sent(each.mid)) and sent.tx])
    sent = facts.sent(event.mid) if event else None
    commit = facts.commit_of(sent.tx) if sent and sent.tx else None
    if event is None or commit is None:
        return None
    return _swap(history.events, commit, replace(commit, op="rollback")), str(event.mid)


def after_close(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message comes through what was closed."""
    closed = [each for each in history.events if each.op == CLOSE and each.ok == OK and each.t1]
    end = _pick(rng, closed)
    places = () if end is None else [
        each
        for each in facts.deliveries
        if (end.consumer or end.sess or end.conn) in {each.consumer, each.sess, each.conn}
    ]  # fmt: skip
    event = _pick(rng, places)
    if end is None or event is None or end.t1 is None:
        return None
    late = replace(event, t0=end.t1 + 1, t1=end.t1 + 2, dn=1000, redelivered=True)
    return [*history.events, late], str(event.mid)


def after_unsubscribe(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A deleted subscription goes on."""
    ends = [each for each in history.events if each.op == UNSUBSCRIBE and each.ok == OK]
    end = _pick(rng, ends)
    events = [each for each in facts.deliveries if end is not None and each.sub == end.sub]
    event = _pick(rng, [each for each in events if end is not None and facts.precedes(each, end)])
    if end is None or event is None or end.t1 is None:
        return None
    late = replace(event, t0=end.t1 + 1, t1=end.t1 + 2, dn=1000, redelivered=True)
    return [*history.events, late], str(event.mid)


def own_message(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A subscription that leaves out its own connection's messages delivers one."""
    own = [each for each in facts.deliveries if each.sub and (sent := facts.sent(each.mid)) and sent.conn == each.conn]
    event = _pick(rng, own)
    begun = facts.subscribes.get(str(event.consumer)) if event else None
    if event is None or begun is None:
        return None
    return _swap(history.events, begun, replace(begun, note='{"durable":false,"no_local":true}')), str(event.mid)


def misselect(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A message comes that its consumer did not select."""
    event = _pick(rng, [each for each in facts.deliveries if each.note])
    if event is None or event.note is None:
        return None
    note = json.loads(event.note)
    note["properties"]["number"] = ["int", "1"]
    return _swap(history.events, event, replace(event, note=json.dumps(note))), str(event.mid)


def slight(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A more urgent message waits."""
    found = []
    for deliveries in facts.by_consumer.values():
        for lower, higher in pairwise(deliveries):
            sent = facts.sent(higher.mid)
            shown = facts.surely_sent(sent) if sent else ()
            if shown and facts.precedes(shown[-1], lower) and not lower.redelivered and not higher.redelivered:
                found.append(higher)
    event = _pick(rng, found)
    return None if event is None else (_swap(history.events, event, replace(event, prio=9)), str(event.mid))


def hasten(history: RandomHistory, facts: Facts, rng: Random) -> Planted | None:
    """A broker lets go of a message as expired while it has time left."""
    sent = _pick(rng, [event for event in history.events if event.op == SEND and event.t1 is not None])
    if sent is None or sent.t1 is None:
        return None
    place: dict[str, Any] = dict.fromkeys(("conn", "sess", "mode", "prio", "sn", "tx", "sha", "note"))
    exp = (sent.t1 + 5) // NS_PER_MS + 5000
    early = replace(sent, op=EXPIRE, ok=OK, t0=sent.t1 + 1, t1=sent.t1 + 5, n=1, exp=exp, **place)
    return [*history.events, early], str(sent.mid)


PLANTS: dict[str, tuple[Plant, ...]] = {
    "lost": (lose, skip),
    "lost-nonpersistent": (lose_nonpersistent,),
    "phantom": (never_sent,),
    "before-send": (too_early,),
    "corrupt": (change,),
    "refused-but-delivered": (refuse,),
    "duplicated": (double,),
    "delivered-after-ack": (again,),
    "two-holders": (share,),
    "redelivered-without-flag": (forget_flag,),
    "flag-without-delivery": (raise_flag,),
    "reordered": (overtake,),
    "after-expiry": (expire,),
    "expired-early": (hasten,),
    "uncommitted-visible": (show_early,),
    "rolled-back-visible": (show_rolled_back,),
    "after-close": (after_close,),
    "after-unsubscribe": (after_unsubscribe,),
    "no-local": (own_message,),
    "selector": (misselect,),
    "priority": (slight,),
}
