"""Messages that were delivered must have been sent, and as they were sent: phantom, before-send, corrupt, refused, moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from pyjms.history.events import FAIL, Event
from pyjms.history.facts import Facts, is_queue
from pyjms.history.findings import Finding, finding


def check_origins(facts: Facts) -> Iterator[Finding]:
    """Yield what came without having been sent, otherwise than it was sent, or elsewhere."""
    told: set[tuple[str, str | None, str]] = set()
    for event in chain(facts.deliveries, facts.seen):
        if event.mid is None:
            continue
        for found in _origin(facts, event):
            key = (event.mid, event.dest, found.rule)
            if key not in told:
                told.add(key)
                yield found
    yield from _without_id(facts)


def _origin(facts: Facts, event: Event) -> Iterator[Finding]:
    mid, dest = event.mid, event.dest
    sends = facts.sends.get(mid or "", ())
    if not sends:
        yield finding("phantom", [event], mid=mid, dest=dest)
        return
    if all(facts.precedes(event, sent) for sent in sends):
        yield finding("before-send", [event, sends[0]], mid=mid, dest=dest)
    if all(sent.ok == FAIL for sent in sends):
        yield finding("refused-but-delivered", [sends[0], event], mid=mid, dest=dest)
    if event.sha is not None and all(sent.sha not in {None, event.sha} for sent in sends):
        yield finding("corrupt", [sends[0], event], mid=mid, dest=dest)
    if is_queue(dest) and all(sent.dest != dest for sent in sends):
        yield finding("moved", [sends[0], event], mid=mid, dest=dest, sent_to=sends[0].dest)


def _without_id(facts: Facts) -> Iterator[Finding]:
    nameless = [event for event in facts.deliveries if event.mid is None]
    for dest, number in Counter(event.dest for event in nameless).items():
        example = next(event for event in nameless if event.dest == dest)
        yield finding("without-id", [example], mid=None, dest=dest, number=number)
