"""Nothing is delivered after close, nor by a subscription that was deleted."""

from __future__ import annotations

from collections.abc import Iterator

from pyjms.history.events import OK
from pyjms.history.facts import Facts
from pyjms.history.findings import Finding, finding


def check_endings(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries whose call began after the end of what they came through."""
    for event in facts.deliveries:
        places = (event.consumer, event.sess, event.conn)
        ends = [end for place in places for end in facts.closes(place) if end.ok == OK and facts.precedes(end, event)]
        if ends:
            yield finding("after-close", [ends[0], event], mid=event.mid, dest=event.dest, consumer=event.consumer)
        begun = facts.subscribes.get(event.consumer or "")
        for end in facts.unsubscribes.get(event.sub or "", ()):
            if end.ok == OK and begun is not None and facts.precedes(begun, end) and facts.precedes(end, event):
                yield finding("after-unsubscribe", [begun, end, event], mid=event.mid, dest=event.dest)
                break
