"""What comes again says so: JMSRedelivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyjms.history.events import Event
from pyjms.history.facts import Channel, Facts
from pyjms.history.findings import Finding, finding

__all__ = ["check_flags"]


def check_flags(facts: Facts) -> Iterator[Finding]:
    """Yield second deliveries without the flag, and flags without a first delivery."""
    for (channel, mid), deliveries in facts.groups.items():
        for event in deliveries:
            found = _flag(facts, channel, mid, event, deliveries)
            if found is not None:
                yield found


def _flag(facts: Facts, channel: Channel, mid: str, event: Event, deliveries: Sequence[Event]) -> Finding | None:
    if event.redelivered is False:
        moved_ns = facts.moved_ns(mid)
        if moved_ns is not None and event.t0 > moved_ns and not _is_away(facts, channel, mid):
            return None  # put back by hand, as a new message
        earlier = [other for other in deliveries if facts.precedes(other, event)]
        proof = facts.proof_of_life(event, event) if earlier else None
        if proof is not None:
            return finding("redelivered-without-flag", [earlier[-1], event, proof], mid=mid, dest=channel.dest)
        return None
    is_first = all(other is event or (event.t1 or event.t0) < other.t0 for other in deliveries)
    if event.redelivered and is_first and not _is_away(facts, channel, mid):
        return finding("flag-without-delivery", [event], mid=mid, dest=channel.dest)
    return None


def _is_away(facts: Facts, channel: Channel, mid: str) -> bool:
    """Say whether the channel is another one than the message was sent to: a queue of dead letters."""
    sent = facts.sent(mid)
    return sent is not None and sent.dest != channel.dest
