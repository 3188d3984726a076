"""What comes again says so: JMSRedelivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyjms.history.events import Event
from pyjms.history.facts import Channel, Facts
from pyjms.history.findings import Finding, finding


def check_flags(facts: Facts) -> Iterator[Finding]:
    """Yield second deliveries without the flag, and flags without a first delivery."""
    for (channel, mid), deliveries in facts.groups.items():
        for place in range(len(deliveries)):
            found = _flag(facts, channel, mid, place, deliveries)
            if found is not None:
                yield found


def _flag(facts: Facts, channel: Channel, mid: str, place: int, deliveries: Sequence[Event]) -> Finding | None:
    event = deliveries[place]
    if event.redelivered is False:
        moved_ns = facts.moved_ns(mid)
        if moved_ns is not None and event.t0 > moved_ns and not _is_away(facts, channel, mid):
            return None  # put back by hand, as a new message
        before = (deliveries[at] for at in range(place - 1, -1, -1))
        earlier = next((other for other in before if facts.precedes(other, event)), None)
        proof = None if earlier is None else facts.proof_of_life(event, event)
        if earlier is not None and proof is not None:
            return finding("redelivered-without-flag", [earlier, event, proof], mid=mid, dest=channel.dest)
        return None
    is_first = all(other is event or (event.t1 or event.t0) < other.t0 for other in deliveries)
    if event.redelivered and is_first and not _is_away(facts, channel, mid):
        return finding("flag-without-delivery", [event], mid=mid, dest=channel.dest)
    return None


def _is_away(facts: Facts, channel: Channel, mid: str) -> bool:
    """Say whether the channel is another one than the message was sent to: a queue of dead letters."""
    sent = facts.sent(mid)
    return sent is not None and sent.dest != channel.dest
