"""A queue or subscription gives each message to be consumed once: consumed twice, delivered after its acknowledgement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyjms.history.events import Event
from pyjms.history.facts import Channel, Facts, Outcome
from pyjms.history.findings import Finding, finding


def check_duplicates(facts: Facts) -> Iterator[Finding]:
    """Yield messages that came again after their acknowledgement, or were acknowledged twice."""
    for (channel, mid), deliveries in facts.groups.items():
        if len(deliveries) > 1:
            yield from _twice(facts, channel, mid, deliveries)


def _twice(facts: Facts, channel: Channel, mid: str, deliveries: Sequence[Event]) -> Iterator[Finding]:
    consumed = [(held, how) for held in deliveries for sure, how in (facts.consumed(held),) if sure is Outcome.SURE]
    if not consumed:
        return
    first, how = min(consumed, key=lambda pair: pair[1][-1].t1 or 0)
    moved_ns = facts.moved_ns(mid) if _is_home(facts, channel, mid) else None
    told = [first]
    for later in deliveries:
        if moved_ns is not None and later.t0 > moved_ns:
            told.append(later)  # put back by hand: another life
        elif facts.precedes(how[-1], later) and (proof := facts.proof_of_life(later, later)) is not None:
            told.append(later)
            yield finding("delivered-after-ack", [first, *how, later, proof], mid=mid, dest=channel.dest)
    for other, its in consumed:
        if other not in told:
            yield finding("duplicated", [first, *how, other, *its], mid=mid, dest=channel.dest)


def _is_home(facts: Facts, channel: Channel, mid: str) -> bool:
    sent = facts.sent(mid)
    return sent is not None and sent.dest == channel.dest
